//! Connections of captures made by hand, whose figures can be worked out on paper.

use crate::common;
use capture::{Dissected, Dissector, Packets};
use common::{MS, Tcp, ethernet, pcap};
use schema::{EventKind, TraceKind, TraceRow};

/// The client's first number: the data goes over the end of the numbers.
const ISN: u32 = u32::MAX - 2000;
const FLOW: &str = "10.0.0.1:40000-10.0.0.2:5201";

/// Segments at these milliseconds, dissected with a row each 10 ms.
fn dissect(segments: &[(u64, Tcp)]) -> (Dissected, Vec<TraceRow>) {
    let frames: Vec<_> = segments.iter().map(|(at, tcp)| (at * MS, ethernet(&tcp.ip()))).collect();
    let file = pcap(&frames, 80);
    let mut packets = Packets::new(&file).unwrap();
    let mut dissector = Dissector::new(10_000);
    packets.by_ref().for_each(|packet| dissector.add(&packet));
    assert!(!packets.is_cut());
    let trace = dissector.take_trace();
    (dissector.finish(), trace)
}

/// The handshake, seen at the client: the server is 20 ms away.
fn handshake() -> Vec<(u64, Tcp)> {
    vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (20, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
    ]
}

/// The client's `n`th segment of 1000 bytes, from 0.
fn data(n: u32) -> Tcp {
    Tcp::client(ISN.wrapping_add(1 + n * 1000), 100, 1000)
}

/// The server's ACK of the first `n`.
fn ack(n: u32) -> Tcp {
    Tcp::server(100, ISN.wrapping_add(1 + n * 1000), 0)
}

#[test]
fn a_plain_transfer() {
    let mut all = handshake();
    all.extend([
        (21, data(0)),
        (21, data(1)),
        (41, ack(2).window(4)),
        (42, data(2)),
        (42, data(3)),
        (72, ack(4)),
    ]);
    let (seen, trace) = dissect(&all);
    assert_eq!((seen.began_ns, seen.packets, seen.others), (common::BEGAN, 9, 0));
    let flow = &seen.flows[0];
    assert_eq!((flow.name.as_str(), flow.bytes, flow.span_us), (FLOW, 4000, (21_000, 72_000)));
    assert_eq!(seen.flows.len(), 1, "the server sent no data");
    let last = seen.rows.last().unwrap();
    assert_eq!(
        (last.bytes_acked, last.data_segs_out_segs, last.unacked_segs),
        (Some(4000), Some(4), Some(0))
    );
    // RFC 6298: 20 ms, then 7/8 of that and 1/8 of 30 ms.
    assert_eq!((last.srtt_us, last.min_rtt_us), (Some(21_250), Some(20_000)));
    assert_eq!(last.snd_wnd_bytes, Some(1000 << 9), "the server's scale");
    let at_41 = seen.rows.iter().find(|row| row.time_us == 50_000).unwrap();
    assert_eq!(at_41.snd_wnd_bytes, Some(4 << 9));
    // 2000 bytes in the 10 ms from 40 on.
    assert_eq!(at_41.goodput_bps, Some(1_600_000));
    assert_eq!(at_41.unacked_segs, Some(2));
    let places: Vec<_> = trace.iter().filter_map(|row| row.seq_bytes).collect();
    assert_eq!(places, [0, 1000, 2000, 3000], "over the numbers' end");
}

#[test]
fn what_is_sent_again_is_told_from_what_is_late() {
    let mut all = handshake();
    // Segment 1 is lost on the way and sent again; 4 overtakes 3.
    all.extend([
        (21, data(0)),
        (21, data(1)),
        (21, data(2)),
        (41, ack(1)),
        (41, ack(1).sack(ISN.wrapping_add(2001), ISN.wrapping_add(3001))),
        (42, data(1)),
        (62, ack(3)),
        (63, data(4)),
        (64, data(3)),
        (84, ack(5)),
    ]);
    let (seen, trace) = dissect(&all);
    let retransmits: Vec<_> = seen
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Retransmit)
        .map(|event| event.time_us)
        .collect();
    assert_eq!(retransmits, [42_000]);
    let last = seen.rows.last().unwrap();
    assert_eq!(
        (last.total_retrans_segs, last.bytes_retrans, last.bytes_sent),
        (Some(1), Some(1000), Some(6000))
    );
    // Karn: the ACK at 62 ms covers what was sent again. Nothing is known of what overtook, either: its ACK waits.
    assert_eq!(last.min_rtt_us, Some(20_000));
    assert!(last.srtt_us.unwrap() < 20_500, "{last:?}");
    let kinds: Vec<_> = trace.iter().map(|row| row.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == TraceKind::Sack).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == TraceKind::Retransmit).count(), 1);
}

#[test]
fn a_loss_before_the_capture_shows_as_a_gap_that_is_filled_late() {
    let mut all = handshake();
    all.extend([(21, data(0)), (21, data(2)), (45, data(1)), (65, ack(3))]);
    let (seen, _) = dissect(&all);
    assert_eq!(seen.rows.last().unwrap().total_retrans_segs, Some(1));
}

#[test]
fn seen_at_the_receiver_the_handshake_tells_how_far_the_sender_is() {
    let all = [
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
        (21, data(0)),
        (21, ack(1)),
        (41, data(1)),
        (42, ack(2)),
    ];
    let (seen, _) = dissect(&all);
    assert_eq!(seen.rows.last().unwrap().min_rtt_us, Some(20_000));
}

/// Data passes the receiver every millisecond; each segment echoes the ACK that set it free `distance_ms` before.
fn clocked_by_acks(first: u32, count: u32, from_ms: u64, distance_ms: u64) -> Vec<(u64, Tcp)> {
    let one = |n: u32| {
        let at = from_ms + u64::from(n - first);
        let sent_free_by = 500 + (at as u32).saturating_sub(distance_ms as u32);
        [
            (at, data(n).stamps(1000 + at as u32, sent_free_by)),
            (at, ack(n + 1).stamps(500 + at as u32, 1000 + at as u32)),
        ]
    };
    (first..first + count).flat_map(one).collect()
}

#[test]
fn seen_at_the_receiver_time_stamps_measure_queues_before() {
    let mut all = vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
    ];
    // 40 ms, of which half is a queue.
    all.extend(clocked_by_acks(0, 200, 100, 40));
    let (seen, _) = dissect(&all);
    let last = seen.rows.last().unwrap();
    assert!((39_000..=41_000).contains(&last.srtt_us.unwrap()), "{last:?}");
}

/// `iperf3 -b 20M`: a burst every 52 ms, which is acknowledged a round trip of 20 ms later; where the packets are captured
/// it takes `before_ms` to the sender and back.
fn bursts(before_ms: u64, has_stamps: bool) -> Vec<(u64, Tcp)> {
    let behind_ms = 20 - before_ms;
    let mut all = Vec::new();
    for burst in 0..40u32 {
        let at = 100 + u64::from(burst) * 52;
        let stamps = |tcp: Tcp, value, echo| if has_stamps { tcp.stamps(value, echo) } else { tcp };
        let (sent, answered) = (at as u32 + 1000, (at + behind_ms) as u32 + 500);
        // The last ACK that the sender had.
        let before = if burst == 0 { 500 } else { answered - 52 };
        all.extend((0..8).map(|n| (at, stamps(data(burst * 8 + n), sent, before))));
        all.extend((1..=4).map(|n| (at + behind_ms, stamps(ack(burst * 8 + n * 2), answered, sent))));
    }
    all
}

#[test]
fn an_idle_sender_is_no_round_trip() {
    for (before_ms, has_stamps) in [(0, true), (0, false), (20, true), (20, false), (7, true)] {
        let mut all = vec![
            (0, Tcp::client(ISN, 0, 0).syn(7, false)),
            (20 - before_ms, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
            (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
        ];
        all.extend(bursts(before_ms, has_stamps));
        let (seen, _) = dissect(&all);
        let last = seen.rows.last().unwrap();
        let rtts = (last.min_rtt_us, last.srtt_us);
        assert_eq!(rtts, (Some(20_000), Some(20_000)), "{before_ms} ms before, stamps {has_stamps}");
        assert_eq!(seen.flows[0].distance_us, Some(before_ms as i64 * 1000));
    }
}

#[test]
fn without_a_handshake_idle_time_does_not_count_as_distance() {
    let (seen, _) = dissect(&bursts(0, true));
    let last = seen.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(20_000)));
    assert_eq!(seen.flows[0].distance_us, None, "the sender never sent because an ACK came");
    // Of a sender that ACKs clock, time stamps alone are enough.
    let (seen, _) = dissect(&clocked_by_acks(0, 200, 100, 40));
    assert!(seen.flows[0].distance_us.is_some() && seen.flows[0].is_distance_followed);
    assert!((39_000..=41_000).contains(&seen.rows.last().unwrap().srtt_us.unwrap()));
}

#[test]
fn a_queue_is_forgotten_when_the_sender_becomes_idle() {
    let mut all = vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
    ];
    all.extend(clocked_by_acks(0, 200, 100, 40));
    // One segment every 100 ms, each sent 80 ms after the ACK of the one before had come.
    for n in 0..60u32 {
        let at = 400 + u64::from(n) * 100;
        let before = if n == 0 { 299 } else { at as u32 - 100 };
        all.push((at, data(200 + n).stamps(1000 + at as u32, 500 + before)));
        all.push((at, ack(201 + n).stamps(500 + at as u32, 1000 + at as u32)));
    }
    let (seen, _) = dissect(&all);
    let last = seen.rows.last().unwrap().srtt_us.unwrap();
    assert!((20_000..20_500).contains(&last), "{last}");
}

/// Without SACK a hole is filled each round trip, and all that was sent after it waits for its ACK.
#[test]
fn what_waits_for_a_hole_is_no_round_trip() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1))]);
    // The first try of segment 1 was lost before the capture.
    all.extend((2..10).map(|n| (42, data(n))));
    all.extend((0..8).map(|_| (62, ack(1))));
    all.extend([(300, data(1)), (320, ack(10)), (321, data(10)), (341, ack(11))]);
    let (seen, _) = dissect(&all);
    let last = seen.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(20_000)));
}

/// The kernel's smoothed round-trip time is of the oldest segment that an ACK covers, its smallest of the newest.
#[test]
fn delayed_acks_count_as_they_do_in_the_kernel() {
    let mut all = handshake();
    all.extend([(21, data(0)), (31, data(1)), (51, ack(2))]);
    let (seen, _) = dissect(&all);
    let last = seen.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(30_000)));
}

#[test]
fn a_capture_may_begin_in_the_middle() {
    let (seen, _) = dissect(&[(0, ack(7)), (1, data(7)), (2, data(8)), (30, ack(9))]);
    let flow = &seen.flows[0];
    assert_eq!((flow.name.as_str(), flow.bytes), (FLOW, 2000));
    let last = seen.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.total_retrans_segs), (Some(28_000), Some(0)));
}

#[test]
fn windows_that_close_and_open_are_events() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1).window(0)), (60, ack(1).window(5)), (61, data(1)), (81, ack(2))]);
    let (seen, _) = dissect(&all);
    let events: Vec<_> = seen.events.iter().map(|event| (event.time_us, event.kind, event.value)).collect();
    assert_eq!(events, [(41_000, EventKind::ZeroWindow, 0), (60_000, EventKind::WindowOpen, 5 << 9)]);
}

#[test]
fn the_same_ports_again_are_another_connection() {
    let once = || {
        let mut all = handshake();
        all.extend([
            (21, data(0)),
            (41, ack(1).fin()),
            (42, Tcp::client(ISN.wrapping_add(1001), 101, 0).fin()),
        ]);
        all
    };
    let later = once().into_iter().map(|(at, tcp)| (at + 1000, tcp));
    let (seen, _) = dissect(&once().into_iter().chain(later).collect::<Vec<_>>());
    let names: Vec<_> = seen.flows.iter().map(|flow| (flow.name.clone(), flow.bytes)).collect();
    assert_eq!(names, [(FLOW.to_string(), 1000), (format!("{FLOW}#2"), 1000)]);
}

#[test]
fn a_silent_hour_is_two_rows() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1)), (3_600_000, data(1)), (3_600_020, ack(2))]);
    let (seen, _) = dissect(&all);
    assert!(seen.rows.len() < 10, "{} rows", seen.rows.len());
    let silent = seen.rows.iter().find(|row| row.time_us > 3_000_000_000).unwrap();
    assert_eq!(silent.goodput_bps, Some(0));
}
