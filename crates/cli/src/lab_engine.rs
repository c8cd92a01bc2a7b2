//! The lab as an engine: runs a scenario, streams its rows into the record, and makes the summary.

use std::sync::atomic::AtomicBool;

use lab::{Backend, Journal, Observer, Outcome, Privilege, Progress, TimeMode};
use record::Writer;
use scenario::{EngineKind, Flow, Kind, Scenario, rows::LinkEnd};
use schema::{Event, EventKind, FlowSample, FlowSummary, LinkSample, LinkSummary, RunSummary};
use units::Time;
use verdict::{FlowContext, FlowTimes};

use crate::{
    congestion::Registered, engine::Engine, exit::Exit, flow_context::flow_context,
    host_bursts::unexplained_drops, nothing_arrived,
};

/// Share of samples with computing as the limit from which on a measurement is unreliable.
const HOST_LIMITED: f64 = 0.2;

/// An echo's time may be noted so late, microseconds.
const NOTED_LATE_US: i64 = 50_000;

/// What all lab runs of one command share.
pub struct LabSetup {
    /// Where labs are entered.
    pub journal: Journal,
    /// By what right.
    pub privilege: Privilege,
    /// How time passes.
    pub time: TimeMode,
    /// How hosts are connected.
    pub backend: Backend,
}

/// A run's summary and its rows.
pub struct Rows {
    /// The summary, complete.
    pub summary: RunSummary,
    /// Labelled samples.
    pub flows: Vec<FlowSample>,
    /// Link samples.
    pub links: Vec<LinkSample>,
    /// Events.
    pub events: Vec<Event>,
    /// Why a flow failed, where others were measured all the same.
    pub failed: Option<anyhow::Error>,
}

/// A summary without rows.
impl From<RunSummary> for Rows {
    fn from(summary: RunSummary) -> Self {
        Rows { summary, flows: Vec::new(), links: Vec::new(), events: Vec::new(), failed: None }
    }
}

/// Rows go to the record, progress to the terminal.
struct Recording<'a> {
    writer: &'a mut Writer,
    report: &'a mut dyn FnMut(&Progress),
}

impl Observer for Recording<'_> {
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.writer.append(flows, links, events).map_err(Into::into)
    }

    fn progress(&mut self, progress: &Progress) {
        (self.report)(progress);
    }
}

/// Runs the scenario in the lab and completes `summary`. Progress goes to `report`.
pub fn run(
    scenario: &Scenario,
    ccs: &Registered,
    summary: RunSummary,
    setup: &LabSetup,
    report: &mut dyn FnMut(&Progress),
    writer: &mut Writer,
    stop: &AtomicBool,
) -> anyhow::Result<Rows> {
    // The record's files stay in it when it is finished and renamed.
    let capture_dir = writer.path().to_owned();
    let options = lab::Options {
        privilege: setup.privilege,
        time: setup.time,
        backend: setup.backend,
        journal: &setup.journal,
        capture_dir: Some(&capture_dir),
        congestion_controls: &ccs.kernel_names,
        stop,
    };
    let mut recording = Recording { writer, report };
    let mut outcome = lab::run(scenario, &options, &mut recording).map_err(failure)?;
    // The kernel applies all sysctls; one that it does not have fails the run.
    outcome.quality.notes.extend(scenario.not_modelled(EngineKind::Lab, |_, _| true));
    let tell = |flow: &Flow, used: Option<&str>, told: &mut FlowSummary| ccs.tell(flow, used, told);
    Ok(complete(scenario, tell, summary, outcome))
}

/// An error of the lab with its exit code.
pub fn failure(error: lab::Error) -> anyhow::Error {
    match error {
        lab::Error::Observer(cause) => anyhow::anyhow!(cause),
        missing if missing.is_missing() => Exit::Missing(missing.to_string()).into(),
        other => other.into(),
    }
}

/// Labels the rows of a run and makes its summary; `tell` completes what is said of a flow's congestion control.
pub fn complete(
    scenario: &Scenario,
    tell: impl Fn(&Flow, Option<&str>, &mut FlowSummary),
    mut summary: RunSummary,
    mut outcome: Outcome,
) -> Rows {
    outcome.flows.sort_by_key(|row| row.time_us);
    outcome.events.sort_by_key(|event| event.time_us);
    for (flow, end) in scenario.flows.iter().zip(&outcome.flow_ends) {
        let virtual_time = summary.engine != Engine::Lab.name();
        let idle = outcome.quality.cpu_idle_min.filter(|_| !virtual_time);
        let idle =
            idle.map(|idle| format!("the processors were {:.0} % idle in the busiest second", idle * 100.0));
        let host_use = idle.into_iter().collect();
        let context = FlowContext { virtual_time, host_use, ..flow_context(scenario, flow) };
        verdict::decide(&mut outcome.flows, &outcome.links, &context);
        let micros = |time: Time| (time.0 / 1000) as i64;
        let times = FlowTimes {
            kind: flow.kind.name().into(),
            cc: end.cc.clone(),
            started_us: end.started.map(micros),
            ended_us: end.ended.map(micros),
            bytes: end.bytes,
        };
        let mut told = verdict::summarize(&outcome.flows, &outcome.events, &times, &context);
        if matches!(flow.kind, Kind::Ping(_)) {
            stalled_echoes(&outcome, &mut told);
        }
        tell(flow, end.cc.as_deref(), &mut told);
        summary.flows.push(told);
    }
    summary.links =
        outcome.link_ends.iter().map(|end| link_summary(scenario, end, outcome.duration)).collect();
    let goodputs: Vec<f64> =
        summary.flows.iter().filter(|f| f.has_window()).map(|f| f.goodput_bps.unwrap_or(0.0)).collect();
    summary.fairness_jain = model::jain_index(&goodputs);
    summary.duration_s = outcome.duration.as_secs_f64();
    summary.wall_s = (outcome.wall.as_secs_f64() * 1000.0).round() / 1000.0;
    summary.partial = outcome.interrupted || outcome.failed.is_some();
    summary.quality = outcome.quality;
    if let Some(error) = &outcome.failed {
        summary.quality.add_fault(error.to_string());
    }
    if summary.engine == Engine::Lab.name() {
        for fault in unexplained_drops(scenario, &summary) {
            summary.quality.disturbed = true;
            summary.quality.add_fault(fault);
        }
    }
    for flow in summary.flows.iter().filter(|f| f.limited_steady.host_cpu >= HOST_LIMITED) {
        summary.quality.disturbed = true;
        summary.quality.add_fault(format!(
            "flow {} waited for the computers in {:.0} % of its samples",
            flow.name,
            flow.limited_steady.host_cpu * 100.0
        ));
    }
    nothing_arrived::explain(scenario, &mut summary);
    let failed = outcome.failed.map(failure);
    Rows { summary, flows: outcome.flows, links: outcome.links, events: outcome.events, failed }
}

/// For how long the measurement stalled while the first and the longest echo of a flow were under way.
fn stalled_echoes(outcome: &Outcome, told: &mut FlowSummary) {
    let echoes = || outcome.flows.iter().filter(|row| row.flow == told.name);
    let stalled = |echo: &FlowSample| {
        let rtt_us = echo.srtt_us.unwrap_or(0);
        let stalls = outcome.events.iter().filter(|event| event.kind == EventKind::Stall);
        // The thread that notes the time may itself be late.
        let under_way = stalls.filter(|stall| {
            stall.time_us <= echo.time_us
                && stall.time_us + stall.value + rtt_us + NOTED_LATE_US >= echo.time_us
        });
        let total: i64 = under_way.map(|stall| stall.value).sum();
        (total > 0).then_some(total as f64)
    };
    let first = echoes().next().and_then(stalled);
    let longest = echoes().max_by_key(|echo| echo.srtt_us).and_then(stalled);
    (told.first_rtt_stalled_us, told.max_rtt_stalled_us) = (first, longest);
}

fn link_summary(scenario: &Scenario, end: &LinkEnd, duration: Time) -> LinkSummary {
    let link = &scenario.links[end.link];
    let rate = link.direction(end.reversed).rate.mean().map(units::BitRate::as_f64);
    let seconds = duration.as_secs_f64();
    let counters = &end.counters;
    LinkSummary {
        name: link.name.clone(),
        direction: if end.reversed { "backward" } else { "forward" }.into(),
        rate_bps: rate,
        utilization: rate
            .filter(|_| seconds > 0.0)
            .map(|rate| ((counters.sent_bytes as f64 * 8.0 / (rate * seconds)) * 1e4).round() / 1e4),
        sent_packets: counters.sent_packets,
        dropped_queue: counters.dropped_queue,
        dropped_loss: counters.dropped_loss,
        max_queue_bytes: counters.max_queue_bytes,
        mean_queue_bytes: if seconds > 0.0 { (counters.queue_byte_seconds / seconds).round() } else { 0.0 },
        dropped_aqm: counters.dropped_aqm,
        dropped_mtu: counters.dropped_mtu,
        dropped_down: counters.dropped_down,
        marked: counters.marked,
        duplicated: counters.duplicated,
        corrupted: counters.corrupted,
        reordered: counters.reordered,
    }
}
