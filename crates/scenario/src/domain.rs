//! The Ethernet broadcast domains of a scenario: sets of interfaces that reach each other without a router.
//!
//! Links that meet at a switch are one domain; a link between two hosts or routers is a separate domain.

use crate::{
    decode_interfaces::links_of,
    types::{Cidr, Interface, Link, Scenario},
};

/// A host or router, by its index in the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Station {
    Host(usize),
    Router(usize),
}

/// One interface of a host or router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Port {
    pub station: Station,
    /// Index among the station's interfaces.
    pub interface: usize,
    /// The link that it joins.
    pub link: usize,
}

/// The domains of a scenario, in the order of their first links.
pub(crate) struct Domains {
    /// The ports of each domain: hosts first, then routers, each in the file's order.
    pub ports: Vec<Vec<Port>>,
    of_link: Vec<usize>,
}

impl Domains {
    /// The domains of `scenario`; the ends of its links must exist.
    pub fn of(scenario: &Scenario) -> Domains {
        let mut of_link: Vec<usize> = (0..scenario.links.len()).collect();
        for switch in &scenario.switches {
            let links = links_of(switch, &scenario.links);
            let Some(lowest) = links.iter().map(|l| of_link[*l]).min() else { continue };
            let joined: Vec<usize> = links.iter().map(|l| of_link[*l]).collect();
            of_link.iter_mut().filter(|d| joined.contains(d)).for_each(|d| *d = lowest);
        }
        let mut firsts = of_link.clone();
        firsts.sort_unstable();
        firsts.dedup();
        for domain in &mut of_link {
            *domain = firsts.partition_point(|first| first < domain);
        }
        let mut ports = vec![Vec::new(); firsts.len()];
        for station in stations(scenario) {
            for (interface, link) in links_of(station.name(scenario), &scenario.links).into_iter().enumerate()
            {
                ports[of_link[link]].push(Port { station, interface, link });
            }
        }
        Domains { ports, of_link }
    }

    /// The ports in the domain of `link`.
    pub fn of_link(&self, link: usize) -> &[Port] {
        &self.ports[self.of_link[link]]
    }

    /// The index of a link's domain.
    pub fn number(&self, link: usize) -> usize {
        self.of_link[link]
    }
}

/// The hosts, then the routers.
pub(crate) fn stations(scenario: &Scenario) -> impl Iterator<Item = Station> + use<> {
    let (hosts, routers) = (scenario.hosts.len(), scenario.routers.len());
    (0..hosts).map(Station::Host).chain((0..routers).map(Station::Router))
}

impl Station {
    /// Its name.
    pub fn name(self, scenario: &Scenario) -> &str {
        match self {
            Station::Host(i) => &scenario.hosts[i].name,
            Station::Router(i) => &scenario.routers[i].name,
        }
    }

    /// Its interfaces.
    pub fn interfaces(self, scenario: &Scenario) -> &[Interface] {
        match self {
            Station::Host(i) => &scenario.hosts[i].interfaces,
            Station::Router(i) => &scenario.routers[i].interfaces,
        }
    }

    /// Its ports: the interfaces that have links.
    pub fn ports(self, scenario: &Scenario) -> impl Iterator<Item = Port> + use<> {
        let links: Vec<usize> = links_of(self.name(scenario), &scenario.links);
        links.into_iter().enumerate().map(move |(interface, link)| Port { station: self, interface, link })
    }
}

impl Port {
    /// Its addresses.
    pub fn addresses(self, scenario: &Scenario) -> &[Cidr] {
        self.station.interfaces(scenario).get(self.interface).map_or(&[], |i| &i.addresses)
    }
}

/// True if both ends of `link` exist and differ.
pub(crate) fn is_joined(scenario: &Scenario, link: &Link) -> bool {
    let exists = |end: &String| {
        scenario.hosts.iter().any(|h| h.name == *end)
            || scenario.routers.iter().any(|r| r.name == *end)
            || scenario.switches.contains(end)
    };
    link.ends.iter().all(exists) && link.ends[0] != link.ends[1]
}
