//! Queues: which segment goes next, and which is dropped or marked. One file for each discipline.
//!
//! A queue is passive. [`crate::managed`] calls `enqueue` when packets come and `dequeue` when the server is free,
//! both with their nominal instants; what leaves goes over the [`Desk`].

mod codel;
mod desk;
mod dual_pi2;
mod fair;
mod lane;
mod red;
mod tail;
mod xcp;

pub(crate) use desk::{Backlog, Desk, LossDrawn, Part, limit, per_byte};
pub(crate) use lane::Item;

use crate::{Discipline, Packet, fixed::Fixed};

/// A queue under one of the disciplines.
pub(crate) enum Queue<P> {
    Tail(tail::Tail<P>),
    Red(red::RedQueue<P>),
    Codel(codel::CodelQueue<P>),
    Fair(fair::Fair<P>),
    DualPi2(dual_pi2::DualQueue<P>),
    Xcp(xcp::XcpQueue<P>),
}

macro_rules! each {
    ($self:expr, $queue:ident => $call:expr) => {
        match $self {
            Queue::Tail($queue) => $call,
            Queue::Red($queue) => $call,
            Queue::Codel($queue) => $call,
            Queue::Fair($queue) => $call,
            Queue::DualPi2($queue) => $call,
            Queue::Xcp($queue) => $call,
        }
    };
}

impl<P: Packet> Queue<P> {
    pub(crate) fn new(discipline: &Discipline, overhead: u32) -> Self {
        match discipline {
            Discipline::DropTail { mark_above } => {
                Queue::Tail(tail::Tail::new(tail::Full::Newest { mark_above: *mark_above }, overhead))
            }
            Discipline::DropHead => Queue::Tail(tail::Tail::new(tail::Full::Oldest, overhead)),
            Discipline::Red(red) => Queue::Red(red::RedQueue::new(*red, overhead)),
            Discipline::Codel(codel) => Queue::Codel(codel::CodelQueue::new(*codel, overhead)),
            Discipline::FqCodel(fq) => {
                Queue::Fair(fair::Fair::new(fq.flows, fq.quantum, Some(fq.codel), overhead))
            }
            Discipline::Fq(fq) => Queue::Fair(fair::Fair::new(fq.flows, fq.quantum, None, overhead)),
            Discipline::DualPi2(dual) => Queue::DualPi2(dual_pi2::DualQueue::new(*dual, overhead)),
            Discipline::Xcp(xcp) => Queue::Xcp(xcp::XcpQueue::new(*xcp, overhead)),
        }
    }

    /// A packet comes.
    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        each!(self, queue => queue.enqueue(item, desk));
    }

    /// A packet of an earlier queue comes: it is neither judged nor refused.
    pub(crate) fn adopt(&mut self, item: Item<P>) {
        each!(self, queue => queue.adopt(item));
    }

    /// The next segment's bytes on the wire, from `desk.now` on the one in service; `None` where nothing is left.
    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        each!(self, queue => queue.dequeue(desk))
    }

    /// The packet that is being taken ends with the segment taken last.
    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        each!(self, queue => queue.close(desk));
    }

    /// What has not been taken yet.
    pub(crate) fn backlog(&self) -> Backlog {
        each!(self, queue => queue.backlog())
    }

    /// When the first segment came that can be taken; `None` where the queue is empty.
    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        each!(self, queue => queue.ready_at())
    }

    /// Everything, in the order in which it came.
    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        let mut items = each!(self, queue => queue.drain(desk));
        items.sort_by_key(|item| item.at);
        items
    }

    /// Whether each segment is judged at its own arrival, so that a train whose segments come one by one has to be
    /// taken in one by one.
    pub(crate) fn judges_arrivals(&self) -> bool {
        match self {
            Queue::Tail(tail) => tail.marks(),
            Queue::Red(_) => true,
            _ => false,
        }
    }

    /// Whether a full queue drops what waits, not what comes.
    pub(crate) fn evicts(&self) -> bool {
        match self {
            Queue::Tail(tail) => tail.evicts(),
            Queue::Fair(_) => true,
            _ => false,
        }
    }
}
