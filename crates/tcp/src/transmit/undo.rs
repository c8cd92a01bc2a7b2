//! Undo of unnecessary window reductions (net/ipv4/tcp_input.c; RFC 3522 Eifel, RFC 3708 DSACK).

use super::{Marks, Sender};
use crate::{
    CaState, EndpointEvent, behaviour::Recovery, connection::Connection, flag::AckFlags, sock::ecn_flags,
};

impl Sender {
    /// `tcp_init_undo`.
    pub(super) fn init_undo(&mut self, conn: &mut Connection) {
        conn.sk.undo_marker = conn.sk.snd_una;
        conn.sk.undo_retrans = conn.sk.retrans_out as i32;
        if conn.sk.tlp_high_seq != 0 && self.tlp_retrans {
            conn.sk.undo_retrans += 1;
        }
        if conn.sk.undo_retrans == 0 {
            conn.sk.undo_retrans = -1;
        }
    }

    /// `tcp_undo_cwnd_reduction`.
    pub(super) fn undo_cwnd_reduction(&mut self, conn: &mut Connection, unmark: bool) {
        if unmark {
            for index in 0..self.queue.count() {
                if let Some(id) = self.queue.at(index) {
                    self.queue.get_mut(id).marks.clear(Marks::LOST);
                }
            }
            conn.sk.lost_out = 0;
            self.queue.clear_lost();
        }
        if conn.sk.prior_ssthresh != 0 {
            conn.sk.snd_cwnd = conn.cc.undo_cwnd(&mut conn.sk);
            if conn.sk.prior_ssthresh > conn.sk.snd_ssthresh {
                conn.sk.snd_ssthresh = conn.sk.prior_ssthresh;
                conn.sk.ecn_flags &= !ecn_flags::QUEUE_CWR;
            }
        }
        if conn.behaviour.recovery == Recovery::Fack {
            self.undone(conn, unmark);
        }
        conn.sk.snd_cwnd_stamp = conn.jiffies();
        conn.sk.undo_marker = 0;
        conn.set_rack_advanced();
        let cwnd = conn.sk.snd_cwnd;
        conn.record(|at| EndpointEvent::Undo { at, cwnd });
    }

    /// `tcp_try_undo_recovery`. True: without SACK, the state must not be left yet.
    pub(super) fn try_undo_recovery(&mut self, conn: &mut Connection) -> bool {
        if conn.may_undo() {
            self.undo_cwnd_reduction(conn, false);
        } else {
            conn.rack_persist(false);
        }
        if self.prevents_reopen(conn) {
            return true;
        }
        conn.set_ca_state(CaState::Open);
        self.is_sack_reneg = false;
        false
    }

    /// `tcp_is_non_sack_preventing_reopen`.
    fn prevents_reopen(&mut self, conn: &mut Connection) -> bool {
        if conn.sk.snd_una != conn.sk.high_seq || conn.sack {
            return false;
        }
        if !self.any_retrans_done(conn) {
            conn.sk.retrans_stamp = 0;
        }
        true
    }

    /// `tcp_try_undo_dsack`.
    pub(super) fn try_undo_dsack(&mut self, conn: &mut Connection) -> bool {
        if conn.sk.undo_marker == 0 || conn.sk.undo_retrans != 0 {
            return false;
        }
        conn.rack_persist(true);
        self.undo_cwnd_reduction(conn, false);
        true
    }

    /// `tcp_try_undo_partial`. True: continue to send without marking packets lost.
    pub(super) fn try_undo_partial(&mut self, conn: &mut Connection, prior_una: u32) -> bool {
        if conn.sk.undo_marker == 0 || !conn.packet_delayed() {
            return false;
        }
        self.check_sack_reordering(conn, prior_una);
        if conn.sk.retrans_out > 0 {
            return true;
        }
        if !self.any_retrans_done(conn) {
            conn.sk.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(conn, true);
        self.try_keep_open(conn);
        false
    }

    /// `tcp_try_undo_loss`.
    pub(super) fn try_undo_loss(&mut self, conn: &mut Connection, by_frto: bool) -> bool {
        if !by_frto && !conn.may_undo() {
            return false;
        }
        self.undo_cwnd_reduction(conn, true);
        conn.sk.icsk_retransmits = 0;
        if self.prevents_reopen(conn) {
            return true;
        }
        if by_frto || conn.sack {
            conn.set_ca_state(CaState::Open);
            self.is_sack_reneg = false;
        }
        true
    }

    /// `tcp_process_tlp_ack`: checks whether the tail loss probe repaired a loss.
    pub(super) fn process_tlp_ack(&mut self, conn: &mut Connection, ack: u32, flag: AckFlags) {
        use crate::segment::{after, before};
        if before(ack, conn.sk.tlp_high_seq) {
            return;
        }
        if !self.tlp_retrans || flag.any(AckFlags::DSACK_TLP) {
            conn.sk.tlp_high_seq = 0;
        } else if after(ack, conn.sk.tlp_high_seq) {
            conn.init_cwnd_reduction();
            conn.set_ca_state(CaState::Cwr);
            conn.end_cwnd_reduction();
            self.try_keep_open(conn);
        } else if !flag.any(AckFlags::SND_UNA_ADVANCED.with(AckFlags::NOT_DUP).with(AckFlags::DATA_SACKED)) {
            conn.sk.tlp_high_seq = 0;
        }
    }
}

impl Connection {
    /// `tcp_packet_delayed`: the retransmitted packet was only delayed.
    fn packet_delayed(&self) -> bool {
        self.sk.retrans_stamp == 0 || self.echo_before(self.sk.retrans_stamp)
    }

    /// `tcp_may_undo`.
    pub(super) fn may_undo(&self) -> bool {
        self.sk.undo_marker != 0 && (self.sk.undo_retrans == 0 || self.packet_delayed())
    }
}
