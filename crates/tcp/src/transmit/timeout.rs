//! The retransmission timeout and the zero-window probe (net/ipv4/tcp_timer.c; `tcp_enter_loss`, net/ipv4/tcp_input.c).
//!
//! Departures: 1. A SYN that is sent again does not enter `Loss`; the controller has not been initialised then.

use super::{Marks, timers::Timer};
use crate::{CaEvent, CaState, Endpoint, Event, State, behaviour::Recovery, segment::after};

impl Endpoint {
    /// `tcp_retransmit_timer`.
    pub(super) fn retransmit_timer(&mut self) {
        if self.sk.packets_out == 0 {
            return;
        }
        let syn = matches!(self.state(), State::SynSent | State::SynReceived);
        let most = if syn { self.config.syn_retries } else { self.config.retries2 };
        if self.sk.icsk_retransmits > most {
            self.abort();
            return;
        }
        let times = self.sk.icsk_retransmits.saturating_add(1);
        self.event(|at| if syn { Event::HandshakeRetry { at, times } } else { Event::Rto { at } });
        if !syn {
            self.detect_black_hole();
            self.enter_loss();
        }
        if self.sk.icsk_retransmits == 0 {
            self.sk.total_rto_recoveries += 1;
            self.sk.rto_stamp = (self.sk.tcp_mstamp / 1000) as u32;
        }
        self.sk.icsk_retransmits = self.sk.icsk_retransmits.saturating_add(1);
        self.sk.total_rto = self.sk.total_rto.saturating_add(1);
        if let Some(head) = self.tx.queue.head() {
            self.retransmit_head(head);
        }
        self.sk.icsk_backoff = self.sk.icsk_backoff.saturating_add(1);
        self.sk.icsk_rto = (self.sk.icsk_rto << 1).min(self.rto_max());
        self.reset_xmit_timer(Timer::Retransmission, self.sk.icsk_rto);
    }

    fn retransmit_head(&mut self, head: u32) {
        if self.tx.queue.get(head).marks.any(Marks::SYN) {
            self.sk.total_retrans += 1;
            if self.sk.retrans_stamp == 0 {
                self.sk.retrans_stamp = (self.sk.tcp_mstamp / 1000) as u32;
            }
            let now32 = self.sk.tcp_mstamp as u32;
            let skb = self.tx.queue.get_mut(head);
            skb.marks.set(Marks::EVER_RETRANS);
            skb.sent_us = now32;
            self.emit_syn();
        } else {
            self.retransmit_skb(head, 1);
        }
    }

    /// `tcp_enter_loss`.
    fn enter_loss(&mut self) {
        let state = self.sk.ca_state();
        let is_new = state < CaState::Recovery;
        let fack = self.behaviour.recovery == Recovery::Fack;
        let again = fack && self.clear_retransmissions();
        self.timeout_mark_lost();
        if state <= CaState::Disorder
            || !after(self.sk.high_seq, self.sk.snd_una)
            || state == CaState::Loss && self.sk.icsk_retransmits == 0
        {
            self.sk.prior_ssthresh = self.sk.current_ssthresh();
            self.sk.prior_cwnd = self.sk.snd_cwnd;
            self.sk.snd_ssthresh = self.cc.ssthresh(&mut self.sk);
            self.ca_event(CaEvent::Loss);
            self.init_undo();
        }
        if again {
            self.sk.undo_marker = 0;
        }
        self.sk.snd_cwnd = self.sk.packets_in_flight() + 1;
        self.sk.snd_cwnd_cnt = 0;
        self.sk.snd_cwnd_stamp = self.jiffies();
        if state <= CaState::Disorder && self.sk.sacked_out >= self.config.reordering {
            self.sk.reordering = self.sk.reordering.min(self.config.reordering);
        }
        self.set_ca_state(CaState::Loss);
        self.sk.high_seq = self.sk.snd_nxt;
        self.sk.tlp_high_seq = 0;
        self.queue_cwr();
        self.tx.frto = self.config.frto != 0 && (is_new || self.sk.icsk_retransmits > 0);
    }

    /// `tcp_timeout_mark_lost`: all but what RACK holds for too young.
    fn timeout_mark_lost(&mut self) {
        let Some(head) = self.tx.queue.head() else { return };
        let is_reneg = self.tx.queue.get(head).marks.any(Marks::SACKED);
        if is_reneg {
            self.sk.sacked_out = 0;
            self.tx.is_sack_reneg = true;
            self.tx.sacked.clear();
            self.tx.joined = 0;
        } else if !self.tx.sack {
            self.sk.sacked_out = 0;
        }
        for index in 0..self.tx.queue.count() {
            let Some(id) = self.tx.queue.at(index) else { break };
            if is_reneg {
                self.tx.queue.get_mut(id).marks.clear(Marks::SACKED);
            } else if self.is_rack() && id != head && self.rack_timeout(self.tx.queue.get(id), 0) > 0 {
                continue;
            }
            self.mark_lost(id);
        }
    }

    /// `tcp_probe_timer`, `tcp_send_probe0`.
    pub(super) fn probe_timer(&mut self) {
        if self.sk.packets_out > 0 || self.tx.queue.unsent.is_empty() {
            self.sk.icsk_probes_out = 0;
            return;
        }
        self.write_wakeup();
        if self.sk.packets_out > 0 || self.tx.queue.unsent.is_empty() {
            self.sk.icsk_probes_out = 0;
            self.sk.icsk_backoff = 0;
            return;
        }
        self.sk.icsk_probes_out = self.sk.icsk_probes_out.saturating_add(1);
        if self.sk.icsk_backoff < self.config.retries2 {
            self.sk.icsk_backoff += 1;
        }
        let when = self.probe0_when();
        self.reset_xmit_timer(Timer::Window, when);
    }
}
