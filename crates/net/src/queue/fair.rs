//! Fair queueing: deficit round robin over flows (Shreedhar and Varghese 1995), plain or with controlled
//! delay in each flow and priority for sparse ones (FQ-CoDel, RFC 8290).
//!
//! Differences from RFC 8290:
//! 1. When the queue is full, segments are dropped from the head of the flow with the most bytes until the
//!    arriving packet fits (section 4.1), one at a time, not in batches as in Linux.
//! 2. A packet's `flow_hash` is used as it is, without a secret perturbation.

use std::collections::VecDeque;

use super::{
    Backlog, QueueContext, QueuedPacket,
    codel::CodelState,
    segment_queue::{Mark, SegmentQueue},
};
use crate::{Codel, DropCause, Packet, fixed::Fixed};

/// The list of section 4.2 that holds a flow. Plain fair queueing has no new flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowList {
    None,
    New,
    Old,
}

struct FlowQueue<P> {
    segments: SegmentQueue<P>,
    deficit: i64,
    state: CodelState,
    list: FlowList,
}

pub(crate) struct FairQueue<P> {
    flows: Vec<Option<Box<FlowQueue<P>>>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    codel: Option<Codel>,
    overhead: u32,
    backlog: Backlog,
    /// The flow of the last segment taken.
    last: Option<usize>,
}

impl<P: Packet> FairQueue<P> {
    pub(crate) fn new(flows: u32, quantum: u32, codel: Option<Codel>, overhead: u32) -> Self {
        FairQueue {
            flows: (0..flows.max(1)).map(|_| None).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::from(quantum.max(1)),
            codel,
            overhead,
            backlog: Backlog::default(),
            last: None,
        }
    }

    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        self.adopt(queued);
        while self.backlog.packets > 0
            && self.backlog.plus(context.serving.packets, context.serving.bytes).exceeds(context.limit)
        {
            self.drop_from_longest_queue(context);
        }
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        // Hashes are uniform. The high bits select the queue, so that this holds for any number of queues.
        let index = ((u64::from(queued.packet.flow_hash()) * self.flows.len() as u64) >> 32) as usize;
        let (overhead, quantum, has_new_list) = (self.overhead, self.quantum, self.codel.is_some());
        let flow = self.flows[index].get_or_insert_with(|| {
            let (state, list) = (CodelState::default(), FlowList::None);
            Box::new(FlowQueue { segments: SegmentQueue::new(overhead), deficit: 0, state, list })
        });
        let before = flow.segments.backlog();
        flow.segments.push(queued);
        let after = flow.segments.backlog();
        self.backlog = self.backlog.plus(after.packets - before.packets, after.bytes - before.bytes);
        if flow.list == FlowList::None {
            flow.deficit = quantum;
            (flow.list, _) = if has_new_list {
                (FlowList::New, self.new.push_back(index))
            } else {
                (FlowList::Old, self.old.push_back(index))
            };
        }
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        loop {
            let index = *self.new.front().or(self.old.front())?;
            let flow = self.flows[index].as_mut()?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                flow.list = FlowList::Old;
                self.pop_first_flow();
                self.old.push_back(index);
                continue;
            }
            if self.last != Some(index) {
                self.close(context);
            }
            let flow = self.flows[index].as_mut()?;
            let before = flow.segments.backlog();
            let taken = match &self.codel {
                Some(codel) => flow.state.dequeue(codel, &mut flow.segments, context),
                None => flow.segments.take(Mark::No, context),
            };
            let after = flow.segments.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
            if let Some(bytes) = taken {
                flow.deficit -= bytes as i64;
                self.last = Some(index);
                return Some(bytes);
            }
            // Section 4.2: an empty new flow moves to the end of the old flows, so that it cannot starve
            // them.
            let becomes_old = flow.list == FlowList::New && !self.old.is_empty();
            flow.list = if becomes_old { FlowList::Old } else { FlowList::None };
            self.pop_first_flow();
            if becomes_old {
                self.old.push_back(index);
            }
        }
    }

    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        if let Some(flow) = self.last.take().and_then(|last| self.flows[last].as_mut()) {
            flow.segments.close(context);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// Arrival of the next segment of the first flow. It need not be the earliest arrival of all: segments
    /// that arrive one by one are enqueued one by one, so all of them have arrived.
    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        if self.backlog.packets == 0 {
            return None;
        }
        let flows = self.new.iter().chain(&self.old);
        flows.filter_map(|index| self.flows[*index].as_ref()?.segments.head_at()).next()
    }

    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        self.backlog = Backlog::default();
        (self.last, self.new, self.old) = (None, VecDeque::new(), VecDeque::new());
        let flows = self.flows.iter_mut().filter_map(Option::take);
        flows.flat_map(|mut flow| flow.segments.drain(context)).collect()
    }

    fn pop_first_flow(&mut self) {
        if self.new.pop_front().is_none() {
            self.old.pop_front();
        }
    }

    fn drop_from_longest_queue(&mut self, context: &mut QueueContext<P>) {
        let listed = self.new.iter().chain(&self.old);
        // The number of packets decides between flows without bytes: the chosen flow must not be empty.
        let weight = |index: &usize| {
            let backlog = self.flows[*index].as_ref().map(|flow| flow.segments.backlog()).unwrap_or_default();
            (backlog.bytes, backlog.packets, std::cmp::Reverse(*index))
        };
        let Some(longest) = listed.copied().max_by_key(weight) else { return };
        if let Some(flow) = self.flows[longest].as_mut() {
            let before = flow.segments.backlog();
            flow.segments.drop_head(DropCause::Queue, context);
            let after = flow.segments.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
        }
    }
}
