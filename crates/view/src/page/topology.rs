//! The network of a run as the page draws it: from its scenario, or where that is none (a test between hosts), from its flows.

use scenario::ScenarioFile;
use schema::RunSummary;
use serde::Serialize;

/// Nodes, links and the ways of flows.
#[derive(Debug, Serialize)]
pub(crate) struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) paths: Vec<Way>,
}

/// A host, switch or router.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// `host`, `switch` or `router`.
    pub(crate) kind: String,
    /// A host's address; else empty.
    pub(crate) address: String,
}

/// A link between two of them.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// What the direction from the first end to the second is, as in a scenario; empty where it is ideal.
    pub(crate) forward: String,
    /// The other direction.
    pub(crate) backward: String,
}

/// A flow's way.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    pub(crate) flow: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// The links' directions, as in `s1-s2 forward`.
    pub(crate) hops: Vec<String>,
}

impl Topology {
    pub(crate) fn of(run: &RunSummary, scenario_toml: &str) -> Self {
        Self::of_scenario(scenario_toml).unwrap_or_else(|| Self::of_flows(run))
    }

    fn of_scenario(text: &str) -> Option<Self> {
        let scenario = ScenarioFile::parse("scenario", text).ok()?.resolve(None, &[]).ok()?;
        let node =
            |name: &str, kind: &str, address: String| Node { name: name.into(), kind: kind.into(), address };
        let hosts = scenario.hosts.iter().map(|host| node(&host.name, "host", host.address().to_string()));
        let switches = scenario.switches.iter().map(|name| node(name, "switch", String::new()));
        let routers = scenario.routers.iter().map(|router| node(&router.name, "router", String::new()));
        let way = |flow: &scenario::Flow| {
            let hops = scenario.path(&flow.from, &flow.to).unwrap_or_default();
            let hops = hops.into_iter().map(|hop| {
                let direction = if hop.reversed { "backward" } else { "forward" };
                format!("{} {direction}", scenario.links[hop.link].name)
            });
            Way {
                flow: flow.name.clone(),
                from: flow.from.clone(),
                to: flow.to.clone(),
                hops: hops.collect(),
            }
        };
        let link = |link: &scenario::Link| Link {
            name: link.name.clone(),
            from: link.ends[0].clone(),
            to: link.ends[1].clone(),
            forward: described(link, false),
            backward: described(link, true),
        };
        Some(Topology {
            nodes: hosts.chain(switches).chain(routers).collect(),
            links: scenario.links.iter().map(link).collect(),
            paths: scenario.flows.iter().map(way).collect(),
        })
    }

    /// A line from each sender to each receiver.
    fn of_flows(run: &RunSummary) -> Self {
        let mut topology = Topology { nodes: Vec::new(), links: Vec::new(), paths: Vec::new() };
        for flow in &run.flows {
            for end in [&flow.from, &flow.to] {
                if topology.nodes.iter().all(|node| node.name != *end) {
                    topology.nodes.push(Node {
                        name: end.clone(),
                        kind: "host".into(),
                        address: String::new(),
                    });
                }
            }
            let name = format!("{}-{}", flow.from, flow.to);
            if topology.links.iter().all(|link| link.name != name) {
                topology.links.push(Link {
                    name: name.clone(),
                    from: flow.from.clone(),
                    to: flow.to.clone(),
                    forward: String::new(),
                    backward: String::new(),
                });
            }
            topology.paths.push(Way {
                flow: flow.name.clone(),
                from: flow.from.clone(),
                to: flow.to.clone(),
                hops: vec![format!("{name} forward")],
            });
        }
        topology
    }
}

fn described(link: &scenario::Link, reversed: bool) -> String {
    let direction = link.direction(reversed);
    if direction.is_ideal() { String::new() } else { scenario::describe_direction(direction) }
}
