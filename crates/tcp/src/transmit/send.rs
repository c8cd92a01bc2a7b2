//! Transmission of one packet: header, ECN field, pacing, and its record (`__tcp_transmit_skb`,
//! `tcp_update_skb_after_send`, net/ipv4/tcp_output.c).

use super::{Marks, Sender, Skb, timers::Timer};
use crate::{
    CaEvent, Flags, RateSample, Segment, connection::Connection, ecn, segment::before, sock::ecn_flags,
};

impl Sender {
    /// `__tcp_transmit_skb` of a packet in the queue, with `tcp_update_skb_after_send` and
    /// `tcp_rate_skb_sent`.
    pub(super) fn transmit_skb(&mut self, conn: &mut Connection, id: u32) {
        // "tcp: force a PSH flag on TSO packets" (051ba67447de), so that the receiver does not hold them in
        // GRO. The last segment keeps the flag when it is retransmitted alone.
        if self.queue.get(id).segs > 1 && conn.config.profile.at_least(5, 4) {
            self.queue.get_mut(id).marks.set(Marks::PSH);
        }
        let skb = *self.queue.get(id);
        let (len, segs) = (skb.len(), skb.segs());
        let mut flags = Flags::ACK;
        if skb.marks.any(Marks::FIN) {
            flags = flags.with(Flags::FIN);
        }
        if len > 0 && skb.marks.any(Marks::PSH) {
            flags = flags.with(Flags::PSH);
        }
        let prior_wstamp = conn.sk.tcp_wstamp_ns;
        conn.sk.tcp_wstamp_ns = prior_wstamp.max(conn.sk.tcp_clock_cache);
        let sent_ns = conn.sk.tcp_wstamp_ns;
        let is_new = !before(skb.seq, conn.sk.snd_nxt);
        let mut mark = ecn::NOT_CAPABLE;
        if conn.sk.ecn_flags & ecn_flags::OK != 0 {
            if len > 0 && is_new {
                mark = ecn::ECT0;
                if conn.sk.ecn_flags & ecn_flags::QUEUE_CWR != 0 {
                    conn.sk.ecn_flags &= !ecn_flags::QUEUE_CWR;
                    flags = flags.with(Flags::CWR);
                }
            } else if conn.cc.flags() & crate::NEEDS_ECN != 0 {
                mark = ecn::ECT0;
            }
        }
        if len > 0 {
            if conn.sk.packets_in_flight() == 0 {
                conn.ca_event(CaEvent::TxStart);
            }
            conn.sk.lsndtime = conn.jiffies();
            conn.sk.data_segs_out += segs;
            conn.sk.bytes_sent += u64::from(len);
        }
        let segment = Segment {
            seq: skb.seq,
            len,
            mss: conn.sk.mss_cache as u16,
            flags,
            ecn: mark,
            tsval: conn.timestamp(sent_ns),
            ..Segment::default()
        };
        conn.emit(segment);
        self.device_took(conn, len);
        conn.pace(len, prior_wstamp);
        self.queue.list(id);
        self.rate_skb_sent(conn, id, sent_ns / 1000);
    }

    /// `tcp_pacing_check`: whether it is too early to send. If so, sets the pacing timer.
    pub(super) fn pacing_check(&mut self, conn: &mut Connection) -> bool {
        let sk = &conn.sk;
        if sk.sk_pacing_status == 0 || sk.tcp_wstamp_ns <= sk.tcp_clock_cache {
            return false;
        }
        if self.pacing_timer_ns.is_none() {
            self.pacing_timer_ns = Some(sk.tcp_wstamp_ns);
        }
        true
    }

    /// Queues and sends a SYN or SYN-ACK (`tcp_connect`).
    pub(crate) fn send_syn(&mut self, conn: &mut Connection) {
        let seq = conn.sk.snd_nxt;
        let mut skb = Skb { seq, end_seq: seq.wrapping_add(1), segs: 1, ..Skb::default() };
        skb.marks.set(Marks::SYN);
        let id = self.queue.push(skb);
        self.queue.list(id);
        self.rate_skb_sent(conn, id, conn.sk.tcp_mstamp);
        conn.sk.packets_out += 1;
        conn.sk.snd_nxt = skb.end_seq;
        conn.sk.write_seq = skb.end_seq;
        conn.emit_syn();
        self.reset_xmit_timer(conn, Timer::Retransmission, conn.sk.icsk_rto);
    }

    /// Processes the acknowledgement of the SYN, the first sample of the round-trip time (`tcp_ack` of a
    /// SYN-ACK, `tcp_synack_rtt_meas`).
    pub(crate) fn syn_acked(&mut self, conn: &mut Connection) {
        let Some(head) = self.queue.head() else { return };
        let skb = *self.queue.get(head);
        let again = skb.marks.any(Marks::ANY_RETRANS);
        self.queue.pop();
        conn.sk.packets_out -= 1;
        conn.sk.retrans_out = 0;
        conn.sk.snd_una = skb.end_seq;
        self.una += 1;
        conn.sk.delivered += 1;
        conn.sk.delivered_mstamp = conn.sk.tcp_mstamp;
        conn.sk.retrans_stamp = 0;
        conn.sk.icsk_retransmits = 0;
        let rtt = if again { -1 } else { i64::from(conn.age_us(skb.sent_us)) };
        let mut rs = RateSample::default();
        conn.ack_update_rtt(super::AckFlags::SYN_ACKED, rtt, -1, rtt, &mut rs);
        self.rearm_rto(conn);
    }

    /// Handles the expiry of the pacing timer (`tcp_pace_kick`, `tcp_tsq_write`).
    pub(super) fn pacing_timer(&mut self, conn: &mut Connection) {
        self.send_lost_and_new(conn);
    }

    /// Next expiry of a timer of the sender, ns on the endpoint's clock; `u64::MAX`: none runs.
    #[inline]
    pub(crate) fn next_timer(&self) -> u64 {
        self.timer_ns.unwrap_or(u64::MAX).min(self.pacing_timer_ns.unwrap_or(u64::MAX))
    }
}

impl Connection {
    /// The pacing of `tcp_update_skb_after_send`: sets the time of the next packet.
    fn pace(&mut self, len: u32, prior_wstamp: u64) {
        let sk = &mut self.sk;
        let rate = sk.sk_pacing_rate;
        if sk.sk_pacing_status == 0 || rate == u64::MAX || rate == 0 || sk.data_segs_out < 10 {
            return;
        }
        let mut gap = (u128::from(len) * 1_000_000_000 / u128::from(rate)) as u64;
        let credit = sk.tcp_wstamp_ns - prior_wstamp;
        gap -= credit.min(gap / 2);
        sk.tcp_wstamp_ns += gap;
    }
}
