//! Random paths with known answers: 10 Mb/s to 10 Gb/s, 1 to 200 ms, five kinds of queue, cross traffic up to 80 %.

use datagrams::Draws;
use net::{Codel, Discipline, PipeSpec, QueueLimit, Rate};
use probe::{BufferKind, Interval, Limits};
use units::{BitRate, Bytes, Time};

use super::{Cross, Sizes, VirtualPath};

/// What limits the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Queue {
    Bytes(u64),
    Packets(u64),
    Shaper { burst: u64, limit: u64 },
    Policer { burst: u64 },
    Codel { limit: u64 },
}

/// A path, and what is true of it.
#[derive(Debug, Clone, Copy)]
pub struct RandomPath {
    pub rate: BitRate,
    pub delay: Time,
    pub queue: Queue,
    pub cross: Cross,
    pub access: BitRate,
    /// Of the link that is measured, and of this host's own, bytes of IP.
    pub mtu: u32,
    host_mtu: u32,
    /// Packets above the MTU vanish without a word.
    is_black_hole: bool,
    seed: u64,
}

/// The most load in a second: what fills the buffers of fast paths.
pub const MAX_RATE: BitRate = BitRate(1_000_000_000);

fn logarithmic(draws: &mut Draws, from: f64, to: f64) -> f64 {
    from * (to / from).powf(draws.below(1 << 30) as f64 / (1u64 << 30) as f64)
}

impl RandomPath {
    /// The path of this number, always the same.
    pub fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed, 7);
        let rate = logarithmic(&mut draws, 10e6, 10e9);
        let delay = Time::from_secs_f64(logarithmic(&mut draws, 0.0005, 0.1));
        // From 20 packets to a bandwidth-delay product of 100 ms, as far as a train may fill it.
        let most = (rate * 0.1 / 8.0).clamp(60_000.0, 20e6);
        let mut sizes = Draws::new(seed, 11);
        let mtu = [1280, 1400, 1500, 9000][sizes.below(4) as usize];
        let host_mtu = if sizes.below(2) == 0 { 9000 } else { mtu.max(1500) };
        let is_black_hole = sizes.below(4) == 0;
        // Queues and buckets hold as many large packets as small ones.
        let scale = f64::from(mtu.max(1500)) / 1500.0;
        let limit = (logarithmic(&mut draws, 30_000.0, most) * scale) as u64;
        let burst = logarithmic(&mut draws, 5_000.0, (rate * 0.02 / 8.0).clamp(20_000.0, 4e6)) as u64;
        let queue = match draws.below(5) {
            0 => Queue::Bytes(limit),
            1 => Queue::Packets((limit / 1514).max(20)),
            2 => Queue::Shaper { burst, limit },
            3 => Queue::Policer { burst: (burst as f64 * scale).max(15_000.0 * scale) as u64 },
            _ => Queue::Codel { limit: limit.max((rate * 0.2 / 8.0) as u64) },
        };
        let load = if draws.below(4) == 0 { 0.0 } else { draws.below(81) as f64 / 100.0 };
        let sizes = if draws.below(2) == 0 { Sizes::One } else { Sizes::Three };
        let burst = if draws.below(3) == 0 { 8.0 } else { 1.0 };
        let access = BitRate((rate * logarithmic(&mut draws, 2.0, 20.0)) as u64);
        RandomPath {
            rate: BitRate(rate as u64),
            delay,
            queue,
            cross: Cross { load, sizes, burst },
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
            Queue::Bytes(limit) => PipeSpec { queue: bytes(limit), ..plain },
            Queue::Packets(limit) => PipeSpec { queue: QueueLimit::Packets(limit), ..plain },
            Queue::Shaper { burst, limit } => {
                PipeSpec { burst: Some(Bytes(burst)), queue: bytes(limit), ..plain }
            }
            Queue::Policer { burst } => {
                PipeSpec { burst: Some(Bytes(burst)), queue: bytes(u64::from(self.mtu) + 14), ..plain }
            }
            Queue::Codel { limit } => {
                PipeSpec { queue: bytes(limit), discipline: Discipline::Codel(Codel::default()), ..plain }
            }
        };
        VirtualPath::new(link, self.access, self.cross, MAX_RATE, self.seed)
    }

    /// Finds the path MTU, as a session does before it measures.
    pub fn limits(&self, path: &mut VirtualPath) -> Limits {
        let found = path.discover_mtu(self.host_mtu, (!self.is_black_hole).then_some(self.mtu));
        let mtu = found.mtu_bytes.expect("packets of the base arrive");
        Limits { most_bytes: MAX_RATE.0 / 8, mtu, resolution_ns: 100.0 }
    }

    /// IP bytes of the largest packets that the link carries, bit/s.
    pub fn capacity_bps(&self) -> f64 {
        self.rate.0 as f64 * f64::from(self.mtu) / (f64::from(self.mtu) + 14.0)
    }

    /// Bytes of IP that the queue holds, or a policer's bucket, in the largest packets; and what it is.
    pub fn buffer(&self) -> (f64, BufferKind) {
        let mtu = f64::from(self.mtu);
        let ip = |wire: u64| wire as f64 * mtu / (mtu + 14.0);
        match self.queue {
            Queue::Bytes(limit) => (ip(limit), BufferKind::DropTailBytes),
            Queue::Packets(limit) => (limit as f64 * mtu, BufferKind::DropTailPackets),
            Queue::Shaper { limit, .. } => (ip(limit), BufferKind::Shaper),
            Queue::Policer { burst } => (ip(burst), BufferKind::Policer),
            Queue::Codel { limit } => (ip(limit), BufferKind::ActiveQueue),
        }
    }

    /// The part that cross traffic leaves: not what is offered counts, but what the link carries of it.
    pub fn available_bps(&self) -> f64 {
        self.capacity_bps() * (1.0 - self.open().carried())
    }
}

/// How far off answers were, over many paths.
#[derive(Debug, Default)]
pub struct Score {
    answers: Vec<Scored>,
}

/// One answer.
#[derive(Debug, Clone, Copy)]
struct Scored {
    path: RandomPath,
    /// As a share of the truth; infinite where there is no value.
    error: f64,
    valid: bool,
    /// The truth is in the interval.
    covered: bool,
}

/// What the table is divided by.
const KINDS: [&str; 5] = ["drop-tail, bytes", "drop-tail, packets", "shaper", "policer", "CoDel"];

impl RandomPath {
    fn kind(&self) -> &'static str {
        KINDS[match self.queue {
            Queue::Bytes(_) => 0,
            Queue::Packets(_) => 1,
            Queue::Shaper { .. } => 2,
            Queue::Policer { .. } => 3,
            Queue::Codel { .. } => 4,
        }]
    }
}

impl Score {
    /// Tells the error.
    pub fn add(&mut self, path: &RandomPath, answer: Option<Interval>, truth: f64, valid: bool) -> f64 {
        let error = answer.map_or(f64::INFINITY, |answer| answer.value / truth - 1.0);
        // A thousandth is less than anybody reads off.
        let covered = answer.is_some_and(|found| found.low <= truth * 1.001 && found.high >= truth * 0.999);
        if valid && !covered {
            println!("not in the interval: {} {answer:?} {truth:.0} {path:?}", path.seed);
        }
        self.answers.push(Scored { path: *path, error, valid, covered });
        error
    }

    pub fn len(&self) -> usize {
        self.answers.len()
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn quantile(&self, share: f64) -> f64 {
        let mut errors: Vec<f64> = self.answers.iter().map(|answer| answer.error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        errors.get((errors.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(0.0)
    }

    /// Answers off by more than `share` that said they were valid.
    pub fn wrong_without_warning(&self, share: f64) -> usize {
        self.answers.iter().filter(|answer| answer.valid && answer.error.abs() > share).count()
    }

    /// The share of the answers without a doubt whose interval holds the truth.
    pub fn coverage(&self) -> f64 {
        let valid: Vec<&Scored> = self.answers.iter().filter(|answer| answer.valid).collect();
        valid.iter().filter(|answer| answer.covered).count() as f64 / valid.len().max(1) as f64
    }

    fn doubtful(&self) -> usize {
        self.answers.iter().filter(|answer| !answer.valid).count()
    }

    fn of(&self, wanted: impl Fn(&RandomPath) -> bool) -> Score {
        Score { answers: self.answers.iter().filter(|answer| wanted(&answer.path)).copied().collect() }
    }

    /// A row for each kind of queue, without and with cross traffic, and one for all; answers off by more than `wrong` are wrong.
    pub fn tell(&self, what: &str, wrong: f64) {
        println!(
            "| {what} | paths | median error | 3 of 4 within | doubtful | off by more than {:.0} % without a doubt | in the interval |\n|---|---|---|---|---|---|---|",
            wrong * 100.0
        );
        let row = |name: &str, part: Score| {
            println!(
                "| {name} | {} | {:.1} % | {:.1} % | {} | {} | {:.1} % |",
                part.len(),
                part.median() * 100.0,
                part.quantile(0.75) * 100.0,
                part.doubtful(),
                part.wrong_without_warning(wrong),
                part.coverage() * 100.0
            );
        };
        for kind in KINDS {
            row(&format!("{kind}, idle"), self.of(|path| path.kind() == kind && path.cross.load == 0.0));
            row(&format!("{kind}, loaded"), self.of(|path| path.kind() == kind && path.cross.load > 0.0));
        }
        for mtu in [1280, 1400, 1500, 9000] {
            row(&format!("MTU {mtu}"), self.of(|path| path.mtu == mtu));
        }
        row("all", self.of(|_| true));
    }
}
