//! What goes into the network and what comes out of it, apart from the packets themselves.

use units::Time;

use crate::{PipeId, Train};

/// Where a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// One station. Nothing happens to a packet for the station that sends it; one that no way leads to is dropped.
    Station(u32),
    /// Every station but the sender that switches lead to: broadcast, multicast, or an address that no station is
    /// known to have.
    All,
}

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropCause {
    /// The queue was full.
    Queue,
    /// The queue's discipline decided so.
    Aqm,
    /// The wire lost it.
    Loss,
    /// Larger than the link's MTU.
    Mtu,
    /// The link is down.
    Down,
    /// A sender or router knows no way, or the packet's time to live has ended, or it cannot be understood.
    Router,
}

/// Takes what the network gives back.
pub trait Sink<P> {
    /// A packet arrives at `station`, which is a host's; its last segment at `at`.
    fn deliver(&mut self, station: u32, at: Time, packet: P);
    /// A packet, or part of one, was dropped on entering `pipe`, or (by a router, with [`DropCause::Router`]) on
    /// coming out of it.
    fn drop(&mut self, pipe: PipeId, at: Time, cause: DropCause, packet: P);
    /// A packet comes out of `pipe` at its far end, whatever becomes of it there.
    fn pass(&mut self, _pipe: PipeId, _train: Train, _packet: &P) {}
    /// The network is to do nothing after this instant before what was delivered has been looked at.
    fn until(&self) -> Time {
        Time(u64::MAX)
    }
}
