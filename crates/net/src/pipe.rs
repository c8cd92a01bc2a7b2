//! One direction of a link, whatever it is made of: an enum, so that the hot path has no indirect call.

use units::Time;

use crate::{Counters, DropCause, Packet, PipeSpec, Train, fifo::Fifo};

/// One direction of a link.
///
/// The network calls [`Pipe::offer`] with each packet, [`Pipe::pop`] when [`Pipe::next_wake`] has come, and
/// asks for the next wake after each of both. Instants never go back.
pub(crate) enum Pipe<P> {
    /// Packets pass at once and unharmed.
    Ideal(Ideal),
    /// First in, first out, and the departure is known on arrival.
    Fifo(Box<Fifo<P>>),
}

/// What an ideal pipe counts.
#[derive(Debug, Default)]
pub(crate) struct Ideal {
    packets: u64,
    bytes: u64,
    overhead: u32,
}

impl<P: Packet> Pipe<P> {
    /// `stream` keeps the random draws of one network's pipes apart.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        if spec.is_ideal() {
            Pipe::Ideal(Ideal { overhead: spec.overhead, ..Ideal::default() })
        } else {
            Pipe::Fifo(Box::new(Fifo::new(spec, seed, stream)))
        }
    }

    /// Takes a packet in. Returns the packet where it comes out at once, unchanged (an ideal pipe).
    /// `cut_through` says that another queue follows, so that a train may come out when its first segment
    /// arrives there, not its last. `drop` gets what is dropped, with its instant.
    pub(crate) fn offer(
        &mut self,
        arrival: Train,
        packet: P,
        cut_through: bool,
        mut drop: impl FnMut(Time, DropCause, P),
    ) -> Option<P> {
        match self {
            Pipe::Ideal(ideal) => {
                let segments = u64::from(packet.segments());
                ideal.packets += segments;
                ideal.bytes += (segments - 1) * u64::from(packet.segment_bytes())
                    + u64::from(packet.last_segment_bytes())
                    + segments * u64::from(ideal.overhead);
                Some(packet)
            }
            Pipe::Fifo(fifo) => {
                fifo.offer(arrival, packet, cut_through, |cause, packet| drop(arrival.first, cause, packet));
                None
            }
        }
    }

    /// When [`Pipe::pop`] has something to do.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        match self {
            Pipe::Ideal(_) => None,
            Pipe::Fifo(fifo) => fifo.next_due(),
        }
    }

    /// Does what is due at the instant that [`Pipe::next_wake`] gave, `now`; returns a packet that comes out, if one
    /// does. To be called again while the next wake is not after `now`.
    pub(crate) fn pop(&mut self, _now: Time, _drop: impl FnMut(Time, DropCause, P)) -> Option<(Train, P)> {
        match self {
            Pipe::Ideal(_) => None,
            Pipe::Fifo(fifo) => fifo.pop(),
        }
    }

    /// The counters as of `now`; `max_queue_bytes_since` starts anew.
    pub(crate) fn sample(&mut self, now: Time) -> Counters {
        match self {
            Pipe::Ideal(ideal) => {
                Counters { sent_packets: ideal.packets, sent_bytes: ideal.bytes, ..Counters::default() }
            }
            Pipe::Fifo(fifo) => fifo.sample(now),
        }
    }

    /// Becomes what `spec` says.
    // replaced on merge
    pub(crate) fn change(&mut self, _now: Time, spec: &PipeSpec) {
        *self = Pipe::new(spec, 0, 0);
    }

    /// Whether trains leave here at least as fast as `other` can send them on, so that `other` may take them in
    /// when their first segment arrives.
    pub(crate) fn is_no_slower_than(&self, other: &Self) -> bool {
        matches!((self, other), (Pipe::Fifo(own), Pipe::Fifo(other)) if own.is_no_slower_than(other))
    }

    /// How long it takes until all that was taken in has left the queue.
    pub(crate) fn busy(&self, now: Time) -> Time {
        match self {
            Pipe::Ideal(_) => Time(0),
            Pipe::Fifo(fifo) => fifo.busy(now),
        }
    }

    /// True where packets pass at once.
    pub(crate) fn is_ideal(&self) -> bool {
        matches!(self, Pipe::Ideal(_))
    }
}
