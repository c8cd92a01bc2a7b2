//! Reductions that turn out to have been for nothing (net/ipv4/tcp_input.c; RFC 3522 Eifel, RFC 3708 DSACK).

use super::{Marks, flag};
use crate::{CaState, Endpoint, Event, behaviour::Recovery};

/// `TCP_ECN_QUEUE_CWR`.
const QUEUE_CWR: u8 = 2;

impl Endpoint {
    /// `tcp_init_undo`.
    pub(super) fn init_undo(&mut self) {
        self.sk.undo_marker = self.sk.snd_una;
        self.sk.undo_retrans = self.sk.retrans_out as i32;
        if self.sk.tlp_high_seq != 0 && self.tx.tlp_retrans {
            self.sk.undo_retrans += 1;
        }
        if self.sk.undo_retrans == 0 {
            self.sk.undo_retrans = -1;
        }
    }

    /// `tcp_packet_delayed`: what was sent again had only been late.
    fn packet_delayed(&self) -> bool {
        self.sk.retrans_stamp == 0 || self.echo_before(self.sk.retrans_stamp)
    }

    /// `tcp_may_undo`.
    pub(super) fn may_undo(&self) -> bool {
        self.sk.undo_marker != 0 && (self.sk.undo_retrans == 0 || self.packet_delayed())
    }

    /// `tcp_undo_cwnd_reduction`.
    pub(super) fn undo_cwnd_reduction(&mut self, unmark: bool) {
        if unmark {
            for index in 0..self.tx.queue.count() {
                if let Some(id) = self.tx.queue.at(index) {
                    self.tx.queue.get_mut(id).marks.clear(Marks::LOST);
                }
            }
            self.sk.lost_out = 0;
            self.tx.queue.clear_lost();
        }
        if self.sk.prior_ssthresh != 0 {
            self.sk.snd_cwnd = self.cc.undo_cwnd(&mut self.sk);
            if self.sk.prior_ssthresh > self.sk.snd_ssthresh {
                self.sk.snd_ssthresh = self.sk.prior_ssthresh;
                self.sk.ecn_flags &= !QUEUE_CWR;
            }
        }
        if self.behaviour.recovery == Recovery::Fack {
            self.undone(unmark);
        }
        self.sk.snd_cwnd_stamp = self.jiffies();
        self.sk.undo_marker = 0;
        self.set_rack_advanced();
        self.event(|at| Event::Undo { at });
    }

    /// `tcp_try_undo_recovery`. True: without SACK, nothing may be concluded yet.
    pub(super) fn try_undo_recovery(&mut self) -> bool {
        if self.may_undo() {
            self.undo_cwnd_reduction(false);
        } else {
            self.rack_persist(false);
        }
        if self.prevents_reopen() {
            return true;
        }
        self.set_ca_state(CaState::Open);
        self.tx.is_sack_reneg = false;
        false
    }

    /// `tcp_is_non_sack_preventing_reopen`.
    fn prevents_reopen(&mut self) -> bool {
        if self.sk.snd_una != self.sk.high_seq || self.tx.sack {
            return false;
        }
        if !self.any_retrans_done() {
            self.sk.retrans_stamp = 0;
        }
        true
    }

    /// `tcp_try_undo_dsack`.
    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if self.sk.undo_marker == 0 || self.sk.undo_retrans != 0 {
            return false;
        }
        self.rack_persist(true);
        self.undo_cwnd_reduction(false);
        true
    }

    /// `tcp_try_undo_partial`. True: packets are clocked out further, nothing is deemed lost.
    pub(super) fn try_undo_partial(&mut self, prior_una: u32) -> bool {
        if self.sk.undo_marker == 0 || !self.packet_delayed() {
            return false;
        }
        self.check_sack_reordering(prior_una);
        if self.sk.retrans_out > 0 {
            return true;
        }
        if !self.any_retrans_done() {
            self.sk.retrans_stamp = 0;
        }
        self.undo_cwnd_reduction(true);
        self.try_keep_open();
        false
    }

    /// `tcp_try_undo_loss`.
    pub(super) fn try_undo_loss(&mut self, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_cwnd_reduction(true);
        self.sk.icsk_retransmits = 0;
        if self.prevents_reopen() {
            return true;
        }
        if by_frto || self.tx.sack {
            self.set_ca_state(CaState::Open);
            self.tx.is_sack_reneg = false;
        }
        true
    }

    /// `tcp_process_tlp_ack`: whether the probe repaired a loss.
    pub(super) fn process_tlp_ack(&mut self, ack: u32, flag: i32) {
        use crate::segment::{after, before};
        if before(ack, self.sk.tlp_high_seq) {
            return;
        }
        if !self.tx.tlp_retrans || flag & flag::DSACK_TLP != 0 {
            self.sk.tlp_high_seq = 0;
        } else if after(ack, self.sk.tlp_high_seq) {
            self.init_cwnd_reduction();
            self.set_ca_state(CaState::Cwr);
            self.end_cwnd_reduction();
            self.try_keep_open();
        } else if flag & (flag::SND_UNA_ADVANCED | flag::NOT_DUP | flag::DATA_SACKED) == 0 {
            self.sk.tlp_high_seq = 0;
        }
    }
}
