//! The queue disciplines and their parameters. The defaults are those of the documents named.

use units::{Bytes, Time};

use crate::spec::QueueLimit;

/// Which packet of a queue goes next, and which is dropped or marked.
#[derive(Debug, Clone, PartialEq)]
pub enum Discipline {
    /// First in, first out; what does not fit is dropped. With `mark_above`, packets of ECN-capable flows are
    /// marked where the queue holds more than this on their arrival (the step of RFC 8257).
    DropTail {
        /// Where marking begins.
        mark_above: Option<QueueLimit>,
    },
    /// First in, first out; what does not fit pushes out the oldest.
    DropHead,
    /// Random early detection (Floyd and Jacobson 1993).
    Red(Red),
    /// Controlled delay (RFC 8289).
    Codel(Codel),
    /// Fair queueing with controlled delay (RFC 8290).
    FqCodel(FqCodel),
    /// Plain fair queueing: deficit round robin over flows, the longest queue drops.
    Fq(Fq),
    /// Dual queue coupled AQM, DualPI2 (RFC 9332).
    DualPi2(DualPi2),
    /// First in, first out, with explicit feedback to the senders (Katabi et al. 2002).
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
    /// Average queue below which nothing is dropped.
    pub min: Bytes,
    /// Average queue from which everything is dropped, or with `gentle` from which the probability rises from
    /// `max_probability` to 1, reached at twice `max`.
    pub max: Bytes,
    /// Drop probability at `max`.
    pub max_probability: f64,
    /// Weight of a new value in the average queue (w_q, 0.002 in the paper).
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
        Codel { target: Time(5_000_000), interval: Time(100_000_000), ecn: false }
    }
}

/// FQ-CoDel's parameters (RFC 8290 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodel {
    /// Of each queue.
    pub codel: Codel,
    /// Number of queues: 1024 (section 5.2.2).
    pub flows: u32,
    /// Bytes a queue may send in its turn: 1514 (section 5.2.3).
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
    /// Bytes a queue may send in its turn.
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
    /// Delay of the low-latency queue above which all its packets are marked: 1 ms.
    pub step: Time,
}

impl Default for DualPi2 {
    fn default() -> Self {
        let (target, update, coupling, step) = (Time(15_000_000), Time(16_000_000), 2.0, Time(1_000_000));
        DualPi2 { target, update, alpha: 0.16, beta: 3.2, coupling, step }
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
