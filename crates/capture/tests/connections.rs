//! Hand-made captures, whose round-trip times, retransmissions and windows can be computed on paper.

use crate::common;
use capture::{Dissection, Dissector, Packets};
use common::{MS, Tcp, ethernet, pcap};
use schema::{EventKind, TraceKind, TraceRow};

/// The client's initial sequence number, chosen so that the data wraps around.
const ISN: u32 = u32::MAX - 2000;
const FLOW: &str = "10.0.0.1:40000-10.0.0.2:5201";

/// Dissects segments at these times, ms, with a row every 10 ms.
fn dissect(segments: &[(u64, Tcp)]) -> (Dissection, Vec<TraceRow>) {
    dissect_at(segments.iter().map(|(time_ms, tcp)| (time_ms * MS, tcp.clone())))
}

/// Dissects segments at these times, ns, with a row every 10 ms.
fn dissect_at(segments: impl Iterator<Item = (u64, Tcp)>) -> (Dissection, Vec<TraceRow>) {
    dissect_truncated(segments, 80)
}

/// As [`dissect_at`], with the first `snaplen` bytes of each packet.
fn dissect_truncated(
    segments: impl Iterator<Item = (u64, Tcp)>,
    snaplen: usize,
) -> (Dissection, Vec<TraceRow>) {
    let frames: Vec<_> = segments.map(|(time_ns, tcp)| (time_ns, ethernet(&tcp.ip()))).collect();
    let file = pcap(&frames, snaplen);
    let mut packets = Packets::new(&file).unwrap();
    let mut dissector = Dissector::new(10_000);
    packets.by_ref().for_each(|packet| dissector.add(&packet));
    assert!(!packets.is_truncated());
    let trace = dissector.take_trace();
    (dissector.finish(), trace)
}

/// The handshake, captured at the client; the round-trip time is 20 ms.
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

/// The server's ACK of the first `n` segments.
fn ack(n: u32) -> Tcp {
    Tcp::server(100, ISN.wrapping_add(1 + n * 1000), 0)
}

#[test]
fn marks_count_the_segments_that_ecn_echoes_acknowledge() {
    let mut all = handshake();
    // In the SYN and the SYN-ACK the flag negotiates ECN.
    all[1].1 = all[1].1.clone().marked();
    all.extend([(21, data(0)), (21, data(1)), (41, ack(1)), (42, ack(2).marked()), (43, ack(2).marked())]);
    all.extend([(44, data(2)), (44, data(3)), (64, ack(4).marked())]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.delivered_ce_segs, last.delivered_segs), (Some(3), Some(4)));
}

#[test]
fn a_transfer_without_losses() {
    let mut all = handshake();
    all.extend([
        (21, data(0)),
        (21, data(1)),
        (41, ack(2).window(4)),
        (42, data(2)),
        (42, data(3)),
        (72, ack(4)),
    ]);
    let (dissection, trace) = dissect(&all);
    assert_eq!(
        (dissection.start_ns, dissection.packets, dissection.skipped_packets),
        (common::START_NS, 9, 0)
    );
    let flow = &dissection.flows[0];
    assert_eq!((flow.name.as_str(), flow.bytes, flow.span_us), (FLOW, 4000, (21_000, 72_000)));
    assert_eq!(dissection.flows.len(), 1, "the server sent no data");
    let last = dissection.rows.last().unwrap();
    assert_eq!(
        (last.bytes_acked, last.data_segs_out_segs, last.unacked_segs),
        (Some(4000), Some(4), Some(0))
    );
    // RFC 6298: 20 ms, then 7/8 of that and 1/8 of 30 ms.
    assert_eq!((last.srtt_us, last.min_rtt_us), (Some(21_250), Some(20_000)));
    assert_eq!(last.snd_wnd_bytes, Some(1000 << 9), "scaled by the server's window scale");
    let at_50 = dissection.rows.iter().find(|row| row.time_us == 50_000).unwrap();
    assert_eq!(at_50.snd_wnd_bytes, Some(4 << 9));
    // 2000 bytes in the 10 ms since 40 ms.
    assert_eq!(at_50.goodput_bps, Some(1_600_000));
    assert_eq!(at_50.unacked_segs, Some(2));
    let offsets: Vec<_> = trace.iter().filter_map(|row| row.seq_bytes).collect();
    assert_eq!(offsets, [0, 1000, 2000, 3000], "sequence numbers wrap around");
}

/// A capture at a host whose device splits super-packets (TSO) contains the whole super-packets.
#[test]
fn a_super_packet_counts_as_its_segments() {
    let at = |offset: u32, payload| Tcp::client(ISN.wrapping_add(1 + offset), 100, payload);
    let acked = |offset: u32| Tcp::server(100, ISN.wrapping_add(1 + offset), 0);
    let mut all = handshake();
    all.extend([(21, at(0, 14_600)), (22, at(14_600, 14_601)), (41, acked(14_600))]);
    // Two segments of the second super-packet are retransmitted.
    all.extend([(42, at(14_600, 2920)), (62, acked(29_201))]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!(
        (last.snd_mss_bytes, last.data_segs_out_segs, last.total_retrans_segs),
        (Some(1460), Some(10 + 11 + 2), Some(2))
    );
    let events: Vec<_> = dissection.events.iter().map(|event| (event.kind, event.value)).collect();
    assert_eq!(events, [(EventKind::Retransmit, 2)]);

    // The first transmission was lost before the capture point; timestamps take 12 bytes of each segment.
    let stamped = |tcp: Tcp| tcp.timestamps(1, 1);
    let mut all = handshake();
    all.extend([(21, stamped(at(14_480, 14_480))), (42, stamped(at(0, 14_480))), (62, acked(28_960))]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!(
        (last.snd_mss_bytes, last.data_segs_out_segs, last.total_retrans_segs),
        (Some(1448), Some(20), Some(10))
    );
    assert_eq!(dissection.flows[0].lost_before_capture_segs, 10);
}

/// Without the SYNs the identifications of IPv4 show how many segments a super-packet has.
#[test]
fn super_packets_are_counted_in_a_capture_that_begins_in_the_middle() {
    // 20 super-packets of ten segments, with a pure ACK after the fifth.
    let data = |n: u32| {
        let id = 100 + n as u16 * 10 + u16::from(n > 5);
        Tcp::client(ISN.wrapping_add(1 + n * 14_480), 100, 14_480).timestamps(1, 1).id(id)
    };
    let mut all: Vec<(u64, Tcp)> = (0..20).map(|n| (u64::from(n), data(n))).collect();
    all.insert(6, (5, Tcp::client(ISN.wrapping_add(1 + 6 * 14_480), 200, 0).id(160)));
    all.push((30, Tcp::client(ISN.wrapping_add(1), 100, 1448).timestamps(9, 1).id(400)));
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.snd_mss_bytes, last.total_retrans_segs), (Some(1448), Some(1)));
    // The first is counted before its successor is known.
    assert_eq!(last.data_segs_out_segs, Some(1 + 19 * 10 + 1));
}

/// A transfer with a retransmission 0.4 ms after the original, on a path of 0.2 ms; times in units of 0.1 ms.
fn short_path() -> Vec<(u64, Tcp)> {
    vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (2, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (2, Tcp::client(ISN.wrapping_add(1), 100, 0)),
        (10, data(0).timestamps(1, 1)),
        (10, data(1).timestamps(1, 1)),
        (12, ack(0).sack(ISN.wrapping_add(1001), ISN.wrapping_add(2001))),
        (14, data(0).timestamps(1, 1)),
        (16, ack(2)),
        (200, data(2).timestamps(20, 16)),
        (202, ack(3).fin()),
        (202, Tcp::client(ISN.wrapping_add(3001), 101, 0).fin()),
    ]
}

/// `tcpdump -i any` on a host with a bridge captures each packet twice.
#[test]
fn copies_of_packets_change_no_row() {
    const COPY_AFTER_NS: u64 = 30_000;
    for has_ids in [true, false] {
        let all: Vec<(u64, Tcp)> = short_path()
            .into_iter()
            .zip(1..)
            .map(|((time, tcp), id)| (time * MS / 10, if has_ids { tcp.id(id) } else { tcp }))
            .collect();
        let (once, trace) = dissect_at(all.iter().cloned());
        let mut twice = all.clone();
        twice.extend(all.iter().map(|(time_ns, tcp)| (time_ns + COPY_AFTER_NS, tcp.clone())));
        twice.sort_by_key(|(time_ns, _)| *time_ns);
        let (both, trace_of_both) = dissect_at(twice.into_iter());
        assert_eq!(both.events, once.events, "{has_ids}");
        if has_ids {
            assert_eq!((&both.rows, &trace_of_both), (&once.rows, &trace));
        }
        let counts = |of: &Dissection| {
            let last = of.rows.last().unwrap();
            (
                last.data_segs_out_segs,
                last.total_retrans_segs,
                last.bytes_acked,
                last.srtt_us,
                of.flows.clone(),
            )
        };
        assert_eq!(counts(&both), counts(&once), "{has_ids}");
        assert_eq!((counts(&once).1, once.copies), (Some(1), 0), "{has_ids}");
        // Without identifications, equal ACKs do not count as copies: two ACKs of the handshake and the data,
        // and one with SACK.
        assert_eq!(both.copies, if has_ids { 11 } else { 8 }, "{has_ids}");
    }
}

/// A bond or a bridge passes a super-packet that its device sends as segments, and a veth may merge segments.
#[test]
fn segments_of_a_super_packet_are_its_copies() {
    let at = |offset: u32, payload, id| Tcp::client(ISN.wrapping_add(1 + offset), 100, payload).id(id);
    let mut all = handshake();
    all.push((21, at(0, 14_600, 100)));
    all.extend((0..10).map(|n: u16| (21, at(u32::from(n) * 1460, 1460, 100 + n))));
    all.extend((0..10).map(|n: u16| (22, at(14_600 + u32::from(n) * 1460, 1460, 110 + n))));
    all.push((22, at(14_600, 14_600, 110)));
    // A retransmission has another identification.
    all.extend([(41, ack(0)), (42, at(1460, 1460, 120)), (42, at(1460, 1460, 120))]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.data_segs_out_segs, last.total_retrans_segs), (Some(21), Some(1)));
    assert_eq!(dissection.copies, 10 + 1 + 1);
}

#[test]
fn retransmissions_are_distinguished_from_reordering() {
    let mut all = handshake();
    // Segment 1 is lost after the capture point and retransmitted; segment 4 overtakes 3.
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
    let (dissection, trace) = dissect(&all);
    let retransmits: Vec<_> = dissection
        .events
        .iter()
        .filter(|event| event.kind == EventKind::Retransmit)
        .map(|event| event.time_us)
        .collect();
    assert_eq!(retransmits, [42_000]);
    assert_eq!(dissection.flows[0].lost_before_capture_segs, 0, "it was lost after the capture point");
    let last = dissection.rows.last().unwrap();
    assert_eq!(
        (last.total_retrans_segs, last.bytes_retrans, last.bytes_sent),
        (Some(1), Some(1000), Some(6000))
    );
    // Karn's algorithm: the ACK at 62 ms covers a retransmission. The segment that overtook yields no sample
    // either: its ACK waits.
    assert_eq!(last.min_rtt_us, Some(20_000));
    assert!(last.srtt_us.unwrap() < 20_500, "{last:?}");
    let kinds: Vec<_> = trace.iter().map(|row| row.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == TraceKind::Sack).count(), 1);
    assert_eq!(kinds.iter().filter(|kind| **kind == TraceKind::Retransmit).count(), 1);
}

#[test]
fn a_loss_before_the_capture_point_is_a_gap_filled_after_3_ms() {
    let mut all = handshake();
    all.extend([(21, data(0)), (21, data(2)), (45, data(1)), (65, ack(3))]);
    let (dissection, _) = dissect(&all);
    assert_eq!(dissection.rows.last().unwrap().total_retrans_segs, Some(1));
    assert_eq!(dissection.flows[0].lost_before_capture_segs, 1);
}

#[test]
fn at_the_receiver_the_handshake_measures_the_sender_side_rtt() {
    let all = [
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
        (21, data(0)),
        (21, ack(1)),
        (41, data(1)),
        (42, ack(2)),
    ];
    let (dissection, _) = dissect(&all);
    assert_eq!(dissection.rows.last().unwrap().min_rtt_us, Some(20_000));
}

/// Data passes the receiver every millisecond; each segment echoes the ACK, `rtt_ms` earlier, that released
/// it.
fn clocked_by_acks(first: u32, count: u32, from_ms: u64, rtt_ms: u64) -> Vec<(u64, Tcp)> {
    let one = |n: u32| {
        let time_ms = from_ms + u64::from(n - first);
        let echoed = 500 + (time_ms as u32).saturating_sub(rtt_ms as u32);
        [
            (time_ms, data(n).timestamps(1000 + time_ms as u32, echoed)),
            (time_ms, ack(n + 1).timestamps(500 + time_ms as u32, 1000 + time_ms as u32)),
        ]
    };
    (first..first + count).flat_map(one).collect()
}

#[test]
fn at_the_receiver_timestamps_measure_queues_on_the_sender_side() {
    let mut all = vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
    ];
    // 40 ms, half of which is queueing delay.
    all.extend(clocked_by_acks(0, 200, 100, 40));
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert!((39_000..=41_000).contains(&last.srtt_us.unwrap()), "{last:?}");
}

/// `iperf3 -b 20M`: a burst every 52 ms over a round-trip time of 20 ms. The round-trip time between the
/// capture point and the sender is `sender_side_ms`.
fn bursts(sender_side_ms: u64, has_timestamps: bool) -> Vec<(u64, Tcp)> {
    let receiver_side_ms = 20 - sender_side_ms;
    let mut all = Vec::new();
    for burst in 0..40u32 {
        let time_ms = 100 + u64::from(burst) * 52;
        let stamped = |tcp: Tcp, value, echo| if has_timestamps { tcp.timestamps(value, echo) } else { tcp };
        let (sent, acked) = (time_ms as u32 + 1000, (time_ms + receiver_side_ms) as u32 + 500);
        // The latest ACK that the sender received.
        let echoed = if burst == 0 { 500 } else { acked - 52 };
        all.extend((0..8).map(|n| (time_ms, stamped(data(burst * 8 + n), sent, echoed))));
        all.extend(
            (1..=4).map(|n| (time_ms + receiver_side_ms, stamped(ack(burst * 8 + n * 2), acked, sent))),
        );
    }
    all
}

#[test]
fn idle_time_of_the_sender_is_not_part_of_round_trip_times() {
    for (sender_side_ms, has_timestamps) in [(0, true), (0, false), (20, true), (20, false), (7, true)] {
        let mut all = vec![
            (0, Tcp::client(ISN, 0, 0).syn(7, false)),
            (20 - sender_side_ms, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
            (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
        ];
        all.extend(bursts(sender_side_ms, has_timestamps));
        let (dissection, _) = dissect(&all);
        let last = dissection.rows.last().unwrap();
        let rtts = (last.min_rtt_us, last.srtt_us);
        assert_eq!(
            rtts,
            (Some(20_000), Some(20_000)),
            "{sender_side_ms} ms at the sender's side, timestamps {has_timestamps}"
        );
        assert_eq!(dissection.flows[0].sender_side_rtt_us, Some(sender_side_ms as i64 * 1000));
    }
}

#[test]
fn without_a_handshake_idle_time_does_not_count_as_sender_side_rtt() {
    let (dissection, _) = dissect(&bursts(0, true));
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(20_000)));
    assert_eq!(dissection.flows[0].sender_side_rtt_us, None, "no ACK ever released data");
    // If ACKs clock the sender, timestamps alone are enough.
    let (dissection, _) = dissect(&clocked_by_acks(0, 200, 100, 40));
    assert!(
        dissection.flows[0].sender_side_rtt_us.is_some() && dissection.flows[0].is_sender_side_rtt_tracked
    );
    assert!((39_000..=41_000).contains(&dissection.rows.last().unwrap().srtt_us.unwrap()));
}

#[test]
fn a_queue_is_forgotten_when_the_sender_becomes_idle() {
    let mut all = vec![
        (0, Tcp::client(ISN, 0, 0).syn(7, false)),
        (0, Tcp::server(99, ISN.wrapping_add(1), 0).syn(9, true)),
        (20, Tcp::client(ISN.wrapping_add(1), 100, 0)),
    ];
    all.extend(clocked_by_acks(0, 200, 100, 40));
    // One segment every 100 ms, each sent 80 ms after the ACK of the previous one arrived.
    for n in 0..60u32 {
        let time_ms = 400 + n * 100;
        let echoed = if n == 0 { 299 } else { time_ms - 100 };
        all.push((time_ms.into(), data(200 + n).timestamps(1000 + time_ms, 500 + echoed)));
        all.push((time_ms.into(), ack(201 + n).timestamps(500 + time_ms, 1000 + time_ms)));
    }
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap().srtt_us.unwrap();
    assert!((20_000..20_500).contains(&last), "{last}");
}

/// Without SACK one hole is filled per round trip, and the ACKs of all later segments wait for that.
#[test]
fn acks_that_wait_for_a_hole_yield_no_round_trip_times() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1))]);
    // The original of segment 1 was lost before the capture point.
    all.extend((2..10).map(|n| (42, data(n))));
    all.extend((0..8).map(|_| (62, ack(1))));
    all.extend([(300, data(1)), (320, ack(10)), (321, data(10)), (341, ack(11))]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(20_000)));
}

/// The kernel's smoothed round-trip time uses the oldest segment that an ACK covers, its minimum the newest.
#[test]
fn delayed_acks_count_as_they_do_in_the_kernel() {
    let mut all = handshake();
    all.extend([(21, data(0)), (31, data(1)), (51, ack(2))]);
    let (dissection, _) = dissect(&all);
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.srtt_us), (Some(20_000), Some(30_000)));
}

#[test]
fn a_capture_may_begin_in_the_middle() {
    let (dissection, _) = dissect(&[(0, ack(7)), (1, data(7)), (2, data(8)), (30, ack(9))]);
    let flow = &dissection.flows[0];
    assert_eq!((flow.name.as_str(), flow.bytes), (FLOW, 2000));
    let last = dissection.rows.last().unwrap();
    assert_eq!((last.min_rtt_us, last.total_retrans_segs), (Some(28_000), Some(0)));
}

#[test]
fn closing_and_opening_windows_are_events() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1).window(0)), (60, ack(1).window(5)), (61, data(1)), (81, ack(2))]);
    let (dissection, _) = dissect(&all);
    let events: Vec<_> =
        dissection.events.iter().map(|event| (event.time_us, event.kind, event.value)).collect();
    assert_eq!(events, [(41_000, EventKind::ZeroWindow, 0), (60_000, EventKind::WindowOpen, 5 << 9)]);
}

/// Without the SYNs, or with a snaplen that cuts their options, the window scale is unknown.
#[test]
fn a_window_of_unknown_scale_has_no_size() {
    let rest = [
        (21, data(0)),
        (41, ack(1).window(0)),
        (60, ack(1).window(5)),
        (61, data(1)),
        (81, ack(2).window(9)),
    ];
    let at_ns = |segments: &[(u64, Tcp)]| {
        segments.iter().map(|(time_ms, tcp)| (time_ms * MS, tcp.clone())).collect::<Vec<_>>()
    };
    let whole = [handshake(), rest.to_vec()].concat();
    // Headers of Ethernet, IP and TCP, and the MSS option, which precedes the window scale.
    let (truncated, _) = dissect_truncated(at_ns(&whole).into_iter(), 14 + 20 + 20 + 4);
    let (from_the_middle, _) = dissect_at(at_ns(&rest).into_iter());
    for dissection in [truncated, from_the_middle] {
        let last = dissection.rows.last().unwrap();
        assert_eq!((last.snd_wnd_bytes, last.bytes_acked), (None, Some(2000)));
        let is_closed = |row: &schema::FlowSample| row.snd_wnd_bytes == Some(0);
        assert!(dissection.rows.iter().any(is_closed), "a closed window has no scale");
        let events: Vec<_> = dissection.events.iter().map(|event| (event.kind, event.value)).collect();
        assert_eq!(events, [(EventKind::ZeroWindow, 0), (EventKind::WindowOpen, 5)]);
    }
}

#[test]
fn a_syn_in_the_middle_of_a_connection_begins_a_new_connection() {
    // The end of the first connection was not captured.
    let first = [(0, data(500)), (1, ack(501)), (2, data(501)), (3, ack(502))];
    let second = handshake().into_iter().chain([(21, data(0)), (41, ack(1))]);
    let later = second.map(|(time_ms, tcp)| (time_ms + 1000, tcp));
    let (dissection, _) = dissect(&first.into_iter().chain(later).collect::<Vec<_>>());
    let names: Vec<_> = dissection.flows.iter().map(|flow| (flow.name.clone(), flow.bytes)).collect();
    assert_eq!(names, [(FLOW.to_string(), 2000), (format!("{FLOW}#2"), 1000)]);
    assert!(dissection.rows.iter().all(|row| row.total_retrans_segs == Some(0)), "{:?}", dissection.rows);
}

#[test]
fn a_syn_captured_after_its_reply_belongs_to_the_same_connection() {
    // Queues of a capture device may deliver them in this order.
    let mut all = handshake();
    all.swap(0, 1);
    (all[0].0, all[1].0) = (0, 0);
    all.extend([(21, data(0)), (41, ack(1))]);
    let (dissection, _) = dissect(&all);
    assert_eq!(dissection.flows.len(), 1);
    assert_eq!(dissection.rows.last().unwrap().snd_wnd_bytes, Some(1000 << 9));
}

#[test]
fn wrong_timestamps_cause_no_overflow() {
    for late_ns in [u64::MAX - common::START_NS, 1 << 62] {
        let all =
            [(0, data(0)), (late_ns, data(1)), (late_ns, ack(2)), (late_ns, data(2)), (late_ns, ack(3))];
        let file = pcapng_of(&all);
        let mut dissector = Dissector::new(10_000);
        Packets::new(&file).unwrap().for_each(|packet| dissector.add(&packet));
        let dissection = dissector.finish();
        assert_eq!(dissection.flows[0].bytes, 3000);
        assert!(dissection.duration_us > 0);
    }
}

#[test]
fn packets_with_decreasing_timestamps_are_counted() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1)), (30, data(1)), (32, ack(2)), (61, data(2)), (81, ack(3))]);
    let (dissection, _) = dissect(&all);
    // 11 and 9 ms earlier than the packet before them.
    assert_eq!((dissection.early_packets, dissection.flows[0].bytes), (1, 3000));
}

/// A pcapng file of these segments with timestamps of 64 bits, ns after [`common::START_NS`].
fn pcapng_of(segments: &[(u64, Tcp)]) -> Vec<u8> {
    let mut file = Vec::new();
    capture::pcapng_writer::section_header(&mut file);
    let interface = capture::pcapng_writer::Interface { name: "eth0", description: "", snaplen: 0 };
    capture::pcapng_writer::interface(&mut file, &interface);
    for (time_ns, tcp) in segments {
        let packet = capture::pcapng_writer::CapturedPacket {
            interface: 0,
            timestamp_ns: common::START_NS + time_ns,
            direction: capture::pcapng_writer::PacketDirection::Unspecified,
            frame: &ethernet(&tcp.ip()),
            snaplen: 0,
            missed: 0,
        };
        capture::pcapng_writer::packet(&mut file, &packet);
    }
    file
}

#[test]
fn reused_ports_begin_a_new_connection() {
    let once = || {
        let mut all = handshake();
        all.extend([
            (21, data(0)),
            (41, ack(1).fin()),
            (42, Tcp::client(ISN.wrapping_add(1001), 101, 0).fin()),
        ]);
        all
    };
    let later = once().into_iter().map(|(time_ms, tcp)| (time_ms + 1000, tcp));
    let (dissection, _) = dissect(&once().into_iter().chain(later).collect::<Vec<_>>());
    let names: Vec<_> = dissection.flows.iter().map(|flow| (flow.name.clone(), flow.bytes)).collect();
    assert_eq!(names, [(FLOW.to_string(), 1000), (format!("{FLOW}#2"), 1000)]);
}

#[test]
fn reused_ports_begin_a_new_connection_in_a_capture_of_one_direction() {
    let from_server = |isn: u32, time_ms: u64| {
        let sent = |offset: u32| Tcp::server(isn.wrapping_add(1 + offset), 500, 1000);
        [(time_ms, Tcp::server(isn, 500, 0).syn(9, true)), (time_ms + 1, sent(0)), (time_ms + 2, sent(1000))]
    };
    let (dissection, _) = dissect(&[from_server(99, 0), from_server(3_000_000_000, 1000)].concat());
    assert_eq!(dissection.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>(), [2000, 2000]);
}

#[test]
fn a_silent_hour_adds_two_rows() {
    let mut all = handshake();
    all.extend([(21, data(0)), (41, ack(1)), (3_600_000, data(1)), (3_600_020, ack(2))]);
    let (dissection, _) = dissect(&all);
    assert!(dissection.rows.len() < 10, "{} rows", dissection.rows.len());
    let silent = dissection.rows.iter().find(|row| row.time_us > 3_000_000_000).unwrap();
    assert_eq!(silent.goodput_bps, Some(0));
}
