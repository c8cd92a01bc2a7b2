//! The sender of Linux 2.4: growth by ACKs, the FACK scoreboard, rate halving, moderation of the window
//! (net/ipv4/tcp_{input,output}.c, include/net/tcp.h of 2.4.20; M. Mathis, J. Mahdavi, "Forward
//! acknowledgement", 1996).
//!
//! Packets are single segments here. `behaviour.rs` lists the differences from Linux 2.4.

use super::{Marks, Sender, recovery::Retransmission};
use crate::{
    CaEvent, CaState, INFINITE_SSTHRESH, Operation, TcpSock,
    connection::Connection,
    flag::AckFlags,
    segment::{after, before},
};
use std::collections::VecDeque;

/// `tcp_max_burst`: maximum packets sent at once for an ACK, packets.
const MAX_BURST: u32 = 3;

/// The part of the scoreboard that is not in the packets' marks.
#[derive(Debug)]
pub(super) struct Scoreboard {
    /// FACK: packets are lost relative to the highest SACK block. Off once reordering is detected (the second
    /// bit of `sack_ok`).
    forward: bool,
    /// Extended sequence number up to which every packet has been judged.
    judged: u64,
    /// Retransmissions of this recovery, oldest first: extended sequence number, and `snd_nxt` at the
    /// retransmission.
    retransmitted: VecDeque<(u64, u32)>,
}

impl Default for Scoreboard {
    fn default() -> Scoreboard {
        Scoreboard { forward: true, judged: 0, retransmitted: VecDeque::new() }
    }
}

impl Sender {
    /// `tcp_cwnd_validate`.
    pub(super) fn validate_by_acks(&mut self, conn: &mut Connection) {
        let full = conn.sk.packets_out >= conn.sk.snd_cwnd;
        conn.sk.set_is_cwnd_limited(full);
        conn.sk.max_packets_out = conn.sk.packets_out;
        if full {
            conn.sk.snd_cwnd_used = 0;
            conn.sk.snd_cwnd_stamp = conn.jiffies();
            return;
        }
        conn.sk.snd_cwnd_used = conn.sk.snd_cwnd_used.max(conn.sk.packets_out);
        let unused = conn.jiffies().wrapping_sub(conn.sk.snd_cwnd_stamp);
        if unused >= conn.sk.icsk_rto && !conn.has(Operation::CongControl) {
            self.cwnd_application_limited(conn, 2);
        }
        self.note_full_buffer(conn);
    }

    /// The end of `tcp_undo_cwr`; `unmarked`: the marks of lost packets were cleared.
    pub(super) fn undone(&mut self, conn: &mut Connection, unmarked: bool) {
        if unmarked {
            self.scoreboard.judged = 0;
        }
        conn.moderate_cwnd();
    }

    // ---- The scoreboard -----------------------------------------------------------------------------------

    /// `fackets_out`: packets from the first up to the highest selectively acknowledged one; without SACK
    /// `tcp_fackets_out`.
    fn forward_acked(&self, conn: &Connection) -> u32 {
        match (conn.sack, conn.sk.sacked_out) {
            (false, sacked) => sacked + 1,
            (true, 0) => 0,
            (true, _) => self.queue.index_of(self.highest_sack) as u32,
        }
    }

    /// `tcp_head_timedout`.
    fn head_timed_out(&self, conn: &Connection) -> bool {
        let rto = conn.jiffies_to_us(conn.sk.icsk_rto);
        let head = self.queue.head().map(|id| self.queue.get(id).sent_us);
        head.is_some_and(|sent| u64::from(conn.age_us(sent)) > rto)
    }

    /// `tcp_time_to_recover`.
    fn time_to_recover_by_count(&self, conn: &Connection) -> bool {
        let sk = &conn.sk;
        if sk.lost_out > 0 || self.forward_acked(conn) > sk.reordering || self.head_timed_out(conn) {
            return true;
        }
        // Everything in flight except the first packet has arrived, and no further duplicate ACKs can follow.
        let small = sk.packets_out <= sk.reordering;
        let enough = sk.sacked_out >= (sk.packets_out / 2).max(conn.config.reordering);
        let more = self.queue.unsent.front().is_some_and(|chunk| conn.window_test(*chunk));
        small && enough && !(more && sk.packets_in_flight() < sk.snd_cwnd)
    }

    /// `tcp_mark_head_lost`: marks unmarked packets among the first `packets` that end before `end`.
    fn mark_head_lost(&mut self, conn: &mut Connection, packets: u32, end: u32) {
        let from = self.scoreboard.judged.max(self.una);
        for index in self.queue.index_of(from as u32)..packets as usize {
            let Some(id) = self.queue.at(index) else { break };
            let skb = *self.queue.get(id);
            if after(skb.end_seq, end) {
                break;
            }
            if !skb.marks.any(Marks::JUDGED) {
                self.mark_lost(conn, id);
            }
            self.scoreboard.judged = self.extended(conn, skb.end_seq);
        }
    }

    /// `tcp_update_scoreboard`.
    fn update_scoreboard(&mut self, conn: &mut Connection) {
        if !conn.sack {
            return self.newreno_mark_lost(conn, true);
        }
        let all = self.forward_acked(conn).saturating_sub(conn.sk.reordering).max(1);
        let packets = if self.scoreboard.forward { all } else { 1 };
        self.mark_head_lost(conn, packets, conn.sk.high_seq);
        if !self.head_timed_out(conn) {
            return;
        }
        let rto = conn.jiffies_to_us(conn.sk.icsk_rto);
        // In the order of sending: no packet after one that has not timed out has timed out.
        while let Some(id) = self.queue.oldest() {
            let skb = *self.queue.get(id);
            if u64::from(conn.age_us(skb.sent_us)) <= rto {
                break;
            }
            if !skb.marks.any(Marks::JUDGED) {
                self.mark_lost(conn, id);
            }
            self.queue.unlist(id);
        }
    }

    /// Notes the retransmission of a packet.
    pub(super) fn note_retransmission(&mut self, conn: &mut Connection, id: u32) {
        if conn.sk.ca_state() == CaState::Recovery {
            let seq = self.extended(conn, self.queue.get(id).seq);
            self.scoreboard.retransmitted.push_back((seq, conn.sk.snd_nxt));
        }
    }

    /// `tcp_clear_retrans`: clears all retransmission marks after a timeout. Returns whether there were any.
    pub(super) fn clear_retransmissions(&mut self, conn: &mut Connection) -> bool {
        self.scoreboard.retransmitted.clear();
        conn.sk.retrans_out = 0;
        let mut any = false;
        for index in 0..self.queue.count() {
            if let Some(id) = self.queue.at(index) {
                let marks = &mut self.queue.get_mut(id).marks;
                any |= marks.any(Marks::ANY_RETRANS);
                marks.clear(Marks::RETRANS);
            }
        }
        any
    }

    /// "Check for lost retransmit" of `tcp_sacktag_write_queue`: a retransmission is lost if data first sent
    /// after it has arrived.
    fn find_lost_retransmissions(&mut self, conn: &mut Connection) {
        let slack = if self.scoreboard.forward { 0 } else { conn.sk.reordering * conn.sk.mss_cache };
        while let Some(&(seq, next)) = self.scoreboard.retransmitted.front() {
            if !after(self.highest_sack, next.wrapping_add(slack)) {
                break;
            }
            self.scoreboard.retransmitted.pop_front();
            if seq < self.una {
                continue;
            }
            let Some(id) = self.queue.at(self.queue.index_of(seq as u32)) else { continue };
            let skb = *self.queue.get(id);
            if skb.seq == seq as u32 && skb.marks.any(Marks::RETRANS) && !skb.marks.any(Marks::SACKED) {
                self.mark_lost(conn, id);
            }
        }
    }

    // ---- The states ---------------------------------------------------------------------------------------

    /// `tcp_fastretrans_alert`; the letters are those of the kernel's comments.
    #[inline(never)]
    pub(super) fn classic_alert(
        &mut self,
        conn: &mut Connection,
        prior_una: u32,
        duplicates: u32,
        flags: &mut AckFlags,
        rexmit: &mut Retransmission,
    ) {
        let flag = *flags;
        let mut duplicate = duplicates > 0;
        if conn.sk.packets_out == 0 {
            conn.sk.sacked_out = 0;
        }
        // A.
        if flag.any(AckFlags::ECE) {
            conn.sk.prior_ssthresh = 0;
        }
        // B.
        if self.check_sack_reneging(conn, flags) {
            return;
        }
        // C.
        self.apply_sack(conn, flag);
        // E.
        if conn.sk.ca_state() == CaState::Open {
            conn.sk.retrans_stamp = 0;
        } else if !before(conn.sk.snd_una, conn.sk.high_seq) && self.leave_state(conn) {
            return;
        }
        // F.
        match conn.sk.ca_state() {
            CaState::Recovery if conn.sk.snd_una == prior_una => {
                if !conn.sack {
                    conn.add_reno_sack(duplicates, flag.any(AckFlags::ECE));
                }
            }
            CaState::Recovery => duplicate = self.partial_ack_shows_loss(conn),
            state => {
                if state == CaState::Loss && self.still_in_loss(conn, flag, rexmit) {
                    return;
                }
                if !self.begin_recovery(conn, prior_una, duplicates, flag) {
                    return;
                }
            }
        }
        if duplicate || self.head_timed_out(conn) {
            self.update_scoreboard(conn);
        }
        conn.halve_rate();
        *rexmit = Retransmission::Lost;
    }

    /// Applies SACK blocks above `high_seq`, and evidence of reordering.
    fn apply_sack(&mut self, conn: &mut Connection, flag: AckFlags) {
        if !flag.any(AckFlags::DATA_SACKED) {
            return;
        }
        if conn.sk.reordering > conn.config.reordering {
            self.scoreboard.forward = false;
        }
        let state = conn.sk.ca_state();
        if state == CaState::Recovery {
            self.find_lost_retransmissions(conn);
        }
        let (high, forward) = (conn.sk.high_seq, self.forward_acked(conn));
        if state != CaState::Open
            && after(self.highest_sack, high)
            && before(conn.sk.snd_una, high)
            && forward > conn.sk.reordering
        {
            self.mark_head_lost(conn, forward - conn.sk.reordering, high);
        }
    }

    /// Leaves the state when `high_seq` is acknowledged. True: the ACK needs no further processing.
    fn leave_state(&mut self, conn: &mut Connection) -> bool {
        match conn.sk.ca_state() {
            CaState::Loss => {
                conn.sk.icsk_retransmits = 0;
                if self.try_undo_recovery(conn) {
                    conn.moderate_cwnd();
                    return true;
                }
            }
            CaState::Cwr => {
                if conn.sk.snd_una != conn.sk.high_seq {
                    conn.end_cwnd_reduction();
                    conn.set_ca_state(CaState::Open);
                }
            }
            CaState::Disorder => {
                self.try_undo_dsack(conn);
                if conn.sk.undo_marker == 0 || !conn.sack || conn.sk.snd_una != conn.sk.high_seq {
                    conn.sk.undo_marker = 0;
                    conn.set_ca_state(CaState::Open);
                }
            }
            CaState::Recovery => {
                if !conn.sack {
                    conn.sk.sacked_out = 0;
                }
                if self.try_undo_recovery(conn) {
                    conn.moderate_cwnd();
                    return true;
                }
                conn.end_cwnd_reduction();
            }
            CaState::Open => {}
        }
        false
    }

    /// `tcp_try_undo_partial`: whether the packets after a partial ACK are lost too.
    fn partial_ack_shows_loss(&mut self, conn: &mut Connection) -> bool {
        let shows = !conn.sack || self.forward_acked(conn) > conn.sk.reordering;
        if !conn.may_undo() {
            return shows;
        }
        if conn.sk.retrans_out == 0 {
            conn.sk.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(conn, false);
        false
    }

    /// Processes an ACK in state `Loss`. True: the ACK needs no further processing.
    fn still_in_loss(&mut self, conn: &mut Connection, flag: AckFlags, rexmit: &mut Retransmission) -> bool {
        if flag.any(AckFlags::DATA_ACKED) {
            conn.sk.icsk_retransmits = 0;
        }
        if !self.try_undo_loss(conn, false) {
            conn.moderate_cwnd();
            *rexmit = Retransmission::Lost;
            return true;
        }
        conn.sk.ca_state() != CaState::Open
    }

    /// The state `default` of `tcp_fastretrans_alert`. False: there is nothing to recover from.
    fn begin_recovery(
        &mut self,
        conn: &mut Connection,
        prior_una: u32,
        duplicates: u32,
        flag: AckFlags,
    ) -> bool {
        let ece = flag.any(AckFlags::ECE);
        if !conn.sack {
            if conn.sk.snd_una != prior_una {
                conn.sk.sacked_out = 0;
            }
            conn.add_reno_sack(duplicates, ece);
        }
        if conn.sk.ca_state() == CaState::Disorder {
            self.try_undo_dsack(conn);
        }
        if !self.time_to_recover_by_count(conn) {
            conn.classic_try_to_open(ece);
            return false;
        }
        self.enter_recovery(conn, ece);
        conn.sk.high_seq = conn.sk.snd_nxt;
        conn.sk.snd_cwnd_cnt = 0;
        self.scoreboard.retransmitted.clear();
        true
    }
}

impl Connection {
    // ---- Growth -------------------------------------------------------------------------------------------

    /// The calls of `tcp_cong_avoid` in `tcp_ack`: an ACK counts once, whatever it acknowledges, and only if
    /// the window was full. `in_flight`: packets in flight before the ACK.
    pub(super) fn grow_by_ack(&mut self, ack: u32, in_flight: u32, flag: AckFlags) {
        let may_raise = !flag.any(AckFlags::ECE) || self.sk.in_slow_start();
        let keeps_cwnd = self.is_dubious(flag) && (!may_raise || self.sk.in_cwnd_reduction());
        let full = in_flight >= self.sk.snd_cwnd;
        if !flag.any(AckFlags::DATA_ACKED) || keeps_cwnd || !full || self.has(Operation::CongControl) {
            return;
        }
        self.sk.set_is_cwnd_limited(true);
        self.cc.cong_avoid(&mut self.sk, ack, 1);
        self.sk.snd_cwnd_stamp = self.jiffies();
    }

    // ---- Reduction ----------------------------------------------------------------------------------------

    /// Limits the window to the packets in flight plus `more`.
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

    /// `tcp_cwnd_down`: rate halving, reduces the window by one packet for every second ACK.
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
        let is_disordered = self.sk.sacked_out > 0 || self.sk.retrans_out > 0 || self.sk.undo_marker != 0;
        let state = if is_disordered { CaState::Disorder } else { CaState::Open };
        if self.sk.ca_state() != state {
            self.set_ca_state(state);
            self.sk.high_seq = self.sk.snd_nxt;
        }
        self.moderate_cwnd();
    }
}

impl TcpSock {
    /// `tcp_init_cwnd`: 2, on a path shorter than 20 ms up to 4 (RFC 2414), jumbo frames always 2.
    pub(crate) fn small_initial_cwnd(&self) -> u32 {
        let sk = self;
        let max_cwnd = match sk.mss_cache {
            1461.. => return 2,
            1096..=1460 => 3,
            _ => 4,
        };
        let unknown = sk.snd_ssthresh >= INFINITE_SSTHRESH && sk.srtt_us >> 3 > 20_000;
        if sk.srtt_us == 0 || unknown { 2 } else { max_cwnd.min(sk.snd_ssthresh) }
    }
}
