//! Checks addresses: each is used once, networks do not overlap across routers, next hops are in a connected
//! network.

use crate::{
    domain::{Domains, Port, Station, stations},
    error::Problems,
    tree::{
        FILE_START, Span,
        Step::{Index, Key},
        Table,
    },
    types::{Cidr, Scenario, StaticRoute},
};

/// Smallest MTU of IPv6 (RFC 8200 section 5).
const MIN_MTU_IPV6: u32 = 1280;

/// Reports mistakes in the addresses of `scenario`, which was decoded from `root`.
pub(crate) fn check_addresses(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    check_each_once(scenario, root, problems);
    for host in &scenario.hosts {
        let addresses = host.interfaces.iter().flat_map(|i| &i.addresses);
        if addresses.into_iter().any(|a| a.address.is_ipv6()) && host.mtu < MIN_MTU_IPV6 {
            let span = root.span_at(&[Key("hosts"), Key(&host.name), Key("mtu")]).unwrap_or(FILE_START);
            let message = format!("IPv6 does not work with an MTU of {}", host.mtu);
            problems.add_help(span, message, format!("write at least {MIN_MTU_IPV6}"));
        }
    }
}

/// Reports mistakes between networks. The ends of all links must exist.
pub(crate) fn check_networks(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let domains = Domains::of(scenario);
    check_routers_have_addresses(scenario, root, problems);
    check_overlaps(scenario, root, &domains, problems);
    for station in stations(scenario) {
        check_next_hops(scenario, root, station, problems);
    }
}

fn check_each_once(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    let mut seen: Vec<(Station, Cidr)> = Vec::new();
    for station in stations(scenario) {
        for (i, interface) in station.interfaces(scenario).iter().enumerate() {
            for address in &interface.addresses {
                let span = address_span(scenario, root, station, i);
                if let Some((other, _)) = seen.iter().find(|(_, a)| a.address == address.address) {
                    let message =
                        format!("{} already has the address {}", other.name(scenario), address.address);
                    problems.add_help(span, message, "give each host a different address");
                }
                seen.push((station, *address));
            }
        }
    }
}

/// `fill.rs` has given every router's interface an address, unless its network is full.
fn check_routers_have_addresses(scenario: &Scenario, root: &Table, problems: &mut Problems) {
    if scenario.hosts.is_empty() {
        return;
    }
    for router in &scenario.routers {
        if let Some(i) = router.interfaces.iter().position(|i| i.addresses.is_empty()) {
            let span = root.span_at(&[Key("routers"), Key(&router.name)]).unwrap_or(FILE_START);
            let message = format!("no address is free for {}-eth{i} in its network", router.name);
            problems.add_help(
                span,
                message,
                "give the hosts there a larger network, or this interface an address",
            );
        }
    }
}

/// Domains that routers join must not have overlapping networks.
fn check_overlaps(scenario: &Scenario, root: &Table, domains: &Domains, problems: &mut Problems) {
    if scenario.routers.is_empty() {
        return;
    }
    let joined = joined_by_routers(scenario, domains);
    let mut seen: Vec<(usize, Port, Cidr)> = Vec::new();
    for (domain, ports) in domains.ports.iter().enumerate() {
        for port in ports {
            for network in port.addresses(scenario) {
                let clash = seen.iter().find(|(other, _, n)| {
                    *other != domain && joined[*other] == joined[domain] && n.overlaps(network)
                });
                if let Some((_, other, theirs)) = clash {
                    let message = format!(
                        "{} of {} and {} of {} overlap, with a router between them",
                        network,
                        port.station.name(scenario),
                        theirs,
                        other.station.name(scenario)
                    );
                    let span = address_span(scenario, root, port.station, port.interface);
                    problems.add_help(span, message, "give each side of the router a different network");
                    return;
                }
                seen.push((domain, *port, *network));
            }
        }
    }
}

/// For each domain the lowest domain of its group, which routers join.
fn joined_by_routers(scenario: &Scenario, domains: &Domains) -> Vec<usize> {
    let mut group: Vec<usize> = (0..domains.ports.len()).collect();
    for router in 0..scenario.routers.len() {
        let ports = Station::Router(router).ports(scenario);
        let neighbours: Vec<usize> = ports.map(|p| group[domains.number(p.link)]).collect();
        let Some(lowest) = neighbours.iter().min().copied() else { continue };
        group.iter_mut().filter(|g| neighbours.contains(g)).for_each(|g| *g = lowest);
    }
    group
}

fn check_next_hops(scenario: &Scenario, root: &Table, station: Station, problems: &mut Problems) {
    let routes: &[StaticRoute] = match station {
        Station::Host(i) => &scenario.hosts[i].routes,
        Station::Router(i) => &scenario.routers[i].routes,
    };
    let interfaces = station.interfaces(scenario);
    for route in routes {
        if interfaces.iter().flat_map(|i| &i.addresses).any(|n| n.contains(route.via)) {
            continue;
        }
        let (key, name) = (key_of(station), station.name(scenario));
        let message = format!("{name} has no network with the next hop {}", route.via);
        let help = "write the address of a router in one of its networks";
        problems.add_help(route_span(root, key, name, route), message, help);
    }
}

/// The span of the route's `via`, or of the gateway that it comes from.
fn route_span(root: &Table, key: &str, name: &str, route: &StaticRoute) -> Span {
    let table = root.get(key).and_then(|n| n.table()).and_then(|t| t.get(name)).and_then(|n| n.table());
    let is_this = |text: Option<&str>| text.and_then(|t| t.parse().ok()) == Some(route.via);
    let written = table.map_or(&[][..], |t| t.items("routes")).iter().filter_map(|r| r.table()?.get("via"));
    let gateway = table.and_then(|t| t.get("gateway"));
    let gateways = gateway.map_or(&[][..], |g| g.list().unwrap_or(std::slice::from_ref(g)));
    let mut nodes = written.chain(gateways).filter(|node| is_this(node.text()));
    nodes.next().map(|node| node.span).or_else(|| root.span_at(&[Key(key), Key(name)])).unwrap_or(FILE_START)
}

fn key_of(station: Station) -> &'static str {
    match station {
        Station::Host(_) => "hosts",
        Station::Router(_) => "routers",
    }
}

/// The span of an interface's addresses, or else of its host or router.
fn address_span(scenario: &Scenario, root: &Table, station: Station, interface: usize) -> Span {
    let (key, name) = (key_of(station), station.name(scenario));
    let table = root.get(key).and_then(|n| n.table()).and_then(|t| t.get(name));
    let inner = table.and_then(|n| n.table());
    let short = format!("eth{interface}");
    let full = format!("{name}-{short}");
    let interfaces = inner.and_then(|t| t.get("interfaces")).and_then(|n| n.table());
    let by_name = interfaces.and_then(|t| t.get(&short).or_else(|| t.get(&full)));
    let address = inner.and_then(|t| t.get("address")).filter(|_| interface == 0);
    let port = inner.and_then(|t| t.get("ports"));
    let found = by_name.or(address).or(port).or(table).map(|n| n.span);
    found.or_else(|| root.span_at(&[Key(key), Index(0)])).unwrap_or(FILE_START)
}
