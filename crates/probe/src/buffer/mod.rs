//! The bottleneck's buffer: a train faster than the capacity fills it, the delay grows, and where it is full packets are lost
//! (Hirabaru, IEICE Trans. Commun. E89-D(1), 2006). Buffer = capacity x queueing delay of a full queue.
//!
//! The train grows until it shows many losses close together: single ones may be the wire's, or an active queue's. A full
//! queue takes a packet for each that leaves, so that the delays of packets received among the losses are those of a full queue.
//! Packets of two sizes tell a limit in packets from one in bytes. What it is, in the order of the questions asked:
//! *policer* (loss without delay growth), *shaper* (a bucket's bytes pass at once, then the delay grows), *active queue* (losses
//! although the queue still grows, or few for so much excess), and else *drop-tail*.

mod classify;
mod fill;

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    capacity::{Capacity, CapacityAnswer, most_packets},
    train::{Fleet, Method, Seen, Step, Train},
};

use fill::{EXCESS, OfSize, TRAINS};

/// Packets of the first train.
const FIRST: usize = 128;
/// The smaller packets, as a share of the larger.
const SMALLER: f64 = 0.5;
/// Single packets that show the delay of an empty queue.
const IDLE: usize = 20;
/// The header of Ethernet, bytes: what a link carries with each packet at least.
const ETHERNET: f64 = 14.0;
/// CoDel drops when packets have waited longer than the target for an interval (RFC 8289), ns.
const CODEL_TARGET_NS: f64 = 5e6;
const CODEL_INTERVAL_NS: f64 = 100e6;

/// What limits the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// First in, first out, so many bytes.
    DropTailBytes,
    /// First in, first out, so many packets of whatever size.
    DropTailPackets,
    /// A token bucket with a queue.
    Shaper,
    /// A token bucket without one.
    Policer,
    /// Packets are dropped before a queue is full.
    ActiveQueue,
    /// A host dropped the packets.
    Host,
    /// Nothing was lost.
    Unknown,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BufferAnswer {
    /// What it is.
    pub kind: BufferKind,
    /// What the queue holds, bytes of IP in the larger packets; of a policer what its bucket holds. `None` where that is not
    /// known, or varies.
    pub buffer_bytes: Option<Interval>,
    /// The same in packets of `packet_bytes`.
    pub buffer_packets: Option<f64>,
    /// The queueing delay of the full queue, milliseconds; at the first drops of an active queue.
    pub full_delay_ms: Option<f64>,
    /// Bytes of the larger packets, IP header included.
    pub packet_bytes: u32,
    /// The capacity it rests on.
    pub capacity: CapacityAnswer,
    /// Whether to believe it.
    pub validity: Validity,
    /// The plot of the last train: number, queueing delay in ms, or `None` where the packet was lost.
    #[serde(skip)]
    pub plot: Vec<(usize, Option<f64>)>,
}

/// A queue is full a little before or after its limit, as other traffic and an active queue's first drops have it: on random paths 95 %
/// of the true values are within this share and a packet (crates/probe/tests/accuracy.rs).
const UNEVEN: f64 = 0.02;

/// The method.
#[derive(Debug, Clone)]
pub struct Buffer {
    limits: Limits,
    capacity: Capacity,
    known: Option<CapacityAnswer>,
    phase: Phase,
    sizes: [OfSize; 2],
    host: bool,
    doubts: Vec<String>,
    plot: Vec<(usize, Option<f64>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Capacity,
    Idle(usize),
    Grow { size: usize, packets: usize },
    Fill { size: usize, packets: usize },
    Done,
}

impl Buffer {
    /// Measures, the capacity first.
    pub fn new(limits: Limits) -> Self {
        let size = |bytes: u32| OfSize { bytes, ..OfSize::default() };
        Buffer {
            limits,
            capacity: Capacity::new(limits),
            known: None,
            phase: Phase::Capacity,
            sizes: [size(limits.mtu), size((f64::from(limits.mtu) * SMALLER) as u32)],
            host: false,
            doubts: Vec::new(),
            plot: Vec::new(),
        }
    }

    fn capacity_bps(&self) -> f64 {
        self.known.as_ref().and_then(|known| known.capacity_bps).map_or(0.0, |found| found.value)
    }

    /// The rate that packets of this size are sent at. Each takes some bytes more on the wire.
    fn rate_bps(&self, size: usize) -> f64 {
        EXCESS * self.passes_bps(size)
    }

    /// What the link passes in packets of this size: by the header of Ethernet, the commonest.
    fn passes_bps(&self, size: usize) -> f64 {
        let share = |bytes: u32| f64::from(bytes) / (f64::from(bytes) + ETHERNET);
        self.capacity_bps() * share(self.sizes[size].bytes) / share(self.sizes[0].bytes)
    }

    fn most(&self, size: usize) -> usize {
        most_packets(&self.limits, self.sizes[size].bytes) * 9 / 10
    }
}

impl Buffer {
    /// What queue these trains cannot be told from, where there is one.
    fn looks_the_same(&self, kind: BufferKind) -> String {
        let drops_at_tail = matches!(kind, BufferKind::DropTailBytes | BufferKind::DropTailPackets);
        let waits = self.full_delay(0).is_some_and(|ns| ns > CODEL_TARGET_NS);
        let lasted_ns = self.trains(0, self.sizes[0].packets, 1).trains[0].duration_ns() as f64;
        match drops_at_tail && waits && lasted_ns < 2.0 * CODEL_INTERVAL_NS {
            true => format!(
                "; an active queue that drops later than the {:.0} ms of a train (CoDel waits 100 ms) looks the same",
                lasted_ns / 1e6
            ),
            false => String::new(),
        }
    }
}

impl Method for Buffer {
    type Answer = BufferAnswer;

    fn next(&mut self) -> Step {
        loop {
            match self.phase {
                Phase::Capacity => {
                    if let Step::Send(fleet) = self.capacity.next() {
                        return Step::Send(fleet);
                    }
                    let known = self.capacity.answer();
                    self.phase = if known.capacity_bps.is_some() { Phase::Idle(0) } else { Phase::Done };
                    self.known = Some(known);
                }
                Phase::Idle(size) => {
                    return Step::Send(Fleet {
                        trains: vec![Train::burst(self.sizes[size].bytes, 1); IDLE],
                        gap: Time::from_millis(5),
                    });
                }
                Phase::Grow { size, packets } => return Step::Send(self.trains(size, packets, 1)),
                Phase::Fill { size, packets } => return Step::Send(self.trains(size, packets, TRAINS)),
                Phase::Done => return Step::Done,
            }
        }
    }

    fn take(&mut self, seen: &[Seen]) {
        self.host |= self.phase != Phase::Capacity && seen.iter().any(|seen| seen.host_drops > 0);
        match self.phase {
            Phase::Capacity => self.capacity.take(seen),
            Phase::Idle(size) => {
                for seen in seen {
                    self.note_delays(size, seen);
                }
                let packets = FIRST.min(self.most(0));
                self.phase = if size == 0 { Phase::Idle(1) } else { Phase::Grow { size: 0, packets } };
            }
            Phase::Grow { size, packets } => {
                if let Some(seen) = seen.first() {
                    self.grow(size, packets, seen);
                }
            }
            Phase::Fill { size, packets } => self.fill(size, packets, seen),
            Phase::Done => {}
        }
    }

    fn answer(&self) -> BufferAnswer {
        let capacity = self.known.clone().unwrap_or_else(|| self.capacity.answer());
        let mut doubts = self.doubts.clone();
        if !capacity.validity.valid {
            doubts.extend(capacity.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        let (mut kind, bytes) = self.classify(&mut doubts);
        if self.host {
            kind = BufferKind::Host;
            doubts.push("a host dropped packets: its buffer is what was filled".into());
        }
        if kind == BufferKind::Unknown {
            doubts.push(format!(
                "no train of {} packets was lost in: a larger buffer, or this host sends no faster than the path; allow a higher rate",
                self.sizes[0].packets
            ));
        }
        let gap = self.packet_ns(0);
        let packet = f64::from(self.sizes[0].bytes);
        let buffer = bytes.map(|bytes| {
            let blur = packet + self.limits.resolution_ns / gap * packet;
            let share = capacity.capacity_bps.map_or(0.0, |c| ((c.high - c.low) / 2.0 / c.value).min(0.5));
            let by = blur + (UNEVEN + share) * bytes;
            Interval { low: (bytes - by).max(0.0), value: bytes, high: bytes + by }
        });
        if let Some(found) = buffer
            && found.high > 1.5 * found.value
        {
            doubts.push(
                "the queue is not much longer than a packet, or time stamps are too coarse for it".into(),
            );
        }
        BufferAnswer {
            kind,
            buffer_bytes: buffer,
            buffer_packets: buffer.map(|found| found.value / packet),
            full_delay_ms: self.full_delay(0).map(|ns| ns / 1e6),
            packet_bytes: self.sizes[0].bytes,
            capacity,
            validity: Validity::of(doubts, || {
                let (trains, packets) = (self.sizes[0].trains.len(), self.sizes[0].packets);
                format!("{trains} trains of {packets} packets filled it alike{}", self.looks_the_same(kind))
            }),
            plot: self.plot.clone(),
        }
    }

    fn doing(&self) -> String {
        match self.phase {
            Phase::Capacity => format!("capacity first: {}", self.capacity.doing()),
            Phase::Idle(_) => "single packets, for the delay of an empty queue".into(),
            Phase::Grow { packets, size } | Phase::Fill { packets, size } => format!(
                "trains of {packets} packets of {} B at {:.3} Mb/s, to fill the queue",
                self.sizes[size].bytes,
                self.rate_bps(size) / 1e6
            ),
            Phase::Done => "done".into(),
        }
    }
}
