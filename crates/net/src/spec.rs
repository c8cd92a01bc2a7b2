//! The properties of one direction of a link: plain data for scenario files, the lab and the simulator.

use std::sync::Arc;

use units::{BitRate, Bytes, Instant, Time};

use crate::{discipline::Discipline, queue_limit::QueueLimit, trace::RateTrace};

/// One direction of a link. The default is ideal: no delay, no limit, no loss.
///
/// A packet passes in this order: the queue (`queue`, `discipline`), the rate (`rate`, `burst`), and the wire
/// (loss, corruption, duplication, then delay, jitter and reordering).
#[derive(Debug, Clone, PartialEq)]
pub struct PipeSpec {
    /// The rate at which packets leave the queue.
    pub rate: Rate,
    /// Size of the token bucket. With a bucket the pipe shapes like tbf: packets leave at once while there
    /// are tokens. Without one (`None`) it is a wire on which each packet takes its transmission time.
    pub burst: Option<Bytes>,
    /// Bytes on the wire that each segment has in addition to its IP bytes (14: Ethernet header, as tbf
    /// counts).
    pub overhead: u32,
    /// Capacity of the queue in front of the rate.
    pub queue: QueueLimit,
    /// The queueing discipline.
    pub discipline: Discipline,
    /// Propagation delay.
    pub delay: Time,
    /// Variation of the delay.
    pub jitter: Option<Jitter>,
    /// The loss of packets on the wire. Lost packets have passed the queue, so they use capacity.
    pub loss: LossModel,
    /// Whether the loss model decides by segment or by super-packet.
    pub loss_unit: LossUnit,
    /// Probability that a packet is delivered twice.
    pub duplicate: f64,
    /// Probability that one bit of a segment is flipped.
    pub corrupt: f64,
    /// The packets that overtake others.
    pub reorder: Option<Reorder>,
    /// MTU in bytes of IP; `None` for no limit.
    pub mtu: Option<u32>,
    /// The link is down: no packet passes.
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
            delay: Time::ZERO,
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
    /// Default overhead of a segment: an Ethernet header, as tbf counts.
    pub const DEFAULT_OVERHEAD_BYTES: u32 = 14;
    /// Default queue of a direction with a rate: the default of netem (`limit`) and of devices
    /// (`txqueuelen`).
    pub const DEFAULT_QUEUE: QueueLimit = QueueLimit::Packets(1000);

    /// Whether packets pass at once and unharmed, except those larger than `mtu`.
    pub fn is_ideal(&self) -> bool {
        *self == PipeSpec { overhead: self.overhead, queue: self.queue, mtu: self.mtu, ..PipeSpec::default() }
    }
}

/// The rate at which packets leave a queue.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Rate {
    /// Packets leave at once.
    #[default]
    Unlimited,
    /// A constant rate.
    Constant(BitRate),
    /// A rate that follows a trace.
    Trace(Arc<RateTrace>),
}

impl Rate {
    /// The constant rate, or the mean of the trace; `None` if there is no limit.
    pub fn mean(&self) -> Option<BitRate> {
        match self {
            Rate::Unlimited => None,
            Rate::Constant(rate) => Some(*rate),
            Rate::Trace(trace) => Some(trace.mean()),
        }
    }
}

/// The random difference between a packet's delay and the pipe's delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jitter {
    /// Half the width of a uniform distribution, or the standard deviation of the others.
    pub spread: Time,
    /// The distribution.
    pub distribution: Distribution,
    /// Packets may overtake each other. Otherwise packets arrive in the order in which they were sent.
    pub reorders: bool,
}

/// The distribution of jitter. The pipe's delay is its mean; delays are never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Uniform between delay - spread and delay + spread.
    #[default]
    Uniform,
    /// The normal distribution.
    Normal,
    /// A long tail: Pareto with shape 3, shifted to mean 0 and scaled to standard deviation 1, as in
    /// iproute2's table for netem.
    Pareto,
}

/// A model of packet loss.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LossModel {
    /// No packet is lost.
    #[default]
    None,
    /// Each packet is lost with this probability, independently of the others.
    Independent(f64),
    /// Two states, good and bad, each with a loss probability (Gilbert 1960, Elliott 1963).
    GilbertElliott(GilbertElliott),
    /// Every n-th packet: the n-th, the 2n-th, and so on; n is at least 1.
    Every(u64),
    /// The packets with these numbers, ascending. Packets are counted from 1 as they reach the wire.
    Packets(Vec<u64>),
    /// At each of these instants (ascending) the next `count` packets that reach the wire.
    Times {
        /// Instants since the start.
        at: Vec<Instant>,
        /// Packets lost at each instant; at least 1.
        count: u32,
    },
}

/// The Gilbert-Elliott model. Each packet is lost with the probability of the current state, then the state
/// may change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// Probability of a transition from good to bad (p).
    pub to_bad: f64,
    /// Probability of a transition from bad to good (r).
    pub to_good: f64,
    /// Loss probability in the bad state (1 - h).
    pub loss_bad: f64,
    /// Loss probability in the good state (1 - k).
    pub loss_good: f64,
}

impl LossModel {
    /// The long-term loss rate; 0 for models that lose a fixed number of packets.
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

/// The unit for which a loss model decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossUnit {
    /// Each segment, as on a real wire.
    #[default]
    Segment,
    /// Each packet as it arrives, however many segments it has: as netem treats the super-packets of a host
    /// with segmentation offload.
    SuperPacket,
}

/// The packets that overtake those before them: they skip the delay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability that a candidate overtakes.
    pub probability: f64,
    /// Only every `gap`-th packet is a candidate; at least 1.
    pub gap: u32,
}
