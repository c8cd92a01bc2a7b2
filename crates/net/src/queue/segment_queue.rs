//! A FIFO of packets from which segments are taken one by one. Trains are split as late as possible.
//!
//! Segments that have been taken stay in front of their packet as an open *prefix*. The prefix ends with the
//! packet, or when the next segment is treated differently (marked, dropped, another flow's turn); then it is
//! split off and *closed*.

use std::collections::VecDeque;

use super::context::{Backlog, LossDraw, PacketPart, QueueContext};
use crate::{
    DropCause, Ecn, Packet,
    fixed::Fixed,
    train::{runs, segment_bytes, split, wire_bytes},
};

/// Whether a segment is marked when it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Not marked.
    No,
    /// Marked as congestion experienced.
    Ce,
}

/// Whether a queue accepts a segment on its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Accept,
    AcceptMarked,
    Drop(DropCause),
}

/// A packet in a queue.
#[derive(Debug)]
pub(crate) struct QueuedPacket<P> {
    pub(crate) packet: P,
    /// Arrival of the first segment.
    pub(crate) at: Fixed,
    /// Time between the arrivals of two segments.
    pub(crate) step: Fixed,
    pub(crate) loss: LossDraw,
    /// Segments of the open prefix.
    taken: u32,
    /// Whether the open prefix is marked.
    mark: Mark,
}

impl<P: Packet> QueuedPacket<P> {
    pub(crate) fn new(packet: P, at: Fixed, step: Fixed, loss: LossDraw) -> Self {
        QueuedPacket { packet, at, step, loss, taken: 0, mark: Mark::No }
    }
}

/// A FIFO of packets.
#[derive(Debug)]
pub(crate) struct SegmentQueue<P> {
    packets: VecDeque<QueuedPacket<P>>,
    backlog: Backlog,
    overhead: u32,
}

impl<P: Packet> SegmentQueue<P> {
    pub(crate) fn new(overhead: u32) -> Self {
        SegmentQueue { packets: VecDeque::new(), backlog: Backlog::default(), overhead }
    }

    /// The segments that have not been taken.
    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn push(&mut self, queued: QueuedPacket<P>) {
        self.backlog.packets += u64::from(queued.packet.segments());
        self.backlog.bytes += wire_bytes(&queued.packet, self.overhead);
        self.packets.push_back(queued);
    }

    /// Decides on each segment at its arrival. `judge` receives the queue's content at that time and the
    /// segment's bytes, and is called only if the segment fits. The packet enters unsplit if all segments
    /// have the same result, otherwise in parts.
    pub(crate) fn admit(
        &mut self,
        queued: QueuedPacket<P>,
        context: &mut QueueContext<P>,
        mut judge: impl FnMut(&mut QueueContext<P>, Backlog, u64) -> Admission,
    ) {
        let segments = queued.packet.segments();
        let mut held = self.backlog.plus(context.serving.packets, context.serving.bytes);
        let mut decide = |context: &mut QueueContext<P>, segment: u32| {
            let bytes = u64::from(segment_bytes(&queued.packet, segment) + context.overhead);
            let admission = if held.plus(1, bytes).exceeds(context.limit) {
                Admission::Drop(DropCause::Queue)
            } else {
                judge(context, held, bytes)
            };
            if !matches!(admission, Admission::Drop(_)) {
                held = held.plus(1, bytes);
            }
            admission
        };
        if segments == 1 {
            let admission = decide(context, 0);
            self.apply(admission, queued, context);
            return;
        }
        let admissions = runs(segments, |segment| decide(context, segment));
        let (at, step, loss) = (queued.at, queued.step, queued.loss);
        split(queued.packet, admissions, |admission, from, part| {
            let part = QueuedPacket::new(part, at + step * u64::from(from), step, loss);
            self.apply(admission, part, context);
        });
    }

    fn apply(&mut self, admission: Admission, mut queued: QueuedPacket<P>, context: &mut QueueContext<P>) {
        match admission {
            Admission::Accept => self.push(queued),
            Admission::AcceptMarked => {
                queued.packet.mark_ce();
                context.marked += u64::from(queued.packet.segments());
                self.push(queued);
            }
            Admission::Drop(cause) => context.drop(cause, queued.packet),
        }
    }

    /// When the next segment arrived.
    pub(crate) fn head_at(&self) -> Option<Fixed> {
        self.packets.front().map(|head| head.at + head.step * u64::from(head.taken))
    }

    /// Bytes of the next segment on the wire.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.packets
            .front()
            .map_or(0, |head| u64::from(segment_bytes(&head.packet, head.taken) + self.overhead))
    }

    /// The ECN field of the next segment.
    pub(crate) fn head_ecn(&self) -> Ecn {
        self.packets.front().map_or(Ecn::NotCapable, |head| head.packet.ecn())
    }

    /// The next packet, if none of its segments has been taken.
    pub(crate) fn untouched_head(&mut self) -> Option<&mut P> {
        self.packets.front_mut().filter(|head| head.taken == 0).map(|head| &mut head.packet)
    }

    /// Takes the next segment and returns its bytes on the wire. `context` receives the parts that this
    /// closes.
    pub(crate) fn take(&mut self, mark: Mark, context: &mut QueueContext<P>) -> Option<u64> {
        if self.packets.front()?.mark != mark {
            self.close(context);
        }
        let bytes = self.head_bytes();
        let head = self.packets.front_mut()?;
        head.mark = mark;
        head.taken += 1;
        context.taken_loss = head.loss;
        let is_complete = head.taken == head.packet.segments();
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        context.marked += u64::from(mark == Mark::Ce);
        if is_complete && let Some(head) = self.packets.pop_front() {
            context.closed = Some(closed_part(head.packet, head.mark, head.loss));
        }
        Some(bytes)
    }

    /// Drops the next segment.
    pub(crate) fn drop_head(&mut self, cause: DropCause, context: &mut QueueContext<P>) {
        self.close(context);
        let bytes = self.head_bytes();
        let Some(head) = self.packets.front_mut() else { return };
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        if head.packet.segments() == 1 {
            if let Some(head) = self.packets.pop_front() {
                context.drop(cause, head.packet);
            }
            return;
        }
        let remaining = head.packet.split_off(1);
        head.at = head.at + head.step;
        context.drop(cause, std::mem::replace(&mut head.packet, remaining));
    }

    /// Closes the open prefix, if there is one.
    pub(crate) fn close(&mut self, context: &mut QueueContext<P>) {
        let Some(head) = self.packets.front_mut().filter(|head| head.taken > 0) else { return };
        let remaining = head.packet.split_off(head.taken);
        let prefix = std::mem::replace(&mut head.packet, remaining);
        context.close(closed_part(prefix, head.mark, head.loss));
        head.at = head.at + head.step * u64::from(head.taken);
        (head.taken, head.mark) = (0, Mark::No);
    }

    /// Removes all packets, after closing the open prefix.
    pub(crate) fn drain(&mut self, context: &mut QueueContext<P>) -> Vec<QueuedPacket<P>> {
        self.close(context);
        self.backlog = Backlog::default();
        self.packets.drain(..).collect()
    }
}

fn closed_part<P: Packet>(mut packet: P, mark: Mark, loss: LossDraw) -> PacketPart<P> {
    if mark == Mark::Ce {
        packet.mark_ce();
    }
    PacketPart { packet, loss }
}
