//! Where queues hand over what leaves them, and what they need to know of the pipe.

use crate::{
    DropCause, Ecn, Packet, PipeSpec, QueueLimit,
    cut::{cut, runs, segment_bytes, wire_bytes},
    draws::{Draws, Purpose},
    fixed::Fixed,
    queue::lane::{Item, Lane},
};

/// Packets (segments) and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) fn and(self, packets: u64, bytes: u64) -> Backlog {
        Backlog { packets: self.packets + packets, bytes: self.bytes + bytes }
    }

    /// Whether it holds more than `limit`.
    pub(crate) fn exceeds(self, limit: QueueLimit) -> bool {
        match limit {
            QueueLimit::Unlimited => false,
            QueueLimit::Bytes(limit) => self.bytes > limit.0,
            QueueLimit::Packets(limit) => self.packets > limit,
        }
    }
}

/// Whether it is already decided that the wire loses a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossDrawn {
    /// Each segment's draw is still to come.
    NotYet,
    /// It passes.
    Passes,
    /// All of it is lost.
    Lost,
}

/// A packet, or a part of one, that leaves the queue for the wire.
#[derive(Debug)]
pub(crate) struct Part<P> {
    pub(crate) packet: P,
    pub(crate) loss: LossDrawn,
}

/// What becomes of a segment on its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Enter,
    EnterMarked,
    Drop(DropCause),
}

/// The counter between a queue and its pipe.
#[derive(Debug)]
pub(crate) struct Desk<P> {
    /// The instant of the present call.
    pub(crate) now: Fixed,
    pub(crate) limit: QueueLimit,
    pub(crate) overhead: u32,
    /// The server's (mean) time for a byte; `None` where it takes none.
    pub(crate) per_byte: Option<Fixed>,
    /// The segment in service; none while the queue decides on the next one.
    pub(crate) serving: Backlog,
    /// Since when the server has had nothing to do.
    pub(crate) idle_since: Option<Fixed>,
    pub(crate) draws: Draws,
    /// What is known of the losses of the segment that was taken last.
    pub(crate) taken_loss: LossDrawn,
    /// The part that ends with the segment in service.
    pub(crate) closed: Option<Part<P>>,
    /// The part that ended with the segment before it.
    pub(crate) before: Option<Part<P>>,
    pub(crate) drops: Vec<(DropCause, P)>,
    pub(crate) marked: u64,
}

impl<P: Packet> Desk<P> {
    /// `stream` keeps the random draws of one network's pipes apart.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        Desk {
            now: Fixed::ZERO,
            limit: limit(spec),
            overhead: spec.overhead,
            per_byte: per_byte(spec),
            serving: Backlog::default(),
            idle_since: Some(Fixed::ZERO),
            draws: Draws::new(seed, stream, Purpose::Queue),
            taken_loss: LossDrawn::NotYet,
            closed: None,
            before: None,
            drops: Vec::new(),
            marked: 0,
        }
    }

    pub(crate) fn drop(&mut self, cause: DropCause, packet: P) {
        self.drops.push((cause, packet));
    }

    /// A part ends with the segment that was taken last.
    pub(crate) fn close(&mut self, part: Part<P>) {
        if self.serving.packets > 0 {
            self.closed = Some(part);
        } else {
            self.before = Some(part);
        }
    }

    /// Judges each segment on its arrival: `judge` gets what the queue then holds and the segment's bytes. The packet
    /// enters `lane` whole if all segments fare alike, else in parts.
    pub(crate) fn admit(
        &mut self,
        lane: &mut Lane<P>,
        item: Item<P>,
        mut judge: impl FnMut(&mut Self, Backlog, u64) -> Fate,
    ) {
        let segments = item.packet.segments();
        let mut held = lane.backlog().and(self.serving.packets, self.serving.bytes);
        let mut fate = |desk: &mut Self, segment: u32| {
            let bytes = u64::from(segment_bytes(&item.packet, segment) + desk.overhead);
            let fate = if held.and(1, bytes).exceeds(desk.limit) {
                Fate::Drop(DropCause::Queue)
            } else {
                judge(desk, held, bytes)
            };
            if !matches!(fate, Fate::Drop(_)) {
                held = held.and(1, bytes);
            }
            fate
        };
        if segments == 1 {
            let fate = fate(self, 0);
            self.settle(lane, item, fate);
            return;
        }
        let fates = runs(segments, |segment| fate(self, segment));
        let (at, step, loss) = (item.at, item.step, item.loss);
        cut(item.packet, fates, |fate, from, part| {
            self.settle(lane, Item::new(part, at + step * u64::from(from), step, loss), fate);
        });
    }

    fn settle(&mut self, lane: &mut Lane<P>, mut item: Item<P>, fate: Fate) {
        match fate {
            Fate::Enter => lane.push(item),
            Fate::EnterMarked => {
                item.packet.mark_ce();
                self.marked += u64::from(item.packet.segments());
                lane.push(item);
            }
            Fate::Drop(cause) => self.drop(cause, item.packet),
        }
    }

    /// Whether all of a packet fits beside `held`.
    pub(crate) fn fits(&self, held: Backlog, packet: &P) -> bool {
        let with = held.and(
            self.serving.packets + u64::from(packet.segments()),
            self.serving.bytes + wire_bytes(packet, self.overhead),
        );
        !with.exceeds(self.limit)
    }
}

/// True where a packet may be marked instead of dropped.
pub(crate) fn may_be_marked(ecn: Ecn) -> bool {
    ecn != Ecn::NotCapable
}

/// Without a rate nothing waits, and nothing is dropped for want of room.
pub(crate) fn limit(spec: &PipeSpec) -> QueueLimit {
    if spec.rate.mean().is_some() { spec.queue } else { QueueLimit::Unlimited }
}

/// The mean time for a byte.
pub(crate) fn per_byte(spec: &PipeSpec) -> Option<Fixed> {
    spec.rate.mean().filter(|rate| rate.0 > 0).map(Fixed::per_byte)
}
