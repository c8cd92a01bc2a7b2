//! CUBIC's growth between two losses against RFC 9438's closed form, and HyStart's two criteria for the end
//! of slow start.

use crate::ideal;
use cc::{ParameterValue, ParameterValues};
use ideal::{Flow, assert_close, values};
use tcp::{CaEvent, CongestionControl};

const BETA: f64 = 717.0 / 1024.0;
const C: f64 = 410.0 / 1024.0;

/// W(t) of RFC 9438, 4.2.
fn w_cubic(t: f64, w_max: f64, cwnd: f64) -> f64 {
    let k = ((w_max - cwnd) / C).cbrt();
    C * (t - k).powi(3) + w_max
}

fn cubic(rtt_us: u64, values: &ParameterValues) -> Flow {
    Flow::new("cubic", values, rtt_us)
}

#[test]
fn growth_between_two_losses_agrees_with_the_closed_form() {
    // Windows and RTTs for which the cubic function decides, not the Reno flow; K is 9, 20 and 42 s.
    for (w_max, rtt_us) in [(1_000_u32, 200_000), (10_000, 100_000), (100_000, 50_000)] {
        let mut flow = cubic(rtt_us, &ParameterValues::new()).at_window(w_max);
        flow.per_ack = 2;
        flow.round();
        flow.sk.snd_cwnd = w_max;
        flow.lose();
        let after = flow.cwnd();
        assert_close(after, f64::from(w_max) * BETA, 0.001, "the window kept");
        let start_s = flow.now_s();
        let k = ((f64::from(w_max) - after) / C).cbrt();
        let mut worst = 0.0_f64;
        while flow.now_s() - start_s < 1.5 * k {
            flow.round();
            let expected = w_cubic(flow.now_s() - start_s, f64::from(w_max), after);
            worst = worst.max((flow.cwnd() / expected - 1.0).abs());
        }
        assert!(worst < 0.01, "w_max {w_max}: off by up to {:.2} %", worst * 100.0);
    }
}

#[test]
fn the_plateau_is_at_the_window_of_the_loss_k_seconds_later() {
    let mut flow = cubic(100_000, &ParameterValues::new()).at_window(10_000);
    flow.lose();
    let start_s = flow.now_s();
    while flow.sk.snd_cwnd < 9_990 {
        flow.round();
    }
    // W(t) = 9990: 10 = C (K - t)^3.
    let k = (3000.0 / C).cbrt();
    assert_close(flow.now_s() - start_s, k - (10.0 / C).cbrt(), 0.02, "time to 9990");
    while flow.sk.snd_cwnd < 10_010 {
        flow.round();
    }
    assert_close(flow.now_s() - start_s, k + (10.0 / C).cbrt(), 0.02, "time to 10010");
}

#[test]
fn c_and_beta_are_parameters() {
    let values = values([("c", ParameterValue::Decimal(4.0)), ("beta", ParameterValue::Decimal(0.5))]);
    let mut flow = cubic(100_000, &values).at_window(10_000);
    flow.lose();
    assert_eq!(flow.sk.snd_cwnd, 5_000);
    let start_s = flow.now_s();
    while flow.sk.snd_cwnd < 9_990 {
        flow.round();
    }
    assert_close(
        flow.now_s() - start_s,
        (5000.0_f64 / 4.0).cbrt() - (10.0_f64 / 4.0).cbrt(),
        0.03,
        "time to 9990",
    );
}

#[test]
fn growth_is_never_slower_than_that_of_reno_with_the_same_back_off() {
    // alpha = 3 (1 - beta) / (1 + beta) = 0.53 per round trip (8/15 here), where the cubic function hardly
    // grows. W(3 s) = 100 - 0.001 (31.1 - 3)^3, 8 more than at the start.
    for (friendly, expected) in [(true, 100.0 * 8.0 / 15.0), (false, 8.0)] {
        let values = values([
            ("c", ParameterValue::Decimal(0.001)),
            ("tcp_friendliness", ParameterValue::Bool(friendly)),
        ]);
        let mut flow = cubic(30_000, &values).at_window(100);
        flow.lose();
        let before = flow.cwnd();
        flow.rounds(100);
        assert!((flow.cwnd() - before - expected).abs() <= 2.0, "{friendly}: {}", flow.cwnd() - before);
    }
}

#[test]
fn a_loss_below_the_last_maximum_reduces_it_further() {
    let plateau = |values: &ParameterValues| {
        let mut flow = cubic(100_000, values).at_window(10_000);
        flow.lose();
        flow.sk.snd_cwnd = 8_000;
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, 8_000 * 717 / 1024);
        // At the slowest growth.
        let mut slowest = (f64::MAX, 0.0);
        for _ in 0..250 {
            let before = flow.cwnd();
            flow.rounds(3);
            if flow.cwnd() - before < slowest.0 {
                slowest = (flow.cwnd() - before, before);
            }
        }
        slowest.1
    };
    assert_close(
        plateau(&ParameterValues::new()),
        8000.0 * (1.0 + BETA) / 2.0,
        0.01,
        "with fast convergence",
    );
    let without = values([("fast_convergence", ParameterValue::Bool(false))]);
    assert_close(plateau(&without), 8000.0, 0.01, "without");
}

#[test]
fn a_pause_of_the_application_does_not_count() {
    let grown = |notify: bool| {
        let mut flow = cubic(100_000, &ParameterValues::new()).at_window(10_000);
        flow.lose();
        flow.rounds(20);
        let before = flow.cwnd();
        flow.sk.lsndtime = flow.jiffies();
        flow.wait_us(60_000_000);
        if notify {
            flow.cc.cwnd_event(&mut flow.sk, CaEvent::TxStart);
        }
        flow.rounds(20);
        flow.cwnd() - before
    };
    let mut steady = cubic(100_000, &ParameterValues::new()).at_window(10_000);
    steady.lose();
    steady.rounds(20);
    let before = steady.cwnd();
    steady.rounds(20);
    assert_close(grown(true), steady.cwnd() - before, 0.05, "after a pause");
    assert!(grown(false) > 4.0 * grown(true), "without the event the pause counts");
}

#[test]
fn a_timeout_resets_the_maximum() {
    let mut flow = cubic(100_000, &ParameterValues::new()).at_window(10_000);
    flow.lose();
    flow.time_out();
    flow = flow.at_window(1000);
    assert_close(flow.growth_per_round(20), 50.0, 0.05, "5 % a round trip while no maximum is known");
}

#[test]
fn growth_is_at_most_half_the_window_per_round_trip() {
    let mut flow = cubic(10_000_000, &ParameterValues::new()).at_window(1000);
    flow.lose();
    let before = flow.cwnd();
    flow.round();
    flow.round();
    assert!(flow.cwnd() <= before * 2.25, "{} from {before}", flow.cwnd());
}

/// A flow in slow start at this window with one RTT sample.
fn starting(rtt_us: u64, window: u32, values: &ParameterValues) -> Flow {
    let mut flow = cubic(rtt_us, values);
    flow.ack(1);
    flow.sk.snd_cwnd = window;
    flow.ack(1);
    // The next ACK starts a round.
    flow.sk.snd_una = flow.sk.snd_nxt;
    flow
}

#[test]
fn an_ack_train_of_half_an_rtt_ends_slow_start() {
    // (pacing, share of the RTT at which it ends)
    for (pacing_status, share) in [(0, 0.5), (1, 1.0)] {
        let mut flow = starting(100_000, 1000, &ParameterValues::new());
        flow.sk.sk_pacing_status = pacing_status;
        flow.sk.sk_pacing_rate = 10_000_000_000;
        flow.ack(1);
        let start_s = flow.now_s();
        while flow.sk.snd_ssthresh > flow.sk.snd_cwnd {
            flow.wait_us(1_000);
            flow.ack(1);
            assert!(flow.now_s() - start_s < 0.2, "slow start does not end");
        }
        // 65536 x 4 bytes at 10 GB/s are 26 us more.
        assert_close(flow.now_s() - start_s, 0.1 * share, 0.05, "end of slow start");
    }
    // ACKs with gaps of 3 ms are not a train.
    let mut flow = starting(100_000, 1000, &ParameterValues::new());
    for _ in 0..60 {
        flow.wait_us(3_000);
        flow.ack(1);
    }
    assert!(flow.sk.in_slow_start());
}

#[test]
fn a_longer_delay_ends_slow_start_after_8_samples() {
    // An eighth of the minimum RTT, between 4 and 16 ms.
    for (rtt_us, margin_us) in [(8_000, 4_000), (100_000, 12_500), (400_000, 16_000)] {
        for (more_us, ends) in [(margin_us - 100, false), (margin_us + 100, true)] {
            let mut flow = starting(rtt_us, 1000, &values([("hystart_detect", ParameterValue::Integer(2))]));
            flow.set_rtt(rtt_us + more_us);
            for sample in 0..20 {
                assert!(sample > 8 || flow.sk.in_slow_start(), "slow start ends too early");
                flow.ack(1);
            }
            assert_eq!(!flow.sk.in_slow_start(), ends, "{rtt_us} us + {more_us} us");
        }
    }
}

#[test]
fn small_windows_and_flows_without_hystart_stay_in_slow_start() {
    for (window, values) in
        [(10, ParameterValues::new()), (1000, values([("hystart", ParameterValue::Bool(false))]))]
    {
        let mut flow = starting(100_000, window, &values);
        flow.set_rtt(200_000);
        for _ in 0..200 {
            flow.wait_us(1_000);
            flow.ack(1);
            flow.sk.snd_cwnd = window;
        }
        assert_eq!(flow.sk.snd_ssthresh, tcp::INFINITE_SSTHRESH);
    }
    let flow = cubic(
        100_000,
        &values([
            ("hystart", ParameterValue::Bool(false)),
            ("initial_ssthresh", ParameterValue::Integer(77)),
        ]),
    );
    assert_eq!(flow.sk.snd_ssthresh, 77);
}
