//! Resolves the captures of a scenario: from names of hosts and links to the points at which packets are
//! captured.

use std::path::Path;

use net::{Direction, PipeId};
use scenario::Scenario;

use crate::{
    Error,
    capture::{CaptureOptions, CapturePoint, Captures, Tap},
};

/// Starts the scenario's captures; each writes `NAME.pcapng` into `dir`.
pub(crate) fn start_captures(scenario: &Scenario, captures: &Captures, dir: &Path) -> Result<(), Error> {
    for name in &scenario.captures {
        let path = dir.join(format!("{name}.pcapng"));
        captures.start(name, &taps(scenario, name), &path, &CaptureOptions::default())?;
    }
    Ok(())
}

/// The taps of the host or link `name`; empty if there is none.
pub(crate) fn taps(scenario: &Scenario, name: &str) -> Vec<Tap> {
    if let Some(host) = scenario.hosts.iter().position(|h| h.name == name) {
        let links = |host: &scenario::Host| scenario.link_count(&host.name);
        // Stations count the links of all hosts, in order.
        let before: usize = scenario.hosts[..host].iter().map(links).sum();
        let tap = |interface: usize| Tap {
            point: CapturePoint::Host((before + interface) as u32),
            name: format!("{name}-eth{interface}"),
            description: format!("host {name}"),
        };
        return (0..links(&scenario.hosts[host])).map(tap).collect();
    }
    let Some(link) = scenario.links.iter().position(|l| l.name == name) else { return Vec::new() };
    let [a, b] = &scenario.links[link].ends;
    [(Direction::Forward, a, b), (Direction::Backward, b, a)]
        .map(|(direction, from, to)| Tap {
            point: CapturePoint::Pipe(PipeId { link: link as u32, direction }),
            name: format!("{from}>{to}"),
            description: format!("link {name}, output at {to}"),
        })
        .into()
}
