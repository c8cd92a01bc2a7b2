//! The send queue: what was written and not sent, and what was sent and not acknowledged.
//!
//! Sent packets stand in a slab; `order` has their ids by sequence number, a list through the slab has those whose
//! fate is open by the time they were last sent (`tsorted_sent_queue`), and `lost` those to send again. An ACK costs
//! what it newly acknowledges and a search that begins near its end, whatever the window.
//!
//! Departures from the kernel:
//! 1. Lost packets are kept in order instead of found by a walk from `retransmit_skb_hint`; the order is the same.
//! 2. Packets that were selectively acknowledged are not joined; `sacked` remembers the ranges instead, and the send buffer
//!    is charged as if they were.

use super::lost::Lost;
use super::skb::{Marks, NONE, Skb, segments};
use super::unsent::Unsent;
use crate::{search::partition_near, segment::after};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct SendQueue {
    slab: Vec<Skb>,
    /// The first free place of the slab; `later` leads from one to the next.
    free: u32,
    order: VecDeque<u32>,
    oldest: u32,
    newest: u32,
    /// To send again, by extended sequence number. An entry is stale if its packet has other marks or another place.
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

    /// How many packets (super-packets count once) it holds, sent or not.
    pub(super) fn skbs(&self) -> usize {
        self.order.len() + self.unsent.len()
    }

    /// Nothing is waiting for an acknowledgement.
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

    /// The first packet not acknowledged.
    #[inline]
    pub(super) fn head(&self) -> Option<u32> {
        self.order.front().copied()
    }

    /// The last packet sent, by sequence number.
    pub(super) fn last(&self) -> Option<u32> {
        self.order.back().copied()
    }

    /// The packet at a place of the order.
    #[inline]
    pub(super) fn at(&self, index: usize) -> Option<u32> {
        self.order.get(index).copied()
    }

    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// The place of the first packet that ends after `seq`; as many as there are, if none does.
    pub(super) fn index_of(&self, seq: u32) -> usize {
        let (Some(first), Some(last)) = (self.head(), self.last()) else { return 0 };
        let begin = self.get(first).seq;
        let bytes = self.get(last).end_seq.wrapping_sub(begin).max(1);
        let ahead = (seq.wrapping_sub(begin) as i32).clamp(0, bytes as i32) as u64;
        // Packets are much alike: a share of the bytes is the same share of the packets, nearly.
        let guess = (ahead * self.order.len() as u64 / u64::from(bytes)) as usize;
        let ends_before = |index: usize| !after(self.get(self.order[index]).end_seq, seq);
        partition_near(self.order.len(), guess, ends_before)
    }

    #[inline]
    fn store(&mut self, skb: Skb) -> u32 {
        let id = self.free;
        if id != NONE {
            let place = &mut self.slab[id as usize];
            self.free = place.later;
            *place = skb;
            return id;
        }
        if self.slab.len() == self.slab.capacity() {
            self.slab.reserve_exact(growth(self.slab.len()));
        }
        self.slab.push(skb);
        (self.slab.len() - 1) as u32
    }

    /// Appends a packet that is being sent; it is not yet in the list by time.
    #[inline(always)]
    pub(super) fn push(&mut self, skb: Skb) -> u32 {
        let id = self.store(skb);
        if self.order.len() == self.order.capacity() {
            self.order.reserve_exact(growth(self.order.len()));
        }
        self.order.push_back(id);
        id
    }

    /// Takes the first packet out.
    #[inline]
    pub(super) fn pop(&mut self) {
        if let Some(id) = self.order.pop_front() {
            self.unlist(id);
            // An id must not be found again through the heap: no packet has this number of segments.
            let skb = &mut self.slab[id as usize];
            skb.segs = 0;
            skb.later = self.free;
            self.free = id;
        }
    }

    /// Splits packet `id`, at place `index` of the order, after `len` bytes; gives the second part's id
    /// (`tcp_fragment`).
    pub(super) fn split(&mut self, index: usize, len: u32, mss: u32) -> u32 {
        let id = self.order[index];
        let mut rest = self.slab[id as usize];
        let first = &mut self.slab[id as usize];
        first.end_seq = first.seq.wrapping_add(len);
        first.marks.clear(Marks::FIN);
        rest.seq = first.end_seq;
        first.segs = segments(len, mss);
        rest.segs = segments(rest.len(), mss);
        rest.listed = false;
        let listed = first.listed;
        let rest_id = self.store(rest);
        self.order.insert(index + 1, rest_id);
        if listed {
            self.list_after(id, rest_id);
        }
        rest_id
    }

    // ---- The list by time --------------------------------------------------------------------------------------

    /// The packet sent longest ago whose fate is open.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The one sent next after `id`.
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
        skb.listed = true;
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
        skb.listed = true;
        skb.earlier = id;
        skb.later = later;
        match later {
            NONE => self.newest = new,
            _ => self.slab[later as usize].earlier = new,
        }
    }

    /// Takes a packet from the list: it is acknowledged, or lost and not sent again.
    #[inline]
    pub(super) fn unlist(&mut self, id: u32) {
        let skb = &mut self.slab[id as usize];
        if !skb.listed {
            return;
        }
        skb.listed = false;
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

    // ---- What is to be sent again ------------------------------------------------------------------------------

    /// A packet is to be sent again. `place` is its extended sequence number.
    pub(super) fn push_lost(&mut self, place: u64, id: u32) {
        self.lost.push((place, id));
    }

    /// The first packet to send again; it stays.
    pub(super) fn first_lost(&mut self) -> Option<u32> {
        while let Some((place, id)) = self.lost.first() {
            let skb = &self.slab[id as usize];
            let is_lost = skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) && skb.segs > 0;
            if is_lost && skb.seq == place as u32 {
                return Some(id);
            }
            self.lost.pop();
        }
        None
    }

    /// Forgets what is to be sent again.
    pub(super) fn clear_lost(&mut self) {
        self.lost.clear();
    }
}

/// By how much a queue of so many grows: a little, for doubling would waste half of a large window's memory.
fn growth(len: usize) -> usize {
    16 + len / 32
}
