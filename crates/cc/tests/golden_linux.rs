//! `highspeed`, `bic` and `hybla` by default against Linux's modules, ACK by ACK.
//!
//! Each reference below is derived again from the rules of the kernel's module (the C file lists the
//! differences from them), as plain as possible: integers as the module has them, a linear search, no shared code.

use crate::ideal;
use cc::ParameterValues;
use ideal::Flow;

/// The part of a socket that a reference needs.
struct Sock {
    cwnd: u32,
    cnt: u32,
    ssthresh: u32,
    srtt_eighths_us: u32,
    jiffies: u32,
    open: bool,
}

impl Sock {
    /// Slow start counts acknowledged segments up to ssthresh; returns the rest.
    fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = (self.cwnd + acked).min(self.ssthresh);
        let rest = acked - (grown - self.cwnd);
        self.cwnd = grown;
        rest
    }

    /// One segment of growth for `per_segment` acknowledged ones.
    fn avoid(&mut self, per_segment: u32, acked: u32) {
        if self.cnt >= per_segment {
            self.cnt = 0;
            self.cwnd += 1;
        }
        self.cnt += acked;
        self.cwnd += self.cnt / per_segment;
        self.cnt %= per_segment;
    }
}

trait Reference {
    fn ack(&mut self, sk: &mut Sock, acked: u32);
    fn ssthresh(&mut self, sk: &Sock) -> u32;
    fn time_out(&mut self) {}
}

/// tcp_highspeed.
struct HighSpeed {
    /// Window and share of 256 that a loss removes.
    rows: Vec<(u32, u32)>,
    row: usize,
}

impl HighSpeed {
    /// The rows from the formulas of RFC 3649, sections 5 and B: where a(w) has grown by one since the last
    /// row.
    fn new() -> HighSpeed {
        let b = |w: f64| 0.5 - 0.4 * (w / 38.0).ln() / (83_000.0_f64 / 38.0).ln();
        let a = |w: f64| w * w * 2.0 * b(w) / ((2.0 - b(w)) * w.powf(1.2) * 12.8);
        let mut rows = vec![(38, 128)];
        let mut last = 1.0;
        for w in 38..90_000 {
            if a(f64::from(w)) > last + 1.0 {
                rows.push((w, (256.0 * b(f64::from(w))) as u32));
                last = a(f64::from(w));
            }
        }
        assert_eq!((rows.len(), rows[1], rows[71]), (72, (118, 112), (89_053, 24)));
        HighSpeed { rows, row: 0 }
    }
}

impl Reference for HighSpeed {
    fn ack(&mut self, sk: &mut Sock, acked: u32) {
        if sk.cwnd < sk.ssthresh {
            sk.slow_start(acked);
            return;
        }
        while self.row < 71 && sk.cwnd > self.rows[self.row].0 {
            self.row += 1;
        }
        while self.row > 0 && sk.cwnd <= self.rows[self.row - 1].0 {
            self.row -= 1;
        }
        sk.cnt += self.row as u32 + 1;
        if sk.cnt >= sk.cwnd {
            sk.cnt -= sk.cwnd;
            sk.cwnd += 1;
        }
    }

    fn ssthresh(&mut self, sk: &Sock) -> u32 {
        (sk.cwnd - sk.cwnd * self.rows[self.row].1 / 256).max(2)
    }
}

/// tcp_bic at 250 Hz.
#[derive(Default)]
struct Bic {
    w_max: u32,
    count: u32,
    at: Option<(u32, u32)>,
    /// 1/16 segments per ACK.
    ratio: u32,
}

impl Bic {
    fn new() -> Bic {
        Bic { ratio: 32, ..Bic::default() }
    }

    fn count(&self, cwnd: u32) -> u32 {
        if cwnd <= 14 {
            return cwnd;
        }
        let mut count = if cwnd < self.w_max {
            match (self.w_max - cwnd) / 4 {
                0 | 1 => cwnd * 20 / 4,
                step @ 2..=16 => cwnd / step,
                _ => cwnd / 16,
            }
        } else {
            match cwnd - self.w_max {
                0..=3 => cwnd * 20 / 4,
                above @ 4..=47 => cwnd * 3 / above,
                _ => cwnd / 16,
            }
        };
        if self.w_max == 0 {
            count = count.min(20);
        }
        (count * 16 / self.ratio).max(1)
    }
}

impl Reference for Bic {
    fn ack(&mut self, sk: &mut Sock, mut acked: u32) {
        if sk.open {
            self.ratio = self.ratio + acked - self.ratio / 16;
        }
        if sk.cwnd < sk.ssthresh {
            acked = sk.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        // 250 / 32 ticks, rounded down.
        if !self.at.is_some_and(|(cwnd, time)| cwnd == sk.cwnd && sk.jiffies - time <= 7) {
            self.at = Some((sk.cwnd, sk.jiffies));
            self.count = self.count(sk.cwnd);
        }
        sk.avoid(self.count, acked);
    }

    fn ssthresh(&mut self, sk: &Sock) -> u32 {
        self.w_max = if sk.cwnd < self.w_max { sk.cwnd * (1024 + 819) / 2048 } else { sk.cwnd };
        if sk.cwnd <= 14 { (sk.cwnd / 2).max(2) } else { sk.cwnd * 819 / 1024 }
    }

    fn time_out(&mut self) {
        *self = Bic::new();
    }
}

/// tcp_hybla with rtt0 = 25 ms.
struct Hybla {
    /// 1/8.
    rho: u32,
    min_srtt: u32,
    cents: u32,
}

impl Hybla {
    fn new(srtt_eighths_us: u32) -> Hybla {
        Hybla { rho: Self::rho(srtt_eighths_us), min_srtt: srtt_eighths_us, cents: 0 }
    }

    fn rho(srtt_eighths_us: u32) -> u32 {
        (srtt_eighths_us / 25_000).max(8)
    }
}

impl Reference for Hybla {
    fn ack(&mut self, sk: &mut Sock, mut acked: u32) {
        if sk.srtt_eighths_us < self.min_srtt {
            self.rho = Self::rho(sk.srtt_eighths_us);
            self.min_srtt = sk.srtt_eighths_us;
        }
        if !sk.open {
            if sk.cwnd < sk.ssthresh {
                acked = sk.slow_start(acked);
            }
            if acked > 0 {
                sk.avoid(sk.cwnd, acked);
            }
            sk.cwnd = sk.cwnd.min(65_535);
            return;
        }
        let slow_start = sk.cwnd < sk.ssthresh;
        let cents = if slow_start {
            let fraction = [128, 139, 152, 165, 181, 197, 215, 234][(self.rho % 8) as usize];
            (fraction << (self.rho / 8).min(16)) - 128
        } else {
            // 2 rho^2 / 128 is (rho / 8)^2.
            2 * self.rho * self.rho / sk.cwnd
        };
        if !slow_start && cents < 128 {
            sk.cnt += 1;
        }
        self.cents += cents;
        let is_whole_by_fractions = self.cents % 128 < cents % 128;
        sk.cwnd += self.cents / 128;
        self.cents %= 128;
        if is_whole_by_fractions {
            sk.cnt = 0;
        }
        if cents == 0 && sk.cnt >= sk.cwnd {
            sk.cwnd += 1;
            sk.cnt = 0;
        }
        if slow_start {
            sk.cwnd = sk.cwnd.min(sk.ssthresh);
        }
        sk.cwnd = sk.cwnd.min(65_535);
    }

    fn ssthresh(&mut self, sk: &Sock) -> u32 {
        (sk.cwnd / 2).max(2)
    }
}

/// Random numbers: a linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

fn mirror(flow: &Flow) -> Sock {
    Sock {
        cwnd: flow.sk.snd_cwnd,
        cnt: flow.sk.snd_cwnd_cnt,
        ssthresh: flow.sk.snd_ssthresh,
        srtt_eighths_us: flow.sk.srtt_us,
        jiffies: flow.jiffies(),
        open: flow.sk.ca_state() == tcp::CaState::Open,
    }
}

/// Random ACKs of 1 to 44 segments, losses, timeouts, RTTs: both have the same window after each.
fn compare(mut flow: Flow, mut reference: impl Reference, seed: u64, steps: u32) {
    let mut random = Random(seed);
    for step in 0..steps {
        let mut sk = mirror(&flow);
        match random.below(1000) {
            0 => {
                let ssthresh = reference.ssthresh(&sk);
                reference.time_out();
                flow.time_out();
                assert_eq!(flow.sk.snd_ssthresh, ssthresh, "timeout, seed {seed} step {step}");
            }
            1..4 => {
                let ssthresh = reference.ssthresh(&sk);
                flow.lose();
                assert_eq!(flow.sk.snd_ssthresh, ssthresh, "loss at {}, seed {seed} step {step}", sk.cwnd);
            }
            4 => flow.set_rtt(u64::from(1 + random.below(600)) * 1000),
            5 => flow.wait_us(u64::from(random.below(200)) * 1000),
            // Another window, of any size.
            6 => {
                let end = [30, 500, 20_000, 150_000][random.below(4) as usize];
                flow.sk.snd_cwnd = 2 + random.below(end);
            }
            _ => {
                let stretched = 1 + random.below(44);
                let acked = [1, 2, stretched][random.below(3) as usize];
                flow.wait_us(200);
                sk = mirror(&flow);
                flow.ack(acked);
                reference.ack(&mut sk, acked);
                let ours = (flow.sk.snd_cwnd, flow.sk.snd_cwnd_cnt);
                assert_eq!(ours, (sk.cwnd, sk.cnt), "ACK of {acked}, seed {seed} step {step}");
            }
        }
    }
}

fn flow(name: &str, rtt_us: u64) -> Flow {
    Flow::new(name, &ParameterValues::new(), rtt_us)
}

#[test]
fn highspeed_is_the_kernels() {
    for seed in 1..=8 {
        compare(flow("highspeed", 50_000), HighSpeed::new(), seed, 20_000);
    }
}

#[test]
fn bic_is_the_kernels() {
    for seed in 1..=8 {
        compare(flow("bic", 50_000), Bic::new(), seed, 20_000);
    }
}

#[test]
fn hybla_is_the_kernels() {
    for (seed, rtt_us) in [(1, 1_000), (2, 25_000), (3, 60_000), (4, 200_000), (5, 410_000), (6, 3_000_000)] {
        compare(flow("hybla", rtt_us), Hybla::new(8 * rtt_us as u32), seed, 20_000);
    }
}

#[test]
fn highspeed_halves_in_slow_start_and_keeps_b_until_the_next_ack_in_avoidance() {
    let mut flow = flow("highspeed", 50_000);
    flow.sk.snd_cwnd = 10_000;
    flow.lose();
    assert_eq!(flow.sk.snd_cwnd, 5_000, "row 0: b is 1/2");
    flow.ack(1);
    flow.lose();
    // The row of 5036: b is 62/256.
    assert_eq!(flow.sk.snd_cwnd, 5_000 - 5_000 * 62 / 256);
    let once = flow.sk.snd_cwnd;
    flow.lose();
    assert_eq!(flow.sk.snd_cwnd, once - once * 62 / 256, "no ACK between: the same b");
}

#[test]
fn hybla_starts_with_a_window_of_rho() {
    // The socket's initial window is 10.
    for (rtt_us, window) in [(1_000, 1), (49_000, 1), (50_000, 2), (200_000, 8), (500_000, 20)] {
        assert_eq!(flow("hybla", rtt_us).sk.snd_cwnd, window, "{rtt_us} us");
    }
}

#[test]
fn highspeed_grows_by_acks_and_bic_twice_as_fast_as_its_formulas() {
    let growth = |name: &str, per_ack: u32| {
        let mut flow = flow(name, 50_000).at_window(12_000);
        flow.per_ack = per_ack;
        flow.lose();
        // The first ACKs settle the row and the mean of segments per ACK.
        flow.growth_per_round(1);
        flow.at_window(6_000).growth_per_round(20)
    };
    // The row of 6483: a is 23.
    assert!((growth("highspeed", 1) - 23.0).abs() < 0.1 && (growth("highspeed", 2) - 11.5).abs() < 0.1);
    // The increment is 16. The mean of segments per ACK never falls below 31/16, by its rounding.
    let (one, two, ten) = (growth("bic", 1), growth("bic", 2), growth("bic", 10));
    assert!(
        (one - 31.0).abs() < 0.2 && (two - 32.0).abs() < 0.2 && (ten - 165.0).abs() < 5.0,
        "{one} {two} {ten}"
    );
}
