//! The bottleneck's buffer: a train faster than the capacity fills it, the delay increases, and packets are
//! lost when it is full (Hirabaru, IEICE Trans. Commun. E89-D(1), 2006). Buffer size = capacity x queueing
//! delay of the full queue.
//!
//! The train grows until it shows dense losses: single losses may be due to the link, or to active queue
//! management (an *active queue*).
//! A full queue accepts a packet for each one that leaves, so that packets received among the losses have the
//! delay of a full queue. Packets of two sizes distinguish a limit in packets from a limit in bytes. The kind
//! of the queue, in the order of the tests: *policer* (losses without increasing delay), *shaper* (a bucket's
//! bytes pass at once, then the delay increases), *active queue* (losses while the queue still grows, or
//! fewer than the excess rate requires), else *drop-tail*.

mod classify;
mod fill;

use serde::Serialize;
use units::Time;

use crate::{
    capacity::{Capacity, CapacityResult, max_packets},
    result::{Interval, ProbeLimits, Validity},
    train::{Fleet, Method, Step, Train, TrainObservation},
};

use fill::{EXCESS_RATE, FINAL_TRAINS, SizeSamples};

/// Number of packets of the first train.
const FIRST_TRAIN_PACKETS: usize = 128;
/// Size of the smaller packets, as a fraction of the larger.
const SMALLER_SIZE: f64 = 0.5;
/// Number of single packets that measure the delay of an empty queue.
const IDLE_PACKETS: usize = 20;
/// Ethernet header, bytes: the minimum that a link carries in addition to each packet.
const ETHERNET_HEADER_BYTES: f64 = 14.0;
/// CoDel drops packets when the queueing delay exceeded the target for an interval (RFC 8289), ns.
const CODEL_TARGET_NS: f64 = 5e6;
const CODEL_INTERVAL_NS: f64 = 100e6;

/// The kind of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// Drop-tail FIFO, limited in bytes.
    DropTailBytes,
    /// Drop-tail FIFO, limited in packets of any size.
    DropTailPackets,
    /// A token bucket with a queue.
    Shaper,
    /// A token bucket without a queue.
    Policer,
    /// Active queue management: packets are dropped before the queue is full.
    ActiveQueue,
    /// A host dropped packets, so the host's buffer was filled.
    Host,
    /// No packets were lost.
    Unknown,
}

/// The result of a buffer measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BufferResult {
    /// Kind of the queue.
    pub kind: BufferKind,
    /// Size of the queue, counted as IP bytes of the larger packets; for a policer the size of its bucket.
    /// `None` if it is unknown or varies.
    pub buffer_bytes: Option<Interval>,
    /// Size of the queue, packets of `packet_bytes`.
    pub buffer_packets: Option<f64>,
    /// Queueing delay of the full queue, milliseconds; for an active queue at the first drops.
    pub full_delay_ms: Option<f64>,
    /// Size of the larger packets, bytes, IP header included.
    pub packet_bytes: u32,
    /// The capacity, which was measured first.
    pub capacity: CapacityResult,
    /// Whether the result is reliable.
    pub validity: Validity,
    /// Points for a plot of the last train: index and queueing delay, ms, of each packet; `None` if it was
    /// lost.
    #[serde(skip)]
    pub plot: Vec<(usize, Option<f64>)>,
}

/// Relative uncertainty of a queue's size: cross traffic and the first drops of an active queue shift the
/// time when it is full. On random paths 95 % of the true values are within this fraction plus a packet
/// (crates/probe/tests/accuracy.rs).
const SIZE_UNCERTAINTY: f64 = 0.02;

/// The measurement method.
#[derive(Debug, Clone)]
pub struct BottleneckBuffer {
    limits: ProbeLimits,
    capacity: Capacity,
    capacity_result: Option<CapacityResult>,
    phase: BufferPhase,
    sizes: [SizeSamples; 2],
    has_host_drops: bool,
    warnings: Vec<String>,
    plot: Vec<(usize, Option<f64>)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum BufferPhase {
    Capacity,
    Idle(usize),
    Grow { size: usize, packets: usize },
    Fill { size: usize, packets: usize },
    Done,
}

impl BottleneckBuffer {
    /// A measurement of the capacity and then of the buffer.
    pub fn new(limits: ProbeLimits) -> Self {
        let size = |bytes: u32| SizeSamples { bytes, ..SizeSamples::default() };
        BottleneckBuffer {
            limits,
            capacity: Capacity::new(limits),
            capacity_result: None,
            phase: BufferPhase::Capacity,
            sizes: [size(limits.mtu), size((f64::from(limits.mtu) * SMALLER_SIZE) as u32)],
            has_host_drops: false,
            warnings: Vec::new(),
            plot: Vec::new(),
        }
    }

    fn capacity_bps(&self) -> f64 {
        self.capacity_result.as_ref().and_then(|known| known.capacity_bps).map_or(0.0, |found| found.value)
    }

    /// The rate at which packets of this size are sent.
    fn send_rate_bps(&self, size: usize) -> f64 {
        EXCESS_RATE * self.capacity_at_size_bps(size)
    }

    /// The capacity in packets of this size, assuming Ethernet headers, which are the most common.
    fn capacity_at_size_bps(&self, size: usize) -> f64 {
        let share = |bytes: u32| f64::from(bytes) / (f64::from(bytes) + ETHERNET_HEADER_BYTES);
        self.capacity_bps() * share(self.sizes[size].bytes) / share(self.sizes[0].bytes)
    }

    fn max_train_packets(&self, size: usize) -> usize {
        max_packets(&self.limits, self.sizes[size].bytes) * 9 / 10
    }
}

impl BottleneckBuffer {
    /// Names the kind of queue that these trains cannot distinguish from `kind`, if there is one.
    fn indistinguishable_queue(&self, kind: BufferKind) -> String {
        let is_drop_tail = matches!(kind, BufferKind::DropTailBytes | BufferKind::DropTailPackets);
        let exceeds_target = self.full_delay(0).is_some_and(|ns| ns > CODEL_TARGET_NS);
        let train_ns = self.fleet(0, self.sizes[0].packets, 1).trains[0].duration_ns() as f64;
        match is_drop_tail && exceeds_target && train_ns < 2.0 * CODEL_INTERVAL_NS {
            true => format!(
                "; a train of {:.0} ms cannot show an active queue that begins to drop later (CoDel: after \
                100 ms)",
                train_ns / 1e6
            ),
            false => String::new(),
        }
    }
}

impl Method for BottleneckBuffer {
    type Output = BufferResult;

    fn next_step(&mut self) -> Step {
        loop {
            match self.phase {
                BufferPhase::Capacity => {
                    if let Step::Send(fleet) = self.capacity.next_step() {
                        return Step::Send(fleet);
                    }
                    let known = self.capacity.result();
                    self.phase =
                        if known.capacity_bps.is_some() { BufferPhase::Idle(0) } else { BufferPhase::Done };
                    self.capacity_result = Some(known);
                }
                BufferPhase::Idle(size) => {
                    return Step::Send(Fleet {
                        trains: vec![Train::burst(self.sizes[size].bytes, 1); IDLE_PACKETS],
                        gap: Time::from_millis(5),
                    });
                }
                BufferPhase::Grow { size, packets } => return Step::Send(self.fleet(size, packets, 1)),
                BufferPhase::Fill { size, packets } => {
                    return Step::Send(self.fleet(size, packets, FINAL_TRAINS));
                }
                BufferPhase::Done => return Step::Done,
            }
        }
    }

    fn add_observations(&mut self, observations: &[TrainObservation]) {
        self.has_host_drops |= self.phase != BufferPhase::Capacity
            && observations.iter().any(|observation| observation.host_drops > 0);
        match self.phase {
            BufferPhase::Capacity => self.capacity.add_observations(observations),
            BufferPhase::Idle(size) => {
                for observation in observations {
                    self.add_delays(size, observation);
                }
                let packets = FIRST_TRAIN_PACKETS.min(self.max_train_packets(0));
                self.phase =
                    if size == 0 { BufferPhase::Idle(1) } else { BufferPhase::Grow { size: 0, packets } };
            }
            BufferPhase::Grow { size, packets } => {
                if let Some(observation) = observations.first() {
                    self.add_growing_train(size, packets, observation);
                }
            }
            BufferPhase::Fill { size, packets } => self.add_final_trains(size, packets, observations),
            BufferPhase::Done => {}
        }
    }

    fn result(&self) -> BufferResult {
        let capacity = self.capacity_result.clone().unwrap_or_else(|| self.capacity.result());
        let mut warnings = self.warnings.clone();
        if !capacity.validity.valid {
            warnings.extend(capacity.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        let (mut kind, bytes) = self.classify(&mut warnings);
        if self.has_host_drops {
            kind = BufferKind::Host;
            warnings.push("a host dropped packets, so its buffer was filled and not the path's".into());
        }
        if kind == BufferKind::Unknown {
            warnings.push(format!(
                "trains of {} packets had no losses: the buffer is larger, or this host sends no faster than \
                the path; allow a higher rate",
                self.sizes[0].packets
            ));
        }
        let gap = self.packet_ns(0);
        let packet = f64::from(self.sizes[0].bytes);
        let buffer = bytes.map(|bytes| {
            let resolution = packet + self.limits.resolution_ns / gap * packet;
            let share = capacity.capacity_bps.map_or(0.0, |c| ((c.high - c.low) / 2.0 / c.value).min(0.5));
            let half_width = resolution + (SIZE_UNCERTAINTY + share) * bytes;
            Interval { low: (bytes - half_width).max(0.0), value: bytes, high: bytes + half_width }
        });
        if let Some(found) = buffer
            && found.high > 1.5 * found.value
        {
            warnings.push(
                "the queue is hardly longer than a packet, or the resolution of the timestamps is too low \
                for it"
                    .into(),
            );
        }
        BufferResult {
            kind,
            buffer_bytes: buffer,
            buffer_packets: buffer.map(|found| found.value / packet),
            full_delay_ms: self.full_delay(0).map(|ns| ns / 1e6),
            packet_bytes: self.sizes[0].bytes,
            capacity,
            validity: Validity::new(warnings, || {
                let (trains, packets) = (self.sizes[0].trains.len(), self.sizes[0].packets);
                format!("{trains} trains of {packets} packets agree{}", self.indistinguishable_queue(kind))
            }),
            plot: self.plot.clone(),
        }
    }

    fn progress(&self) -> String {
        match self.phase {
            BufferPhase::Capacity => format!("capacity first: {}", self.capacity.progress()),
            BufferPhase::Idle(_) => "single packets, to measure the delay of an empty queue".into(),
            BufferPhase::Grow { packets, size } | BufferPhase::Fill { packets, size } => format!(
                "trains of {packets} packets of {} B at {:.3} Mb/s, to fill the queue",
                self.sizes[size].bytes,
                self.send_rate_bps(size) / 1e6
            ),
            BufferPhase::Done => "done".into(),
        }
    }
}
