//! A FIFO with a limit: drop tail, with optional step marking, or drop head.

use super::{
    Backlog, QueueContext, QueuedPacket,
    segment_queue::{Admission, Mark, SegmentQueue},
};
use crate::{DropCause, Packet, QueueLimit, fixed::Fixed};

/// The segment that is dropped when the queue is full.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DropPolicy {
    /// The arriving segment. ECN-capable packets that find more than `mark_above` in the queue are marked.
    Newest { mark_above: Option<QueueLimit> },
    /// The segment that has waited longest, except the one in service.
    Oldest,
}

pub(crate) struct FifoQueue<P> {
    segments: SegmentQueue<P>,
    policy: DropPolicy,
}

impl<P: Packet> FifoQueue<P> {
    pub(crate) fn new(policy: DropPolicy, overhead: u32) -> Self {
        FifoQueue { segments: SegmentQueue::new(overhead), policy }
    }

    pub(crate) fn marks(&self) -> bool {
        matches!(self.policy, DropPolicy::Newest { mark_above: Some(_) })
    }

    pub(crate) fn evicts(&self) -> bool {
        matches!(self.policy, DropPolicy::Oldest)
    }

    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        match self.policy {
            DropPolicy::Newest { mark_above } => {
                let mark_above =
                    mark_above.filter(|_| queued.packet.ecn().is_capable()).unwrap_or(QueueLimit::Unlimited);
                self.segments.admit(queued, context, |_, held, _| {
                    if held.exceeds(mark_above) { Admission::AcceptMarked } else { Admission::Accept }
                });
            }
            DropPolicy::Oldest => {
                self.segments.push(queued);
                while !self.segments.is_empty()
                    && self
                        .segments
                        .backlog()
                        .plus(context.serving.packets, context.serving.bytes)
                        .exceeds(context.limit)
                {
                    self.segments.drop_head(DropCause::Queue, context);
                }
            }
        }
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        self.segments.push(queued);
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        self.segments.take(Mark::No, context)
    }

    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        self.segments.close(context);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.segments.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.segments.head_at()
    }

    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        self.segments.drain(context)
    }
}
