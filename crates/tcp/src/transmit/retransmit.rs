//! Retransmission: `tcp_xmit_retransmit_queue`, `tcp_retransmit_skb`, tail loss probes
//! (net/ipv4/tcp_output.c; RFC 8985 section 7).
//!
//! Differences from the kernel: 1. A packet that a timeout retransmits again after its first retransmission
//! was judged spurious (F-RTO cleared `LOST` and left `RETRANS`) counts once in `retrans_out`; the kernel
//! counts it twice and never corrects that.

use super::{
    Marks, Sender,
    output::Push,
    timers::{TIMEOUT_MIN_US, Timer},
};
use crate::{CaState, EndpointEvent, behaviour::Recovery, connection::Connection, segment::before};

impl Sender {
    /// `tcp_xmit_retransmit_queue`.
    pub(super) fn xmit_retransmit_queue(&mut self, conn: &mut Connection) {
        if self.queue.is_empty() {
            return;
        }
        let max_segs = conn.tso_segs();
        let mut rearm = false;
        while conn.sk.retrans_out < conn.sk.lost_out {
            if self.pacing_check(conn) {
                break;
            }
            let space = conn.sk.snd_cwnd.saturating_sub(conn.sk.packets_in_flight());
            if space == 0 {
                break;
            }
            let Some(id) = self.queue.first_lost() else { break };
            let len = self.queue.get(id).len();
            if !self.device_takes(conn, len, 1) || !self.retransmit_skb(conn, id, space.min(max_segs)) {
                break;
            }
            if conn.sk.in_cwnd_reduction() {
                conn.sk.prr_out += self.queue.get(id).segs();
            }
            if self.queue.head() == Some(id) && conn.sk.icsk_pending != Timer::Reordering as u8 {
                rearm = true;
            }
        }
        if rearm {
            self.reset_xmit_timer(conn, Timer::Retransmission, conn.sk.icsk_rto);
        }
    }

    /// `tcp_retransmit_skb`. False: the peer's window does not allow it.
    pub(super) fn retransmit_skb(&mut self, conn: &mut Connection, id: u32, segs: u32) -> bool {
        if !self.retransmit_plain(conn, id, segs) {
            return false;
        }
        let sent_ms = conn.timestamp(conn.full_us(self.queue.get(id).sent_us) * 1000);
        let skb = self.queue.get_mut(id);
        let segs = skb.segs();
        if !skb.marks.any(Marks::RETRANS) {
            conn.sk.retrans_out += segs;
        }
        skb.marks.set(Marks::ANY_RETRANS);
        if conn.sk.retrans_stamp == 0 {
            conn.sk.retrans_stamp = sent_ms;
        }
        conn.sk.undo_retrans = conn.sk.undo_retrans.max(0) + segs as i32;
        if conn.behaviour.recovery == Recovery::Fack {
            self.note_retransmission(conn, id);
        }
        true
    }

    /// `__tcp_retransmit_skb`: retransmits without counting in `retrans_out`.
    fn retransmit_plain(&mut self, conn: &mut Connection, id: u32, segs: u32) -> bool {
        self.mtu_search.give_up_probe();
        let (seq, len, mss) = {
            let skb = self.queue.get(id);
            (skb.seq, skb.len(), conn.sk.mss_cache)
        };
        let mut available = conn.window_end().wrapping_sub(seq) as i32;
        if available <= 0 {
            if seq != conn.sk.snd_una {
                return false;
            }
            available = mss as i32;
        }
        let available = available as u32;
        let mut max_len = segs * mss;
        if max_len > available {
            max_len = available / mss * mss;
            if max_len == 0 {
                max_len = available;
            }
        }
        if len > max_len {
            let index = self.queue.index_of(seq);
            self.queue.split(index, max_len, mss);
            self.recount_lost(conn, index);
        }
        let skb = *self.queue.get(id);
        conn.sk.total_retrans += skb.segs();
        conn.sk.bytes_retrans += u64::from(skb.len());
        self.transmit_skb(conn, id);
        self.queue.get_mut(id).marks.set(Marks::EVER_RETRANS);
        conn.record(|at| EndpointEvent::Retransmit { at, seq: skb.seq, segs: skb.segs() });
        true
    }

    /// `tcp_schedule_loss_probe`.
    pub(super) fn schedule_loss_probe(&mut self, conn: &mut Connection, advancing_rto: bool) -> bool {
        let sk = &conn.sk;
        let allowed = matches!(conn.config.early_retrans, 3 | 4)
            && sk.packets_out > 0
            && conn.sack
            && matches!(sk.ca_state(), CaState::Open | CaState::Cwr);
        if !allowed {
            return false;
        }
        let mut timeout = if sk.srtt_us > 0 {
            let extra = if sk.packets_out == 1 { conn.rto_min_us() } else { TIMEOUT_MIN_US };
            conn.us_to_jiffies(u64::from(sk.srtt_us >> 2) + u64::from(extra))
        } else {
            conn.config.hz
        };
        let rto =
            if advancing_rto { conn.jiffies_to_us(sk.icsk_rto) as i64 } else { self.rto_delta_us(conn) };
        if rto > 0 {
            timeout = timeout.min(conn.us_to_jiffies(rto as u64));
        }
        self.reset_xmit_timer(conn, Timer::Probe, timeout);
        true
    }

    /// `tcp_send_loss_probe`.
    pub(super) fn send_loss_probe(&mut self, conn: &mut Connection) {
        if conn.sk.tlp_high_seq == 0 && self.loss_probe_sent(conn) {
            conn.sk.tlp_high_seq = conn.sk.snd_nxt;
            conn.record(|at| EndpointEvent::Probe { at });
            // Restarts the timer.
            conn.sk.icsk_pending = 0;
        }
        self.rearm_rto(conn);
    }

    fn loss_probe_sent(&mut self, conn: &mut Connection) -> bool {
        self.tlp_retrans = false;
        if let Some(chunk) = self.queue.unsent.front().copied()
            && conn.window_test(chunk)
        {
            let before = conn.sk.packets_out;
            self.write_xmit(conn, Push::Probe);
            return conn.sk.packets_out > before;
        }
        let Some(mut id) = self.queue.last() else { return false };
        let (mss, skb) = (conn.sk.mss_cache, *self.queue.get(id));
        let first = (skb.segs() - 1) * mss;
        if skb.segs > 1 && skb.len() > first {
            let index = self.queue.count() - 1;
            id = self.queue.split(index, first, mss);
            self.recount_lost(conn, index);
        }
        let sent = self.retransmit_plain(conn, id, 1);
        self.tlp_retrans = sent;
        sent
    }

    /// `tcp_probe0`'s segment (`tcp_write_wakeup`): data that the window allows, or else an old sequence
    /// number.
    pub(super) fn write_wakeup(&mut self, conn: &mut Connection) {
        if self.queue.unsent.front().is_none() {
            return;
        }
        if before(conn.sk.snd_nxt, conn.window_end()) {
            let space = conn.window_end().wrapping_sub(conn.sk.snd_nxt);
            self.send_for_wakeup(conn, space);
        } else {
            let seq = conn.sk.snd_una.wrapping_sub(1);
            conn.emit_bare(seq);
        }
    }
}
