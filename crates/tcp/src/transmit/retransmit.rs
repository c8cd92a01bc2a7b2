//! What was sent goes again: `tcp_xmit_retransmit_queue`, `tcp_retransmit_skb`, tail loss probes
//! (net/ipv4/tcp_output.c; RFC 8985 section 7).
//!
//! Departures: 1. What a timeout sends again after the first retransmission was taken for needless (F-RTO cleared
//! `LOST` and left `RETRANS`) counts once in `retrans_out`; the kernel counts it twice and never takes it back.

use super::{Marks, output::Push, timers::Timer};
use crate::{CaState, Endpoint, Event, behaviour::Recovery, segment::before};

impl Endpoint {
    /// `tcp_xmit_retransmit_queue`.
    pub(super) fn xmit_retransmit_queue(&mut self) {
        if self.tx.queue.is_empty() {
            return;
        }
        let max_segs = self.tso_segs();
        let mut rearm = false;
        while self.sk.retrans_out < self.sk.lost_out {
            if self.pacing_check() {
                break;
            }
            let room = self.sk.snd_cwnd.saturating_sub(self.sk.packets_in_flight());
            if room == 0 {
                break;
            }
            let Some(id) = self.tx.queue.first_lost() else { break };
            let len = self.tx.queue.get(id).len();
            if !self.device_takes(len, 1) || !self.retransmit_skb(id, room.min(max_segs)) {
                break;
            }
            if self.sk.in_cwnd_reduction() {
                self.sk.prr_out += self.tx.queue.get(id).segs();
            }
            if self.tx.queue.head() == Some(id) && self.sk.icsk_pending != Timer::Reordering as u8 {
                rearm = true;
            }
        }
        if rearm {
            self.reset_xmit_timer(Timer::Retransmission, self.sk.icsk_rto);
        }
    }

    /// `tcp_retransmit_skb`. False: the peer's window does not allow it.
    pub(super) fn retransmit_skb(&mut self, id: u32, segs: u32) -> bool {
        if !self.retransmit_plain(id, segs) {
            return false;
        }
        let sent_ms = self.timestamp(self.full_us(self.tx.queue.get(id).sent_us) * 1000);
        let skb = self.tx.queue.get_mut(id);
        let segs = skb.segs();
        if !skb.marks.any(Marks::RETRANS) {
            self.sk.retrans_out += segs;
        }
        skb.marks.set(Marks::ANY_RETRANS);
        if self.sk.retrans_stamp == 0 {
            self.sk.retrans_stamp = sent_ms;
        }
        self.sk.undo_retrans = self.sk.undo_retrans.max(0) + segs as i32;
        if self.behaviour.recovery == Recovery::Fack {
            self.note_retransmission(id);
        }
        true
    }

    /// `__tcp_retransmit_skb`: sends again without counting it as out.
    fn retransmit_plain(&mut self, id: u32, segs: u32) -> bool {
        self.tx.mtu_search.give_up_probe();
        let (seq, len, mss) = {
            let skb = self.tx.queue.get(id);
            (skb.seq, skb.len(), self.sk.mss_cache)
        };
        let mut available = self.window_end().wrapping_sub(seq) as i32;
        if available <= 0 {
            if seq != self.sk.snd_una {
                return false;
            }
            available = mss as i32;
        }
        let available = available as u32;
        let mut most = segs * mss;
        if most > available {
            most = available / mss * mss;
            if most == 0 {
                most = available;
            }
        }
        if len > most {
            let index = self.tx.queue.index_of(seq);
            self.tx.queue.split(index, most, mss);
            self.recount_lost(index);
        }
        let skb = *self.tx.queue.get(id);
        self.sk.total_retrans += skb.segs();
        self.sk.bytes_retrans += u64::from(skb.len());
        self.transmit_skb(id, false);
        self.tx.queue.get_mut(id).marks.set(Marks::EVER_RETRANS);
        self.event(|at| Event::Retransmit { at, seq: skb.seq, segs: skb.segs() });
        true
    }

    /// `tcp_schedule_loss_probe`.
    pub(super) fn schedule_loss_probe(&mut self, advancing_rto: bool) -> bool {
        let sk = &self.sk;
        let allowed = matches!(self.config.early_retrans, 3 | 4)
            && sk.packets_out > 0
            && self.tx.sack
            && matches!(sk.ca_state(), CaState::Open | CaState::Cwr);
        if !allowed {
            return false;
        }
        let mut timeout = if sk.srtt_us > 0 {
            // TCP_TIMEOUT_MIN: two jiffies.
            let extra = if sk.packets_out == 1 { sk.icsk_rto_min } else { 2 };
            self.us_to_jiffies(u64::from(sk.srtt_us >> 2)) + extra
        } else {
            self.config.hz
        };
        let rto = if advancing_rto { self.jiffies_to_us(sk.icsk_rto) as i64 } else { self.rto_delta_us() };
        if rto > 0 {
            timeout = timeout.min(self.us_to_jiffies(rto as u64));
        }
        self.reset_xmit_timer(Timer::Probe, timeout);
        true
    }

    /// `tcp_send_loss_probe`.
    pub(super) fn send_loss_probe(&mut self) {
        if self.sk.tlp_high_seq == 0 && self.loss_probe_sent() {
            self.sk.tlp_high_seq = self.sk.snd_nxt;
            self.event(|at| Event::Probe { at });
            // So that the timer begins anew.
            self.sk.icsk_pending = 0;
        }
        self.rearm_rto();
    }

    fn loss_probe_sent(&mut self) -> bool {
        self.tx.tlp_retrans = false;
        if let Some(chunk) = self.tx.queue.unsent.front().copied()
            && self.window_test(chunk)
        {
            let before = self.sk.packets_out;
            self.write_xmit(Push::Probe);
            return self.sk.packets_out > before;
        }
        let Some(mut id) = self.tx.queue.last() else { return false };
        let (mss, skb) = (self.sk.mss_cache, *self.tx.queue.get(id));
        let first = (skb.segs() - 1) * mss;
        if skb.segs > 1 && skb.len() > first {
            let index = self.tx.queue.count() - 1;
            id = self.tx.queue.split(index, first, mss);
            self.recount_lost(index);
        }
        let sent = self.retransmit_plain(id, 1);
        self.tx.tlp_retrans = sent;
        sent
    }

    /// `tcp_probe0`'s segment (`tcp_write_wakeup`): what the window allows, or else an old sequence number.
    pub(super) fn write_wakeup(&mut self) {
        if self.tx.queue.unsent.front().is_none() {
            return;
        }
        if before(self.sk.snd_nxt, self.window_end()) {
            let room = self.window_end().wrapping_sub(self.sk.snd_nxt);
            self.send_for_wakeup(room);
        } else {
            let seq = self.sk.snd_una.wrapping_sub(1);
            self.emit_bare(seq);
        }
    }
}
