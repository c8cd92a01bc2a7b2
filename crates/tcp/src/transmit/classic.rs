//! The sender of Linux 2.4: growth by ACKs, the FACK scoreboard, rate halving, moderation of the window
//! (net/ipv4/tcp_{input,output}.c, include/net/tcp.h of 2.4.20; M. Mathis, J. Mahdavi, "Forward acknowledgement", 1996).
//!
//! Packets are single segments here. What `behaviour.rs` lists departs.

use super::{Marks, flag, recovery::Retransmission};
use crate::{
    CaEvent, CaState, Endpoint, INFINITE_SSTHRESH, Operation,
    segment::{after, before},
};
use std::collections::VecDeque;

/// `tcp_max_burst`, packets: how many may leave at once when ACKs say something new.
const MAX_BURST: u32 = 3;

/// What of the scoreboard is not in the packets' marks.
#[derive(Debug)]
pub(super) struct Scoreboard {
    /// Losses follow from the highest SACK block; off once packets came out of order (the second bit of `sack_ok`).
    forward: bool,
    /// Extended sequence number up to which every packet has been judged.
    judged: u64,
    /// Retransmissions of this recovery, oldest first: extended sequence number, and `snd_nxt` at that time.
    retransmitted: VecDeque<(u64, u32)>,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard { forward: true, judged: 0, retransmitted: VecDeque::new() }
    }
}

impl Endpoint {
    // ---- Growth ------------------------------------------------------------------------------------------------

    /// The calls of `tcp_cong_avoid` in `tcp_ack`: an ACK counts once, whatever it acknowledges, and only while the window
    /// was full. `in_flight`: before what it acknowledges left.
    pub(super) fn grow_by_ack(&mut self, ack: u32, in_flight: u32, flag: i32) {
        let may_raise = flag & flag::ECE == 0 || self.sk.in_slow_start();
        let held = self.is_dubious(flag) && (!may_raise || self.sk.in_cwnd_reduction());
        let full = in_flight >= self.sk.snd_cwnd;
        if flag & flag::DATA_ACKED == 0 || held || !full || self.has(Operation::CongControl) {
            return;
        }
        self.sk.set_is_cwnd_limited(true);
        self.cc.cong_avoid(&mut self.sk, ack, 1);
        self.sk.snd_cwnd_stamp = self.jiffies();
    }

    /// `tcp_cwnd_validate`.
    pub(super) fn validate_by_acks(&mut self) {
        let full = self.sk.packets_out >= self.sk.snd_cwnd;
        self.sk.set_is_cwnd_limited(full);
        self.sk.max_packets_out = self.sk.packets_out;
        if full {
            self.sk.snd_cwnd_used = 0;
            self.sk.snd_cwnd_stamp = self.jiffies();
            return;
        }
        self.sk.snd_cwnd_used = self.sk.snd_cwnd_used.max(self.sk.packets_out);
        let unused = self.jiffies().wrapping_sub(self.sk.snd_cwnd_stamp);
        if unused >= self.sk.icsk_rto && !self.has(Operation::CongControl) {
            self.cwnd_application_limited(2);
        }
        self.note_full_buffer();
    }

    /// `tcp_init_cwnd`: 2, on a path shorter than 20 ms up to 4 (RFC 2414), jumbo frames always 2.
    pub(super) fn small_initial_cwnd(&self) -> u32 {
        let sk = &self.sk;
        let most = match sk.mss_cache {
            1461.. => return 2,
            1096..=1460 => 3,
            _ => 4,
        };
        let unknown = sk.snd_ssthresh >= INFINITE_SSTHRESH && sk.srtt_us >> 3 > 20_000;
        if sk.srtt_us == 0 || unknown { 2 } else { most.min(sk.snd_ssthresh) }
    }

    // ---- Reduction ---------------------------------------------------------------------------------------------

    /// The window is at most so many packets more than what is in flight.
    pub(super) fn cap_cwnd(&mut self, more: u32) {
        if self.has(Operation::CongControl) {
            return;
        }
        self.sk.snd_cwnd = self.sk.snd_cwnd.min(self.sk.packets_in_flight() + more);
        self.sk.snd_cwnd_stamp = self.jiffies();
    }

    /// `tcp_moderate_cwnd`.
    fn moderate_cwnd(&mut self) {
        self.cap_cwnd(MAX_BURST);
    }

    /// `tcp_cwnd_down`: rate halving, one packet less for every second ACK.
    fn halve_rate(&mut self) {
        if self.has(Operation::CongControl) {
            return;
        }
        let acks = self.sk.snd_cwnd_cnt + 1;
        self.sk.snd_cwnd_cnt = acks & 1;
        if self.sk.snd_cwnd > self.sk.snd_ssthresh / 2 {
            self.sk.snd_cwnd = self.sk.snd_cwnd.saturating_sub(acks >> 1).max(1);
        }
        self.cap_cwnd(1);
    }

    /// `tcp_complete_cwr`.
    pub(super) fn complete_halving(&mut self) {
        self.sk.snd_cwnd = self.sk.snd_cwnd.min(self.sk.snd_ssthresh);
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.ca_event(CaEvent::CompleteCwr);
    }

    /// The end of `tcp_undo_cwr`; `unmarked`: nothing counts as lost any more.
    pub(super) fn undone(&mut self, unmarked: bool) {
        if unmarked {
            self.tx.scoreboard.judged = 0;
        }
        self.moderate_cwnd();
    }

    // ---- The scoreboard ----------------------------------------------------------------------------------------

    /// `fackets_out`: packets from the first up to the highest selectively acknowledged one; without SACK `tcp_fackets_out`.
    fn forward_acked(&self) -> u32 {
        match (self.tx.sack, self.sk.sacked_out) {
            (false, sacked) => sacked + 1,
            (true, 0) => 0,
            (true, _) => self.tx.queue.index_of(self.tx.highest_sack) as u32,
        }
    }

    /// `tcp_head_timedout`.
    fn head_timed_out(&self) -> bool {
        let rto = self.jiffies_to_us(self.sk.icsk_rto);
        let head = self.tx.queue.head().map(|id| self.tx.queue.get(id).sent_us);
        head.is_some_and(|sent| u64::from(self.age_us(sent)) > rto)
    }

    /// `tcp_time_to_recover`.
    fn time_to_recover_by_count(&self) -> bool {
        let sk = &self.sk;
        if sk.lost_out > 0 || self.forward_acked() > sk.reordering || self.head_timed_out() {
            return true;
        }
        // All that is out but the first packet came, and there is nothing that would bring more duplicates.
        let small = sk.packets_out <= sk.reordering;
        let enough = sk.sacked_out >= (sk.packets_out / 2).max(self.config.reordering);
        let more = self.tx.queue.unsent.front().is_some_and(|chunk| self.window_test(*chunk));
        small && enough && !(more && sk.packets_in_flight() < sk.snd_cwnd)
    }

    /// `tcp_mark_head_lost`: of the first `packets`, those that end before `end` and have no mark.
    fn mark_head_lost(&mut self, packets: u32, end: u32) {
        let from = self.tx.scoreboard.judged.max(self.tx.una);
        for index in self.tx.queue.index_of(from as u32)..packets as usize {
            let Some(id) = self.tx.queue.at(index) else { break };
            let skb = *self.tx.queue.get(id);
            if after(skb.end_seq, end) {
                break;
            }
            if !skb.marks.any(Marks::JUDGED) {
                self.mark_lost(id);
            }
            self.tx.scoreboard.judged = self.extended(skb.end_seq);
        }
    }

    /// `tcp_update_scoreboard`.
    fn update_scoreboard(&mut self) {
        if !self.tx.sack {
            return self.newreno_mark_lost(true);
        }
        let all = self.forward_acked().saturating_sub(self.sk.reordering).max(1);
        let packets = if self.tx.scoreboard.forward { all } else { 1 };
        self.mark_head_lost(packets, self.sk.high_seq);
        if !self.head_timed_out() {
            return;
        }
        let rto = self.jiffies_to_us(self.sk.icsk_rto);
        // In the order of sending: what follows a packet that is in time is in time.
        while let Some(id) = self.tx.queue.oldest() {
            let skb = *self.tx.queue.get(id);
            if u64::from(self.age_us(skb.sent_us)) <= rto {
                break;
            }
            if !skb.marks.any(Marks::JUDGED) {
                self.mark_lost(id);
            }
            self.tx.queue.unlist(id);
        }
    }

    /// A packet was sent again.
    pub(super) fn note_retransmission(&mut self, id: u32) {
        if self.sk.ca_state() == CaState::Recovery {
            let place = self.extended(self.tx.queue.get(id).seq);
            self.tx.scoreboard.retransmitted.push_back((place, self.sk.snd_nxt));
        }
    }

    /// `tcp_clear_retrans`: after a timeout nothing counts as sent again. Tells whether anything had been.
    pub(super) fn clear_retransmissions(&mut self) -> bool {
        self.tx.scoreboard.retransmitted.clear();
        self.sk.retrans_out = 0;
        let mut any = false;
        for index in 0..self.tx.queue.count() {
            if let Some(id) = self.tx.queue.at(index) {
                let marks = &mut self.tx.queue.get_mut(id).marks;
                any |= marks.any(Marks::ANY_RETRANS);
                marks.clear(Marks::RETRANS);
            }
        }
        any
    }

    /// "Check for lost retransmit" of `tcp_sacktag_write_queue`: what was first sent after it has come.
    fn find_lost_retransmissions(&mut self) {
        let slack = if self.tx.scoreboard.forward { 0 } else { self.sk.reordering * self.sk.mss_cache };
        while let Some(&(place, next)) = self.tx.scoreboard.retransmitted.front() {
            if !after(self.tx.highest_sack, next.wrapping_add(slack)) {
                break;
            }
            self.tx.scoreboard.retransmitted.pop_front();
            if place < self.tx.una {
                continue;
            }
            let Some(id) = self.tx.queue.at(self.tx.queue.index_of(place as u32)) else { continue };
            let skb = *self.tx.queue.get(id);
            if skb.seq == place as u32 && skb.marks.any(Marks::RETRANS) && !skb.marks.any(Marks::SACKED) {
                self.mark_lost(id);
            }
        }
    }

    // ---- The states --------------------------------------------------------------------------------------------

    /// `tcp_fastretrans_alert`; the letters are its own.
    #[inline(never)]
    pub(super) fn classic_alert(
        &mut self,
        prior_una: u32,
        duplicates: u32,
        flags: &mut i32,
        rexmit: &mut Retransmission,
    ) {
        let flag = *flags;
        let mut duplicate = duplicates > 0;
        if self.sk.packets_out == 0 {
            self.sk.sacked_out = 0;
        }
        // A.
        if flag & flag::ECE != 0 {
            self.sk.prior_ssthresh = 0;
        }
        // B.
        if self.check_sack_reneging(flags) {
            return;
        }
        // C.
        self.heed_sack(flag);
        // E.
        if self.sk.ca_state() == CaState::Open {
            self.sk.retrans_stamp = 0;
        } else if !before(self.sk.snd_una, self.sk.high_seq) && self.leave_state() {
            return;
        }
        // F.
        match self.sk.ca_state() {
            CaState::Recovery if self.sk.snd_una == prior_una => {
                if !self.tx.sack {
                    self.add_reno_sack(duplicates, flag & flag::ECE != 0);
                }
            }
            CaState::Recovery => duplicate = self.partial_ack_shows_loss(),
            state => {
                if state == CaState::Loss && self.still_in_loss(flag, rexmit) {
                    return;
                }
                if !self.begin_recovery(prior_una, duplicates, flag) {
                    return;
                }
            }
        }
        if duplicate || self.head_timed_out() {
            self.update_scoreboard();
        }
        self.halve_rate();
        *rexmit = Retransmission::Lost;
    }

    /// What SACK blocks above `high_seq` say, and what they say of order.
    fn heed_sack(&mut self, flag: i32) {
        if flag & flag::DATA_SACKED == 0 {
            return;
        }
        if self.sk.reordering > self.config.reordering {
            self.tx.scoreboard.forward = false;
        }
        let state = self.sk.ca_state();
        if state == CaState::Recovery {
            self.find_lost_retransmissions();
        }
        let (high, forward) = (self.sk.high_seq, self.forward_acked());
        if state != CaState::Open
            && after(self.tx.highest_sack, high)
            && before(self.sk.snd_una, high)
            && forward > self.sk.reordering
        {
            self.mark_head_lost(forward - self.sk.reordering, high);
        }
    }

    /// `high_seq` is acknowledged. True: nothing else is to be done.
    fn leave_state(&mut self) -> bool {
        match self.sk.ca_state() {
            CaState::Loss => {
                self.sk.icsk_retransmits = 0;
                if self.try_undo_recovery() {
                    self.moderate_cwnd();
                    return true;
                }
            }
            CaState::Cwr => {
                if self.sk.snd_una != self.sk.high_seq {
                    self.end_cwnd_reduction();
                    self.set_ca_state(CaState::Open);
                }
            }
            CaState::Disorder => {
                self.try_undo_dsack();
                if self.sk.undo_marker == 0 || !self.tx.sack || self.sk.snd_una != self.sk.high_seq {
                    self.sk.undo_marker = 0;
                    self.set_ca_state(CaState::Open);
                }
            }
            CaState::Recovery => {
                if !self.tx.sack {
                    self.sk.sacked_out = 0;
                }
                if self.try_undo_recovery() {
                    self.moderate_cwnd();
                    return true;
                }
                self.end_cwnd_reduction();
            }
            CaState::Open => {}
        }
        false
    }

    /// `tcp_try_undo_partial`: whether what follows a partial ACK is lost too.
    fn partial_ack_shows_loss(&mut self) -> bool {
        let shows = !self.tx.sack || self.forward_acked() > self.sk.reordering;
        if !self.may_undo() {
            return shows;
        }
        if self.sk.retrans_out == 0 {
            self.sk.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(false);
        false
    }

    /// After a timeout. True: nothing else is to be done.
    fn still_in_loss(&mut self, flag: i32, rexmit: &mut Retransmission) -> bool {
        if flag & flag::DATA_ACKED != 0 {
            self.sk.icsk_retransmits = 0;
        }
        if !self.try_undo_loss(false) {
            self.moderate_cwnd();
            *rexmit = Retransmission::Lost;
            return true;
        }
        self.sk.ca_state() != CaState::Open
    }

    /// The state `default` of `tcp_fastretrans_alert`. False: there is nothing to recover from.
    fn begin_recovery(&mut self, prior_una: u32, duplicates: u32, flag: i32) -> bool {
        let ece = flag & flag::ECE != 0;
        if !self.tx.sack {
            if self.sk.snd_una != prior_una {
                self.sk.sacked_out = 0;
            }
            self.add_reno_sack(duplicates, ece);
        }
        if self.sk.ca_state() == CaState::Disorder {
            self.try_undo_dsack();
        }
        if !self.time_to_recover_by_count() {
            self.classic_try_to_open(ece);
            return false;
        }
        self.enter_recovery(ece);
        self.sk.high_seq = self.sk.snd_nxt;
        self.sk.snd_cwnd_cnt = 0;
        self.tx.scoreboard.retransmitted.clear();
        true
    }

    /// `tcp_try_to_open`.
    fn classic_try_to_open(&mut self, ece: bool) {
        if self.sk.retrans_out == 0 {
            self.sk.retrans_stamp = 0;
        }
        if ece {
            self.enter_cwr();
        }
        if self.sk.ca_state() == CaState::Cwr {
            return self.halve_rate();
        }
        let held = self.sk.sacked_out > 0 || self.sk.retrans_out > 0 || self.sk.undo_marker != 0;
        let state = if held { CaState::Disorder } else { CaState::Open };
        if self.sk.ca_state() != state {
            self.set_ca_state(state);
            self.sk.high_seq = self.sk.snd_nxt;
        }
        self.moderate_cwnd();
    }
}
