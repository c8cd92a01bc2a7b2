//! The simulator as an engine: simulates TCP of a kernel version in virtual time. The caller supplies the
//! congestion controls, the settings that hosts inherit and the real time of the run.

use std::{str::FromStr, time::Duration};

use scenario::{Cc, EngineKind, FlowKind, FlowSpec, Host, Scenario};
use schema::{FlowSummary, Quality, Reliability, RunSummary};
use sim::{Controllers, HostDefaults, Side};
use tcp::CongestionControl;
use units::KernelVersion;

use crate::{
    MeasuredRun, Measurement, Sysctls, complete,
    congestion::{CC_SYSCTL, FROM_LONGFAT, default_cc, describe_quic, settings},
    flow_context::setting,
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Supplies congestion controls, each with separate variables for each set of parameters.
pub trait CongestionControls {
    /// Whether there is an algorithm for `cc`.
    fn has(&self, cc: &Cc) -> bool;

    /// Creates the congestion control of a socket. `hz` are the timer ticks per second of its host, `seed` is
    /// that of the socket's random numbers.
    ///
    /// # Errors
    /// There is no such algorithm, or it cannot be loaded.
    fn controller(&mut self, cc: &Cc, hz: u32, seed: u64) -> Result<Box<dyn CongestionControl>, AnyError>;
}

/// Why a simulation was not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulator does not support the requested kernel.
    #[error("cannot simulate Linux {0}: --kernel takes 2.4, and 5.0 or later")]
    Kernel(KernelVersion),
    /// The simulator failed.
    #[error(transparent)]
    Sim(#[from] sim::Error),
}

/// The simulator.
#[derive(Clone, Copy)]
pub struct Simulator<'a> {
    /// The settings that hosts inherit.
    pub sysctls: Sysctls<'a>,
    /// The version of the machine's kernel. It is simulated for hosts without the key `kernel`.
    pub machine_kernel: &'a str,
    /// Simulated kernel for hosts without the key `kernel`, instead of the machine's.
    pub kernel: Option<KernelVersion>,
}

impl Simulator<'_> {
    /// Simulates the scenario and completes its initial summary. `wall` returns the real time since the start
    /// of the run.
    ///
    /// # Errors
    /// The simulator does not support the requested kernel, or the simulation fails.
    pub fn run(
        &self,
        scenario: &Scenario,
        initial: RunSummary,
        library: &mut dyn CongestionControls,
        observer: &mut dyn sim::Observer,
        wall: impl FnOnce() -> Duration,
    ) -> Result<MeasuredRun, Error> {
        let machine = self.host_defaults()?;
        let sysctls = self.sysctls;
        let mut controllers = FlowControllers { scenario, sysctls, machine: &machine, library };
        let outcome = sim::run(scenario, &machine, &mut controllers, observer)?;
        let describe_cc = |flow: &FlowSpec, used: Option<&str>, flow_summary: &mut FlowSummary| {
            if let FlowKind::Quic(quic) = &flow.kind {
                describe_quic(quic, flow_summary);
            }
            let FlowKind::Tcp(_) = &flow.kind else { return };
            let cc = controllers.cc_of(flow, Side::Sender);
            flow_summary.cc_kernel_name = used.map(Into::into);
            flow_summary.cc_from = Some(match &cc {
                Cc::File { path, .. } => path.clone(),
                _ => FROM_LONGFAT.into(),
            });
            flow_summary.cc_set = settings(&cc);
            flow_summary.cc = Some(cc.name().into());
        };
        let measurement = Measurement {
            flows: outcome.flows,
            links: outcome.links,
            events: outcome.events,
            flow_totals: outcome.flow_totals,
            link_totals: outcome.link_totals,
            hosts: outcome.hosts,
            quality: Quality {
                reliability: Reliability::Reliable,
                notes: [
                    notes(scenario, &machine),
                    unresolved_notes(&outcome.unresolved),
                    transmit_queue_notes(&outcome.transmit_queue_drops),
                ]
                .concat(),
                ..Quality::default()
            },
            wall: wall(),
            duration: outcome.duration,
            interrupted: outcome.interrupted,
            ..Measurement::default()
        };
        Ok(complete(sysctls, scenario, describe_cc, initial, measurement))
    }

    /// The default kernel and the settings that a network namespace of the machine would inherit.
    ///
    /// # Errors
    /// The simulator does not support the requested kernel.
    pub fn host_defaults(&self) -> Result<HostDefaults, Error> {
        let default = HostDefaults::default();
        let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        let pair = |v: KernelVersion| (small(v.major), small(v.minor));
        if let Some(requested) = self.kernel.filter(|version| !scenario::is_simulated(pair(*version))) {
            return Err(Error::Kernel(requested));
        }
        let version = self.kernel.or_else(|| KernelVersion::from_str(self.machine_kernel).ok());
        let sysctls = self.sysctls;
        Ok(HostDefaults {
            kernel: version.map_or(default.kernel, pair),
            rmem: inherited(sysctls, "net.ipv4.tcp_rmem").unwrap_or(default.rmem),
            wmem: inherited(sysctls, "net.ipv4.tcp_wmem").unwrap_or(default.wmem),
            rmem_max: inherited(sysctls, "net.core.rmem_max").map_or(default.rmem_max, |[value]| value),
            wmem_max: inherited(sysctls, "net.core.wmem_max").map_or(default.wmem_max, |[value]| value),
            ..default
        })
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

/// A note for each host that dropped packets without a neighbour's address.
fn unresolved_notes(unresolved: &[sim::UnresolvedDrops]) -> Vec<String> {
    let note = |drops: &sim::UnresolvedDrops| {
        let sim::UnresolvedDrops { host, queue_full, no_reply } = drops;
        let reasons =
            [(*queue_full, "too many waited (unres_qlen_bytes)"), (*no_reply, "three requests had no reply")];
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<String> = reasons.map(|(count, why)| format!("{count} because {why}")).collect();
        format!("{host} dropped packets that waited for the address of a neighbour: {}", reasons.join(", "))
    };
    unresolved.iter().map(note).collect()
}

/// A note for each host whose transmit queue dropped packets.
fn transmit_queue_notes(drops: &[sim::TransmitQueueDrops]) -> Vec<String> {
    let note = |drops: &sim::TransmitQueueDrops| {
        let sim::TransmitQueueDrops { host, packets } = drops;
        format!("{host} dropped {packets} packets at its transmit queue (nic.tx_queue), which was full")
    };
    drops.iter().map(note).collect()
}

fn inherited<const N: usize>(sysctls: Sysctls<'_>, name: &str) -> Option<[u32; N]> {
    let numbers: Vec<u32> = setting(sysctls, None, name)?.split_whitespace().flat_map(str::parse).collect();
    numbers.try_into().ok()
}

/// The congestion controls of a scenario's flows.
pub struct FlowControllers<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The settings that hosts inherit.
    pub sysctls: Sysctls<'a>,
    /// The default kernel of hosts.
    pub machine: &'a HostDefaults,
    /// Supplies the congestion controls.
    pub library: &'a mut dyn CongestionControls,
}

impl FlowControllers<'_> {
    /// The congestion control of one end of a flow: the flow's, else the default of the host.
    fn cc_of(&self, flow: &FlowSpec, side: Side) -> Cc {
        let by_host = |name: &str| {
            let mut host = self.scenario.host(name).cloned();
            if let Some(host) = &mut host {
                host.kernel = Some(self.machine.kernel_of(host));
            }
            Cc::Named(default_cc(self.sysctls, host.as_ref()))
        };
        match (&flow.kind, side) {
            (FlowKind::Tcp(tcp), Side::Sender) => tcp.cc.clone().unwrap_or_else(|| by_host(&flow.from)),
            (FlowKind::Quic(quic), Side::Sender) => quic.cc(),
            (_, Side::Sender) => by_host(&flow.from),
            (_, Side::Receiver) => by_host(&flow.to),
        }
    }

    /// Timer ticks per second at one end of a flow: of the host's kernel, or of a QUIC connection.
    fn hz(&self, flow: &FlowSpec, side: Side) -> u32 {
        if matches!(flow.kind, FlowKind::Quic(_)) {
            return tcp::DRIVER_HZ;
        }
        let name = if side == Side::Sender { &flow.from } else { &flow.to };
        self.scenario.host(name).map_or(self.machine.hz, |host| self.machine.hz_of(host))
    }
}

impl Controllers for FlowControllers<'_> {
    fn controller(&mut self, flow: &FlowSpec, side: Side) -> Result<Box<dyn CongestionControl>, AnyError> {
        let cc = self.cc_of(flow, side);
        // A receiver sends no data, so any algorithm will do if the machine's default is not built in.
        let is_available = side == Side::Sender || self.library.has(&cc);
        let cc = if is_available { cc } else { Cc::Named("cubic".into()) };
        let index = self.scenario.flows.iter().position(|f| f.name == flow.name).unwrap_or_default();
        let seed = self.scenario.seed.wrapping_mul(1_000_003).wrapping_add(2 * index as u64 + side as u64);
        self.library.controller(&cc, self.hz(flow, side), seed)
    }
}
