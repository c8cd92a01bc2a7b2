//! The simulator as an engine: this machine's kernel in virtual time, with the program's own congestion controls.

use std::{
    path::Path,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use cc::native::Library;
use lab::Observer as _;
use scenario::{Cc, EngineKind, Flow, Host, Kind, Scenario};
use schema::{Event, FlowSample, HostInfo, LinkSample, Quality, TraceRow};
use sim::{Controllers, Machine, Side};
use units::{KernelVersion, Time};

use super::{Engine, Task};
use crate::{
    Error, Outcome, Result,
    congestion::{FROM_US, own_names, settings, source, values},
    flow_context::setting,
    outcome::{Measured, Recording, complete},
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The sysctl that names the congestion control of flows that name none.
const CC_SYSCTL: &str = "net.ipv4.tcp_congestion_control";

/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The simulator.
pub(crate) struct Sim<'a> {
    /// The scenario's file: congestion controls are found beside it.
    pub path: &'a Path,
    /// This machine, whose kernel is simulated.
    pub host: &'a HostInfo,
    /// Another kernel to be simulated.
    pub kernel: Option<KernelVersion>,
    /// Flows to be traced, by name.
    pub traced: &'a [String],
}

impl Engine for Sim<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, begun, observer, writer, stop } = task;
        let began = Instant::now();
        let machine = self.machine()?;
        let mut native = Native { scenario, path: self.path, machine: &machine, libraries: Vec::new() };
        let recording = Recording { writer, observer };
        let mut watcher = Watcher { recording, reported: began, stop, traced: self.traced };
        let outcome = sim::run(scenario, &machine, &mut native, &mut watcher)?;
        let describe_cc = |flow: &Flow, used: Option<&str>, flow_summary: &mut schema::FlowSummary| {
            let Kind::Tcp(_) = &flow.kind else { return };
            let cc = native.asked(flow, Side::Sender);
            flow_summary.cc_kernel_name = used.map(Into::into);
            flow_summary.cc_from = Some(match &cc {
                Cc::File { path, .. } => path.clone(),
                _ => FROM_US.into(),
            });
            flow_summary.cc_set = settings(&cc);
            flow_summary.cc = Some(cc.name().into());
        };
        let measured = Measured {
            flows: outcome.flows,
            links: outcome.links,
            events: outcome.events,
            flow_ends: outcome.flow_ends,
            link_ends: outcome.link_ends,
            quality: Quality { ok: true, notes: notes(scenario, &machine), ..Quality::default() },
            wall: began.elapsed(),
            duration: outcome.duration,
            interrupted: outcome.interrupted,
            failed: None,
        };
        Ok(complete(scenario, describe_cc, begun, measured))
    }
}

/// What a reader should know of a simulation.
fn notes(scenario: &Scenario, machine: &Machine) -> Vec<String> {
    let mut kernels: Vec<_> =
        scenario.hosts.iter().map(|host| (machine.kernel_of(host), machine.hz_of(host))).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let name =
        |((major, minor), hz): &((u8, u8), u32)| format!("Linux {major}.{minor} at {hz} ticks a second");
    let kernels: Vec<String> = kernels.iter().map(name).collect();
    let mut notes = vec![format!("simulated: {}", kernels.join(", "))];
    let applies = |host: &Host, name: &str| name == CC_SYSCTL || sim::applies_sysctl(machine, host, name);
    notes.extend(scenario.not_modelled(EngineKind::Sim, applies));
    notes
}

impl Sim<'_> {
    /// This machine's kernel and what its namespaces would inherit.
    fn machine(&self) -> Result<Machine> {
        let default = Machine::default();
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        let pair = |v: KernelVersion| (small(v.major), small(v.minor));
        if let Some(asked) = self.kernel.filter(|asked| !scenario::is_simulated(pair(*asked))) {
            let message = format!("no Linux {asked} is simulated: --kernel takes 2.4 and all from 5.0 on");
            return Err(Error::BadInput(message));
        }
        let version = self.kernel.or_else(|| KernelVersion::from_str(&self.host.kernel).ok());
        Ok(Machine {
            kernel: version.map_or(default.kernel, pair),
            rmem: inherited("net.ipv4.tcp_rmem").unwrap_or(default.rmem),
            wmem: inherited("net.ipv4.tcp_wmem").unwrap_or(default.wmem),
            rmem_max: inherited("net.core.rmem_max").map_or(default.rmem_max, |[value]| value),
            wmem_max: inherited("net.core.wmem_max").map_or(default.wmem_max, |[value]| value),
            ..default
        })
    }
}

fn inherited<const N: usize>(name: &str) -> Option<[u32; N]> {
    let numbers: Vec<u32> = setting(None, name)?.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().ok()
}

/// Congestion controls from C files, each loaded once for a run and set of parameters.
struct Native<'a> {
    scenario: &'a Scenario,
    path: &'a Path,
    machine: &'a Machine,
    /// Each for hosts with so many ticks a second.
    libraries: Vec<(Cc, u32, Library)>,
}

impl Native<'_> {
    /// What one end of a flow has: what the flow says, else what its host is set to.
    fn asked(&self, flow: &Flow, side: Side) -> Cc {
        let by_host = |name: &str| {
            let mut host = self.scenario.host(name).cloned();
            if let Some(host) = &mut host {
                host.kernel = Some(self.machine.kernel_of(host));
            }
            Cc::Named(default_cc(host.as_ref()))
        };
        match (&flow.kind, side) {
            (Kind::Tcp(tcp), Side::Sender) => tcp.cc.clone().unwrap_or_else(|| by_host(&flow.from)),
            (_, Side::Sender) => by_host(&flow.from),
            (_, Side::Receiver) => by_host(&flow.to),
        }
    }

    /// Ticks a second of one end's host.
    fn hz(&self, flow: &Flow, side: Side) -> u32 {
        let name = if side == Side::Sender { &flow.from } else { &flow.to };
        self.scenario.host(name).map_or(self.machine.hz, |host| self.machine.hz_of(host))
    }

    fn library(&mut self, cc: &Cc, hz: u32) -> Result<&Library> {
        let index = match self.libraries.iter().position(|(known, ticks, _)| known == cc && *ticks == hz) {
            Some(index) => index,
            None => {
                let source = source(cc, self.path).ok_or_else(|| {
                    let own = own_names().join(", ");
                    Error::BadInput(format!(
                        "longfat has no congestion control {:?}: it has {own}",
                        cc.name()
                    ))
                })?;
                let mut library = Library::open(&source, &values(cc))?;
                library.set_hz(hz);
                self.libraries.push((cc.clone(), hz, library));
                self.libraries.len() - 1
            }
        };
        Ok(&self.libraries[index].2)
    }

    fn make(&mut self, flow: &Flow, side: Side) -> Result<Box<dyn tcp::CongestionControl>> {
        let cc = self.asked(flow, side);
        // A receiver sends no data: where the machine's own default is not among ours, any will do.
        let known = side == Side::Sender || source(&cc, self.path).is_some();
        let cc = if known { cc } else { Cc::Named("cubic".into()) };
        let name = match &cc {
            Cc::File { name, .. } => name.clone(),
            _ => None,
        };
        let place = self.scenario.flows.iter().position(|f| f.name == flow.name).unwrap_or_default();
        let mut controller = self.library(&cc, self.hz(flow, side))?.controller(name.as_deref())?;
        controller.set_seed(
            self.scenario.seed.wrapping_mul(1_000_003).wrapping_add(2 * place as u64 + side as u64),
        );
        Ok(Box::new(controller))
    }
}

impl Controllers for Native<'_> {
    fn controller(
        &mut self,
        flow: &Flow,
        side: Side,
    ) -> std::result::Result<Box<dyn tcp::CongestionControl>, AnyError> {
        self.make(flow, side).map_err(Into::into)
    }
}

/// The congestion control of flows that name none.
pub(crate) fn default_cc(host: Option<&Host>) -> String {
    setting(host, CC_SYSCTL).map_or_else(|| "cubic".into(), |name| name.trim().into())
}

/// Takes a simulation's rows and reports its progress.
struct Watcher<'a> {
    recording: Recording<'a>,
    /// When progress was last reported.
    reported: Instant,
    stop: &'a AtomicBool,
    traced: &'a [String],
}

impl sim::Observer for Watcher<'_> {
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> std::result::Result<(), AnyError> {
        self.recording.rows(flows, links, events)
    }

    fn progress(&mut self, elapsed: Time, latest: &[FlowSample]) -> bool {
        if self.reported.elapsed() >= PROGRESS_INTERVAL {
            self.reported = Instant::now();
            self.recording.progress(&lab::Progress { elapsed, flows: latest.to_vec() });
        }
        !self.stop.load(Ordering::Relaxed)
    }

    fn traces(&self, flow: &Flow) -> bool {
        self.traced.contains(&flow.name)
    }

    fn traced(&mut self, rows: &[TraceRow]) -> std::result::Result<(), AnyError> {
        match &mut self.recording.writer {
            Some(writer) => writer.append_trace(rows).map_err(Into::into),
            None => Ok(()),
        }
    }
}
