//! What one direction of a link is made of: plain data, read by the scenario file, the lab and the simulator.

use std::sync::Arc;

use units::{BitRate, Bytes, Time};

use crate::{discipline::Discipline, trace::RateTrace};

/// One direction of a link. The default is ideal: no delay, no limit, no loss.
///
/// A packet passes these in order: the queue (`queue`, `discipline`), the rate (`rate`, `burst`), and the
/// wire (loss, corruption, duplication, then delay, jitter and reordering).
#[derive(Debug, Clone, PartialEq)]
pub struct PipeSpec {
    /// How fast packets leave the queue.
    pub rate: Rate,
    /// Token bucket in bytes: with it the pipe shapes as tbf does, packets that the bucket allows leave
    /// at once; without it the pipe is a wire on which each packet takes its transmission time.
    pub burst: Option<Bytes>,
    /// Bytes that each segment counts on the wire beside its IP bytes (14: Ethernet header, as tbf counts).
    pub overhead: u32,
    /// What the queue in front of the rate may hold.
    pub queue: QueueLimit,
    /// Which packet of the queue goes next, and which is dropped or marked.
    pub discipline: Discipline,
    /// Propagation delay.
    pub delay: Time,
    /// How the delay varies.
    pub jitter: Option<Jitter>,
    /// Which packets are lost on the wire (after the queue, so they cost capacity).
    pub loss: LossModel,
    /// What one draw of `loss` is for.
    pub loss_unit: LossUnit,
    /// Probability that a packet is delivered twice.
    pub duplicate: f64,
    /// Probability that one bit of a segment is flipped.
    pub corrupt: f64,
    /// Which packets overtake others.
    pub reorder: Option<Reorder>,
    /// Largest packet in bytes of IP; `None` carries every packet.
    pub mtu: Option<u32>,
    /// Nothing passes.
    pub down: bool,
}

impl Default for PipeSpec {
    fn default() -> Self {
        PipeSpec {
            rate: Rate::Unlimited,
            burst: None,
            overhead: PipeSpec::DEFAULT_OVERHEAD_BYTES,
            queue: QueueLimit::Unlimited,
            discipline: Discipline::default(),
            delay: Time(0),
            jitter: None,
            loss: LossModel::None,
            loss_unit: LossUnit::Segment,
            duplicate: 0.0,
            corrupt: 0.0,
            reorder: None,
            mtu: None,
            down: false,
        }
    }
}

impl PipeSpec {
    /// Overhead of a packet unless said otherwise: an Ethernet header, as tbf counts.
    pub const DEFAULT_OVERHEAD_BYTES: u32 = 14;
    /// Queue of a direction with a rate unless said otherwise (netem's and a device's usual 1000).
    pub const DEFAULT_QUEUE: QueueLimit = QueueLimit::Packets(1000);

    /// True where packets pass at once and unharmed, apart from those larger than `mtu`.
    pub fn is_ideal(&self) -> bool {
        *self == PipeSpec { overhead: self.overhead, queue: self.queue, mtu: self.mtu, ..PipeSpec::default() }
    }
}

/// How fast packets leave a queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rate {
    /// At once.
    #[default]
    Unlimited,
    /// Always the same.
    Constant(BitRate),
    /// Changing as a trace says.
    Trace(Arc<RateTrace>),
}

impl Rate {
    /// The rate, or a trace's mean; `None` where there is no limit.
    pub fn mean(&self) -> Option<BitRate> {
        match self {
            Rate::Unlimited => None,
            Rate::Constant(rate) => Some(*rate),
            Rate::Trace(trace) => Some(trace.mean()),
        }
    }
}

/// The most that a queue holds. The packet being sent counts until its last bit has left,
/// as in Linux's tbf, so the largest queueing delay is the limit over the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueLimit {
    /// Nothing is ever dropped for want of room.
    #[default]
    Unlimited,
    /// Bytes, overhead included.
    Bytes(Bytes),
    /// Packets (segments).
    Packets(u64),
}

impl QueueLimit {
    /// The limit in bytes, with packets of so many; `None` where there is none.
    pub fn bytes(self, packet: u64) -> Option<Bytes> {
        match self {
            QueueLimit::Unlimited => None,
            QueueLimit::Bytes(bytes) => Some(bytes),
            QueueLimit::Packets(count) => Some(Bytes(count.saturating_mul(packet))),
        }
    }
}

/// How much a packet's delay differs from the pipe's delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    /// Half the width of the uniform distribution, the standard deviation of the others.
    pub spread: Time,
    /// Its shape.
    pub distribution: Distribution,
    /// Packets may overtake each other; otherwise none arrives before one that was sent before it.
    pub reorders: bool,
}

/// The shape of a jitter's distribution. The pipe's delay is its mean; delays are never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// All values between delay - spread and delay + spread alike.
    #[default]
    Uniform,
    /// The bell curve.
    Normal,
    /// Long tail: Pareto with shape 3, shifted to mean 0 and scaled to standard deviation 1, as the table
    /// of iproute2's netem.
    Pareto,
}

/// Which packets are lost.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each with this probability, whatever happened before.
    Independent(f64),
    /// Two states, good and bad, with a loss probability each (Gilbert 1960, Elliott 1963).
    GilbertElliott(GilbertElliott),
    /// Every n-th packet: the n-th, the 2n-th, and so on; at least 1.
    Every(u64),
    /// These packets, counted from 1 as they reach the wire; ascending.
    Packets(Vec<u64>),
    /// At each of these instants (ascending) the next `count` packets that reach the wire.
    Times {
        /// When, since the start.
        at: Vec<Time>,
        /// How many packets each time; at least 1.
        count: u32,
    },
}

/// The Gilbert-Elliott model. Each packet is lost with the probability of the present state, then the
/// state may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability to go from good to bad (p).
    pub to_bad: f64,
    /// Probability to go from bad to good (r).
    pub to_good: f64,
    /// Loss probability in the bad state (1 - h).
    pub loss_bad: f64,
    /// Loss probability in the good state (1 - k).
    pub loss_good: f64,
}

impl LossModel {
    /// The share of packets lost in the long run, as far as it is a share.
    pub fn mean(&self) -> f64 {
        match self {
            LossModel::None | LossModel::Packets(_) | LossModel::Times { .. } => 0.0,
            LossModel::Independent(p) => *p,
            LossModel::GilbertElliott(g) => {
                let change = g.to_bad + g.to_good;
                let bad = if change > 0.0 { g.to_bad / change } else { 0.0 };
                bad * g.loss_bad + (1.0 - bad) * g.loss_good
            }
            LossModel::Every(n) => 1.0 / (*n).max(1) as f64,
        }
    }
}

/// What one draw of a loss model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossUnit {
    /// Each segment, as on a real wire.
    #[default]
    Segment,
    /// Each packet as it came, of however many segments: what netem does to the super-packets of a
    /// host with segmentation offload.
    SuperPacket,
}

/// Which packets overtake those before them: they skip the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability that a candidate does.
    pub probability: f64,
    /// Only every `gap`-th packet is a candidate; at least 1.
    pub gap: u32,
}
