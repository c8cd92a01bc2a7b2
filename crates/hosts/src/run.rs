//! Runs a scenario: connects to the servers, changes settings, starts the flows, collects their samples.

use std::{
    collections::BTreeMap,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use engine_common::FlowTotals;
use iperf3::Token;
use scenario::{FlowKind, FlowSpec, Scenario};
use schema::{Event, FlowSample};
use units::{Bytes, Time};

use crate::{
    Error,
    place::Places,
    plan,
    prepare::{connect, iperf3_notes, prepare_hosts, restore},
    running::Running,
};

/// Pause between two attempts to continue lost flows.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// A lost flow is continued if at least this time of it remains.
const SHORTEST_CONTINUATION: Time = Time::from_secs(1);

/// How a scenario is run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions<'a> {
    /// Where the hosts are.
    pub places: &'a Places,
    /// The secret of all servers.
    pub token: Option<&'a Token>,
    /// Whether this machine's settings may be changed for the run. Servers decide for their own.
    pub allows_tune: bool,
    /// For how long flows are tried to be continued after their connection was lost; `None`: they have ended then.
    pub reconnect: Option<Duration>,
    /// Set it to end the run early.
    pub stop: &'a AtomicBool,
}

/// Receives the progress of a run.
pub trait Observer {
    /// A message for the user while the run waits, one sentence.
    fn note(&mut self, sentence: &str);

    /// Rows as they arrive, of the sending end if it is a longfat; times since the run's start.
    ///
    /// # Errors
    /// Ends the run.
    fn rows(
        &mut self,
        elapsed: Time,
        rows: &[FlowSample],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// The measurement of a run.
#[derive(Debug, Default)]
pub struct Measured {
    /// Samples of both ends in order of time since the run's start: the first flow's data began at that flow's start.
    pub rows: Vec<FlowSample>,
    /// Lost echoes.
    pub events: Vec<Event>,
    /// Flows that continue others, whose connection was lost, in the order of the losses.
    pub continuations: Vec<FlowSpec>,
    /// The flows' totals, in the scenario's order, then those of the continuations.
    pub flow_totals: Vec<FlowTotals>,
    /// How busy the sender and the receiver of each of these flows were, 0 to 1.
    pub busy: Vec<[Option<f64>; 2]>,
    /// The hosts, by their names in the scenario.
    pub hosts: BTreeMap<String, HostReport>,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// Duration of the flows.
    pub duration: Time,
    /// Why a flow failed, if others were measured.
    pub failed: Option<Error>,
    /// The stop flag was set.
    pub interrupted: bool,
    /// The names of the flows that failed after they had begun.
    pub(crate) lost: Vec<String>,
    /// The run's start by this machine's clock, ns since 1970.
    pub(crate) zero_ns: Option<i64>,
}

/// A host of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostReport {
    /// Its address; `None` for this machine.
    pub address: Option<String>,
    /// Release of its kernel, if known.
    pub kernel: Option<String>,
    /// The values of the scenario's settings, and of TCP's buffers, during the run. Empty for an iperf3.
    pub settings: BTreeMap<String, String>,
    /// Its clock's time minus this machine's and the maximum error, ns; `None` for this machine and for an iperf3.
    pub clock_offset_ns: Option<(i64, i64)>,
}

/// Runs the scenario.
///
/// # Errors
/// If the scenario cannot be run at these places, or nothing was measured.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
) -> Result<Measured, Error> {
    plan::check(scenario, options.places)?;
    let places = options.places.or_of(scenario);
    let options = &RunOptions { places: &places, ..*options };
    let mut measured = run_once(scenario, options, observer, None)?;
    if let Some(patience) = options.reconnect {
        while continue_lost(scenario, &mut measured, (options, patience), observer)? {}
    }
    measured.rows.sort_by_key(|row| row.time_us);
    Ok(measured)
}

/// Connects to the servers and runs the flows. Times are since `zero_ns` by this machine's clock; `None`: since the first flow's
/// data, less that flow's start.
fn run_once(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
    zero_ns: Option<i64>,
) -> Result<Measured, Error> {
    let mut servers = connect(scenario, options, observer)?;
    let mut here = None;
    let hosts = prepare_hosts(scenario, options, &mut servers, &mut here)?;
    let planned = plan::plan(scenario, options.places, &servers)?;
    let mut running = Running::new(scenario, planned, options, zero_ns);
    running.notes.extend(iperf3_notes(&servers));
    running.flows(&mut servers, observer)?;
    let mut measured = running.measured(hosts)?;
    restore(&mut servers, here, &mut measured.notes);
    Ok(measured)
}

/// Continues the flows whose connection was lost, as separate flows: a new connection begins with a new window. Tries it for
/// `patience`. False if there is nothing to continue, or all attempts failed.
fn continue_lost(
    scenario: &Scenario,
    measured: &mut Measured,
    (options, patience): (&RunOptions<'_>, Duration),
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let Some(zero_ns) = measured.zero_ns.filter(|_| !measured.interrupted) else { return Ok(false) };
    let reason = measured.failed.as_ref().map(|error| crate::error::chain(error)).unwrap_or_default();
    let began = Instant::now();
    let mut is_announced = false;
    while began.elapsed() < patience {
        let now = Time(u64::try_from(os::realtime_ns() - zero_ns).unwrap_or(0));
        let rest = rest_of(scenario, measured, now);
        if rest.flows.is_empty() {
            return Ok(false);
        }
        if !is_announced {
            observer
                .note(&format!("{reason}; trying to continue for {}", Time::from_secs(patience.as_secs())));
            is_announced = true;
        }
        match run_once(&rest, options, observer, Some(zero_ns)) {
            Ok(part) => {
                let names: Vec<&str> = rest.flows.iter().map(|flow| flow.name.as_str()).collect();
                measured.notes.push(format!("{reason}; continued as {}", names.join(", ")));
                measured.continuations.extend(rest.flows);
                measured.add(part);
                return Ok(true);
            }
            Err(Error::Server { .. } | Error::Flow { .. }) => std::thread::sleep(RETRY_INTERVAL),
            Err(Error::Interrupted) => {
                measured.interrupted = true;
                return Ok(false);
            }
            Err(error @ Error::Observer(_)) => return Err(error),
            Err(error) => {
                measured.notes.push(format!("the run cannot be continued: {}", crate::error::chain(&error)));
                return Ok(false);
            }
        }
    }
    Ok(false)
}

/// The scenario with the remaining time of the lost flows at a time since the run's start.
fn rest_of(scenario: &Scenario, measured: &Measured, now: Time) -> Scenario {
    let mut rest = scenario.clone();
    let all = scenario.flows.iter().chain(&measured.continuations);
    rest.flows = all
        .zip(&measured.flow_totals)
        .filter(|(flow, _)| measured.lost.contains(&flow.name))
        .filter(|(flow, _)| now + SHORTEST_CONTINUATION <= flow.stop.unwrap_or(scenario.duration))
        .map(|(flow, totals)| {
            let mut flow = FlowSpec { start: now, ..flow.clone() };
            let size = match &mut flow.kind {
                FlowKind::Tcp(tcp) => &mut tcp.size,
                FlowKind::Udp(udp) => &mut udp.size,
                // `plan` refuses the others.
                _ => &mut None,
            };
            *size = size.map(|size| Bytes(size.0.saturating_sub(totals.bytes).max(1)));
            flow.name = next_name(&flow.name, |name| {
                scenario.flows.iter().chain(&measured.continuations).any(|other| other.name == name)
            });
            flow
        })
        .collect();
    rest
}

/// `bulk-2` after `bulk`, `bulk-3` after `bulk-2`; names that are in use are skipped.
fn next_name(name: &str, is_used: impl Fn(&str) -> bool) -> String {
    let (base, number) = match name.rsplit_once('-').map(|(base, number)| (base, number.parse::<u32>())) {
        Some((base, Ok(number))) if is_used(base) => (base, number),
        _ => (name, 1),
    };
    let mut names = (number + 1..).map(|number| format!("{base}-{number}"));
    names.find(|name| !is_used(name)).unwrap_or_default()
}

impl Measured {
    /// Adds the measurement after a loss.
    fn add(&mut self, part: Measured) {
        self.rows.extend(part.rows);
        self.events.extend(part.events);
        self.flow_totals.extend(part.flow_totals);
        self.busy.extend(part.busy);
        for note in part.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self.duration = self.duration.max(part.duration);
        (self.failed, self.interrupted, self.lost) = (part.failed, part.interrupted, part.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuations_have_names_of_their_own() {
        let used = ["bulk", "bulk-2", "h1-h2", "h1"];
        let next = |name: &str| next_name(name, |name| used.contains(&name));
        assert_eq!((next("bulk").as_str(), next("bulk-2").as_str()), ("bulk-3", "bulk-3"));
        assert_eq!((next("h1-h2").as_str(), next("other").as_str()), ("h1-h2-2", "other-2"));
    }
}
