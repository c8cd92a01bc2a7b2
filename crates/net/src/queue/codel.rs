//! Controlled delay (RFC 8289): the state of one queue, and the queue that has one.
//!
//! `should_drop` and `dequeue` are `dodequeue` and `dequeue` of section 5.4; with ECN as in Linux's `codel_impl.h`.
//! Departures from the RFC:
//! 1. `maxpacket` is the largest segment seen so far, as in Linux, not a constant.
//! 2. The sojourn ends when the segment's transmission begins, as at a device's dequeue.

use super::{
    Backlog, Desk, Item,
    desk::{Fate, may_be_marked},
    lane::{Lane, Mark},
};
use crate::{Codel, DropCause, Packet, fixed::Fixed};

/// The variables of section 5.3.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Control {
    first_above: Option<Fixed>,
    drop_next: Fixed,
    count: u32,
    last_count: u32,
    dropping: bool,
    max_packet: u64,
}

impl Control {
    /// Takes the next segment that is not dropped; `None` where all were. What is dropped goes to `desk`.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        codel: &Codel,
        lane: &mut Lane<P>,
        desk: &mut Desk<P>,
    ) -> Option<u64> {
        let mut above = self.is_above(codel, lane, desk.now);
        let mut mark = Mark::No;
        if self.dropping {
            if !above {
                self.dropping = false;
            }
            while self.dropping && desk.now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if codel.ecn && may_be_marked(lane.head_ecn()) {
                    mark = Mark::Ce;
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                    break;
                }
                lane.drop_head(DropCause::Aqm, desk);
                above = self.is_above(codel, lane, desk.now);
                if above {
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if above {
            if codel.ecn && may_be_marked(lane.head_ecn()) {
                mark = Mark::Ce;
            } else {
                lane.drop_head(DropCause::Aqm, desk);
                self.is_above(codel, lane, desk.now);
            }
            self.begin_dropping(codel, desk.now);
        }
        lane.take(mark, desk)
    }

    /// Section 5.4: if the queue was above the target until lately, goes on at the rate that controlled it.
    fn begin_dropping(&mut self, codel: &Codel, now: Fixed) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recently = now.saturating_sub(self.drop_next) < Fixed::from(codel.interval) * 16;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.drop_next = control_law(codel, now, self.count);
        self.last_count = self.count;
    }

    /// Whether the next segment has found the queue above the target for an interval (`ok_to_drop`).
    fn is_above<P: Packet>(&mut self, codel: &Codel, lane: &Lane<P>, now: Fixed) -> bool {
        let Some(at) = lane.head_at() else {
            self.first_above = None;
            return false;
        };
        let bytes = lane.head_bytes();
        self.max_packet = self.max_packet.max(bytes);
        let sojourn = now.saturating_sub(at);
        if sojourn < Fixed::from(codel.target) || lane.backlog().bytes - bytes <= self.max_packet {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now + Fixed::from(codel.interval));
                false
            }
            Some(since) => now >= since,
        }
    }
}

/// Section 5.3: the next drop is interval / sqrt(count) later.
fn control_law(codel: &Codel, at: Fixed, count: u32) -> Fixed {
    at + Fixed::from_nanos_f64(codel.interval.0 as f64 / libm::sqrt(f64::from(count.max(1))))
}

/// A single queue.
pub(crate) struct CodelQueue<P> {
    codel: Codel,
    control: Control,
    lane: Lane<P>,
}

impl<P: Packet> CodelQueue<P> {
    pub(crate) fn new(codel: Codel, overhead: u32) -> Self {
        CodelQueue { codel, control: Control::default(), lane: Lane::new(overhead) }
    }

    pub(crate) fn enqueue(&mut self, item: Item<P>, desk: &mut Desk<P>) {
        desk.admit(&mut self.lane, item, |_, _, _| Fate::Enter);
    }

    pub(crate) fn adopt(&mut self, item: Item<P>) {
        self.lane.push(item);
    }

    pub(crate) fn dequeue(&mut self, desk: &mut Desk<P>) -> Option<u64> {
        self.control.dequeue(&self.codel, &mut self.lane, desk)
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
