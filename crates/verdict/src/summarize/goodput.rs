//! Goodput over time.

use schema::FlowSample;

use crate::series::Cumulative;

/// Application bits received over time: from the receiver's count, or else from the goodput of each interval.
/// A goodput may cover another interval than that between two rows, so the sum may exceed the data that
/// arrived. Rows without one, which have other columns at other times, do not end an interval.
pub(super) fn received_bits(rows: &[&FlowSample]) -> Cumulative {
    let mut received = Cumulative::default();
    if rows.iter().any(|row| row.bytes_received.is_some()) {
        for (row, bytes) in rows.iter().filter_map(|row| Some((row, row.bytes_received?))) {
            received.push(row.time_us, bytes as f64 * 8.0);
        }
        return received;
    }
    let mut bits = 0.0;
    let mut last = None;
    for row in rows {
        match (last, row.goodput_bps) {
            (Some(last), Some(goodput)) => bits += goodput as f64 * (row.time_us - last) as f64 * 1e-6,
            (Some(_), None) => continue,
            (None, _) => {}
        }
        received.push(row.time_us, bits);
        last = Some(row.time_us);
    }
    received
}

/// The rate of data in order between two instants, bit/s, but at most the rate at which data arrived: when a
/// hole is repaired, all data that arrived behind it counts at once, even data that arrived before the first
/// instant.
pub(super) fn rate_of_arrivals(
    rows: &[&FlowSample],
    received: &Cumulative,
    from_us: i64,
    to_us: i64,
) -> Option<f64> {
    let in_order = received.rate(from_us, to_us)?;
    let behind_holes = |at_us: i64| {
        let row = rows.iter().rev().find(|row| row.time_us <= at_us && row.sacked_segs.is_some());
        row.and_then(|row| Some((row.sacked_segs? * row.snd_mss_bytes?) as f64 * 8.0)).unwrap_or(0.0)
    };
    let earlier = behind_holes(from_us) - behind_holes(to_us);
    Some(in_order - earlier.max(0.0) / ((to_us - from_us) as f64 * 1e-6)).map(|rate| rate.max(0.0))
}

/// Goodput of flow `name` from `from_us` to `to_us`, microseconds since the run's start, in bit/s; `None` if
/// the rows do not cover this time.
pub fn part_goodput(rows: &[FlowSample], name: &str, from_us: i64, to_us: i64) -> Option<f64> {
    let own: Vec<&FlowSample> = rows.iter().filter(|r| r.flow == name).collect();
    let received = received_bits(&own);
    let (first, last) = received.span_us()?;
    (first <= from_us && to_us <= last).then(|| received.rate(from_us, to_us)).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::{Cause, FlowKind};

    use super::*;
    use crate::summarize::tests::{judged, row};
    use crate::{FlowContext, FlowTimes, summarize};

    #[test]
    fn rows_without_a_goodput_do_not_change_the_steady_goodput() {
        let samples: Vec<FlowSample> = (0..400).map(|i| row(i, Cause::PathRate)).collect();
        let with_acks: Vec<FlowSample> = samples
            .iter()
            .flat_map(|sample| {
                let ack = |n: i64| FlowSample {
                    time_us: sample.time_us + n * 1000,
                    flow: sample.flow.clone(),
                    snd_cwnd_segs: sample.snd_cwnd_segs,
                    srtt_us: sample.srtt_us,
                    ..FlowSample::default()
                };
                std::iter::once(sample.clone()).chain((1..10).map(ack))
            })
            .collect();
        let steady = |rows: &[FlowSample]| {
            let summary = judged(rows, FlowContext::default());
            (summary.steady_from_s, summary.steady_goodput_bps)
        };
        assert_eq!(steady(&with_acks), steady(&samples));
        assert!(steady(&samples).1.is_some_and(|bps| (bps / 800e6 - 1.0).abs() < 0.03));
        let part = |rows: &[FlowSample]| part_goodput(rows, "f", 1_000_000, 2_000_000);
        assert_eq!(part(&with_acks), part(&samples));
    }

    /// A hole from slow start is repaired when throughput is steady: the data behind it counts from then on,
    /// but not as part of the rate.
    #[test]
    fn data_that_waited_behind_a_hole_does_not_raise_the_rate() {
        let rows: Vec<FlowSample> = (0..400)
            .map(|i| {
                // 100 Mb/s arrive: 125 kB in 10 ms. 2 MB of the data of the second second count only from 2 s
                // on.
                let arrived = i * 125_000;
                let hidden = if (100..200).contains(&i) { (i - 100) * 20_000 } else { 0 };
                FlowSample {
                    bytes_received: Some(arrived - hidden),
                    sacked_segs: Some(hidden / 1000),
                    ..row(i, Cause::PathRate)
                }
            })
            .collect();
        let own: Vec<&FlowSample> = rows.iter().collect();
        let received = received_bits(&own);
        let end = rows[399].time_us;
        let in_order = received.rate(1_900_000, end).unwrap();
        assert!(in_order > 106e6, "{in_order}");
        let rate = rate_of_arrivals(&own, &received, 1_900_000, end).unwrap();
        assert!((rate / 100e6 - 1.0).abs() < 1e-6, "{rate}");
        // Data that waits at the end is not counted.
        let rate = rate_of_arrivals(&own, &received, 0, 1_500_000).unwrap();
        assert_eq!(Some(rate), received.rate(0, 1_500_000));
    }

    proptest! {
        /// However unevenly bytes arrive and samples are taken, no rate exceeds the bytes received over the
        /// elapsed time.
        #[test]
        fn no_rate_exceeds_bytes_over_time(
            samples in prop::collection::vec((1i64..300_000, 0i64..3_000_000, any::<bool>()), 2..200),
        ) {
            let (mut now, mut bytes) = (0, 0);
            let mut rows = Vec::new();
            for (after, more, is_reported) in samples {
                (now, bytes) = (now + after, bytes + more);
                let reported = is_reported.then_some(bytes);
                rows.push(FlowSample { time_us: now, bytes_received: reported, ..row(1, Cause::PathRate) });
            }
            let context = FlowContext { name: "f".into(), ..FlowContext::default() };
            let summary = summarize(&rows, &[], &FlowTimes { kind: FlowKind::Tcp, ..FlowTimes::default() }, &context);
            let known: Vec<(i64, i64)> = rows.iter().filter_map(|r| Some((r.time_us, r.bytes_received?))).collect();
            if let (Some(steady), Some(from), Some(last)) =
                (summary.steady_goodput_bps, summary.steady_from_s, known.last())
            {
                let bits = steady * (last.0 as f64 * 1e-6 - from);
                prop_assert!(bits <= (last.1 - known[0].1) as f64 * 8.0 * (1.0 + 1e-9) + 1.0, "{bits} {known:?}");
            }
        }
    }

    #[test]
    fn a_part_of_a_run_has_a_goodput() {
        let sample = |i: i64| FlowSample {
            time_us: i * 1000,
            flow: "f".into(),
            bytes_received: Some(if i < 20 { i * 1000 } else { 20_000 }),
            ..FlowSample::default()
        };
        let rows: Vec<FlowSample> = (0..=40).map(sample).collect();
        assert_eq!(part_goodput(&rows, "f", 0, 20_000), Some(8e6));
        assert_eq!(part_goodput(&rows, "f", 10_000, 30_000), Some(4e6));
        assert_eq!(part_goodput(&rows, "f", 10_000, 50_000), None, "after the last sample");
        assert_eq!(part_goodput(&rows, "g", 0, 20_000), None);
    }
}
