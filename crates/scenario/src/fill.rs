//! Fills in what a file leaves out between routers and hosts: routers' addresses and hosts' default routes.
//!
//! Whatever is written stays as it is, so a scenario that is complete is not changed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    address::{default_route, why_unusable},
    domain::{Domains, Port, Station, is_joined},
    types::{Cidr, Scenario, StaticRoute},
};

/// Networks between routers: the shared address space of RFC 6598, which no user's own network should have.
const BETWEEN_V4: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
const BETWEEN_V4_BITS: u32 = 22;
/// The same for IPv6: of the unique local addresses of RFC 4193.
const BETWEEN_V6: Ipv6Addr = Ipv6Addr::new(0xfd64, 0, 0, 0, 0, 0, 0, 0);
/// Addresses tried in a network until none is taken for free.
const TRIES: u128 = 100_000;

/// The two IP versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Family::V4)
    }
}

/// Fills in the addresses of router interfaces and the default routes of hosts.
pub(crate) fn fill(scenario: &mut Scenario) {
    if scenario.routers.is_empty() || !scenario.links.iter().all(|link| is_joined(scenario, link)) {
        return;
    }
    let domains = Domains::of(scenario);
    let mut between = 0;
    for ports in &domains.ports {
        for family in families(scenario, ports) {
            fill_domain(scenario, ports, family, &mut between);
        }
    }
    for host in 0..scenario.hosts.len() {
        for family in [Family::V4, Family::V6] {
            fill_default_route(scenario, &domains, host, family);
        }
    }
}

/// The families that a domain's routers need: those of its hosts, else those of all hosts.
fn families(scenario: &Scenario, ports: &[Port]) -> Vec<Family> {
    let hosts = |port: &&Port| matches!(port.station, Station::Host(_));
    let here: Vec<Cidr> = ports.iter().filter(hosts).flat_map(|p| p.addresses(scenario)).copied().collect();
    let anywhere = || scenario.hosts.iter().flat_map(|h| &h.interfaces).flat_map(|i| i.addresses.clone());
    let used: Vec<Cidr> = if here.is_empty() { anywhere().collect() } else { here };
    [Family::V4, Family::V6].into_iter().filter(|f| used.iter().any(|a| f.has(a.address))).collect()
}

fn fill_domain(scenario: &mut Scenario, ports: &[Port], family: Family, between: &mut u128) {
    let lacks = |port: &&Port| {
        matches!(port.station, Station::Router(_))
            && !port.addresses(scenario).iter().any(|a| family.has(a.address))
    };
    let lacking: Vec<Port> = ports.iter().filter(lacks).copied().collect();
    if lacking.is_empty() {
        return;
    }
    let known = ports.iter().flat_map(|p| p.addresses(scenario)).find(|a| family.has(a.address)).copied();
    let (network, order) = match known {
        Some(network) => (Some(network), Order::FromTheTop),
        None => (block(scenario, family, ports.len(), between), Order::FromTheBottom),
    };
    let Some(network) = network else { return };
    for port in lacking {
        // Where none is free the interface stays without, and validation says so.
        let Some(address) = free_address(scenario, network, order) else { return };
        if let Station::Router(router) = port.station {
            let addresses = &mut scenario.routers[router].interfaces[port.interface].addresses;
            addresses.push(Cidr { address, prefix: network.prefix });
        }
    }
}

/// The next network between routers with room for `ports`, beside all that is in use.
fn block(scenario: &Scenario, family: Family, ports: usize, between: &mut u128) -> Option<Cidr> {
    // The network's and the broadcast address are nobody's.
    let size = (ports as u128 + 2).next_power_of_two().max(4);
    let bits = size.trailing_zeros() as u8;
    loop {
        let offset = between.next_multiple_of(size);
        if offset + size > 1 << BETWEEN_V4_BITS {
            return None;
        }
        *between = offset + size;
        let network = match family {
            Family::V4 => Cidr {
                address: Ipv4Addr::from(u32::from(BETWEEN_V4) + offset as u32).into(),
                prefix: 32 - bits,
            },
            Family::V6 => {
                Cidr { address: Ipv6Addr::from(u128::from(BETWEEN_V6) + offset).into(), prefix: 128 - bits }
            }
        };
        if !all_addresses(scenario).any(|used| used.overlaps(&network)) {
            return Some(network);
        }
    }
}

#[derive(Clone, Copy)]
enum Order {
    FromTheTop,
    FromTheBottom,
}

/// An address of `network` that nothing has.
fn free_address(scenario: &Scenario, network: Cidr, order: Order) -> Option<IpAddr> {
    let (first, last) = (number(network.first()), number(network.last()));
    (0..=(last - first).min(TRIES))
        .map(|i| match order {
            Order::FromTheTop => last - i,
            Order::FromTheBottom => first + i,
        })
        // The first address of an IPv6 network is that of any of its routers (RFC 4291 section 2.6.1).
        .filter(|n| network.address.is_ipv4() || *n != first || first == last)
        .map(|n| match network.address {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from(n as u32)),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from(n)),
        })
        .filter(|address| why_unusable(*address, network.prefix).is_none())
        .find(|address| !all_addresses(scenario).any(|used| used.address == *address))
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => u32::from(a).into(),
        IpAddr::V6(a) => a.into(),
    }
}

/// Every address in use.
pub(crate) fn all_addresses(scenario: &Scenario) -> impl Iterator<Item = Cidr> + '_ {
    let hosts = scenario.hosts.iter().flat_map(|h| &h.interfaces);
    let routers = scenario.routers.iter().flat_map(|r| &r.interfaces);
    hosts.chain(routers).flat_map(|i| i.addresses.iter().copied())
}

/// Where a host has a router beside it and other hosts beyond: the first router is the default.
fn fill_default_route(scenario: &mut Scenario, domains: &Domains, host: usize, family: Family) {
    let this = &scenario.hosts[host];
    let own: Vec<Cidr> = this.interfaces.iter().flat_map(|i| i.addresses.clone()).collect();
    let own: Vec<Cidr> = own.into_iter().filter(|a| family.has(a.address)).collect();
    let has_default = this.routes.iter().any(|r| r.to.prefix == 0 && family.has(r.to.address));
    let beyond = |address: IpAddr| family.has(address) && !own.iter().any(|a| a.contains(address));
    let others = scenario.hosts.iter().flat_map(|h| &h.interfaces).flat_map(|i| &i.addresses);
    if own.is_empty() || has_default || !others.into_iter().any(|a| beyond(a.address)) {
        return;
    }
    let router_beside = |port: Port| {
        let beside = domains.of_link(port.link).iter().filter(|p| matches!(p.station, Station::Router(_)));
        let mut addresses = beside.flat_map(|p| p.addresses(scenario)).map(|a| a.address);
        let networks = port.addresses(scenario);
        addresses.find(|a| networks.iter().any(|n| n.contains(*a)) && family.has(*a))
    };
    let via = Station::Host(host).ports(scenario).find_map(router_beside);
    if let Some(via) = via {
        scenario.hosts[host].routes.push(StaticRoute { to: default_route(via), via });
    }
}
