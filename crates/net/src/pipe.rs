//! One direction of a link, of any kind: an enum, so that the packet path has no indirect call.

use units::{Instant, Time};

use crate::{
    Discipline, DropCause, LossModel, LossUnit, PacketShape, PipeCounters, PipeSpec, Rate, TrainTimes,
    XcpPacket, event_pipe::EventPipe, fifo_pipe::FifoPipe, handover::Handover,
};

/// One direction of a link: its implementation, and the data that another implementation needs to replace it.
///
/// The network calls [`Pipe::accept`] with each packet that does not pass at once, and [`Pipe::pop`] at the
/// instant of [`Pipe::next_event`]. After both calls it queries the next event again. Instants never
/// decrease.
pub(crate) struct Pipe<P> {
    kind: PipeKind<P>,
    /// Boxed, so that the fields that every packet needs are close together in memory.
    spec: Box<PipeSpec>,
    seed: u64,
    stream: u64,
}

enum PipeKind<P> {
    /// Packets pass at once and unharmed.
    Ideal(IdealPipe),
    /// A FIFO where each departure is known on arrival.
    Fifo(Box<FifoPipe<P>>),
    /// Every other pipe, driven by events.
    Event(Box<EventPipe<P>>),
}

/// The counters of an ideal pipe.
#[derive(Debug, Default)]
struct IdealPipe {
    packets: u64,
    bytes: u64,
    overhead: u32,
}

impl<P: XcpPacket> Pipe<P> {
    /// `stream` distinguishes the random numbers of one network's pipes.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        let kind = if spec.is_ideal() {
            PipeKind::Ideal(IdealPipe { overhead: spec.overhead, ..IdealPipe::default() })
        } else if is_plain(spec) {
            PipeKind::Fifo(Box::new(FifoPipe::new(spec, seed, stream)))
        } else {
            PipeKind::Event(Box::new(EventPipe::new(spec, seed, stream)))
        };
        Pipe { kind, spec: Box::new(spec.clone()), seed, stream }
    }

    /// Applies a new specification from `now` on. Queued packets stay queued and leave at the new rate;
    /// packets on the wire keep their arrival time; counters and generators continue. From then on the pipe
    /// is an [`EventPipe`].
    pub(crate) fn change(&mut self, now: Instant, spec: &PipeSpec) {
        // The network applies the MTU itself.
        if *self.spec == (PipeSpec { mtu: self.spec.mtu, ..spec.clone() }) {
            return;
        }
        if let PipeKind::Ideal(ideal) = &mut self.kind
            && spec.is_ideal()
        {
            ideal.overhead = spec.overhead;
            self.spec.as_mut().clone_from(spec);
            return;
        }
        if !matches!(self.kind, PipeKind::Event(_)) {
            let kind = std::mem::replace(&mut self.kind, PipeKind::Ideal(IdealPipe::default()));
            let handover = match kind {
                PipeKind::Fifo(fifo) => fifo.into_handover(now),
                PipeKind::Ideal(ideal) => Handover::new(ideal.counters()),
                PipeKind::Event(_) => return,
            };
            let pipe = EventPipe::with_handover(&self.spec, self.seed, self.stream, now, handover);
            self.kind = PipeKind::Event(Box::new(pipe));
        }
        if let PipeKind::Event(pipe) = &mut self.kind {
            pipe.change(now, spec);
        }
        self.spec.as_mut().clone_from(spec);
    }

    /// Whether a packet passes at once and unchanged, because the pipe is ideal. If so, counts it.
    #[inline]
    pub(crate) fn passes_at_once(&mut self, shape: PacketShape) -> bool {
        let PipeKind::Ideal(ideal) = &mut self.kind else { return false };
        ideal.packets += u64::from(shape.segments);
        ideal.bytes += shape.wire_bytes(ideal.overhead);
        true
    }

    /// Accepts a single segment of `bytes` IP bytes that arrives at `arrived`, if this is the common case of
    /// a plain FIFO. Returns the next event if that has changed. In the other cases returns the packet, for
    /// [`Pipe::accept`].
    #[inline(always)]
    pub(crate) fn accept_single(
        &mut self,
        arrived: Instant,
        bytes: u32,
        packet: P,
    ) -> Result<Option<Instant>, P> {
        let PipeKind::Fifo(fifo) = &mut self.kind else { return Err(packet) };
        let Some(due) = fifo.admit_single(arrived, bytes) else { return Err(packet) };
        // The first packet in the FIFO is due next, so appending another does not change that.
        let was_empty = fifo.next_due().is_none();
        fifo.launch_single(due, packet);
        Ok(was_empty.then_some(due))
    }

    /// Accepts a packet of this shape that does not pass at once. With `cut_through` another queue follows: a
    /// train may leave when its first segment arrives there, instead of its last. `drop` receives dropped
    /// packets and the instant. Returns whether the next event may have changed.
    #[inline]
    pub(crate) fn accept(
        &mut self,
        arrival: TrainTimes,
        shape: PacketShape,
        packet: P,
        cut_through: bool,
        mut drop: impl FnMut(Instant, DropCause, P),
    ) -> bool {
        match &mut self.kind {
            PipeKind::Ideal(_) => false,
            PipeKind::Fifo(fifo) => {
                // The first packet in the FIFO is due next, so appending another does not change that.
                let was_empty = fifo.next_due().is_none();
                match fifo.admit(arrival, shape, cut_through) {
                    Some((due, delivery)) => fifo.launch(due, delivery, packet),
                    None => fifo.offer_by_segment(arrival, shape, packet, cut_through, |cause, packet| {
                        drop(arrival.first, cause, packet);
                    }),
                }
                was_empty
            }
            PipeKind::Event(pipe) => {
                pipe.offer(arrival, packet, &mut drop);
                true
            }
        }
    }

    /// Accepts a packet as a network does. Returns the packet if it passes at once.
    #[cfg(test)]
    pub(crate) fn offer(
        &mut self,
        arrival: TrainTimes,
        packet: P,
        cut_through: bool,
        drop: impl FnMut(Instant, DropCause, P),
    ) -> Option<P> {
        let shape = packet.shape();
        if self.passes_at_once(shape) {
            return Some(packet);
        }
        self.accept(arrival, shape, packet, cut_through, drop);
        None
    }

    /// The instant at which [`Pipe::pop`] must be called.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<Instant> {
        match &self.kind {
            PipeKind::Ideal(_) => None,
            PipeKind::Event(pipe) => pipe.next_event(),
            PipeKind::Fifo(fifo) => fifo.next_due(),
        }
    }

    /// Processes the event at `now`, the instant from [`Pipe::next_event`]. Returns the packet that leaves,
    /// if one does. The caller must call it again while the next event is not after `now`.
    #[inline]
    pub(crate) fn pop(
        &mut self,
        now: Instant,
        mut drop: impl FnMut(Instant, DropCause, P),
    ) -> Option<(TrainTimes, P)> {
        match &mut self.kind {
            PipeKind::Ideal(_) => None,
            PipeKind::Fifo(fifo) => fifo.pop(now),
            PipeKind::Event(pipe) => pipe.pop(now, &mut drop),
        }
    }

    /// The counters as of `now`. Resets `max_queue_bytes_since`.
    pub(crate) fn sample(&mut self, now: Instant) -> PipeCounters {
        match &mut self.kind {
            PipeKind::Ideal(ideal) => ideal.counters(),
            PipeKind::Fifo(fifo) => fifo.sample(now),
            PipeKind::Event(pipe) => pipe.sample(now),
        }
    }

    /// Whether trains leave here at least as fast as `other` can send them, so that `other` may accept them
    /// when their first segment arrives.
    pub(crate) fn is_no_slower_than(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (PipeKind::Fifo(own), PipeKind::Fifo(other)) => own.is_no_slower_than(other),
            _ => false,
        }
    }

    /// The time until the queue is empty, if no more packets arrive.
    pub(crate) fn drain_time(&self, now: Instant) -> Time {
        match &self.kind {
            PipeKind::Ideal(_) => Time::ZERO,
            PipeKind::Fifo(fifo) => fifo.drain_time(now),
            PipeKind::Event(pipe) => pipe.drain_time(now),
        }
    }

    /// Whether packets pass at once.
    pub(crate) fn is_ideal(&self) -> bool {
        matches!(self.kind, PipeKind::Ideal(_))
    }
}

impl IdealPipe {
    fn counters(&self) -> PipeCounters {
        PipeCounters { sent_packets: self.packets, sent_bytes: self.bytes, ..PipeCounters::default() }
    }
}

/// Whether each segment's departure is known on its arrival, and the wire only delays and loses packets.
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
