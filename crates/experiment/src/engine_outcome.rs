//! The outcome of a run: the measurements of an engine, with the summary computed from them.

use std::collections::BTreeMap;

use computed_runs::{MeasuredRun, Measurement};
use lab::Progress;
use record::Writer;
use scenario::{FlowSpec, Scenario};
use schema::{Event, FlowSample, FlowSummary, LinkSample, RunSummary};

use crate::{Error, RunObserver, machine::machine_setting};

/// A run's summary and its rows.
#[derive(Debug)]
pub struct Outcome {
    /// The summary, complete.
    pub summary: RunSummary,
    /// Samples of flows, each with the cause that limited the flow.
    pub flows: Vec<FlowSample>,
    /// Samples of links.
    pub links: Vec<LinkSample>,
    /// Events: losses, state changes and others.
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

impl From<MeasuredRun> for Outcome {
    fn from(MeasuredRun { summary, flows, links, events }: MeasuredRun) -> Self {
        Outcome { summary, flows, links, events, failed: None }
    }
}

/// Completes the summary of a run; `failed` is why a flow failed, if other flows were measured. `describe_cc`
/// adds each flow's congestion control.
pub(crate) fn complete(
    scenario: &Scenario,
    describe_cc: impl Fn(&FlowSpec, Option<&str>, &mut FlowSummary),
    initial: RunSummary,
    mut measurement: Measurement,
    failed: Option<Error>,
) -> Outcome {
    measurement.failure = failed.as_ref().map(Error::to_string);
    let run = computed_runs::complete(&machine_setting, scenario, describe_cc, initial, measurement);
    Outcome { failed, ..run.into() }
}

/// The measurement of a lab run, and why one of its flows failed.
pub(crate) fn of_lab(scenario: &Scenario, outcome: lab::Outcome) -> (Measurement, Option<Error>) {
    let device_drops_segs = device_drops(scenario, &outcome);
    let measurement = Measurement {
        flows: outcome.flows,
        links: outcome.links,
        events: outcome.events,
        flow_totals: outcome.flow_ends,
        link_totals: outcome.link_ends,
        device_drops_segs,
        quality: outcome.quality,
        wall: outcome.wall,
        duration: outcome.duration,
        interrupted: outcome.interrupted,
        ..Measurement::default()
    };
    (measurement, outcome.failed.map(Into::into))
}

/// Segments of each flow that its host's devices dropped. A device does not count by flow, so its drops are
/// divided in proportion to retransmissions.
fn device_drops(scenario: &Scenario, outcome: &lab::Outcome) -> Vec<u64> {
    let mut sent: BTreeMap<&str, SentSegments> = BTreeMap::new();
    outcome.flows.iter().for_each(|row| sent.entry(&row.flow).or_default().add(row));
    let sent_by = |flow: &FlowSpec| sent.get(flow.name.as_str()).copied().unwrap_or_default();
    let mut by_host: BTreeMap<&str, u64> = BTreeMap::new();
    for flow in &scenario.flows {
        *by_host.entry(&flow.from).or_default() += sent_by(flow).retransmitted();
    }
    let of_flow = |flow: &FlowSpec| {
        let Some(counted) = outcome.transmitted.get(&flow.from).filter(|counted| counted.dropped > 0) else {
            return 0;
        };
        let all = by_host.get(flow.from.as_str()).copied().unwrap_or(0);
        let own = sent_by(flow);
        counted.segments_dropped(u64::try_from(own.mss).unwrap_or(0)) * own.retransmitted() / all.max(1)
    };
    scenario.flows.iter().map(of_flow).collect()
}

/// The segments that a flow sent.
#[derive(Debug, Clone, Copy, Default)]
struct SentSegments {
    /// Segments retransmitted until the first sample, and until the last one.
    first_and_last: Option<(i64, i64)>,
    /// Their largest payload.
    mss: i64,
}

impl SentSegments {
    fn add(&mut self, row: &FlowSample) {
        if let Some(count) = row.total_retrans_segs {
            let (first, last) = self.first_and_last.unwrap_or((count, count));
            self.first_and_last = Some((first.min(count), last.max(count)));
        }
        self.mss = self.mss.max(row.snd_mss_bytes.unwrap_or(0));
    }

    fn retransmitted(&self) -> u64 {
        self.first_and_last.map_or(0, |(first, last)| u64::try_from(last - first).unwrap_or(0))
    }
}

/// Passes rows to the record and the observer as they are measured.
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
