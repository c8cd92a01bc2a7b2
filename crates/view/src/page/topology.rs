//! The network of a run as the page draws it: from its scenario, or from its flows if it has none (a test
//! between hosts).

use scenario::{Direction, ScenarioFile};
use schema::RunSummary;
use serde::Serialize;

/// Nodes, links and the paths of flows.
#[derive(Debug, Serialize)]
pub(crate) struct Topology {
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) paths: Vec<FlowPath>,
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

/// A link between two nodes.
#[derive(Debug, Serialize)]
pub(crate) struct Link {
    pub(crate) name: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// The direction from the first end to the second, as in a scenario; empty if it is ideal.
    pub(crate) forward: String,
    /// The other direction.
    pub(crate) backward: String,
}

/// A flow's path.
#[derive(Debug, Serialize)]
pub(crate) struct FlowPath {
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
        let path = |flow: &scenario::FlowSpec| {
            let hops = scenario.path(&flow.from, &flow.to).unwrap_or_default();
            let hops =
                hops.into_iter().map(|hop| format!("{} {}", scenario.links[hop.link].name, hop.direction));
            FlowPath {
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
            forward: described(link, Direction::Forward),
            backward: described(link, Direction::Backward),
        };
        Some(Topology {
            nodes: hosts.chain(switches).chain(routers).collect(),
            links: scenario.links.iter().map(link).collect(),
            paths: scenario.flows.iter().map(path).collect(),
        })
    }

    /// One link from each sender to its receiver.
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
            topology.paths.push(FlowPath {
                flow: flow.name.clone(),
                from: flow.from.clone(),
                to: flow.to.clone(),
                hops: vec![format!("{name} forward")],
            });
        }
        topology
    }
}

fn described(link: &scenario::Link, direction: Direction) -> String {
    let direction = link.pipe(direction);
    if direction.is_ideal() { String::new() } else { scenario::describe_direction(direction) }
}
