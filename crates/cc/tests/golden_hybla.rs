//! Hybla with `per_segment`: the rate grows as fast on a long path as on a short one.

use crate::ideal;
use cc::ParameterValue;
use ideal::{Flow, assert_close, values};

fn hybla(rtt_us: u64) -> Flow {
    Flow::new("hybla", &values([("per_segment", ParameterValue::Bool(true))]), rtt_us)
}

#[test]
fn slow_start_adds_2_to_the_rho_minus_1() {
    // rho from 1 (RTT 25 ms and below) to 6.
    for (rtt_us, rho) in
        [(5_000, 1.0), (25_000, 1.0), (40_000, 1.6), (60_000, 2.4), (100_000, 4.0), (150_000, 6.0)]
    {
        let mut flow = hybla(rtt_us);
        flow.sk.snd_cwnd = 1000;
        flow.ack(500);
        let expected = 500.0 * (2.0_f64.powf(rho) - 1.0);
        assert_close(flow.cwnd() - 1000.0, expected, 0.003, &format!("rho {rho}"));
    }
}

#[test]
fn congestion_avoidance_adds_rho_squared_per_round_trip() {
    for (rtt_us, rho) in [(10_000, 1.0), (30_000, 1.2), (100_000, 4.0), (600_000, 24.0)] {
        let growth = hybla(rtt_us).at_window(5000).growth_per_round(100);
        assert_close(growth, rho * rho, 0.01, &format!("rho {rho}"));
    }
}

#[test]
fn rates_grow_equally_fast_at_any_rtt() {
    // Slow start from a window of rho x 10, then congestion avoidance: after the same time w / rho is the
    // same.
    let rates = |rtt_us: u64| {
        let rho = rtt_us as f64 / 25_000.0;
        let mut flow = hybla(rtt_us);
        flow.sk.snd_cwnd = (10.0 * rho) as u32;
        while flow.now_s() < 0.1499 {
            flow.round();
        }
        let start = flow.cwnd() / rho;
        let mut flow = hybla(rtt_us).at_window((1000.0 * rho) as u32);
        while flow.now_s() < 14.999 {
            flow.round();
        }
        (start, flow.cwnd() / rho)
    };
    let reference = rates(25_000);
    assert_eq!(reference.0, 640.0);
    assert!((reference.1 - 1600.0).abs() <= 1.0);
    for rtt_us in [50_000, 75_000, 150_000] {
        let (start, later) = rates(rtt_us);
        assert_close(start, reference.0, 0.001, &format!("slow start, {rtt_us} us"));
        assert_close(later, reference.1, 0.005, &format!("congestion avoidance, {rtt_us} us"));
    }
}

#[test]
fn the_smallest_smoothed_rtt_counts_and_the_first_window_is_at_least_rho() {
    let mut flow = hybla(400_000);
    assert_eq!(flow.sk.snd_cwnd, 16);
    flow = flow.at_window(1000);
    flow.set_rtt(500_000);
    assert_close(flow.growth_per_round(10), 256.0, 0.01, "a longer RTT counts as queueing");
    flow.set_rtt(100_000);
    assert_close(flow.growth_per_round(10), 16.0, 0.02, "a shorter one is a better sample");
    assert_eq!(hybla(25_000).sk.snd_cwnd, 10);
}
