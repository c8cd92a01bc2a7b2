//! Random paths with known true values: 10 Mb/s to 10 Gb/s, 1 to 200 ms, five kinds of queue, cross traffic
//! up to 80 %.

use datagrams::Draws;
use net::{Codel, Discipline, PipeSpec, QueueLimit, Rate};
use probe::{BufferKind, Interval, ProbeLimits};
use units::{BitRate, Bytes, Time};

use super::{CrossTraffic, PacketSizes, VirtualPath};

/// The kind and size of the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathQueue {
    Bytes(u64),
    Packets(u64),
    Shaper { burst: u64, limit: u64 },
    Policer { burst: u64 },
    Codel { limit: u64 },
}

/// A random path and its true values.
#[derive(Debug, Clone, Copy)]
pub struct RandomPath {
    pub rate: BitRate,
    pub delay: Time,
    pub queue: PathQueue,
    pub cross: CrossTraffic,
    pub access: BitRate,
    /// MTU of the measured link, bytes of IP.
    pub mtu: u32,
    /// MTU of the sender's link, bytes of IP.
    host_mtu: u32,
    /// Whether packets above the MTU are lost without an ICMP error.
    is_black_hole: bool,
    seed: u64,
}

/// Maximum load within a second, enough to fill the buffers of fast paths.
pub const MAX_RATE: BitRate = BitRate(1_000_000_000);

fn logarithmic(draws: &mut Draws, from: f64, to: f64) -> f64 {
    from * (to / from).powf(draws.below(1 << 30) as f64 / (1u64 << 30) as f64)
}

impl RandomPath {
    /// The path of this seed.
    pub fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, 7);
        let rate = logarithmic(&mut draws, 10e6, 10e9);
        let delay = Time::from_secs_f64(logarithmic(&mut draws, 0.0005, 0.1));
        // From 20 packets to a bandwidth-delay product of 100 ms, limited by what a train can fill.
        let max = (rate * 0.1 / 8.0).clamp(60_000.0, 20e6);
        let mut sizes = Draws::new(seed, 11);
        let mtu = [1280, 1400, 1500, 9000][sizes.below(4) as usize];
        let host_mtu = if sizes.below(2) == 0 { 9000 } else { mtu.max(1500) };
        let is_black_hole = sizes.below(4) == 0;
        // Queues and buckets scale with the packet size.
        let scale = f64::from(mtu.max(1500)) / 1500.0;
        let limit = (logarithmic(&mut draws, 30_000.0, max) * scale) as u64;
        let burst = logarithmic(&mut draws, 5_000.0, (rate * 0.02 / 8.0).clamp(20_000.0, 4e6)) as u64;
        let queue = match draws.below(5) {
            0 => PathQueue::Bytes(limit),
            1 => PathQueue::Packets((limit / 1514).max(20)),
            2 => PathQueue::Shaper { burst, limit },
            3 => PathQueue::Policer { burst: (burst as f64 * scale).max(15_000.0 * scale) as u64 },
            _ => PathQueue::Codel { limit: limit.max((rate * 0.2 / 8.0) as u64) },
        };
        let load = if draws.below(4) == 0 { 0.0 } else { draws.below(81) as f64 / 100.0 };
        let sizes = if draws.below(2) == 0 { PacketSizes::One } else { PacketSizes::Three };
        let burst = if draws.below(3) == 0 { 8.0 } else { 1.0 };
        let access = BitRate((rate * logarithmic(&mut draws, 2.0, 20.0)) as u64);
        RandomPath {
            rate: BitRate(rate as u64),
            delay,
            queue,
            cross: CrossTraffic { load, sizes, burst },
            access,
            mtu,
            host_mtu,
            is_black_hole,
            seed,
        }
    }

    pub fn open(&self) -> VirtualPath {
        let plain = PipeSpec {
            rate: Rate::Constant(self.rate),
            delay: self.delay,
            mtu: Some(self.mtu),
            ..PipeSpec::default()
        };
        let bytes = |limit: u64| QueueLimit::Bytes(Bytes(limit));
        let link = match self.queue {
            PathQueue::Bytes(limit) => PipeSpec { queue: bytes(limit), ..plain },
            PathQueue::Packets(limit) => PipeSpec { queue: QueueLimit::Packets(limit), ..plain },
            PathQueue::Shaper { burst, limit } => {
                PipeSpec { burst: Some(Bytes(burst)), queue: bytes(limit), ..plain }
            }
            PathQueue::Policer { burst } => {
                PipeSpec { burst: Some(Bytes(burst)), queue: bytes(u64::from(self.mtu) + 14), ..plain }
            }
            PathQueue::Codel { limit } => {
                PipeSpec { queue: bytes(limit), discipline: Discipline::Codel(Codel::default()), ..plain }
            }
        };
        VirtualPath::new(link, self.access, self.cross, MAX_RATE, self.seed)
    }

    /// Finds the path MTU, as a session does before measuring; returns the limits.
    pub fn limits(&self, path: &mut VirtualPath) -> ProbeLimits {
        let found = path.discover_mtu(self.host_mtu, (!self.is_black_hole).then_some(self.mtu));
        let mtu = found.mtu_bytes.expect("packets of the base size arrive");
        ProbeLimits { max_bytes_per_second: MAX_RATE.0 / 8, mtu, resolution_ns: 100.0 }
    }

    /// True capacity in packets of the path MTU, bit/s of IP.
    pub fn capacity_bps(&self) -> f64 {
        self.rate.0 as f64 * f64::from(self.mtu) / (f64::from(self.mtu) + 14.0)
    }

    /// True size of the queue, or of a policer's bucket, in packets of the path MTU, bytes of IP; and its
    /// kind.
    pub fn buffer(&self) -> (f64, BufferKind) {
        let mtu = f64::from(self.mtu);
        let ip = |wire: u64| wire as f64 * mtu / (mtu + 14.0);
        match self.queue {
            PathQueue::Bytes(limit) => (ip(limit), BufferKind::DropTailBytes),
            PathQueue::Packets(limit) => (limit as f64 * mtu, BufferKind::DropTailPackets),
            PathQueue::Shaper { limit, .. } => (ip(limit), BufferKind::Shaper),
            PathQueue::Policer { burst } => (ip(burst), BufferKind::Policer),
            PathQueue::Codel { limit } => (ip(limit), BufferKind::ActiveQueue),
        }
    }

    /// True available bandwidth, bit/s of IP: the capacity minus the carried cross traffic.
    pub fn available_bps(&self) -> f64 {
        self.capacity_bps() * (1.0 - self.open().carried_share())
    }
}

/// Errors of a method over many paths.
#[derive(Debug, Default)]
pub struct Score {
    results: Vec<ScoredResult>,
}

/// One result.
#[derive(Debug, Clone, Copy)]
struct ScoredResult {
    path: RandomPath,
    /// Relative error; infinite without a value.
    error: f64,
    valid: bool,
    /// Whether the interval contains the true value.
    is_covered: bool,
}

/// Kinds of queues, the rows of the table.
const KINDS: [&str; 5] = ["drop-tail, bytes", "drop-tail, packets", "shaper", "policer", "CoDel"];

impl RandomPath {
    fn kind(&self) -> &'static str {
        KINDS[match self.queue {
            PathQueue::Bytes(_) => 0,
            PathQueue::Packets(_) => 1,
            PathQueue::Shaper { .. } => 2,
            PathQueue::Policer { .. } => 3,
            PathQueue::Codel { .. } => 4,
        }]
    }
}

impl Score {
    /// Adds a result; returns its relative error.
    pub fn add(
        &mut self,
        path: &RandomPath,
        interval: Option<Interval>,
        true_value: f64,
        valid: bool,
    ) -> f64 {
        let error = interval.map_or(f64::INFINITY, |interval| interval.value / true_value - 1.0);
        // A thousandth is below the precision of printed results.
        let covered =
            interval.is_some_and(|found| found.low <= true_value * 1.001 && found.high >= true_value * 0.999);
        if valid && !covered {
            println!("not in the interval: {} {interval:?} {true_value:.0} {path:?}", path.seed);
        }
        self.results.push(ScoredResult { path: *path, error, valid, is_covered: covered });
        error
    }

    pub fn len(&self) -> usize {
        self.results.len()
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn quantile(&self, share: f64) -> f64 {
        let mut errors: Vec<f64> = self.results.iter().map(|result| result.error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors.get((errors.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(0.0)
    }

    /// Number of valid results with an error of more than `share`.
    pub fn wrong_valid_results(&self, share: f64) -> usize {
        self.results.iter().filter(|result| result.valid && result.error.abs() > share).count()
    }

    /// Share of valid results whose interval contains the true value.
    pub fn coverage(&self) -> f64 {
        let valid: Vec<&ScoredResult> = self.results.iter().filter(|result| result.valid).collect();
        valid.iter().filter(|result| result.is_covered).count() as f64 / valid.len().max(1) as f64
    }

    fn invalid_results(&self) -> usize {
        self.results.iter().filter(|result| !result.valid).count()
    }

    fn filtered(&self, matches: impl Fn(&RandomPath) -> bool) -> Score {
        Score { results: self.results.iter().filter(|result| matches(&result.path)).copied().collect() }
    }

    /// Prints a row for each kind of queue, without and with cross traffic, and one for all. Results with an
    /// error of more than `wrong` are wrong.
    pub fn print(&self, what: &str, wrong: f64) {
        println!(
            "| {what} | paths | median error | 75 % within | inconclusive | wrong (by more than {:.0} %) | in the interval |\n|---|---|---|---|---|---|---|",
            wrong * 100.0
        );
        let row = |name: &str, part: Score| {
            println!(
                "| {name} | {} | {:.1} % | {:.1} % | {} | {} | {:.1} % |",
                part.len(),
                part.median() * 100.0,
                part.quantile(0.75) * 100.0,
                part.invalid_results(),
                part.wrong_valid_results(wrong),
                part.coverage() * 100.0
            );
        };
        for kind in KINDS {
            row(
                &format!("{kind}, idle"),
                self.filtered(|path| path.kind() == kind && path.cross.load == 0.0),
            );
            row(
                &format!("{kind}, loaded"),
                self.filtered(|path| path.kind() == kind && path.cross.load > 0.0),
            );
        }
        for mtu in [1280, 1400, 1500, 9000] {
            row(&format!("MTU {mtu}"), self.filtered(|path| path.mtu == mtu));
        }
        row("all", self.filtered(|_| true));
    }
}
