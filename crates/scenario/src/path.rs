//! The path of packets through a scenario. Over switches it has the fewest hops. Between networks it follows
//! the static routes of hosts and routers, and where a router has none, again the fewest hops.

use std::{collections::VecDeque, net::IpAddr};

use net::Direction;

use crate::{
    domain::{Domains, Port, Station, is_joined},
    types::{FlowSpec, Host, Scenario},
};

/// One link of a path and the direction in which it is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PathHop {
    /// Index into [`Scenario::links`].
    pub link: usize,
    /// The direction in which the link is crossed.
    pub direction: Direction,
}

impl Scenario {
    /// The hops from the host `from` to the host `to`. If several paths have the fewest hops, the first in
    /// the links' order is taken. Static routes determine the routers on it.
    ///
    /// `None` without a path, or if routes form a loop. Hosts never forward, so they are only ends of paths.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<PathHop>> {
        let position = |name: &str| self.hosts.iter().position(|h| h.name == name);
        let (start, end) = (position(from)?, position(to)?);
        if start == end {
            return Some(Vec::new());
        }
        if !self.links.iter().all(|link| is_joined(self, link)) {
            return None;
        }
        let (_, address) = common_addresses(&self.hosts[start], &self.hosts[end])?;
        let walk = RouteWalk { scenario: self, domains: Domains::of(self), address, end: Station::Host(end) };
        walk.from(Station::Host(start))
    }

    /// The addresses that a flow uses: the first of each end's first interface, or if these have different IP
    /// versions, the first of a version that both have. `None` without a common version or with an unknown
    /// end.
    pub fn flow_addresses(&self, flow: &FlowSpec) -> Option<(IpAddr, IpAddr)> {
        common_addresses(self.host(&flow.from)?, self.host(&flow.to)?)
    }
}

fn common_addresses(from: &Host, to: &Host) -> Option<(IpAddr, IpAddr)> {
    let addresses = |host: &Host| -> Vec<IpAddr> {
        host.interfaces.first().into_iter().flat_map(|i| &i.addresses).map(|a| a.address).collect()
    };
    let theirs = addresses(to);
    addresses(from).into_iter().find_map(|own| {
        let partner = theirs.iter().find(|other| other.is_ipv4() == own.is_ipv4())?;
        Some((own, *partner))
    })
}

/// The next hop of a packet at a station.
enum NextHop {
    /// It leaves by the first port and reaches the second without a router.
    Neighbour(Port, Port),
    /// The station has no route for it.
    NoRoute,
    /// No station has the next hop's address.
    Unreachable,
}

/// Follows a packet to one address.
struct RouteWalk<'a> {
    scenario: &'a Scenario,
    domains: Domains,
    address: IpAddr,
    end: Station,
}

impl RouteWalk<'_> {
    fn from(&self, start: Station) -> Option<Vec<PathHop>> {
        let mut hops = Vec::new();
        let mut at = start;
        // At most one part per router, and one from the host: a router that is passed twice is a routing
        // loop.
        for _ in 0..=self.scenario.routers.len() {
            let (part, reached) = match self.next(at) {
                NextHop::Neighbour(from, to) => (self.search(from, Crossing::Switches, to)?, to.station),
                NextHop::NoRoute if matches!(at, Station::Router(_)) => self.towards_end(at)?,
                _ => return None,
            };
            hops.extend(part);
            if reached == self.end {
                return Some(hops);
            }
            if matches!(reached, Station::Host(_)) {
                return None;
            }
            at = reached;
        }
        None
    }

    /// The longest prefix matches; among equal ones the network of an interface, then the first route in the
    /// file.
    fn next(&self, at: Station) -> NextHop {
        let scenario = self.scenario;
        let ports: Vec<Port> = at.ports(scenario).collect();
        let connected = ports.iter().flat_map(|port| {
            let networks = port.addresses(scenario).iter().filter(|n| n.contains(self.address));
            networks.map(|n| (n.prefix, *port, self.address))
        });
        let routes = match at {
            Station::Host(i) => &scenario.hosts[i].routes,
            Station::Router(i) => &scenario.routers[i].routes,
        };
        let static_routes = routes.iter().filter(|r| r.to.contains(self.address)).filter_map(|route| {
            let of = |port: &&Port| port.addresses(scenario).iter().any(|n| n.contains(route.via));
            Some((route.to.prefix, *ports.iter().find(of)?, route.via))
        });
        let mut best: Option<(u8, Port, IpAddr)> = None;
        for candidate in connected.chain(static_routes) {
            if best.is_none_or(|(prefix, ..)| candidate.0 > prefix) {
                best = Some(candidate);
            }
        }
        let Some((_, port, via)) = best else { return NextHop::NoRoute };
        let has = |p: &&Port| p.addresses(scenario).iter().any(|a| a.address == via);
        match self.domains.of_link(port.link).iter().find(has) {
            Some(neighbour) if via == self.address && matches!(at, Station::Router(_)) => {
                NextHop::Neighbour(self.nearest(&ports, *neighbour).unwrap_or(port), *neighbour)
            }
            Some(neighbour) => NextHop::Neighbour(port, *neighbour),
            None => NextHop::Unreachable,
        }
    }

    /// The first port with the fewest hops over switches. Routers use it whatever its address; a host's
    /// kernel uses the first port of the network.
    fn nearest(&self, ports: &[Port], to: Port) -> Option<Port> {
        let in_domain = |port: &&Port| self.domains.number(port.link) == self.domains.number(to.link);
        let hops = |port: &Port| Some((self.search(*port, Crossing::Switches, to)?.len(), *port));
        ports.iter().filter(in_domain).filter_map(hops).min_by_key(|found| found.0).map(|found| found.1)
    }

    /// The path with the fewest hops over switches and routers, up to the next router.
    fn towards_end(&self, at: Station) -> Option<(Vec<PathHop>, Station)> {
        let last = self.end.ports(self.scenario).next()?;
        let paths = at.ports(self.scenario).filter_map(|port| self.search(port, Crossing::Routers, last));
        let mut best: Option<Vec<PathHop>> = None;
        for path in paths {
            if best.as_ref().is_none_or(|b| path.len() < b.len()) {
                best = Some(path);
            }
        }
        let path = best?;
        for (i, hop) in path.iter().enumerate() {
            let link = &self.scenario.links[hop.link];
            let reached = link.receiver(hop.direction);
            if let Some(router) = self.scenario.routers.iter().position(|r| r.name == reached) {
                return Some((path[..=i].to_vec(), Station::Router(router)));
            }
        }
        Some((path, self.end))
    }

    /// The fewest hops out of one port and into another by breadth-first search; the links' order breaks
    /// ties.
    fn search(&self, from: Port, crossing: Crossing, to: Port) -> Option<Vec<PathHop>> {
        let scenario = self.scenario;
        let goal = to.station.name(scenario);
        let mut reached: Vec<(&str, Option<(usize, PathHop)>)> = vec![(from.station.name(scenario), None)];
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            let node = reached[at].0;
            if node == goal {
                return Some(walk_back(&reached, at));
            }
            if at != 0 && !crossing.passes(node, scenario) {
                continue;
            }
            for (link, l) in scenario.links.iter().enumerate() {
                let leads_away = |direction: &Direction| l.sender(*direction) == node;
                let Some(direction) = Direction::BOTH.into_iter().find(leads_away) else { continue };
                let next = l.receiver(direction);
                let is_wrong_port = (at == 0 && link != from.link) || (next == goal && link != to.link);
                if !is_wrong_port && reached.iter().all(|(n, _)| *n != next) {
                    queue.push_back(reached.len());
                    reached.push((next, Some((at, PathHop { link, direction }))));
                }
            }
        }
        None
    }
}

/// The nodes that a search may pass.
#[derive(Clone, Copy)]
enum Crossing {
    Switches,
    Routers,
}

impl Crossing {
    fn passes(self, node: &str, scenario: &Scenario) -> bool {
        match self {
            Crossing::Switches => scenario.switches.iter().any(|s| s == node),
            Crossing::Routers => scenario.host(node).is_none(),
        }
    }
}

fn walk_back(reached: &[(&str, Option<(usize, PathHop)>)], mut at: usize) -> Vec<PathHop> {
    let mut hops = Vec::new();
    while let Some((before, hop)) = reached[at].1 {
        hops.push(hop);
        at = before;
    }
    hops.reverse();
    hops
}

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;
    use net::PipeSpec;

    use crate::types::{Cidr, Host, Interface, Link, Nic};

    /// A scenario of hosts (`h..`) and switches joined by `links`.
    fn network(links: &[(&str, &str)]) -> Scenario {
        let mut names: Vec<&str> = links.iter().flat_map(|(a, b)| [*a, *b]).collect();
        names.sort_unstable();
        names.dedup();
        let (hosts, switches): (Vec<&str>, Vec<&str>) = names.iter().partition(|n| n.starts_with('h'));
        let host = |(i, name): (usize, &&str)| Host {
            name: (*name).to_owned(),
            interfaces: vec![Interface {
                addresses: vec![Cidr { address: [10, 0, 0, 1 + i as u8].into(), prefix: 8 }],
            }],
            routes: Vec::new(),
            nic: Nic::default(),
            at: None,
            start: None,
            stop: None,
            mtu: 1500,
            kernel: None,
            web100: false,
            hz: None,
            local_congestion: true,
            turnaround: Time::ZERO,
            receive_jitter: None,
            cost: crate::HostCost::default(),
            sysctl: Default::default(),
        };
        let link = |(a, b): &(&str, &str)| Link {
            name: format!("{a}-{b}"),
            ends: [(*a).to_owned(), (*b).to_owned()],
            forward: PipeSpec::default(),
            backward: PipeSpec::default(),
            changes: Vec::new(),
        };
        Scenario {
            name: "x".into(),
            title: "x".into(),
            duration: Time::from_secs(1),
            sample: Time::from_millis(10),
            seed: 1,
            repeat: 1,
            sysctl: None,
            fixed_neighbours: false,
            hosts: hosts.iter().enumerate().map(host).collect(),
            switches: switches.iter().map(|s| (*s).to_owned()).collect(),
            links: links.iter().map(link).collect(),
            flows: Vec::new(),
            routers: Vec::new(),
            captures: Vec::new(),
        }
    }

    fn hops(links: &[(&str, &str)], from: &str, to: &str) -> Option<Vec<(usize, bool)>> {
        let path = network(links).path(from, to)?;
        Some(path.iter().map(|h| (h.link, h.direction == Direction::Backward)).collect())
    }

    #[test]
    fn a_path_has_the_fewest_hops_and_ties_follow_the_order_of_links() {
        let links = [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s1"), ("s3", "h2")];
        assert_eq!(hops(&links, "h1", "h2").unwrap(), [(0, false), (3, true), (4, false)]);
        let links = [("h1", "s1"), ("s2", "s1"), ("s1", "s3"), ("s3", "s4"), ("s4", "s2"), ("h2", "s4")];
        assert_eq!(hops(&links, "h1", "h2").unwrap(), [(0, false), (1, true), (4, true), (5, true)]);
    }

    #[test]
    fn a_path_ends_at_the_interface_with_the_address() {
        // The second link of h2 is nearer, but its interface there has no address.
        let links = [("h1", "s1"), ("s1", "s2"), ("s2", "h2"), ("h2", "s1")];
        assert_eq!(hops(&links, "h1", "h2").unwrap(), [(0, false), (1, false), (2, false)]);
        assert_eq!(hops(&links, "h2", "h1").unwrap(), [(2, true), (1, true), (0, true)]);
    }

    #[test]
    fn hosts_do_not_forward() {
        let links = [("h1", "h2"), ("h2", "h3")];
        assert_eq!(hops(&links, "h1", "h3"), None);
        assert_eq!(hops(&links, "h2", "h1").unwrap(), [(0, true)]);
        assert_eq!(hops(&links, "h2", "h3"), None, "h2 has no address there");
        assert_eq!(hops(&links, "h2", "h2").unwrap(), []);
    }
}
