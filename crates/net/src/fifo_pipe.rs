//! One direction of a link with a drop-tail queue, a rate, a delay and losses.
//!
//! The departure of a segment is known when it is accepted (virtual clock), so it needs no event. One ring
//! buffer holds the departures from the queue, another the packets in flight. The queue's content at any
//! instant is exact, segment by segment. [`crate::event_pipe`] implements everything else (other disciplines,
//! jitter, changes during a run) and takes over the state of this pipe.
//!
//! Differences from a model of single packets, all of them only for trains of several segments:
//! 1. Only the first and the last delivery of a train are stored; the others are spread evenly between them.
//!    This is exact if the train waits in the queue.
//! 2. A train from a slower link is accepted when its last segment arrives, as if its segments had arrived
//!    just in time to be sent without gaps. Its last segment leaves at the correct time, and packets that
//!    arrive in between do not wait for segments that have not arrived.
//! 3. A train from a faster link is accepted when its first segment arrives, and packets that arrive before
//!    its last segment wait behind the whole train.

use std::collections::VecDeque;

use units::{Instant, Time};

use crate::{
    DropCause, Packet, PacketShape, PipeCounters, PipeSpec, QueueLimit, TrainTimes,
    fixed::Fixed,
    handover::Handover,
    in_flight::InFlight,
    loss::Loss,
    train::{close_gaps, spacing},
};

/// A pipe with a drop-tail queue.
pub(crate) struct FifoPipe<P> {
    per_byte: Option<Fixed>,
    /// The token bucket's size as the time that it takes to fill.
    burst: Option<Fixed>,
    delay: Time,
    limit: QueueLimit,
    overhead: u32,
    loss: Option<Loss>,
    /// When the wire is free; with a token bucket, when the bucket would be full.
    clock: Fixed,
    last_departure: Fixed,
    queue: VecDeque<QueuedSegments>,
    in_flight: InFlight<P>,
    accepted_packets: u64,
    accepted_bytes: u64,
    /// Twice the bytes times the nanoseconds in the queue of the packets accepted whole: a part of
    /// `queue_byte_seconds`.
    doubled_byte_nanos: u128,
    counters: PipeCounters,
}

/// Segments in the queue that leave one transmission time apart: of one packet, or of several packets of the
/// same size.
struct QueuedSegments {
    departs: Fixed,
    last_departs: Fixed,
    segments: u32,
    /// Bytes on the wire of each segment but the last.
    bytes: u32,
    /// Bytes on the wire of the last segment.
    last_bytes: u32,
}

impl QueuedSegments {
    fn total_bytes(&self) -> u64 {
        u64::from(self.segments - 1) * u64::from(self.bytes) + u64::from(self.last_bytes)
    }
}

/// Whether a segment is sent or dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentFate {
    Sent,
    Dropped(DropCause),
}

/// Adjacent segments of one packet with the same fate.
struct SegmentRun {
    fate: SegmentFate,
    segments: u32,
    departs: Fixed,
    last_departs: Fixed,
}

impl<P: Packet> FifoPipe<P> {
    /// `stream` distinguishes the random numbers of one network's pipes.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let per_byte = spec.rate.mean().map(Fixed::per_byte);
        FifoPipe {
            per_byte,
            burst: spec.burst.and_then(|burst| per_byte.map(|byte| byte * burst.0)),
            delay: spec.delay,
            limit: if per_byte.is_some() { spec.queue } else { QueueLimit::Unlimited },
            overhead: spec.overhead,
            loss: Loss::new(&spec.loss, seed, stream),
            clock: Fixed::ZERO,
            last_departure: Fixed::ZERO,
            queue: VecDeque::new(),
            in_flight: InFlight::new(),
            accepted_packets: 0,
            accepted_bytes: 0,
            doubled_byte_nanos: 0,
            counters: PipeCounters::default(),
        }
    }

    /// Fast path for a single segment of `bytes` IP bytes that arrives at `arrived`, without token bucket and
    /// losses. Returns when it is due at the other end; the caller then passes the packet to
    /// [`FifoPipe::launch_single`]. `None` if it does not fit, or if this is not the common case: then the
    /// caller uses [`FifoPipe::admit`].
    // The packet is not an argument, so that the other values stay in registers.
    #[inline(never)]
    pub(crate) fn admit_single(&mut self, arrived: Instant, bytes: u32) -> Option<Instant> {
        if self.burst.is_some() || self.loss.is_some() {
            return None;
        }
        let at = Fixed::from(arrived);
        let bytes = bytes + self.overhead;
        let total = u64::from(bytes);
        if self.last_departure <= at {
            self.empty_queue();
        } else {
            self.advance_fixed(at);
        }
        let Some(byte) = self.per_byte else { return self.admit_without_rate(at, arrived, total) };
        if !self.fits(1, total) {
            return None;
        }
        let departs = self.last_departure.max(at) + byte * total;
        self.last_departure = departs;
        self.enqueue(QueuedSegments {
            departs,
            last_departs: departs,
            segments: 1,
            bytes,
            last_bytes: bytes,
        });
        let left = departs.ceil();
        self.doubled_byte_nanos += u128::from(2 * total) * u128::from(left.since(arrived).as_nanos());
        Some(left + self.delay)
    }

    /// Without a rate, and with no earlier segment still to leave, a single segment leaves the queue at once.
    #[inline]
    fn admit_without_rate(&mut self, at: Fixed, arrived: Instant, bytes: u64) -> Option<Instant> {
        if !self.queue.is_empty() || self.last_departure > at {
            return None;
        }
        self.last_departure = at;
        self.accepted_packets += 1;
        self.accepted_bytes += bytes;
        Some(arrived + self.delay)
    }

    /// Accepts a packet of this shape if all of its segments have the same fate. Returns when it is due at
    /// the other end, and the arrival of its segments there; the caller then passes the packet to
    /// [`FifoPipe::launch`]. With `cut_through` another queue follows, and the packet is due when its first
    /// segment arrives there, instead of its last.
    #[inline(never)]
    pub(crate) fn admit(
        &mut self,
        arrival: TrainTimes,
        shape: PacketShape,
        cut_through: bool,
    ) -> Option<(Instant, TrainTimes)> {
        let arrival = close_gaps(arrival, shape, self.per_byte, self.overhead);
        self.advance(arrival.first);
        if !self.accepts_whole(arrival, shape) {
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
        self.enqueue(QueuedSegments { segments, bytes, last_bytes, departs, last_departs });
        let last = last_departs.ceil();
        let first = if segments == 1 { last } else { departs.ceil() };
        // The mean wait of the segments is half the sum of the first and the last one's.
        let doubled_wait = first.since(arrival.first).as_nanos() + last.since(arrival.first).as_nanos();
        self.doubled_byte_nanos += u128::from(total) * u128::from(doubled_wait);
        let delivery = TrainTimes { first: first + self.delay, last: last + self.delay };
        Some((if cut_through { delivery.first } else { delivery.last }, delivery))
    }

    /// Puts an admitted single segment in flight.
    #[inline]
    pub(crate) fn launch_single(&mut self, due: Instant, packet: P) {
        self.in_flight.push_single(due, packet);
    }

    /// Puts an admitted packet in flight.
    #[inline]
    pub(crate) fn launch(&mut self, due: Instant, delivery: TrainTimes, packet: P) {
        self.in_flight.push(due, delivery, packet);
    }

    /// Accepts or drops each segment of a packet that was not admitted whole. `drop` receives the dropped
    /// parts.
    #[cold]
    #[inline(never)]
    pub(crate) fn offer_by_segment(
        &mut self,
        arrival: TrainTimes,
        shape: PacketShape,
        packet: P,
        cut_through: bool,
        mut drop: impl FnMut(DropCause, P),
    ) {
        let arrival = close_gaps(arrival, shape, self.per_byte, self.overhead);
        self.accept_by_segment(arrival, packet, cut_through, &mut drop);
    }

    /// Whether packets leave here at least as fast as `other` can send them. False without a rate: then
    /// trains keep the unknown rate at which they arrive.
    pub(crate) fn is_no_slower_than(&self, other: &Self) -> bool {
        matches!((self.per_byte, other.per_byte), (Some(own), Some(other)) if own <= other)
    }

    /// When the next packet in flight is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.in_flight.next_due()
    }

    /// Takes the next packet in flight if it is due.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(TrainTimes, P)> {
        self.in_flight.pop(now)
    }

    /// Converts the state at `now` for an [`EventPipe`](crate::event_pipe::EventPipe). Segments that the wire
    /// loses but that have not left the queue use no more capacity, except the segment in service.
    pub(crate) fn into_handover(mut self, now: Instant) -> Handover<P> {
        let counters = self.sample(now);
        let sending = self.queue.front().map(|front| {
            (u64::from(if front.segments == 1 { front.last_bytes } else { front.bytes }), front.departs)
        });
        let (byte, serving) = (self.per_byte.unwrap_or(Fixed::ZERO), sending.map_or(0, |sending| sending.0));
        let serving_until = sending.map_or(now, |sending| sending.1.ceil());
        let mut handover = Handover {
            loss: self.loss,
            counters: PipeCounters { queue_packets: 0, queue_bytes: 0, ..counters },
            on_wire: Vec::new(),
            sending: sending.filter(|_| self.per_byte.is_some()),
            leaving: None,
            queued: Vec::new(),
            server_clock: self.clock.saturating_sub(byte * (counters.queue_bytes - serving)),
        };
        while let Some((delivery, mut packet)) = self.in_flight.take() {
            let first = delivery.first.saturating_sub(self.delay);
            let last = delivery.last.saturating_sub(self.delay);
            if last <= now || self.per_byte.is_none() {
                handover.on_wire.push((delivery, packet));
                continue;
            }
            // Segments that leave by the end of the one in service.
            let segments = packet.segments();
            let departed = if first > serving_until {
                0
            } else if last <= serving_until {
                segments
            } else {
                let span = u128::from(last.since(first).as_nanos());
                let done = u128::from(serving_until.since(first).as_nanos());
                ((done * u128::from(segments - 1) + span / 2) / span) as u32 + 1
            };
            if departed == 0 {
                handover.queued.push(packet);
                continue;
            }
            if departed < segments {
                handover.queued.push(packet.split_off(departed));
            }
            handover.leaving = Some((Fixed::from(first), packet));
        }
        handover
    }

    /// The time until all accepted packets have left the queue.
    pub(crate) fn drain_time(&self, now: Instant) -> Time {
        self.last_departure.ceil().saturating_since(now)
    }

    /// The counters as of `now`. Resets `max_queue_bytes_since`.
    pub(crate) fn sample(&mut self, now: Instant) -> PipeCounters {
        self.advance(now);
        let mut counters = self.counters;
        counters.sent_packets = self.accepted_packets - counters.queue_packets;
        counters.sent_bytes = self.accepted_bytes - counters.queue_bytes;
        counters.queue_byte_seconds += self.doubled_byte_nanos as f64 * 0.5e-9;
        self.counters.max_queue_bytes_since = self.counters.queue_bytes;
        counters
    }

    /// Whether all segments arrive at once, all of them fit, and none is lost: the common case. If so, draws
    /// their random numbers.
    #[inline]
    fn accepts_whole(&mut self, arrival: TrainTimes, shape: PacketShape) -> bool {
        let segments = shape.segments;
        let arrives_at_once = segments == 1 || (arrival.first == arrival.last && self.burst.is_none());
        arrives_at_once
            && self.fits(segments, shape.wire_bytes(self.overhead))
            && self.loss.as_mut().is_none_or(|loss| loss.all_pass(segments))
    }

    fn accept_by_segment(
        &mut self,
        arrival: TrainTimes,
        mut packet: P,
        cut_through: bool,
        drop: &mut impl FnMut(DropCause, P),
    ) {
        let total = packet.segments();
        let (first, step) = (Fixed::from(arrival.first), spacing(arrival, &packet));
        let (bytes, last_bytes) = (packet.segment_bytes(), packet.last_segment_bytes());
        let mut run: Option<SegmentRun> = None;
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
                        let remaining = packet.split_off(done.segments);
                        let part = std::mem::replace(&mut packet, remaining);
                        self.finish_run(done, part, cut_through, drop);
                    }
                    run = Some(SegmentRun { fate, segments: 1, departs, last_departs: departs });
                }
            }
        }
        if let Some(done) = run {
            self.finish_run(done, packet, cut_through, drop);
        }
    }

    /// Decides the fate of one segment, and when it leaves.
    #[inline(never)]
    fn accept_segment(&mut self, at: Fixed, wire_bytes: u32) -> (SegmentFate, Fixed) {
        let bytes = u64::from(wire_bytes);
        self.advance_fixed(at);
        if !self.fits(1, bytes) {
            self.counters.dropped_queue += 1;
            return (SegmentFate::Dropped(DropCause::Queue), at);
        }
        let departs = self.serve(at, bytes);
        self.counters.queue_byte_seconds += bytes as f64 * departs.saturating_sub(at).as_nanos_f64() * 1e-9;
        self.enqueue(QueuedSegments {
            segments: 1,
            bytes: wire_bytes,
            last_bytes: wire_bytes,
            departs,
            last_departs: departs,
        });
        if self.loss.as_mut().is_some_and(|loss| loss.next_is_lost(departs.ceil())) {
            self.counters.dropped_loss += 1;
            return (SegmentFate::Dropped(DropCause::Loss), departs);
        }
        (SegmentFate::Sent, departs)
    }

    /// Launches or drops the part of a packet that `run` describes.
    fn finish_run(
        &mut self,
        run: SegmentRun,
        part: P,
        cut_through: bool,
        drop: &mut impl FnMut(DropCause, P),
    ) {
        match run.fate {
            SegmentFate::Sent => {
                let arrives = |at: Fixed| at.ceil() + self.delay;
                let delivery = TrainTimes { first: arrives(run.departs), last: arrives(run.last_departs) };
                let due = if cut_through { delivery.first } else { delivery.last };
                self.launch(due, delivery, part);
            }
            SegmentFate::Dropped(cause) => drop(cause, part),
        }
    }

    /// Computes the departure of `bytes` that arrive at `at`, and advances the clock.
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
    fn enqueue(&mut self, queued: QueuedSegments) {
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

    /// Removes the segments that have left the queue by `now`.
    fn advance(&mut self, now: Instant) {
        self.advance_fixed(Fixed::from(now));
    }

    /// As [`FifoPipe::advance`], when all segments have left.
    #[inline]
    fn empty_queue(&mut self) {
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
                let departed = if front.departs + spacing > now {
                    1
                } else {
                    let steps = now.saturating_sub(front.departs).count(spacing).saturating_add(1);
                    steps.min(u64::from(front.segments - 1))
                };
                self.counters.queue_packets -= departed;
                self.counters.queue_bytes -= departed * u64::from(front.bytes);
                front.segments -= departed as u32;
                front.departs = front.departs + spacing * departed;
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
