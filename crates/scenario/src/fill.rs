//! Assigns the addresses of routers and the default routes of hosts that a file omits.
//!
//! Written values are kept, so a complete scenario is not changed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    address::{default_route, why_unusable},
    domain::{Domains, Port, Station, is_joined},
    types::{Cidr, Scenario, StaticRoute},
};

/// For networks between routers with IPv4: the shared address space of RFC 6598, which users' networks should
/// not use.
const BETWEEN_V4: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);
const BETWEEN_V4_BITS: u32 = 22;
/// For networks between routers with IPv6: from the unique local addresses of RFC 4193.
const BETWEEN_V6: Ipv6Addr = Ipv6Addr::new(0xfd64, 0, 0, 0, 0, 0, 0, 0);
/// Maximum number of addresses that are tried in a network.
const MAX_TRIES: u128 = 100_000;

/// The two IP versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IpFamily {
    V4,
    V6,
}

impl IpFamily {
    fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == IpFamily::V4)
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
        for family in [IpFamily::V4, IpFamily::V6] {
            fill_default_route(scenario, &domains, host, family);
        }
    }
}

/// The IP versions that a domain's routers need: those of its hosts, or without hosts those of all hosts.
fn families(scenario: &Scenario, ports: &[Port]) -> Vec<IpFamily> {
    let hosts = |port: &&Port| matches!(port.station, Station::Host(_));
    let host_networks: Vec<Cidr> =
        ports.iter().filter(hosts).flat_map(|p| p.addresses(scenario)).copied().collect();
    let anywhere = || scenario.hosts.iter().flat_map(|h| &h.interfaces).flat_map(|i| i.addresses.clone());
    let used: Vec<Cidr> = if host_networks.is_empty() { anywhere().collect() } else { host_networks };
    [IpFamily::V4, IpFamily::V6].into_iter().filter(|f| used.iter().any(|a| f.has(a.address))).collect()
}

fn fill_domain(scenario: &mut Scenario, ports: &[Port], family: IpFamily, between: &mut u128) {
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
        // If no address is free, the interface has none, and validation reports it.
        let Some(address) = free_address(scenario, network, order) else { return };
        if let Station::Router(router) = port.station {
            let addresses = &mut scenario.routers[router].interfaces[port.interface].addresses;
            addresses.push(Cidr { address, prefix: network.prefix });
        }
    }
}

/// The next unused network between routers that is large enough for this number of ports.
fn block(scenario: &Scenario, family: IpFamily, ports: usize, between: &mut u128) -> Option<Cidr> {
    // Hosts cannot have the network's and the broadcast address.
    let size = (ports as u128 + 2).next_power_of_two().max(4);
    let bits = size.trailing_zeros() as u8;
    loop {
        let offset = between.next_multiple_of(size);
        if offset + size > 1 << BETWEEN_V4_BITS {
            return None;
        }
        *between = offset + size;
        let network = match family {
            IpFamily::V4 => Cidr {
                address: Ipv4Addr::from(u32::from(BETWEEN_V4) + offset as u32).into(),
                prefix: 32 - bits,
            },
            IpFamily::V6 => {
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

/// An unused address of `network`.
fn free_address(scenario: &Scenario, network: Cidr, order: Order) -> Option<IpAddr> {
    let (first, last) = (number(network.first()), number(network.last()));
    (0..=(last - first).min(MAX_TRIES))
        .map(|i| match order {
            Order::FromTheTop => last - i,
            Order::FromTheBottom => first + i,
        })
        // The first address of an IPv6 network belongs to all its routers (anycast, RFC 4291 section 2.6.1).
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

/// All addresses in use.
pub(crate) fn all_addresses(scenario: &Scenario) -> impl Iterator<Item = Cidr> + '_ {
    let hosts = scenario.hosts.iter().flat_map(|h| &h.interfaces);
    let routers = scenario.routers.iter().flat_map(|r| &r.interfaces);
    hosts.chain(routers).flat_map(|i| i.addresses.iter().copied())
}

/// Adds a default route by the first neighbouring router, if hosts in other networks exist.
fn fill_default_route(scenario: &mut Scenario, domains: &Domains, host: usize, family: IpFamily) {
    let this = &scenario.hosts[host];
    let own: Vec<Cidr> = this.interfaces.iter().flat_map(|i| i.addresses.clone()).collect();
    let own: Vec<Cidr> = own.into_iter().filter(|a| family.has(a.address)).collect();
    let has_default = this.routes.iter().any(|r| r.to.prefix == 0 && family.has(r.to.address));
    let is_remote = |address: IpAddr| family.has(address) && !own.iter().any(|a| a.contains(address));
    let others = scenario.hosts.iter().flat_map(|h| &h.interfaces).flat_map(|i| &i.addresses);
    if own.is_empty() || has_default || !others.into_iter().any(|a| is_remote(a.address)) {
        return;
    }
    let adjacent_router = |port: Port| {
        let routers = domains.of_link(port.link).iter().filter(|p| matches!(p.station, Station::Router(_)));
        let mut addresses = routers.flat_map(|p| p.addresses(scenario)).map(|a| a.address);
        let networks = port.addresses(scenario);
        addresses.find(|a| networks.iter().any(|n| n.contains(*a)) && family.has(*a))
    };
    let via = Station::Host(host).ports(scenario).find_map(adjacent_router);
    if let Some(via) = via {
        scenario.hosts[host].routes.push(StaticRoute { to: default_route(via), via });
    }
}
