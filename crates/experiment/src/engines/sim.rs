//! The simulator as an engine: simulates TCP of this machine's kernel version in virtual time, with congestion controls
//! built from C files.

use std::{
    path::Path,
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use cc::native::Library;
use lab::Observer as _;
use scenario::{Cc, EngineKind, FlowKind, FlowSpec, Host, Scenario};
use schema::{Event, FlowSample, HostInfo, LinkSample, Quality, Reliability, TraceRow};
use sim::{Controllers, HostDefaults, Side};
use units::{KernelVersion, Time};

use super::{Engine, Task};
use crate::{
    Error, Outcome, Result,
    congestion::{CC_SYSCTL, FROM_LONGFAT, built_in_names, default_cc, settings, source, values},
    flow_context::setting,
    outcome::{Measurement, Recording, complete},
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Interval at which progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// The simulator.
pub(crate) struct Sim<'a> {
    /// The scenario file's path; congestion controls are relative to its directory.
    pub path: &'a Path,
    /// This machine. Its kernel is simulated for hosts without the key `kernel`.
    pub host: &'a HostInfo,
    /// Simulated kernel for hosts without the key `kernel`, instead of this machine's.
    pub kernel: Option<KernelVersion>,
    /// Names of the flows to trace.
    pub traced: &'a [String],
}

impl Engine for Sim<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, initial, observer, writer, stop } = task;
        let began = Instant::now();
        let machine = self.machine()?;
        let mut native = Native { scenario, path: self.path, machine: &machine, libraries: Vec::new() };
        let recording = Recording { writer, observer };
        let mut watcher = Watcher { recording, reported: began, stop, traced: self.traced };
        let outcome = sim::run(scenario, &machine, &mut native, &mut watcher)?;
        let describe_cc = |flow: &FlowSpec, used: Option<&str>, flow_summary: &mut schema::FlowSummary| {
            let FlowKind::Tcp(_) = &flow.kind else { return };
            let cc = native.cc_of(flow, Side::Sender);
            flow_summary.cc_kernel_name = used.map(Into::into);
            flow_summary.cc_from = Some(match &cc {
                Cc::File { path, .. } => path.clone(),
                _ => FROM_LONGFAT.into(),
            });
            flow_summary.cc_set = settings(&cc);
            flow_summary.cc = Some(cc.name().into());
        };
        let measurement = Measurement {
            busy: Vec::new(),
            flows: outcome.flows,
            links: outcome.links,
            events: outcome.events,
            flow_totals: outcome.flow_totals,
            link_totals: outcome.link_totals,
            hosts: outcome.hosts,
            transmitted: Default::default(),
            quality: Quality {
                reliability: Reliability::Reliable,
                notes: notes(scenario, &machine),
                ..Quality::default()
            },
            wall: began.elapsed(),
            duration: outcome.duration,
            interrupted: outcome.interrupted,
            failed: None,
        };
        Ok(complete(scenario, describe_cc, initial, measurement))
    }
}

/// Notes about a simulation: simulated kernels and settings without effect.
fn notes(scenario: &Scenario, machine: &HostDefaults) -> Vec<String> {
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
    /// Calls `with` with the congestion controls that the scenario's flows name.
    ///
    /// # Errors
    /// The simulator does not support the requested kernel, or `with` fails.
    pub(crate) fn with_native<T>(
        &self,
        scenario: &Scenario,
        with: impl FnOnce(&mut dyn Controllers) -> Result<T>,
    ) -> Result<T> {
        let machine = self.machine()?;
        with(&mut Native { scenario, path: self.path, machine: &machine, libraries: Vec::new() })
    }

    /// Simulates with the caller's congestion controls and observer.
    ///
    /// # Errors
    /// The simulation fails.
    pub(crate) fn simulate(
        &self,
        scenario: &Scenario,
        controllers: &mut dyn Controllers,
        observer: &mut dyn sim::Observer,
    ) -> Result<()> {
        sim::run(scenario, &self.machine()?, controllers, observer)?;
        Ok(())
    }

    /// The default kernel and the settings that a network namespace of this machine would inherit.
    ///
    /// # Errors
    /// The simulator does not support the requested kernel.
    fn machine(&self) -> Result<HostDefaults> {
        let default = HostDefaults::default();
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        let pair = |v: KernelVersion| (small(v.major), small(v.minor));
        if let Some(requested) = self.kernel.filter(|version| !scenario::is_simulated(pair(*version))) {
            let message = format!("cannot simulate Linux {requested}: --kernel takes 2.4, and 5.0 or later");
            return Err(Error::BadInput(message));
        }
        let version = self.kernel.or_else(|| KernelVersion::from_str(&self.host.kernel).ok());
        Ok(HostDefaults {
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

/// Congestion controls from C files, each loaded once per run and set of parameters.
struct Native<'a> {
    scenario: &'a Scenario,
    path: &'a Path,
    machine: &'a HostDefaults,
    /// Each with the HZ (timer ticks per second) of the hosts that it is for.
    libraries: Vec<(Cc, u32, Library)>,
}

impl Native<'_> {
    /// The congestion control of one end of a flow: the flow's, else the default of the host.
    fn cc_of(&self, flow: &FlowSpec, side: Side) -> Cc {
        let by_host = |name: &str| {
            let mut host = self.scenario.host(name).cloned();
            if let Some(host) = &mut host {
                host.kernel = Some(self.machine.kernel_of(host));
            }
            Cc::Named(default_cc(host.as_ref()))
        };
        match (&flow.kind, side) {
            (FlowKind::Tcp(tcp), Side::Sender) => tcp.cc.clone().unwrap_or_else(|| by_host(&flow.from)),
            (_, Side::Sender) => by_host(&flow.from),
            (_, Side::Receiver) => by_host(&flow.to),
        }
    }

    /// Timer ticks per second of the host at one end of a flow.
    fn hz(&self, flow: &FlowSpec, side: Side) -> u32 {
        let name = if side == Side::Sender { &flow.from } else { &flow.to };
        self.scenario.host(name).map_or(self.machine.hz, |host| self.machine.hz_of(host))
    }

    fn library(&mut self, cc: &Cc, hz: u32) -> Result<&Library> {
        let index = match self.libraries.iter().position(|(known, ticks, _)| known == cc && *ticks == hz) {
            Some(index) => index,
            None => {
                let source = source(cc, self.path).ok_or_else(|| {
                    let built_in = built_in_names().join(", ");
                    Error::BadInput(format!(
                        "there is no congestion control {:?}; longfat has {built_in}",
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

    fn create(&mut self, flow: &FlowSpec, side: Side) -> Result<Box<dyn tcp::CongestionControl>> {
        let cc = self.cc_of(flow, side);
        // A receiver sends no data, so any algorithm will do if the machine's default is not built in.
        let is_available = side == Side::Sender || source(&cc, self.path).is_some();
        let cc = if is_available { cc } else { Cc::Named("cubic".into()) };
        let name = match &cc {
            Cc::File { name, .. } => name.clone(),
            _ => None,
        };
        let index = self.scenario.flows.iter().position(|f| f.name == flow.name).unwrap_or_default();
        let mut controller = self.library(&cc, self.hz(flow, side))?.controller(name.as_deref())?;
        controller.set_seed(
            self.scenario.seed.wrapping_mul(1_000_003).wrapping_add(2 * index as u64 + side as u64),
        );
        Ok(Box::new(controller))
    }
}

impl Controllers for Native<'_> {
    fn controller(
        &mut self,
        flow: &FlowSpec,
        side: Side,
    ) -> std::result::Result<Box<dyn tcp::CongestionControl>, AnyError> {
        self.create(flow, side).map_err(Into::into)
    }
}

/// Records a simulation's rows and reports its progress.
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

    fn is_traced(&self, flow: &FlowSpec) -> bool {
        self.traced.contains(&flow.name)
    }

    fn trace_rows(&mut self, rows: &[TraceRow]) -> std::result::Result<(), AnyError> {
        match &mut self.recording.writer {
            Some(writer) => writer.append_trace(rows).map_err(Into::into),
            None => Ok(()),
        }
    }
}
