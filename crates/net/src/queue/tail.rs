//! First in, first out: what does not fit is dropped, or pushes out the oldest.

use super::{
    Backlog, Desk, Item,
    desk::{Fate, may_be_marked},
    lane::{Lane, Mark},
};
use crate::{DropCause, Packet, QueueLimit, fixed::Fixed};

/// Who gives way when the queue is full.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Full {
    /// What comes. Packets of ECN-capable flows are marked where the queue holds more than `mark_above`.
    Newest { mark_above: Option<QueueLimit> },
    /// What has waited longest; the segment in service stays.
    Oldest,
}

pub(crate) struct Tail<P> {
    lane: Lane<P>,
    full: Full,
}

impl<P: Packet> Tail<P> {
    pub(crate) fn new(full: Full, overhead: u32) -> Self {
        Tail { lane: Lane::new(overhead), full }
    }

    pub(crate) fn marks(&self) -> bool {
        matches!(self.full, Full::Newest { mark_above: Some(_) })
    }

    pub(crate) fn evicts(&self) -> bool {
        matches!(self.full, Full::Oldest)
    }

    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        match self.full {
            Full::Newest { mark_above } => {
                let mark_above =
                    mark_above.filter(|_| may_be_marked(item.packet.ecn())).unwrap_or(QueueLimit::Unlimited);
                desk.admit(&mut self.lane, item, |_, held, _| {
                    if held.exceeds(mark_above) { Fate::EnterMarked } else { Fate::Enter }
                });
            }
            Full::Oldest => {
                self.lane.push(item);
                while !self.lane.is_empty()
                    && self.lane.backlog().and(desk.serving.packets, desk.serving.bytes).exceeds(desk.limit)
                {
                    self.lane.drop_head(DropCause::Queue, desk);
                }
            }
        }
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        self.lane.push(item);
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        self.lane.take(Mark::No, desk)
    }

    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        self.lane.close(desk);
    }

    pub(crate) fn backlog(&self) -> Backlog {
        self.lane.backlog()
    }

    pub(crate) fn ready_at(&self) -> Option<Fixed> {
        self.lane.head_at()
    }

    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        self.lane.drain(desk)
    }
}
