//! The states of loss recovery: `tcp_fastretrans_alert` and `tcp_process_loss` (net/ipv4/tcp_input.c; RFC 5682 for
//! F-RTO).

use super::{Marks, flag, timers::Timer};
use crate::{
    CaState, Endpoint,
    behaviour::Recovery,
    segment::{after, before},
};

/// What is to be sent after an ACK (`REXMIT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retransmission {
    None,
    /// What was lost.
    Lost,
    /// New data, to see whether the timeout was spurious.
    New,
}

impl Endpoint {
    /// `tcp_fastretrans_alert`.
    #[inline(never)]
    pub(super) fn fastretrans_alert(
        &mut self,
        prior_una: u32,
        duplicates: u32,
        flags: &mut i32,
        rexmit: &mut Retransmission,
    ) {
        if self.behaviour.recovery == Recovery::Fack {
            return self.classic_alert(prior_una, duplicates, flags, rexmit);
        }
        let flag = *flags;
        let ece = flag & flag::ECE != 0;
        if self.sk.packets_out == 0 {
            self.sk.sacked_out = 0;
        }
        if ece {
            self.sk.prior_ssthresh = 0;
        }
        if self.check_sack_reneging(flags) {
            return;
        }
        if self.sk.ca_state() == CaState::Open {
            self.sk.retrans_stamp = 0;
        } else if !before(self.sk.snd_una, self.sk.high_seq) {
            match self.sk.ca_state() {
                CaState::Cwr if self.sk.snd_una != self.sk.high_seq => {
                    self.end_cwnd_reduction();
                    self.set_ca_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !self.tx.sack {
                        self.sk.sacked_out = 0;
                    }
                    if self.try_undo_recovery() {
                        return;
                    }
                    self.end_cwnd_reduction();
                }
                _ => {}
            }
        }
        match self.sk.ca_state() {
            CaState::Recovery => {
                if flag & flag::SND_UNA_ADVANCED == 0 {
                    if !self.tx.sack {
                        self.add_reno_sack(duplicates, ece);
                    }
                } else if self.try_undo_partial(prior_una) {
                    return;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(flag);
                }
                self.identify_packet_loss(flags);
                if self.sk.ca_state() != CaState::Recovery {
                    if !self.time_to_recover() {
                        return;
                    }
                    self.enter_recovery(ece);
                }
            }
            CaState::Loss => {
                self.process_loss(flag, duplicates, rexmit);
                self.identify_packet_loss(flags);
                if self.sk.ca_state() != CaState::Open && *flags & flag::LOST_RETRANS == 0 {
                    return;
                }
                if self.recover_if_time(flag, duplicates, flags) {
                    return;
                }
            }
            _ => {
                if self.recover_if_time(flag, duplicates, flags) {
                    return;
                }
            }
        }
        *rexmit = Retransmission::Lost;
    }

    /// The end of the `switch`. True: there is nothing to recover from.
    fn recover_if_time(&mut self, flag: i32, duplicates: u32, flags: &mut i32) -> bool {
        let ece = flag & flag::ECE != 0;
        if !self.tx.sack {
            if flag & flag::SND_UNA_ADVANCED != 0 {
                self.sk.sacked_out = 0;
            }
            self.add_reno_sack(duplicates, ece);
        }
        if self.sk.ca_state() <= CaState::Disorder {
            self.try_undo_dsack();
        }
        self.identify_packet_loss(flags);
        if !self.time_to_recover() {
            self.try_to_open(flag);
            return true;
        }
        if self.tx.mtu_search.is_probing() && self.mtu_probe_failed() {
            return true;
        }
        self.enter_recovery(ece);
        false
    }

    /// `tcp_time_to_recover`.
    fn time_to_recover(&self) -> bool {
        self.sk.lost_out > 0
    }

    /// `tcp_identify_packet_loss`.
    fn identify_packet_loss(&mut self, flags: &mut i32) {
        if self.tx.queue.is_empty() {
            return;
        }
        if !self.tx.sack {
            self.newreno_mark_lost(*flags & flag::SND_UNA_ADVANCED != 0);
        } else {
            let prior = self.sk.retrans_out;
            if self.rack_mark_lost() {
                *flags &= !flag::SET_XMIT_TIMER;
            }
            if prior > self.sk.retrans_out {
                *flags |= flag::LOST_RETRANS;
            }
        }
    }

    /// `tcp_check_sack_reneging`: the peer threw away what it had selectively acknowledged.
    pub(super) fn check_sack_reneging(&mut self, flags: &mut i32) -> bool {
        if *flags & flag::SACK_RENEGING == 0 || *flags & flag::SND_UNA_ADVANCED == 0 {
            return false;
        }
        let delay = self.us_to_jiffies(u64::from(self.sk.srtt_us >> 4)).max(self.config.ms_to_jiffies(10));
        self.reset_xmit_timer(Timer::Retransmission, delay);
        *flags &= !flag::SET_XMIT_TIMER;
        true
    }

    /// `tcp_try_to_open`.
    fn try_to_open(&mut self, flag: i32) {
        if !self.any_retrans_done() {
            self.sk.retrans_stamp = 0;
        }
        if flag & flag::ECE != 0 {
            self.enter_cwr();
        }
        if self.sk.ca_state() != CaState::Cwr {
            self.try_keep_open();
        }
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self) {
        let held = self.left_out() > 0 || self.any_retrans_done();
        let state = if held { CaState::Disorder } else { CaState::Open };
        if self.sk.ca_state() != state {
            self.set_ca_state(state);
            self.sk.high_seq = self.sk.snd_nxt;
        }
    }

    /// `tcp_any_retrans_done`.
    pub(super) fn any_retrans_done(&self) -> bool {
        self.sk.retrans_out > 0
            || self.tx.queue.head().is_some_and(|id| self.tx.queue.get(id).marks.any(Marks::EVER_RETRANS))
    }

    /// `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, ece: bool) {
        self.sk.prior_ssthresh = 0;
        self.init_undo();
        if !self.sk.in_cwnd_reduction() {
            if !ece {
                self.sk.prior_ssthresh = self.sk.current_ssthresh();
            }
            self.init_cwnd_reduction();
        }
        self.set_ca_state(CaState::Recovery);
    }

    /// `tcp_process_loss`: an ACK after a timeout.
    fn process_loss(&mut self, flag: i32, duplicates: u32, rexmit: &mut Retransmission) {
        let recovered = !before(self.sk.snd_una, self.sk.high_seq);
        let advanced = flag & flag::SND_UNA_ADVANCED != 0;
        if advanced && self.try_undo_loss(false) {
            return;
        }
        if self.tx.frto {
            if flag & flag::ORIG_SACK_ACKED != 0 && self.try_undo_loss(true) {
                return;
            }
            if after(self.sk.snd_nxt, self.sk.high_seq) {
                if flag & flag::DATA_SACKED != 0 || duplicates > 0 {
                    self.tx.frto = false;
                }
            } else if advanced && !recovered {
                self.sk.high_seq = self.sk.snd_nxt;
                if !self.tx.queue.unsent.is_empty() && after(self.window_end(), self.sk.snd_nxt) {
                    *rexmit = Retransmission::New;
                    return;
                }
                self.tx.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        if !self.tx.sack {
            if after(self.sk.snd_nxt, self.sk.high_seq) && duplicates > 0 {
                self.add_reno_sack(duplicates, flag & flag::ECE != 0);
            } else if advanced {
                self.sk.sacked_out = 0;
            }
        }
        *rexmit = Retransmission::Lost;
    }

    /// `tcp_xmit_recovery`.
    #[inline]
    pub(super) fn xmit_recovery(&mut self, rexmit: Retransmission) {
        if rexmit != Retransmission::None {
            self.send_again(rexmit);
        }
    }

    #[inline(never)]
    fn send_again(&mut self, rexmit: Retransmission) {
        match rexmit {
            Retransmission::None | Retransmission::Lost => {}
            Retransmission::New => {
                self.push_pending();
                if after(self.sk.snd_nxt, self.sk.high_seq) {
                    return;
                }
                self.tx.frto = false;
            }
        }
        self.xmit_retransmit_queue();
    }

    // ---- Without SACK (NewReno, RFC 6582) ----------------------------------------------------------------------

    /// `tcp_add_reno_sack`: a duplicate ACK stands for a packet that came.
    pub(super) fn add_reno_sack(&mut self, duplicates: u32, ece: bool) {
        if duplicates == 0 {
            return;
        }
        let prior = self.sk.sacked_out;
        self.sk.sacked_out += duplicates;
        // At least the first packet is missing (tcp_limit_reno_sacked).
        let holes = self.sk.lost_out.max(1).min(self.sk.packets_out);
        if self.sk.sacked_out + holes > self.sk.packets_out {
            self.sk.sacked_out = self.sk.packets_out - holes;
            let seen = self.sk.packets_out.min(self.config.max_reordering);
            self.sk.reordering = self.sk.reordering.max(seen);
        }
        let delivered = self.sk.sacked_out.saturating_sub(prior);
        if delivered > 0 {
            self.count_delivered(delivered, ece);
        }
    }

    /// `tcp_remove_reno_sacks`: some of the packets that duplicate ACKs stood for are acknowledged.
    pub(super) fn remove_reno_sacks(&mut self, acked: u32, ece: bool) {
        if acked > 0 {
            let delivered = acked.saturating_sub(self.sk.sacked_out).max(1);
            self.count_delivered(delivered, ece);
            self.sk.sacked_out = self.sk.sacked_out.saturating_sub(acked - 1);
        }
        let holes = self.sk.lost_out.max(1).min(self.sk.packets_out);
        self.sk.sacked_out = self.sk.sacked_out.min(self.sk.packets_out - holes);
    }

    /// `tcp_newreno_mark_lost`.
    pub(super) fn newreno_mark_lost(&mut self, advanced: bool) {
        let state = self.sk.ca_state();
        let now = state < CaState::Recovery && self.sk.sacked_out >= self.sk.reordering
            || state == CaState::Recovery && advanced;
        let Some(head) = self.tx.queue.head().filter(|_| now) else { return };
        let skb = *self.tx.queue.get(head);
        if skb.marks.any(Marks::LOST) {
            return;
        }
        if skb.segs > 1 && skb.len() > self.sk.mss_cache {
            self.tx.queue.split(0, self.sk.mss_cache, self.sk.mss_cache);
        }
        self.mark_lost(head);
        // What duplicate ACKs stood for plus what is lost is at most what is out.
        self.sk.sacked_out = self.sk.sacked_out.min(self.sk.packets_out - self.sk.lost_out);
    }
}
