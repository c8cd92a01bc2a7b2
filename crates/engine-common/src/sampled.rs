//! Which directions of links have rows in the record.

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

/// The directions that limit, delay or lose, now or after a change. Ideal directions have no rows.
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
