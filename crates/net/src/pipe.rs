//! One direction of a link, whatever it is made of: an enum, so that the hot path has no indirect call.

use units::{Bytes, Time};

use crate::{
    Counters, Discipline, DropCause, LossModel, LossUnit, Packet, PipeSpec, Rate, Shape, Train,
    fifo::Fifo,
    managed::{Legacy, Managed},
};

/// One direction of a link: its kind, and what a pipe of another kind needs to take over.
pub(crate) struct Pipe<P> {
    kind: Kind<P>,
    /// Apart, so that what is asked of pipes for each packet lies close together.
    spec: Box<PipeSpec>,
    seed: u64,
    stream: u64,
}

/// What serves.
///
/// The network calls [`Pipe::take_in`] with each packet that does not pass at once, [`Pipe::pop`] when [`Pipe::next_wake`] has come, and
/// asks for the next wake after each of both. Instants never go back.
enum Kind<P> {
    /// Packets pass at once and unharmed.
    Ideal(Ideal),
    /// First in, first out, and the departure is known on arrival.
    Fifo(Box<Fifo<P>>),
    /// Everything else, run by events.
    Managed(Box<Managed<P>>),
}

/// What an ideal pipe counts.
#[derive(Debug, Default)]
struct Ideal {
    packets: u64,
    bytes: u64,
    overhead: u32,
}

impl<P: Packet> Pipe<P> {
    /// `stream` keeps the random draws of one network's pipes apart.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let kind = if spec.is_ideal() {
            Kind::Ideal(Ideal { overhead: spec.overhead, ..Ideal::default() })
        } else if is_plain(spec) {
            Kind::Fifo(Box::new(Fifo::new(spec, seed, stream)))
        } else {
            Kind::Managed(Box::new(Managed::new(spec, seed, stream)))
        };
        Pipe { kind, spec: Box::new(spec.clone()), seed, stream }
    }

    /// New values from `now` on: what is queued stays queued and leaves at the new rate, what is on the wire keeps its
    /// arrival; counters and generators go on. The pipe is a managed one from then on.
    pub(crate) fn change(&mut self, now: Time, spec: &PipeSpec) {
        // The MTU is the network's business.
        if *self.spec == (PipeSpec { mtu: self.spec.mtu, ..spec.clone() }) {
            return;
        }
        if let Kind::Ideal(ideal) = &mut self.kind
            && spec.is_ideal()
        {
            ideal.overhead = spec.overhead;
            self.spec.as_mut().clone_from(spec);
            return;
        }
        if !matches!(self.kind, Kind::Managed(_)) {
            let kind = std::mem::replace(&mut self.kind, Kind::Ideal(Ideal::default()));
            let legacy = match kind {
                Kind::Fifo(fifo) => fifo.into_legacy(now),
                Kind::Ideal(ideal) => Legacy::new(ideal.counters()),
                Kind::Managed(_) => return,
            };
            let managed = Managed::with_legacy(&self.spec, self.seed, self.stream, now, legacy);
            self.kind = Kind::Managed(Box::new(managed));
        }
        if let Kind::Managed(managed) = &mut self.kind {
            managed.change(now, spec);
        }
        self.spec.as_mut().clone_from(spec);
    }

    /// Whether a packet comes out at once, unchanged (an ideal pipe). It is counted, if so.
    #[inline]
    pub(crate) fn passes_at_once(&mut self, shape: Shape) -> bool {
        let Kind::Ideal(ideal) = &mut self.kind else { return false };
        ideal.packets += u64::from(shape.segments);
        ideal.bytes += shape.wire_bytes(ideal.overhead);
        true
    }

    /// Takes in a single segment of so many bytes of IP that comes at `came`, if that is all there is to it here. Gives when
    /// the next wake is, if that has changed; else the packet, for [`Pipe::take_in`].
    #[inline(always)]
    pub(crate) fn take_in_one(&mut self, came: Time, bytes: u32, packet: P) -> Result<Option<Time>, P> {
        let Kind::Fifo(fifo) = &mut self.kind else { return Err(packet) };
        let Some(due) = fifo.admit_one(came, bytes) else { return Err(packet) };
        // The first in line is due next, whoever joins behind it.
        let was_empty = fifo.next_due().is_none();
        fifo.launch_one(due, packet);
        Ok(was_empty.then_some(due))
    }

    /// Takes a packet in, which measures so, that does not pass at once. `cut_through` says that another queue follows, so that a train may come out when its first segment
    /// arrives there, not its last. `drop` gets what is dropped, with its instant. Says whether the next wake may have
    /// changed.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        arrival: Train,
        shape: Shape,
        packet: P,
        cut_through: bool,
        mut drop: impl FnMut(Time, DropCause, P),
    ) -> bool {
        match &mut self.kind {
            Kind::Ideal(_) => false,
            Kind::Fifo(fifo) => {
                // The first in line is due next, whoever joins behind it.
                let was_empty = fifo.next_due().is_none();
                match fifo.admit(arrival, shape, cut_through) {
                    Some((due, delivery)) => fifo.launch(due, delivery, packet),
                    None => fifo.offer_by_segment(arrival, shape, packet, cut_through, |cause, packet| {
                        drop(arrival.first, cause, packet);
                    }),
                }
                was_empty
            }
            Kind::Managed(managed) => {
                managed.offer(arrival, packet, &mut drop);
                true
            }
        }
    }

    /// Takes a packet in as a network does. Returns the packet where it passes at once.
    #[cfg(test)]
    pub(crate) fn offer(
        &mut self,
        arrival: Train,
        packet: P,
        cut_through: bool,
        drop: impl FnMut(Time, DropCause, P),
    ) -> Option<P> {
        let shape = packet.shape();
        if self.passes_at_once(shape) {
            return Some(packet);
        }
        self.take_in(arrival, shape, packet, cut_through, drop);
        None
    }

    /// When [`Pipe::pop`] has something to do.
    #[inline]
    pub(crate) fn next_wake(&self) -> Option<Time> {
        match &self.kind {
            Kind::Ideal(_) => None,
            Kind::Managed(managed) => managed.next_wake(),
            Kind::Fifo(fifo) => fifo.next_due(),
        }
    }

    /// Does what is due at the instant that [`Pipe::next_wake`] gave, `now`; returns a packet that comes out, if one
    /// does. To be called again while the next wake is not after `now`.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time, mut drop: impl FnMut(Time, DropCause, P)) -> Option<(Train, P)> {
        match &mut self.kind {
            Kind::Ideal(_) => None,
            Kind::Fifo(fifo) => fifo.pop(now),
            Kind::Managed(managed) => managed.pop(now, &mut drop),
        }
    }

    /// The counters as of `now`; `max_queue_bytes_since` starts anew.
    pub(crate) fn sample(&mut self, now: Time) -> Counters {
        match &mut self.kind {
            Kind::Ideal(ideal) => ideal.counters(),
            Kind::Fifo(fifo) => fifo.sample(now),
            Kind::Managed(managed) => managed.sample(now),
        }
    }

    /// Whether trains leave here at least as fast as `other` can send them on, so that `other` may take them in
    /// when their first segment arrives.
    pub(crate) fn is_no_slower_than(&self, other: &Self) -> bool {
        matches!((&self.kind, &other.kind), (Kind::Fifo(own), Kind::Fifo(other)) if own.is_no_slower_than(other))
    }

    /// How long it takes until all that was taken in has left the queue.
    pub(crate) fn busy(&self, now: Time) -> Time {
        match &self.kind {
            Kind::Ideal(_) => Time(0),
            Kind::Fifo(fifo) => fifo.busy(now),
            Kind::Managed(managed) => {
                let queued = managed.queue_bytes();
                self.spec.rate.mean().map_or(Time(0), |rate| rate.transmit_time(Bytes(queued)))
            }
        }
    }

    /// True where packets pass at once.
    pub(crate) fn is_ideal(&self) -> bool {
        matches!(self.kind, Kind::Ideal(_))
    }
}

impl Ideal {
    fn counters(&self) -> Counters {
        Counters { sent_packets: self.packets, sent_bytes: self.bytes, ..Counters::default() }
    }
}

/// True where each segment's departure is known on its arrival, and the wire only delays and loses.
fn is_plain(spec: &PipeSpec) -> bool {
    let is_jittery = spec.jitter.is_some() || spec.reorder.is_some();
    let is_harmful = spec.duplicate > 0.0 || spec.corrupt > 0.0 || spec.down;
    let is_by_segment = spec.loss_unit == LossUnit::Segment || spec.loss == LossModel::None;
    spec.discipline == (Discipline::DropTail { mark_above: None })
        && !matches!(spec.rate, Rate::Trace(_))
        && is_by_segment
        && !is_jittery
        && !is_harmful
}
