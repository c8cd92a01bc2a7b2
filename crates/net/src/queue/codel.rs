//! Controlled delay (RFC 8289): the state of one queue, and a single queue with it.
//!
//! `CodelState::is_above` and `dequeue` are `dodequeue` and `dequeue` of section 5.4; ECN as in Linux's
//! `codel_impl.h`. Differences from the RFC:
//! 1. `maxpacket` is the largest segment so far, as in Linux, not a constant.
//! 2. The sojourn time ends when the segment's transmission begins, as at a device's dequeue.

use super::{
    Backlog, QueueContext, QueuedPacket,
    segment_queue::{Admission, Mark, SegmentQueue},
};
use crate::{Codel, DropCause, Packet, fixed::Fixed};

/// The state variables of section 5.3.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodelState {
    first_above: Option<Fixed>,
    drop_next: Fixed,
    count: u32,
    last_count: u32,
    dropping: bool,
    max_packet: u64,
}

impl CodelState {
    /// Takes the next segment that is not dropped; `None` if there is none. `context` receives the dropped
    /// segments.
    pub(crate) fn dequeue<P: Packet>(
        &mut self,
        codel: &Codel,
        segments: &mut SegmentQueue<P>,
        context: &mut QueueContext<P>,
    ) -> Option<u64> {
        let mut above = self.is_above(codel, segments, context.now);
        let mut mark = Mark::No;
        if self.dropping {
            if !above {
                self.dropping = false;
            }
            while self.dropping && context.now >= self.drop_next {
                self.count = self.count.saturating_add(1);
                if codel.ecn && segments.head_ecn().is_capable() {
                    mark = Mark::Ce;
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                    break;
                }
                segments.drop_head(DropCause::Aqm, context);
                above = self.is_above(codel, segments, context.now);
                if above {
                    self.drop_next = control_law(codel, self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if above {
            if codel.ecn && segments.head_ecn().is_capable() {
                mark = Mark::Ce;
            } else {
                segments.drop_head(DropCause::Aqm, context);
                self.is_above(codel, segments, context.now);
            }
            self.begin_dropping(codel, context.now);
        }
        segments.take(mark, context)
    }

    /// Enters the dropping state. Section 5.4: if the queue was above the target recently, continues at the
    /// drop rate that controlled it.
    fn begin_dropping(&mut self, codel: &Codel, now: Fixed) {
        self.dropping = true;
        let delta = self.count.saturating_sub(self.last_count);
        let recently = now.saturating_sub(self.drop_next) < Fixed::from(codel.interval) * 16;
        self.count = if delta > 1 && recently { delta } else { 1 };
        self.drop_next = control_law(codel, now, self.count);
        self.last_count = self.count;
    }

    /// Whether the queue has been above the target for an interval (`ok_to_drop`).
    fn is_above<P: Packet>(&mut self, codel: &Codel, segments: &SegmentQueue<P>, now: Fixed) -> bool {
        let Some(at) = segments.head_at() else {
            self.first_above = None;
            return false;
        };
        let bytes = segments.head_bytes();
        self.max_packet = self.max_packet.max(bytes);
        let sojourn = now.saturating_sub(at);
        if sojourn < Fixed::from(codel.target) || segments.backlog().bytes - bytes <= self.max_packet {
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
    at + Fixed::from_nanos_f64(codel.interval.as_nanos_f64() / libm::sqrt(f64::from(count.max(1))))
}

/// A single queue with CoDel.
pub(crate) struct CodelQueue<P> {
    codel: Codel,
    state: CodelState,
    segments: SegmentQueue<P>,
}

impl<P: Packet> CodelQueue<P> {
    pub(crate) fn new(codel: Codel, overhead: u32) -> Self {
        CodelQueue { codel, state: CodelState::default(), segments: SegmentQueue::new(overhead) }
    }

    pub(crate) fn enqueue(&mut self, queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        self.segments.admit(queued, context, |_, _, _| Admission::Accept);
    }

    pub(crate) fn adopt(&mut self, queued: QueuedPacket<P>) {
        self.segments.push(queued);
    }

    pub(crate) fn dequeue(&mut self, context: &mut QueueContext<P>) -> Option<u64> {
        self.state.dequeue(&self.codel, &mut self.segments, context)
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
