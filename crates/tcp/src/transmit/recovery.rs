//! The states of loss recovery: `tcp_fastretrans_alert` and `tcp_process_loss` (net/ipv4/tcp_input.c; RFC
//! 5682 for F-RTO).

use super::{Marks, Sender, timers::Timer};
use crate::{
    CaState,
    behaviour::Recovery,
    connection::Connection,
    flag::AckFlags,
    segment::{after, before},
};

/// The segments to send after an ACK (`REXMIT_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retransmission {
    None,
    /// Lost packets.
    Lost,
    /// New data, to find out whether the timeout was spurious.
    New,
}

impl Sender {
    /// `tcp_fastretrans_alert`.
    #[inline(never)]
    pub(super) fn fastretrans_alert(
        &mut self,
        conn: &mut Connection,
        prior_una: u32,
        duplicates: u32,
        flags: &mut AckFlags,
        rexmit: &mut Retransmission,
    ) {
        if conn.behaviour.recovery == Recovery::Fack {
            return self.classic_alert(conn, prior_una, duplicates, flags, rexmit);
        }
        let flag = *flags;
        let ece = flag.any(AckFlags::ECE);
        if conn.sk.packets_out == 0 {
            conn.sk.sacked_out = 0;
        }
        if ece {
            conn.sk.prior_ssthresh = 0;
        }
        if self.check_sack_reneging(conn, flags) {
            return;
        }
        if conn.sk.ca_state() == CaState::Open {
            conn.sk.retrans_stamp = 0;
        } else if !before(conn.sk.snd_una, conn.sk.high_seq) {
            match conn.sk.ca_state() {
                CaState::Cwr if conn.sk.snd_una != conn.sk.high_seq => {
                    conn.end_cwnd_reduction();
                    conn.set_ca_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !conn.sack {
                        conn.sk.sacked_out = 0;
                    }
                    if self.try_undo_recovery(conn) {
                        return;
                    }
                    conn.end_cwnd_reduction();
                }
                _ => {}
            }
        }
        match conn.sk.ca_state() {
            CaState::Recovery => {
                if !flag.any(AckFlags::SND_UNA_ADVANCED) {
                    if !conn.sack {
                        conn.add_reno_sack(duplicates, ece);
                    }
                } else if self.try_undo_partial(conn, prior_una) {
                    return;
                }
                if self.try_undo_dsack(conn) {
                    self.try_to_open(conn, flag);
                }
                self.identify_packet_loss(conn, flags);
                if conn.sk.ca_state() != CaState::Recovery {
                    if !conn.time_to_recover() {
                        return;
                    }
                    self.enter_recovery(conn, ece);
                }
            }
            CaState::Loss => {
                self.process_loss(conn, flag, duplicates, rexmit);
                self.identify_packet_loss(conn, flags);
                if conn.sk.ca_state() != CaState::Open && !flags.any(AckFlags::LOST_RETRANS) {
                    return;
                }
                if self.recover_if_time(conn, flag, duplicates, flags) {
                    return;
                }
            }
            _ => {
                if self.recover_if_time(conn, flag, duplicates, flags) {
                    return;
                }
            }
        }
        *rexmit = Retransmission::Lost;
    }

    /// The end of the `switch`. True: no recovery is needed.
    fn recover_if_time(
        &mut self,
        conn: &mut Connection,
        flag: AckFlags,
        duplicates: u32,
        flags: &mut AckFlags,
    ) -> bool {
        let ece = flag.any(AckFlags::ECE);
        if !conn.sack {
            if flag.any(AckFlags::SND_UNA_ADVANCED) {
                conn.sk.sacked_out = 0;
            }
            conn.add_reno_sack(duplicates, ece);
        }
        if conn.sk.ca_state() <= CaState::Disorder {
            self.try_undo_dsack(conn);
        }
        self.identify_packet_loss(conn, flags);
        if !conn.time_to_recover() {
            self.try_to_open(conn, flag);
            return true;
        }
        if self.mtu_search.is_probing() && self.mtu_probe_failed(conn) {
            return true;
        }
        self.enter_recovery(conn, ece);
        false
    }

    /// `tcp_identify_packet_loss`.
    fn identify_packet_loss(&mut self, conn: &mut Connection, flags: &mut AckFlags) {
        if self.queue.is_empty() {
            return;
        }
        if !conn.sack {
            self.newreno_mark_lost(conn, flags.any(AckFlags::SND_UNA_ADVANCED));
        } else {
            let prior = conn.sk.retrans_out;
            if self.rack_mark_lost(conn) {
                flags.remove(AckFlags::SET_XMIT_TIMER);
            }
            if prior > conn.sk.retrans_out {
                flags.insert(AckFlags::LOST_RETRANS);
            }
        }
    }

    /// `tcp_check_sack_reneging`: the peer discarded data that it had selectively acknowledged.
    pub(super) fn check_sack_reneging(&mut self, conn: &mut Connection, flags: &mut AckFlags) -> bool {
        if !flags.any(AckFlags::SACK_RENEGING) || !flags.any(AckFlags::SND_UNA_ADVANCED) {
            return false;
        }
        let delay = conn.us_to_jiffies(u64::from(conn.sk.srtt_us >> 4)).max(conn.config.ms_to_jiffies(10));
        self.reset_xmit_timer(conn, Timer::Retransmission, delay);
        flags.remove(AckFlags::SET_XMIT_TIMER);
        true
    }

    /// `tcp_try_to_open`.
    fn try_to_open(&mut self, conn: &mut Connection, flag: AckFlags) {
        if !self.any_retrans_done(conn) {
            conn.sk.retrans_stamp = 0;
        }
        if flag.any(AckFlags::ECE) {
            conn.enter_cwr();
        }
        if conn.sk.ca_state() != CaState::Cwr {
            self.try_keep_open(conn);
        }
    }

    /// `tcp_try_keep_open`.
    pub(super) fn try_keep_open(&mut self, conn: &mut Connection) {
        let is_disordered = conn.left_out() > 0 || self.any_retrans_done(conn);
        let state = if is_disordered { CaState::Disorder } else { CaState::Open };
        if conn.sk.ca_state() != state {
            conn.set_ca_state(state);
            conn.sk.high_seq = conn.sk.snd_nxt;
        }
    }

    /// `tcp_any_retrans_done`.
    pub(super) fn any_retrans_done(&self, conn: &Connection) -> bool {
        conn.sk.retrans_out > 0
            || self.queue.head().is_some_and(|id| self.queue.get(id).marks.any(Marks::EVER_RETRANS))
    }

    /// `tcp_enter_recovery`.
    pub(super) fn enter_recovery(&mut self, conn: &mut Connection, ece: bool) {
        conn.sk.prior_ssthresh = 0;
        self.init_undo(conn);
        if !conn.sk.in_cwnd_reduction() {
            if !ece {
                conn.sk.prior_ssthresh = conn.sk.current_ssthresh();
            }
            conn.init_cwnd_reduction();
        }
        conn.set_ca_state(CaState::Recovery);
    }

    /// `tcp_process_loss`: an ACK after a timeout.
    fn process_loss(
        &mut self,
        conn: &mut Connection,
        flag: AckFlags,
        duplicates: u32,
        rexmit: &mut Retransmission,
    ) {
        let recovered = !before(conn.sk.snd_una, conn.sk.high_seq);
        let advanced = flag.any(AckFlags::SND_UNA_ADVANCED);
        if advanced && self.try_undo_loss(conn, false) {
            return;
        }
        if self.frto {
            if flag.any(AckFlags::ORIG_SACK_ACKED) && self.try_undo_loss(conn, true) {
                return;
            }
            if after(conn.sk.snd_nxt, conn.sk.high_seq) {
                if flag.any(AckFlags::DATA_SACKED) || duplicates > 0 {
                    self.frto = false;
                }
            } else if advanced && !recovered {
                conn.sk.high_seq = conn.sk.snd_nxt;
                if !self.queue.unsent.is_empty() && after(conn.window_end(), conn.sk.snd_nxt) {
                    *rexmit = Retransmission::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(conn);
            return;
        }
        if !conn.sack {
            if after(conn.sk.snd_nxt, conn.sk.high_seq) && duplicates > 0 {
                conn.add_reno_sack(duplicates, flag.any(AckFlags::ECE));
            } else if advanced {
                conn.sk.sacked_out = 0;
            }
        }
        *rexmit = Retransmission::Lost;
    }

    /// `tcp_xmit_recovery`.
    #[inline]
    pub(super) fn xmit_recovery(&mut self, conn: &mut Connection, rexmit: Retransmission) {
        if rexmit != Retransmission::None {
            self.send_recovery_packets(conn, rexmit);
        }
    }

    #[inline(never)]
    fn send_recovery_packets(&mut self, conn: &mut Connection, rexmit: Retransmission) {
        match rexmit {
            Retransmission::None | Retransmission::Lost => {}
            Retransmission::New => {
                self.push_pending(conn);
                if after(conn.sk.snd_nxt, conn.sk.high_seq) {
                    return;
                }
                self.frto = false;
            }
        }
        self.xmit_retransmit_queue(conn);
    }

    /// `tcp_newreno_mark_lost`.
    pub(super) fn newreno_mark_lost(&mut self, conn: &mut Connection, advanced: bool) {
        let state = conn.sk.ca_state();
        let now = state < CaState::Recovery && conn.sk.sacked_out >= conn.sk.reordering
            || state == CaState::Recovery && advanced;
        let Some(head) = self.queue.head().filter(|_| now) else { return };
        let skb = *self.queue.get(head);
        if skb.marks.any(Marks::LOST) {
            return;
        }
        if skb.segs > 1 && skb.len() > conn.sk.mss_cache {
            self.queue.split(0, conn.sk.mss_cache, conn.sk.mss_cache);
        }
        self.mark_lost(conn, head);
        // Packets that duplicate ACKs stand for and lost packets are at most the packets out.
        conn.sk.sacked_out = conn.sk.sacked_out.min(conn.sk.packets_out - conn.sk.lost_out);
    }
}

impl Connection {
    /// `tcp_time_to_recover`.
    fn time_to_recover(&self) -> bool {
        self.sk.lost_out > 0
    }

    // ---- Without SACK (NewReno, RFC 6582) -----------------------------------------------------------------

    /// `tcp_add_reno_sack`: a duplicate ACK counts as a packet that arrived.
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
}
