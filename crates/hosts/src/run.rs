//! Runs a scenario: connects to the servers, changes settings, starts the flows, collects their samples.

use std::{
    collections::BTreeMap,
    net::ToSocketAddrs,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread::Scope,
    time::{Duration, Instant},
};

use engine_common::FlowTotals;
use iperf3::Token;
use scenario::{Place, Scenario};
use schema::{Event, EventKind, FlowSample};
use units::Time;

use crate::{
    Error,
    agent::Agent,
    clock::ClockOffset,
    flow::run_flow,
    message::{FlowEnd, Reply, Request},
    place::Places,
    plan::{self, PlannedFlow, Server, Starter},
    service::{HostReading, ReplyingObserver},
    settings::{self, ChangedSettings},
};

/// How often the servers' messages are read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for the results of flows that were told to end.
const END_TIMEOUT: Duration = Duration::from_secs(20);
/// Settings of which the verdict needs the values.
const VERDICT_SETTINGS: [&str; 4] =
    ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.rmem_max", "net.core.wmem_max"];

/// How a scenario is run.
#[derive(Debug, Clone, Copy)]
pub struct RunOptions<'a> {
    /// Where the hosts are.
    pub places: &'a Places,
    /// The secret of all servers.
    pub token: Option<&'a Token>,
    /// Whether this machine's settings may be changed for the run. Servers decide for their own.
    pub allows_tune: bool,
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

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Samples of both ends in order of time since the run's start: the first flow's data began at that flow's start.
    pub rows: Vec<FlowSample>,
    /// Lost echoes.
    pub events: Vec<Event>,
    /// The flows' totals, in the scenario's order.
    pub flow_totals: Vec<FlowTotals>,
    /// How busy the sender and the receiver of each flow were, 0 to 1.
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
    let mut servers = connect(scenario, options, observer)?;
    let mut here = None;
    let hosts = prepare_hosts(scenario, options, &mut servers, &mut here)?;
    let planned = plan::plan(scenario, options.places, &servers)?;
    let mut run = Run::new(scenario, planned, options);
    run.notes.extend(iperf3_notes(&servers));
    run.flows(&mut servers, observer)?;
    let mut measured = run.measured(hosts)?;
    restore(&mut servers, here, &mut measured.notes);
    Ok(measured)
}

/// Opens a session with each server. A host that no flow uses is not contacted.
fn connect<'a>(
    scenario: &Scenario,
    options: &RunOptions<'a>,
    observer: &mut dyn Observer,
) -> Result<BTreeMap<String, Server<'a>>, Error> {
    let mut servers = BTreeMap::new();
    for host in &scenario.hosts {
        let is_used = scenario.flows.iter().any(|flow| flow.from == host.name || flow.to == host.name);
        let Place::At(address) = options.places.of(&host.name) else { continue };
        if !is_used {
            continue;
        }
        let names = setting_names(host);
        let data_address = options.places.data_address(&host.name);
        let (token, stop) = (options.token, options.stop);
        let session = Agent::connect(&host.name, address, token, &names, data_address, observer, stop)?;
        let server = match session {
            Some(agent) => Server::Longfat(Box::new(agent)),
            None => Server::Iperf3,
        };
        servers.insert(host.name.clone(), server);
    }
    Ok(servers)
}

/// The settings of a host whose values are read.
fn setting_names(host: &scenario::Host) -> Vec<String> {
    let own = settings::stated(host).into_iter().map(|(name, _)| name);
    let mut names: Vec<String> = own.chain(VERDICT_SETTINGS.map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Applies the settings that the scenario states, and returns what the hosts have then.
fn prepare_hosts(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    servers: &mut BTreeMap<String, Server<'_>>,
    here: &mut Option<ChangedSettings>,
) -> Result<BTreeMap<String, HostReport>, Error> {
    let mut hosts = BTreeMap::new();
    let purpose = format!("a run of {}", scenario.name);
    for host in &scenario.hosts {
        let is_used = scenario.flows.iter().any(|flow| flow.from == host.name || flow.to == host.name);
        if !is_used {
            continue;
        }
        let report = match servers.get_mut(&host.name) {
            None => {
                let device = device_here(scenario, options.places, &host.name);
                let device = device.as_deref();
                let mut values = settings::read(&settings::of_device(setting_names(host), device))?;
                let changes = differences(host, device, &values);
                if !changes.is_empty() {
                    if !options.allows_tune {
                        return Err(Error::NotPermitted(format!(
                            "host {} is this machine, and the scenario wants {}; permit it with --allow-tune (restored after the \
                             run)",
                            host.name,
                            describe(&changes, &values)
                        )));
                    }
                    *here = Some(ChangedSettings::change(&purpose, &changes)?);
                    values.extend(changes);
                }
                let HostReading { kernel, .. } = HostReading::of_this_host();
                HostReport { kernel: Some(kernel), settings: values, ..HostReport::default() }
            }
            Some(Server::Iperf3) => {
                if let Some((name, _)) = settings::stated(host).first() {
                    return Err(Error::NotPermitted(format!(
                        "host {}: the scenario states {name}, which cannot be read or changed through an iperf3 server; run longfat \
                         serve there, or remove the setting",
                        host.name
                    )));
                }
                HostReport { address: Some(place_text(options.places, &host.name)), ..HostReport::default() }
            }
            Some(Server::Longfat(agent)) => {
                let mut values = agent.description.settings.clone();
                let changes = differences(host, agent.description.device.as_deref(), &values);
                if !changes.is_empty() {
                    if !agent.description.allows_tune {
                        return Err(Error::NotPermitted(format!(
                            "host {} at {}: the scenario wants {}; permit it there with longfat serve --allow-tune (restored after \
                             the run)",
                            host.name,
                            agent.address,
                            describe(&changes, &values)
                        )));
                    }
                    agent.change(&purpose, &changes)?;
                    values.extend(changes);
                }
                let ClockOffset { offset_ns, error_ns } = agent.clock;
                HostReport {
                    address: Some(agent.address.clone()),
                    kernel: Some(agent.description.kernel.clone()),
                    settings: values,
                    clock_offset_ns: Some((offset_ns, error_ns)),
                }
            }
        };
        hosts.insert(host.name.clone(), report);
    }
    Ok(hosts)
}

fn place_text(places: &Places, host: &str) -> String {
    places.of(host).to_string()
}

/// The device of this machine that carries the flows of a host.
fn device_here(scenario: &Scenario, places: &Places, host: &str) -> Option<String> {
    if let Some(address) = places.data_address(host) {
        return tune::device_with_address(address);
    }
    let flow = scenario.flows.iter().find(|flow| flow.from == host || flow.to == host)?;
    let other = if flow.from == host { &flow.to } else { &flow.from };
    let to = match (places.data_address(other), places.of(other)) {
        (Some(address), _) => address,
        (None, Place::At(address)) => {
            (address.host.as_str(), address.port).to_socket_addrs().ok()?.next()?.ip()
        }
        (None, Place::Here) => return None,
    };
    tune::device_towards(to)
}

/// The stated settings that have another value.
fn differences(
    host: &scenario::Host,
    device: Option<&str>,
    values: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let differs = |(name, wanted): &(String, String)| {
        values.get(name).is_none_or(|value| words(value) != words(wanted))
    };
    let stated = settings::stated(host).into_iter();
    stated.map(|(name, value)| (settings::with_device(name, device), value)).filter(differs).collect()
}

/// `net.ipv4.tcp_rmem = 4096 131072 6291456 (now 4096 87380 1048576)`.
fn describe(changes: &[(String, String)], values: &BTreeMap<String, String>) -> String {
    let one = |(name, value): &(String, String)| {
        let now = values.get(name).map_or("not present", String::as_str);
        format!("{name} = {value} (now {now})")
    };
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn iperf3_notes(servers: &BTreeMap<String, Server<'_>>) -> Vec<String> {
    let is_iperf3 = |(name, server): (&String, &Server<'_>)| match server {
        Server::Iperf3 => Some(format!(
            "host {name} has an iperf3 server: there are no samples, settings and clock of that end"
        )),
        Server::Longfat(_) => None,
    };
    servers.iter().filter_map(is_iperf3).collect()
}

/// Restores all changed settings.
fn restore(
    servers: &mut BTreeMap<String, Server<'_>>,
    here: Option<ChangedSettings>,
    notes: &mut Vec<String>,
) {
    let mut note = |host: &str, result: Result<Vec<(String, String)>, String>| {
        match result {
        Ok(changed) => notes.extend(changed.into_iter().map(|(name, value)| {
            format!("host {host}: {name} was changed to {value} during the run by another program, and is restored")
        })),
        Err(error) => notes.push(format!("host {host}: settings are not restored: {error}")),
    }
    };
    if let Some(changed) = here {
        note("here", changed.restore().map(|r| r.changed_since).map_err(|e| crate::error::chain(&e)));
    }
    for (name, server) in servers {
        if let Server::Longfat(agent) = server {
            note(name, agent.restore().map_err(|error| crate::error::chain(&error)));
        }
    }
}

/// A running scenario.
struct Run<'a> {
    scenario: &'a Scenario,
    planned: Vec<PlannedFlow>,
    options: &'a RunOptions<'a>,
    states: Vec<FlowState>,
    notes: Vec<String>,
    /// The run's start by this machine's clock, ns since 1970, once data flows.
    zero_ns: Option<i64>,
}

/// What is known of a flow.
#[derive(Debug, Default)]
struct FlowState {
    is_requested: bool,
    /// By this machine's clock.
    started_ns: Option<i64>,
    /// Rows since the flow's start, until its end brings those of both ends.
    rows: Vec<FlowSample>,
    end: Option<FlowEnd>,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, planned: Vec<PlannedFlow>, options: &'a RunOptions<'a>) -> Self {
        let states = planned.iter().map(|_| FlowState::default()).collect();
        Run { scenario, planned, options, states, notes: Vec::new(), zero_ns: None }
    }

    /// Starts the flows at their times and waits for their ends.
    fn flows(
        &mut self,
        servers: &mut BTreeMap<String, Server<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let (sender, local): (Sender<Reply>, Receiver<Reply>) = channel();
        let stop_local = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let ended = self.follow(servers, observer, (&sender, &local), scope, &stop_local);
            stop_local.store(true, Ordering::Release);
            ended
        })
    }

    fn follow<'scope>(
        &mut self,
        servers: &mut BTreeMap<String, Server<'_>>,
        observer: &mut dyn Observer,
        (sender, local): (&Sender<Reply>, &Receiver<Reply>),
        scope: &'scope Scope<'scope, '_>,
        stop_local: &'scope AtomicBool,
    ) -> Result<(), Error> {
        let launched = Instant::now();
        let mut stopped: Option<Instant> = None;
        let token = self.options.token.cloned();
        while self.states.iter().any(|state| state.end.is_none()) {
            if stopped.is_none() && self.options.stop.load(Ordering::Acquire) {
                stopped = Some(Instant::now());
                stop_local.store(true, Ordering::Release);
                // A session with a server ends with the stop flag too, and with it the flows that it has started.
                self.give_up(|_| true, "interrupted");
            }
            if stopped.is_some_and(|at| at.elapsed() > END_TIMEOUT) {
                self.give_up(|_| true, "it did not end in time");
            }
            for number in 0..self.planned.len() {
                let due = Duration::from_nanos(self.scenario.flows[number].start.0);
                if self.states[number].is_requested || stopped.is_some() || launched.elapsed() < due {
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
                            let end = run_flow(&request, token.as_ref(), stop_local, &mut observer);
                            observer.send(Reply::Done { number: index, end: Box::new(end) });
                        });
                    }
                    Starter::Host(host) => {
                        if let Some(Server::Longfat(agent)) = servers.get_mut(host) {
                            agent.send(&Request::Run { number: index, flow: request })?;
                        }
                    }
                }
            }
            let mut is_quiet = true;
            while let Ok(reply) = local.try_recv() {
                is_quiet = false;
                self.take(reply, ClockOffset::default(), observer)?;
            }
            for (name, server) in servers.iter_mut() {
                let Server::Longfat(agent) = server else { continue };
                loop {
                    match agent.poll() {
                        Ok(Some(reply)) => {
                            is_quiet = false;
                            self.take(reply, agent.clock, observer)?;
                        }
                        Ok(None) => break,
                        Err(Error::Interrupted) => break,
                        Err(error) => {
                            let reason = crate::error::chain(&error);
                            self.give_up(|flow| flow.starter == Starter::Host(name.clone()), &reason);
                            if self.states.iter().all(|state| state.end.is_some()) {
                                return Ok(());
                            }
                            // Flows to this host end by themselves: their own connections fail too.
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

    /// Ends flows that have no result, with the rows so far.
    fn give_up(&mut self, which: impl Fn(&PlannedFlow) -> bool, reason: &str) {
        for (planned, state) in self.planned.iter().zip(&mut self.states) {
            if state.end.is_some() || !which(planned) {
                continue;
            }
            let last = state.rows.last();
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

    /// Handles a message about a flow; `clock` is that of its sender.
    fn take(&mut self, reply: Reply, clock: ClockOffset, observer: &mut dyn Observer) -> Result<(), Error> {
        match reply {
            Reply::Note { number, text } => {
                if let Some(planned) = self.planned.get(number as usize) {
                    let note = format!("{}: {text}", planned.request.name);
                    if !self.notes.contains(&note) {
                        self.notes.push(note);
                    }
                }
            }
            Reply::Started { number, realtime_ns } => {
                let here_ns = clock.to_here(realtime_ns);
                if let Some(state) = self.states.get_mut(number as usize) {
                    state.started_ns = Some(here_ns);
                    let start = self.scenario.flows[number as usize].start;
                    self.zero_ns.get_or_insert(here_ns - i64::try_from(start.0).unwrap_or(0));
                }
            }
            Reply::Rows { number, samples } => {
                let Some(state) = self.states.get_mut(number as usize) else { return Ok(()) };
                let rows = named(samples.rows(), &self.planned[number as usize].request.name);
                let shift_us = shift_us(state.started_ns, self.zero_ns);
                state.rows.extend(rows.iter().cloned());
                let shifted: Vec<FlowSample> = rows.into_iter().map(|row| shifted(row, shift_us)).collect();
                if let Some(last) = shifted.last() {
                    let elapsed = Time(u64::try_from(last.time_us.max(0)).unwrap_or(0) * 1000);
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

    /// All that was measured.
    fn measured(self, hosts: BTreeMap<String, HostReport>) -> Result<Measured, Error> {
        let interrupted = self.options.stop.load(Ordering::Acquire);
        let mut measured = Measured { hosts, notes: self.notes, interrupted, ..Measured::default() };
        for (planned, mut state) in self.planned.into_iter().zip(self.states) {
            let end = state.end.take().unwrap_or_default();
            let shift_us = shift_us(state.started_ns, self.zero_ns);
            let both = end.samples.rows();
            let rows = if both.is_empty() { state.rows } else { named(both, &planned.request.name) };
            measured.rows.extend(rows.into_iter().map(|row| shifted(row, shift_us)));
            measured.events.extend(end.lost_echoes.iter().map(|(time_us, number)| Event {
                time_us: time_us + shift_us,
                subject: planned.request.name.clone(),
                kind: EventKind::PingLost,
                value: *number,
            }));
            let at = |us: i64| Time(u64::try_from(us.max(0)).unwrap_or(0) * 1000);
            let duration_us = i64::try_from(end.duration_us).unwrap_or(i64::MAX / 2000);
            let started = state.started_ns.map(|_| at(shift_us));
            let ended = started.map(|_| at(shift_us.saturating_add(duration_us)));
            measured.duration = measured.duration.max(ended.unwrap_or_default());
            measured.flow_totals.push(FlowTotals {
                name: planned.request.name.clone(),
                cc: end.congestion_control,
                started,
                ended,
                bytes: end.bytes,
            });
            measured.busy.push(end.busy);
            if let Some(reason) = end.error.filter(|_| measured.failed.is_none() && !interrupted) {
                measured.failed = Some(Error::Flow { flow: planned.request.name, reason });
            }
        }
        measured.rows.sort_by_key(|row| row.time_us);
        if measured.rows.is_empty() && measured.events.is_empty() {
            return Err(measured.failed.unwrap_or(Error::Interrupted));
        }
        Ok(measured)
    }
}

/// From the run's start to the flow's start, microseconds.
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
