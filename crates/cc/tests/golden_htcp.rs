//! H-TCP as its draft has it (`draft`): growth as a function of the time since the last loss, and the
//! back-off that follows RTT and throughput. `golden_linux.rs` has Linux's form.

use crate::ideal;
use cc::{ParameterValue, ParameterValues};
use ideal::{Flow, assert_close, values};

/// The draft's form with these parameters.
fn draft<const N: usize>(pairs: [(&str, ParameterValue); N]) -> ParameterValues {
    let mut all = values(pairs);
    all.insert("draft".into(), ParameterValue::Bool(true));
    all
}

/// f of Delta, in seconds, before it is scaled by the RTT.
fn f(delta_s: f64) -> f64 {
    let x = delta_s - 1.0;
    if x <= 0.0 { 1.0 } else { 1.0 + 10.0 * x + (x / 2.0).powi(2) }
}

/// A flow whose last loss was `delta_s` ago, with RTT samples of `rtt_us`.
fn since_loss(delta_s: f64, rtt_us: u64, values: &ParameterValues) -> Flow {
    let mut flow = Flow::new("htcp", values, rtt_us).at_window(1000);
    flow.ack(1);
    flow.lose();
    flow.sk.snd_cwnd = 1000;
    flow.wait_us((delta_s * 1e6) as u64);
    flow
}

#[test]
fn alpha_follows_the_time_since_the_loss() {
    // At 100 ms f is not scaled; beta is 0.5 after a first loss, so alpha = f.
    for delta_s in [0.0, 0.5, 1.0, 1.1, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0] {
        let alpha = since_loss(delta_s, 100_000, &draft([])).growth_at_once(20);
        assert_close(alpha, f(delta_s), 0.005, &format!("Delta = {delta_s} s"));
    }
}

#[test]
fn alpha_is_scaled_by_the_rtt() {
    // RTT / 100 ms between 0.1 and 2, and growth at least Reno's.
    for (rtt_us, scale) in
        [(1_000, 0.1), (10_000, 0.1), (50_000, 0.5), (150_000, 1.5), (200_000, 2.0), (500_000, 2.0)]
    {
        for delta_s in [1.0, 5.0, 10.0] {
            let alpha = since_loss(delta_s, rtt_us, &draft([])).growth_at_once(20);
            assert_close(
                alpha,
                (f(delta_s) * scale).max(1.0),
                0.01,
                &format!("{rtt_us} us, Delta = {delta_s} s"),
            );
        }
    }
    let unscaled = draft([("rtt_scaling", ParameterValue::Bool(false))]);
    assert_close(since_loss(5.0, 10_000, &unscaled).growth_at_once(20), f(5.0), 0.005, "unscaled");
}

#[test]
fn growth_restarts_at_each_loss() {
    let mut flow = since_loss(10.0, 100_000, &draft([]));
    assert!(flow.growth_at_once(10) > 90.0);
    flow.lose();
    // Includes up to one segment of earlier growth.
    assert_close(flow.growth_at_once(100), 1.0, 0.02, "after the loss");
}

/// Two losses with the same throughput; before the second one the RTT varies from minimum to maximum.
fn beta(values: &ParameterValues, min_us: u64, max_us: u64) -> f64 {
    let mut flow = Flow::new("htcp", values, min_us).at_window(1000);
    // RTT_max follows in steps of at most 20 ms; the last samples set the throughput.
    for _ in 0..3 {
        for step in 0..=20 {
            flow.set_rtt(min_us + (max_us - min_us) * step / 20);
            flow.sk.snd_cwnd = 1000;
            flow.round();
        }
        flow.sk.snd_cwnd = 1000;
        flow.lose();
    }
    f64::from(flow.sk.snd_ssthresh) / 1000.0
}

#[test]
fn beta_is_the_ratio_of_minimum_and_maximum_rtt() {
    // RTT_max decays by 5 % of its distance at each loss, and is measured again.
    for (min_us, max_us, expected) in [
        (100_000, 150_000, 0.667),
        (60_000, 100_000, 0.6),
        (100_000, 101_000, 0.8),
        (50_000, 200_000, 0.5),
        (8_000, 10_000, 0.5),
    ] {
        assert_close(beta(&draft([]), min_us, max_us), expected, 0.01, &format!("{min_us} to {max_us} us"));
    }
    let wide =
        draft([("beta_min", ParameterValue::Decimal(0.25)), ("beta_max", ParameterValue::Decimal(1.0))]);
    assert_close(beta(&wide, 50_000, 150_000), 0.333, 0.01, "from 0.25");
    assert_close(beta(&wide, 100_000, 105_000), 0.952, 0.01, "to 1");
}

#[test]
fn beta_is_a_half_if_throughput_changed_by_a_fifth() {
    let after = |window: u32, values: &ParameterValues| {
        let mut flow = Flow::new("htcp", values, 100_000);
        for loss in 0..4 {
            flow = flow.at_window(if loss < 3 { 1000 } else { window });
            for _ in 0..20 {
                let window = flow.sk.snd_cwnd;
                flow.round();
                flow.sk.snd_cwnd = window;
            }
            flow.lose();
        }
        flow.cwnd() / f64::from(window)
    };
    // RTT_max = RTT_min here, so beta is 0.8 if it adapts.
    for (window, expected) in [(1000, 0.8), (1150, 0.8), (1250, 0.5), (850, 0.8), (700, 0.5)] {
        assert_close(
            after(window, &draft([])),
            expected,
            0.01,
            &format!("1000, then {window} segments a round trip"),
        );
    }
    let without = draft([("bandwidth_switch", ParameterValue::Bool(false))]);
    assert_close(after(2000, &without), 0.8, 0.01, "without the switch");
}
