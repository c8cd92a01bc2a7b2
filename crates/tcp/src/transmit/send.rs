//! One packet leaves: header, mark, pacing, what is remembered of it (`__tcp_transmit_skb`,
//! `tcp_update_skb_after_send`,
//! net/ipv4/tcp_output.c).
//!
//! Departures: 1. From 6.10 on all is taken to be written by the 64 KiB, and the packet in the making that a write ends in has PSH
//! at its end, as captures of 6.18 have it; that of a writer that had to wait has not. Before, PSH is only on what ends all that
//! has been written: with it on each write that had to wait the reference runs of 6.1, whose writes are of 128 KiB, are met less
//! well (drops -12 % and HyStart's exit +3 % at worst, against -1 and 0), for they depend on which segments are acknowledged
//! alone. 2. What is sent again has no PSH.

use super::{Marks, Skb, timers::Timer};
use crate::{CaEvent, Endpoint, Flags, RateSample, Segment, ecn, segment::before};

/// TCP_ECN_OK, TCP_ECN_QUEUE_CWR.
const ECN_OK: u8 = 1;
const QUEUE_CWR: u8 = 2;

impl Endpoint {
    /// `__tcp_transmit_skb` of a packet in the queue, with `tcp_update_skb_after_send` and `tcp_rate_skb_sent`; with PSH where it is
    /// `pushed`, or ends all that has been written.
    pub(super) fn transmit_skb(&mut self, id: u32, pushed: bool) {
        let skb = *self.tx.queue.get(id);
        let (len, segs) = (skb.len(), skb.segs());
        let mut flags = Flags::ACK;
        if skb.marks.any(Marks::FIN) {
            flags = flags.with(Flags::FIN);
        }
        if len > 0 && (pushed || skb.end_seq == self.sk.write_seq) {
            flags = flags.with(Flags::PSH);
        }
        let prior_wstamp = self.sk.tcp_wstamp_ns;
        self.sk.tcp_wstamp_ns = prior_wstamp.max(self.sk.tcp_clock_cache);
        let sent_ns = self.sk.tcp_wstamp_ns;
        let is_new = !before(skb.seq, self.sk.snd_nxt);
        let mut mark = ecn::NOT_CAPABLE;
        if self.sk.ecn_flags & ECN_OK != 0 {
            if len > 0 && is_new {
                mark = ecn::ECT0;
                if self.sk.ecn_flags & QUEUE_CWR != 0 {
                    self.sk.ecn_flags &= !QUEUE_CWR;
                    flags = flags.with(Flags::CWR);
                }
            } else if self.cc.flags() & crate::NEEDS_ECN != 0 {
                mark = ecn::ECT0;
            }
        }
        if len > 0 {
            if self.sk.packets_in_flight() == 0 {
                self.ca_event(CaEvent::TxStart);
            }
            self.sk.lsndtime = self.jiffies();
            self.sk.data_segs_out += segs;
            self.sk.bytes_sent += u64::from(len);
        }
        let segment = Segment {
            seq: skb.seq,
            len,
            mss: self.sk.mss_cache as u16,
            flags,
            ecn: mark,
            tsval: self.timestamp(sent_ns),
            ..Segment::default()
        };
        self.emit(segment);
        self.device_took(len);
        self.pace(len, prior_wstamp);
        self.tx.queue.list(id);
        self.rate_skb_sent(id, sent_ns / 1000);
    }

    /// The pacing of `tcp_update_skb_after_send`: when the next packet may go.
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

    /// `tcp_pacing_check`: it is too early; the pacing timer is set.
    pub(super) fn pacing_check(&mut self) -> bool {
        let sk = &self.sk;
        if sk.sk_pacing_status == 0 || sk.tcp_wstamp_ns <= sk.tcp_clock_cache {
            return false;
        }
        if self.tx.pacing_timer_ns.is_none() {
            self.tx.pacing_timer_ns = Some(sk.tcp_wstamp_ns);
        }
        true
    }

    /// A SYN takes its place in the queue and leaves (`tcp_connect`).
    pub(crate) fn send_syn(&mut self) {
        let seq = self.sk.snd_nxt;
        let mut skb = Skb { seq, end_seq: seq.wrapping_add(1), segs: 1, ..Skb::default() };
        skb.marks.set(Marks::SYN);
        let id = self.tx.queue.push(skb);
        self.tx.queue.list(id);
        self.rate_skb_sent(id, self.sk.tcp_mstamp);
        self.sk.packets_out += 1;
        self.sk.snd_nxt = skb.end_seq;
        self.sk.write_seq = skb.end_seq;
        self.emit_syn();
        self.reset_xmit_timer(Timer::Retransmission, self.sk.icsk_rto);
    }

    /// The SYN is acknowledged: the first sample of the round-trip time (`tcp_ack` of a SYN-ACK,
    /// `tcp_synack_rtt_meas`).
    pub(crate) fn syn_acked(&mut self) {
        let Some(head) = self.tx.queue.head() else { return };
        let skb = *self.tx.queue.get(head);
        let again = skb.marks.any(Marks::ANY_RETRANS);
        self.tx.queue.pop();
        self.sk.packets_out -= 1;
        self.sk.retrans_out = 0;
        self.sk.snd_una = skb.end_seq;
        self.tx.una += 1;
        self.sk.delivered += 1;
        self.sk.delivered_mstamp = self.sk.tcp_mstamp;
        self.sk.retrans_stamp = 0;
        self.sk.icsk_retransmits = 0;
        let rtt = if again { -1 } else { i64::from(self.age_us(skb.sent_us)) };
        let mut rs = RateSample::default();
        self.ack_update_rtt(super::flag::SYN_ACKED, rtt, -1, rtt, &mut rs);
        self.rearm_rto();
    }

    /// The pacing timer has ended (`tcp_pace_kick`, `tcp_tsq_write`).
    pub(super) fn pacing_timer(&mut self) {
        self.send_lost_and_new();
    }

    /// When a timer of the sending half next ends, ns on the endpoint's clock; `u64::MAX`: none runs.
    #[inline]
    pub(crate) fn transmit_timer(&self) -> u64 {
        self.tx.timer_ns.unwrap_or(u64::MAX).min(self.tx.pacing_timer_ns.unwrap_or(u64::MAX))
    }
}
