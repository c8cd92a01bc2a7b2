//! `highspeed`, `bic`, `hybla` and `htcp` by default against Linux's modules, ACK by ACK.
//!
//! Each reference below is derived again from the rules of the kernel's module (the C file lists the
//! differences from them), as plain as possible: integers as the module has them, a linear search, no shared
//! code.

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
    /// The losses are repaired now.
    fn repaired(&mut self, _now: u32) {}
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

/// tcp_htcp at 250 Hz. Times are in ticks.
struct Htcp {
    /// 1/128.
    alpha: u32,
    beta: u32,
    adapts: bool,
    next_count: u32,
    min_rtt: u32,
    max_rtt: u32,
    last_loss: u32,
    /// Segments of the throughput sample, and its start.
    segments: u32,
    since: u32,
    rate: u32,
    max_rate: u32,
    old_max_rate: u32,
}

impl Htcp {
    fn new(now: u32) -> Htcp {
        Htcp {
            alpha: 128,
            beta: 64,
            adapts: false,
            next_count: 1,
            min_rtt: 0,
            max_rtt: 0,
            last_loss: now,
            segments: 0,
            since: 0,
            rate: 0,
            max_rate: 0,
            old_max_rate: 0,
        }
    }

    fn update_alpha(&mut self, now: u32) {
        let delta = now - self.last_loss;
        let mut f = 1;
        if delta > 250 {
            let x = delta - 250;
            f += (10 * x + (x / 2) * (x / 2) / 250) / 250;
        }
        if self.min_rtt > 0 {
            f = (f * 8 / (2000 / (10 * self.min_rtt)).clamp(4, 80)).max(1);
        }
        self.alpha = 2 * f * (128 - self.beta);
    }

    fn sample(&mut self, sk: &Sock, acked: u32) {
        let rtt = (sk.srtt_eighths_us / 8).div_ceil(4000);
        self.next_count = acked;
        if self.min_rtt == 0 || rtt < self.min_rtt {
            self.min_rtt = rtt;
        }
        self.max_rtt = self.max_rtt.max(self.min_rtt);
        // 20 ms.
        if rtt > self.max_rtt && rtt <= self.max_rtt + 5 {
            self.max_rtt = rtt;
        }
        self.segments += acked;
        let taken = sk.jiffies - self.since;
        if self.segments < sk.cwnd.wrapping_sub((self.alpha / 128).max(1)) || taken < self.min_rtt {
            return;
        }
        let rate = self.segments * 250 / taken;
        if (sk.jiffies - self.last_loss) / self.min_rtt <= 3 {
            (self.rate, self.max_rate) = (rate, rate);
        } else {
            self.rate = (3 * self.rate + rate) / 4;
            self.max_rate = self.max_rate.max(self.rate);
        }
        (self.segments, self.since) = (0, sk.jiffies);
    }
}

impl Reference for Htcp {
    fn ack(&mut self, sk: &mut Sock, acked: u32) {
        self.sample(sk, acked);
        if sk.cwnd < sk.ssthresh {
            sk.slow_start(acked);
            return;
        }
        if sk.cnt * self.alpha / 128 >= sk.cwnd {
            sk.cwnd += 1;
            sk.cnt = 0;
            self.update_alpha(sk.jiffies);
        } else {
            sk.cnt += self.next_count;
        }
        self.next_count = 1;
    }

    fn ssthresh(&mut self, sk: &Sock) -> u32 {
        let before = std::mem::replace(&mut self.old_max_rate, self.max_rate);
        let is_alike = (4 * before..=6 * before).contains(&(5 * self.max_rate));
        self.beta = 64;
        // 10 ms are 2.5 ticks, rounded up.
        if !is_alike {
            self.adapts = false;
        } else if self.adapts && self.min_rtt > 3 {
            self.beta = (self.min_rtt * 128 / self.max_rtt).clamp(64, 102);
        } else {
            self.adapts = true;
        }
        self.update_alpha(sk.jiffies);
        self.max_rtt = self.min_rtt + (self.max_rtt - self.min_rtt) * 95 / 100;
        (sk.cwnd * self.beta / 128).max(2)
    }

    fn repaired(&mut self, now: u32) {
        self.last_loss = now;
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
                reference.repaired(flow.jiffies());
                assert_eq!(flow.sk.snd_ssthresh, ssthresh, "timeout, seed {seed} step {step}");
            }
            1..4 => {
                let ssthresh = reference.ssthresh(&sk);
                flow.lose();
                reference.repaired(flow.jiffies());
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
fn highspeed_behaves_as_the_kernels_module() {
    for seed in 1..=8 {
        compare(flow("highspeed", 50_000), HighSpeed::new(), seed, 20_000);
    }
}

#[test]
fn bic_behaves_as_the_kernels_module() {
    for seed in 1..=8 {
        compare(flow("bic", 50_000), Bic::new(), seed, 20_000);
    }
}

#[test]
fn hybla_behaves_as_the_kernels_module() {
    for (seed, rtt_us) in [(1, 1_000), (2, 25_000), (3, 60_000), (4, 200_000), (5, 410_000), (6, 3_000_000)] {
        compare(flow("hybla", rtt_us), Hybla::new(8 * rtt_us as u32), seed, 20_000);
    }
}

#[test]
fn htcp_behaves_as_the_kernels_module() {
    for (seed, rtt_us) in [(1, 1_000), (2, 9_000), (3, 13_000), (4, 60_000), (5, 200_000), (6, 600_000)] {
        let flow = flow("htcp", rtt_us);
        let reference = Htcp::new(flow.jiffies());
        compare(flow, reference, seed, 20_000);
    }
}

#[test]
fn htcp_needs_one_ack_more_than_its_formula_for_each_segment_of_growth() {
    // alpha is 1: a segment for each 12 acknowledged, and an ACK that does not count.
    let acks_until_growth = |per_ack: u32| {
        let mut flow = flow("htcp", 50_000).at_window(12);
        flow.ack(per_ack);
        let before = flow.sk.snd_cwnd;
        let acks = (1..).find(|_| {
            flow.ack(per_ack);
            flow.sk.snd_cwnd > before
        });
        acks.unwrap() + 1
    };
    assert_eq!((acks_until_growth(1), acks_until_growth(2), acks_until_growth(4)), (13, 7, 4));
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
    assert_eq!(flow.sk.snd_cwnd, once - once * 62 / 256, "without an ACK in between b is the same");
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
