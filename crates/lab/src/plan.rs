//! From a scenario to a network: nodes by number, and which directions are worth sampling.

use net::{Direction, Node, PipeId, Topology};
use scenario::Scenario;

/// A direction of a link that is not ideal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampledPipe {
    pub(crate) pipe: PipeId,
    pub(crate) link: usize,
    pub(crate) reversed: bool,
    pub(crate) name: String,
}

impl SampledPipe {
    /// `forward` or `backward`.
    pub(crate) fn direction(&self) -> &'static str {
        if self.reversed { "backward" } else { "forward" }
    }
}

/// The scenario's network. Names that it does not know become nodes that `build` refuses.
pub(crate) fn topology(scenario: &Scenario) -> Topology {
    let mut topology = Topology::new(scenario.hosts.len() as u32, scenario.switches.len() as u32);
    let node = |name: &String| match scenario.hosts.iter().position(|h| h.name == *name) {
        Some(host) => Node::Host(host as u32),
        None => {
            let switch = scenario.switches.iter().position(|s| s == name);
            Node::Switch(switch.map_or(u32::MAX, |s| s as u32))
        }
    };
    for link in &scenario.links {
        let [a, b] = &link.ends;
        topology.link(node(a), node(b), link.forward.clone(), link.backward.clone());
    }
    topology
}

/// The directions of links that limit, delay or lose.
pub(crate) fn sampled_pipes(scenario: &Scenario) -> Vec<SampledPipe> {
    let mut pipes = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for reversed in [false, true] {
            if !link.direction(reversed).is_ideal() {
                let direction = if reversed { Direction::Backward } else { Direction::Forward };
                let pipe = PipeId { link: index as u32, direction };
                pipes.push(SampledPipe { pipe, link: index, reversed, name: link.name.clone() });
            }
        }
    }
    pipes
}
