//! The send queue: unsent data, and packets that are sent and not acknowledged.
//!
//! Sent packets are in a slab. `order` has their ids by sequence number. A linked list through the slab has
//! the packets neither acknowledged nor lost, by the time of their last transmission (`tsorted_sent_queue`).
//! `lost` has the packets to retransmit. The cost of an ACK is proportional to the newly acknowledged
//! packets, plus a search that starts near its result. It hardly depends on the window.
//!
//! Differences from the kernel:
//! 1. Lost packets are in a priority queue; the kernel finds them by a walk from `retransmit_skb_hint`. The
//!    order is the same.
//! 2. Selectively acknowledged packets are not joined; `sacked` stores the ranges instead, and the send
//!    buffer is charged as if they were joined.

use super::lost::Lost;
use super::skb::{Marks, NONE, Skb, segments};
use super::unsent::Unsent;
use crate::{search::partition_near, segment::after};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct SendQueue {
    slab: Vec<Skb>,
    /// The first free slot of the slab; `later` links the free slots.
    free: u32,
    order: VecDeque<u32>,
    oldest: u32,
    newest: u32,
    /// Packets to retransmit, by extended sequence number. An entry is stale if its packet no longer has to
    /// be retransmitted, or begins at another sequence number.
    lost: Lost,
    pub(super) unsent: Unsent,
}

impl SendQueue {
    pub(super) fn new() -> SendQueue {
        SendQueue {
            slab: Vec::new(),
            free: NONE,
            order: VecDeque::new(),
            oldest: NONE,
            newest: NONE,
            lost: Lost::default(),
            unsent: Unsent::default(),
        }
    }

    /// Number of packets, sent or not (a super-packet counts once).
    pub(super) fn skbs(&self) -> usize {
        self.order.len() + self.unsent.len()
    }

    /// Whether no packet waits for an acknowledgement.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    #[inline]
    pub(super) fn get(&self, id: u32) -> &Skb {
        &self.slab[id as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> &mut Skb {
        &mut self.slab[id as usize]
    }

    /// The first unacknowledged packet.
    #[inline]
    pub(super) fn head(&self) -> Option<u32> {
        self.order.front().copied()
    }

    /// The last packet sent, by sequence number.
    pub(super) fn last(&self) -> Option<u32> {
        self.order.back().copied()
    }

    /// The packet at an index of the order.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<u32> {
        self.order.get(index).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// The index of the first packet that ends after `seq`; the number of packets if there is none.
    pub(super) fn index_of(&self, seq: u32) -> usize {
        let (Some(first), Some(last)) = (self.head(), self.last()) else { return 0 };
        let begin = self.get(first).seq;
        let bytes = self.get(last).end_seq.wrapping_sub(begin).max(1);
        let ahead = (seq.wrapping_sub(begin) as i32).clamp(0, bytes as i32) as u64;
        // Packets have similar sizes, so a fraction of the bytes is about the same fraction of the packets.
        let guess = (ahead * self.order.len() as u64 / u64::from(bytes)) as usize;
        let ends_before = |index: usize| !after(self.get(self.order[index]).end_seq, seq);
        partition_near(self.order.len(), guess, ends_before)
    }

    #[inline]
    fn store(&mut self, skb: Skb) -> u32 {
        let id = self.free;
        if id != NONE {
            let slot = &mut self.slab[id as usize];
            self.free = slot.later;
            *slot = skb;
            return id;
        }
        if self.slab.len() == self.slab.capacity() {
            self.slab.reserve_exact(growth(self.slab.len()));
        }
        self.slab.push(skb);
        (self.slab.len() - 1) as u32
    }

    /// Appends a packet that is being sent. [`SendQueue::list`] adds it to the list by time.
    #[inline(always)]
    pub(super) fn push(&mut self, skb: Skb) -> u32 {
        let id = self.store(skb);
        if self.order.len() == self.order.capacity() {
            self.order.reserve_exact(growth(self.order.len()));
        }
        self.order.push_back(id);
        id
    }

    /// Removes the first packet.
    #[inline]
    pub(super) fn pop(&mut self) {
        if let Some(id) = self.order.pop_front() {
            self.unlist(id);
            // Invalidates entries of `lost` with this id: no packet has 0 segments.
            let skb = &mut self.slab[id as usize];
            skb.segs = 0;
            skb.later = self.free;
            self.free = id;
        }
    }

    /// Splits the packet at `index` of the order after `len` bytes. Returns the id of the second part
    /// (`tcp_fragment`).
    pub(super) fn split(&mut self, index: usize, len: u32, mss: u32) -> u32 {
        let id = self.order[index];
        let mut second = self.slab[id as usize];
        let first = &mut self.slab[id as usize];
        first.end_seq = first.seq.wrapping_add(len);
        let listed = first.marks.any(Marks::LISTED);
        first.marks.clear(Marks::FIN);
        first.marks.clear(Marks::PSH);
        second.seq = first.end_seq;
        first.segs = segments(len, mss);
        second.segs = segments(second.len(), mss);
        second.marks.clear(Marks::LISTED);
        let second_id = self.store(second);
        self.order.insert(index + 1, second_id);
        if listed {
            self.list_after(id, second_id);
        }
        second_id
    }

    // ---- The list by time ---------------------------------------------------------------------------------

    /// The packet of the list that was sent first.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The packet of the list that was sent next after `id`.
    #[inline]
    pub(super) fn later(&self, id: u32) -> Option<u32> {
        let later = self.slab[id as usize].later;
        (later != NONE).then_some(later)
    }

    /// Puts a packet at the end of the list: it has just been sent.
    #[inline]
    pub(super) fn list(&mut self, id: u32) {
        self.unlist(id);
        let newest = self.newest;
        let skb = &mut self.slab[id as usize];
        skb.marks.set(Marks::LISTED);
        skb.earlier = newest;
        skb.later = NONE;
        match newest {
            NONE => self.oldest = id,
            _ => self.slab[newest as usize].later = id,
        }
        self.newest = id;
    }

    fn list_after(&mut self, id: u32, new: u32) {
        let later = self.slab[id as usize].later;
        self.slab[id as usize].later = new;
        let skb = &mut self.slab[new as usize];
        skb.marks.set(Marks::LISTED);
        skb.earlier = id;
        skb.later = later;
        match later {
            NONE => self.newest = new,
            _ => self.slab[later as usize].earlier = new,
        }
    }

    /// Removes a packet from the list: it is acknowledged, or lost and not yet retransmitted.
    #[inline]
    pub(super) fn unlist(&mut self, id: u32) {
        let skb = &mut self.slab[id as usize];
        if !skb.marks.any(Marks::LISTED) {
            return;
        }
        skb.marks.clear(Marks::LISTED);
        let (earlier, later) = (skb.earlier, skb.later);
        match earlier {
            NONE => self.oldest = later,
            _ => self.slab[earlier as usize].later = later,
        }
        match later {
            NONE => self.newest = earlier,
            _ => self.slab[later as usize].earlier = earlier,
        }
    }

    // ---- Packets to retransmit ----------------------------------------------------------------------------

    /// Adds a packet to retransmit. `seq` is its extended sequence number.
    pub(super) fn push_lost(&mut self, seq: u64, id: u32) {
        self.lost.push((seq, id));
    }

    /// The first packet to retransmit, without removing it.
    pub(super) fn first_lost(&mut self) -> Option<u32> {
        while let Some((seq, id)) = self.lost.first() {
            let skb = &self.slab[id as usize];
            let is_lost = skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) && skb.segs > 0;
            if is_lost && skb.seq == seq as u32 {
                return Some(id);
            }
            self.lost.pop();
        }
        None
    }

    /// Removes all packets to retransmit.
    pub(super) fn clear_lost(&mut self) {
        self.lost.clear();
    }
}

/// Number of elements by which a full queue grows. Doubling would waste half of a large window's memory.
fn growth(len: usize) -> usize {
    16 + len / 32
}
