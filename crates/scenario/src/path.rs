//! The way of packets through a scenario's links: the fewest hops.

use std::collections::VecDeque;

use crate::types::Scenario;

/// One link of a path and the direction in which it is crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hop {
    /// Index into [`Scenario::links`].
    pub link: usize,
    /// True where the link is crossed from its second end to its first.
    pub reversed: bool,
}

impl Scenario {
    /// The hops from `from` to `to`, breadth first: the shortest way, ties broken by the links' order.
    ///
    /// `None` where no way exists. A host forwards nothing, so it is only ever an end.
    pub fn path(&self, from: &str, to: &str) -> Option<Vec<Hop>> {
        let mut reached: Vec<(&str, Option<(usize, Hop)>)> = vec![(from, None)];
        let mut queue = VecDeque::from([0]);
        while let Some(at) = queue.pop_front() {
            let node = reached[at].0;
            if node == to {
                return Some(walk_back(&reached, at));
            }
            if at != 0 && self.host(node).is_some() {
                continue;
            }
            for (link, l) in self.links.iter().enumerate() {
                let (next, reversed) = match node {
                    n if n == l.ends[0] => (l.ends[1].as_str(), false),
                    n if n == l.ends[1] => (l.ends[0].as_str(), true),
                    _ => continue,
                };
                if reached.iter().all(|(n, _)| *n != next) {
                    queue.push_back(reached.len());
                    reached.push((next, Some((at, Hop { link, reversed }))));
                }
            }
        }
        None
    }
}

fn walk_back(reached: &[(&str, Option<(usize, Hop)>)], mut at: usize) -> Vec<Hop> {
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
        let host = |name: &&str| Host {
            name: (*name).to_owned(),
            interfaces: vec![Interface {
                addresses: vec![Cidr { address: [10, 0, 0, 1].into(), prefix: 8 }],
            }],
            routes: Vec::new(),
            nic: Nic::default(),
            start: None,
            stop: None,
            mtu: 1500,
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
            hosts: hosts.iter().map(host).collect(),
            switches: switches.iter().map(|s| (*s).to_owned()).collect(),
            links: links.iter().map(link).collect(),
            flows: Vec::new(),
            routers: Vec::new(),
            captures: Vec::new(),
        }
    }

    fn hops(links: &[(&str, &str)], from: &str, to: &str) -> Option<Vec<(usize, bool)>> {
        let path = network(links).path(from, to)?;
        Some(path.iter().map(|h| (h.link, h.reversed)).collect())
    }

    #[test]
    fn the_shortest_way_and_ties_by_the_links_order() {
        let links = [("h1", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s1"), ("s3", "h2")];
        assert_eq!(hops(&links, "h1", "h2").unwrap(), [(0, false), (3, true), (4, false)]);
        let links = [("h1", "s1"), ("s2", "s1"), ("s1", "s3"), ("s3", "h2"), ("h2", "s2")];
        assert_eq!(hops(&links, "h1", "h2").unwrap(), [(0, false), (1, true), (4, true)]);
    }

    #[test]
    fn hosts_forward_nothing() {
        let links = [("h1", "h2"), ("h2", "h3")];
        assert_eq!(hops(&links, "h1", "h3"), None);
        assert_eq!(hops(&links, "h2", "h3").unwrap(), [(1, false)]);
        assert_eq!(hops(&links, "h2", "h2").unwrap(), []);
    }
}
