//! One run: creates hosts, links and flows, drives and samples them, and removes them again.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel},
    },
    time::{Duration, Instant},
};

use engine_common::{FlowTotals, build_network, echo_timeout, sampled_pipes};
use net::Network;
use os::TxCounters;
use scenario::{FlowKind, Scenario};
use units::Time;

use crate::{
    Error,
    buffers::Buffers,
    capture::{CaptureEnd, Captures},
    clock::{Clock, RunTime, TimeMode},
    cpu_times::CpuUse,
    driver::{Driver, DriverReport, LinkRow, Shared},
    flow::{Flow, FlowPlans, check_congestion_control},
    flow_bulk::BulkPlan,
    flow_udp::{self, DatagramPlan},
    frame::Frame,
    host::{Host, HostDrops},
    journal::acquire_busy_poll_lock,
    namespace::{Namespace, check_threads},
    outcome::{Observer, Outcome, RunOptions},
    port::{Backend, Port},
    processors::{CpuMonitor, Placement, move_to},
    quality::{self, RunConditions},
    recorder::Recorder,
    sampler::{SampleBatch, Sampler, take_echoes},
    stall_effects,
    stalls::{self, Stalls},
    sys,
    taps::start_captures,
};

/// Minimum sample interval in real time.
const MIN_INTERVAL: Time = Time::from_millis(1);
/// Interval between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Interval over which processor use is averaged.
const CPU_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval at a run's end: averages of processor use over shorter times are meaningless.
const MIN_CPU_INTERVAL: Duration = Duration::from_millis(200);
/// Threads other than the main thread: the driver, its writer, the sampler, and one that enters a namespace.
const THREADS_PER_RUN: usize = 4;
/// Threads of a flow: its two ends, and one that enters a namespace.
const THREADS_PER_FLOW: usize = 3;
/// Maximum time until flows end after they were stopped.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that the lab supports every kind of flow of a scenario; it does not support XCP.
///
/// # Errors
/// [`Error::NotInLab`] for an unsupported kind; [`Error::ShortDatagrams`] for datagrams shorter than the
/// header that the lab writes into them.
pub fn check_flows(scenario: &Scenario) -> Result<(), Error> {
    scenario.flows.iter().try_for_each(|flow| match &flow.kind {
        FlowKind::Udp(udp) => flow_udp::check(&flow.name, udp),
        FlowKind::Xcp(_) => Err(Error::NotInLab { flow: flow.name.clone(), kind: flow.kind.name() }),
        _ => Ok(()),
    })
}

/// Runs a scenario with the kernel's TCP over the emulated network.
///
/// # Errors
/// See [`Error`]. After an error, no part of the lab remains.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, Error> {
    let began = Instant::now();
    check_flows(scenario)?;
    check_threads(THREADS_PER_RUN + THREADS_PER_FLOW * scenario.flows.len())?;
    // In a new namespace this process has CAP_NET_ADMIN, so it may use every congestion control of the
    // kernel.
    Namespace::new()?.run(|| options.congestion_controls.iter().try_for_each(check_congestion_control))?;
    let _entry = options.journal.enter(&scenario.name)?;
    let busy_poll_lock = acquire_busy_poll_lock();
    tracing::debug!(has_lock = busy_poll_lock.is_some(), "busy-poll lock");
    let lab = Lab::build(scenario, options.backend)?;
    tracing::info!(hosts = scenario.hosts.len(), links = scenario.links.len(), ports = ?options.backend, "network is up");
    let drops_before = lab.device_drops()?;
    let transmitted_before = lab.transmitted()?;
    let sampled = sampled_pipes(scenario);
    let mut recorder = Recorder::new(&sampled, observer);
    // In virtual time no thread polls, and no thread gets a dedicated processor.
    let has_processor = busy_poll_lock.is_some() && options.time == TimeMode::Real;
    let driven = drive(scenario, options, &lab, &mut recorder, has_processor)?;

    tracing::info!(wall = ?driven.wall, "all flows have ended");
    let stalls = stalls::events(&driven.report.stalls, &driven.sampler);
    let recorded = stall_effects::RecordedRun {
        scenario,
        stalls: &stalls,
        flows: &recorder.flows,
        events: &recorder.events,
    };
    let stall_effects = stall_effects::judge(&recorded);
    let drops = lab.device_drops()?;
    let device_drops = drops.outside.saturating_sub(drops_before.outside);
    let conditions = RunConditions {
        privilege: options.privilege,
        backend: options.backend,
        alone: busy_poll_lock.is_some(),
        outside_drops: device_drops
            + driven.report.refused
            + lab.ports.iter().map(Port::drops).sum::<u64>()
            + driven.flows.iter().map(|flow| flow.dropped_at_socket()).sum::<u64>(),
        tx_queue_drops: drops.tx_queue.saturating_sub(drops_before.tx_queue),
        no_tx_queue: options.backend == Backend::Packet
            && scenario.hosts.iter().any(|h| h.nic.tx_queue.is_some()),
        wall: driven.wall,
        cpu: driven.cpu,
        has_bulk: scenario.flows.iter().any(|flow| !matches!(flow.kind, FlowKind::Ping(_))),
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
        link_ends: recorder.links_counted.totals(),
        quality,
        wall: began.elapsed(),
        duration: flows
            .iter()
            .filter_map(|f| f.state().ended)
            .max()
            .unwrap_or_default()
            .min(scenario.end())
            .since_origin(),
        interrupted: options.stop.load(Ordering::Relaxed),
        failed: driven.failed,
        transmitted: lab
            .transmitted()?
            .into_iter()
            .map(|(host, now)| {
                let before = transmitted_before.get(&host).copied().unwrap_or_default();
                (host, now.since(before))
            })
            .collect(),
        flows: recorder.flows,
        links: recorder.links,
        events: recorder.events,
    })
}

/// Results of driving the flows, other than the recorded rows.
struct DriveResult {
    flows: Vec<Arc<Flow>>,
    report: DriverReport,
    sampler: Stalls,
    cpu: CpuUse,
    wall: Duration,
    captured: Vec<CaptureEnd>,
    failed: Option<Error>,
}

/// Runs driver, flows and sampler on their threads until all flows have ended.
fn drive(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    lab: &Lab,
    recorder: &mut Recorder<'_>,
    has_processor: bool,
) -> Result<DriveResult, Error> {
    let network: Network<Frame> = build_network(scenario)?;
    let placement = Placement::choose(has_processor);
    let buffers = Buffers::for_links(&scenario.links);
    let time = RunTime::begin(options.time);
    let flows: Vec<Arc<Flow>> = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, flow)| {
            let cc = options.congestion_controls.get(&flow.name).cloned();
            let plans = FlowPlans {
                datagrams: DatagramPlan::new(scenario, index),
                bulk: BulkPlan::new(scenario, index, options.own_controls.get(&flow.name).cloned()),
            };
            Arc::new(Flow::new(flow.clone(), cc, plans, time.clone()))
        })
        .collect();
    let (_command_sender, commands) = channel();
    let captures = Captures::new(time.clone());
    let driver = Driver {
        network,
        ports: &lab.ports,
        sampled: recorder.links_counted.pipes().collect(),
        interval: scenario.sample.max(MIN_INTERVAL),
        clock: Clock::new(time.clone(), &scenario.links),
        buffers,
        placement: placement.clone(),
        may_spin: placement.may_spin(),
        commands,
        captures: captures.clone(),
    };
    let sampler = Sampler {
        flows: flows.clone(),
        interval: scenario.sample.max(MIN_INTERVAL),
        end: scenario.end(),
        time: time.clone(),
        cpus: placement.flows.clone(),
    };
    let shared = Arc::new(Shared::default());
    let cancel = AtomicBool::new(false);
    let is_stopped = || cancel.load(Ordering::Relaxed) || options.stop.load(Ordering::Relaxed);
    let timeout = echo_timeout(scenario).to_duration();
    let (row_sender, rows) = channel();
    let (sample_sender, samples) = channel();

    let original_cpus = os::allowed_cpus().ok();
    move_to(placement.flows.as_deref());
    if let Some(dir) = options.capture_dir {
        start_captures(scenario, &captures, dir).inspect_err(|_| move_to(original_cpus.as_deref()))?;
    }
    let (driven, sampled, watched) = std::thread::scope(|scope| {
        let shared = &shared;
        // Stops the threads however this scope ends, including by a panic.
        let _stop_on_drop = StopOnDrop { shared, cancel: &cancel, flows: &flows };
        // Flows start once driver and sampler run: on a busy machine, starting a thread takes a while.
        let sampling = scope.spawn(move || sampler.run(shared, is_stopped, &sample_sender));
        shared.sampler_ready.wait_until_set(|| sampling.is_finished());
        let driver = scope.spawn(move || driver.run(shared, &row_sender));
        shared.running.wait_until_set(|| driver.is_finished());
        for flow in &flows {
            if let (Some(from), Some(to)) = (lab.host(&flow.spec.from), lab.host(&flow.spec.to)) {
                let cpus = placement.flows.as_deref();
                scope.spawn(move || flow.run(from, to, timeout, cpus));
            }
        }
        let allowed = original_cpus.as_deref().unwrap_or_default();
        let watched = collect_rows(recorder, &rows, &samples, shared, &time, (&cancel, allowed));
        if watched.is_err() {
            cancel.store(true, Ordering::Relaxed);
        }
        // Flows still need the network to close their connections.
        let ended = Instant::now();
        while !flows.iter().all(|f| f.is_done()) && ended.elapsed() < END_TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
        }
        shared.stop.store(true, Ordering::Relaxed);
        (driver.join(), sampling.join(), watched)
    });
    move_to(original_cpus.as_deref());
    let wall = sys::monotonic().since(time.start()).to_duration();
    let captured = captures.stop_all();
    let cpu = watched?;
    let report = driven
        .map_err(|_| Error::Emulator("the emulator panicked; please report this".into()))?
        .map_err(|e| Error::Emulator(e.to_string()))?;

    let sampler = sampled.map_err(|_| Error::Emulator("the sampler panicked; please report this".into()))?;

    let mut remainder = SampleBatch::default();
    flows.iter().for_each(|flow| take_echoes(&flow.spec.name, &mut flow.state(), &mut remainder));
    recorder.take_samples(remainder);
    rows.try_iter().for_each(|row| recorder.take_row(row));
    recorder.flush()?;
    match flows.iter().find_map(|flow| flow.state().failed.take()) {
        // Nothing was measured, so there is no partial result to return.
        Some(error) if recorder.flows.is_empty() => Err(error),
        failed => Ok(DriveResult { flows, report, sampler, cpu, wall, captured, failed }),
    }
}

/// Receives rows and reports progress until the sampler ends; returns how `cpus` were used.
fn collect_rows(
    recorder: &mut Recorder<'_>,
    rows: &Receiver<LinkRow>,
    samples: &Receiver<SampleBatch>,
    shared: &Shared,
    time: &RunTime,
    (cancel, cpus): (&AtomicBool, &[usize]),
) -> Result<CpuUse, Error> {
    let mut cpu = CpuMonitor::begin(cpus)?;
    let mut reported = Instant::now();
    let mut failed = None;
    loop {
        match samples.recv_timeout(PROGRESS_INTERVAL / 2) {
            Ok(batch) => recorder.take_samples(batch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        loop {
            match rows.try_recv() {
                Ok(row) => recorder.take_row(row),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    // The driver has ended; its result has the reason.
                    cancel.store(true, Ordering::Relaxed);
                    break;
                }
            }
        }
        if reported.elapsed() >= PROGRESS_INTERVAL {
            reported = Instant::now();
            if failed.is_none() {
                failed = recorder.flush().and_then(|()| cpu.update(shared.spun_ns(), CPU_INTERVAL)).err();
                recorder.report_progress(time.now().since_origin());
            }
            if failed.is_some() {
                cancel.store(true, Ordering::Relaxed);
            }
        }
    }
    match failed {
        Some(error) => Err(error),
        None => {
            cpu.update(shared.spun_ns(), MIN_CPU_INTERVAL)?;
            Ok(cpu.result)
        }
    }
}

/// Stops all threads of a run when dropped.
struct StopOnDrop<'a> {
    shared: &'a Shared,
    cancel: &'a AtomicBool,
    flows: &'a [Arc<Flow>],
}

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.cancel.store(true, Ordering::Relaxed);
        self.flows.iter().for_each(|flow| flow.stop.set());
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

/// Hosts, and their ports indexed by station.
pub(crate) struct Lab {
    pub(crate) hosts: Vec<Host>,
    pub(crate) ports: Vec<Port>,
}

impl Lab {
    pub(crate) fn build(scenario: &Scenario, backend: Backend) -> Result<Self, Error> {
        // Each host and each of its links needs a descriptor. If the limit cannot be raised enough, opening a
        // descriptor reports it.
        let _ = os::raise_file_limit();
        // The far ends of veth pairs are in a separate namespace; ports hold the descriptors that they need.
        let wires = Namespace::new()?;
        let mut lab = Lab { hosts: Vec::new(), ports: Vec::new() };
        for spec in &scenario.hosts {
            let links = scenario.link_count(&spec.name);
            let (host, ports) = Host::new(lab.ports.len(), links, spec, backend, &wires)?;
            tracing::debug!(host = spec.name, ports = ports.len(), "is up");
            lab.hosts.push(host);
            lab.ports.extend(ports);
        }
        if scenario.fixed_neighbours {
            let stations = station_addresses(scenario);
            lab.hosts
                .iter()
                .zip(&scenario.hosts)
                .try_for_each(|(host, spec)| host.fix_neighbours(spec, &stations))?;
        }
        Ok(lab)
    }

    pub(crate) fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|h| h.name == name)
    }

    /// Packets dropped by the devices of all hosts since they were created.
    fn device_drops(&self) -> Result<HostDrops, Error> {
        self.hosts.iter().map(Host::drops).sum()
    }

    /// The transmit counters of each host's devices since they were created.
    fn transmitted(&self) -> Result<BTreeMap<String, TxCounters>, Error> {
        self.hosts.iter().map(|host| Ok((host.name.clone(), host.transmitted()?))).collect()
    }
}

/// The addresses of all interfaces, with the station of each: hosts' before routers', in the order of the
/// file.
fn station_addresses(scenario: &Scenario) -> Vec<(IpAddr, usize)> {
    let host_interfaces = scenario.hosts.iter().map(|host| (&host.name, &host.interfaces));
    let router_interfaces = scenario.routers.iter().map(|router| (&router.name, &router.interfaces));
    let mut first = 0;
    let mut addresses = Vec::new();
    for (name, interfaces) in host_interfaces.chain(router_interfaces) {
        for (link, interface) in interfaces.iter().enumerate() {
            addresses.extend(interface.addresses.iter().map(|cidr| (cidr.address, first + link)));
        }
        first += scenario.link_count(name);
    }
    addresses
}

fn flow_end(flow: &Flow) -> FlowTotals {
    let state = flow.state();
    FlowTotals {
        name: flow.spec.name.clone(),
        cc: state.cc.clone(),
        started: state.started,
        ended: state.ended,
        bytes: flow.received.load(Ordering::Relaxed),
        playout: state.bulk.as_ref().and_then(|counts| counts.get().1.playout),
    }
}
