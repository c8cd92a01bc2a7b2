//! Round-trip times.

use schema::{FlowSample, FlowSummary};

use crate::series::mean;

/// Linux 2.4 smooths round-trip times that it measures in ticks of 10 ms, so its smoothed value can be below
/// the exact minimum, which the simulator computes. Such a value counts as the minimum.
pub(super) fn round_trips(rows: &[&FlowSample], summary: &mut FlowSummary) {
    let smallest = rows.iter().filter_map(|r| r.min_rtt_us).min();
    let smoothed = rows.iter().filter_map(|r| r.srtt_us);
    let mut rtts: Vec<i64> = smoothed.map(|rtt| smallest.map_or(rtt, |min| rtt.max(min))).collect();
    rtts.sort_unstable();
    summary.mean_rtt_us = mean(rtts.iter().map(|rtt| *rtt as f64));
    summary.max_rtt_us = rtts.last().map(|rtt| *rtt as f64);
    // The nearest rank.
    let rank = (rtts.len() * 99).div_ceil(100);
    summary.p99_rtt_us = rank.checked_sub(1).map(|index| rtts[index] as f64);
    summary.median_rtt_us = match rtts.len() {
        0 => None,
        n if n % 2 == 1 => Some(rtts[n / 2] as f64),
        n => Some((rtts[n / 2 - 1] + rtts[n / 2]) as f64 / 2.0),
    };
    summary.min_rtt_us = smallest.or(rtts.first().copied()).map(|rtt| rtt as f64);
}

/// The standard deviation of echoes, as ping computes `mdev`.
pub(super) fn mdev(rows: &[&FlowSample], mean_us: Option<f64>) -> Option<f64> {
    let mean_us = mean_us?;
    let squares = rows.iter().filter_map(|r| r.srtt_us).map(|rtt| (rtt as f64 - mean_us).powi(2));
    Some(mean(squares)?.sqrt())
}

#[cfg(test)]
mod tests {
    use schema::{Cause, Event, EventKind, FlowKind};

    use super::*;
    use crate::summarize::tests::row;
    use crate::{FlowContext, FlowTimes, summarize};

    #[test]
    fn smoothed_round_trips_in_ticks_are_not_below_the_minimum() {
        // Linux 2.4 on a path of 117 ms: its smoothed value varies between 11 and 12 ticks of 10 ms.
        let sample = |(i, srtt_us)| FlowSample {
            srtt_us: Some(srtt_us),
            min_rtt_us: Some(117_000),
            ..row(i, Cause::PathRate)
        };
        let rows: Vec<FlowSample> = (0..).zip([110_000, 112_000, 112_000, 121_000]).map(sample).collect();
        let mut summary = FlowSummary::default();
        round_trips(&rows.iter().collect::<Vec<_>>(), &mut summary);
        assert_eq!((summary.min_rtt_us, summary.median_rtt_us), (Some(117_000.0), Some(117_000.0)));
        assert_eq!((summary.mean_rtt_us, summary.max_rtt_us), (Some(118_000.0), Some(121_000.0)));
    }

    #[test]
    fn a_ping_flow_has_round_trips_only() {
        let echo = |i: i64, rtt| FlowSample {
            time_us: i * 1000,
            flow: "p".into(),
            srtt_us: Some(rtt),
            ..FlowSample::default()
        };
        let rows = [echo(1, 40_000), echo(2, 20_100), echo(3, 20_300), echo(4, 20_200)];
        let lost = Event { time_us: 5, subject: "p".into(), kind: EventKind::PingLost, value: 5 };
        let times = FlowTimes { kind: FlowKind::Ping, ..FlowTimes::default() };
        let context = FlowContext { name: "p".into(), ..FlowContext::default() };
        let summary = summarize(&rows, &[lost], &times, &context);
        assert_eq!(summary.first_rtt_us, Some(40_000.0));
        assert_eq!(summary.median_rtt_us, Some(20_250.0));
        // Mean 25,150; deviations 14,850, 5,050, 4,850 and 4,950.
        assert!((summary.mdev_rtt_us.unwrap() - 8574.0).abs() < 1.0, "{summary:?}");
        assert_eq!(summary.p99_rtt_us, summary.max_rtt_us);
        assert_eq!((summary.pings_sent, summary.pings_lost), (Some(5), Some(1)));
        assert_eq!((summary.goodput_bps, summary.verdict), (None, None));
    }
}
