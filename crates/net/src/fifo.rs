//! One direction of a link: a drop-tail queue, a rate, a delay and losses.
//!
//! When a segment is accepted its departure is known at once (virtual clock), so there is no event for
//! it: one ring says when what leaves the queue, another when which packet is due at the other end.
//! The queue's content at any instant is exact, segment by segment. Everything that needs more than that (other
//! disciplines, jitter, changes during a run) is done by `managed`, which takes over what is here.
//!
//! Departures from a model packet by packet, all of them only for trains of several segments:
//! 1. Of a train only the first and the last delivery are kept, the others are spread evenly between
//!    them; exact where the train queues.
//! 2. A train that comes from a slower link is taken in when its last segment arrives, as if its
//!    segments had come just in time to be sent in one piece: its last segment leaves when it would, and
//!    what came meanwhile is not held up by segments that were still to come.
//! 3. A train that comes from a faster link is taken in when its first segment arrives, and what arrives
//!    before its last waits behind all of it.

use std::collections::VecDeque;

use units::Time;

use crate::{
    Counters, DropCause, Packet, Shape, Train,
    cut::{spacing, squeezed},
    fixed::Fixed,
    in_flight::InFlight,
    loss::Loss,
    managed::Legacy,
    spec::{PipeSpec, QueueLimit},
};

/// A pipe that is not ideal.
pub(crate) struct Fifo<P> {
    per_byte: Option<Fixed>,
    /// The token bucket's depth as the time it takes to fill.
    burst: Option<Fixed>,
    delay: Time,
    limit: QueueLimit,
    overhead: u32,
    loss: Option<Loss>,
    /// When the wire is free; with a token bucket: when the bucket would be full.
    clock: Fixed,
    last_departure: Fixed,
    queue: VecDeque<Queued>,
    wire: InFlight<P>,
    accepted_packets: u64,
    accepted_bytes: u64,
    /// Twice the bytes times the nanoseconds in the queue of what was accepted whole: a part of `queue_byte_seconds`.
    waits: u128,
    counters: Counters,
}

/// Segments that have not left the queue yet, one transmission time apart: of one packet, or of several alike.
struct Queued {
    departs: Fixed,
    last_departs: Fixed,
    segments: u32,
    /// On the wire, as the next.
    bytes: u32,
    last_bytes: u32,
}

impl Queued {
    fn total_bytes(&self) -> u64 {
        u64::from(self.segments - 1) * u64::from(self.bytes) + u64::from(self.last_bytes)
    }
}

/// What becomes of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Sent,
    Dropped(DropCause),
}

/// Neighbouring segments of one packet with one fate.
struct Run {
    fate: Fate,
    segments: u32,
    departs: Fixed,
    last_departs: Fixed,
}

impl<P: Packet> Fifo<P> {
    /// `stream` keeps the random draws of one network's pipes apart.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let per_byte = spec.rate.mean().map(Fixed::per_byte);
        Fifo {
            per_byte,
            burst: spec.burst.and_then(|burst| per_byte.map(|byte| byte * burst.0)),
            delay: spec.delay,
            limit: if per_byte.is_some() { spec.queue } else { QueueLimit::Unlimited },
            overhead: spec.overhead,
            loss: Loss::new(&spec.loss, seed, stream),
            clock: Fixed::ZERO,
            last_departure: Fixed::ZERO,
            queue: VecDeque::new(),
            wire: InFlight::new(),
            accepted_packets: 0,
            accepted_bytes: 0,
            waits: 0,
            counters: Counters::default(),
        }
    }

    /// The everyday case: takes in a single segment of so many bytes of IP that comes at `came`, and says when it is due at
    /// the other end; the packet itself is to follow by [`Fifo::launch_one`]. None where it does not fit, or where more is to
    /// be asked than whether it does: that is for [`Fifo::admit`].
    // By itself, for with the packet in hand too little would stay in registers.
    #[inline(never)]
    pub(crate) fn admit_one(&mut self, came: Time, bytes: u32) -> Option<Time> {
        if self.burst.is_some() || self.loss.is_some() {
            return None;
        }
        let at = Fixed::from(came);
        let bytes = bytes + self.overhead;
        let total = u64::from(bytes);
        if self.last_departure <= at {
            self.all_have_left();
        } else {
            self.advance_fixed(at);
        }
        let Some(byte) = self.per_byte else { return self.pass_undelayed(at, came, total) };
        if !self.fits(1, total) {
            return None;
        }
        let departs = self.last_departure.max(at) + byte * total;
        self.last_departure = departs;
        self.enqueue(Queued { departs, last_departs: departs, segments: 1, bytes, last_bytes: bytes });
        let left = departs.ceil();
        self.waits += u128::from(2 * total) * u128::from(left.0 - came.0);
        Some(Time(left.0.saturating_add(self.delay.0)))
    }

    /// Where there is no rate, and nothing before it is still to come, a single segment leaves the queue as it enters it.
    #[inline]
    fn pass_undelayed(&mut self, at: Fixed, came: Time, bytes: u64) -> Option<Time> {
        if !self.queue.is_empty() || self.last_departure > at {
            return None;
        }
        self.last_departure = at;
        self.accepted_packets += 1;
        self.accepted_bytes += bytes;
        Some(Time(came.0.saturating_add(self.delay.0)))
    }

    /// Takes a packet of this shape in, if it is one that goes as a whole, and says when it is due at the other end and how
    /// its segments arrive there; the packet itself is to follow by [`Fifo::launch`]. `cut_through` says that another queue
    /// follows, so that it is due when its first segment arrives there, not its last.
    #[inline(never)]
    pub(crate) fn admit(&mut self, arrival: Train, shape: Shape, cut_through: bool) -> Option<(Time, Train)> {
        let arrival = squeezed(arrival, shape, self.per_byte, self.overhead);
        self.advance(arrival.first);
        if !self.takes_whole(arrival, shape) {
            return None;
        }
        let at = Fixed::from(arrival.first);
        let (segments, total) = (shape.segments, shape.wire_bytes(self.overhead));
        let bytes = shape.segment_bytes + self.overhead;
        let last_bytes = shape.last_segment_bytes + self.overhead;
        let before = self.last_departure;
        let last_departs = self.serve(at, total);
        let departs = match segments {
            1 => last_departs,
            _ => before.max(at) + self.per_byte.unwrap_or(Fixed::ZERO) * u64::from(bytes),
        };
        self.enqueue(Queued { segments, bytes, last_bytes, departs, last_departs });
        let last = last_departs.ceil();
        let first = if segments == 1 { last } else { departs.ceil() };
        // To the nanosecond, twice: of the first and of the last segment.
        let came = arrival.first.0;
        self.waits += u128::from(total) * u128::from((first.0 - came) + (last.0 - came));
        let arrives = |left: Time| Time(left.0.saturating_add(self.delay.0));
        let delivery = Train { first: arrives(first), last: arrives(last) };
        Some((if cut_through { delivery.first } else { delivery.last }, delivery))
    }

    /// A single segment that was admitted.
    #[inline]
    pub(crate) fn launch_one(&mut self, due: Time, packet: P) {
        self.wire.push_one(due, packet);
    }

    /// A packet that was admitted.
    #[inline]
    pub(crate) fn launch(&mut self, due: Time, delivery: Train, packet: P) {
        self.wire.push(due, delivery, packet);
    }

    /// Takes a packet in that was not admitted whole. `drop` gets what is dropped.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_by_segment(
        &mut self,
        arrival: Train,
        shape: Shape,
        packet: P,
        cut_through: bool,
        mut drop: impl FnMut(DropCause, P),
    ) {
        let arrival = squeezed(arrival, shape, self.per_byte, self.overhead);
        self.accept_by_segment(arrival, packet, cut_through, &mut drop);
    }

    /// Whether packets leave here at least as fast as `other` can send them on. Without a rate trains pass
    /// as they came, and nothing is known.
    pub(crate) fn is_no_slower_than(&self, other: &Self) -> bool {
        matches!((self.per_byte, other.per_byte), (Some(own), Some(other)) if own <= other)
    }

    /// When the next packet on the wire is due.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.wire.next_due()
    }

    /// Takes the next packet off the wire, if it is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Train, P)> {
        self.wire.pop(now)
    }

    /// All that it holds at `now`, for a pipe of another kind. What has been lost on the wire but has not left the
    /// queue takes up no capacity from now on, apart from the segment in service.
    pub(crate) fn into_legacy(mut self, now: Time) -> Legacy<P> {
        let counters = self.sample(now);
        let sending = self.queue.front().map(|front| {
            (u64::from(if front.segments == 1 { front.last_bytes } else { front.bytes }), front.departs)
        });
        let (byte, serving) = (self.per_byte.unwrap_or(Fixed::ZERO), sending.map_or(0, |sending| sending.0));
        let serving_until = sending.map_or(now, |sending| sending.1.ceil());
        let mut legacy = Legacy {
            loss: self.loss,
            counters: Counters { queue_packets: 0, queue_bytes: 0, ..counters },
            on_wire: Vec::new(),
            sending: sending.filter(|_| self.per_byte.is_some()),
            leaving: None,
            queued: Vec::new(),
            server_clock: self.clock.saturating_sub(byte * (counters.queue_bytes - serving)),
        };
        while let Some((delivery, mut packet)) = self.wire.take() {
            let left = |at: Time| at.0.saturating_sub(self.delay.0);
            let (first, last) = (left(delivery.first), left(delivery.last));
            if last <= now.0 || self.per_byte.is_none() {
                legacy.on_wire.push((delivery, packet));
                continue;
            }
            // Segments that leave by the end of the one in service.
            let segments = packet.segments();
            let gone = if first > serving_until.0 {
                0
            } else if last <= serving_until.0 {
                segments
            } else {
                let (span, done) = (u128::from(last - first), u128::from(serving_until.0 - first));
                ((done * u128::from(segments - 1) + span / 2) / span) as u32 + 1
            };
            if gone == 0 {
                legacy.queued.push(packet);
                continue;
            }
            if gone < segments {
                legacy.queued.push(packet.split_off(gone));
            }
            legacy.leaving = Some((Fixed::from(Time(first)), packet));
        }
        legacy
    }

    /// How long it takes until all that was taken in has left the queue.
    pub(crate) fn busy(&self, now: Time) -> Time {
        Time(self.last_departure.ceil().0.saturating_sub(now.0))
    }

    /// The counters as of `now`; `max_queue_bytes_since` starts anew.
    pub(crate) fn sample(&mut self, now: Time) -> Counters {
        self.advance(now);
        let mut counters = self.counters;
        counters.sent_packets = self.accepted_packets - counters.queue_packets;
        counters.sent_bytes = self.accepted_bytes - counters.queue_bytes;
        counters.queue_byte_seconds += self.waits as f64 * 0.5e-9;
        self.counters.max_queue_bytes_since = self.counters.queue_bytes;
        counters
    }

    /// True for the common case: all segments at once, all of them fit, none is lost (its draws are then taken).
    #[inline]
    fn takes_whole(&mut self, arrival: Train, shape: Shape) -> bool {
        let segments = shape.segments;
        let alike = segments == 1 || (arrival.first == arrival.last && self.burst.is_none());
        alike
            && self.fits(segments, shape.wire_bytes(self.overhead))
            && self.loss.as_mut().is_none_or(|loss| loss.all_pass(segments))
    }

    fn accept_by_segment(
        &mut self,
        arrival: Train,
        mut packet: P,
        cut_through: bool,
        drop: &mut impl FnMut(DropCause, P),
    ) {
        let total = packet.segments();
        let (first, step) = (Fixed::from(arrival.first), spacing(arrival, &packet));
        let (bytes, last_bytes) = (packet.segment_bytes(), packet.last_segment_bytes());
        let mut run: Option<Run> = None;
        for i in 0..total {
            let wire_bytes = self.overhead + if i + 1 == total { last_bytes } else { bytes };
            let (fate, departs) = self.accept_segment(first + step * u64::from(i), wire_bytes);
            match &mut run {
                Some(run) if run.fate == fate => {
                    run.segments += 1;
                    run.last_departs = departs;
                }
                _ => {
                    if let Some(done) = run.take() {
                        let rest = packet.split_off(done.segments);
                        let part = std::mem::replace(&mut packet, rest);
                        self.settle(done, part, cut_through, drop);
                    }
                    run = Some(Run { fate, segments: 1, departs, last_departs: departs });
                }
            }
        }
        if let Some(done) = run {
            self.settle(done, packet, cut_through, drop);
        }
    }

    /// Decides on one segment of `bytes` on the wire, and when it leaves.
    #[inline(never)]
    fn accept_segment(&mut self, at: Fixed, wire_bytes: u32) -> (Fate, Fixed) {
        let bytes = u64::from(wire_bytes);
        self.advance_fixed(at);
        if !self.fits(1, bytes) {
            self.counters.dropped_queue += 1;
            return (Fate::Dropped(DropCause::Queue), at);
        }
        let departs = self.serve(at, bytes);
        self.counters.queue_byte_seconds += bytes as f64 * departs.saturating_sub(at).as_nanos_f64() * 1e-9;
        self.enqueue(Queued {
            segments: 1,
            bytes: wire_bytes,
            last_bytes: wire_bytes,
            departs,
            last_departs: departs,
        });
        if self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(departs.ceil())) {
            self.counters.dropped_loss += 1;
            return (Fate::Dropped(DropCause::Loss), departs);
        }
        (Fate::Sent, departs)
    }

    fn settle(&mut self, run: Run, part: P, cut_through: bool, drop: &mut impl FnMut(DropCause, P)) {
        match run.fate {
            Fate::Sent => {
                let arrives = |at: Fixed| Time(at.ceil().0.saturating_add(self.delay.0));
                let delivery = Train { first: arrives(run.departs), last: arrives(run.last_departs) };
                let due = if cut_through { delivery.first } else { delivery.last };
                self.launch(due, delivery, part);
            }
            Fate::Dropped(cause) => drop(cause, part),
        }
    }

    /// The departure of `bytes` that come at `at`, and the clock after it.
    #[inline]
    fn serve(&mut self, at: Fixed, bytes: u64) -> Fixed {
        let departs = match (self.per_byte, self.burst) {
            (None, _) => at.max(self.last_departure),
            (Some(byte), None) => self.last_departure.max(at) + byte * bytes,
            (Some(byte), Some(burst)) => {
                let cost = byte * bytes;
                let departs = at.max(self.last_departure).max((self.clock + cost).saturating_sub(burst));
                self.clock = self.clock.max(departs) + cost;
                departs
            }
        };
        self.last_departure = departs;
        departs
    }

    #[inline(always)]
    fn enqueue(&mut self, queued: Queued) {
        let bytes = queued.total_bytes();
        let counters = &mut self.counters;
        counters.queue_packets += u64::from(queued.segments);
        counters.queue_bytes += bytes;
        if self.per_byte.is_some() {
            counters.max_queue_bytes = counters.max_queue_bytes.max(counters.queue_bytes);
            counters.max_queue_bytes_since = counters.max_queue_bytes_since.max(counters.queue_bytes);
        }
        self.accepted_packets += u64::from(queued.segments);
        self.accepted_bytes += bytes;
        if let Some(last) = self.queue.back_mut()
            && (last.bytes, last.last_bytes) == (queued.bytes, queued.bytes)
            && queued.departs
                == last.last_departs + self.per_byte.unwrap_or(Fixed::ZERO) * u64::from(queued.bytes)
        {
            last.segments += queued.segments;
            last.last_bytes = queued.last_bytes;
            last.last_departs = queued.last_departs;
        } else {
            self.queue.push_back(queued);
        }
    }

    /// Counts out what has left the queue by `now`.
    fn advance(&mut self, now: Time) {
        self.advance_fixed(Fixed::from(now));
    }

    /// The same where the last of all has left.
    #[inline]
    fn all_have_left(&mut self) {
        self.queue.clear();
        (self.counters.queue_packets, self.counters.queue_bytes) = (0, 0);
    }

    #[inline]
    fn advance_fixed(&mut self, now: Fixed) {
        while let Some(front) = self.queue.front_mut() {
            if front.last_departs <= now {
                self.counters.queue_packets -= u64::from(front.segments);
                self.counters.queue_bytes -= front.total_bytes();
                self.queue.pop_front();
                continue;
            }
            if front.segments > 1 && front.departs <= now {
                let spacing = self.per_byte.unwrap_or(Fixed::ZERO) * u64::from(front.bytes);
                let gone = if front.departs + spacing > now {
                    1
                } else {
                    let steps = now.saturating_sub(front.departs).count(spacing).saturating_add(1);
                    steps.min(u64::from(front.segments - 1))
                };
                self.counters.queue_packets -= gone;
                self.counters.queue_bytes -= gone * u64::from(front.bytes);
                front.segments -= gone as u32;
                front.departs = front.departs + spacing * gone;
            }
            break;
        }
    }

    #[inline]
    fn fits(&self, segments: u32, bytes: u64) -> bool {
        match self.limit {
            QueueLimit::Unlimited => true,
            QueueLimit::Bytes(limit) => self.counters.queue_bytes + bytes <= limit.0,
            QueueLimit::Packets(limit) => self.counters.queue_packets + u64::from(segments) <= limit,
        }
    }
}
