//! A flow's summary from its labelled samples.

use schema::{Event, EventKind, FlowKind, FlowSample, FlowSummary, Limited};

use crate::{
    FlowContext, StartOfFlow,
    explain::explain,
    receiver::judge_receiver,
    second_limit::second_limit,
    series::{Cumulative, mean},
    steady::steady_from,
};

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

/// The time average of the congestion window: each sample holds until the next.
fn mean_cwnd(rows: &[&FlowSample]) -> Option<u64> {
    let windows: Vec<(i64, f64)> =
        rows.iter().filter_map(|r| Some((r.time_us, r.cwnd_bytes()? as f64))).collect();
    let (first, last) = (windows.first()?, windows.last()?);
    let area: f64 = windows.windows(2).map(|pair| pair[0].1 * (pair[1].0 - pair[0].0) as f64).sum();
    let span = (last.0 - first.0) as f64;
    Some(if span > 0.0 { area / span } else { last.1 }.round() as u64)
}

/// Seconds from the first retransmission until the effective window, the smaller of the congestion window and
/// the peer's, had recovered its earlier size.
fn recovery(rows: &[&FlowSample]) -> Option<f64> {
    let window = |row: &FlowSample| {
        let own = row.cwnd_bytes()?;
        Some(row.snd_wnd_bytes.map_or(own, |peer| own.min(peer)))
    };
    let lost = rows.iter().position(|r| r.total_retrans_segs.is_some_and(|n| n > 0))?;
    let before = window(rows[lost.checked_sub(1)?])?;
    // The sample with the retransmission may precede the one with the smaller window.
    let after = &rows[lost..];
    let fell = after.iter().position(|r| window(r).is_some_and(|w| w < before))?;
    let recovered = after[fell..].iter().find(|r| window(r).is_some_and(|w| w >= before))?;
    Some((recovered.time_us - rows[lost].time_us) as f64 * 1e-6)
}

/// Application bits received over time: from the receiver's count, or else from the goodput of each interval.
/// A goodput may cover another interval than that between two rows, so the sum may exceed the data that arrived. Rows without one, which
/// have other columns at other times, do not end an interval.
fn received_bits(rows: &[&FlowSample]) -> Cumulative {
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

/// The rate of data in order between two instants, bit/s, but at most the rate at which data arrived: when a hole is repaired, all data
/// that arrived behind it counts at once, even data that arrived before the first instant.
fn rate_of_arrivals(rows: &[&FlowSample], received: &Cumulative, from_us: i64, to_us: i64) -> Option<f64> {
    let in_order = received.rate(from_us, to_us)?;
    let behind_holes = |at_us: i64| {
        let row = rows.iter().rev().find(|row| row.time_us <= at_us && row.sacked_segs.is_some());
        row.and_then(|row| Some((row.sacked_segs? * row.snd_mss_bytes?) as f64 * 8.0)).unwrap_or(0.0)
    };
    let earlier = behind_holes(from_us) - behind_holes(to_us);
    Some(in_order - earlier.max(0.0) / ((to_us - from_us) as f64 * 1e-6)).map(|rate| rate.max(0.0))
}

/// Linux 2.4 smooths round-trip times that it measures in ticks of 10 ms, so its smoothed value can be below the exact minimum,
/// which the simulator computes. Such a value counts as the minimum.
fn round_trips(rows: &[&FlowSample], summary: &mut FlowSummary) {
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
fn mdev(rows: &[&FlowSample], mean_us: Option<f64>) -> Option<f64> {
    let mean_us = mean_us?;
    let squares = rows.iter().filter_map(|r| r.srtt_us).map(|rtt| (rtt as f64 - mean_us).powi(2));
    Some(mean(squares)?.sqrt())
}

/// Goodput of flow `name` from `from_us` to `to_us`, microseconds since the run's start, in bit/s; `None` if the rows do not
/// cover this time.
pub fn part_goodput(rows: &[FlowSample], name: &str, from_us: i64, to_us: i64) -> Option<f64> {
    let own: Vec<&FlowSample> = rows.iter().filter(|r| r.flow == name).collect();
    let received = received_bits(&own);
    let (first, last) = received.span_us()?;
    (first <= from_us && to_us <= last).then(|| received.rate(from_us, to_us)).flatten()
}

/// The receiver's counts as of the last sample. The mean delay counts each datagram once.
fn datagrams(rows: &[&FlowSample], summary: &mut FlowSummary) {
    let Some(last) = rows.last() else { return };
    let count = |value: Option<i64>| value.and_then(|n| u64::try_from(n).ok());
    summary.datagrams_sent = count(last.datagrams_sent);
    summary.datagrams_lost = count(last.datagrams_lost);
    summary.datagrams_reordered = count(last.datagrams_reordered);
    summary.datagrams_duplicated = count(last.datagrams_duplicated);
    if let (Some(lost), Some(received)) = (last.datagrams_lost, last.datagrams_received)
        && lost + received > 0
    {
        summary.loss_share = Some(lost as f64 / (lost + received) as f64);
    }
    let float = |value: Option<i64>| value.map(|us| us as f64);
    summary.min_owd_us = float(last.min_owd_us);
    summary.max_owd_us = float(last.max_owd_us);
    summary.jitter_us = float(last.jitter_us);
    let (mut sum, mut known, mut before) = (0.0, 0, 0);
    for row in rows {
        let received = row.datagrams_received.unwrap_or(before);
        if let Some(owd) = row.owd_us {
            sum += owd as f64 * (received - before) as f64;
            known += received - before;
        }
        before = received;
    }
    summary.mean_owd_us = (known > 0).then(|| (sum / known as f64).round());
}

/// The receive window as a share of the receive buffer, in the last sample that has both.
fn window_share(rows: &[&FlowSample]) -> Option<f64> {
    let row = rows.iter().rev().find(|r| r.rcv_wnd_bytes.is_some())?;
    let (window, buffer) = (row.rcv_wnd_bytes?, row.rcvbuf_bytes.filter(|b| *b > 0)?);
    Some((window as f64 / buffer as f64 * 1e4).round() / 1e4)
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
mod tests {
    use proptest::prelude::*;
    use schema::Cause;

    use super::*;
    use crate::second_limit::WINDOWS;

    fn row(i: i64, limited_by: Cause) -> FlowSample {
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

    /// A hole from slow start is repaired when throughput is steady: the data behind it counts from then on, but not as part of the rate.
    #[test]
    fn data_that_waited_behind_a_hole_does_not_raise_the_rate() {
        let rows: Vec<FlowSample> = (0..400)
            .map(|i| {
                // 100 Mb/s arrive: 125 kB in 10 ms. 2 MB of the data of the second second count only from 2 s on.
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
    fn slow_start_names_a_cached_threshold_and_a_small_initial_window() {
        let rows: Vec<FlowSample> = (0..400)
            .map(|i| FlowSample {
                delivered_segs: Some(i * 100),
                snd_cwnd_segs: Some(2 + i),
                snd_ssthresh_segs: Some(5),
                ..row(i, Cause::SlowStart)
            })
            .collect();
        let summary = judged(&rows, FlowContext::default());
        let evidence = summary.evidence.join("\n");
        assert!(
            evidence.contains("the slow-start threshold was 5 segments from the beginning"),
            "{evidence}"
        );
        assert!(evidence.contains("began with a window of 2 segments instead of 10"), "{evidence}");
        assert!(summary.remedy.unwrap().contains("ip tcp_metrics flush"));
        let infinite: Vec<FlowSample> =
            rows.into_iter().map(|row| FlowSample { snd_ssthresh_segs: None, ..row }).collect();
        let summary = judged(&infinite, FlowContext::default());
        assert!(!summary.evidence.join("\n").contains("threshold"), "{summary:?}");
    }

    #[test]
    fn small_writes_that_wait_are_named() {
        let rows = |payload: i64| -> Vec<FlowSample> {
            (0..400)
                .map(|i| FlowSample {
                    unacked_segs: Some(1),
                    data_segs_out_segs: Some(i),
                    bytes_acked: Some(i * payload),
                    ..row(i, Cause::Application)
                })
                .collect()
        };
        let summary = judged(&rows(100), FlowContext::default());
        assert!(summary.evidence.join("\n").contains("segments carried 100 of 1000 bytes"), "{summary:?}");
        assert!(summary.remedy.unwrap().contains("TCP_NODELAY"));
        assert_eq!(judged(&rows(1000), FlowContext::default()).remedy, None);
    }

    fn judged(rows: &[FlowSample], context: FlowContext) -> FlowSummary {
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

    /// `first` in every sample but each `n`th, which is `second`.
    fn turns(first: Cause, second: Cause, n: i64) -> Vec<FlowSample> {
        (50..450).map(|i| row(i, if i % n == 0 { second } else { first })).collect()
    }

    #[test]
    fn windows_that_alternate_are_both_limits() {
        let (receive, send) = (Cause::ReceiveWindow, Cause::SendBuffer);
        for (first, second, n, expected) in [
            (send, receive, 2, Some(receive)),
            (send, receive, 3, Some(receive)),
            (receive, send, 4, Some(send)),
            (receive, send, 8, Some(send)),
            (receive, send, 20, None),
            (receive, Cause::PathRate, 3, Some(Cause::PathRate)),
            (receive, Cause::PathRate, 8, None),
            (receive, Cause::Loss, 3, None),
            (Cause::Loss, Cause::PathRate, 2, Some(Cause::PathRate)),
            (Cause::EcnMarks, Cause::PathRate, 2, Some(Cause::PathRate)),
            (Cause::Loss, Cause::PathRate, 3, None),
            (Cause::PathRate, Cause::Loss, 3, None),
            (Cause::SlowStart, Cause::PathRate, 3, None),
        ] {
            let buffer = crate::Buffer::Tuned([4096, 131_072, 16_777_216]);
            let context =
                FlowContext { send_buffer: buffer.clone(), receive_buffer: buffer, ..FlowContext::default() };
            let summary = judged(&turns(first, second, n), context);
            let both = [summary.verdict, summary.verdict_also];
            assert!(both.contains(&Some(first)), "{first:?} {second:?} {n}: {both:?}");
            if n == 2 {
                assert!(both.contains(&Some(second)));
            } else {
                assert_eq!(summary.verdict_also, expected, "{first:?} {second:?} {n}");
            }
            if expected.is_some_and(|cause| WINDOWS.contains(&cause)) {
                let remedy = summary.remedy.unwrap();
                assert!(remedy.contains("tcp_rmem") && remedy.contains("tcp_wmem"), "{remedy}");
                assert!(summary.evidence[0].starts_with("two limits apply: "), "{:?}", summary.evidence);
            }
        }
    }

    #[test]
    fn a_window_that_is_hardly_larger_is_a_second_limit() {
        let buffer = || crate::Buffer::Tuned([4096, 131_072, 2_000_000]);
        let context = |send, receive| FlowContext {
            send_buffer: send,
            receive_buffer: receive,
            ..FlowContext::default()
        };
        // 900,000 bytes are in flight, the window is `window`, and `waiting` bytes are in the buffer beside
        // them.
        let rows = |cause, window, waiting| -> Vec<FlowSample> {
            let set = |i| FlowSample {
                snd_wnd_bytes: Some(window),
                notsent_bytes: Some(waiting),
                sndbuf_bytes: Some(2_000_000),
                ..row(i, cause)
            };
            (50..450).map(set).collect()
        };
        let also = |rows: &[FlowSample], context| judged(rows, context).verdict_also;
        let receive = Cause::ReceiveWindow;
        assert_eq!(
            also(&rows(receive, 900_000, 90_000), context(buffer(), buffer())),
            Some(Cause::SendBuffer)
        );
        assert_eq!(also(&rows(receive, 900_000, 500_000), context(buffer(), buffer())), None);
        // The buffer can still grow.
        let large = crate::Buffer::Tuned([4096, 131_072, 20_000_000]);
        assert_eq!(also(&rows(receive, 900_000, 90_000), context(large.clone(), buffer())), None);
        let send = Cause::SendBuffer;
        assert_eq!(also(&rows(send, 1_000_000, 0), context(buffer(), buffer())), Some(receive));
        assert_eq!(also(&rows(send, 1_200_000, 0), context(buffer(), buffer())), None);
        assert_eq!(also(&rows(send, 1_000_000, 0), context(buffer(), large)), None);
    }

    #[test]
    fn a_udp_flow_has_the_counts_of_its_receiver() {
        let sample = |i: i64, received, owd| FlowSample {
            time_us: i * 10_000,
            flow: "u".into(),
            goodput_bps: Some(8_000_000),
            datagrams_sent: Some(12 * i),
            datagrams_received: Some(received),
            datagrams_lost: Some(2 * i),
            owd_us: Some(owd),
            min_owd_us: Some(10),
            max_owd_us: Some(40),
            jitter_us: Some(i),
            ..FlowSample::default()
        };
        let rows = [sample(1, 10, 10), sample(2, 20, 20), sample(3, 60, 40)];
        let times = FlowTimes {
            kind: FlowKind::Udp,
            started_us: Some(0),
            ended_us: Some(30_000),
            bytes: 30_000,
            ..FlowTimes::default()
        };
        let context = FlowContext { name: "u".into(), ..FlowContext::default() };
        let summary = summarize(&rows, &[], &times, &context);
        assert_eq!(summary.goodput_bps, Some(8e6));
        assert_eq!((summary.datagrams_sent, summary.datagrams_lost), (Some(36), Some(6)));
        assert_eq!(summary.loss_share, Some(6.0 / 66.0));
        let owds = (summary.min_owd_us, summary.mean_owd_us, summary.max_owd_us);
        assert_eq!(owds, (Some(10.0), Some(32.0), Some(40.0)), "1900 over 60 datagrams");
        assert_eq!((summary.jitter_us, summary.verdict, summary.mean_rtt_us), (Some(3.0), None, None));
    }

    #[test]
    fn recovery_lasts_until_the_window_has_its_size_before_the_loss() {
        let window = |i: i64| if i < 100 { 900 } else { (400 + i).min(2_000) };
        let sample = |i: i64| FlowSample {
            snd_cwnd_segs: Some(window(i)),
            total_retrans_segs: Some(i64::from(i >= 100)),
            ..row(i, Cause::Loss)
        };
        let rows: Vec<FlowSample> = (0..1_000).map(sample).collect();
        let of = |rows: &[FlowSample]| recovery(&rows.iter().collect::<Vec<_>>());
        // 500 more segments, one a sample.
        assert_eq!(of(&rows), Some(4.0));
        assert_eq!(of(&rows[..450]), None, "not recovered yet");
        assert_eq!(of(&rows[..100]), None, "no loss");
        // A peer's window below both limits the flow all the time.
        let limited: Vec<FlowSample> =
            rows.iter().map(|r| FlowSample { snd_wnd_bytes: Some(300_000), ..r.clone() }).collect();
        assert_eq!(of(&limited), None);
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
