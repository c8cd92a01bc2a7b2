//! One direction of a link with everything that [`crate::fifo_pipe`] cannot do: a queue with a discipline,
//! any kind of server, and a wire with impairments, driven by events at their nominal instants.
//!
//! Differences from a model of single packets, all of them only for trains of several segments:
//! 1. A train whose segments arrive one by one is accepted when its last segment has arrived, as if the
//!    segments had arrived just in time to be sent without gaps. It is accepted as a whole if all of it fits,
//!    otherwise segment by segment; in that case it stays split.
//! 2. The segments of a train are spread evenly between the departures of its first and its last.

mod server;
mod wire;

use units::{Instant, Time};

use crate::{
    DropCause, LossUnit, PipeCounters, PipeSpec, TrainTimes, XcpPacket,
    fixed::Fixed,
    handover::Handover,
    queue::{
        Backlog, LossDraw, PacketPart, Queue, QueueContext, QueuedPacket, effective_limit, mean_time_per_byte,
    },
    train::{close_gaps, spacing, split},
};
use server::Server;
use wire::{ImpairedWire, WireFate};

/// A pipe driven by events.
pub(crate) struct EventPipe<P> {
    spec: PipeSpec,
    queue: Queue<P>,
    context: QueueContext<P>,
    server: Server,
    wire: ImpairedWire<P>,
    sending: Option<SegmentInService>,
    /// When the server became free.
    free_at: Fixed,
    /// Departures of the first and the last segment of the part that is leaving.
    leaving: Option<(Fixed, Fixed)>,
    dropped: Vec<(Instant, DropCause, P)>,
    counters: PipeCounters,
    /// Integral of the queue's bytes over time until `integrated_until`, in the scale of [`Fixed`], without
    /// the part of the pipe before a handover.
    byte_time: u128,
    integrated_until: Fixed,
}

/// The segment in service.
#[derive(Debug, Clone, Copy)]
struct SegmentInService {
    bytes: u64,
    /// Bytes that had not left at the last change.
    remaining: u64,
    /// `None` while the link is down.
    departs: Option<Fixed>,
    /// The wire has lost it already: it only uses capacity.
    is_lost: bool,
    fate: WireFate,
}

impl<P: XcpPacket> EventPipe<P> {
    /// `stream` distinguishes the random numbers of one network's pipes.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        EventPipe {
            spec: spec.clone(),
            queue: Queue::new(&spec.discipline, spec.overhead),
            context: QueueContext::new(spec, seed, stream),
            server: Server::new(spec),
            wire: ImpairedWire::new(spec, seed, stream),
            sending: None,
            free_at: Fixed::ZERO,
            leaving: None,
            dropped: Vec::new(),
            counters: PipeCounters::default(),
            byte_time: 0,
            integrated_until: Fixed::ZERO,
        }
    }

    /// Continues another pipe with the same specification.
    pub(crate) fn with_handover(
        spec: &PipeSpec,
        seed: u64,
        stream: u64,
        now: Instant,
        handover: Handover<P>,
    ) -> Self {
        let mut pipe = EventPipe::new(spec, seed, stream);
        pipe.counters = handover.counters;
        pipe.wire.inherit_loss(handover.loss);
        handover.on_wire.into_iter().for_each(|(delivery, packet)| pipe.wire.inherit(delivery, packet));
        let now = Fixed::from(now);
        (pipe.integrated_until, pipe.free_at, pipe.context.now) = (now, now, now);
        pipe.server.set_clock(handover.server_clock);
        for packet in handover.queued {
            pipe.queue.adopt(QueuedPacket::new(packet, now, Fixed::ZERO, LossDraw::Passes));
        }
        let is_lost = handover.leaving.is_none();
        if let Some((bytes, departs)) = handover.sending {
            let (departs, fate) = (Some(departs), WireFate::UNIMPAIRED);
            pipe.sending = Some(SegmentInService { bytes, remaining: bytes, departs, is_lost, fate });
            pipe.context.serving = Backlog { packets: 1, bytes };
            pipe.context.idle_since = None;
        }
        if let Some((first, packet)) = handover.leaving {
            pipe.leaving = (first < now).then_some((first, first));
            pipe.context.closed = Some(PacketPart { packet, loss: LossDraw::Passes });
        }
        pipe.run(now);
        pipe
    }

    /// Accepts or drops a packet.
    #[inline(never)]
    pub(crate) fn offer(
        &mut self,
        arrival: TrainTimes,
        packet: P,
        drop: &mut impl FnMut(Instant, DropCause, P),
    ) {
        if self.spec.down {
            self.counters.dropped_down += u64::from(packet.segments());
            drop(arrival.last, DropCause::Down, packet);
            return;
        }
        self.run(Fixed::from(arrival.first));
        let loss = match self.spec.loss_unit {
            LossUnit::Segment => LossDraw::Pending,
            LossUnit::SuperPacket => self.wire.draw_for_packet(arrival.last),
        };
        let arrival = close_gaps(arrival, packet.shape(), self.context.per_byte, self.spec.overhead);
        let (at, step) = (Fixed::from(arrival.first), spacing(arrival, &packet));
        let arrives_at_once = step == Fixed::ZERO && !self.server.may_send_at_once();
        let is_enqueued_whole = (arrives_at_once && !self.queue.evicts())
            || (!self.queue.decides_on_arrival() && self.context.fits(self.queue.backlog(), &packet));
        if is_enqueued_whole {
            self.enqueue(QueuedPacket::new(packet, at, step, loss));
        } else {
            let segments = packet.segments();
            split(packet, (0..segments).map(|segment| (segment, 1)).collect(), |segment, _, part| {
                self.enqueue(QueuedPacket::new(part, at + step * u64::from(segment), Fixed::ZERO, loss));
            });
        }
        self.run(Fixed::from(arrival.last));
        self.report_drops(drop);
    }

    /// The instant at which [`EventPipe::pop`] must be called.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        if !self.dropped.is_empty() {
            return Some(self.context.now.ceil());
        }
        let departs = self.sending.and_then(|sending| sending.departs).map(Fixed::ceil);
        departs.into_iter().chain(self.wire.next_due()).min()
    }

    /// Processes the events until `now`. Returns the packet that leaves, if one does.
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        drop: &mut impl FnMut(Instant, DropCause, P),
    ) -> Option<(TrainTimes, P)> {
        self.run(Fixed::from(now));
        self.report_drops(drop);
        self.wire.pop(now)
    }

    /// The time until the segment in service and those in the queue have left, at the mean rate. Zero while
    /// the link is down: arriving packets do not wait for it.
    pub(crate) fn drain_time(&self, now: Instant) -> Time {
        let Some(byte) = self.context.per_byte.filter(|_| !self.spec.down) else { return Time::ZERO };
        let departs = self.sending.and_then(|sending| sending.departs).unwrap_or(Fixed::ZERO);
        (departs.saturating_sub(Fixed::from(now)) + byte * self.queue.backlog().bytes).ceil_span()
    }

    /// The counters as of `now`. Resets `max_queue_bytes_since`.
    pub(crate) fn sample(&mut self, now: Instant) -> PipeCounters {
        self.run(Fixed::from(now));
        self.integrate_until(Fixed::from(now));
        let held = self.held();
        let mut counters = self.counters;
        counters.marked += self.context.marked;
        counters.queue_byte_seconds += Fixed::from_raw(self.byte_time).as_secs_f64();
        (counters.queue_packets, counters.queue_bytes) = (held.packets, held.bytes);
        self.counters.max_queue_bytes_since = held.bytes;
        counters
    }

    /// Applies a new specification from `now` on. Queued packets stay queued, the segment in service
    /// continues at the new rate, and packets on the wire keep their arrival time.
    pub(crate) fn change(&mut self, now: Instant, spec: &PipeSpec) {
        let now = Fixed::from(now);
        self.run(now);
        self.integrate_until(now);
        let changes_rate = (&self.spec.rate, self.spec.burst) != (&spec.rate, spec.burst);
        if changes_rate || self.spec.down != spec.down {
            self.interrupt(now);
        }
        if changes_rate {
            self.server = self.server.changed(spec, now);
        }
        self.wire.change(&self.spec, spec);
        (self.context.limit, self.context.overhead, self.context.per_byte) =
            (effective_limit(spec), spec.overhead, mean_time_per_byte(spec));
        if (&self.spec.discipline, self.spec.overhead) != (&spec.discipline, spec.overhead) {
            self.replace_queue(spec);
        }
        self.spec = spec.clone();
        if let Some(sending) = self.sending.as_mut().filter(|s| !spec.down && s.departs.is_none()) {
            sending.departs = Some(self.server.serve(now, sending.remaining));
        }
        self.free_at = self.free_at.max(now);
        self.run(now);
    }

    /// Interrupts the service of the current segment.
    fn interrupt(&mut self, now: Fixed) {
        if let Some(sending) = &mut self.sending
            && let Some(departs) = sending.departs.take()
        {
            sending.remaining = self.server.interrupt(sending.remaining, departs, now);
        }
    }

    /// Moves the waiting packets to a new queue.
    fn replace_queue(&mut self, spec: &PipeSpec) {
        let packets = self.queue.drain(&mut self.context);
        self.queue = Queue::new(&spec.discipline, spec.overhead);
        packets.into_iter().for_each(|queued| self.queue.adopt(queued));
    }

    fn enqueue(&mut self, queued: QueuedPacket<P>) {
        let at = queued.at;
        self.run(at);
        self.integrate_until(at);
        self.context.now = at;
        self.queue.enqueue(queued, &mut self.context);
        self.collect_drops(at);
        self.run(at);
        if self.context.per_byte.is_some() {
            let held = self.held().bytes;
            self.counters.max_queue_bytes = self.counters.max_queue_bytes.max(held);
            self.counters.max_queue_bytes_since = self.counters.max_queue_bytes_since.max(held);
        }
    }

    /// Processes all departures and service starts until `now`.
    fn run(&mut self, now: Fixed) {
        loop {
            match self.sending {
                Some(sending @ SegmentInService { departs: Some(departs), .. }) if departs <= now => {
                    self.finish(departs, sending);
                }
                Some(_) => return,
                None if self.spec.down => return,
                None => match self.queue.ready_at().map(|at| at.max(self.free_at)) {
                    Some(at) if at <= now => self.start(at),
                    _ => return,
                },
            }
        }
    }

    /// The server is free: starts the service of the next segment, if the discipline does not drop all of
    /// them.
    fn start(&mut self, at: Fixed) {
        self.integrate_until(at);
        self.context.now = at;
        let taken = self.queue.dequeue(&mut self.context);
        self.collect_drops(at);
        if let Some(part) = self.context.closed_before.take() {
            self.launch(part, WireFate::UNIMPAIRED);
        }
        let Some(bytes) = taken else { return };
        let departs = self.server.serve(at, bytes);
        self.context.serving = Backlog { packets: 1, bytes };
        self.context.idle_since = None;
        let fate = self.wire.fate(self.context.taken_loss, departs.ceil());
        if fate != WireFate::UNIMPAIRED {
            self.isolate_last_segment();
        }
        self.sending =
            Some(SegmentInService { bytes, remaining: bytes, departs: Some(departs), is_lost: false, fate });
    }

    /// The wire impairs the segment whose service begins: launches the segments before it as a separate part.
    fn isolate_last_segment(&mut self) {
        self.queue.close(&mut self.context);
        let Some(last) = &mut self.context.closed else { return };
        let before = last.packet.segments() - 1;
        if before == 0 {
            return;
        }
        let segment = last.packet.split_off(before);
        let packet = std::mem::replace(&mut last.packet, segment);
        let part = PacketPart { packet, loss: last.loss };
        self.launch(part, WireFate::UNIMPAIRED);
    }

    /// The last bit of the segment in service has left.
    fn finish(&mut self, departs: Fixed, sending: SegmentInService) {
        self.integrate_until(departs);
        self.sending = None;
        self.free_at = departs;
        self.context.serving = Backlog::default();
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += sending.bytes;
        if self.queue.backlog().packets == 0 {
            self.context.idle_since = Some(departs);
        }
        self.leaving = Some((self.leaving.map_or(departs, |leaving| leaving.0), departs));
        if let Some(part) = self.context.closed.take() {
            self.launch(part, sending.fate);
        } else if sending.is_lost {
            self.leaving = None;
        }
    }

    fn launch(&mut self, part: PacketPart<P>, fate: WireFate) {
        let leaving = self.leaving.take().unwrap_or((self.free_at, self.free_at));
        self.wire.launch(leaving, part, fate, &mut self.counters, &mut self.dropped);
    }

    fn collect_drops(&mut self, at: Fixed) {
        if self.context.drops.is_empty() {
            return;
        }
        for (cause, packet) in self.context.drops.drain(..) {
            let segments = u64::from(packet.segments());
            match cause {
                DropCause::Aqm => self.counters.dropped_aqm += segments,
                _ => self.counters.dropped_queue += segments,
            }
            self.dropped.push((at.ceil(), cause, packet));
        }
    }

    fn report_drops(&mut self, drop: &mut impl FnMut(Instant, DropCause, P)) {
        self.dropped.drain(..).for_each(|(at, cause, packet)| drop(at, cause, packet));
    }

    /// The waiting segments and the segment in service.
    fn held(&self) -> Backlog {
        self.queue.backlog().plus(self.context.serving.packets, self.context.serving.bytes)
    }

    fn integrate_until(&mut self, now: Fixed) {
        if now <= self.integrated_until {
            return;
        }
        let held = self.held().bytes;
        if held > 0 {
            let span = now.saturating_sub(self.integrated_until).raw();
            self.byte_time = self.byte_time.saturating_add(span.saturating_mul(u128::from(held)));
        }
        self.integrated_until = now;
    }
}
