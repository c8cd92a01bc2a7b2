//! A flow's summary from its labelled samples: `goodput.rs`, `round_trips.rs`, `windows.rs` and
//! `datagrams.rs` have the figures.

mod datagrams;
mod goodput;
mod round_trips;
mod windows;

use schema::{Event, EventKind, FlowKind, FlowSample, FlowSummary, Limited};

use crate::{
    FlowContext, StartOfFlow, explain::explain, receiver::judge_receiver, second_limit::second_limit,
    series::mean, steady::steady_from,
};
use datagrams::datagrams;
pub use goodput::part_goodput;
use goodput::{rate_of_arrivals, received_bits};
use round_trips::{mdev, round_trips};
use windows::{mean_cwnd, recovery, window_share};

/// Start, end and transferred bytes of a flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowTimes {
    /// The kind of traffic.
    pub kind: FlowKind,
    /// Congestion control.
    pub cc: Option<String>,
    /// When it was connected, microseconds since the run's start.
    pub started_us: Option<i64>,
    /// When it ended, microseconds since the run's start.
    pub ended_us: Option<i64>,
    /// Application bytes received.
    pub bytes: u64,
}

/// Summarizes flow `context.name` from its rows, which [`crate::decide`] has labelled, and its events.
pub fn summarize(
    rows: &[FlowSample],
    events: &[Event],
    times: &FlowTimes,
    context: &FlowContext,
) -> FlowSummary {
    let own: Vec<&FlowSample> = rows.iter().filter(|r| r.flow == context.name).collect();
    let mut summary = FlowSummary {
        name: context.name.clone(),
        from: context.from.clone(),
        to: context.to.clone(),
        kind: times.kind.clone(),
        cc: times.cc.clone(),
        ..FlowSummary::default()
    };
    round_trips(&own, &mut summary);
    if times.kind == FlowKind::Ping {
        let lost =
            events.iter().filter(|e| e.kind == EventKind::PingLost && e.subject == context.name).count()
                as u64;
        summary.first_rtt_us = own.first().and_then(|r| r.srtt_us).map(|rtt| rtt as f64);
        summary.mdev_rtt_us = mdev(&own, summary.mean_rtt_us);
        summary.pings_sent = Some(own.len() as u64 + lost);
        summary.pings_lost = Some(lost);
        return summary;
    }
    summary.wire_limit_bps = context.wire_limit_bps;
    summary.bytes = Some(times.bytes);
    if let (Some(from), Some(to)) = (times.started_us, times.ended_us)
        && to > from
    {
        summary.goodput_bps = Some(times.bytes as f64 * 8.0 / ((to - from) as f64 * 1e-6));
    }
    let largest = |value: fn(&FlowSample) -> Option<i64>| own.iter().filter_map(|r| value(r)).max();
    let unsigned = |value: Option<i64>| value.and_then(|v| u64::try_from(v).ok());
    summary.retransmitted_segs = unsigned(largest(|r| r.total_retrans_segs));
    summary.sent_segs = unsigned(largest(|r| r.data_segs_out_segs));
    summary.mss_bytes = unsigned(largest(|r| r.snd_mss_bytes));
    summary.max_cwnd_bytes = unsigned(largest(FlowSample::cwnd_bytes));
    summary.mean_cwnd_bytes = mean_cwnd(&own);
    summary.recovery_s = recovery(&own);
    summary.max_rcv_wnd_bytes = unsigned(largest(|r| r.rcv_wnd_bytes.or(r.snd_wnd_bytes)));
    summary.window_share = window_share(&own);

    if times.kind == FlowKind::Udp {
        datagrams(&own, &mut summary);
    }

    let received = received_bits(&own);
    let rtt = summary.median_rtt_us.unwrap_or(0.0) as i64;
    let steady_from = steady_from(&received, rtt);
    let steady: Vec<&FlowSample> =
        own.iter().copied().filter(|r| steady_from.is_some_and(|at| r.time_us >= at)).collect();
    if let (Some(at), Some((_, end))) = (steady_from, received.span_us()) {
        summary.steady_from_s = Some(at as f64 * 1e-6);
        summary.steady_goodput_bps = rate_of_arrivals(&own, &received, at, end);
        summary.binding_window_bytes = mean(steady.iter().filter_map(|r| {
            let outstanding = r.unacked_segs? * r.snd_mss_bytes?;
            Some(r.snd_wnd_bytes.map_or(outstanding, |w| outstanding.min(w)) as f64)
        }))
        .map(|bytes| bytes.round() as u64);
    }
    summary.limited = shares(&own);
    summary.limited_steady = shares(&steady);
    summary.verdict = summary.limited_steady.largest().or_else(|| summary.limited.largest());
    let sample = if steady.is_empty() { &own } else { &steady };
    let judged =
        if summary.limited_steady.largest().is_some() { summary.limited_steady } else { summary.limited };
    summary.verdict_also =
        summary.verdict.and_then(|verdict| second_limit(verdict, &judged, sample, context));
    explain(sample, &StartOfFlow::of(&own), context, &mut summary);
    let is_received = own.iter().any(|row| row.rcv_rtt_us.is_some());
    if summary.verdict.is_none() && is_received {
        summary.receiver_verdict = judge_receiver(rows, &context.name);
    }
    summary
}

/// The share of the labelled samples that each cause has.
fn shares(rows: &[&FlowSample]) -> Limited {
    let mut limited = Limited::default();
    let labelled = rows.iter().filter(|r| r.limited_by.is_some()).count();
    for cause in rows.iter().filter_map(|r| r.limited_by) {
        *limited.share_mut(cause) += 1.0 / labelled as f64;
    }
    for cause in schema::Cause::ALL {
        let share = limited.share_mut(cause);
        *share = (*share * 1e4).round() / 1e4;
    }
    limited
}

#[cfg(test)]
pub(crate) mod tests {
    use schema::Cause;

    use super::*;

    pub(crate) fn row(i: i64, limited_by: Cause) -> FlowSample {
        FlowSample {
            time_us: i * 10_000,
            flow: "f".into(),
            limited_by: Some(limited_by),
            goodput_bps: Some(if i < 50 { 100_000_000 } else { 800_000_000 }),
            snd_mss_bytes: Some(1000),
            snd_cwnd_segs: Some(100 + i),
            unacked_segs: Some(900),
            snd_wnd_bytes: Some(1_000_000),
            rcv_wnd_bytes: Some(1_000_000),
            rcvbuf_bytes: Some(2_000_000),
            srtt_us: Some(10_000 + i),
            min_rtt_us: Some(9_900),
            ..FlowSample::default()
        }
    }

    /// The summary of a TCP flow from h1 to h2.
    pub(crate) fn judged(rows: &[FlowSample], context: FlowContext) -> FlowSummary {
        let times = FlowTimes {
            kind: FlowKind::Tcp,
            started_us: Some(0),
            ended_us: rows.last().map(|row| row.time_us),
            bytes: 400_000_000,
            ..FlowTimes::default()
        };
        let context = FlowContext { name: "f".into(), from: "h1".into(), to: "h2".into(), ..context };
        summarize(rows, &[], &times, &context)
    }

    #[test]
    fn the_steady_part_and_its_verdict() {
        let rows: Vec<_> =
            (0..400).map(|i| row(i, if i < 50 { Cause::SlowStart } else { Cause::ReceiveWindow })).collect();
        let times = FlowTimes {
            kind: FlowKind::Tcp,
            started_us: Some(0),
            ended_us: Some(4_000_000),
            bytes: 400_000_000,
            ..FlowTimes::default()
        };
        let context = FlowContext { name: "f".into(), to: "h2".into(), ..FlowContext::default() };
        let summary = summarize(&rows, &[], &times, &context);
        assert_eq!(summary.goodput_bps, Some(800e6));
        let steady = summary.steady_goodput_bps.unwrap();
        assert!((steady / 800e6 - 1.0).abs() < 0.03, "{steady}");
        assert!((0.4..=0.6).contains(&summary.steady_from_s.unwrap()));
        assert_eq!(summary.verdict, Some(Cause::ReceiveWindow));
        assert_eq!((summary.limited.slow_start, summary.limited.receive_window), (0.125, 0.875));
        assert!(summary.limited_steady.receive_window > 0.97);
        assert_eq!(summary.binding_window_bytes, Some(900_000));
        assert_eq!(summary.max_cwnd_bytes, Some(499_000));
        assert_eq!(summary.mean_cwnd_bytes, Some(299_000), "100 to 498 segments; the last row lasts no time");
        assert_eq!(summary.window_share, Some(0.5));
        assert_eq!(summary.min_rtt_us, Some(9_900.0));
        assert!(!summary.evidence.is_empty());
    }
}
