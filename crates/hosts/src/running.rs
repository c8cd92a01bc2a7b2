//! The flows of a run: starts them at their times, collects their samples, and puts them on one time axis.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread::Scope,
    time::Duration,
};

use engine_common::FlowTotals;
use iperf3::{SampleBuffer, wire::is_possible_time};
use scenario::Scenario;
use schema::{Event, EventKind, FlowSample};
use units::Instant;

use crate::{
    Error,
    clock::ClockOffset,
    flow::run_flow,
    measured::{HostReport, Measured, Observer, RunOptions},
    message::{FlowEnd, Reply, Request},
    plan::{PlannedFlow, Server, Starter},
    reply_queue::{ReplyReceiver, ReplySender, ReplyingObserver, reply_queue},
};

/// Interval at which the servers' messages are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time to wait for the results of flows that were requested to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of messages of one server that are handled before the others, and a request of the user to
/// end the run, are.
const MESSAGES_PER_TURN: usize = 256;
/// Maximum number of notes of all servers.
const MAX_NOTES: usize = 1000;
/// Longest text of a server's note, characters.
const MAX_NOTE_CHARS: usize = 1000;

/// The flows of a running scenario.
pub(crate) struct Running<'a> {
    scenario: &'a Scenario,
    planned: Vec<PlannedFlow>,
    options: &'a RunOptions<'a>,
    states: Vec<FlowState>,
    pub(crate) notes: Vec<String>,
    /// The run's start by this machine's clock, ns since 1970, once data flows.
    zero_ns: Option<i64>,
    /// Time since the run's start when these flows are launched.
    elapsed: Duration,
}

/// The state of a flow.
#[derive(Debug)]
struct FlowState {
    is_requested: bool,
    /// Start of the flow by this machine's clock.
    started_ns: Option<i64>,
    /// Rows since the flow's start; the message about its end replaces them by those of both ends. A server
    /// can send any number of them.
    rows: SampleBuffer,
    last_row: Option<FlowSample>,
    end: Option<FlowEnd>,
}

impl FlowState {
    fn new() -> Self {
        // All rows of a flow of usual length are kept.
        let rows = SampleBuffer::new(Duration::from_micros(1));
        FlowState { is_requested: false, started_ns: None, rows, last_row: None, end: None }
    }
}

impl<'a> Running<'a> {
    /// `zero_ns` is the run's start if other flows of the run have already been executed.
    pub(crate) fn new(
        scenario: &'a Scenario,
        planned: Vec<PlannedFlow>,
        options: &'a RunOptions<'a>,
        zero_ns: Option<i64>,
    ) -> Self {
        let states = planned.iter().map(|_| FlowState::new()).collect();
        let since = |zero: i64| u64::try_from(os::realtime_ns().saturating_sub(zero)).unwrap_or(0);
        let elapsed = Duration::from_nanos(zero_ns.map_or(0, since));
        Running { scenario, planned, options, states, notes: Vec::new(), zero_ns, elapsed }
    }

    /// Starts the flows at their times and waits for their ends.
    pub(crate) fn flows(
        &mut self,
        servers: &mut BTreeMap<String, Server<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (sender, local) = reply_queue();
        let stops: Vec<AtomicBool> = self.planned.iter().map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            let ended = self.follow(servers, observer, (&sender, &local), scope, &stops);
            stops.iter().for_each(|stop| stop.store(true, Ordering::Release));
            ended
        })
    }

    fn follow<'scope>(
        &mut self,
        servers: &mut BTreeMap<String, Server<'_>>,
        observer: &mut dyn Observer,
        (sender, local): (&ReplySender, &ReplyReceiver),
        scope: &'scope Scope<'scope, '_>,
        stops: &'scope [AtomicBool],
    ) -> Result<(), Error> {
        let launched = std::time::Instant::now();
        let mut stopped: Option<std::time::Instant> = None;
        let token = self.options.token.cloned();
        while self.states.iter().any(|state| state.end.is_none()) {
            if stopped.is_none() && self.options.stop.load(Ordering::Acquire) {
                stopped = Some(std::time::Instant::now());
                stops.iter().for_each(|stop| stop.store(true, Ordering::Release));
                // The stop flag also ends the sessions with servers, and so the flows that the servers have
                // started.
                self.give_up(|_| true, "interrupted");
            }
            if stopped.is_some_and(|at| at.elapsed() > END_TIMEOUT) {
                self.give_up(|_| true, "it did not end in time");
            }
            for (number, stop) in stops.iter().enumerate() {
                let due = self.scenario.flows[number].start.since_origin().to_duration();
                if self.states[number].is_requested
                    || self.states[number].end.is_some()
                    || stopped.is_some()
                    || self.elapsed + launched.elapsed() < due
                {
                    continue;
                }
                self.states[number].is_requested = true;
                let PlannedFlow { starter, request } = &self.planned[number];
                let (index, request) = (number as u32, request.clone());
                match starter {
                    Starter::Here => {
                        let mut observer = ReplyingObserver { number: index, replies: sender.clone() };
                        let token = token.clone();
                        scope.spawn(move || {
                            let end = run_flow(&request, token.as_ref(), stop, &mut observer);
                            observer.replies.send(Reply::Done { number: index, end: Box::new(end) });
                        });
                    }
                    Starter::Host(host) => {
                        let host = host.clone();
                        let Some(Server::Longfat(session)) = servers.get_mut(&host) else { continue };
                        match session.send(&Request::Run { number: index, flow: request }) {
                            Ok(()) | Err(Error::Interrupted) => {}
                            Err(error) => {
                                self.states[number].is_requested = false;
                                self.lose_server(&host, &error, stops);
                            }
                        }
                    }
                }
            }
            let mut is_quiet = true;
            while let Some(reply) = local.next() {
                is_quiet = false;
                self.take(reply, &Starter::Here, ClockOffset::default(), observer)?;
            }
            for (name, server) in servers.iter_mut() {
                let Server::Longfat(session) = server else { continue };
                let from = Starter::Host(name.clone());
                for _ in 0..MESSAGES_PER_TURN {
                    match session.poll() {
                        Ok(Some(reply)) => {
                            is_quiet = false;
                            self.take(reply, &from, session.clock, observer)?;
                        }
                        Ok(None) => break,
                        Err(Error::Interrupted) => break,
                        Err(error) => {
                            self.lose_server(name, &error, stops);
                            if self.states.iter().all(|state| state.end.is_some()) {
                                return Ok(());
                            }
                            break;
                        }
                    }
                }
            }
            if is_quiet {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Ends the flows of a host whose session has failed; the others continue.
    fn lose_server(&mut self, host: &str, error: &Error, stops: &[AtomicBool]) {
        let scenario = self.scenario;
        let flow = |number: usize| &scenario.flows[number];
        let is_of_host = |number: usize| flow(number).from == host || flow(number).to == host;
        for (_, stop) in stops.iter().enumerate().filter(|(number, _)| is_of_host(*number)) {
            stop.store(true, Ordering::Release);
        }
        self.give_up(is_of_host, &crate::error::chain(error));
    }

    /// Ends flows that have no result, with the rows so far.
    fn give_up(&mut self, which: impl Fn(usize) -> bool, reason: &str) {
        for (number, state) in self.states.iter_mut().enumerate() {
            if state.end.is_some() || !which(number) {
                continue;
            }
            let last = state.last_row.as_ref();
            state.end = Some(FlowEnd {
                duration_us: last.map_or(0, |row| row.time_us.max(0) as u64),
                bytes: last
                    .and_then(|row| row.bytes_received.or(row.bytes_acked))
                    .map_or(0, |n| n.max(0) as u64),
                error: Some(reason.into()),
                ..FlowEnd::default()
            });
        }
    }

    /// Whether a reply is about a flow that `from` does not run. A server must not end the flows of others,
    /// or replace their samples.
    fn is_foreign(&self, reply: &Reply, from: &Starter) -> bool {
        let (Reply::Note { number, .. }
        | Reply::Started { number, .. }
        | Reply::Rows { number, .. }
        | Reply::Done { number, .. }) = reply
        else {
            return false;
        };
        self.planned.get(*number as usize).is_none_or(|planned| planned.starter != *from)
    }

    /// Handles a message about a flow; `clock` is that of its sender.
    fn take(
        &mut self,
        reply: Reply,
        from: &Starter,
        clock: ClockOffset,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        if self.is_foreign(&reply, from) {
            return Ok(());
        }
        match reply {
            Reply::Note { number, text } => {
                if let Some(planned) = self.planned.get(number as usize) {
                    let text: String = text.chars().take(MAX_NOTE_CHARS).collect();
                    let note = format!("{}: {text}", planned.request.name);
                    if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
            }
            Reply::Started { number, realtime_ns } => {
                let here_ns = clock.to_here(realtime_ns);
                if let Some(state) = self.states.get_mut(number as usize) {
                    state.started_ns = Some(here_ns);
                    let start = self.scenario.flows[number as usize].start;
                    self.zero_ns
                        .get_or_insert(here_ns.saturating_sub(i64::try_from(start.as_nanos()).unwrap_or(0)));
                }
            }
            Reply::Rows { number, samples } => {
                let Some(state) = self.states.get_mut(number as usize) else { return Ok(()) };
                let rows = named(samples.rows(), &self.planned[number as usize].request.name);
                let shift_us = shift_us(state.started_ns, self.zero_ns);
                state.rows.add(&rows);
                state.last_row = rows.last().cloned().or(state.last_row.take());
                let shifted: Vec<FlowSample> = rows.into_iter().map(|row| shifted(row, shift_us)).collect();
                if let Some(last) = shifted.last() {
                    let elapsed = instant_of(last.time_us).since_origin();
                    observer.rows(elapsed, &shifted).map_err(Error::Observer)?;
                }
            }
            Reply::Done { number, end } => {
                if let Some(state) = self.states.get_mut(number as usize).filter(|state| state.end.is_none())
                {
                    state.end = Some(*end);
                }
            }
            Reply::Host(_)
            | Reply::Clock { .. }
            | Reply::Changed
            | Reply::Restored { .. }
            | Reply::Refused { .. } => {}
        }
        Ok(())
    }

    /// The complete measurement.
    pub(crate) fn measured(self, hosts: BTreeMap<String, HostReport>) -> Result<Measured, Error> {
        let interrupted = self.options.stop.load(Ordering::Acquire);
        let (notes, zero_ns) = (self.notes, self.zero_ns);
        let mut measured = Measured { hosts, notes, interrupted, zero_ns, ..Measured::default() };
        for (planned, mut state) in self.planned.into_iter().zip(self.states) {
            let end = state.end.take().unwrap_or_default();
            let shift_us = shift_us(state.started_ns, self.zero_ns);
            let both = end.samples.rows();
            let rows = match both.is_empty() {
                true => state.rows.into_rows(),
                false => named(both, &planned.request.name),
            };
            measured.rows.extend(rows.into_iter().map(|row| shifted(row, shift_us)));
            let lost_echoes = end.lost_echoes.iter().filter(|(time_us, _)| is_possible_time(*time_us));
            measured.events.extend(lost_echoes.map(|(time_us, number)| Event {
                time_us: time_us.saturating_add(shift_us),
                subject: planned.request.name.clone(),
                kind: EventKind::PingLost,
                value: *number,
            }));
            let duration_us = i64::try_from(end.duration_us).unwrap_or(i64::MAX);
            let started = state.started_ns.map(|_| instant_of(shift_us));
            let ended = started.map(|_| instant_of(shift_us.saturating_add(duration_us)));
            measured.duration = measured.duration.max(ended.unwrap_or_default().since_origin());
            measured.flow_totals.push(FlowTotals {
                name: planned.request.name.clone(),
                cc: end.congestion_control,
                started,
                ended,
                bytes: end.bytes,
                playout: None,
            });
            measured.busy.push(end.busy);
            let Some(reason) = end.error.filter(|_| !interrupted) else { continue };
            // A flow whose start had not come when the connection was lost can still run.
            if started.is_some() || !state.is_requested {
                measured.lost.push(planned.request.name.clone());
            }
            measured.failures.push((planned.request.name, reason));
        }
        measured.set_failed();
        measured.rows.sort_by_key(|row| row.time_us);
        if measured.rows.is_empty() && measured.events.is_empty() {
            return Err(measured.failed.unwrap_or(Error::Interrupted));
        }
        Ok(measured)
    }
}

/// An instant of the run, from microseconds. The value comes from a server and may be anything.
fn instant_of(us: i64) -> Instant {
    Instant::from_micros(u64::try_from(us).unwrap_or(0))
}

/// Time from the run's start to the flow's start, microseconds.
fn shift_us(started_ns: Option<i64>, zero_ns: Option<i64>) -> i64 {
    started_ns.zip(zero_ns).map_or(0, |(started, zero)| started.saturating_sub(zero) / 1000)
}

fn shifted(row: FlowSample, shift_us: i64) -> FlowSample {
    FlowSample { time_us: row.time_us.saturating_add(shift_us), ..row }
}

fn named(mut rows: Vec<FlowSample>, name: &str) -> Vec<FlowSample> {
    rows.iter_mut().for_each(|row| row.flow = name.into());
    rows
}

#[cfg(test)]
mod tests {
    use iperf3::wire::Samples;

    use super::*;
    use crate::{
        host_locations::HostLocations,
        message::{FlowRequest, Traffic},
        test_support::{Silent, options, scenario},
    };

    fn planned(name: &str, traffic: Traffic) -> PlannedFlow {
        let request = FlowRequest {
            name: name.into(),
            to: String::new(),
            port: 0,
            session: None,
            reverse: false,
            bind: None,
            duration_us: 1,
            sample_us: 1,
            traffic,
        };
        PlannedFlow { starter: Starter::Here, request }
    }

    #[test]
    fn a_host_whose_session_fails_ends_only_its_flows() {
        let scenario = scenario(r#"[{ name = "f", from = "h1", to = "h2" }]"#);
        let stop = AtomicBool::new(false);
        let locations = HostLocations::default();
        let options = options(&locations, &stop);
        let flow = planned("f", Traffic::Udp { rate: units::BitRate(1), payload: None, size: None });
        let mut running = Running::new(&scenario, vec![flow], &options, None);
        let stops = [AtomicBool::new(false)];
        let error = Error::Flow { flow: "f".into(), reason: "cannot send".into() };
        running.lose_server("h3", &error, &stops);
        assert!(running.states[0].end.is_none() && !stops[0].load(Ordering::Acquire));
        running.lose_server("h2", &error, &stops);
        assert!(stops[0].load(Ordering::Acquire));
        let reason = running.states[0].end.as_ref().and_then(|end| end.error.as_deref()).unwrap();
        assert!(reason.contains("cannot send"), "{reason}");
    }

    #[test]
    fn a_flow_that_had_not_begun_when_its_server_was_lost_is_continued() {
        let scenario = scenario(
            r#"[{ name = "f", from = "h1", to = "h2" }, { name = "g", from = "h1", to = "h2", start = "5s" }]"#,
        );
        let stop = AtomicBool::new(false);
        let locations = HostLocations::default();
        let options = options(&locations, &stop);
        let flow = |name| planned(name, Traffic::Udp { rate: units::BitRate(1), payload: None, size: None });
        let mut running = Running::new(&scenario, vec![flow("f"), flow("g")], &options, None);
        running.states[0].is_requested = true;
        for reply in [
            Reply::Started { number: 0, realtime_ns: 7 },
            Reply::Rows { number: 0, samples: Samples::of(&[FlowSample::default()]) },
        ] {
            running.take(reply, &Starter::Here, ClockOffset::default(), &mut Silent).unwrap();
        }
        running.give_up(|_| true, "closed");
        let measured = running.measured(BTreeMap::new()).unwrap();
        assert_eq!(measured.lost, ["f", "g"]);
    }

    #[test]
    fn a_server_cannot_fill_the_memory_with_rows_and_notes() {
        let scenario = scenario(r#"[{ name = "f", from = "h1", to = "h2" }]"#);
        let stop = AtomicBool::new(false);
        let locations = HostLocations::default();
        let options = options(&locations, &stop);
        let flow = planned("f", Traffic::Udp { rate: units::BitRate(1), payload: None, size: None });
        let mut running = Running::new(&scenario, vec![flow], &options, None);
        let mut take = |reply| {
            running.take(reply, &Starter::Here, ClockOffset::default(), &mut Silent).unwrap();
        };
        let row = |time_us| FlowSample { time_us, bytes_received: Some(time_us), ..FlowSample::default() };
        let last_us = 199_999;
        for begin in (0..=last_us).step_by(1000) {
            let rows: Vec<FlowSample> = (begin..begin + 1000).map(row).collect();
            take(Reply::Rows { number: 0, samples: Samples::of(&rows) });
            take(Reply::Note { number: 0, text: format!("{begin}{}", "x".repeat(100_000)) });
        }
        (0..10 * MAX_NOTES).for_each(|note| take(Reply::Note { number: 0, text: note.to_string() }));
        assert_eq!(running.notes.len(), MAX_NOTES);
        assert!(running.notes.iter().all(|note| note.len() <= MAX_NOTE_CHARS + "f: ".len()));
        running.give_up(|_| true, "closed");
        let measured = running.measured(BTreeMap::new()).unwrap();
        assert!((10_000..=50_000).contains(&measured.rows.len()), "{}", measured.rows.len());
        assert_eq!(measured.flow_totals[0].bytes, last_us as u64);
    }

    #[test]
    fn a_server_has_no_influence_on_the_flows_of_others() {
        let scenario =
            scenario(r#"[{ name = "f", from = "h1", to = "h2" }, { name = "g", from = "h2", to = "h1" }]"#);
        let stop = AtomicBool::new(false);
        let locations = HostLocations::default();
        let options = options(&locations, &stop);
        let flow = |name| planned(name, Traffic::Udp { rate: units::BitRate(1), payload: None, size: None });
        let server = Starter::Host("h2".into());
        let of_server = PlannedFlow { starter: server.clone(), ..flow("g") };
        let mut running = Running::new(&scenario, vec![flow("f"), of_server], &options, None);
        let forged = || FlowEnd { bytes: 1 << 40, ..FlowEnd::default() };
        for number in [0, 1, 2, u32::MAX] {
            for reply in [
                Reply::Note { number, text: "forged".into() },
                Reply::Started { number, realtime_ns: 7 },
                Reply::Rows { number, samples: Samples::of(&[FlowSample::default()]) },
                Reply::Done { number, end: Box::new(forged()) },
            ] {
                running.take(reply, &server, ClockOffset::default(), &mut Silent).unwrap();
            }
        }
        assert!(running.states[0].end.is_none() && running.states[0].started_ns.is_none());
        assert_eq!(running.notes, ["g: forged"]);
        assert_eq!(running.states[1].end.as_ref().map(|end| end.bytes), Some(1 << 40), "its own flow");
    }

    /// A server or its clock may be faulty.
    #[test]
    fn arbitrary_times_from_a_server_cause_no_overflow() {
        let scenario = scenario(r#"[{ name = "f", from = "h1", to = "h2", start = "1s" }]"#);
        let stop = AtomicBool::new(false);
        let locations = HostLocations::default();
        let options = options(&locations, &stop);
        let ping = Traffic::Ping { interval_us: 1, count: None, payload: units::Bytes(0), timeout_us: 1 };
        let any = [i64::MIN, -1, 0, 1 << 52, i64::MAX];
        for (clock_ns, time_us) in any.iter().flat_map(|clock_ns| any.map(|time_us| (*clock_ns, time_us))) {
            let mut running = Running::new(&scenario, vec![planned("f", ping.clone())], &options, None);
            let samples = Samples::of(&[FlowSample { time_us, ..FlowSample::default() }]);
            let end = FlowEnd {
                duration_us: time_us as u64,
                samples: samples.clone(),
                lost_echoes: vec![(time_us, 1)],
                ..FlowEnd::default()
            };
            for reply in [
                Reply::Started { number: 0, realtime_ns: clock_ns },
                Reply::Rows { number: 0, samples },
                Reply::Done { number: 0, end: Box::new(end) },
            ] {
                let clock = ClockOffset { offset_ns: clock_ns, error_ns: 0 };
                running.take(reply, &Starter::Here, clock, &mut Silent).unwrap();
            }
            let measured = running.measured(BTreeMap::new());
            let counts = measured.map(|measured| (measured.rows.len(), measured.events.len())).ok();
            // Impossible times are ignored; then nothing was measured.
            let expected = is_possible_time(time_us).then_some((1, 1));
            assert_eq!(counts, expected, "{clock_ns} {time_us}");
        }
    }
}
