//! Queue disciplines: which segment is sent next, and which is dropped or marked. One file for each
//! discipline.
//!
//! A queue is passive. [`crate::event_pipe`] calls `enqueue` when a packet arrives and `dequeue` when the
//! server is free, both at their nominal instants. Packets that leave the queue go to the [`QueueContext`].

mod codel;
mod context;
mod dual_pi2;
mod fair;
mod fifo;
mod red;
mod segment_queue;
mod xcp;

pub(crate) use context::{Backlog, LossDraw, PacketPart, QueueContext, effective_limit, mean_time_per_byte};
pub(crate) use segment_queue::QueuedPacket;

use crate::{Discipline, XcpPacket, fixed::Fixed};

/// A queue with one of the disciplines.
pub(crate) enum Queue<P> {
    Fifo(fifo::FifoQueue<P>),
    Red(red::RedQueue<P>),
    Codel(codel::CodelQueue<P>),
    Fair(fair::FairQueue<P>),
    DualPi2(dual_pi2::DualQueue<P>),
    Xcp(xcp::XcpQueue<P>),
}

macro_rules! dispatch {
    ($self:expr, $queue:ident => $call:expr) => {
        match $self {
            Queue::Fifo($queue) => $call,
            Queue::Red($queue) => $call,
            Queue::Codel($queue) => $call,
            Queue::Fair($queue) => $call,
            Queue::DualPi2($queue) => $call,
            Queue::Xcp($queue) => $call,
        }
    };
}

impl<P: XcpPacket> Queue<P> {
    pub(crate) fn new(discipline: &Discipline, overhead: u32) -> Self {
        match discipline {
            Discipline::DropTail { mark_above } => {
                let policy = fifo::DropPolicy::Newest { mark_above: *mark_above };
                Queue::Fifo(fifo::FifoQueue::new(policy, overhead))
            }
            Discipline::DropHead => Queue::Fifo(fifo::FifoQueue::new(fifo::DropPolicy::Oldest, overhead)),
            Discipline::Red(red) => Queue::Red(red::RedQueue::new(*red, overhead)),
            Discipline::Codel(codel) => Queue::Codel(codel::CodelQueue::new(*codel, overhead)),
            Discipline::FqCodel(fq) => {
                Queue::Fair(fair::FairQueue::new(fq.flows, fq.quantum, Some(fq.codel), overhead))
            }
            Discipline::Fq(fq) => Queue::Fair(fair::FairQueue::new(fq.flows, fq.quantum, None, overhead)),
            Discipline::DualPi2(dual) => Queue::DualPi2(dual_pi2::DualQueue::new(*dual, overhead)),
            Discipline::Xcp(xcp) => Queue::Xcp(xcp::XcpQueue::new(*xcp, overhead)),
        }
    }

    /// Accepts or drops a packet that arrives.
    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        dispatch!(self, queue => queue.enqueue(queued, context));
    }

    /// Takes over a packet of the previous queue without a decision to drop or mark it.
    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        dispatch!(self, queue => queue.adopt(queued));
    }

    /// Takes the next segment, which is in service from `context.now` on, and returns its bytes on the wire;
    /// `None` if the queue is empty.
    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        dispatch!(self, queue => queue.dequeue(context))
    }

    /// Closes the open prefix: the part ends with the last segment taken.
    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        dispatch!(self, queue => queue.close(context));
    }

    /// The segments that have not been taken.
    pub(crate) fn backlog(&self) -> Backlog {
        dispatch!(self, queue => queue.backlog())
    }

    /// Arrival of the first segment that can be taken; `None` if the queue is empty.
    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        dispatch!(self, queue => queue.ready_at())
    }

    /// Removes all packets, in order of arrival.
    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        let mut packets = dispatch!(self, queue => queue.drain(context));
        packets.sort_by_key(|queued| queued.at);
        packets
    }

    /// Whether the discipline decides on each segment at its arrival. Then a train whose segments arrive one
    /// by one must be enqueued segment by segment.
    pub(crate) fn decides_on_arrival(&self) -> bool {
        match self {
            Queue::Fifo(fifo) => fifo.marks(),
            Queue::Red(_) => true,
            _ => false,
        }
    }

    /// Whether a full queue drops waiting segments instead of the arriving one.
    pub(crate) fn evicts(&self) -> bool {
        match self {
            Queue::Fifo(fifo) => fifo.evicts(),
            Queue::Fair(_) => true,
            _ => false,
        }
    }
}
