//! Loss detection by time: RACK (RFC 8985; net/ipv4/tcp_recovery.c).

use super::{
    Marks, Sender, Skb,
    timers::{TIMEOUT_MIN_US, Timer},
};
use crate::{CaState, EndpointEvent, Operation, RateSample, connection::Connection, segment::after};

/// Bits of `rack.bits`: `reo_wnd_persist` is the low five.
const PERSIST: u8 = 0x1f;
pub(super) const DSACK_SEEN: u8 = 0x20;
const ADVANCED: u8 = 0x40;

/// `TCP_RACK_RECOVERY_THRESH`, recoveries.
const RECOVERY_THRESHOLD: u8 = 16;

/// `TCP_RACK_STATIC_REO_WND`, `TCP_RACK_NO_DUPTHRESH` of `tcp_recovery`.
const STATIC_REO_WND: u8 = 2;
const NO_DUPTHRESH: u8 = 4;

impl Sender {
    /// `tcp_rack_detect_loss`: marks overdue packets lost. Returns the time until the remaining ones are
    /// overdue, us; 0: there are none.
    fn rack_detect_loss(&mut self, conn: &mut Connection) -> u32 {
        let reo_wnd = conn.rack_reo_wnd();
        let mut wait = 0;
        let mut next = self.queue.oldest();
        while let Some(id) = next {
            next = self.queue.later(id);
            let skb = *self.queue.get(id);
            if skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) {
                continue;
            }
            if !conn.rack_sent_after(&skb) {
                break;
            }
            let left = conn.rack_timeout(&skb, reo_wnd);
            if left <= 0 {
                self.mark_lost(conn, id);
                self.queue.unlist(id);
            } else {
                wait = wait.max(left as u32);
            }
        }
        wait
    }

    /// `tcp_rack_mark_lost`. Returns whether the reordering timer runs.
    pub(super) fn rack_mark_lost(&mut self, conn: &mut Connection) -> bool {
        if conn.sk.rack.bits & ADVANCED == 0 {
            return false;
        }
        conn.sk.rack.bits &= !ADVANCED;
        let wait = self.rack_detect_loss(conn);
        if wait > 0 {
            let jiffies = conn.us_to_jiffies(u64::from(wait) + u64::from(TIMEOUT_MIN_US));
            self.reset_xmit_timer(conn, Timer::Reordering, jiffies.min(conn.sk.icsk_rto));
        }
        wait > 0
    }

    /// `tcp_rack_reo_timeout`: the reordering timer expired.
    pub(super) fn rack_reo_timeout(&mut self, conn: &mut Connection) {
        let prior = conn.sk.packets_in_flight();
        self.rack_detect_loss(conn);
        if prior != conn.sk.packets_in_flight() {
            if conn.sk.ca_state() != CaState::Recovery {
                self.enter_recovery(conn, false);
                if !conn.has(Operation::CongControl) {
                    conn.sk.reduce_cwnd(1, false);
                }
            }
            self.xmit_retransmit_queue(conn);
        }
        if conn.sk.icsk_pending != Timer::Retransmission as u8 {
            self.rearm_rto(conn);
        }
    }

    /// `tcp_mark_skb_lost`.
    pub(super) fn mark_lost(&mut self, conn: &mut Connection, id: u32) {
        let skb = *self.queue.get(id);
        let segs = skb.segs();
        if skb.marks.any(Marks::SACKED) {
            return;
        }
        let mut marks = skb.marks;
        if marks.any(Marks::LOST) {
            if !marks.any(Marks::RETRANS) {
                return;
            }
            marks.clear(Marks::RETRANS);
            conn.sk.retrans_out -= segs;
        } else {
            marks.set(Marks::LOST);
            conn.sk.lost_out += segs;
        }
        conn.sk.lost = conn.sk.lost.wrapping_add(segs);
        self.queue.get_mut(id).marks = marks;
        if !marks.any(Marks::RETRANS) {
            let seq = self.extended(conn, skb.seq);
            self.queue.push_lost(seq, id);
        }
        conn.record(|at| EndpointEvent::Lost { at, seq: skb.seq, segs });
    }
}

impl Connection {
    /// `tcp_rack_reo_wnd`, us.
    fn rack_reo_wnd(&self) -> u32 {
        let sk = &self.sk;
        if sk.reord_seen == 0 {
            if sk.ca_state() >= CaState::Recovery {
                return 0;
            }
            if sk.sacked_out >= sk.reordering && self.config.recovery & NO_DUPTHRESH == 0 {
                return 0;
            }
        }
        (self.min_rtt_us() >> 2).saturating_mul(u32::from(sk.rack.reo_wnd_steps)).min(sk.srtt_us >> 3)
    }

    /// `tcp_rack_skb_timeout`: time until a packet counts as lost, us.
    pub(super) fn rack_timeout(&self, skb: &Skb, reo_wnd: u32) -> i64 {
        i64::from(self.sk.rack.rtt_us) + i64::from(reo_wnd) - i64::from(self.age_us(skb.sent_us))
    }

    /// Whether the most recently sent packet that was delivered was sent after this one
    /// (`tcp_skb_sent_after`).
    fn rack_sent_after(&self, skb: &Skb) -> bool {
        let rack = &self.sk.rack;
        let ahead = (rack.mstamp as u32).wrapping_sub(skb.sent_us) as i32;
        ahead > 0 || ahead == 0 && after(rack.end_seq, skb.end_seq)
    }

    /// `tcp_rack_advance`: a packet was delivered.
    #[inline]
    pub(super) fn rack_advance(&mut self, skb: &Skb) {
        let rtt_us = self.age_us(skb.sent_us);
        if rtt_us < self.min_rtt_us() && skb.marks.any(Marks::ANY_RETRANS) {
            return;
        }
        self.set_rack_advanced();
        let sent = self.full_us(skb.sent_us);
        let rack = &mut self.sk.rack;
        rack.rtt_us = rtt_us;
        if sent > rack.mstamp || sent == rack.mstamp && after(skb.end_seq, rack.end_seq) {
            rack.mstamp = sent;
            rack.end_seq = skb.end_seq;
        }
    }

    pub(super) fn set_rack_advanced(&mut self) {
        self.sk.rack.bits |= ADVANCED;
    }

    /// `tcp_rack_update_reo_wnd`: widens the window after duplicates, and resets it after 16 recoveries
    /// without duplicates.
    #[inline]
    pub(super) fn rack_update_reo_wnd(&mut self, rs: &RateSample) {
        if self.config.recovery & STATIC_REO_WND != 0 || rs.prior_delivered == 0 {
            return;
        }
        let delivered = self.sk.delivered;
        let rack = &mut self.sk.rack;
        if crate::segment::before(rs.prior_delivered, rack.last_delivered) {
            rack.bits &= !DSACK_SEEN;
        }
        if rack.bits & DSACK_SEEN != 0 {
            rack.reo_wnd_steps = rack.reo_wnd_steps.saturating_add(1);
            rack.bits &= !DSACK_SEEN;
            rack.last_delivered = delivered;
            rack.bits = rack.bits & !PERSIST | RECOVERY_THRESHOLD;
        } else if rack.bits & PERSIST == 0 {
            rack.reo_wnd_steps = 1;
        }
    }

    /// `reo_wnd_persist`: counts down at the end of a recovery, up if a duplicate undid one.
    pub(super) fn rack_persist(&mut self, up: bool) {
        let bits = &mut self.sk.rack.bits;
        let persist = *bits & PERSIST;
        let new = if up { (persist + 1).min(RECOVERY_THRESHOLD) } else { persist.saturating_sub(1) };
        *bits = *bits & !PERSIST | new;
    }
}
