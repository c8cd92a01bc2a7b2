//! SACK blocks mark packets: `tcp_sacktag_write_queue` (net/ipv4/tcp_input.c; RFC 2018, RFC 2883).
//!
//! Departures: 1. Blocks are taken in the order they come, not sorted; what was told before is skipped by `sacked.rs`.

use super::{Marks, ack::AckState, flag};
use crate::{
    CaState, Endpoint,
    behaviour::Recovery,
    segment::{after, before},
};

impl Endpoint {
    /// `tcp_highest_sack_seq`.
    #[inline]
    pub(super) fn highest_sack_seq(&self) -> u32 {
        if self.sk.sacked_out == 0 { self.sk.snd_una } else { self.tx.highest_sack }
    }

    /// `tcp_sacktag_write_queue`.
    #[inline(never)]
    pub(super) fn sacktag(&mut self, blocks: &[(u32, u32)], ack: u32, prior_una: u32, state: &mut AckState) {
        if self.sk.sacked_out == 0 {
            self.tx.highest_sack = self.sk.snd_una;
            self.tx.sacked.clear();
        }
        self.tx.sacked.trim(self.sk.snd_una);
        let duplicate = self.check_dsack(blocks, ack, prior_una, state);
        if before(ack, prior_una.wrapping_sub(self.sk.max_window)) || self.sk.packets_out == 0 {
            return;
        }
        if duplicate {
            let (start, end) = blocks[0];
            self.tag_duplicate(start, end, state);
        }
        for &(start, end) in &blocks[usize::from(duplicate)..] {
            let valid = before(start, end) && after(end, self.sk.snd_una) && !after(end, self.sk.snd_nxt);
            if valid && !before(start, self.sk.snd_una) {
                self.tag_block(start, end, state);
            }
        }
        if self.sk.ca_state() != CaState::Loss || self.sk.undo_marker != 0 {
            self.check_sack_reordering(state.reord);
        }
    }

    /// `tcp_check_dsack`.
    fn check_dsack(&mut self, blocks: &[(u32, u32)], ack: u32, prior_una: u32, state: &mut AckState) -> bool {
        let Some(&(start, end)) = blocks.first() else { return false };
        let is_duplicate = before(start, ack)
            || blocks.get(1).is_some_and(|next| !after(end, next.1) && !before(start, next.0));
        if !is_duplicate {
            return false;
        }
        let Some(segments) = self.dsack_seen(start, end, state) else { return true };
        let sk = &mut self.sk;
        if sk.undo_marker != 0 && sk.undo_retrans > 0 && !after(end, prior_una) && after(end, sk.undo_marker)
        {
            sk.undo_retrans = (sk.undo_retrans - segments as i32).max(0);
        }
        true
    }

    /// `tcp_dsack_seen`: how many segments were duplicates of what was sent again.
    fn dsack_seen(&mut self, start: u32, end: u32, state: &mut AckState) -> Option<u32> {
        let sk = &mut self.sk;
        let bytes = end.wrapping_sub(start);
        if !before(start, end) || bytes > sk.max_window {
            return None;
        }
        let mut segments = 1;
        if bytes > sk.mss_cache {
            segments = bytes.div_ceil(sk.mss_cache);
        } else if sk.tlp_high_seq != 0 && sk.tlp_high_seq == end {
            state.flag |= flag::DSACK_TLP;
        }
        sk.dsack_dups += segments;
        if sk.dsack_dups > sk.total_retrans {
            return None;
        }
        if sk.reord_seen > 0 && state.flag & flag::DSACK_TLP == 0 {
            sk.rack.bits |= super::rack::DSACK_SEEN;
        }
        state.flag |= flag::DSACKING_ACK;
        state.sack_delivered += segments;
        Some(segments)
    }

    /// A duplicate of packets that are not acknowledged yet.
    fn tag_duplicate(&mut self, start: u32, end: u32, state: &mut AckState) {
        let mut index = self.tx.queue.index_of(start);
        while let Some(id) = self.tx.queue.at(index) {
            let skb = *self.tx.queue.get(id);
            if !before(skb.seq, end) {
                break;
            }
            index += 1;
            if before(skb.seq, start) || after(skb.end_seq, end) || !skb.marks.any(Marks::ANY_RETRANS) {
                continue;
            }
            let sk = &mut self.sk;
            if sk.undo_marker != 0 && sk.undo_retrans > 0 && after(skb.end_seq, sk.undo_marker) {
                sk.undo_retrans = (sk.undo_retrans - i32::from(skb.segs)).max(0);
            }
            if skb.marks.any(Marks::SACKED) && before(skb.seq, state.reord) {
                state.reord = skb.seq;
            }
            if skb.marks.any(Marks::RETRANS) {
                sk.retrans_out -= skb.segs();
                self.tx.queue.get_mut(id).marks.clear(Marks::RETRANS);
            }
        }
    }

    /// `tcp_sacktag_walk` over those parts of a block that are new.
    fn tag_block(&mut self, start: u32, end: u32, state: &mut AckState) {
        let mut parts = [(0, 0); 8];
        let mut count = 0;
        self.tx.sacked.add(start, end, |from, to| {
            // More parts than fit are joined to the last: what lies between is known, and passed over.
            if count < parts.len() {
                parts[count] = (from, to);
                count += 1;
            } else {
                parts[count - 1].1 = to;
            }
        });
        for &(from, to) in &parts[..count] {
            self.tag_part(start, end, (from, to), state);
        }
    }

    fn tag_part(&mut self, start: u32, end: u32, (from, to): (u32, u32), state: &mut AckState) {
        let mut index = self.tx.queue.index_of(from);
        while let Some(id) = self.tx.queue.at(index) {
            let skb = *self.tx.queue.get(id);
            if !before(skb.seq, to) {
                break;
            }
            if skb.marks.any(Marks::SACKED) {
                index += 1;
                continue;
            }
            let mut in_sack = !after(start, skb.seq) && !before(end, skb.end_seq);
            if !in_sack && skb.segs > 1 {
                match self.split_for_sack(index, start, end) {
                    Some(first_in_sack) => in_sack = first_in_sack,
                    None => {
                        index += 1;
                        continue;
                    }
                }
            }
            if in_sack {
                self.sacktag_one(id, state);
                self.join_sacked(index);
            }
            index += 1;
        }
    }

    /// `tcp_match_skb_to_sack`: splits a super-packet of which a block covers a part; tells whether the first part is
    /// covered.
    fn split_for_sack(&mut self, index: usize, start: u32, end: u32) -> Option<bool> {
        let id = self.tx.queue.at(index)?;
        let skb = self.tx.queue.get(id);
        let (mss, len) = (self.sk.mss_cache, skb.len());
        let in_sack = !after(start, skb.seq);
        let mut first = if in_sack { end.wrapping_sub(skb.seq) } else { start.wrapping_sub(skb.seq) };
        if first < mss {
            if in_sack {
                return None;
            }
            first = mss;
        }
        let whole = first / mss * mss;
        first = if !in_sack && whole < first { whole + mss } else { whole };
        if first >= len {
            return in_sack.then_some(true);
        }
        self.tx.queue.split(index, first, mss);
        self.recount_lost(index);
        Some(in_sack)
    }

    /// A packet that was split may be among the lost ones: its second part has to be too.
    pub(super) fn recount_lost(&mut self, index: usize) {
        if let Some(id) = self.tx.queue.at(index + 1) {
            let skb = *self.tx.queue.get(id);
            if skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) {
                let place = self.extended(skb.seq);
                self.tx.queue.push_lost(place, id);
            }
        }
    }

    /// The memory of a packet beside its data goes when it is joined to a neighbour that was selectively acknowledged too
    /// (`tcp_shift_skb_data`, since 2.6.29).
    fn join_sacked(&mut self, index: usize) {
        if self.behaviour.recovery == Recovery::Fack {
            return;
        }
        let sacked = |at: usize| {
            let id = self.tx.queue.at(at);
            id.is_some_and(|id| self.tx.queue.get(id).marks.any(Marks::SACKED))
        };
        self.tx.joined += u32::from(index > 0 && sacked(index - 1)) + u32::from(sacked(index + 1));
    }

    /// `tcp_sacktag_one` and what follows it in the walk.
    fn sacktag_one(&mut self, id: u32, state: &mut AckState) {
        let skb = *self.tx.queue.get(id);
        let segs = skb.segs();
        let mut marks = skb.marks;
        self.rack_advance(&skb);
        if marks.any(Marks::RETRANS) {
            if marks.any(Marks::LOST) {
                marks.clear(Marks::LOST);
                marks.clear(Marks::RETRANS);
                self.sk.lost_out -= segs;
                self.sk.retrans_out -= segs;
            }
        } else {
            if !marks.any(Marks::ANY_RETRANS) {
                if before(skb.seq, self.highest_sack_seq()) && before(skb.seq, state.reord) {
                    state.reord = skb.seq;
                }
                if !after(skb.end_seq, self.sk.high_seq) {
                    state.flag |= flag::ORIG_SACK_ACKED;
                }
                let first = state.sacked_us.map_or(skb.sent_us, |sacked| sacked.0);
                state.sacked_us = Some((first, skb.sent_us));
            }
            if marks.any(Marks::LOST) {
                marks.clear(Marks::LOST);
                self.sk.lost_out -= segs;
            }
        }
        marks.set(Marks::SACKED);
        state.flag |= flag::DATA_SACKED;
        self.sk.sacked_out += segs;
        state.sack_delivered += segs;
        if self.sk.sacked_out == segs || after(skb.end_seq, self.tx.highest_sack) {
            self.tx.highest_sack = skb.end_seq;
        }
        self.tx.queue.get_mut(id).marks = marks;
        self.rate_skb_delivered(id, &mut state.rs);
        self.tx.queue.unlist(id);
    }

    /// `tcp_check_sack_reordering`: how far out of order packets come.
    #[inline(never)]
    pub(super) fn check_sack_reordering(&mut self, low: u32) {
        let fack = self.highest_sack_seq();
        if !before(low, fack) {
            return;
        }
        let (metric, mss) = (fack.wrapping_sub(low), self.sk.mss_cache);
        if metric > self.sk.reordering.saturating_mul(mss) {
            self.sk.reordering = metric.div_ceil(mss).min(self.config.max_reordering);
        }
        self.sk.reord_seen += 1;
    }
}
