//! Draws the matrix of compared scenarios from a fixed seed. The choice does not depend on measured results,
//! and is the same on any machine.

use std::fmt::Write;

/// Seed of all draws; it was fixed before the first measurement.
const SEED: u64 = 20_261_121;
/// Length of each run, seconds.
pub const SECONDS: u32 = 60;
/// Number of runs of a scenario in the simulator, and also in the lab if the result depends on chance.
pub const REPEATS: u32 = 5;
/// Interval between the starts of the first flow in a scenario's runs, us: five runs cover a timer tick of 4
/// ms (HZ 250). Timeouts are multiples of a tick, so the start decides which packets a burst of placed losses
/// hits after one.
const START_STEP_US: u32 = 800;
/// The congestion controls of a stock kernel with BBR.
const CONTROLS: [&str; 3] = ["cubic", "reno", "bbr"];
/// Ethernet bytes of a packet in addition to its IP bytes.
const OVERHEAD: u32 = 38;
/// Minimum capacity of a queue.
const MIN_QUEUE_PACKETS: f64 = 8.0;

/// Packet loss in addition to drops at the queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Loss {
    /// No additional loss.
    None,
    /// These packets, counted from 1.
    Placed(Vec<u64>),
    /// Each packet with this probability.
    Random(f64),
}

/// A scenario of the matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// From 1.
    pub number: usize,
    /// The congestion control of each flow.
    pub controls: Vec<&'static str>,
    /// Mb/s.
    pub rate_mbps: f64,
    /// Propagation delay of both directions together, ms.
    pub rtt_ms: f64,
    /// Size of the queue as a multiple of the bandwidth-delay product.
    pub queue_bdp: f64,
    /// MTU, bytes of IP.
    pub mtu: u32,
    /// Packet loss.
    pub loss: Loss,
    /// Maximum of `tcp_rmem` and `tcp_wmem`; `None` keeps the machine's.
    pub buffer_bytes: Option<u64>,
    /// Whether it has random loss or two flows.
    pub is_random: bool,
    /// Start of the second flow in each run, ms.
    starts_ms: Vec<u64>,
}

/// 52 scenarios of one flow without random loss, 4 with it and 6 of two flows.
pub fn matrix() -> Vec<Case> {
    let mut draw = Draw(SEED);
    let mut cases = Vec::new();
    for number in 1..=62 {
        let (flows, random) = match number {
            57.. => (2, false),
            53.. => (1, true),
            _ => (1, false),
        };
        cases.push(case(number, flows, random, &mut draw));
    }
    cases
}

fn case(number: usize, flows: usize, random: bool, draw: &mut Draw) -> Case {
    let controls = (0..flows).map(|_| *draw.one_of(&CONTROLS)).collect();
    let rate_mbps = rounded(draw.between(10.0, 500.0));
    let rtt_ms = rounded(draw.between(2.0, 200.0));
    let queue_bdp = rounded(draw.between(0.05, 2.0));
    let mtu = *draw.one_of(&[1500, 9000]);
    let packets = rate_mbps * 1e6 / 8.0 * f64::from(SECONDS) / f64::from(mtu + OVERHEAD);
    let loss = match random {
        true => Loss::Random(rounded(draw.between(1e-5, 1e-2))),
        false if draw.share() < 0.5 => Loss::None,
        false => Loss::Placed(placed(packets, draw)),
    };
    let buffer_bytes = (draw.share() < 0.75).then_some(64_000_000);
    let is_random = random || flows > 1;
    let starts = if is_random { REPEATS } else { 1 };
    let starts_ms = (0..starts).map(|_| (draw.share() * 1000.0) as u64).collect();
    Case { number, controls, rate_mbps, rtt_ms, queue_bdp, mtu, loss, buffer_bytes, is_random, starts_ms }
}

/// Positions of one to 20 losses in the run, uniformly distributed on a logarithmic scale. Three in ten are
/// bursts of up to 20 packets.
fn placed(packets: f64, draw: &mut Draw) -> Vec<u64> {
    let places = draw.between(1.0, 20.0) as usize;
    let mut lost = Vec::new();
    for _ in 0..places {
        let first = draw.between(20.0, packets) as u64;
        let many = if draw.share() < 0.3 { draw.between(2.0, 20.0) as u64 } else { 1 };
        lost.extend(first..first + many);
    }
    lost.sort_unstable();
    lost.dedup();
    lost
}

impl Case {
    /// Bytes of the queue.
    pub fn queue_bytes(&self) -> u64 {
        let bdp = self.rate_mbps * 1e6 / 8.0 * self.rtt_ms / 1e3;
        (self.queue_bdp * bdp).max(MIN_QUEUE_PACKETS * f64::from(self.mtu + OVERHEAD)) as u64
    }

    /// The scenario's parameters, as title and for the table.
    pub fn title(&self) -> String {
        format!(
            "{}: {}, {} Mb/s, {} ms, queue {} BDP, MTU {}, {}",
            self.number,
            self.controls.join(" and "),
            self.rate_mbps,
            self.rtt_ms,
            self.queue_bdp,
            self.mtu,
            self.loss_name()
        )
    }

    /// Short description of the packet loss.
    pub fn loss_name(&self) -> String {
        match &self.loss {
            Loss::None => "no loss".into(),
            Loss::Placed(packets) if packets.len() == 1 => "1 packet lost".into(),
            Loss::Placed(packets) => format!("{} packets lost", packets.len()),
            Loss::Random(share) => format!("{share} lost"),
        }
    }

    /// The scenario file of run number `run`; the first is 0.
    pub fn toml(&self, run: u32) -> String {
        let loss = match &self.loss {
            Loss::None => String::new(),
            Loss::Placed(packets) => format!(", loss = {{ packets = {packets:?} }}"),
            Loss::Random(share) => format!(", loss = {share}"),
        };
        let memory = self.buffer_bytes.map_or(String::new(), |most| {
            format!(
                r#", "net.ipv4.tcp_rmem" = "4096 131072 {most}", "net.ipv4.tcp_wmem" = "4096 16384 {most}""#
            )
        });
        let (title, mtu, rate) = (self.title(), self.mtu, self.rate_mbps * 1e6);
        let (delay_us, queue) = (self.rtt_ms * 500.0, self.queue_bytes());
        let mut text = format!(
            r#"title = "{title}"
duration = "{SECONDS}s"
seed = {}
[hosts."*"]
mtu = {mtu}
sysctl = {{ "net.ipv4.tcp_no_metrics_save" = "1"{memory} }}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = {{ rate = "{rate:.0}bit", delay = "{delay_us:.0}us", queue = "{queue}B", overhead = {OVERHEAD}{loss} }}
backward = {{ delay = "{delay_us:.0}us" }}
"#,
            run + 1
        );
        for (index, cc) in self.controls.iter().enumerate() {
            let start_us = match index {
                0 => u64::from(run * START_STEP_US),
                _ => self.starts_ms[run as usize] * 1000,
            };
            let _ = write!(
                text,
                "[[flows]]\nname = \"f{}\"\nfrom = \"h1\"\nto = \"h2\"\ncc = \"{cc}\"\nstart = \"{start_us}us\"\n",
                index + 1
            );
        }
        text
    }
}

/// Rounds to three significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().expect("a formatted number can be parsed")
}

/// SplitMix64 (Steele and others 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform on a logarithmic scale.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[(self.next() % all.len() as u64) as usize]
    }
}
