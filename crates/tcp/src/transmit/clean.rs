//! What is cumulatively acknowledged leaves the queue: `tcp_clean_rtx_queue` (net/ipv4/tcp_input.c).

use super::{Marks, Skb, ack::AckState, chrono, flag, skb::segments};
use crate::{
    AckSample, Endpoint, Operation,
    segment::{after, before},
};

/// What the packets that left say about the round-trip time and the order.
struct Cleaned {
    /// When the first and last packet that were never sent again were sent, us.
    sent_us: Option<(u32, u32)>,
    /// Segments acknowledged.
    packets: u32,
    fully_acked: bool,
    reord: u32,
}

impl Endpoint {
    /// `tcp_clean_rtx_queue`.
    pub(super) fn clean_rtx_queue(&mut self, prior_fack: u32, prior_una: u32, state: &mut AckState) {
        let prior_sacked = self.sk.sacked_out;
        let mut cleaned = Cleaned { sent_us: None, packets: 0, fully_acked: true, reord: self.sk.snd_nxt };
        while let Some(id) = self.tx.queue.head() {
            if !self.clean_one(id, &mut cleaned, state) {
                break;
            }
        }
        let head = self.tx.queue.head().map(|id| *self.tx.queue.get(id));
        if let Some(head) = &head {
            if head.marks.any(Marks::SACKED) {
                state.flag |= flag::SACK_RENEGING;
            }
        } else {
            self.chrono_stop(chrono::BUSY);
        }
        let (mut seq_rtt, mut ca_rtt, mut sack_rtt) = (-1, -1, -1);
        if let Some((first, last)) = cleaned.sent_us.filter(|_| state.flag & flag::RETRANS_DATA_ACKED == 0) {
            seq_rtt = i64::from(self.age_us(first));
            ca_rtt = i64::from(self.age_us(last));
            let small = self.sk.snd_una.wrapping_sub(prior_una) < self.sk.mss_cache;
            if cleaned.packets == 1
                && cleaned.fully_acked
                && prior_sacked == 0
                && small
                && state.rs.prior_delivered.wrapping_add(1) == self.sk.delivered
                && state.flag & (flag::CA_ALERT | flag::SYN_ACKED) == 0
            {
                state.flag |= flag::ACK_MAYBE_DELAYED;
            }
        }
        if let Some((first, last)) = state.sacked_us {
            sack_rtt = i64::from(self.age_us(first));
            ca_rtt = i64::from(self.age_us(last));
        }
        let updated = self.ack_update_rtt(state.flag, seq_rtt, sack_rtt, ca_rtt, &mut state.rs);
        if state.flag & flag::ACKED != 0 {
            state.flag |= flag::SET_XMIT_TIMER;
            if !self.tx.sack {
                self.remove_reno_sacks(cleaned.packets, state.flag & flag::ECE != 0);
                if state.flag & flag::RETRANS_DATA_ACKED != 0 {
                    state.flag &= !flag::ORIG_SACK_ACKED;
                }
            } else if before(cleaned.reord, prior_fack) {
                self.check_sack_reordering(cleaned.reord);
            }
        } else if let Some(head) = head
            && updated
            && sack_rtt >= 0
            && sack_rtt > i64::from(self.age_us(head.sent_us))
        {
            state.flag |= flag::SET_XMIT_TIMER;
        }
        if self.tx.mtu_search.is_probing() {
            self.check_mtu_probe();
        }
        if self.has(Operation::PktsAcked) {
            let delivered = self.sk.delivered.wrapping_sub(state.rs.prior_delivered);
            let in_flight = self.sk.mss_cache.wrapping_mul(delivered);
            let sample = AckSample { pkts_acked: cleaned.packets, rtt_us: state.rs.rtt_us as i32, in_flight };
            self.cc.pkts_acked(&mut self.sk, &sample);
        }
    }

    /// The head of the queue is acknowledged, or a part of it. False if it stays.
    #[inline]
    fn clean_one(&mut self, id: u32, cleaned: &mut Cleaned, state: &mut AckState) -> bool {
        let skb = *self.tx.queue.get(id);
        let una = self.sk.snd_una;
        let mut acked = skb.segs();
        if after(skb.end_seq, una) {
            if skb.segs == 1 || !after(una, skb.seq) {
                return false;
            }
            acked = self.trim_head(id);
            if acked == 0 {
                return false;
            }
            cleaned.fully_acked = false;
        }
        let marks = skb.marks;
        if marks.any(Marks::ANY_RETRANS) {
            if marks.any(Marks::RETRANS) {
                self.sk.retrans_out -= acked;
            }
            state.flag |= flag::RETRANS_DATA_ACKED;
        } else if !marks.any(Marks::SACKED) {
            let first = cleaned.sent_us.map_or(skb.sent_us, |sent| sent.0);
            cleaned.sent_us = Some((first, skb.sent_us));
            if before(skb.seq, cleaned.reord) {
                cleaned.reord = skb.seq;
            }
            if !after(skb.end_seq, self.sk.high_seq) {
                state.flag |= flag::ORIG_SACK_ACKED;
            }
        }
        if marks.any(Marks::SACKED) {
            self.sk.sacked_out -= acked;
        } else if self.tx.sack {
            self.count_delivered(acked, state.flag & flag::ECE != 0);
            if !self.spurious_retrans(&skb) {
                self.rack_advance(&skb);
            }
        }
        if marks.any(Marks::LOST) {
            self.sk.lost_out -= acked;
        }
        self.sk.packets_out -= acked;
        cleaned.packets += acked;
        self.rate_skb_delivered(id, &mut state.rs);
        if marks.any(Marks::SYN) {
            state.flag |= flag::SYN_ACKED;
            self.sk.retrans_stamp = 0;
        } else {
            state.flag |= flag::DATA_ACKED;
        }
        if cleaned.fully_acked {
            self.tx.queue.pop();
            let next = self.tx.queue.head().map(|id| self.tx.queue.get(id).marks);
            if self.tx.joined > 0
                && marks.any(Marks::SACKED)
                && next.is_some_and(|next| next.any(Marks::SACKED))
            {
                self.tx.joined -= 1;
            }
        }
        cleaned.fully_acked
    }

    /// `tcp_tso_acked`: drops the acknowledged bytes of a super-packet; gives the segments that were among them.
    fn trim_head(&mut self, id: u32) -> u32 {
        let (una, mss) = (self.sk.snd_una, self.sk.mss_cache);
        let skb = self.tx.queue.get_mut(id);
        let before = skb.segs;
        skb.seq = una;
        skb.segs = segments(skb.len(), mss).min(before);
        let skb = *skb;
        if skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) {
            let place = self.extended(skb.seq);
            self.tx.queue.push_lost(place, id);
        }
        u32::from(before - skb.segs)
    }

    /// `tcp_skb_spurious_retrans`: the ACK echoes a time before this was sent again.
    fn spurious_retrans(&self, skb: &Skb) -> bool {
        skb.marks.any(Marks::ANY_RETRANS)
            && self.echo_before(self.timestamp(self.full_us(skb.sent_us) * 1000))
    }

    /// `tcp_tsopt_ecr_before`; `ms` is a time as timestamps carry it.
    pub(super) fn echo_before(&self, ms: u32) -> bool {
        let echo = self.sk.rx_opt.rcv_tsecr;
        self.tx.timestamps && echo != 0 && before(echo, ms)
    }
}
