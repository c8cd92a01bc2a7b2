//! The profile of Linux 2.4: closed forms for it (and for Linux 6 where it differs), and properties of any
//! TCP.

use crate::pair;
use pair::{Pair, Path, chance, reference};
use proptest::prelude::*;
use tcp::{CaState, Config, EndpointEvent, Profile};

const SECOND: u64 = 1_000_000_000;

/// Linux 2.4 with socket buffers of `buffer` bytes.
fn linux24(mtu: u32, buffer: u32) -> Config {
    Config { mtu, rmem: [4096, buffer, buffer], wmem: [4096, 16_384, buffer], ..Config::linux24() }
}

/// Time that Reno needs to restore its window after one loss at `WINDOW` packets has halved it. The unit is
/// C RTT^2 / (2 MSS): as many round trips as half the window has packets.
fn responsiveness(config: Config) -> f64 {
    const WINDOW: u32 = 400;
    const RTT: u64 = 50_000_000;
    let config = Config { ssthresh: Some(WINDOW - 10), cwnd_clamp: Some(WINDOW), ..config };
    let mut path = Path::new(1_000_000_000, RTT, 10_000);
    path.loses = Box::new(|number| number == 40_000);
    let mut pair = Pair::new(config, path, None);
    while pair.sender.sk().ca_state() != CaState::Recovery {
        assert!(pair.step(60 * SECOND), "no loss in a minute");
    }
    while pair.sender.sk().ca_state() != CaState::Open {
        pair.step(60 * SECOND);
    }
    assert_eq!(pair.sender.sk().snd_ssthresh, WINDOW / 2);
    assert_eq!(pair.sender.sk().snd_cwnd, WINDOW / 2, "the window after the recovery");
    let start = pair.now;
    while pair.sender.sk().snd_cwnd < WINDOW {
        assert!(pair.step(120 * SECOND), "{} packets after two minutes", pair.sender.sk().snd_cwnd);
    }
    assert_eq!(pair.dropped, 1);
    (pair.now - start) as f64 / (f64::from(WINDOW / 2) * RTT as f64)
}

/// The published result G-recover: Linux 2.4 counts ACKs, so with delayed ACKs its window grows by half a
/// segment per round trip.
#[test]
fn delayed_acks_double_the_time_to_recover() {
    let old = responsiveness(linux24(1500, 8_000_000));
    assert!((old / 2.0 - 1.0).abs() < 0.02, "Linux 2.4: {old} times C RTT^2 / (2 MSS)");
    let new = responsiveness(reference(1500, 8_000_000));
    assert!((new - 1.0).abs() < 0.02, "Linux 6: {new} times C RTT^2 / (2 MSS)");
}

/// Segments sent before the first ACK.
fn first_flight(config: Config, rtt: u64) -> u32 {
    let mut pair = Pair::new(config, Path::new(1_000_000_000, rtt, 1000), None);
    pair.run(2 * rtt - 1);
    pair.sender.info(pair.now).data_segs_out_segs
}

#[test]
fn the_first_window_is_two_to_four_segments() {
    assert_eq!(first_flight(linux24(1500, 1_000_000), 100_000_000), 2, "a long path");
    assert_eq!(first_flight(linux24(1500, 1_000_000), 8_000_000), 3, "a short path");
    assert_eq!(first_flight(linux24(1000, 1_000_000), 8_000_000), 4, "a short path, small segments");
    assert_eq!(first_flight(linux24(9000, 1_000_000), 8_000_000), 2, "jumbo frames");
    assert_eq!(first_flight(reference(1500, 1_000_000), 100_000_000), 10, "Linux 6");
}

/// `tcp_adv_win_scale` is 2, so the window is three quarters of the buffer, minus the reserved segment.
/// SO_RCVBUF doubles the buffer.
#[test]
fn three_quarters_of_the_buffer_are_window() {
    for mtu in [1500, 9000] {
        let config = Config {
            rcvbuf: Some(1_000_000),
            rmem_max: 1_000_000,
            wmem: [4096, 8_000_000, 8_000_000],
            ..linux24(mtu, 87_380)
        };
        let mut pair = Pair::new(config, Path::new(1_000_000_000, 20_000_000, 10_000), None);
        pair.run(5 * SECOND);
        let window = pair.sender.info(pair.now).snd_wnd_bytes;
        let expected = 1_500_000.0;
        assert!((f64::from(window) / expected - 1.0).abs() < 0.013, "MTU {mtu}: a window of {window}");
        assert_eq!(pair.receiver.sk().sk_rcvbuf, 2_000_000, "no autotuning");
    }
}

/// The buffer and the window scale keep their initial values: 64 KiB by default.
#[test]
fn without_settings_the_window_is_64_kib() {
    let mut pair = Pair::new(Config::linux24(), Path::new(1_000_000_000, 100_000_000, 10_000), None);
    pair.run(20 * SECOND);
    let info = pair.sender.info(pair.now);
    assert!((60_000..65_536).contains(&info.snd_wnd_bytes), "{}", info.snd_wnd_bytes);
    // One window per round trip.
    let mbps = pair.read as f64 * 8e-6 / 20.0;
    assert!((4.2..5.2).contains(&mbps), "{mbps} Mb/s");
}

#[test]
fn times_are_in_ticks_and_packets_are_single_and_unpaced() {
    let mut pair = Pair::new(linux24(1500, 1_000_000), Path::new(100_000_000, 104_000_000, 10_000), None);
    pair.run(5 * SECOND);
    let info = pair.sender.info(pair.now);
    assert_eq!(info.rto_us % 10_000, 0);
    assert!((100_000..=120_000).contains(&info.srtt_us), "{} us", info.srtt_us);
    // The smallest deviation is 200 ms (TCP_RTO_MIN).
    assert!((300_000..=330_000).contains(&info.rto_us), "{} us", info.rto_us);
    assert_eq!((info.pacing_rate_bps, pair.sender.sk().sk_gso_max_segs), (None, 1));
}

/// Rate halving: in the round trip after a loss, the sender sends half a window of packets, evenly spaced. No
/// retransmission is lost.
#[test]
fn a_recovery_sends_one_packet_for_two_acks() {
    let window = 200;
    // An autotuned send buffer, twice the window, may hold less than half a window of unsent data.
    let (clamp, sndbuf) = (Some(window), Some(1_000_000));
    let config = Config { sndbuf, wmem_max: 1_000_000, ..linux24(1500, 4_000_000) };
    let config = Config { cwnd_clamp: clamp, ssthresh: clamp, ..config };
    let mut path = Path::new(1_000_000_000, 100_000_000, 10_000);
    path.loses = Box::new(|number| number == 10_000);
    let mut pair = Pair::new(config, path, None);
    while pair.sender.sk().ca_state() != CaState::Recovery {
        assert!(pair.step(60 * SECOND));
    }
    let (began, sent) = (pair.now, pair.sent);
    let mut max_at_once = 0;
    while pair.sender.sk().ca_state() == CaState::Recovery {
        let before = pair.sent;
        pair.step(60 * SECOND);
        max_at_once = max_at_once.max(pair.sent - before);
    }
    let took_ms = (pair.now - began) / 1_000_000;
    assert!((95..=115).contains(&took_ms), "{took_ms} ms");
    let sent = pair.sent - sent;
    assert!((95..=105).contains(&sent), "{sent} packets in the recovery of a window of {window}");
    assert!(max_at_once <= 2, "{max_at_once} packets at once");
    assert_eq!((pair.sender.sk().total_retrans, pair.sender.sk().snd_cwnd), (1, window / 2));
}

/// A lost retransmission is detected by later deliveries, without a timeout.
#[test]
fn a_lost_retransmission_is_repaired() {
    let pair = |second: u64| {
        let config = Config { ssthresh: Some(100), ..linux24(1500, 2_000_000) };
        let mut path = Path::new(100_000_000, 50_000_000, 10_000);
        path.loses = Box::new(move |number| number == 3000 || number == second);
        let mut pair = Pair::new(config, path, None);
        pair.sender.keep_events(true);
        pair
    };
    // Without a second loss: the number of packets sent before the step that starts the recovery.
    let mut once = pair(u64::MAX);
    let mut number = 0;
    while once.sender.sk().ca_state() != CaState::Recovery {
        number = once.sent;
        assert!(once.step(20 * SECOND));
    }
    // The retransmission is one of the four packets from this number on.
    let repaired_again = (number..number + 4).any(|number| {
        let mut twice = pair(number);
        twice.run(20 * SECOND);
        let mut again = Vec::new();
        while let Some(event) = twice.sender.next_event() {
            if let EndpointEvent::Retransmit { seq, .. } = event {
                again.push(seq);
            }
        }
        assert_eq!((again.len(), twice.dropped, twice.sender.info(twice.now).total_rto), (2, 2, 0));
        again[0] == again[1]
    });
    assert!(repaired_again, "none of the lost packets was the retransmission");
}

/// Runs until the receiver has read `bytes`, and checks invariants at each step.
fn transfer(pair: &mut Pair, bytes: u64) {
    while pair.read < bytes && pair.step(40_000 * SECOND) {
        let sk = pair.sender.sk();
        assert!(sk.snd_cwnd >= 1 && sk.sacked_out + sk.lost_out <= sk.packets_out);
        if let Err(wrong) = pair.sender.verify() {
            panic!("at {} s: {wrong}", pair.now as f64 / 1e9);
        }
        let beyond = sk.snd_nxt.wrapping_sub(sk.snd_una.wrapping_add(sk.snd_wnd)) as i32;
        // The FIN takes one sequence number. Windows are rounded down to a multiple of their scale, at most
        // 16 bytes here, so the right edge of the window may move left by up to 15 bytes.
        assert!(beyond <= 1 + 15 || sk.snd_wnd == 0, "{beyond} bytes beyond the window");
        if sk.packets_out > 0 {
            let latest = pair.now + u64::from(sk.icsk_rto + 1) * 10_000_000;
            let timer = pair.sender.next_timer();
            assert!(timer.is_some_and(|at| at <= latest), "a stall: {timer:?} at {}", pair.now);
        }
    }
    assert_eq!(pair.read, bytes, "after {} s: {:?}", pair.now as f64 / 1e9, pair.sender.info(pair.now));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_arrive_once(
        seed in any::<u64>(),
        loss_per_mille in prop_oneof![Just(0u64), 1..150u64],
        ack_loss_per_mille in prop_oneof![Just(0u64), 1..200u64],
        reorder_per_mille in prop_oneof![Just(0u64), 1..100u64],
        late_us in 1..50_000u64,
        rtt_us in 100..200_000u64,
        queue in 2..500usize,
        rate_mbps in 1..1000u64,
        kilobytes in 1..1000u64,
        mtu in prop_oneof![Just(1500u32), Just(9000), 200..9001u32],
        buffer in 20_000..1_000_000u32,
        switches in any::<u8>(),
    ) {
        let on = |bit: u32| switches >> bit & 1 != 0;
        let (sack, timestamps, mixed) = (on(0) || on(1), on(2) || on(3), on(4) && on(5));
        let rarer = if sack { 1 } else { 4 };
        let (loss_per_mille, ack_loss_per_mille) = (loss_per_mille / rarer, ack_loss_per_mille / rarer);
        let mut path = Path::new(rate_mbps * 1_000_000, rtt_us * 1000, queue);
        path.loses = Box::new(move |number| chance(seed, number, loss_per_mille * 1000));
        path.loses_ack = Box::new(move |number| chance(!seed, number, ack_loss_per_mille * 1000));
        path.marks = Box::new(move |number| chance(seed ^ 77, number, 2000));
        path.delays = Box::new(move |number| {
            if chance(seed.rotate_left(32), number, reorder_per_mille * 1000) { late_us * 1000 } else { 0 }
        });
        let ecn = u8::from(on(6));
        let config = Config { sack, timestamps, ecn, initial_seq: u32::MAX - 50_000, ..linux24(mtu, buffer) };
        let bytes = kilobytes * 1000;
        let mut pair = Pair::new(config.clone(), path, Some(bytes));
        if mixed {
            let profile = Profile::Linux6 { kernel: (6, 18) };
            let peer = Config { profile, mtu, ..Config::default() };
            pair.receiver = tcp::Endpoint::listen(peer, Box::new(pair::Reno));
        }
        transfer(&mut pair, bytes);
    }
}
