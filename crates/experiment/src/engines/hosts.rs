//! Real hosts as an engine: the scenario's flows run between them, and its links describe what the path should be.

use hosts::{Places, RunOptions};
use iperf3::Token;
use scenario::{EngineKind, Scenario};
use schema::{FlowSample, Quality};
use units::Time;

use super::{Engine, Task};
use crate::{
    Error, Outcome, Result, RunObserver,
    outcome::{Measurement, Recording, complete},
    path_comparison,
};

/// Where the hosts of a scenario are, for all runs of a process.
#[derive(Debug, Clone, Default)]
pub struct HostsSetup {
    /// The hosts' places.
    pub places: Places,
    /// The secret of all servers.
    pub token: Option<Token>,
    /// Whether this machine's settings may be changed for a run.
    pub allows_tune: bool,
}

/// The engine.
pub(crate) struct Hosts<'a> {
    pub setup: &'a HostsSetup,
}

impl Engine for Hosts<'_> {
    fn run(&self, task: Task<'_>) -> Result<Outcome> {
        let Task { scenario, mut initial, observer, writer, stop } = task;
        let HostsSetup { places, token, allows_tune } = self.setup;
        let options = RunOptions { places, token: token.as_ref(), allows_tune: *allows_tune, stop };
        let begun = std::time::Instant::now();
        let mut recording = Recording { writer, observer };
        let measured = hosts::run(scenario, &options, &mut recording)?;
        let effective = with_settings(scenario, &measured);
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
        let measurement = Measurement {
            flows: measured.rows,
            links: Vec::new(),
            events: measured.events,
            flow_totals: measured.flow_totals,
            link_totals: Vec::new(),
            quality: Quality { notes, ..initial.quality.clone() },
            wall: begun.elapsed(),
            duration: measured.duration,
            busy: measured.busy,
            interrupted: measured.interrupted,
            failed: measured.failed.map(Into::into),
        };
        let mut outcome = complete(&effective, |_, _, _| {}, initial, measurement);
        outcome.summary.path = path_comparison::compare(scenario, &outcome.summary.flows);
        Ok(outcome)
    }
}

/// The scenario with the settings that its hosts really had.
fn with_settings(scenario: &Scenario, measured: &hosts::Measured) -> Scenario {
    let mut effective = scenario.clone();
    for host in &mut effective.hosts {
        if let Some(report) = measured.hosts.get(&host.name) {
            host.sysctl.extend(report.settings.clone());
        }
    }
    effective
}

impl hosts::Observer for Recording<'_> {
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
