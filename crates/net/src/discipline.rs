//! The queue disciplines and their parameters. The defaults are those of the cited documents.

use units::{Bytes, Time};

use crate::queue_limit::QueueLimit;

/// The queueing discipline: it decides which packet is sent next, and which is dropped or marked.
#[derive(Debug, Clone, PartialEq)]
pub enum Discipline {
    /// FIFO; packets that do not fit are dropped. With `mark_above`, ECN-capable packets that find more than
    /// this in the queue are marked (the step marking of RFC 8257).
    DropTail {
        /// The marking threshold.
        mark_above: Option<QueueLimit>,
    },
    /// FIFO; a packet that does not fit displaces the oldest packets.
    DropHead,
    /// Random early detection (Floyd and Jacobson 1993).
    Red(Red),
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Fair queueing with controlled delay (RFC 8290).
    FqCodel(FqCodel),
    /// Plain fair queueing: deficit round robin over flows; the longest queue drops.
    Fq(Fq),
    /// Dual queue coupled AQM, DualPI2 (RFC 9332).
    DualPi2(DualPi2),
    /// FIFO with explicit feedback to the senders (Katabi et al. 2002).
    Xcp(Xcp),
}

impl Default for Discipline {
    fn default() -> Self {
        Discipline::DropTail { mark_above: None }
    }
}

/// RED's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Red {
    /// Average queue below which no packet is dropped.
    pub min: Bytes,
    /// Average queue from which all packets are dropped. With `gentle` the probability rises from
    /// `max_probability` at `max` to 1 at twice `max`.
    pub max: Bytes,
    /// Drop probability at `max`.
    pub max_probability: f64,
    /// Weight of a new sample in the average queue (w_q, 0.002 in the paper).
    pub weight: f64,
    /// The gentle variant (Floyd 2000).
    pub gentle: bool,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

/// CoDel's parameters (RFC 8289 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codel {
    /// Acceptable standing delay: 5 ms (section 4.3).
    pub target: Time,
    /// Worst expected round-trip time: 100 ms (section 4.3).
    pub interval: Time,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for Codel {
    fn default() -> Self {
        Codel { target: Time::from_millis(5), interval: Time::from_millis(100), ecn: false }
    }
}

/// FQ-CoDel's parameters (RFC 8290 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodel {
    /// CoDel's parameters for each queue.
    pub codel: Codel,
    /// Number of queues: 1024 (section 5.2.2).
    pub flows: u32,
    /// Bytes that a queue may send in each round: 1514 (section 5.2.3).
    pub quantum: u32,
}

impl Default for FqCodel {
    fn default() -> Self {
        FqCodel { codel: Codel { ecn: true, ..Codel::default() }, flows: 1024, quantum: 1514 }
    }
}

/// Plain fair queueing's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fq {
    /// Number of queues.
    pub flows: u32,
    /// Bytes that a queue may send in each round.
    pub quantum: u32,
}

impl Default for Fq {
    fn default() -> Self {
        Fq { flows: 1024, quantum: 1514 }
    }
}

/// DualPI2's parameters (RFC 9332 appendix A).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DualPi2 {
    /// Target delay of the classic queue: 15 ms.
    pub target: Time,
    /// Interval between two updates of the probability: 16 ms.
    pub update: Time,
    /// Integral gain in Hz.
    pub alpha: f64,
    /// Proportional gain in Hz.
    pub beta: f64,
    /// Coupling factor between the queues: 2.
    pub coupling: f64,
    /// Delay of the low-latency queue above which all of its packets are marked: 1 ms.
    pub step: Time,
}

impl Default for DualPi2 {
    fn default() -> Self {
        DualPi2 {
            target: Time::from_millis(15),
            update: Time::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            coupling: 2.0,
            step: Time::from_millis(1),
        }
    }
}

/// XCP's parameters (Katabi, Handley and Rohrs, SIGCOMM 2002).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Xcp {
    /// Gain on spare bandwidth: 0.4.
    pub alpha: f64,
    /// Gain on the standing queue: 0.226.
    pub beta: f64,
    /// Share of the traffic that is shuffled for fairness: 0.1.
    pub shuffle: f64,
}

impl Default for Xcp {
    fn default() -> Self {
        Xcp { alpha: 0.4, beta: 0.226, shuffle: 0.1 }
    }
}
