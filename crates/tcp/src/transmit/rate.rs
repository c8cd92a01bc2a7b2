//! Rate samples (net/ipv4/tcp_rate.c) and the pacing rate (`tcp_update_pacing_rate`, net/ipv4/tcp_input.c).

use super::{Marks, Sender};
use crate::{RateSample, behaviour::Growth, connection::Connection, segment::after};

impl Sender {
    /// `tcp_rate_skb_sent`: records the state at the transmission of a packet. Call it before the packet
    /// counts in `packets_out`.
    #[inline]
    pub(super) fn rate_skb_sent(&mut self, conn: &mut Connection, id: u32, sent_us: u64) {
        let sk = &mut conn.sk;
        if sk.packets_out == 0 {
            sk.first_tx_mstamp = sent_us;
            sk.delivered_mstamp = sent_us;
        }
        let skb = self.queue.get_mut(id);
        skb.sent_us = sent_us as u32;
        skb.first_tx_us = sk.first_tx_mstamp as u32;
        skb.delivered_us = sk.delivered_mstamp as u32;
        skb.delivered = sk.delivered;
        skb.delivered_ce = sk.delivered_ce;
        skb.marks.set(Marks::TX_KNOWN);
        skb.marks.put(Marks::APP_LIMITED, sk.app_limited != 0);
    }

    /// `tcp_rate_skb_delivered`: the sample is taken from the packet that was sent last.
    #[inline]
    pub(super) fn rate_skb_delivered(&mut self, conn: &mut Connection, id: u32, rs: &mut RateSample) {
        let skb = *self.queue.get(id);
        if !skb.marks.any(Marks::TX_KNOWN) {
            return;
        }
        let sent = conn.full_us(skb.sent_us);
        let first = conn.sk.first_tx_mstamp;
        if rs.prior_mstamp == 0 || sent > first || sent == first && after(skb.end_seq, rs.last_end_seq) {
            rs.prior_delivered = skb.delivered;
            rs.prior_delivered_ce = skb.delivered_ce;
            rs.prior_mstamp = conn.full_us(skb.delivered_us);
            rs.is_app_limited = skb.marks.any(Marks::APP_LIMITED);
            rs.is_retrans = skb.marks.any(Marks::ANY_RETRANS);
            rs.last_end_seq = skb.end_seq;
            conn.sk.first_tx_mstamp = sent;
            rs.interval_us = i64::from(skb.sent_us.wrapping_sub(skb.first_tx_us) as i32).max(0);
        }
        if skb.marks.any(Marks::SACKED) {
            self.queue.get_mut(id).marks.clear(Marks::TX_KNOWN);
        }
    }
}

impl Connection {
    /// `tcp_rate_check_app_limited`.
    pub(super) fn rate_check_app_limited(&mut self) {
        let sk = &mut self.sk;
        let in_flight = sk.packets_in_flight();
        if sk.write_seq.wrapping_sub(sk.snd_nxt) < sk.mss_cache
            && in_flight < sk.snd_cwnd
            && sk.lost_out <= sk.retrans_out
        {
            sk.app_limited = sk.delivered.wrapping_add(in_flight).max(1);
        }
    }

    /// `tcp_update_pacing_rate`.
    #[inline]
    pub(crate) fn update_pacing_rate(&mut self) {
        if self.behaviour.growth == Growth::Acks {
            return;
        }
        self.sk.update_pacing_rate(self.config.pacing_ss_ratio, self.config.pacing_ca_ratio);
    }
}
