//! What a run yields: the rows that an engine measured and the summary computed from them.

use std::time::Duration;

use lab::Progress;
use record::Writer;
use scenario::{
    Flow, Kind, Scenario,
    rows::{FlowEnd, LinkEnd},
};
use schema::{Event, EventKind, FlowSample, FlowSummary, LinkSample, LinkSummary, Quality, RunSummary};
use units::Time;
use verdict::{FlowContext, FlowTimes};

use crate::{
    EngineChoice, Error, RunObserver, flow_context::flow_context, host_bursts::unexplained_drops,
    nothing_arrived,
};

/// Share of samples with computing as the limit from which on a measurement is unreliable.
const HOST_LIMITED: f64 = 0.2;

/// An echo's time may be noted so late, microseconds.
const NOTED_LATE_US: i64 = 50_000;

/// A run's summary and its rows.
#[derive(Debug)]
pub struct Outcome {
    /// The summary, complete.
    pub summary: RunSummary,
    /// Samples of flows, each with what limited it.
    pub flows: Vec<FlowSample>,
    /// Samples of links.
    pub links: Vec<LinkSample>,
    /// Losses, changes of state and the like.
    pub events: Vec<Event>,
    /// Why a flow failed, if other flows were measured.
    pub failed: Option<Error>,
}

/// A summary without rows.
impl From<RunSummary> for Outcome {
    fn from(summary: RunSummary) -> Self {
        Outcome { summary, flows: Vec::new(), links: Vec::new(), events: Vec::new(), failed: None }
    }
}

/// What an engine measured, without verdicts.
pub(crate) struct Measured {
    pub flows: Vec<FlowSample>,
    pub links: Vec<LinkSample>,
    pub events: Vec<Event>,
    /// How each flow ended, in the scenario's order.
    pub flow_ends: Vec<FlowEnd>,
    pub link_ends: Vec<LinkEnd>,
    pub quality: Quality,
    /// How long it took.
    pub wall: Duration,
    /// How long it was in the run's own time.
    pub duration: Time,
    /// It was ended early.
    pub interrupted: bool,
    /// Why a flow failed, where others were measured all the same.
    pub failed: Option<Error>,
}

impl From<lab::Outcome> for Measured {
    fn from(outcome: lab::Outcome) -> Self {
        Measured {
            flows: outcome.flows,
            links: outcome.links,
            events: outcome.events,
            flow_ends: outcome.flow_ends,
            link_ends: outcome.link_ends,
            quality: outcome.quality,
            wall: outcome.wall,
            duration: outcome.duration,
            interrupted: outcome.interrupted,
            failed: outcome.failed.map(Into::into),
        }
    }
}

/// Rows go to the record and the observer as they are measured.
pub(crate) struct Recording<'a> {
    pub writer: Option<&'a mut Writer>,
    pub observer: &'a mut dyn RunObserver,
}

impl lab::Observer for Recording<'_> {
    fn rows(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.observer.rows(flows, links, events);
        match &mut self.writer {
            Some(writer) => writer.append(flows, links, events).map_err(Into::into),
            None => Ok(()),
        }
    }

    fn progress(&mut self, progress: &Progress) {
        self.observer.progress(progress);
    }
}

/// Labels the rows of a run with what limited each flow and computes the summary; `describe_cc` adds each flow's congestion
/// control.
pub(crate) fn complete(
    scenario: &Scenario,
    describe_cc: impl Fn(&Flow, Option<&str>, &mut FlowSummary),
    mut summary: RunSummary,
    mut outcome: Measured,
) -> Outcome {
    outcome.flows.sort_by_key(|row| row.time_us);
    outcome.events.sort_by_key(|event| event.time_us);
    for (flow, end) in scenario.flows.iter().zip(&outcome.flow_ends) {
        let virtual_time = summary.engine != EngineChoice::Lab.name();
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
        let mut flow_summary = verdict::summarize(&outcome.flows, &outcome.events, &times, &context);
        if matches!(flow.kind, Kind::Ping(_)) {
            stalled_echoes(&outcome, &mut flow_summary);
        }
        describe_cc(flow, end.cc.as_deref(), &mut flow_summary);
        summary.flows.push(flow_summary);
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
    if summary.engine == EngineChoice::Lab.name() {
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
    Outcome {
        summary,
        flows: outcome.flows,
        links: outcome.links,
        events: outcome.events,
        failed: outcome.failed,
    }
}

/// For how long the measurement stalled while the first and the longest echo of a flow were under way.
fn stalled_echoes(outcome: &Measured, flow_summary: &mut FlowSummary) {
    let echoes = || outcome.flows.iter().filter(|row| row.flow == flow_summary.name);
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
    (flow_summary.first_rtt_stalled_us, flow_summary.max_rtt_stalled_us) = (first, longest);
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
