//! The outcome of a run: the rows that an engine measured and the summary computed from them.

use std::{collections::BTreeMap, time::Duration};

use engine_common::{FlowTotals, LinkTotals, time_us};
use net::{Direction, PipeSpec};
use scenario::{FlowKind, FlowSpec, Link, Scenario};
use schema::{
    EngineName, Event, EventKind, FlowSample, FlowSummary, HostSummary, LinkSample, LinkSummary, Quality,
    RunSummary,
};
use sim::{HostLoad, HostSample};
use units::{Instant, Picoseconds, Time};
use verdict::{FlowContext, FlowTimes, LinkRows, LoadKind, SendingDevice, bottleneck_moves};

use crate::{
    Sysctls, counters32,
    flow_context::{DataPaths, describe_host_use, flow_context},
    host_bursts::unexplained_drops,
    nothing_arrived,
    stream::stream_summary,
};

/// A measurement is unreliable if at least this share of a flow's samples was limited by a host's processors.
const UNRELIABLE_HOST_SHARE: f64 = 0.2;

/// Maximum delay between the arrival of an echo and its timestamp, microseconds.
const MAX_TIMESTAMP_DELAY_US: i64 = 50_000;

/// A run's summary and its rows.
#[derive(Debug)]
pub struct MeasuredRun {
    /// The summary, complete.
    pub summary: RunSummary,
    /// Samples of flows, each with the cause that limited the flow.
    pub flows: Vec<FlowSample>,
    /// Samples of links.
    pub links: Vec<LinkSample>,
    /// Events: losses, state changes and others.
    pub events: Vec<Event>,
}

/// Measurement of an engine, without verdicts.
#[derive(Debug, Default)]
pub struct Measurement {
    /// Samples of flows.
    pub flows: Vec<FlowSample>,
    /// Samples of links.
    pub links: Vec<LinkSample>,
    /// Events.
    pub events: Vec<Event>,
    /// Totals of each flow, in the scenario's order.
    pub flow_totals: Vec<FlowTotals>,
    /// Totals of each link direction.
    pub link_totals: Vec<LinkTotals>,
    /// The work of simulated hosts whose packets cost time.
    pub hosts: Vec<HostLoad>,
    /// Segments of each flow that its host's devices dropped, in the scenario's order; empty if unknown.
    pub device_drops_segs: Vec<u64>,
    /// Whether the figures are reliable, and why not.
    pub quality: Quality,
    /// Real time of the run.
    pub wall: Duration,
    /// Duration in the run's own time, real or virtual.
    pub duration: Time,
    /// Shares of the time that the sender and the receiver of each flow ran or waited for a processor; empty
    /// if unknown.
    pub busy: Vec<[Option<f64>; 2]>,
    /// The run was ended early.
    pub interrupted: bool,
    /// Why a flow failed, if other flows were measured.
    pub failure: Option<String>,
}

/// Labels the rows of a run with the cause that limited each flow, and computes the summary; `describe_cc`
/// adds each flow's congestion control.
pub fn complete(
    sysctls: Sysctls<'_>,
    scenario: &Scenario,
    describe_cc: impl Fn(&FlowSpec, Option<&str>, &mut FlowSummary),
    mut summary: RunSummary,
    mut measurement: Measurement,
) -> MeasuredRun {
    measurement.flows.sort_by_key(|row| row.time_us);
    measurement.events.sort_by_key(|event| event.time_us);
    let is_between_hosts = summary.engine == EngineName::Hosts;
    // Grouped once, so that the work grows with the number of rows and not with its product with the number
    // of flows.
    let mut flow_rows = RowsByFlow::of(scenario, std::mem::take(&mut measurement.flows));
    let flow_events = events_by_flow(&measurement.events);
    let link_rows = LinkRows::of(&measurement.links);
    let data_paths = DataPaths::of(scenario);
    for (index, (flow, totals)) in scenario.flows.iter().zip(&measurement.flow_totals).enumerate() {
        let virtual_time = !matches!(summary.engine, EngineName::Lab | EngineName::Hosts);
        let idle = measurement.quality.cpu_idle_min.filter(|_| !virtual_time);
        let idle =
            idle.map(|idle| format!("the processors were {:.0} % idle in the busiest second", idle * 100.0));
        let mut host_use: Vec<String> = idle.into_iter().collect();
        if let Some(busy) = measurement.busy.get(index) {
            host_use.extend(describe_host_use(&flow.from, &flow.to, *busy));
        }
        let context = flow_context(sysctls, scenario, flow);
        let dropped_segs = measurement.device_drops_segs.get(index).copied().unwrap_or(0);
        let device = SendingDevice { dropped_segs, ..context.device };
        let ack_path = data_paths.ack_path(scenario, flow);
        let full_ack_link = totals.started.zip(totals.ended).and_then(|(from, to)| {
            verdict::full_link(&ack_path, &link_rows, time_us(from), time_us(to)).cloned()
        });
        let context = FlowContext {
            full_ack_link,
            virtual_time,
            is_simulated: matches!(summary.engine, EngineName::Sim | EngineName::Model),
            host_use,
            device,
            host_loads: host_loads(&measurement.hosts, flow),
            // The links describe the expected path; only the flow itself shows whether the real path is full.
            unknown_path: is_between_hosts,
            ..context
        };
        let rows = &mut flow_rows.rows[index];
        counters32::extend(rows);
        verdict::decide(rows, &link_rows, &context);
        let times = FlowTimes {
            kind: flow.kind.name().into(),
            cc: totals.cc.clone(),
            started_us: totals.started.map(time_us),
            ended_us: totals.ended.map(time_us),
            bytes: totals.bytes,
        };
        let events = flow_events.get(flow.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mut flow_summary = verdict::summarize(rows, events, &times, &context);
        if matches!(flow.kind, FlowKind::Tcp(_)) {
            flow_summary.evidence.extend(bottleneck_moves(&link_rows, &context));
        }
        if matches!(flow.kind, FlowKind::Ping(_)) {
            add_echo_stalls(rows, &measurement.events, &mut flow_summary);
        }
        if let (FlowKind::Stream(spec), Some(playout)) = (&flow.kind, &totals.playout) {
            let links = &measurement.link_totals;
            let stream = stream_summary(scenario, flow, spec, playout, links, measurement.duration);
            flow_summary.loss_share = Some(1.0 - stream.in_time_share);
            flow_summary.stream = Some(stream);
        }
        describe_cc(flow, totals.cc.as_deref(), &mut flow_summary);
        summary.flows.push(flow_summary);
    }
    summary.links = measurement
        .link_totals
        .iter()
        .map(|totals| link_summary(scenario, totals, measurement.duration))
        .collect();
    let goodputs: Vec<f64> =
        summary.flows.iter().filter(|f| f.is_bulk_transfer()).map(|f| f.goodput_bps.unwrap_or(0.0)).collect();
    summary.fairness_jain = model::jain_index(&goodputs);
    summary.duration_s = measurement.duration.as_secs_f64();
    summary.wall_s = (measurement.wall.as_secs_f64() * 1000.0).round() / 1000.0;
    summary.partial = measurement.interrupted || measurement.failure.is_some();
    summary.quality = measurement.quality;
    if let Some(failure) = &measurement.failure {
        summary.quality.add_fault(failure.clone());
    }
    if summary.engine == EngineName::Lab {
        for fault in unexplained_drops(scenario, &summary) {
            summary.quality.add_disturbance(fault);
        }
    }
    summary.hosts = measurement.hosts.iter().map(|load| host_summary(scenario, load)).collect();
    // The stated costs of simulated hosts are not a disturbance.
    let is_measured = measurement.hosts.is_empty();
    for flow in
        summary.flows.iter().filter(|f| is_measured && f.limited_steady.host_cpu >= UNRELIABLE_HOST_SHARE)
    {
        summary.quality.add_disturbance(format!(
            "flow {} waited for the processors of its hosts in {:.0} % of its samples",
            flow.name,
            flow.limited_steady.host_cpu * 100.0
        ));
    }
    nothing_arrived::explain(scenario, &mut summary);
    MeasuredRun {
        summary,
        flows: flow_rows.into_rows(),
        links: measurement.links,
        events: measurement.events,
    }
}

/// The rows of each flow of the scenario, in their order.
struct RowsByFlow {
    /// By flow; the last has the rows of no flow.
    rows: Vec<Vec<FlowSample>>,
    /// By row of the run: its flow's index in `rows`.
    flows: Vec<usize>,
}

impl RowsByFlow {
    fn of(scenario: &Scenario, all: Vec<FlowSample>) -> Self {
        let names = scenario.flows.iter().map(|flow| flow.name.as_str()).zip(0..);
        let indices: BTreeMap<&str, usize> = names.collect();
        let mut rows = vec![Vec::new(); scenario.flows.len() + 1];
        let mut flows = Vec::with_capacity(all.len());
        for row in all {
            let flow = indices.get(row.flow.as_str()).copied().unwrap_or(scenario.flows.len());
            flows.push(flow);
            rows[flow].push(row);
        }
        RowsByFlow { rows, flows }
    }

    /// All rows in the order of the run.
    fn into_rows(self) -> Vec<FlowSample> {
        let mut rows: Vec<_> = self.rows.into_iter().map(Vec::into_iter).collect();
        self.flows.into_iter().filter_map(|flow| rows[flow].next()).collect()
    }
}

/// The events that a flow's summary counts, by flow.
fn events_by_flow(events: &[Event]) -> BTreeMap<&str, Vec<Event>> {
    let mut by_flow: BTreeMap<&str, Vec<Event>> = BTreeMap::new();
    for event in events.iter().filter(|event| event.kind == EventKind::PingLost) {
        by_flow.entry(&event.subject).or_default().push(event.clone());
    }
    by_flow
}

/// The load of the processors and buses of a flow's hosts.
fn host_loads(loads: &[HostLoad], flow: &FlowSpec) -> Vec<verdict::HostLoad> {
    let own = loads.iter().filter(|load| [&flow.from, &flow.to].contains(&&load.host));
    let micros = |time: Picoseconds| time.as_secs_f64() * 1e6;
    own.flat_map(|load| {
        let series = |what: &str, kind, busy: fn(&HostSample) -> Picoseconds| verdict::HostLoad {
            kind,
            name: format!("{what} of {}", load.host),
            busy_us: load.samples.iter().map(|s| (s.time.as_micros() as i64, micros(busy(s)))).collect(),
        };
        [series("processor", LoadKind::Processor, |s| s.processor), series("bus", LoadKind::Bus, |s| s.bus)]
    })
    .collect()
}

fn host_summary(scenario: &Scenario, load: &HostLoad) -> HostSummary {
    let last = load.samples.last().copied().unwrap_or_default();
    let has_bus = scenario.host(&load.host).is_some_and(|host| host.cost.bus.is_some());
    let seconds = last.time.as_secs_f64().max(f64::MIN_POSITIVE);
    let share = |busy: Picoseconds| (busy.as_secs_f64() / seconds * 1e4).round() / 1e4;
    HostSummary {
        name: load.host.clone(),
        processor_busy: share(last.processor),
        processor_s: last.processor.as_secs_f64(),
        bus_busy: has_bus.then(|| share(last.bus)),
        interrupts: last.interrupts,
        dropped_packets: last.dropped,
    }
}

/// Adds how long the measurement stalled while the first and the longest echo of a flow were in flight.
fn add_echo_stalls(echoes: &[FlowSample], events: &[Event], flow_summary: &mut FlowSummary) {
    let stalled = |echo: &FlowSample| {
        let rtt_us = echo.srtt_us.unwrap_or(0);
        let stalls = events.iter().filter(|event| event.kind == EventKind::Stall);
        // The thread that takes the timestamp can be delayed too.
        let under_way = stalls.filter(|stall| {
            stall.time_us <= echo.time_us
                && stall.time_us + stall.value + rtt_us + MAX_TIMESTAMP_DELAY_US >= echo.time_us
        });
        let total: i64 = under_way.map(|stall| stall.value).sum();
        (total > 0).then_some(total as f64)
    };
    let first = echoes.first().and_then(stalled);
    let longest = echoes.iter().max_by_key(|echo| echo.srtt_us).and_then(stalled);
    (flow_summary.first_rtt_stalled_us, flow_summary.max_rtt_stalled_us) = (first, longest);
}

/// Bits that a link's direction can send in this time, with the changes of its rate; `None` if it is
/// unlimited for a part of the time.
fn capacity_bits(link: &Link, direction: Direction, duration: Time) -> Option<f64> {
    let end = Instant::ZERO + duration;
    let mut changes: Vec<(Instant, &PipeSpec)> =
        link.changes.iter().map(|change| (change.at, change.pipe(direction))).collect();
    changes.sort_by_key(|(at, _)| *at);
    let starts = [(Instant::ZERO, link.pipe(direction))].into_iter().chain(changes.iter().copied());
    let ends = changes.iter().map(|(at, _)| *at).chain([end]);
    let parts = starts.zip(ends).map(|((from, pipe), to)| (to.min(end).saturating_since(from), pipe));
    parts
        .filter(|(length, _)| *length > Time::ZERO)
        .map(|(length, pipe)| Some(pipe.rate.mean()?.as_f64() * length.as_secs_f64()))
        .sum()
}

fn link_summary(scenario: &Scenario, totals: &LinkTotals, duration: Time) -> LinkSummary {
    let link = &scenario.links[totals.link];
    let rate = link.pipe(totals.direction).rate.mean().map(units::BitRate::as_f64);
    let seconds = duration.as_secs_f64();
    let counters = &totals.counters;
    let capacity_bits = capacity_bits(link, totals.direction, duration).filter(|bits| *bits > 0.0);
    LinkSummary {
        name: link.name.clone(),
        direction: totals.direction.name().into(),
        rate_bps: rate,
        utilization: capacity_bits
            .map(|bits| ((counters.sent_bytes as f64 * 8.0 / bits) * 1e4).round() / 1e4),
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

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::Cause;

    use super::*;

    /// Two flows over one link, one limited by its pacing and one by its window, and an echo; samples of all
    /// in turn.
    #[test]
    fn each_flow_is_judged_by_its_own_rows_which_keep_their_order() {
        let flow = |name: &str, keys: &str| {
            format!("[[flows]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{keys}\n")
        };
        let text = format!(
            "duration = \"1s\"\n[hosts]\na.address = \"10.0.0.1/24\"\nb.address = \"10.0.0.2/24\"\n[[links]]\n\
             ends = [\"a\", \"b\"]\nboth = {{ rate = \"1gbit\", delay = \"10ms\" }}\n{}{}{}",
            flow("one", "cc = \"reno\""),
            flow("two", "cc = \"reno\""),
            flow("echo", "kind = \"ping\"")
        );
        let scenario = ScenarioFile::parse("x.toml", &text).unwrap().resolve(None, &[]).unwrap();
        let row = |flow: &str, i: i64, window: i64, rate: i64| FlowSample {
            time_us: i * 10_000,
            flow: flow.into(),
            snd_mss_bytes: Some(1448),
            snd_cwnd_segs: Some(4000),
            unacked_segs: Some(100),
            snd_wnd_bytes: Some(window),
            notsent_bytes: Some(3_000_000),
            srtt_us: Some(20_000),
            min_rtt_us: Some(20_000),
            bytes_received: Some(i * rate),
            ..FlowSample::default()
        };
        let echo = |i: i64| FlowSample {
            time_us: i * 10_000,
            flow: "echo".into(),
            srtt_us: Some(20_000 + i),
            ..FlowSample::default()
        };
        let flows: Vec<FlowSample> = (0..100)
            .flat_map(|i| [row("two", i, 144_800, 72_400), echo(i), row("one", i, 9_000_000, 1_250_000)])
            .collect();
        let lost = |subject: &str| Event {
            time_us: 5,
            subject: subject.into(),
            kind: EventKind::PingLost,
            value: 1,
        };
        let totals = |name: &str| FlowTotals {
            name: name.into(),
            started: Some(Instant::ZERO),
            ended: Some(Instant::from_secs(1)),
            cc: None,
            bytes: 0,
            playout: None,
        };
        let measurement = Measurement {
            flows: flows.clone(),
            events: vec![lost("echo"), lost("other")],
            flow_totals: vec![totals("one"), totals("two"), totals("echo")],
            duration: Time::from_secs(1),
            ..Measurement::default()
        };
        let initial = RunSummary::begun(EngineName::Sim, String::new());
        let run = complete(&|_| None, &scenario, |_, _, _| {}, initial, measurement);
        let order =
            |rows: &[FlowSample]| -> Vec<_> { rows.iter().map(|r| (r.time_us, r.flow.clone())).collect() };
        assert_eq!(order(&run.flows), order(&flows));
        let verdicts: Vec<_> = run.summary.flows.iter().map(|flow| flow.verdict).collect();
        assert_eq!(verdicts[1], Some(Cause::ReceiveWindow));
        assert_ne!(verdicts[0], verdicts[1]);
        let echoes = &run.summary.flows[2];
        assert_eq!(
            (echoes.pings_sent, echoes.pings_lost, echoes.first_rtt_us),
            (Some(101), Some(1), Some(20_000.0))
        );
    }

    /// 1 Mb/s for a second, then 10 Mb/s: 31 Mbit in 4 s.
    #[test]
    fn the_utilization_of_a_link_includes_the_changes_of_its_rate() {
        let text = "duration = \"4s\"\n[hosts]\na.address = \"10.0.0.1/24\"\nb.address = \"10.0.0.2/24\"\n[[links]]\n\
             ends = [\"a\", \"b\"]\nforward = { rate = \"1mbit\" }\n\
             changes = [{ at = \"1s\", forward = { rate = \"10mbit\" } }, { at = \"9s\", forward = { rate = \"1gbit\" } }]\n";
        let scenario = ScenarioFile::parse("x.toml", text).unwrap().resolve(None, &[]).unwrap();
        let summary = |direction, seconds| {
            let counters = net::PipeCounters { sent_bytes: 31_000_000 / 16, ..Default::default() };
            link_summary(&scenario, &LinkTotals { link: 0, direction, counters }, Time::from_secs(seconds))
        };
        assert_eq!(summary(Direction::Forward, 4).utilization, Some(0.5));
        assert_eq!(summary(Direction::Forward, 4).rate_bps, Some(1e6));
        assert_eq!(summary(Direction::Forward, 0).utilization, None);
        assert_eq!(summary(Direction::Backward, 4).utilization, None);
    }
}
