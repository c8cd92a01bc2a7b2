//! Full paths: full links, and standing queues of paths that are not described; paths that stop.

use super::*;

#[test]
fn a_full_path_takes_precedence_over_the_window_that_fills_it() {
    let window = |row: &mut FlowSample| row.snd_wnd_bytes = Some(1000 * MSS);
    all(&flow(0.955e9, window), Cause::PathRate);
    let cwnd = |row: &mut FlowSample| {
        row.snd_cwnd_segs = Some(1000);
        row.total_retrans_segs = Some(5);
    };
    all(&flow(0.955e9, cwnd), Cause::PathRate);
}

#[test]
fn a_pipe_that_refills_is_limited_by_its_link() {
    // Full until 0.5 s, then silent for two round trips, then full again.
    let causes = arriving(|ms| (ms.min(500) + (ms - 540).max(0)) * 119_500, |_| {});
    let at = |ms: usize| causes[ms / 10 - 1];
    assert_eq!(at(520), Cause::HostCpu, "nothing is sent, for no visible reason");
    assert_eq!(at(540), Cause::PathRate);
    assert_eq!(at(900), Cause::PathRate);
}

#[test]
fn a_standing_queue_means_a_full_path() {
    all(&measured(|_, row| row.srtt_us = Some(40_000)), Cause::PathRate);
    all(&measured(|_, _| {}), Cause::Loss);
    // A window that is sent as one burst queues behind itself.
    let window = |srtt| {
        move |_, row: &mut FlowSample| {
            (row.snd_wnd_bytes, row.srtt_us) = (Some(1000 * MSS), Some(srtt));
        }
    };
    all(&measured(window(14_000)), Cause::ReceiveWindow);
    all(&measured(window(25_000)), Cause::PathRate);
    // Wi-Fi: the round-trip time is far above the minimum, and its variation is large too.
    let varies = |_, row: &mut FlowSample| (row.srtt_us, row.rttvar_us) = (Some(16_000), Some(5_000));
    all(&measured(varies), Cause::Loss);
}

/// A full path that is not described, and a path on which some packets skip half of the delay.
#[test]
fn packets_that_overtake_others_do_not_show_a_queue() {
    let causes = |min_rtt_us: fn(i64) -> i64, srtt_us: fn(i64) -> i64| {
        let rows: Vec<FlowSample> = (0..100i64)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(0),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(100),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(100),
                notsent_bytes: Some(3_000_000),
                sndbuf_bytes: Some(20_000_000),
                wmem_queued_bytes: Some(19_000_000),
                srtt_us: Some(srtt_us(i)),
                min_rtt_us: Some(min_rtt_us(i)),
                total_retrans_segs: Some(i / 10),
                bytes_acked: Some(i * 100_000),
                ..FlowSample::default()
            })
            .collect();
        known(labels_between_hosts(rows), 20)
    };
    let overtaken = |i| if i < 5 { 20_000 } else { 10_000 };
    all(&causes(overtaken, |_| 20_100), Cause::Loss);
    all(&causes(overtaken, |i| if i < 5 { 20_000 } else { 40_000 }), Cause::PathRate);
    all(&causes(overtaken, |i| if i < 15 { 10_000 } else { 20_100 }), Cause::PathRate);
    all(&causes(|_| 10_000, |_| 20_100), Cause::PathRate);
}

/// A send buffer that is written at once each 90 ms: its 400 kB take 36 ms on a path of 90 Mb/s, and queue
/// behind themselves.
#[test]
fn the_queue_of_a_flows_own_bursts_does_not_show_a_full_path() {
    let causes = |cycle_ms: i64| {
        let in_burst = |ms: i64| (ms % cycle_ms).min(36);
        let rows: Vec<FlowSample> = (0..200i64)
            .map(|i| {
                let ms = i * 10;
                let sent = ms / cycle_ms * 36 + in_burst(ms);
                let is_waiting = in_burst(ms) == 36;
                FlowSample {
                    time_us: ms * 1000,
                    flow: "f".into(),
                    ca_state: Some(0),
                    snd_mss_bytes: Some(MSS),
                    snd_cwnd_segs: Some(1000),
                    snd_wnd_bytes: Some(10_000_000),
                    unacked_segs: Some(if is_waiting { 70 } else { 270 }),
                    notsent_bytes: Some(0),
                    sndbuf_bytes: Some(65_536),
                    wmem_queued_bytes: Some(100_000),
                    srtt_us: Some(38_000),
                    min_rtt_us: Some(20_000),
                    total_retrans_segs: Some(0),
                    bytes_received: Some(sent * 11_250),
                    ..FlowSample::default()
                }
            })
            .collect();
        known(labels_between_hosts(rows), 1)
    };
    all(&causes(90), Cause::SendBuffer);
    // The next burst arrives before the queue is empty.
    all(&causes(37), Cause::PathRate);
}

#[test]
fn a_link_that_is_full_of_acks_limits_a_flow() {
    let link = PathLink {
        name: "l".into(),
        direction: LinkDirection::Backward,
        rate_bps: 60e3,
        rate_changes: Vec::new(),
    };
    let links: Vec<LinkSample> = (0..100i64)
        .map(|i| LinkSample {
            time_us: i * 10_000,
            link: "l".into(),
            direction: LinkDirection::Backward,
            sent_bytes: Some(i * 75),
            ..LinkSample::default()
        })
        .collect();
    let path = [link];
    assert_eq!(crate::full_link(&path, &LinkRows::of(&links), 0, 990_000), Some(&path[0]));
    assert_eq!(
        crate::full_link(&path, &LinkRows::of(&links[..1]), 0, 990_000),
        None,
        "one sample shows no rate"
    );
    let faster = [PathLink { rate_bps: 70e3, ..path[0].clone() }];
    assert_eq!(crate::full_link(&faster, &LinkRows::of(&links), 0, 990_000), None);

    let rows = |full_ack_link| {
        let rows: Vec<FlowSample> = (0..100i64)
            .map(|i| FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                ca_state: Some(3),
                snd_mss_bytes: Some(MSS),
                snd_cwnd_segs: Some(100),
                snd_wnd_bytes: Some(10_000_000),
                unacked_segs: Some(100),
                notsent_bytes: Some(3_000_000),
                ..FlowSample::default()
            })
            .collect();
        let context = FlowContext { full_ack_link, ..FlowContext::default() };
        known(labels(rows, context), 1)
    };
    all(&rows(None), Cause::Loss);
    all(&rows(Some(path[0].clone())), Cause::PathRate);
}

/// Nothing arrives after 1 s: the sender of a window still sends probes, a sender with a rate control
/// continues at its rate.
#[test]
fn a_path_that_stops_loses_everything() {
    let stopped = |row: &mut FlowSample| {
        row.pacing_rate_bps = Some(100_000_000);
        row.bytes_sent = Some(row.time_us.min(2_000_000) * 12);
        row.bytes_received = Some(row.time_us.min(1_000_000) * 12);
    };
    for context in [
        FlowContext::default(),
        FlowContext { is_rate_controlled: true, ..FlowContext::default() },
        FlowContext { is_rate_controlled: true, pacing_bps: Some(1e8), ..FlowContext::default() },
    ] {
        let causes = in_context(stopped, context);
        assert!(causes[..99].iter().all(|cause| *cause != Some(Cause::Loss)), "{causes:?}");
        // After the minimum retransmission timeout.
        assert!(causes[120..].iter().all(|cause| *cause == Some(Cause::Loss)), "{causes:?}");
        // The receiver's counter is unknown.
        let unknown = |row: &mut FlowSample| {
            stopped(row);
            (row.bytes_acked, row.bytes_received) = (row.bytes_received, None);
        };
        let causes = in_context(unknown, FlowContext::default());
        assert!(causes.iter().all(|cause| *cause != Some(Cause::Loss)), "{causes:?}");
    }
}
