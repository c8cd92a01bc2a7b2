//! Real hosts as an engine: the scenario's flows run between them, and its links describe the expected path.

use std::time::Duration;

use computed_runs::Measurement;
use hosts::{HostLocations, RunOptions};
use iperf3::Token;
use scenario::{EngineKind, FlowKind, FlowSpec, Scenario};
use schema::{FlowSample, FlowSummary, Quality};
use units::{BitRate, Time};

use super::{Engine, Task};
use crate::{
    Error, Outcome, Result, RunObserver,
    engine_outcome::{Recording, complete},
    path_comparison,
};

/// The addresses of a scenario's hosts, for all runs of a process.
#[derive(Debug, Clone, Default)]
pub struct HostsSetup {
    /// The hosts' locations.
    pub locations: HostLocations,
    /// The secret of all servers.
    pub token: Option<Token>,
    /// Whether this machine's settings may be changed for a run.
    pub allows_tune: bool,
    /// Maximum rate of each TCP flow, by pacing.
    pub max_rate: Option<BitRate>,
    /// How long a run tries to continue flows in the same record after their connection was lost.
    pub reconnect: Option<Duration>,
}

/// The engine.
pub(crate) struct Hosts<'a> {
    pub setup: &'a HostsSetup,
}

impl Engine for Hosts<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, mut initial, observer, writer, stop } = task;
        let HostsSetup { locations, token, allows_tune, max_rate, reconnect } = self.setup;
        let scenario = &with_max_rate(scenario, *max_rate);
        let options = RunOptions {
            locations,
            token: token.as_ref(),
            allows_tune: *allows_tune,
            reconnect: *reconnect,
            stop,
        };
        let begun = std::time::Instant::now();
        let mut recording = Recording { writer, observer };
        let measured = hosts::run(scenario, &options, &mut recording)?;
        let effective = as_it_was(scenario, &measured);
        let mut notes = measured.notes;
        notes.extend(scenario.not_modelled(EngineKind::Hosts, |_, _| true));
        for (name, host) in &measured.hosts {
            let Some(address) = &host.address else { continue };
            let clock = host.clock_offset_ns.map(|(offset, error)| {
                let ms = |ns: i64| ns as f64 * 1e-6;
                format!(", clock {:+.3} ms (at most {:.3} ms off)", ms(offset), ms(error))
            });
            let kernel = host.kernel.as_ref().map(|kernel| format!(", Linux {kernel}"));
            notes.push(format!(
                "host {name} is {address}{}{}",
                kernel.unwrap_or_default(),
                clock.unwrap_or_default()
            ));
        }
        initial.kernel =
            scenario.flows.first().and_then(|flow| measured.hosts.get(&flow.from)?.kernel.clone());
        let mut quality = Quality { notes, ..initial.quality.clone() };
        for flow in &measured.continuations {
            quality.add_disturbance(format!("the connection was lost before {} continued it", flow.name));
        }
        let measurement = Measurement {
            flows: measured.rows,
            events: measured.events,
            flow_totals: measured.flow_totals,
            quality,
            wall: begun.elapsed(),
            duration: measured.duration,
            busy: measured.busy,
            interrupted: measured.interrupted,
            ..Measurement::default()
        };
        let failed = measured.failed.map(Into::into);
        let mut outcome = complete(&effective, describe_cc, initial, measurement, failed);
        add_buffers(&mut outcome);
        outcome.summary.path = path_comparison::compare(scenario, &outcome.summary.flows);
        Ok(outcome)
    }
}

/// The scenario with TCP flows that are paced at this rate at most.
fn with_max_rate(scenario: &Scenario, max_rate: Option<BitRate>) -> Scenario {
    let mut limited = scenario.clone();
    for flow in &mut limited.flows {
        if let FlowKind::Tcp(tcp) = &mut flow.kind {
            tcp.pacing = [tcp.pacing, max_rate].into_iter().flatten().min();
        }
    }
    limited
}

/// The congestion control of a flow is always its kernel's.
fn describe_cc(_: &FlowSpec, used: Option<&str>, summary: &mut FlowSummary) {
    if let Some(used) = used {
        (summary.cc_kernel_name, summary.cc_from) = (Some(used.into()), Some("kernel".into()));
    }
}

/// Adds the sizes of the buffers at the end, which the kernel has set.
fn add_buffers(outcome: &mut Outcome) {
    for flow in &mut outcome.summary.flows {
        let last = |of: fn(&FlowSample) -> Option<i64>| {
            let mut rows = outcome.flows.iter().rev().filter(|row| row.flow == flow.name);
            rows.find_map(of).and_then(|bytes| u64::try_from(bytes).ok())
        };
        (flow.sndbuf_bytes, flow.rcvbuf_bytes) = (last(|row| row.sndbuf_bytes), last(|row| row.rcvbuf_bytes));
    }
}

/// The scenario with the flows that were actually run, and the settings that its hosts actually had.
fn as_it_was(scenario: &Scenario, measured: &hosts::Measured) -> Scenario {
    let mut effective = scenario.clone();
    effective.flows.extend(measured.continuations.iter().cloned());
    for host in &mut effective.hosts {
        if let Some(report) = measured.hosts.get(&host.name) {
            // Settings of devices have a space in their names.
            let sysctls = report.settings.iter().filter(|(name, _)| !name.contains(' '));
            host.sysctl.extend(sysctls.map(|(name, value)| (name.clone(), value.clone())));
        }
    }
    effective
}

impl hosts::Observer for Recording<'_> {
    fn note(&mut self, sentence: &str) {
        self.observer.note(sentence);
    }

    fn rows(
        &mut self,
        elapsed: Time,
        rows: &[FlowSample],
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.observer.rows(rows, &[], &[]);
        let flows = rows.last().cloned().into_iter().collect();
        RunObserver::progress(self.observer, &lab::Progress { elapsed, flows });
        match &mut self.writer {
            Some(writer) => writer.append(rows, &[], &[]).map_err(Into::into),
            None => Ok(()),
        }
    }
}

impl From<hosts::Error> for Error {
    fn from(error: hosts::Error) -> Self {
        match error {
            hosts::Error::BadInput(text) => Error::BadInput(text),
            hosts::Error::NotPermitted(text) => Error::Missing(text),
            hosts::Error::Observer(cause) => Error::Observer(cause),
            hosts::Error::Interrupted => Error::Interrupted,
            other => Error::Hosts(other),
        }
    }
}
