//! Selects the directions of links that have rows in the record.

use net::{Direction, PipeId};
use scenario::Scenario;

/// A direction of a link that has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampledPipe {
    /// Its identifier in the network.
    pub pipe: PipeId,
    /// Index into [`Scenario::links`].
    pub link: usize,
    /// The link's name.
    pub name: String,
}

impl SampledPipe {
    /// The direction of the link.
    pub fn direction(&self) -> Direction {
        self.pipe.direction
    }
}

/// The directions of links that are not ideal, from the start or after a change: they limit, delay or lose
/// packets.
pub fn sampled_pipes(scenario: &Scenario) -> Vec<SampledPipe> {
    let mut pipes = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for direction in Direction::BOTH {
            let mut later = link.changes.iter().map(|change| change.pipe(direction));
            if link.pipe(direction).is_ideal() && later.all(|spec| spec.is_ideal()) {
                continue;
            }
            pipes.push(SampledPipe {
                pipe: PipeId { link: index as u32, direction },
                link: index,
                name: link.name.clone(),
            });
        }
    }
    pipes
}
