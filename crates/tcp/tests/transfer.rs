//! All bytes arrive once and in order on paths that lose, delay and reorder packets, and no stall is longer
//! than the timeout allows.

use crate::pair;
use pair::{Pair, Path, chance, reference};
use proptest::prelude::*;
use tcp::{Config, Profile, TcpState};

const SECOND: u64 = 1_000_000_000;

/// Runs until everything is read and acknowledged, or until `end`.
fn transfer(pair: &mut Pair, bytes: u64, end: u64) {
    while pair.read < bytes && pair.step(end) {
        let sk = pair.sender.sk();
        assert!(sk.snd_cwnd >= 1);
        if let Err(wrong) = pair.sender.verify() {
            panic!("at {} s: {wrong}", pair.now as f64 / 1e9);
        }
        assert!(sk.sacked_out + sk.lost_out <= sk.packets_out);
        let beyond = sk.snd_nxt.wrapping_sub(sk.snd_una.wrapping_add(sk.snd_wnd)) as i32;
        assert!(beyond <= 1 || sk.snd_wnd == 0, "{beyond} bytes beyond the window");
    }
    assert_eq!(pair.read, bytes, "after {} s: {:?}", pair.now as f64 / 1e9, pair.sender.info(pair.now));
}

#[test]
fn a_short_transfer_takes_the_minimum_of_round_trips() {
    let mut pair =
        Pair::new(reference(1500, 6_291_456), Path::new(1_000_000_000, 20_000_000, 1000), Some(10 * 1448));
    transfer(&mut pair, 10 * 1448, SECOND);
    // SYN and data cross the path once each; the return path has no delay.
    assert!((40_000_000..41_000_000).contains(&pair.now), "{}", pair.now);
    let mut longer =
        Pair::new(reference(1500, 6_291_456), Path::new(1_000_000_000, 20_000_000, 1000), Some(30 * 1448));
    transfer(&mut longer, 30 * 1448, SECOND);
    assert!((60_000_000..62_000_000).contains(&longer.now), "{}", longer.now);
}

/// The first data echoes the timestamp of the SYN-ACK, and gives the receiver its first round-trip time. The
/// ACK that completes the handshake echoes it too, but `tcp_rcv_state_process` does not measure it (observed
/// on Linux 6.1.192, 6.12.117 and 7.2.13).
#[test]
fn the_first_data_gives_the_receivers_round_trip_time() {
    for kernel in [(6, 1), (6, 12), (7, 2)] {
        let config = Config { profile: Profile::Linux6 { kernel }, ..reference(1500, 6_291_456) };
        let mut pair = Pair::new(config, Path::new(100_000_000, 20_000_000, 1000), None);
        while pair.read == 0 && pair.step(SECOND) {}
        let rtt_us = pair.receiver.info(pair.now).rcv_rtt_us;
        assert!((20_000..=21_000).contains(&rtt_us), "{kernel:?}: {rtt_us} us");
    }
}

#[test]
fn both_ends_close() {
    let mut pair =
        Pair::new(reference(1500, 6_291_456), Path::new(100_000_000, 20_000_000, 100), Some(100_000));
    transfer(&mut pair, 100_000, SECOND);
    pair.run(2 * SECOND);
    assert_eq!(pair.receiver.state(), TcpState::CloseWait);
    assert_eq!(pair.sender.state(), TcpState::FinWait2);
}

#[test]
fn a_lost_tail_is_probed_for() {
    let mut path = Path::new(100_000_000, 40_000_000, 1000);
    path.loses = Box::new(|number| number == 19);
    let mut pair = Pair::new(reference(1500, 6_291_456), path, Some(20 * 1448));
    transfer(&mut pair, 20 * 1448, SECOND);
    assert_eq!(pair.sender.info(pair.now).total_rto, 0, "the loss probe repairs it, not the timeout");
}

#[test]
fn a_lost_window_is_repaired_by_the_timeout() {
    let mut path = Path::new(100_000_000, 40_000_000, 1000);
    path.loses = Box::new(|number| (50..115).contains(&number));
    let mut pair = Pair::new(reference(1500, 6_291_456), path, Some(1_000_000));
    transfer(&mut pair, 1_000_000, 400 * SECOND);
}

#[test]
fn a_sender_waits_for_a_stopped_reader() {
    let config = Config { rcvbuf: Some(50_000), ..reference(1500, 6_291_456) };
    let mut pair = Pair::new(config, Path::new(100_000_000, 10_000_000, 1000), Some(500_000));
    transfer(&mut pair, 500_000, 10 * SECOND);
}

#[test]
fn a_timeout_after_a_spurious_one_counts_its_retransmission_once() {
    let seed = 12_203_110_946_479_777_616;
    let mut path = Path::new(866_000_000, 67_780_000, 10);
    path.loses = Box::new(move |number| chance(seed, number, 90_000));
    path.delays =
        Box::new(move |number| if chance(seed.rotate_left(32), number, 42_000) { 42_000 } else { 0 });
    let mut pair = Pair::new(reference(1500, 6_291_456), path, Some(71_000));
    transfer(&mut pair, 71_000, 100 * SECOND);
    assert!(pair.sender.info(pair.now).total_rto >= 2);
}

/// Found by the test below: a FIN that no longer fits into the window is held back, and the data before it is
/// the window probe.
#[test]
fn the_last_bytes_are_sent_if_only_the_fin_exceeds_the_window() {
    let config = Config { rcvbuf: Some(2675), ..reference(2727, 6_291_456) };
    let mut pair = Pair::new(config, Path::new(50_000_000, 100_000, 60), Some(107_000));
    transfer(&mut pair, 107_000, 100 * SECOND);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

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
        kilobytes in 1..2000u64,
        gso_max_segs in prop_oneof![Just(1u16), Just(u16::MAX)],
        sack in any::<bool>(),
        timestamps in any::<bool>(),
    ) {
        // Recovery without SACK needs a timeout for nearly every loss, of up to two minutes each.
        let rarer = if sack { 1 } else { 4 };
        let (loss_per_mille, ack_loss_per_mille) = (loss_per_mille / rarer, ack_loss_per_mille / rarer);
        let mut path = Path::new(rate_mbps * 1_000_000, rtt_us * 1000, queue);
        path.loses = Box::new(move |number| chance(seed, number, loss_per_mille * 1000));
        path.loses_ack = Box::new(move |number| chance(!seed, number, ack_loss_per_mille * 1000));
        path.delays = Box::new(move |number| {
            if chance(seed.rotate_left(32), number, reorder_per_mille * 1000) { late_us * 1000 } else { 0 }
        });
        let config = Config { gso_max_segs, sack, timestamps, ..reference(1500, 6_291_456) };
        let bytes = kilobytes * 1000;
        let mut pair = Pair::new(config, path, Some(bytes));
        transfer(&mut pair, bytes, 40_000 * SECOND);
    }

    #[test]
    fn settings_of_all_kinds_work(
        seed in any::<u64>(),
        loss_per_mille in prop_oneof![Just(0u64), 1..50u64],
        mark_per_mille in prop_oneof![Just(0u64), 1..100u64],
        mtu in 200..9001u32,
        sndbuf in proptest::option::of(1000..300_000u32),
        rcvbuf in proptest::option::of(1000..300_000u32),
        pacing_rate in proptest::option::of(10_000..10_000_000u64),
        switches in any::<u16>(),
        minor in prop_oneof![Just(1u8), Just(6u8), Just(18u8)],
        rtt_us in 100..200_000u64,
        kilobytes in 1..500u64,
    ) {
        let on = |bit: u32| switches >> bit & 1 != 0;
        let mut path = Path::new(50_000_000, rtt_us * 1000, 60);
        path.loses = Box::new(move |number| chance(seed, number, loss_per_mille));
        path.marks = Box::new(move |number| chance(!seed, number, mark_per_mille));
        let config = Config {
            profile: Profile::Linux6 { kernel: (6, minor) },
            sndbuf,
            rcvbuf,
            max_pacing_rate: pacing_rate,
            ecn: u8::from(on(0)),
            nodelay: on(1),
            window_scaling: !on(2) || !on(3),
            dsack: on(4),
            early_retrans: if on(5) { 3 } else { 0 },
            frto: if on(6) { 2 } else { 0 },
            slow_start_after_idle: on(7),
            hz: if on(8) { 250 } else { 1000 },
            initcwnd: on(9).then_some(30),
            cwnd_clamp: on(10).then_some(20),
            ssthresh: on(11).then_some(15),
            initial_seq: u32::MAX - 100_000,
            ..reference(mtu, 6_291_456)
        };
        let bytes = kilobytes * 1000;
        let mut pair = Pair::new(config, path, Some(bytes));
        transfer(&mut pair, bytes, 40_000 * SECOND);
    }
}
