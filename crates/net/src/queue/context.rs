//! The interface of a queue and its pipe: the pipe's state on each call, and the packets that leave the
//! queue.

use crate::{
    DropCause, Packet, PipeSpec, QueueLimit,
    draws::{Draws, Purpose},
    fixed::Fixed,
    train::wire_bytes,
};

/// Packets (segments) and their bytes on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) fn plus(self, packets: u64, bytes: u64) -> Backlog {
        Backlog { packets: self.packets + packets, bytes: self.bytes + bytes }
    }

    pub(crate) fn exceeds(self, limit: QueueLimit) -> bool {
        match limit {
            QueueLimit::Unlimited => false,
            QueueLimit::Bytes(limit) => self.bytes > limit.0,
            QueueLimit::Packets(limit) => self.packets > limit,
        }
    }
}

/// Whether the wire's loss model has already decided on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LossDraw {
    /// The loss model decides on each segment later.
    Pending,
    /// The packet passes.
    Passes,
    /// The whole packet is lost.
    Lost,
}

/// A packet, or a part of one, that leaves the queue for the wire.
#[derive(Debug)]
pub(crate) struct PacketPart<P> {
    pub(crate) packet: P,
    pub(crate) loss: LossDraw,
}

/// The interface between a queue and its pipe.
#[derive(Debug)]
pub(crate) struct QueueContext<P> {
    /// The instant of the current call.
    pub(crate) now: Fixed,
    pub(crate) limit: QueueLimit,
    pub(crate) overhead: u32,
    /// The server's (mean) transmission time of a byte; `None` if it takes no time.
    pub(crate) per_byte: Option<Fixed>,
    /// The segment in service; empty while the queue decides on the next one.
    pub(crate) serving: Backlog,
    /// Since when the server has been idle.
    pub(crate) idle_since: Option<Fixed>,
    pub(crate) draws: Draws,
    /// The loss decision on the last segment taken.
    pub(crate) taken_loss: LossDraw,
    /// The part that ends with the segment in service.
    pub(crate) closed: Option<PacketPart<P>>,
    /// The part that ended with the segment before the one in service.
    pub(crate) closed_before: Option<PacketPart<P>>,
    pub(crate) drops: Vec<(DropCause, P)>,
    pub(crate) marked: u64,
}

impl<P: Packet> QueueContext<P> {
    /// `stream` distinguishes the random numbers of one network's pipes.
    pub(crate) fn new(spec: &PipeSpec, seed: u64, stream: u64) -> Self {
        QueueContext {
            now: Fixed::ZERO,
            limit: effective_limit(spec),
            overhead: spec.overhead,
            per_byte: mean_time_per_byte(spec),
            serving: Backlog::default(),
            idle_since: Some(Fixed::ZERO),
            draws: Draws::new(seed, stream, Purpose::Queue),
            taken_loss: LossDraw::Pending,
            closed: None,
            closed_before: None,
            drops: Vec::new(),
            marked: 0,
        }
    }

    pub(crate) fn drop(&mut self, cause: DropCause, packet: P) {
        self.drops.push((cause, packet));
    }

    /// Passes on a part that ends with the last segment taken.
    pub(crate) fn close(&mut self, part: PacketPart<P>) {
        if self.serving.packets > 0 {
            self.closed = Some(part);
        } else {
            self.closed_before = Some(part);
        }
    }

    /// Whether the whole packet fits in addition to `held`.
    pub(crate) fn fits(&self, held: Backlog, packet: &P) -> bool {
        let total = held.plus(
            self.serving.packets + u64::from(packet.segments()),
            self.serving.bytes + wire_bytes(packet, self.overhead),
        );
        !total.exceeds(self.limit)
    }
}

/// The queue limit. Without a rate packets do not wait, and none is dropped for lack of space.
pub(crate) fn effective_limit(spec: &PipeSpec) -> QueueLimit {
    if spec.rate.mean().is_some() { spec.queue } else { QueueLimit::Unlimited }
}

/// The mean transmission time of a byte.
pub(crate) fn mean_time_per_byte(spec: &PipeSpec) -> Option<Fixed> {
    spec.rate.mean().filter(|rate| rate.0 > 0).map(Fixed::per_byte)
}
