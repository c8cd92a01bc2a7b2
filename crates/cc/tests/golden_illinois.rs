//! Illinois' alpha and beta against the paper's curves, at their thresholds and between.

use crate::support;
use cc::ParameterValue;
use cc::native::Controller;
use support::controller;
use tcp::{AckSample, CaState, CongestionControl, TcpSock};

const BASE_MS: f64 = 100.0;
const LARGEST_MS: f64 = 100.0;

/// The socket of a flow in congestion avoidance with samples of delays from 0 to `LARGEST_MS`.
struct Bench {
    cc: Controller,
    sk: TcpSock,
}

impl Bench {
    fn new(cwnd: u32, values: &[(&str, ParameterValue)]) -> Bench {
        let mut bench = Bench { cc: controller("illinois", values), sk: TcpSock::default() };
        bench.sk.snd_cwnd = cwnd;
        bench.sk.snd_ssthresh = 2;
        bench.sk.set_is_cwnd_limited(true);
        bench.cc.init(&mut bench.sk);
        bench.sample(0.0);
        bench.sample(LARGEST_MS);
        bench.end_round();
        bench
    }

    fn sample(&mut self, delay_ms: f64) {
        let rtt_us = ((BASE_MS + delay_ms) * 1000.0) as i32;
        self.cc.pkts_acked(&mut self.sk, &AckSample { pkts_acked: 1, rtt_us, in_flight: 10 });
    }

    fn end_round(&mut self) {
        self.sk.snd_una = self.sk.snd_nxt.wrapping_add(1);
        self.sk.snd_nxt = self.sk.snd_una.wrapping_add(1448);
        let ack = self.sk.snd_una;
        self.cc.cong_avoid(&mut self.sk, ack, 0);
    }

    /// A round with this delay.
    fn round(&mut self, delay_ms: f64) {
        self.sample(delay_ms);
        self.end_round();
    }

    /// Growth per round trip, packets: mean of a thousand at the same window.
    fn alpha(&mut self) -> f64 {
        let (cwnd, mut grown) = (self.sk.snd_cwnd, 0);
        self.sk.snd_cwnd_cnt = 0;
        let ack = self.sk.snd_una;
        for _ in 0..1000 * cwnd {
            self.cc.cong_avoid(&mut self.sk, ack, 1);
            grown += self.sk.snd_cwnd - cwnd;
            self.sk.snd_cwnd = cwnd;
        }
        f64::from(grown) / 1000.0
    }

    /// Fraction of the window that a loss costs.
    fn beta(&mut self) -> f64 {
        1.0 - f64::from(self.cc.ssthresh(&mut self.sk)) / f64::from(self.sk.snd_cwnd)
    }
}

/// The paper's equations: k1 / (k2 + da) through (d1, 10) and (dm, 0.3).
fn paper_alpha(delay_ms: f64) -> f64 {
    let (d1, dm, max, min) = (0.01 * LARGEST_MS, LARGEST_MS, 10.0, 307.0 / 1024.0);
    let k1 = (dm - d1) * min * max / (max - min);
    let k2 = (dm - d1) * min / (max - min) - d1;
    if delay_ms <= d1 { max } else { k1 / (k2 + delay_ms) }
}

fn paper_beta(delay_ms: f64) -> f64 {
    let (d2, d3) = (0.1 * LARGEST_MS, 0.8 * LARGEST_MS);
    0.125 + 0.375 * ((delay_ms - d2) / (d3 - d2)).clamp(0.0, 1.0)
}

#[test]
fn alpha_follows_the_paper() {
    for delay_ms in [0.0, 0.5, 1.0, 1.5, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 99.0, 100.0] {
        let mut bench = Bench::new(100, &[]);
        // After the delays of the first round alpha returns to 10 only after five rounds.
        for _ in 0..6 {
            bench.round(delay_ms);
        }
        let (alpha, expected) = (bench.alpha(), paper_alpha(delay_ms));
        assert!((alpha / expected - 1.0).abs() < 0.01, "{delay_ms} ms: {alpha} instead of {expected}");
    }
}

#[test]
fn beta_follows_the_paper() {
    for delay_ms in [0.0, 5.0, 10.0, 20.0, 45.0, 70.0, 80.0, 90.0, 100.0] {
        let mut bench = Bench::new(10_000, &[]);
        bench.round(delay_ms);
        let (beta, expected) = (bench.beta(), paper_beta(delay_ms));
        assert!((beta - expected).abs() < 0.001, "{delay_ms} ms: {beta} instead of {expected}");
    }
}

#[test]
fn five_rounds_of_low_delay_restore_the_maximum_of_alpha() {
    let mut bench = Bench::new(100, &[]);
    bench.round(50.0);
    let slow = bench.alpha();
    for round in 1..=5 {
        bench.round(0.0);
        let alpha = bench.alpha();
        let expected = if round < 5 { slow } else { 10.0 };
        assert!((alpha - expected).abs() < 0.02, "round {round}: {alpha} instead of {expected}");
    }
}

#[test]
fn small_windows_behave_as_in_reno() {
    let mut bench = Bench::new(14, &[]);
    bench.round(0.0);
    let alpha = bench.alpha();
    assert!((alpha - 1.0).abs() < 0.01, "{alpha}");
    assert!((bench.beta() - 0.5).abs() < 0.01);
}

#[test]
fn after_a_timeout_it_behaves_as_reno() {
    let mut bench = Bench::new(100, &[]);
    bench.round(2.0);
    bench.cc.set_state(&mut bench.sk, CaState::Loss);
    let alpha = bench.alpha();
    assert!((alpha - 1.0).abs() < 0.01, "{alpha}");
    assert!((bench.beta() - 0.5).abs() < 0.01);
}

#[test]
fn parameters_are_fractions() {
    let values = [("alpha_max", ParameterValue::Decimal(4.5)), ("beta_min", ParameterValue::Decimal(0.25))];
    let mut bench = Bench::new(100, &values);
    for _ in 0..6 {
        bench.round(0.0);
    }
    assert!((bench.alpha() - 4.5).abs() < 0.01);
    assert!((bench.beta() - 0.25).abs() < 0.001);
}
