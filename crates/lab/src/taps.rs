//! What a scenario's captures are: from the names of hosts and links to the places where packets are seen.

use std::path::Path;

use net::{Direction, PipeId};
use scenario::Scenario;

use crate::{
    Error,
    capture::{CaptureOptions, Captures, Tap, Target},
};

/// Starts the scenario's captures; each writes `NAME.pcapng` into `dir`.
pub(crate) fn start_captures(scenario: &Scenario, captures: &Captures, dir: &Path) -> Result<(), Error> {
    for name in &scenario.captures {
        let path = dir.join(format!("{name}.pcapng"));
        captures.start(name, &taps(scenario, name), &path, &CaptureOptions::default())?;
    }
    Ok(())
}

/// Where the packets of the host or link called `name` are seen; nowhere where there is none.
pub(crate) fn taps(scenario: &Scenario, name: &str) -> Vec<Tap> {
    if let Some(host) = scenario.hosts.iter().position(|h| h.name == name) {
        let links = |host: &scenario::Host| scenario.link_count(&host.name);
        // Stations count the links of all hosts, in order.
        let before: usize = scenario.hosts[..host].iter().map(links).sum();
        let tap = |interface: usize| Tap {
            target: Target::Host((before + interface) as u32),
            name: format!("{name}-eth{interface}"),
            description: format!("host {name}"),
        };
        return (0..links(&scenario.hosts[host])).map(tap).collect();
    }
    let Some(link) = scenario.links.iter().position(|l| l.name == name) else { return Vec::new() };
    let [a, b] = &scenario.links[link].ends;
    [(Direction::Forward, a, b), (Direction::Backward, b, a)]
        .map(|(direction, from, to)| Tap {
            target: Target::Pipe(PipeId { link: link as u32, direction }),
            name: format!("{from}>{to}"),
            description: format!("link {name} where it comes out at {to}"),
        })
        .into()
}
