//! Data that waits although no window is full: for the pacing timer, the host, or the next burst.

use super::*;

#[test]
fn data_that_waits_without_a_full_window_is_paced_or_limited_by_the_host() {
    let paced = |row: &mut FlowSample| {
        row.pacing_rate_bps = Some(520_000_000);
        row.total_retrans_segs = Some(1);
    };
    all(&flow(0.5e9, paced), Cause::Pacing);
    all(&flow(0.5e9, |_| {}), Cause::HostCpu);
}

/// A window is sent in a burst of half a round trip; the samples of 10 ms of a 20 ms path fall into it or
/// after it.
#[test]
fn a_sample_within_a_burst_has_the_limit_of_the_burst() {
    let turns = |is_filled: fn(i64) -> bool, set: fn(&mut FlowSample)| {
        flow(0.5e9, move |row| {
            row.unacked_segs = Some(900);
            if is_filled(row.time_us / 10_000) {
                set(row);
            }
        })
    };
    let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(900 * MSS);
    let buffer = |row: &mut FlowSample| row.notsent_bytes = Some(0);
    all(&turns(|i| i % 2 == 0, window), Cause::ReceiveWindow);
    all(&turns(|i| i % 4 == 3, buffer), Cause::SendBuffer);
    // A host that rarely sends a whole window is the limit.
    let rarely = turns(|i| i % 50 == 25, window);
    assert!(rarely.iter().filter(|cause| **cause == Cause::HostCpu).count() > 80, "{rarely:?}");
    // A reader that keeps the window closed is another reason.
    let reader = |row: &mut FlowSample| {
        row.snd_wnd_bytes = Some(900 * MSS);
        row.rcv_queue_bytes = Some(9_000_000);
    };
    let slow = turns(|i| i % 2 == 0, reader);
    assert!(!slow.contains(&Cause::ReceiveWindow), "{slow:?}");
}

#[test]
fn a_paced_flow_that_no_longer_grows_has_the_rate_of_the_path() {
    let bbr = |i: i64, row: &mut FlowSample| {
        row.unacked_segs = Some(500);
        row.total_retrans_segs = Some(0);
        row.pacing_rate_bps = Some(400_000_000);
        // Twice as much each 10 ms, the round trip, until 200 ms.
        row.bytes_acked = Some(if i < 20 { 1 << i } else { (1 << 20) + (i - 20) * 500_000 });
    };
    let causes = measured(bbr);
    all(&causes[30..90], Cause::PathRate);
    let starting = |i: i64, row: &mut FlowSample| {
        bbr(i, row);
        row.bytes_acked = Some((1.07_f64.powi(i as i32) * 1e4) as i64);
        row.pacing_rate_bps = Some(1_000);
    };
    let grows = measured(starting);
    assert!(grows[10..90].iter().all(|cause| *cause == Cause::SlowStart), "{grows:?}");
}

#[test]
fn in_virtual_time_nothing_waits_for_a_host() {
    for (queued, expected) in [(90_000, Cause::SendBuffer), (10_000, Cause::Pacing)] {
        let waiting = |time_us| FlowSample {
            time_us,
            flow: "f".into(),
            snd_mss_bytes: Some(1000),
            unacked_segs: Some(40),
            snd_cwnd_segs: Some(100),
            notsent_bytes: Some(50_000),
            sndbuf_bytes: Some(100_000),
            wmem_queued_bytes: Some(queued),
            ..FlowSample::default()
        };
        let context = FlowContext { virtual_time: true, ..FlowContext::default() };
        let labels = labels(vec![waiting(0), waiting(100_000)], context);
        assert_eq!(labels[1], Some(expected));
    }
}

/// 1 Mb/s is two segments in 23 ms, and the round-trip time is 0.3 ms.
#[test]
fn packets_that_are_many_round_trips_apart_are_paced() {
    let row = |i: i64| FlowSample {
        time_us: i * 10_000,
        flow: "f".into(),
        ca_state: Some(0),
        snd_mss_bytes: Some(MSS),
        snd_cwnd_segs: Some(10),
        snd_wnd_bytes: Some(400_000),
        unacked_segs: Some(0),
        notsent_bytes: Some(80_000),
        sndbuf_bytes: Some(92_000),
        wmem_queued_bytes: Some(90_000),
        srtt_us: Some(300),
        pacing_rate_bps: Some(1_000_000),
        bytes_acked: Some(1 + i * 10 / 23 * 2 * MSS),
        ..FlowSample::default()
    };
    for virtual_time in [true, false] {
        let context = FlowContext { virtual_time, pacing_bps: Some(1e6), ..FlowContext::default() };
        let causes = labels((0..100).map(row).collect(), context);
        assert!(causes[1..].iter().all(|cause| *cause == Some(Cause::Pacing)), "{virtual_time}: {causes:?}");
    }
}
