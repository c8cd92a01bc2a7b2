//! One direction of a link with everything that [`crate::fifo`] cannot do: a queue under a discipline, a server of
//! any kind, and a wire with impairments, run by events at their nominal instants.
//!
//! Departures from a model packet by packet, all of them only for trains of several segments:
//! 1. A train whose segments come one by one is taken in when its last has come, as if they had come just in time to be
//!    sent in one piece; whole where all of it fits, else segment by segment, and then it stays cut.
//! 2. The segments of a train are spread evenly between the departures of its first and its last.

mod server;
mod wire;

use units::Time;

use crate::{
    Counters, DropCause, LossUnit, Packet, PipeSpec, Train,
    cut::{cut, spacing, squeezed},
    fixed::Fixed,
    loss::Loss,
    queue::{Backlog, Desk, Item, LossDrawn, Part, Queue, limit, per_byte},
};
use server::Server;
use wire::{Fate, Wire};

/// A pipe run by events.
pub(crate) struct Managed<P> {
    spec: PipeSpec,
    queue: Queue<P>,
    desk: Desk<P>,
    server: Server,
    wire: Wire<P>,
    sending: Option<Sending>,
    /// When the server became free.
    free_at: Fixed,
    /// Departures of the first and the last segment of the part that is leaving.
    leaving: Option<(Fixed, Fixed)>,
    dropped: Vec<(Time, DropCause, P)>,
    counters: Counters,
    /// The integral of the queue's bytes since this pipe is a managed one, in the scale of [`Fixed`].
    byte_time: u128,
    /// Up to when it counts.
    counted_until: Fixed,
}

/// The segment in service.
#[derive(Debug, Clone, Copy)]
struct Sending {
    bytes: u64,
    /// Bytes that had not left at the last change.
    remaining: u64,
    /// `None` while the link is down.
    departs: Option<Fixed>,
    /// The wire has lost it already: it only costs capacity.
    is_lost: bool,
    fate: Fate,
}

/// What another kind of pipe leaves behind when it becomes managed.
pub(crate) struct Legacy<P> {
    pub(crate) loss: Option<Loss>,
    pub(crate) counters: Counters,
    /// On the wire already.
    pub(crate) on_wire: Vec<(Train, P)>,
    /// The bytes and departure of the segment in service.
    pub(crate) sending: Option<(u64, Fixed)>,
    /// The part that ends with it, if the wire does not lose it, and when the part's first segment left.
    pub(crate) leaving: Option<(Fixed, P)>,
    /// Still in the queue.
    pub(crate) queued: Vec<P>,
    pub(crate) server_clock: Fixed,
}

impl<P> Legacy<P> {
    /// Of a pipe that holds nothing.
    pub(crate) fn new(counters: Counters) -> Self {
        Legacy {
            loss: None,
            counters,
            on_wire: Vec::new(),
            sending: None,
            leaving: None,
            queued: Vec::new(),
            server_clock: Fixed::ZERO,
        }
    }
}

impl<P: Packet> Managed<P> {
    /// `stream` keeps the random draws of one network's pipes apart.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        Managed {
            spec: spec.clone(),
            queue: Queue::new(&spec.discipline, spec.overhead),
            desk: Desk::new(spec, seed, stream),
            server: Server::new(spec),
            wire: Wire::new(spec, seed, stream),
            sending: None,
            free_at: Fixed::ZERO,
            leaving: None,
            dropped: Vec::new(),
            counters: Counters::default(),
            byte_time: 0,
            counted_until: Fixed::ZERO,
        }
    }

    /// Goes on where another pipe of the same values stops.
    pub(crate) fn with_legacy(spec: &PipeSpec, seed: u64, stream: u64, now: Time, legacy: Legacy<P>) -> Self {
        let mut managed = Managed::new(spec, seed, stream);
        managed.counters = legacy.counters;
        managed.wire.inherit_loss(legacy.loss);
        legacy.on_wire.into_iter().for_each(|(delivery, packet)| managed.wire.inherit(delivery, packet));
        let now = Fixed::from(now);
        (managed.counted_until, managed.free_at, managed.desk.now) = (now, now, now);
        managed.server.set_clock(legacy.server_clock);
        for packet in legacy.queued {
            managed.queue.adopt(Item::new(packet, now, Fixed::ZERO, LossDrawn::Passes));
        }
        let is_lost = legacy.leaving.is_none();
        if let Some((bytes, departs)) = legacy.sending {
            managed.sending =
                Some(Sending { bytes, remaining: bytes, departs: Some(departs), is_lost, fate: Fate::PLAIN });
            managed.desk.serving = Backlog { packets: 1, bytes };
            managed.desk.idle_since = None;
        }
        if let Some((first, packet)) = legacy.leaving {
            managed.leaving = (first < now).then_some((first, first));
            managed.desk.closed = Some(Part { packet, loss: LossDrawn::Passes });
        }
        managed.run(now);
        managed
    }

    /// Takes a packet in.
    #[inline(never)]
    pub(crate) fn offer(&mut self, arrival: Train, packet: P, drop: &mut impl FnMut(Time, DropCause, P)) {
        if self.spec.down {
            self.counters.dropped_down += u64::from(packet.segments());
            drop(arrival.last, DropCause::Down, packet);
            return;
        }
        self.run(Fixed::from(arrival.first));
        let loss = match self.spec.loss_unit {
            LossUnit::Segment => LossDrawn::NotYet,
            LossUnit::SuperPacket => self.wire.draw_whole(arrival.last),
        };
        let arrival = squeezed(arrival, packet.shape(), self.desk.per_byte, self.spec.overhead);
        let (at, step) = (Fixed::from(arrival.first), spacing(arrival, &packet));
        let comes_at_once = step == Fixed::ZERO && !self.server.may_send_at_once();
        let is_whole = (comes_at_once && !self.queue.evicts())
            || (!self.queue.judges_arrivals() && self.desk.fits(self.queue.backlog(), &packet));
        if is_whole {
            self.enter(Item::new(packet, at, step, loss));
        } else {
            let segments = packet.segments();
            cut(packet, (0..segments).map(|segment| (segment, 1)).collect(), |segment, _, part| {
                self.enter(Item::new(part, at + step * u64::from(segment), Fixed::ZERO, loss));
            });
        }
        self.run(Fixed::from(arrival.last));
        self.report(drop);
    }

    /// When [`Managed::pop`] has something to do.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        if !self.dropped.is_empty() {
            return Some(self.desk.now.ceil());
        }
        let departs = self.sending.and_then(|sending| sending.departs).map(Fixed::ceil);
        departs.into_iter().chain(self.wire.next_due()).min()
    }

    /// Does what is due by `now`; returns a packet that comes out, if one does.
    pub(crate) fn pop(&mut self, now: Time, drop: &mut impl FnMut(Time, DropCause, P)) -> Option<(Train, P)> {
        self.run(Fixed::from(now));
        self.report(drop);
        self.wire.pop(now)
    }

    /// Bytes in the queue, as of the last event.
    pub(crate) fn queue_bytes(&self) -> u64 {
        self.counters.queue_bytes
    }

    /// The counters as of `now`; `max_queue_bytes_since` starts anew.
    pub(crate) fn sample(&mut self, now: Time) -> Counters {
        self.run(Fixed::from(now));
        self.count_until(Fixed::from(now));
        let held = self.held();
        let mut counters = self.counters;
        counters.marked += self.desk.marked;
        counters.queue_byte_seconds += Fixed::from_raw(self.byte_time).as_secs_f64();
        (counters.queue_packets, counters.queue_bytes) = (held.packets, held.bytes);
        self.counters.max_queue_bytes_since = held.bytes;
        counters
    }

    /// New values from `now` on. What is queued stays queued, the segment in service goes on at the new rate, and what
    /// is on the wire keeps its arrival.
    pub(crate) fn change(&mut self, now: Time, spec: &PipeSpec) {
        let now = Fixed::from(now);
        self.run(now);
        self.count_until(now);
        let changes_rate = (&self.spec.rate, self.spec.burst) != (&spec.rate, spec.burst);
        if changes_rate || self.spec.down != spec.down {
            self.interrupt(now);
        }
        if changes_rate {
            self.server = self.server.changed(spec, now);
        }
        self.wire.change(&self.spec, spec);
        (self.desk.limit, self.desk.overhead, self.desk.per_byte) =
            (limit(spec), spec.overhead, per_byte(spec));
        if (&self.spec.discipline, self.spec.overhead) != (&spec.discipline, spec.overhead) {
            self.move_queue(spec);
        }
        self.spec = spec.clone();
        if let Some(sending) = self.sending.as_mut().filter(|s| !spec.down && s.departs.is_none()) {
            sending.departs = Some(self.server.serve(now, sending.remaining));
        }
        self.free_at = self.free_at.max(now);
        self.run(now);
    }

    /// The segment in service stops.
    fn interrupt(&mut self, now: Fixed) {
        if let Some(sending) = &mut self.sending
            && let Some(departs) = sending.departs.take()
        {
            sending.remaining = self.server.interrupt(sending.remaining, departs, now);
        }
    }

    fn move_queue(&mut self, spec: &PipeSpec) {
        let items = self.queue.drain(&mut self.desk);
        self.queue = Queue::new(&spec.discipline, spec.overhead);
        items.into_iter().for_each(|item| self.queue.adopt(item));
    }

    fn enter(&mut self, item: Item<P>) {
        let at = item.at;
        self.run(at);
        self.count_until(at);
        self.desk.now = at;
        self.queue.enqueue(item, &mut self.desk);
        self.collect_drops(at);
        self.run(at);
        if self.desk.per_byte.is_some() {
            let held = self.held().bytes;
            self.counters.max_queue_bytes = self.counters.max_queue_bytes.max(held);
            self.counters.max_queue_bytes_since = self.counters.max_queue_bytes_since.max(held);
        }
    }

    /// Does all that is due by `now`.
    fn run(&mut self, now: Fixed) {
        loop {
            match self.sending {
                Some(sending @ Sending { departs: Some(departs), .. }) if departs <= now => {
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

    /// The server is free: the next segment, if the discipline lets one go.
    fn start(&mut self, at: Fixed) {
        self.count_until(at);
        self.desk.now = at;
        let taken = self.queue.dequeue(&mut self.desk);
        self.collect_drops(at);
        if let Some(part) = self.desk.before.take() {
            self.launch(part, Fate::PLAIN);
        }
        let Some(bytes) = taken else { return };
        let departs = self.server.serve(at, bytes);
        self.desk.serving = Backlog { packets: 1, bytes };
        self.desk.idle_since = None;
        let fate = self.wire.fate(self.desk.taken_loss, departs.ceil());
        if fate != Fate::PLAIN {
            self.isolate();
        }
        self.sending =
            Some(Sending { bytes, remaining: bytes, departs: Some(departs), is_lost: false, fate });
    }

    /// The segment whose service begins fares unlike those before it: they go on their way as a part of their own.
    fn isolate(&mut self) {
        self.queue.close(&mut self.desk);
        let Some(last) = &mut self.desk.closed else { return };
        let before = last.packet.segments() - 1;
        if before == 0 {
            return;
        }
        let rest = last.packet.split_off(before);
        let packet = std::mem::replace(&mut last.packet, rest);
        let part = Part { packet, loss: last.loss };
        self.launch(part, Fate::PLAIN);
    }

    /// The last bit of the segment in service has left.
    fn finish(&mut self, departs: Fixed, sending: Sending) {
        self.count_until(departs);
        self.sending = None;
        self.free_at = departs;
        self.desk.serving = Backlog::default();
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += sending.bytes;
        if self.queue.backlog().packets == 0 {
            self.desk.idle_since = Some(departs);
        }
        self.leaving = Some((self.leaving.map_or(departs, |leaving| leaving.0), departs));
        if let Some(part) = self.desk.closed.take() {
            self.launch(part, sending.fate);
        } else if sending.is_lost {
            self.leaving = None;
        }
    }

    fn launch(&mut self, part: Part<P>, fate: Fate) {
        let leaving = self.leaving.take().unwrap_or((self.free_at, self.free_at));
        self.wire.launch(leaving, part, fate, &mut self.counters, &mut self.dropped);
    }

    fn collect_drops(&mut self, at: Fixed) {
        if self.desk.drops.is_empty() {
            return;
        }
        for (cause, packet) in self.desk.drops.drain(..) {
            let segments = u64::from(packet.segments());
            match cause {
                DropCause::Aqm => self.counters.dropped_aqm += segments,
                _ => self.counters.dropped_queue += segments,
            }
            self.dropped.push((at.ceil(), cause, packet));
        }
    }

    fn report(&mut self, drop: &mut impl FnMut(Time, DropCause, P)) {
        self.dropped.drain(..).for_each(|(at, cause, packet)| drop(at, cause, packet));
    }

    /// What waits, with the segment in service.
    fn held(&self) -> Backlog {
        self.queue.backlog().and(self.desk.serving.packets, self.desk.serving.bytes)
    }

    fn count_until(&mut self, now: Fixed) {
        if now <= self.counted_until {
            return;
        }
        let held = self.held().bytes;
        if held > 0 {
            let span = now.saturating_sub(self.counted_until).raw();
            self.byte_time = self.byte_time.saturating_add(span.saturating_mul(u128::from(held)));
        }
        self.counted_until = now;
    }
}
