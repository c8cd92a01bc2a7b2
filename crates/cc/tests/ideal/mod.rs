//! A flow on an ideal path for golden tests: constant round-trip time, a window that is always fully used,
//! losses only on request. So the result depends on the algorithm alone, as a closed form describes it.
//!
//! The order of calls is Linux's (`net/ipv4/tcp_input.c`): `pkts_acked`, then `cong_avoid`; at a loss
//! `ssthresh`, then `set_state`.

#![allow(dead_code, reason = "each test file uses a part of it")]

use cc::native::{Controller, Library};
use cc::{ParameterValue, ParameterValues, Source};
use tcp::{AckSample, CaEvent, CaState, CongestionControl, TcpSock};

/// Parameter values from pairs of name and value.
pub fn values<const N: usize>(pairs: [(&str, ParameterValue); N]) -> ParameterValues {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Asserts that the relative difference is at most `tolerance`.
#[track_caller]
pub fn assert_close(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (measured / expected - 1.0).abs();
    assert!(error <= tolerance, "{what}: {measured} instead of {expected}, off by {:.2} %", error * 100.0);
}

/// A sender.
pub struct Flow {
    pub sk: TcpSock,
    pub cc: Controller,
    /// Segments that an ACK acknowledges.
    pub per_ack: u32,
    rtt_us: u64,
    now_ns: u64,
}

impl Flow {
    /// A connection just established, with a built-in algorithm.
    pub fn new(name: &str, values: &ParameterValues, rtt_us: u64) -> Flow {
        Flow::with(name, values, rtt_us, TcpSock::default())
    }

    /// Like [`Flow::new`], with a prepared socket.
    pub fn with(name: &str, values: &ParameterValues, rtt_us: u64, sk: TcpSock) -> Flow {
        let source = Source::built_in(name).expect("a built-in algorithm");
        let library = Library::open(&source, values).expect("valid parameters");
        let cc = library.controller(None).expect("the file has a main algorithm");
        let mut flow = Flow { sk, cc, per_ack: 1, rtt_us, now_ns: 1_000_000_000 };
        flow.sk.snd_una = 1;
        flow.sk.set_is_cwnd_limited(true);
        flow.set_rtt(rtt_us);
        flow.set_time();
        flow.fill();
        flow.cc.init(&mut flow.sk);
        flow.fill();
        flow
    }

    /// Sets this window, in congestion avoidance.
    pub fn at_window(mut self, cwnd: u32) -> Flow {
        self.sk.snd_cwnd = cwnd;
        self.sk.snd_ssthresh = cwnd.min(2);
        self.fill();
        self
    }

    /// Sets the RTT from now on.
    pub fn set_rtt(&mut self, rtt_us: u64) {
        self.rtt_us = rtt_us;
        self.sk.srtt_us = 8 * rtt_us as u32;
        self.sk.rtt_min.s[0].v = self.sk.rtt_min.s[0].v.min(rtt_us as u32);
    }

    /// Seconds since the connection began.
    pub fn now_s(&self) -> f64 {
        (self.now_ns - 1_000_000_000) as f64 / 1e9
    }

    /// The kernel's clock at 250 Hz.
    pub fn jiffies(&self) -> u32 {
        (self.now_ns / 4_000_000) as u32
    }

    pub fn cwnd(&self) -> f64 {
        f64::from(self.sk.snd_cwnd)
    }

    /// Advances the clock.
    pub fn wait_us(&mut self, us: u64) {
        self.now_ns += us * 1000;
        self.set_time();
    }

    fn set_time(&mut self) {
        self.sk.tcp_clock_cache = self.now_ns;
        self.sk.tcp_mstamp = self.now_ns / 1000;
    }

    /// Fills the window with packets.
    fn fill(&mut self) {
        self.sk.packets_out = self.sk.snd_cwnd;
        self.sk.max_packets_out = self.sk.snd_cwnd;
        self.sk.snd_nxt = self.sk.snd_una.wrapping_add(self.sk.snd_cwnd.wrapping_mul(self.sk.mss_cache));
    }

    /// One ACK for `segments` segments.
    pub fn ack(&mut self, segments: u32) {
        self.sk.snd_una = self.sk.snd_una.wrapping_add(segments.wrapping_mul(self.sk.mss_cache));
        self.sk.delivered = self.sk.delivered.wrapping_add(segments);
        let in_flight = self.sk.snd_cwnd;
        let sample = AckSample { pkts_acked: segments, rtt_us: self.rtt_us as i32, in_flight };
        self.cc.pkts_acked(&mut self.sk, &sample);
        let ack = self.sk.snd_una;
        self.cc.cong_avoid(&mut self.sk, ack, segments);
        self.fill();
    }

    /// One round trip: the window at its start is acknowledged, in evenly spaced ACKs.
    pub fn round(&mut self) {
        let window = self.sk.snd_cwnd;
        let start_ns = self.now_ns;
        let mut acked = 0;
        while acked < window {
            let segments = self.per_ack.min(window - acked);
            acked += segments;
            self.now_ns = start_ns + self.rtt_us * 1000 * u64::from(acked) / u64::from(window);
            self.set_time();
            self.ack(segments);
        }
    }

    /// Several round trips.
    pub fn rounds(&mut self, count: u32) {
        for _ in 0..count {
            self.round();
        }
    }

    /// Mean growth per round trip at this window, which is restored after each segment of growth.
    pub fn growth_per_round(&mut self, rounds: u32) -> f64 {
        let window = self.sk.snd_cwnd;
        let mut grown = 0;
        for _ in 0..rounds {
            for _ in 0..window / self.per_ack {
                self.now_ns += self.rtt_us * 1000 * u64::from(self.per_ack) / u64::from(window);
                self.set_time();
                self.ack(self.per_ack);
                grown += self.sk.snd_cwnd - window;
                self.sk.snd_cwnd = window;
            }
        }
        f64::from(grown) / f64::from(rounds)
    }

    /// Like [`Self::growth_per_round`], but all at one instant.
    pub fn growth_at_once(&mut self, windows: u32) -> f64 {
        let rtt_us = std::mem::take(&mut self.rtt_us);
        let growth = self.growth_per_round(windows);
        self.rtt_us = rtt_us;
        growth
    }

    /// A loss, repaired within one round trip.
    pub fn lose(&mut self) {
        self.reduce(CaState::Recovery);
        self.wait_us(self.rtt_us);
        self.sk.snd_cwnd = self.sk.snd_ssthresh;
        self.enter(CaState::Open);
        self.fill();
    }

    /// A retransmission timeout: the window restarts at 1.
    pub fn time_out(&mut self) {
        self.reduce(CaState::Loss);
        self.cc.cwnd_event(&mut self.sk, CaEvent::Loss);
        self.sk.snd_cwnd = 1;
        self.sk.snd_cwnd_cnt = 0;
        self.wait_us(self.rtt_us);
        self.enter(CaState::Open);
        self.fill();
    }

    fn reduce(&mut self, state: CaState) {
        self.sk.prior_cwnd = self.sk.snd_cwnd;
        self.sk.prior_ssthresh = self.sk.snd_ssthresh;
        self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
        self.enter(state);
    }

    fn enter(&mut self, state: CaState) {
        self.cc.set_state(&mut self.sk, state);
        self.sk.set_ca_state(state);
    }
}
