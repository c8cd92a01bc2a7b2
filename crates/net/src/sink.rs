//! The receiver of a network's output: deliveries and drops.

use units::Instant;

use crate::{PipeId, TrainTimes};

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// The queue discipline dropped it.
    Aqm,
    /// The wire lost it.
    Loss,
    /// It is larger than the link's MTU.
    Mtu,
    /// The link is down.
    Down,
    /// The sender or a router has no route, the packet's time to live is exceeded, or it is malformed.
    Router,
}

/// Receives the packets that the network delivers and drops.
pub trait PacketSink<P> {
    /// A packet arrives at `station`, which belongs to a host; its last segment arrives at `at`.
    fn deliver(&mut self, station: u32, at: Instant, packet: P);
    /// A packet, or a part of one, is dropped on entering `pipe`, or (by a router, with
    /// [`DropCause::Router`]) on leaving it.
    fn drop(&mut self, pipe: PipeId, at: Instant, cause: DropCause, packet: P);
    /// A packet leaves `pipe` at its far end, whatever happens to it there.
    fn pass(&mut self, _pipe: PipeId, _train: TrainTimes, _packet: &P) {}
    /// The latest instant that the network may simulate in this call. A sink lowers it, for example to the
    /// instant of a delivery, so that the caller can respond before later events.
    fn stop_at(&self) -> Instant {
        Instant::NEVER
    }
}
