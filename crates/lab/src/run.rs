//! One run: hosts, links and flows made, driven, sampled and taken down again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    },
    time::{Duration, Instant},
};

use net::{Counters, Network};
use scenario::{Queue, Scenario};
use schema::{Event, FlowSample, LinkSample, Quality};
use units::{Bytes, Time};

use crate::{
    Error, Journal,
    driver::{Driver, LinkRow, Shared},
    flow::{Flow, check_congestion_control},
    frame::Frame,
    host::Host,
    journal::take_spin_right,
    machine::{CpuTimes, CpuUse, Privilege},
    namespace::Namespace,
    plan::{sampled_pipes, topology},
    port::{Backend, Port},
    quality::{self, Conditions},
    recorder::Recorder,
    sampler::{Look, Sampler, take_echoes},
    sys,
};

/// How often progress is told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The span over which processor use is taken.
const CPU_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest span at a run's end that still tells something of it.
const LEAST_CPU_INTERVAL: Duration = Duration::from_millis(200);
/// How long flows may take to end after they were told to.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How to run.
#[derive(Debug)]
pub struct Options<'a> {
    /// By what right, see [`crate::acquire`].
    pub privilege: Privilege,
    /// How ports are made.
    pub backend: Backend,
    /// Where this lab is entered.
    pub journal: &'a Journal,
    /// Set from outside to end the run early.
    pub stop: &'a AtomicBool,
}

/// Sees a run while it goes on.
pub trait Observer {
    /// Rows since the last call, in order of time. An error ends the run.
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
    /// How far the run is, several times a second.
    fn progress(&mut self, progress: &Progress);
}

/// How far a run is.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Time,
    /// The latest sample of each flow that has one, in the scenario's order.
    pub flows: Vec<FlowSample>,
}

/// A flow's ends in time.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowEnd {
    /// The flow's name.
    pub name: String,
    /// Congestion control that was used.
    pub cc: Option<String>,
    /// When it was connected, and when its last byte was read.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Application bytes received.
    pub bytes: u64,
}

/// A link direction's counters at the end of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkEnd {
    /// Index of the link in the scenario.
    pub link: usize,
    /// The direction from the second end to the first.
    pub reversed: bool,
    /// The counters.
    pub counters: Counters,
}

/// What a run gave.
#[derive(Debug)]
pub struct Outcome {
    /// All samples in order of time.
    pub flows: Vec<FlowSample>,
    /// All link samples.
    pub links: Vec<LinkSample>,
    /// All events.
    pub events: Vec<Event>,
    /// The flows' ends, in the scenario's order.
    pub flow_ends: Vec<FlowEnd>,
    /// The counters of links that are not ideal.
    pub link_ends: Vec<LinkEnd>,
    /// How far the run can be trusted.
    pub quality: Quality,
    /// Time on the wall's clock, set-up included.
    pub wall: Duration,
    /// How long the flows ran.
    pub duration: Time,
    /// True where it was ended early from outside.
    pub interrupted: bool,
    /// The first flow's failure, where other flows were measured all the same.
    pub failed: Option<Error>,
}

/// Runs a scenario with the kernel's TCP over the emulated network.
///
/// # Errors
/// See [`Error`]; whatever goes wrong, nothing of the lab remains.
pub fn run(
    scenario: &Scenario,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let began = Instant::now();
    // In a namespace of our own, where every congestion control of the kernel is allowed to us.
    Namespace::new()?.run(|| scenario.flows.iter().try_for_each(check_congestion_control))?;
    let _entry = options.journal.enter(&scenario.name)?;
    let spin_right = take_spin_right();
    let network: Network<Frame> = topology(scenario).build(scenario.seed)?;
    let sampled = sampled_pipes(scenario);
    let Lab { hosts, ports } = Lab::build(scenario, options.backend)?;
    let drops_before = device_drops(&hosts)?;
    let placement = Placement::choose(spin_right.is_some());
    let flows: Vec<Arc<Flow>> = scenario.flows.iter().map(|f| Arc::new(Flow::new(f.clone()))).collect();

    let start = sys::monotonic();
    let shared = Arc::new(Shared::default());
    let driver = Driver {
        network,
        ports: &ports,
        sampled: sampled.iter().map(|p| p.pipe).collect(),
        interval: scenario.sample,
        start,
        cpus: placement.driver.clone(),
        may_spin: spin_right.is_some(),
    };
    let sampler = Sampler {
        flows: flows.clone(),
        interval: scenario.sample,
        duration: scenario.duration,
        start,
        cpus: placement.flows.clone(),
    };
    let mut recorder = Recorder::new(&sampled, observer);
    let give_up = AtomicBool::new(false);
    let stopped = || give_up.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed);
    let (row_sender, rows) = channel();
    let (look_sender, looks) = channel();

    let everywhere = sys::allowed_cpus().ok();
    move_to(placement.flows.as_deref());
    let patience = patience(scenario);
    let (driven, watched) = std::thread::scope(|scope| {
        let shared = &shared;
        // However this scope ends, by a panic as well, its threads are told to end.
        let _ending = Ending { shared, give_up: &give_up, flows: &flows };
        let driver = scope.spawn(move || driver.run(shared, &row_sender));
        for flow in &flows {
            let host = |name: &str| hosts.iter().find(|h| h.name == name);
            if let (Some(from), Some(to)) = (host(&flow.spec.from), host(&flow.spec.to)) {
                let cpus = placement.flows.as_deref();
                scope.spawn(move || flow.run(from, to, start, patience, cpus));
            }
        }
        scope.spawn(move || sampler.run(stopped, &look_sender));
        let watched = watch_over(&mut recorder, &rows, &looks, shared, start, &give_up);
        if watched.is_err() {
            give_up.store(true, Ordering::Relaxed);
        }
        // Flows still need their network to say goodbye.
        let ended = Instant::now();
        while !flows.iter().all(|f| f.is_done()) && ended.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
        }
        shared.stop.store(true, Ordering::Relaxed);
        (driver.join(), watched)
    });
    move_to(everywhere.as_deref());
    let ran = Duration::from_nanos(sys::monotonic().0 - start.0);
    let cpu = watched?;
    let mut outcome_failed = None;
    let report = driven
        .map_err(|_| Error::Emulator("it panicked; please report this".into()))?
        .map_err(|e| Error::Emulator(e.to_string()))?;
    let failed = flows.iter().find_map(|flow| flow.state().failed.take());
    let mut rest = Look::default();
    flows.iter().for_each(|flow| take_echoes(&flow.spec.name, &mut flow.state(), &mut rest));
    recorder.take_look(rest);
    rows.try_iter().for_each(|row| recorder.take_row(&row));
    if let Some(error) = failed {
        // What the others measured is worth keeping; where nothing was, there is nothing to keep.
        if recorder.flows.is_empty() {
            return Err(error);
        }
        outcome_failed = Some(error);
    }
    recorder.flush()?;
    let device_drops = device_drops(&hosts)?.saturating_sub(drops_before);
    let outside_drops = device_drops + report.refused + ports.iter().map(Port::drops).sum::<u64>();
    let conditions = Conditions {
        privilege: options.privilege,
        backend: options.backend,
        alone: spin_right.is_some(),
        outside_drops,
        wall: ran,
        cpu,
    };
    Ok(Outcome {
        flow_ends: flows.iter().map(|f| flow_end(f)).collect(),
        link_ends: recorder.link_ends(),
        quality: quality::judge(&report, &conditions),
        wall: began.elapsed(),
        duration: flows
            .iter()
            .filter_map(|f| f.state().ended)
            .max()
            .unwrap_or_default()
            .min(scenario.duration),
        interrupted: options.stop.load(Ordering::Relaxed),
        failed: outcome_failed,
        flows: recorder.flows,
        links: recorder.links,
        events: recorder.events,
    })
}

/// Takes rows in and tells progress until the sampler ends; returns how the processors were used.
fn watch_over(
    recorder: &mut Recorder<'_>,
    rows: &Receiver<LinkRow>,
    looks: &Receiver<Look>,
    shared: &Shared,
    start: Time,
    give_up: &AtomicBool,
) -> Result<CpuUse, Error> {
    let mut cpu = CpuWatch::begin()?;
    let mut told = Instant::now();
    let mut failed = None;
    loop {
        match looks.recv_timeout(PROGRESS_INTERVAL / 2) {
            Ok(look) => recorder.take_look(look),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        loop {
            match rows.try_recv() {
                Ok(row) => recorder.take_row(&row),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    // The driver is gone; its own result says why.
                    give_up.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        if told.elapsed() >= PROGRESS_INTERVAL {
            told = Instant::now();
            if failed.is_none() {
                let elapsed = Time(sys::monotonic().0.saturating_sub(start.0));
                failed = recorder.flush().and_then(|()| cpu.take(shared, CPU_INTERVAL)).err();
                recorder.tell(elapsed);
            }
            if failed.is_some() {
                give_up.store(true, Ordering::Relaxed);
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None => {
            cpu.take(shared, LEAST_CPU_INTERVAL)?;
            Ok(cpu.result)
        }
    }
}

/// Tells all threads of a run to end when dropped.
struct Ending<'a> {
    shared: &'a Shared,
    give_up: &'a AtomicBool,
    flows: &'a [Arc<Flow>],
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.give_up.store(true, Ordering::Relaxed);
        self.flows.iter().for_each(|flow| flow.stop.set());
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// How long an echo may take: a second, or some round trips of the longest path, full queues included.
fn patience(scenario: &Scenario) -> Duration {
    let directions = scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
    let nanos: u64 = directions
        .map(|d| {
            let queue = match (d.rate, d.queue) {
                (Some(rate), Queue::Bytes(bytes)) => rate.transmit_time(bytes).0,
                (Some(rate), Queue::Packets(n)) => rate.transmit_time(Bytes(n.saturating_mul(1514))).0,
                _ => 0,
            };
            d.delay.0.saturating_add(queue)
        })
        .fold(0, u64::saturating_add);
    Duration::from_nanos(nanos.saturating_mul(2)).clamp(Duration::from_secs(1), Duration::from_secs(60))
}

/// Hosts and their ports.
struct Lab {
    hosts: Vec<Host>,
    ports: Vec<Port>,
}

impl Lab {
    fn build(scenario: &Scenario, backend: Backend) -> Result<Self, Error> {
        // The other ends of veth pairs live in a namespace of their own; ports keep what they need of it.
        let wires = Namespace::new()?;
        let mut lab = Lab { hosts: Vec::new(), ports: Vec::new() };
        for (index, spec) in scenario.hosts.iter().enumerate() {
            let (host, port) = Host::new(index, spec, backend, &wires)?;
            lab.hosts.push(host);
            lab.ports.push(port);
        }
        Ok(lab)
    }
}

/// What all hosts' devices dropped since they were made.
fn device_drops(hosts: &[Host]) -> Result<u64, Error> {
    hosts.iter().map(|host| host.drops().map(|d| d.received + d.sent)).sum()
}

fn flow_end(flow: &Flow) -> FlowEnd {
    let state = flow.state();
    FlowEnd {
        name: flow.spec.name.clone(),
        cc: state.cc.clone(),
        started: state.started,
        ended: state.ended,
        bytes: flow.received.load(Ordering::Relaxed),
    }
}

/// Which processors the threads use: the emulator has one for itself where there are two and no other
/// lab has done the same.
struct Placement {
    driver: Option<Vec<usize>>,
    flows: Option<Vec<usize>>,
}

impl Placement {
    fn choose(alone: bool) -> Self {
        match sys::allowed_cpus().ok().as_deref() {
            Some([others @ .., last]) if alone && !others.is_empty() => {
                Placement { driver: Some(vec![*last]), flows: Some(others.to_vec()) }
            }
            _ => Placement { driver: None, flows: None },
        }
    }
}

/// Moves this thread to `cpus`, if any; where that is refused the scheduler places it.
fn move_to(cpus: Option<&[usize]>) {
    if let Some(cpus) = cpus {
        let _ = sys::set_allowed_cpus(cpus);
    }
}

/// Follows how the machine's processors are used, second by second.
struct CpuWatch {
    before: CpuTimes,
    at: Instant,
    spun: u64,
    result: CpuUse,
}

impl CpuWatch {
    fn begin() -> Result<Self, Error> {
        Ok(CpuWatch {
            before: CpuTimes::now()?,
            at: Instant::now(),
            spun: 0,
            result: CpuUse { idle: 1.0, stolen: 0.0 },
        })
    }

    /// Takes the use since the last time, if that is at least `least` ago.
    fn take(&mut self, shared: &Shared, least: Duration) -> Result<(), Error> {
        let wall = self.at.elapsed();
        if wall < least {
            return Ok(());
        }
        let (now, spun) = (CpuTimes::now()?, shared.spun.load(Ordering::Relaxed));
        let used = now.since(&self.before, wall, Duration::from_nanos(spun - self.spun));
        self.result.idle = self.result.idle.min(used.idle);
        self.result.stolen = self.result.stolen.max(used.stolen);
        (self.before, self.at, self.spun) = (now, Instant::now(), spun);
        Ok(())
    }
}
