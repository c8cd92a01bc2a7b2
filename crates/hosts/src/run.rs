//! Runs a scenario: connects to the servers, changes settings, starts the flows, collects their samples.

use std::time::Duration;

use engine_common::FlowTotals;
use scenario::{FlowKind, FlowSpec, Scenario};
use units::{Bytes, Instant, Time};

use crate::{
    Error,
    measured::{Measured, Observer, RunOptions},
    plan,
    prepare::{connect, iperf3_notes, prepare_hosts, restore},
    running::Running,
    settings::restore_left_settings_with_note,
};

/// Pause between two attempts to continue lost flows.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// A lost flow is continued if at least this time of it remains.
const SHORTEST_CONTINUATION: Time = Time::from_secs(1);

/// Runs the scenario.
///
/// # Errors
/// If the scenario cannot be run at these locations, or nothing was measured.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
) -> Result<Measured, Error> {
    plan::check(scenario, options.locations)?;
    if let Some(note) = restore_left_settings_with_note() {
        observer.note(&note);
    }
    let locations = options.locations.or_of(scenario);
    let options = &RunOptions { locations: &locations, ..*options };
    let mut measured = run_once(scenario, options, observer, None)?;
    if let Some(timeout) = options.reconnect {
        while continue_lost(scenario, &mut measured, (options, timeout), observer)? {}
    }
    measured.rows.sort_by_key(|row| row.time_us);
    Ok(measured)
}

/// Connects to the servers and runs the flows. Times count from `zero_ns` by this machine's clock; `None`:
/// from the instant for which the first flow's data began at that flow's start.
fn run_once(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
    zero_ns: Option<i64>,
) -> Result<Measured, Error> {
    let mut servers = connect(scenario, options, observer)?;
    let mut here = None;
    let hosts = prepare_hosts(scenario, options, &mut servers, &mut here)?;
    let planned = plan::plan(scenario, options.locations, &servers)?;
    let mut running = Running::new(scenario, planned, options, zero_ns);
    running.notes.extend(iperf3_notes(&servers));
    running.flows(&mut servers, observer)?;
    let mut measured = running.measured(hosts)?;
    restore(&mut servers, here, &mut measured.notes);
    Ok(measured)
}

/// Continues the flows whose connection was lost, as separate flows: a new connection begins with a new
/// window. Tries this for up to `timeout`. False if there is nothing to continue, or all attempts failed.
fn continue_lost(
    scenario: &Scenario,
    measured: &mut Measured,
    (options, timeout): (&RunOptions<'_>, Duration),
    observer: &mut dyn Observer,
) -> Result<bool, Error> {
    let Some(zero_ns) = measured.zero_ns.filter(|_| !measured.interrupted) else { return Ok(false) };
    let reason = measured.failed.as_ref().map(|error| crate::error::chain(error)).unwrap_or_default();
    let began = std::time::Instant::now();
    let mut is_announced = false;
    while began.elapsed() < timeout {
        let now = instant_since(zero_ns, os::realtime_ns());
        let rest = remainder_of(scenario, measured, now);
        if rest.flows.is_empty() {
            return Ok(false);
        }
        let continued: Vec<String> =
            continued(scenario, measured, now).map(|(flow, _)| flow.name.clone()).collect();
        if !is_announced {
            observer
                .note(&format!("{reason}; trying to continue for {}", Time::from_secs(timeout.as_secs())));
            is_announced = true;
        }
        match run_once(&rest, options, observer, Some(zero_ns)) {
            Ok(part) => {
                let names: Vec<&str> = rest.flows.iter().map(|flow| flow.name.as_str()).collect();
                measured.notes.push(format!("{reason}; continued as {}", names.join(", ")));
                measured.continuations.extend(rest.flows);
                measured.add(part, &continued);
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

/// `now_ns` as an instant of the run, whose start a server's clock can determine and which therefore may be
/// any number.
fn instant_since(zero_ns: i64, now_ns: i64) -> Instant {
    Instant::from_nanos(u64::try_from(now_ns.saturating_sub(zero_ns)).unwrap_or(0))
}

/// The lost flows that have time left at a time since the run's start.
fn continued<'a>(
    scenario: &'a Scenario,
    measured: &'a Measured,
    now: Instant,
) -> impl Iterator<Item = (&'a FlowSpec, &'a FlowTotals)> {
    let all = scenario.flows.iter().chain(&measured.continuations);
    all.zip(&measured.flow_totals)
        .filter(move |(flow, _)| measured.lost.contains(&flow.name))
        .filter(move |(flow, _)| now + SHORTEST_CONTINUATION <= flow.stop.unwrap_or(scenario.end()))
}

/// The scenario with the remaining time of the lost flows at a time since the run's start.
fn remainder_of(scenario: &Scenario, measured: &Measured, now: Instant) -> Scenario {
    let mut rest = scenario.clone();
    rest.flows = continued(scenario, measured, now)
        .map(|(flow, totals)| {
            let mut flow = FlowSpec { start: flow.start.max(now), ..flow.clone() };
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
    /// The error of the run is that of the first flow that failed.
    pub(crate) fn set_failed(&mut self) {
        let first = self.failures.first().cloned();
        self.failed = first.map(|(flow, reason)| Error::Flow { flow, reason });
    }

    /// Adds the measurement after a loss, which continued these flows. The errors of other flows remain.
    fn add(&mut self, part: Measured, continued: &[String]) {
        self.failures.retain(|(flow, _)| !continued.contains(flow));
        self.failures.extend(part.failures);
        self.set_failed();
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
        (self.interrupted, self.lost) = (part.interrupted, part.lost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::scenario;

    #[test]
    fn any_start_of_the_run_has_a_time_since_then() {
        assert_eq!(instant_since(1_000, 3_000), Instant::from_nanos(2_000));
        assert_eq!(instant_since(i64::MIN, 1), Instant::from_nanos(i64::MAX as u64));
        assert_eq!(instant_since(i64::MAX, -1), Instant::ZERO);
    }

    #[test]
    fn the_error_of_a_flow_that_is_not_continued_remains() {
        let failures = ["f", "g"].map(|flow| (flow.to_string(), "refused".to_string())).to_vec();
        let mut measured = Measured { failures, ..Measured::default() };
        measured.set_failed();
        measured.add(Measured::default(), &["f".to_string()]);
        assert!(matches!(&measured.failed, Some(Error::Flow { flow, .. }) if flow == "g"));
        measured.add(Measured::default(), &["g".to_string()]);
        assert!(measured.failed.is_none());
    }

    #[test]
    fn a_lost_flow_continues_now_or_at_its_start() {
        let scenario = scenario(
            r#"[{ name = "f", from = "h1", to = "h2" }, { name = "g", from = "h1", to = "h2", start = "5s" }]"#,
        );
        let mut measured = Measured { lost: vec!["f".into(), "g".into()], ..Measured::default() };
        for name in ["f", "g"] {
            let (cc, started, ended, playout) = (None, None, None, None);
            measured.flow_totals.push(FlowTotals {
                name: name.into(),
                cc,
                started,
                ended,
                bytes: 0,
                playout,
            });
        }
        let rest = remainder_of(&scenario, &measured, Instant::from_secs(3));
        let starts: Vec<Instant> = rest.flows.iter().map(|flow| flow.start).collect();
        assert_eq!(starts, [Instant::from_secs(3), Instant::from_secs(5)]);
    }

    #[test]
    fn continuations_have_unused_names() {
        let used = ["bulk", "bulk-2", "h1-h2", "h1"];
        let next = |name: &str| next_name(name, |name| used.contains(&name));
        assert_eq!((next("bulk").as_str(), next("bulk-2").as_str()), ("bulk-3", "bulk-3"));
        assert_eq!((next("h1-h2").as_str(), next("other").as_str()), ("h1-h2-2", "other-2"));
    }
}
