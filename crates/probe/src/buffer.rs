//! The bottleneck's buffer: a train faster than the capacity fills it, the delay grows, and where it is full packets are lost
//! (Hirabaru, IEICE Trans. Commun. E89-D(1), 2006). Buffer = capacity x queueing delay of a full queue.
//!
//! The train grows until it shows many losses close together: single ones may be the wire's, or an active queue's. A full
//! queue takes a packet for each that leaves, so that the delays of packets received among the losses are those of a full queue.
//! Packets of two sizes tell a limit in packets from one in bytes. What it is, in the order of the questions asked:
//! *policer* (loss without delay growth), *shaper* (a bucket's bytes pass at once, then the delay grows), *active queue* (losses
//! although the queue still grows, or few for so much excess), and else *drop-tail*.

use serde::Serialize;
use units::Time;

use crate::{
    answer::{Interval, Limits, Validity},
    capacity::{Capacity, CapacityAnswer, most_packets},
    statistics::{least, median, quantile, slope},
    train::{Fleet, Method, Received, Seen, Step, Train},
};

/// How much faster than the capacity a train is sent.
const EXCESS: f64 = 2.0;
/// Packets of the first train, and by how much each is longer than the one before.
const FIRST: usize = 128;
const GROWTH: usize = 2;
/// Losses close together: so many packets, of which at least this share of what must be lost is.
const WINDOW: usize = 32;
const DENSE: f64 = 0.5;
/// Trains of the final length.
const TRAINS: usize = 4;
/// The smaller packets, as a share of the larger.
const SMALLER: f64 = 0.5;
/// Single packets that show the delay of an empty queue.
const IDLE: usize = 20;
/// Rests between two trains, in durations of a train.
const PAUSE: f64 = 6.0;

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

/// What packets of one size have shown.
#[derive(Debug, Clone, Default)]
struct OfSize {
    bytes: u32,
    least_delay: Option<f64>,
    trains: Vec<Full>,
    packets: usize,
    /// Losses of the last train, where they were not dense.
    sparse: usize,
}

/// A train that filled the queue, or did not.
#[derive(Debug, Clone, Copy)]
struct Full {
    /// Delay of packets received where losses are dense, ns.
    full_delay: f64,
    /// Delay before the first loss of all, ns.
    first_delay: f64,
    /// How the delays spread where losses are dense, ns.
    spread: f64,
    /// Losses before they became dense.
    early: usize,
    /// Bytes that passed before the first loss.
    passed: f64,
    /// The rate they were sent at, bit/s.
    sent_bps: f64,
    /// What passes of the train while the queue grows, bit/s: the rest of the capacity is other traffic's.
    share_bps: Option<f64>,
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

    fn note_delays(&mut self, size: usize, seen: &Seen) {
        let least = least(seen.received().map(|packet| packet.delay_ns()));
        let own = &mut self.sizes[size].least_delay;
        *own = match (*own, least) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    /// Where losses become dense, what the delays are from there on.
    fn full(&self, size: usize, seen: &Seen) -> Option<Full> {
        let sent = seen.sent_bps()?;
        let must = 1.0 - self.passes_bps(size) / sent;
        let enough = (must * DENSE * WINDOW as f64).max(3.0) as usize;
        let lost: Vec<bool> = seen.arrived_ns.iter().map(Option::is_none).collect();
        let first = lost.iter().position(|lost| *lost)?;
        let dense = (first..lost.len().checked_sub(WINDOW)?)
            .find(|at| lost[*at] && lost[*at..at + WINDOW].iter().filter(|lost| **lost).count() >= enough)?;
        let received: Vec<Received> = seen.received().collect();
        let among: Vec<f64> =
            received.iter().filter(|packet| packet.number > dense).map(|packet| packet.delay_ns()).collect();
        let among = if among.len() >= 3 {
            among
        } else {
            vec![received.iter().rfind(|p| p.number < dense)?.delay_ns()]
        };
        let first_delay = received.iter().rfind(|p| p.number < first).map_or(among[0], |p| p.delay_ns());
        Some(Full {
            full_delay: quantile(&among, 0.95)?,
            first_delay,
            spread: quantile(&among, 0.9)? - quantile(&among, 0.1)?,
            passed: first as f64 * f64::from(seen.bytes),
            sent_bps: sent,
            share_bps: {
                let growing: Vec<(f64, f64)> = received
                    .iter()
                    .take_while(|p| p.number < first)
                    .map(|p| (p.arrived_ns as f64, p.number as f64 * f64::from(seen.bytes) * 8e9))
                    .collect();
                slope(&growing[growing.len() / 2..])
            },
            early: lost[first..dense].iter().filter(|lost| **lost).count(),
        })
    }

    fn grow(&mut self, size: usize, packets: usize, seen: &Seen) {
        self.note_delays(size, seen);
        if self.full(size, seen).is_some() {
            // Somewhat more, so that each of them does.
            let packets = (packets * 3 / 2).min(self.most(size));
            self.sizes[size].packets = packets;
            self.phase = Phase::Fill { size, packets };
        } else if packets < self.most(size) {
            let packets = (packets * GROWTH).min(self.most(size));
            self.phase = Phase::Grow { size, packets };
        } else {
            self.sizes[size].packets = packets;
            self.sizes[size].sparse = seen.lost();
            self.keep_plot(size, seen);
            self.phase = Phase::Fill { size, packets };
        }
    }

    fn fill(&mut self, size: usize, packets: usize, seen: &[Seen]) {
        for seen in seen {
            self.note_delays(size, seen);
        }
        let full: Vec<Full> = seen.iter().filter_map(|seen| self.full(size, seen)).collect();
        if full.len() * 2 < seen.len() && packets < self.most(size) {
            self.phase = Phase::Grow { size, packets: (packets * GROWTH).min(self.most(size)) };
            return;
        }
        self.sizes[size].trains = full;
        if size == 0 {
            if let Some(last) = seen.last() {
                self.keep_plot(size, last);
            }
            // Twice as many of half the size fill it as well.
            let smaller =
                (packets as f64 * f64::from(self.sizes[0].bytes) / f64::from(self.sizes[1].bytes)) as usize;
            self.phase = match self.sizes[0].trains.is_empty() {
                true => Phase::Done,
                false => Phase::Grow { size: 1, packets: smaller.min(self.most(1)) },
            };
        } else {
            self.phase = Phase::Done;
        }
    }

    fn keep_plot(&mut self, size: usize, seen: &Seen) {
        let base = self.sizes[size].least_delay.unwrap_or(0.0);
        let queueing = |(number, (sent, arrived)): (usize, (&i64, &Option<i64>))| {
            (number, arrived.map(|at| (at as f64 - *sent as f64 - base) / 1e6))
        };
        self.plot = seen.sent_ns.iter().zip(&seen.arrived_ns).enumerate().map(queueing).collect();
    }

    /// The queueing delay of a full queue of packets of this size, with what the packet itself takes, ns.
    fn full_delay(&self, size: usize) -> Option<f64> {
        let own = &self.sizes[size];
        let full = median(&own.trains.iter().map(|t| t.full_delay).collect::<Vec<_>>())?;
        Some((full - own.least_delay?).max(0.0))
    }

    /// Time of a packet of this size on the link, ns.
    fn packet_ns(&self, size: usize) -> f64 {
        f64::from(self.sizes[size].bytes) * 8e9 / self.passes_bps(size).max(1.0)
    }

    /// What a policer's bucket holds: what passed before the first loss, less what tokens came meanwhile. It fills at the capacity
    /// and is emptied by the train and by cross traffic.
    fn policer(&self, known: &CapacityAnswer) -> Option<f64> {
        let drained = |train: &Full| {
            let sent = train.sent_bps.min(known.peak_bps.unwrap_or(f64::INFINITY));
            train.passed * (1.0 - (self.passes_bps(0) - known.cross_bps.unwrap_or(0.0)) / sent)
        };
        // Cross traffic leaves it emptier: the fullest of them.
        quantile(&self.sizes[0].trains.iter().map(drained).collect::<Vec<_>>(), 1.0)
    }

    /// Each train lost its first packet at the same place, as where nobody else takes tokens.
    fn is_regular(&self) -> bool {
        let passed: Vec<f64> = self.sizes[0].trains.iter().map(|train| train.passed).collect();
        let range = quantile(&passed, 1.0).zip(quantile(&passed, 0.0)).map_or(0.0, |(most, least)| most - least);
        range <= 2.0 * f64::from(self.sizes[0].bytes)
    }

    fn classify(&self, doubts: &mut Vec<String>) -> (BufferKind, Option<f64>) {
        let Some(known) = &self.known else { return (BufferKind::Unknown, None) };
        let (Some(delay), gap) = (self.full_delay(0), self.packet_ns(0)) else {
            if self.sizes[0].sparse > 0 {
                doubts.push(
                    "packets were dropped although the queue was not full: an active queue, or a lossy link"
                        .into(),
                );
                return (BufferKind::ActiveQueue, None);
            }
            return (BufferKind::Unknown, None);
        };
        let bytes = f64::from(self.sizes[0].bytes);
        let bucket = known.bucket_bytes;
        let noise = 3.0 * self.limits.resolution_ns;
        if let Some(bucket) = bucket {
            if delay < (3.0 * gap).max(noise) {
                if known.cross_bps.is_some_and(|cross| cross > SOME_CROSS * self.capacity_bps())
                    || !self.is_regular()
                {
                    doubts.push(
                        "other traffic empties the policer's bucket as well: it holds at least this".into(),
                    );
                }
                return (BufferKind::Policer, Some(self.policer(known).unwrap_or(bucket)));
            }
            // A packet that the bucket pays for takes no time: its own is not in the least delay.
            return (BufferKind::Shaper, Some(delay * self.passes_bps(0) / 8e9));
        }
        let trains = &self.sizes[0].trains;
        let typical =
            |of: fn(&Full) -> f64| median(&trains.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0);
        let base = self.sizes[0].least_delay.unwrap_or(0.0);
        let (first, early, spread) =
            (typical(|t| t.first_delay) - base, typical(|t| t.early as f64), typical(|t| t.spread));
        if delay < (2.0 * gap).max(noise) {
            doubts.push(
                "packets are lost although the delay does not grow: a policer, or a queue of a packet or two"
                    .into(),
            );
            return (BufferKind::Policer, None);
        }
        if early >= 3.0 && first < 0.8 * delay && first > 2.0 * gap {
            doubts.push(
                "packets were dropped before the queue was full: an active queue, or a lossy link".into(),
            );
            return (BufferKind::ActiveQueue, Some((delay / gap + 1.0) * bytes));
        }
        if spread > (0.3 * delay).max(4.0 * gap).max(noise) {
            doubts.push("packets were lost at very different delays: an active queue has no one size".into());
            return (BufferKind::ActiveQueue, None);
        }
        // Full at `packets` of this size; of the other size?
        let packets = delay / gap + 1.0;
        let Some(smaller) = self.full_delay(1).map(|delay| delay / self.packet_ns(1) + 1.0) else {
            doubts.push(
                "packets of a smaller size did not fill it: whether it counts bytes or packets is not known"
                    .into(),
            );
            return (BufferKind::DropTailBytes, Some(packets * bytes));
        };
        let wire = |size: usize| f64::from(self.sizes[size].bytes) + ETHERNET;
        let by_packets = (smaller / packets - 1.0).abs();
        let by_bytes = (smaller * wire(1) / (packets * wire(0)) - 1.0).abs();
        if by_packets.min(by_bytes) > 0.15 {
            doubts.push("packets of two sizes disagree on what the queue holds".into());
        }
        // A packet more would not have fitted, of either size: in bytes the smaller ones are the finer measure.
        if by_packets < by_bytes {
            let shares: Vec<f64> = trains.iter().filter_map(|t| t.share_bps).collect();
            if median(&shares).is_none_or(|share| share < self.passes_bps(0) / (1.0 + SOME_CROSS / EXCESS)) {
                doubts.push("other traffic, whose packets may be smaller, shares a queue that counts packets: it holds at least these".into());
            }
            (BufferKind::DropTailPackets, Some(packets * bytes))
        } else {
            let finer = smaller * wire(1) / wire(0) * bytes;
            (BufferKind::DropTailBytes, Some(finer.clamp(packets * bytes, (packets + 1.0) * bytes)))
        }
    }
}

/// Other traffic counts from this share of the capacity.
const SOME_CROSS: f64 = 0.1;
/// The header of Ethernet, bytes: what a link carries with each packet at least.
const ETHERNET: f64 = 14.0;

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
            let by = blur + share * bytes;
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
                format!(
                    "{} trains of {} packets filled it alike",
                    self.sizes[0].trains.len(),
                    self.sizes[0].packets
                )
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

impl Buffer {
    fn trains(&self, size: usize, packets: usize, count: usize) -> Fleet {
        let train = Train::paced(self.sizes[size].bytes, packets, self.rate_bps(size));
        let pause = Time((train.duration_ns() as f64 * PAUSE) as u64 + 1_000_000);
        Fleet { trains: vec![train; count], gap: pause }
    }
}
