//! Times and contents of ACKs.

use super::*;
use crate::{CaEvent, Flags, ecn};

/// A rig in the middle of a stream, whose window no longer grows.
fn settled() -> Rig {
    let mut rig = Rig::linux(1, 1 << 20);
    rig.now = 1_000_000_000;
    rig.stream(4000);
    rig
}

#[test]
fn every_second_segment_is_acknowledged() {
    let mut rig = settled();
    assert_eq!(rig.stream(1000), 500);
    let (last, before) = (rig.acks[rig.acks.len() - 1], rig.acks[rig.acks.len() - 2]);
    assert_eq!(last.ack - before.ack, 2 * MSS);
}

#[test]
fn a_super_packet_is_acknowledged_once() {
    let mut rig = settled();
    let before = rig.acks.len();
    rig.feed_and_read(rig.sk.rcv_nxt, 10 * MSS);
    assert_eq!(rig.acks.len(), before + 1);
}

#[test]
fn the_first_segments_are_acknowledged_at_once() {
    let mut rig = Rig::linux(1, 6_291_456);
    assert_eq!(rig.stream(16), 16);
}

#[test]
fn the_ack_of_a_single_segment_waits_40_ms_and_a_tick() {
    let mut rig = settled();
    rig.stream(rig.rx.rcv_wup.abs_diff(rig.sk.rcv_nxt) / MSS % 2);
    rig.sk.icsk_ack_quick = 0;
    let before = rig.acks.len();
    rig.now = 10_001_000_000;
    rig.sk.icsk_ack_lrcvtime = 2500 - 5;
    let accepted = rig.feed(rig.segment(rig.sk.rcv_nxt, MSS));
    assert_eq!(accepted.ack, AckAction::Delayed);
    let at = rig.rx.timer().unwrap();
    // Tick 2500 + 10, plus one tick of rounding by the timer wheel.
    assert_eq!(at, 10_044_000_000);
    assert_eq!(rig.rx.on_timer(&mut rig.sk, at - 1), AckAction::None);
    assert_eq!(rig.rx.on_timer(&mut rig.sk, at), AckAction::Now);
    rig.acknowledge();
    assert_eq!(rig.rx.timer(), None);
    assert_eq!((rig.acks.len() - before, delayed_ack::ato(&rig.sk)), (1, 20), "the timeout has doubled");
}

/// 5 % of the round-trip time up to 6.18, a third of it since 6.19 (416dd649f3aa), each with the timer's
/// slack.
#[test]
fn acks_beyond_a_hole_are_held_for_a_share_of_the_round_trip() {
    let held_ns = |minor| {
        let mut rig = Rig::linux(minor, 1 << 20);
        rig.now = 1_000_000_000;
        rig.stream(4000);
        rig.sk.srtt_us = 2000 << 3;
        let hole = rig.sk.rcv_nxt;
        for i in 1..=8 {
            rig.feed_and_read(hole + i * MSS, MSS);
            if let Some(at) = rig.rx.timer() {
                return at - rig.now;
            }
        }
        panic!("no ACK was held back");
    };
    assert_eq!([held_ns(1), held_ns(18), held_ns(19)], [200_000, 200_000, 670_000]);
}

#[test]
fn a_hole_is_reported_at_once_then_at_most_each_millisecond() {
    let mut rig = settled();
    let hole = rig.sk.rcv_nxt;
    let (before, start) = (rig.acks.len(), rig.now);
    for i in 1..=340 {
        rig.now += 121_120;
        rig.feed_and_read(hole + i * MSS, MSS);
        if i == 3 {
            assert_eq!(rig.acks.len() - before, 3, "three duplicate ACKs are not compressed");
        }
    }
    let acks = rig.acks.len() - before;
    let expected = 3 + (rig.now - start) / 1_211_200;
    assert!(
        (acks as u64).abs_diff(expected) <= 8,
        "{acks} ACKs, expected {expected}, a compressed one per 1.1 ms"
    );
    let last = rig.acknowledge();
    assert_eq!(last.ack, hole);
    assert_eq!(last.sack.unwrap().as_slice(), [(hole + MSS, hole + 341 * MSS)]);

    rig.feed_and_read(hole, MSS);
    let filled = rig.acks.last().unwrap();
    assert_eq!((filled.ack, filled.sack), (hole + 341 * MSS, None));
}

#[test]
fn at_most_three_blocks_are_reported_beside_timestamps_the_most_recent_first() {
    let mut rig = settled();
    let base = rig.sk.rcv_nxt;
    for i in [1, 3, 5, 7] {
        rig.feed(rig.segment(base + i * MSS, MSS));
    }
    let block = |i: u32| (base + i * MSS, base + (i + 1) * MSS);
    assert_eq!(rig.acknowledge().sack.unwrap().as_slice(), [block(7), block(5), block(3)]);
    rig.rx.timestamps = false;
    assert_eq!(rig.acknowledge().sack.unwrap().count(), 4);
}

#[test]
fn duplicates_are_reported_first() {
    let mut rig = settled();
    let base = rig.sk.rcv_nxt;
    rig.feed(rig.segment(base + MSS, MSS));
    rig.feed(rig.segment(base - MSS, MSS));
    let dsack = rig.acks.last().unwrap().sack.unwrap();
    assert_eq!(dsack.as_slice(), [(base - MSS, base), (base + MSS, base + 2 * MSS)]);
    rig.feed(rig.segment(base + MSS, MSS));
    let within = rig.acks.last().unwrap().sack.unwrap();
    assert_eq!(within.as_slice(), [(base + MSS, base + 2 * MSS); 2]);
    rig.config.dsack = false;
    let mut without = Rig::new(rig.config.clone());
    without.feed(without.segment(1, MSS));
    without.feed(without.segment(1, MSS));
    assert_eq!(without.acks.last().unwrap().sack, None);
}

#[test]
fn the_window_closes_and_opens_again() {
    let mut rig = Rig::new(Config { rcvbuf: Some(60_000), ..Config::default() });
    while rig.acks.last().is_none_or(|ack| ack.window > 0) {
        assert!(rig.sk.bytes_received < 200_000, "{:?}", rig.acks.last());
        rig.now += 100_000;
        let len = MSS.min(rig.edge - rig.sk.rcv_nxt);
        rig.feed(rig.segment(rig.sk.rcv_nxt, len.max(1)));
        if rig.rx.timer().is_some() && rig.edge == rig.sk.rcv_nxt {
            rig.acknowledge();
        }
    }
    let probe = rig.feed(Segment { len: 0, seq: rig.sk.rcv_nxt - 1, ..rig.segment(0, 0) });
    assert_eq!((probe.refused, probe.ack), (true, AckAction::Now), "a window probe is acknowledged");
    let again = rig.feed(Segment { len: 0, seq: rig.sk.rcv_nxt - 1, ..rig.segment(0, 0) });
    assert_eq!(again.ack, AckAction::None, "a second probe is not acknowledged at once");
    let waiting = rig.rx.readable(&rig.sk);
    let (read, update) = rig.rx.read(&mut rig.sk, rig.now, u64::MAX);
    assert_eq!((read, update), (waiting, AckAction::Now), "the window is open again");
    assert!(rig.acknowledge().window > 0 && rig.rx.rmem_alloc() == 0);
}

#[test]
fn fin_is_reached_only_without_holes() {
    let mut rig = settled();
    let base = rig.sk.rcv_nxt;
    let fin = Segment { flags: Flags::ACK.with(Flags::FIN), ..rig.segment(base + MSS, 100) };
    assert!(!rig.feed(fin.clone()).fin);
    let end = rig.feed(rig.segment(base, MSS));
    assert_eq!((end.fin, end.in_order), (true, MSS + 100));
    assert_eq!(rig.rx.readable(&rig.sk), u64::from(MSS) + 100);
    assert_eq!(rig.rx.read(&mut rig.sk, rig.now, u64::MAX).0, u64::from(MSS) + 100);
    assert_eq!((rig.sk.copied_seq, rig.rx.readable(&rig.sk)), (base + MSS + 101, 0));
    assert_eq!(rig.acknowledge().ack, base + MSS + 101);
    assert_eq!(rig.feed(fin).ack, AckAction::Now, "FIN again: the ACK was lost");
    assert_eq!(rig.feed(rig.segment(base + MSS + 101, MSS)).in_order, 0, "nothing follows FIN");
}

#[test]
fn marks_are_echoed_until_cwr() {
    let mut rig = settled();
    rig.sk.ecn_flags = 1;
    let marked = |rig: &Rig, ecn| Segment { ecn, ..rig.segment(rig.sk.rcv_nxt, MSS) };
    assert_eq!(rig.feed(marked(&rig, ecn::ECT0)).event, Some(CaEvent::EcnNoCe));
    let accepted = rig.feed(marked(&rig, ecn::CE));
    assert_eq!((accepted.event, accepted.ack), (Some(CaEvent::EcnIsCe), AckAction::Now));
    assert!(rig.acks.last().unwrap().ece);
    rig.feed(marked(&rig, ecn::ECT0));
    assert!(rig.acknowledge().ece);
    let reply = Segment { flags: Flags::ACK.with(Flags::CWR), ..marked(&rig, ecn::ECT0) };
    assert_eq!(rig.feed(reply).ack, AckAction::Now);
    assert!(!rig.acks.last().unwrap().ece);
}

#[test]
fn the_timestamp_of_acknowledged_data_is_echoed() {
    let mut rig = settled();
    rig.acknowledge();
    let base = rig.sk.rcv_nxt;
    let at = |rig: &Rig, seq, tsval| Segment { tsval, ..rig.segment(seq, MSS) };
    rig.feed(at(&rig, base, 20_000));
    rig.feed(at(&rig, base + MSS, 20_001));
    assert_eq!(rig.acknowledge().tsecr, 20_000, "the first of two (RFC 7323 section 4.3)");
    rig.feed(at(&rig, base + 3 * MSS, 20_005));
    assert_eq!(rig.acknowledge().tsecr, 20_000, "not that of out-of-order data");
}

#[test]
fn an_interactive_session_delays_acks() {
    let mut rig = settled();
    rig.acknowledge();
    rig.sk.icsk_ack_quick = 5;
    rig.rx.data_sent(&mut rig.sk, rig.now);
    assert_eq!(rig.sk.icsk_ack_pingpong, 1);
    assert_eq!(rig.feed(rig.segment(rig.sk.rcv_nxt, 100)).ack, AckAction::Delayed, "despite quick ACKs");
    let at = rig.rx.timer().unwrap();
    assert_eq!(rig.rx.on_timer(&mut rig.sk, at), AckAction::Now);
    assert_eq!(rig.sk.icsk_ack_pingpong, 0, "nothing was sent in time");
}

#[test]
fn an_ack_for_older_data_has_the_older_number() {
    let mut rig = settled();
    rig.acknowledge();
    let older = rig.sk.rcv_nxt;
    rig.sk.icsk_ack_quick = 0;
    rig.feed(rig.segment(older, MSS));
    let fields = rig.rx.older_ack_fields(&mut rig.sk, older, false);
    assert_eq!((fields.ack, fields.ece), (older, false));
    assert!(rig.rx.timer().is_some(), "the delayed ACK is still due");
}

#[test]
fn reading_the_end_of_a_write_is_acknowledged_at_once() {
    let mut rig = settled();
    rig.acknowledge();
    let end = Segment { flags: Flags::ACK.with(Flags::PSH), ..rig.segment(rig.sk.rcv_nxt, MSS) };
    assert_eq!(rig.feed(end).ack, AckAction::Delayed);
    assert_eq!(rig.rx.read(&mut rig.sk, rig.now, u64::MAX), (u64::from(MSS), AckAction::Now));
}
