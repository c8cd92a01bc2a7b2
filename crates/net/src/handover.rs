//! The state that a pipe hands over when another implementation replaces it.

use crate::{PipeCounters, TrainTimes, fixed::Fixed, loss::Loss};

/// The state of a pipe that an [`EventPipe`](crate::event_pipe::EventPipe) replaces.
pub(crate) struct Handover<P> {
    pub(crate) loss: Option<Loss>,
    pub(crate) counters: PipeCounters,
    /// Packets on the wire.
    pub(crate) on_wire: Vec<(TrainTimes, P)>,
    /// Bytes and departure of the segment in service.
    pub(crate) sending: Option<(u64, Fixed)>,
    /// The part that ends with that segment, unless the wire loses it, and when its first segment left.
    pub(crate) leaving: Option<(Fixed, P)>,
    /// Packets in the queue.
    pub(crate) queued: Vec<P>,
    pub(crate) server_clock: Fixed,
}

impl<P> Handover<P> {
    /// The state of an empty pipe.
    pub(crate) fn new(counters: PipeCounters) -> Self {
        Handover {
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
