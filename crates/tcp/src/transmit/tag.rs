//! Processing of SACK blocks: `tcp_sacktag_write_queue` (net/ipv4/tcp_input.c; RFC 2018, RFC 2883).
//!
//! Differences from the kernel: 1. Blocks are processed in the order of the option, not sorted; `sacked.rs`
//! skips ranges that are already known.

use super::{Marks, Sender, ack::AckState};
use crate::{
    CaState,
    behaviour::Recovery,
    connection::Connection,
    flag::AckFlags,
    segment::{after, before},
};

impl Sender {
    /// `tcp_highest_sack_seq`.
    #[inline]
    pub(super) fn highest_sack_seq(&self, conn: &Connection) -> u32 {
        if conn.sk.sacked_out == 0 { conn.sk.snd_una } else { self.highest_sack }
    }

    /// `tcp_sacktag_write_queue`.
    #[inline(never)]
    pub(super) fn sacktag(
        &mut self,
        conn: &mut Connection,
        blocks: &[(u32, u32)],
        ack: u32,
        prior_una: u32,
        state: &mut AckState,
    ) {
        if conn.sk.sacked_out == 0 {
            self.highest_sack = conn.sk.snd_una;
            self.sacked.clear();
        }
        self.sacked.trim(conn.sk.snd_una);
        let duplicate = conn.check_dsack(blocks, ack, prior_una, state);
        if before(ack, prior_una.wrapping_sub(conn.sk.max_window)) || conn.sk.packets_out == 0 {
            return;
        }
        if duplicate {
            let (start, end) = blocks[0];
            self.tag_duplicate(conn, start, end, state);
        }
        for &(start, end) in &blocks[usize::from(duplicate)..] {
            let valid = before(start, end) && after(end, conn.sk.snd_una) && !after(end, conn.sk.snd_nxt);
            if valid && !before(start, conn.sk.snd_una) {
                self.tag_block(conn, start, end, state);
            }
        }
        if conn.sk.ca_state() != CaState::Loss || conn.sk.undo_marker != 0 {
            self.check_sack_reordering(conn, state.reord);
        }
    }

    /// Processes a DSACK block above `snd_una`.
    fn tag_duplicate(&mut self, conn: &mut Connection, start: u32, end: u32, state: &mut AckState) {
        let mut index = self.queue.index_of(start);
        while let Some(id) = self.queue.at(index) {
            let skb = *self.queue.get(id);
            if !before(skb.seq, end) {
                break;
            }
            index += 1;
            if before(skb.seq, start) || after(skb.end_seq, end) || !skb.marks.any(Marks::ANY_RETRANS) {
                continue;
            }
            let sk = &mut conn.sk;
            if sk.undo_marker != 0 && sk.undo_retrans > 0 && after(skb.end_seq, sk.undo_marker) {
                sk.undo_retrans = (sk.undo_retrans - i32::from(skb.segs)).max(0);
            }
            if skb.marks.any(Marks::SACKED) && before(skb.seq, state.reord) {
                state.reord = skb.seq;
            }
            if skb.marks.any(Marks::RETRANS) {
                sk.retrans_out -= skb.segs();
                self.queue.get_mut(id).marks.clear(Marks::RETRANS);
            }
        }
    }

    /// `tcp_sacktag_walk` over those parts of a block that are new.
    fn tag_block(&mut self, conn: &mut Connection, start: u32, end: u32, state: &mut AckState) {
        let mut parts = [(0, 0); 8];
        let mut count = 0;
        self.sacked.add(start, end, |from, to| {
            // Parts that exceed the array are merged into the last one. The packets between the merged parts
            // are already marked, so `tag_part` skips them.
            if count < parts.len() {
                parts[count] = (from, to);
                count += 1;
            } else {
                parts[count - 1].1 = to;
            }
        });
        for &(from, to) in &parts[..count] {
            self.tag_part(conn, start, end, (from, to), state);
        }
    }

    fn tag_part(
        &mut self,
        conn: &mut Connection,
        start: u32,
        end: u32,
        (from, to): (u32, u32),
        state: &mut AckState,
    ) {
        let mut index = self.queue.index_of(from);
        while let Some(id) = self.queue.at(index) {
            let skb = *self.queue.get(id);
            if !before(skb.seq, to) {
                break;
            }
            if skb.marks.any(Marks::SACKED) {
                index += 1;
                continue;
            }
            let mut in_sack = !after(start, skb.seq) && !before(end, skb.end_seq);
            if !in_sack && skb.segs > 1 {
                match self.split_for_sack(conn, index, start, end) {
                    Some(first_in_sack) => in_sack = first_in_sack,
                    None => {
                        index += 1;
                        continue;
                    }
                }
            }
            if in_sack {
                self.sacktag_one(conn, id, state);
                self.join_sacked(conn, index);
            }
            index += 1;
        }
    }

    /// `tcp_match_skb_to_sack`: splits a super-packet that a block covers partly. Returns whether the first
    /// part is covered.
    fn split_for_sack(&mut self, conn: &mut Connection, index: usize, start: u32, end: u32) -> Option<bool> {
        let id = self.queue.at(index)?;
        let skb = self.queue.get(id);
        let (mss, len) = (conn.sk.mss_cache, skb.len());
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
        self.queue.split(index, first, mss);
        self.recount_lost(conn, index);
        Some(in_sack)
    }

    /// After a split: if the packet waits for retransmission, adds its second part to the lost packets.
    pub(super) fn recount_lost(&mut self, conn: &mut Connection, index: usize) {
        if let Some(id) = self.queue.at(index + 1) {
            let skb = *self.queue.get(id);
            if skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) {
                let seq = self.extended(conn, skb.seq);
                self.queue.push_lost(seq, id);
            }
        }
    }

    /// Counts packets that the kernel merges with a neighbour, because both are selectively acknowledged: a
    /// merge frees one packet's overhead (`tcp_shift_skb_data`, since 2.6.29).
    fn join_sacked(&mut self, conn: &mut Connection, index: usize) {
        if conn.behaviour.recovery == Recovery::Fack {
            return;
        }
        let sacked = |at: usize| {
            let id = self.queue.at(at);
            id.is_some_and(|id| self.queue.get(id).marks.any(Marks::SACKED))
        };
        self.joined += u32::from(index > 0 && sacked(index - 1)) + u32::from(sacked(index + 1));
    }

    /// `tcp_sacktag_one` and the code after it in `tcp_sacktag_walk`.
    fn sacktag_one(&mut self, conn: &mut Connection, id: u32, state: &mut AckState) {
        let skb = *self.queue.get(id);
        let segs = skb.segs();
        let mut marks = skb.marks;
        conn.rack_advance(&skb);
        if marks.any(Marks::RETRANS) {
            if marks.any(Marks::LOST) {
                marks.clear(Marks::LOST);
                marks.clear(Marks::RETRANS);
                conn.sk.lost_out -= segs;
                conn.sk.retrans_out -= segs;
            }
        } else {
            if !marks.any(Marks::ANY_RETRANS) {
                if before(skb.seq, self.highest_sack_seq(conn)) && before(skb.seq, state.reord) {
                    state.reord = skb.seq;
                }
                if !after(skb.end_seq, conn.sk.high_seq) {
                    state.flag.insert(AckFlags::ORIG_SACK_ACKED);
                }
                let first = state.sacked_us.map_or(skb.sent_us, |sacked| sacked.0);
                state.sacked_us = Some((first, skb.sent_us));
            }
            if marks.any(Marks::LOST) {
                marks.clear(Marks::LOST);
                conn.sk.lost_out -= segs;
            }
        }
        marks.set(Marks::SACKED);
        state.flag.insert(AckFlags::DATA_SACKED);
        conn.sk.sacked_out += segs;
        state.sack_delivered += segs;
        if conn.sk.sacked_out == segs || after(skb.end_seq, self.highest_sack) {
            self.highest_sack = skb.end_seq;
        }
        self.queue.get_mut(id).marks = marks;
        self.rate_skb_delivered(conn, id, &mut state.rs);
        self.queue.unlist(id);
    }

    /// `tcp_check_sack_reordering`: updates the reordering distance.
    #[inline(never)]
    pub(super) fn check_sack_reordering(&mut self, conn: &mut Connection, low: u32) {
        let fack = self.highest_sack_seq(conn);
        if !before(low, fack) {
            return;
        }
        let (metric, mss) = (fack.wrapping_sub(low), conn.sk.mss_cache);
        if metric > conn.sk.reordering.saturating_mul(mss) {
            conn.sk.reordering = metric.div_ceil(mss).min(conn.config.max_reordering);
        }
        conn.sk.reord_seen += 1;
    }
}

impl Connection {
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

    /// `tcp_dsack_seen`: number of segments that were duplicates of retransmissions.
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
            state.flag.insert(AckFlags::DSACK_TLP);
        }
        sk.dsack_dups += segments;
        if sk.dsack_dups > sk.total_retrans {
            return None;
        }
        if sk.reord_seen > 0 && !state.flag.any(AckFlags::DSACK_TLP) {
            sk.rack.bits |= super::rack::DSACK_SEEN;
        }
        state.flag.insert(AckFlags::DSACKING_ACK);
        state.sack_delivered += segments;
        Some(segments)
    }
}
