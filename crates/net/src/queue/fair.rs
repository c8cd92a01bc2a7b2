//! Fair queueing: deficit round robin over flows (Shreedhar and Varghese 1995), plain or with controlled delay in
//! each flow and priority for sparse ones (FQ-CoDel, RFC 8290).
//!
//! Departures from RFC 8290:
//! 1. When the queue is full, segments of the flow with the most bytes are dropped at its head until what came
//!    fits (section 4.1), one at a time, not in batches as Linux does.
//! 2. The flow of a packet is its own `flow_hash`, without a secret perturbation.

use std::collections::VecDeque;

use super::{
    Backlog, Desk, Item,
    codel::Control,
    lane::{Lane, Mark},
};
use crate::{Codel, DropCause, Packet, fixed::Fixed};

/// Where a flow is in the lists of section 4.2; plain fair queueing knows no new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Nowhere,
    New,
    Old,
}

struct Flow<P> {
    lane: Lane<P>,
    deficit: i64,
    control: Control,
    listed: Listed,
}

pub(crate) struct Fair<P> {
    flows: Vec<Option<Box<Flow<P>>>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    codel: Option<Codel>,
    overhead: u32,
    backlog: Backlog,
    /// Whose segment was taken last.
    last: Option<usize>,
}

impl<P: Packet> Fair<P> {
    pub(crate) fn new(flows: u32, quantum: u32, codel: Option<Codel>, overhead: u32) -> Self {
        Fair {
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

    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        self.adopt(item);
        while self.backlog.packets > 0
            && self.backlog.and(desk.serving.packets, desk.serving.bytes).exceeds(desk.limit)
        {
            self.drop_of_fattest(desk);
        }
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        // Hashes are evenly spread; the high bits choose, so that any number of flows is served alike.
        let index = ((u64::from(item.packet.flow_hash()) * self.flows.len() as u64) >> 32) as usize;
        let (overhead, quantum, is_sparse) = (self.overhead, self.quantum, self.codel.is_some());
        let flow = self.flows[index].get_or_insert_with(|| {
            let (control, listed) = (Control::default(), Listed::Nowhere);
            Box::new(Flow { lane: Lane::new(overhead), deficit: 0, control, listed })
        });
        let before = flow.lane.backlog();
        flow.lane.push(item);
        let after = flow.lane.backlog();
        self.backlog = self.backlog.and(after.packets - before.packets, after.bytes - before.bytes);
        if flow.listed == Listed::Nowhere {
            flow.deficit = quantum;
            (flow.listed, _) = if is_sparse {
                (Listed::New, self.new.push_back(index))
            } else {
                (Listed::Old, self.old.push_back(index))
            };
        }
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        loop {
            let index = *self.new.front().or(self.old.front())?;
            let flow = self.flows[index].as_mut()?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                flow.listed = Listed::Old;
                self.unlist_first();
                self.old.push_back(index);
                continue;
            }
            if self.last != Some(index) {
                self.close(desk);
            }
            let flow = self.flows[index].as_mut()?;
            let before = flow.lane.backlog();
            let taken = match &self.codel {
                Some(codel) => flow.control.dequeue(codel, &mut flow.lane, desk),
                None => flow.lane.take(Mark::No, desk),
            };
            let after = flow.lane.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
            if let Some(bytes) = taken {
                flow.deficit -= bytes as i64;
                self.last = Some(index);
                return Some(bytes);
            }
            // Section 4.2: an empty new flow goes through the old ones once, so that it cannot starve them.
            let again = flow.listed == Listed::New && !self.old.is_empty();
            flow.listed = if again { Listed::Old } else { Listed::Nowhere };
            self.unlist_first();
            if again {
                self.old.push_back(index);
            }
        }
    }

    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        if let Some(flow) = self.last.take().and_then(|last| self.flows[last].as_mut()) {
            flow.lane.close(desk);
        }
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    /// The earliest arrival of what can be taken. Segments that come one by one all go in the same way, so the first
    /// flow in line is as good as any.
    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        if self.backlog.packets == 0 {
            return None;
        }
        let flows = self.new.iter().chain(&self.old);
        flows.filter_map(|index| self.flows[*index].as_ref()?.lane.head_at()).next()
    }

    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        self.backlog = Backlog::default();
        (self.last, self.new, self.old) = (None, VecDeque::new(), VecDeque::new());
        let flows = self.flows.iter_mut().filter_map(Option::take);
        flows.flat_map(|mut flow| flow.lane.drain(desk)).collect()
    }

    fn unlist_first(&mut self) {
        if self.new.pop_front().is_none() {
            self.old.pop_front();
        }
    }

    fn drop_of_fattest(&mut self, desk: &mut Desk<P>) {
        let listed = self.new.iter().chain(&self.old);
        // Packets decide between flows without bytes: what is dropped must be one that has something.
        let weight = |index: &usize| {
            let backlog = self.flows[*index].as_ref().map(|flow| flow.lane.backlog()).unwrap_or_default();
            (backlog.bytes, backlog.packets, std::cmp::Reverse(*index))
        };
        let Some(fattest) = listed.copied().max_by_key(weight) else { return };
        if let Some(flow) = self.flows[fattest].as_mut() {
            let before = flow.lane.backlog();
            flow.lane.drop_head(DropCause::Queue, desk);
            let after = flow.lane.backlog();
            self.backlog.packets -= before.packets - after.packets;
            self.backlog.bytes -= before.bytes - after.bytes;
        }
    }
}
