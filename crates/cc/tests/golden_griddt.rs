//! Grid DT against its formulae: A segments per round trip, M segments per ACK, back-off, sawtooth, recovery
//! time, automatic A.

use crate::ideal;
use ParameterValue::{Bool, Decimal, Integer};
use cc::{ParameterValue, ParameterValues};
use ideal::{Flow, assert_close, values};
use tcp::TcpSock;

fn griddt<const N: usize>(pairs: [(&str, ParameterValue); N]) -> Flow {
    Flow::new("griddt", &values(pairs), 100_000)
}

#[test]
fn with_its_defaults_it_behaves_as_reno_at_each_ack() {
    let mut griddt = griddt([]);
    let mut reno = Flow::new("reno", &ParameterValues::new(), 100_000);
    let mut random = 1_u32;
    for step in 0..200_000 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let acked = 1 + (random >> 24) % 50;
        for flow in [&mut griddt, &mut reno] {
            flow.wait_us(100);
            flow.sk.set_is_cwnd_limited(!random.is_multiple_of(7));
            match random % 2000 {
                0 => flow.lose(),
                1 => flow.time_out(),
                _ => flow.ack(acked),
            }
        }
        let state = |f: &Flow| (f.sk.snd_cwnd, f.sk.snd_cwnd_cnt, f.sk.snd_ssthresh);
        assert_eq!(state(&griddt), state(&reno), "step {step}");
    }
}

#[test]
fn the_window_grows_by_parameter_a_per_round_trip() {
    // A, window, round trips.
    for (a, window, rounds) in [(0.01, 1000, 2010), (0.5, 1000, 200), (1.0, 1000, 100), (7.0, 10_000, 100)] {
        for per_ack in [1, 2, 44] {
            let mut flow = griddt([("a", Decimal(a))]).at_window(window);
            flow.per_ack = per_ack;
            flow.rounds(rounds);
            let grown = (flow.cwnd() - f64::from(window)) / f64::from(rounds);
            assert_close(grown, a, 0.02, &format!("A = {a}, {per_ack} segments an ACK"));
        }
    }
    // Whole numbers need no decimal point, and the window may be smaller than A.
    let mut flow = griddt([("a", Integer(10_000))]).at_window(1_000_000);
    assert_close(flow.growth_per_round(1), 10_000.0, 0.0001, "A = 10000");
    let mut flow = griddt([("a", Integer(10_000))]).at_window(100);
    assert_close(flow.growth_per_round(1), 10_000.0, 0.0001, "A = 10000 at a window of 100");
}

#[test]
fn slow_start_adds_parameter_m_for_each_acknowledged_segment() {
    for (m, factor) in [(0.5, 1.5), (1.0, 2.0), (2.0, 3.0), (4.0, 5.0), (0.1, 1.1)] {
        for per_ack in [1, 3] {
            let mut flow = griddt([("m", Decimal(m))]);
            flow.sk.snd_cwnd = 1000;
            flow.per_ack = per_ack;
            flow.round();
            assert_close(flow.cwnd(), 1000.0 * factor, 0.002, &format!("M = {m}"));
        }
    }
    // Slow start ends exactly at ssthresh, and the rest of an ACK counts for congestion avoidance: 10 of 15
    // are needed.
    let mut flow = griddt([("m", Integer(4)), ("initial_ssthresh", Integer(50))]);
    assert_eq!((flow.sk.snd_cwnd, flow.sk.snd_ssthresh), (10, 50));
    flow.ack(15);
    assert_eq!((flow.sk.snd_cwnd, flow.sk.snd_cwnd_cnt), (50, 5));
}

#[test]
fn a_loss_keeps_the_share_that_backoff_states() {
    for (backoff, kept) in [(0.5, 500), (0.75, 750), (0.875, 875), (1.0, 1000), (0.0, 2)] {
        let mut flow = griddt([("backoff", Decimal(backoff))]).at_window(1000);
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, kept, "back-off {backoff}");
    }
}

/// Losses at window `w`: from b w to w in (1 - b) w / A round trips, (1 + b) w / 2 on average.
#[test]
fn the_sawtooth_has_the_period_and_mean_of_the_closed_form() {
    let w = 2000;
    for (a, b) in [(1.0, 0.5), (3.0, 0.5), (7.0, 0.75), (20.0, 0.875)] {
        let mut flow = griddt([("a", Decimal(a)), ("backoff", Decimal(b))]).at_window(w);
        let (mut rounds, mut sum) = (0.0, 0.0);
        let teeth = 5;
        for _ in 0..teeth {
            flow.lose();
            while flow.sk.snd_cwnd < w {
                sum += flow.cwnd();
                rounds += 1.0;
                flow.round();
            }
        }
        let w = f64::from(w);
        // A loss is detected at the end of a round trip.
        let (period, expected) = (rounds / f64::from(teeth), (1.0 - b) * w / a);
        assert!(
            (expected..expected + 1.0).contains(&period),
            "A = {a}, b = {b}: {period} instead of {expected}"
        );
        assert_close(sum / rounds, (1.0 + b) * w / 2.0, 0.01, &format!("mean window, A = {a}, b = {b}"));
    }
}

/// After a loss, a flow that filled capacity C recovers in C RTT^2 / (2 A MSS).
#[test]
fn recovery_takes_c_rtt_squared_by_2_a_mss() {
    let mss_bytes = 8948.0;
    for (rate_bps, rtt_us, a) in
        [(1e9, 117_000, 1.0), (1e9, 117_000, 3.0), (1e9, 181_000, 7.0), (1e10, 20_000, 10.0)]
    {
        let rtt_s = rtt_us as f64 / 1e6;
        let w = (rate_bps / 8.0 * rtt_s / mss_bytes) as u32;
        let mut flow = Flow::new("griddt", &values([("a", Decimal(a))]), rtt_us).at_window(w);
        flow.per_ack = 2;
        flow.lose();
        let start_s = flow.now_s();
        while flow.sk.snd_cwnd < w {
            flow.round();
        }
        let expected = rate_bps / 8.0 * rtt_s * rtt_s / (2.0 * a * mss_bytes);
        assert_close(
            flow.now_s() - start_s,
            expected,
            0.01,
            &format!("{rate_bps} bit/s, {rtt_us} us, A = {a}"),
        );
    }
}

#[test]
fn parameter_a_follows_mtu_and_rtt_if_enabled() {
    let grown = |mtu: u32, rtt_us, pairs: &[(&str, ParameterValue)]| {
        let values = pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        // 20 bytes of IPv4, 32 of TCP with timestamps.
        let sk = TcpSock { mss_cache: mtu - 52, ..TcpSock::default() };
        Flow::with("griddt", &values, rtt_us, sk).at_window(1000).growth_per_round(100)
    };
    let (mtu, rtt) = (("auto_mtu", Bool(true)), ("auto_rtt", Bool(true)));
    // From the reference: MTU 9000 gives 1, 3000 gives 3, 1500 gives 6; RTT 10 ms gives 1, 100 ms gives 100.
    for (bytes, a) in [(9000, 1.0), (3000, 3.0), (1500, 6.0)] {
        assert_close(grown(bytes, 50_000, &[mtu]), a, 0.01, &format!("MTU {bytes}"));
    }
    for (rtt_us, a) in
        [(10_000, 1.0), (100_000, 100.0), (117_000, 136.89), (5_000, 0.25), (1_000_000, 10_000.0)]
    {
        assert_close(grown(9000, rtt_us, &[rtt]), a, 0.01, &format!("RTT {rtt_us} us"));
    }
    assert_close(grown(3000, 100_000, &[mtu, rtt]), 300.0, 0.01, "both");
    assert_close(grown(3000, 100_000, &[mtu, rtt, ("a", Decimal(0.1))]), 30.0, 0.01, "both, times A");
    assert_close(grown(1500, 100_000, &[("a", Integer(2))]), 2.0, 0.01, "neither");
}

#[test]
fn the_automatic_parameter_a_makes_rates_grow_equally_fast() {
    // MTUs of 1500 and 9000 bytes, 20 and 200 ms: the same increase in bit/s in the same time.
    let gain = |mtu: u32, rtt_us: u64| {
        let sk = TcpSock { mss_cache: mtu - 52, ..TcpSock::default() };
        let values = values([("auto_mtu", Bool(true)), ("auto_rtt", Bool(true))]);
        let mut flow = Flow::with("griddt", &values, rtt_us, sk).at_window(20_000);
        flow.per_ack = 4;
        let before = flow.cwnd();
        while flow.now_s() < 20.0 {
            flow.round();
        }
        (flow.cwnd() - before) * f64::from(mtu) * 8.0 / (rtt_us as f64 / 1e6) / flow.now_s()
    };
    let reference = gain(9000, 20_000);
    for (mtu, rtt_us) in [(1500, 20_000), (9000, 200_000), (1500, 200_000), (3000, 117_000)] {
        assert_close(gain(mtu, rtt_us), reference, 0.05, &format!("MTU {mtu}, RTT {rtt_us} us"));
    }
}
