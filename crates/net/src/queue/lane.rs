//! One first-in-first-out line of packets, taken segment by segment; trains stay whole as long as they can.
//!
//! Segments that have been taken stay in front of their packet as an open *prefix* until the packet ends, or until
//! something happens to the next segment that did not happen to them; then the prefix is cut off and *closed*.

use std::collections::VecDeque;

use super::{Backlog, Desk, LossDrawn, Part};
use crate::{Ecn, Packet, cut::segment_bytes, cut::wire_bytes, fixed::Fixed};

/// What is asked for when a segment is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Leave it as it is.
    No,
    /// Congestion experienced.
    Ce,
}

/// A packet in line.
#[derive(Debug)]
pub(crate) struct Item<P> {
    pub(crate) packet: P,
    /// When the first segment came, and the time between two.
    pub(crate) at: Fixed,
    pub(crate) step: Fixed,
    pub(crate) loss: LossDrawn,
    /// Segments of the open prefix, and whether they are marked.
    taken: u32,
    mark: Mark,
}

impl<P: Packet> Item<P> {
    pub(crate) fn new(packet: P, at: Fixed, step: Fixed, loss: LossDrawn) -> Self {
        Item { packet, at, step, loss, taken: 0, mark: Mark::No }
    }
}

/// A line.
#[derive(Debug)]
pub(crate) struct Lane<P> {
    items: VecDeque<Item<P>>,
    backlog: Backlog,
    overhead: u32,
}

impl<P: Packet> Lane<P> {
    pub(crate) fn new(overhead: u32) -> Self {
        Lane { items: VecDeque::new(), backlog: Backlog::default(), overhead }
    }

    /// What has not been taken yet.
    pub(crate) fn backlog(&self) -> Backlog {
        self.backlog
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn push(&mut self, item: Item<P>) {
        self.backlog.packets += u64::from(item.packet.segments());
        self.backlog.bytes += wire_bytes(&item.packet, self.overhead);
        self.items.push_back(item);
    }

    /// When the next segment came.
    pub(crate) fn head_at(&self) -> Option<Fixed> {
        self.items.front().map(|item| item.at + item.step * u64::from(item.taken))
    }

    /// Bytes of the next segment on the wire.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.items
            .front()
            .map_or(0, |item| u64::from(segment_bytes(&item.packet, item.taken) + self.overhead))
    }

    /// What the next segment's header says about congestion notification.
    pub(crate) fn head_ecn(&self) -> Ecn {
        self.items.front().map_or(Ecn::NotCapable, |item| item.packet.ecn())
    }

    /// The next packet, if none of its segments has been taken.
    pub(crate) fn head_untouched(&mut self) -> Option<&mut P> {
        self.items.front_mut().filter(|item| item.taken == 0).map(|item| &mut item.packet)
    }

    /// Takes the next segment; its bytes on the wire. If its packet ends with it, or its part, `desk` has it closed.
    pub(crate) fn take(&mut self, mark: Mark, desk: &mut Desk<P>) -> Option<u64> {
        if self.items.front()?.mark != mark {
            self.close(desk);
        }
        let bytes = self.head_bytes();
        let item = self.items.front_mut()?;
        item.mark = mark;
        item.taken += 1;
        desk.taken_loss = item.loss;
        let ends = item.taken == item.packet.segments();
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        desk.marked += u64::from(mark == Mark::Ce);
        if ends && let Some(item) = self.items.pop_front() {
            desk.closed = Some(closed(item.packet, item.mark, item.loss));
        }
        Some(bytes)
    }

    /// Takes the next segment away for good.
    pub(crate) fn drop_head(&mut self, cause: crate::DropCause, desk: &mut Desk<P>) {
        self.close(desk);
        let bytes = self.head_bytes();
        let Some(item) = self.items.front_mut() else { return };
        self.backlog.packets -= 1;
        self.backlog.bytes -= bytes;
        if item.packet.segments() == 1 {
            if let Some(item) = self.items.pop_front() {
                desk.drop(cause, item.packet);
            }
            return;
        }
        let rest = item.packet.split_off(1);
        item.at = item.at + item.step;
        desk.drop(cause, std::mem::replace(&mut item.packet, rest));
    }

    /// Closes the open prefix, if there is one.
    pub(crate) fn close(&mut self, desk: &mut Desk<P>) {
        let Some(item) = self.items.front_mut().filter(|item| item.taken > 0) else { return };
        let rest = item.packet.split_off(item.taken);
        let prefix = std::mem::replace(&mut item.packet, rest);
        desk.close(closed(prefix, item.mark, item.loss));
        item.at = item.at + item.step * u64::from(item.taken);
        (item.taken, item.mark) = (0, Mark::No);
    }

    /// Everything in line; the open prefix is closed.
    pub(crate) fn drain(&mut self, desk: &mut Desk<P>) -> Vec<Item<P>> {
        self.close(desk);
        self.backlog = Backlog::default();
        self.items.drain(..).collect()
    }
}

fn closed<P: Packet>(mut packet: P, mark: Mark, loss: LossDrawn) -> Part<P> {
    if mark == Mark::Ce {
        packet.mark_ce();
    }
    Part { packet, loss }
}
