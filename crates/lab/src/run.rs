//! One run: hosts, links and flows made, driven, sampled and taken down again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    },
    time::{Duration, Instant},
};

use net::Network;
use scenario::{Kind, Scenario, rows::FlowEnd};
use units::Time;

use crate::{
    Error,
    buffers::Buffers,
    capture::{CaptureEnd, Captures},
    clock::{Clock, RunTime, TimeMode},
    driver::{Driver, DriverReport, LinkRow, Shared},
    flow::{Flow, check_congestion_control},
    flow_udp::{self, DatagramPlan},
    frame::Frame,
    host::{Host, HostDrops},
    journal::take_spin_right,
    machine::CpuUse,
    namespace::{Namespace, check_threads},
    outcome::{Observer, Options, Outcome},
    plan::{network, patience, sampled_pipes},
    port::{Backend, Port},
    processors::{CpuWatch, Placement, move_to},
    quality::{self, Conditions},
    recorder::Recorder,
    sampler::{Look, Sampler, take_echoes},
    stall_effects,
    stalls::{self, Stalls},
    sys,
    taps::start_captures,
};

/// The shortest sample interval that real time allows.
const LEAST_INTERVAL: Time = Time::from_millis(1);
/// How often progress is told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The span over which processor use is taken.
const CPU_INTERVAL: Duration = Duration::from_secs(1);
/// The shortest span at a run's end that still tells something of it.
const LEAST_CPU_INTERVAL: Duration = Duration::from_millis(200);
/// Threads beside the first: the driver, its writer, the sampler, and one that enters a namespace.
const THREADS_OF_A_RUN: usize = 4;
/// Threads of a flow: its two ends, and one that enters a namespace.
const THREADS_OF_A_FLOW: usize = 3;
/// How long flows may take to end after they were told to.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the lab has every kind of flow that a scenario has: XCP has no threads here yet.
///
/// # Errors
/// [`Error::NotInLab`], and [`Error::ShortDatagrams`] for those of fewer bytes than what the lab writes into them.
pub fn check_flows(scenario: &Scenario) -> Result<(), Error> {
    scenario.flows.iter().try_for_each(|flow| match &flow.kind {
        Kind::Tcp(_) | Kind::Ping(_) => Ok(()),
        Kind::Udp(udp) => flow_udp::check(&flow.name, udp),
        other => Err(Error::NotInLab { flow: flow.name.clone(), kind: other.name() }),
    })
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
    check_flows(scenario)?;
    check_threads(THREADS_OF_A_RUN + THREADS_OF_A_FLOW * scenario.flows.len())?;
    // In a namespace of our own, where every congestion control of the kernel is allowed to us.
    Namespace::new()?.run(|| options.congestion_controls.iter().try_for_each(check_congestion_control))?;
    let _entry = options.journal.enter(&scenario.name)?;
    let spin_right = take_spin_right();
    let lab = Lab::build(scenario, options.backend)?;
    let drops_before = lab.device_drops()?;
    let sampled = sampled_pipes(scenario);
    let mut recorder = Recorder::new(&sampled, observer);
    // In virtual time nothing polls, and no processor is to be had for one thread alone.
    let has_processor = spin_right.is_some() && options.time == TimeMode::Real;
    let driven = drive(scenario, options, &lab, &mut recorder, has_processor)?;

    let stalls = stalls::events(&driven.report.stalls, &driven.sampler);
    let recorded = stall_effects::Recorded {
        scenario,
        stalls: &stalls,
        flows: &recorder.flows,
        events: &recorder.events,
    };
    let stall_effects = stall_effects::judge(&recorded);
    let drops = lab.device_drops()?;
    let device_drops = drops.outside.saturating_sub(drops_before.outside);
    let conditions = Conditions {
        privilege: options.privilege,
        backend: options.backend,
        alone: spin_right.is_some(),
        outside_drops: device_drops
            + driven.report.refused
            + lab.ports.iter().map(Port::drops).sum::<u64>()
            + driven.flows.iter().map(|flow| flow.dropped_at_socket()).sum::<u64>(),
        tx_queue_drops: drops.tx_queue.saturating_sub(drops_before.tx_queue),
        no_tx_queue: options.backend == Backend::Packet
            && scenario.hosts.iter().any(|h| h.nic.tx_queue.is_some()),
        wall: driven.wall,
        cpu: driven.cpu,
        has_bulk: scenario.flows.iter().any(|flow| !matches!(flow.kind, Kind::Ping(_))),
        sampler: driven.sampler,
        stall_effects,
        time: options.time,
    };
    let mut quality = quality::judge(&driven.report, &conditions);
    quality.notes.extend(driven.captured.iter().filter_map(CaptureEnd::note));
    recorder.events.extend(stalls);
    let flows = driven.flows;
    quality.notes.extend(flows.iter().filter_map(|flow| flow.state().note.take()));
    Ok(Outcome {
        flow_ends: flows.iter().map(|f| flow_end(f)).collect(),
        link_ends: recorder.links_counted.ends(),
        quality,
        wall: began.elapsed(),
        duration: flows
            .iter()
            .filter_map(|f| f.state().ended)
            .max()
            .unwrap_or_default()
            .min(scenario.duration),
        interrupted: options.stop.load(Ordering::Relaxed),
        failed: driven.failed,
        flows: recorder.flows,
        links: recorder.links,
        events: recorder.events,
    })
}

/// What driving the flows gave beside the recorded rows.
struct Driven {
    flows: Vec<Arc<Flow>>,
    report: DriverReport,
    sampler: Stalls,
    cpu: CpuUse,
    wall: Duration,
    captured: Vec<CaptureEnd>,
    failed: Option<Error>,
}

/// Runs driver, flows and sampler on threads of their own until all flows have ended.
fn drive(
    scenario: &Scenario,
    options: &Options<'_>,
    lab: &Lab,
    recorder: &mut Recorder<'_>,
    alone: bool,
) -> Result<Driven, Error> {
    let network: Network<Frame> = network(scenario)?;
    let placement = Placement::choose(alone);
    let buffers = Buffers::for_links(&scenario.links);
    let time = RunTime::begin(options.time);
    let flows: Vec<Arc<Flow>> = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| {
            let cc = options.congestion_controls.get(&flow.name).cloned();
            Arc::new(Flow::new(flow.clone(), cc, DatagramPlan::new(scenario, index), time.clone()))
        })
        .collect();
    let (_nobody, commands) = channel();
    let captures = Captures::new(time.start());
    let driver = Driver {
        network,
        ports: &lab.ports,
        sampled: recorder.links_counted.pipes().collect(),
        interval: scenario.sample.max(LEAST_INTERVAL),
        clock: Clock::new(time.clone(), &scenario.links),
        buffers,
        placement: placement.clone(),
        may_spin: placement.may_spin(),
        commands,
        captures: captures.clone(),
    };
    let sampler = Sampler {
        flows: flows.clone(),
        interval: scenario.sample.max(LEAST_INTERVAL),
        duration: scenario.duration,
        time: time.clone(),
        cpus: placement.flows.clone(),
    };
    let shared = Arc::new(Shared::default());
    let give_up = AtomicBool::new(false);
    let stopped = || give_up.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed);
    let patience = Duration::from_nanos(patience(scenario).0);
    let (row_sender, rows) = channel();
    let (look_sender, looks) = channel();

    let everywhere = sys::allowed_cpus().ok();
    move_to(placement.flows.as_deref());
    if let Some(dir) = options.capture_dir {
        start_captures(scenario, &captures, dir).inspect_err(|_| move_to(everywhere.as_deref()))?;
    }
    let (driven, sampled, watched) = std::thread::scope(|scope| {
        let shared = &shared;
        // However this scope ends, by a panic as well, its threads are told to end.
        let _ending = Ending { shared, give_up: &give_up, flows: &flows };
        // Flows begin when their network and whoever samples them run: on a busy machine that takes a while.
        let sampling = scope.spawn(move || sampler.run(shared, stopped, &look_sender));
        shared.sampler_ready.wait_until_set(|| sampling.is_finished());
        let driver = scope.spawn(move || driver.run(shared, &row_sender));
        shared.running.wait_until_set(|| driver.is_finished());
        for flow in &flows {
            if let (Some(from), Some(to)) = (lab.host(&flow.spec.from), lab.host(&flow.spec.to)) {
                let cpus = placement.flows.as_deref();
                scope.spawn(move || flow.run(from, to, patience, cpus));
            }
        }
        let watched = watch_over(recorder, &rows, &looks, shared, &time, &give_up);
        if watched.is_err() {
            give_up.store(true, Ordering::Relaxed);
        }
        // Flows still need their network to say goodbye.
        let ended = Instant::now();
        while !flows.iter().all(|f| f.is_done()) && ended.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
        }
        shared.stop.store(true, Ordering::Relaxed);
        (driver.join(), sampling.join(), watched)
    });
    move_to(everywhere.as_deref());
    let wall = Duration::from_nanos(sys::monotonic().0 - time.start().0);
    let captured = captures.stop_all();
    let cpu = watched?;
    let report = driven
        .map_err(|_| Error::Emulator("it panicked; please report this".into()))?
        .map_err(|e| Error::Emulator(e.to_string()))?;

    let sampler = sampled.map_err(|_| Error::Emulator("its sampler panicked; please report this".into()))?;

    let mut rest = Look::default();
    flows.iter().for_each(|flow| take_echoes(&flow.spec.name, &mut flow.state(), &mut rest));
    recorder.take_look(rest);
    rows.try_iter().for_each(|row| recorder.take_row(row));
    recorder.flush()?;
    match flows.iter().find_map(|flow| flow.state().failed.take()) {
        // Nothing was measured, so there is nothing to keep.
        Some(error) if recorder.flows.is_empty() => Err(error),
        failed => Ok(Driven { flows, report, sampler, cpu, wall, captured, failed }),
    }
}

/// Takes rows in and tells progress until the sampler ends; returns how the processors were used.
fn watch_over(
    recorder: &mut Recorder<'_>,
    rows: &Receiver<LinkRow>,
    looks: &Receiver<Look>,
    shared: &Shared,
    time: &RunTime,
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
                Ok(row) => recorder.take_row(row),
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
                failed = recorder.flush().and_then(|()| cpu.take(shared, CPU_INTERVAL)).err();
                recorder.tell(time.now());
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

/// Hosts and their ports, by station.
pub(crate) struct Lab {
    pub(crate) hosts: Vec<Host>,
    pub(crate) ports: Vec<Port>,
}

impl Lab {
    pub(crate) fn build(scenario: &Scenario, backend: Backend) -> Result<Self, Error> {
        // A host takes a descriptor, and each of its links another. Where more are refused, making them says so.
        let _ = sys::raise_file_limit();
        // The other ends of veth pairs live in a namespace of their own; ports keep what they need of it.
        let wires = Namespace::new()?;
        let mut lab = Lab { hosts: Vec::new(), ports: Vec::new() };
        for spec in &scenario.hosts {
            let links = scenario.link_count(&spec.name);
            let (host, ports) = Host::new(lab.ports.len(), links, spec, backend, &wires)?;
            lab.hosts.push(host);
            lab.ports.extend(ports);
        }
        Ok(lab)
    }

    pub(crate) fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// What all hosts' devices dropped since they were made.
    fn device_drops(&self) -> Result<HostDrops, Error> {
        self.hosts.iter().map(Host::drops).sum()
    }
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
