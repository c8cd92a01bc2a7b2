//! The retransmission timeout and the zero-window probe (net/ipv4/tcp_timer.c; `tcp_enter_loss`,
//! net/ipv4/tcp_input.c).
//!
//! Differences from the kernel: 1. The retransmission of a SYN does not enter `Loss`, because the controller
//! is not initialised yet.

use super::{Marks, Sender, timers::Timer};
use crate::{
    CaEvent, CaState, EndpointEvent, TcpState, behaviour::Recovery, connection::Connection, segment::after,
};

/// Default of `tcp_syn_linear_timeouts`.
const SYN_LINEAR_TIMEOUTS: u8 = 4;

impl Sender {
    /// `tcp_renext_timer`.
    pub(super) fn renext_timer(&mut self, conn: &mut Connection) {
        if conn.sk.packets_out == 0 {
            return;
        }
        let syn = matches!(conn.state, TcpState::SynSent | TcpState::SynReceived);
        if !syn && conn.sk.snd_wnd == 0 {
            return self.probe_by_retransmission(conn);
        }
        if conn.has_retried_enough(syn) {
            self.abort(conn);
            return;
        }
        let times = conn.sk.icsk_retransmits.saturating_add(1);
        conn.record(|at| {
            if syn { EndpointEvent::HandshakeRetry { at, times } } else { EndpointEvent::Rto { at } }
        });
        if !syn {
            self.detect_black_hole(conn);
            self.enter_loss(conn);
        }
        if conn.sk.icsk_retransmits == 0 {
            conn.sk.total_rto_recoveries += 1;
            conn.sk.rto_stamp = (conn.sk.tcp_mstamp / 1000) as u32;
        }
        conn.sk.icsk_retransmits = conn.sk.icsk_retransmits.saturating_add(1);
        conn.sk.total_rto = conn.sk.total_rto.saturating_add(1);
        if let Some(head) = self.queue.head() {
            self.retransmit_head(conn, head);
        }
        if conn.state != TcpState::SynSent || conn.sk.total_rto > u16::from(conn.syn_linear_timeouts()) {
            conn.back_off();
        }
        self.reset_xmit_timer(conn, Timer::Retransmission, conn.sk.icsk_rto);
    }

    /// The part of `tcp_retransmit_timer` for a peer that has closed its window while packets are in flight:
    /// the retransmission is a window probe. The connection ends only if the peer is silent (RFC 9293 section
    /// 3.8.6.1).
    fn probe_by_retransmission(&mut self, conn: &mut Connection) {
        let silent = conn.jiffies().wrapping_sub(conn.sk.rcv_tstamp);
        if silent > 2 * conn.rto_max() {
            self.abort(conn);
            return;
        }
        self.enter_loss(conn);
        if let Some(head) = self.queue.head() {
            self.retransmit_head(conn, head);
        }
        conn.back_off();
        self.reset_xmit_timer(conn, Timer::Retransmission, conn.sk.icsk_rto);
    }

    fn retransmit_head(&mut self, conn: &mut Connection, head: u32) {
        if self.queue.get(head).marks.any(Marks::SYN) {
            conn.sk.total_retrans += 1;
            if conn.sk.retrans_stamp == 0 {
                conn.sk.retrans_stamp = (conn.sk.tcp_mstamp / 1000) as u32;
            }
            let now32 = conn.sk.tcp_mstamp as u32;
            let skb = self.queue.get_mut(head);
            skb.marks.set(Marks::EVER_RETRANS);
            skb.sent_us = now32;
            conn.emit_syn();
        } else {
            self.retransmit_skb(conn, head, 1);
        }
    }

    /// `tcp_enter_loss`.
    fn enter_loss(&mut self, conn: &mut Connection) {
        let state = conn.sk.ca_state();
        let is_new = state < CaState::Recovery;
        let fack = conn.behaviour.recovery == Recovery::Fack;
        let again = fack && self.clear_retransmissions(conn);
        self.timeout_mark_lost(conn);
        if state <= CaState::Disorder
            || !after(conn.sk.high_seq, conn.sk.snd_una)
            || state == CaState::Loss && conn.sk.icsk_retransmits == 0
        {
            conn.sk.prior_ssthresh = conn.sk.current_ssthresh();
            conn.sk.prior_cwnd = conn.sk.snd_cwnd;
            conn.sk.snd_ssthresh = conn.cc.ssthresh(&mut conn.sk);
            conn.ca_event(CaEvent::Loss);
            self.init_undo(conn);
        }
        if again {
            conn.sk.undo_marker = 0;
        }
        conn.sk.snd_cwnd = conn.sk.packets_in_flight() + 1;
        conn.sk.snd_cwnd_cnt = 0;
        conn.sk.snd_cwnd_stamp = conn.jiffies();
        if state <= CaState::Disorder && conn.sk.sacked_out >= conn.config.reordering {
            conn.sk.reordering = conn.sk.reordering.min(conn.config.reordering);
        }
        conn.set_ca_state(CaState::Loss);
        conn.sk.high_seq = conn.sk.snd_nxt;
        conn.sk.tlp_high_seq = 0;
        conn.queue_cwr();
        self.frto = conn.config.frto != 0 && (is_new || conn.sk.icsk_retransmits > 0);
    }

    /// `tcp_timeout_mark_lost`: marks all packets except those that RACK considers too young.
    fn timeout_mark_lost(&mut self, conn: &mut Connection) {
        let Some(head) = self.queue.head() else { return };
        let is_reneg = self.queue.get(head).marks.any(Marks::SACKED);
        if is_reneg {
            conn.sk.sacked_out = 0;
            self.is_sack_reneg = true;
            self.sacked.clear();
            self.joined = 0;
        } else if !conn.sack {
            conn.sk.sacked_out = 0;
        }
        for index in 0..self.queue.count() {
            let Some(id) = self.queue.at(index) else { break };
            if is_reneg {
                self.queue.get_mut(id).marks.clear(Marks::SACKED);
            } else if conn.is_rack() && id != head && conn.rack_timeout(self.queue.get(id), 0) > 0 {
                continue;
            }
            self.mark_lost(conn, id);
        }
    }

    /// `tcp_probe_timer`, `tcp_send_probe0`.
    pub(super) fn probe_timer(&mut self, conn: &mut Connection) {
        if conn.sk.packets_out > 0 || self.queue.unsent.is_empty() {
            conn.sk.icsk_probes_out = 0;
            return;
        }
        self.write_wakeup(conn);
        if conn.sk.packets_out > 0 || self.queue.unsent.is_empty() {
            conn.sk.icsk_probes_out = 0;
            conn.sk.icsk_backoff = 0;
            return;
        }
        conn.sk.icsk_probes_out = conn.sk.icsk_probes_out.saturating_add(1);
        if conn.sk.icsk_backoff < conn.config.retries2 {
            conn.sk.icsk_backoff += 1;
        }
        let when = conn.probe0_when();
        self.reset_xmit_timer(conn, Timer::Window, when);
    }
}

impl Connection {
    /// Doubles the timeout (RFC 6298 section 5.5).
    fn back_off(&mut self) {
        self.sk.icsk_backoff = self.sk.icsk_backoff.saturating_add(1);
        self.sk.icsk_rto = (self.sk.icsk_rto << 1).min(self.rto_max());
    }

    /// The first retransmissions of a SYN without back-off (`tcp_syn_linear_timeouts`, since 6.5).
    fn syn_linear_timeouts(&self) -> u8 {
        if self.config.profile.at_least(6, 5) { SYN_LINEAR_TIMEOUTS } else { 0 }
    }

    /// `tcp_write_timeout`: whether the connection ends instead of another retransmission.
    fn has_retried_enough(&self, syn: bool) -> bool {
        let retransmits = self.sk.icsk_retransmits;
        if syn {
            let linear = if self.state == TcpState::SynSent { self.syn_linear_timeouts() } else { 0 };
            return retransmits >= self.config.syn_retries.saturating_add(linear);
        }
        match self.behaviour.recovery {
            Recovery::Fack => retransmits >= self.config.retries2,
            Recovery::Rack => self.timed_out(self.config.retries2),
        }
    }
}
