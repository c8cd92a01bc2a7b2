//! Removal of cumulatively acknowledged packets from the queue: `tcp_clean_rtx_queue` (net/ipv4/tcp_input.c).

use super::{Marks, Sender, Skb, ack::AckState, chrono, skb::segments};
use crate::{
    AckSample, Operation,
    connection::Connection,
    flag::AckFlags,
    segment::{after, before},
};

/// Round-trip time and reordering of the removed packets.
struct Cleaned {
    /// Send times of the first and last packet that were never retransmitted, us.
    sent_us: Option<(u32, u32)>,
    /// Segments acknowledged.
    packets: u32,
    fully_acked: bool,
    reord: u32,
}

impl Sender {
    /// `tcp_clean_rtx_queue`.
    pub(super) fn clean_rtx_queue(
        &mut self,
        conn: &mut Connection,
        prior_fack: u32,
        prior_una: u32,
        state: &mut AckState,
    ) {
        let prior_sacked = conn.sk.sacked_out;
        let mut cleaned = Cleaned { sent_us: None, packets: 0, fully_acked: true, reord: conn.sk.snd_nxt };
        while let Some(id) = self.queue.head() {
            if !self.clean_one(conn, id, &mut cleaned, state) {
                break;
            }
        }
        let head = self.queue.head().map(|id| *self.queue.get(id));
        if let Some(head) = &head {
            if head.marks.any(Marks::SACKED) {
                state.flag.insert(AckFlags::SACK_RENEGING);
            }
        } else {
            self.chrono_stop(conn, chrono::BUSY);
        }
        let (mut seq_rtt, mut ca_rtt, mut sack_rtt) = (-1, -1, -1);
        if let Some((first, last)) = cleaned.sent_us.filter(|_| !state.flag.any(AckFlags::RETRANS_DATA_ACKED))
        {
            seq_rtt = i64::from(conn.age_us(first));
            ca_rtt = i64::from(conn.age_us(last));
            let small = conn.sk.snd_una.wrapping_sub(prior_una) < conn.sk.mss_cache;
            if cleaned.packets == 1
                && cleaned.fully_acked
                && prior_sacked == 0
                && small
                && state.rs.prior_delivered.wrapping_add(1) == conn.sk.delivered
                && !state.flag.any(AckFlags::CA_ALERT.with(AckFlags::SYN_ACKED))
            {
                state.flag.insert(AckFlags::ACK_MAYBE_DELAYED);
            }
        }
        if let Some((first, last)) = state.sacked_us {
            sack_rtt = i64::from(conn.age_us(first));
            ca_rtt = i64::from(conn.age_us(last));
        }
        let updated = conn.ack_update_rtt(state.flag, seq_rtt, sack_rtt, ca_rtt, &mut state.rs);
        if state.flag.any(AckFlags::ACKED) {
            state.flag.insert(AckFlags::SET_XMIT_TIMER);
            if !conn.sack {
                conn.remove_reno_sacks(cleaned.packets, state.flag.any(AckFlags::ECE));
                if state.flag.any(AckFlags::RETRANS_DATA_ACKED) {
                    state.flag.remove(AckFlags::ORIG_SACK_ACKED);
                }
            } else if before(cleaned.reord, prior_fack) {
                self.check_sack_reordering(conn, cleaned.reord);
            }
        } else if let Some(head) = head
            && updated
            && sack_rtt >= 0
            && sack_rtt > i64::from(conn.age_us(head.sent_us))
        {
            state.flag.insert(AckFlags::SET_XMIT_TIMER);
        }
        if self.mtu_search.is_probing() {
            self.check_mtu_probe(conn);
        }
        if conn.has(Operation::PktsAcked) {
            let delivered = conn.sk.delivered.wrapping_sub(state.rs.prior_delivered);
            let in_flight = conn.sk.mss_cache.wrapping_mul(delivered);
            let sample = AckSample { pkts_acked: cleaned.packets, rtt_us: state.rs.rtt_us as i32, in_flight };
            conn.cc.pkts_acked(&mut conn.sk, &sample);
        }
    }

    /// Removes the head of the queue, or a part of it, if it is acknowledged. False if it remains.
    #[inline]
    fn clean_one(
        &mut self,
        conn: &mut Connection,
        id: u32,
        cleaned: &mut Cleaned,
        state: &mut AckState,
    ) -> bool {
        let skb = *self.queue.get(id);
        let una = conn.sk.snd_una;
        let mut acked = skb.segs();
        if after(skb.end_seq, una) {
            if skb.segs == 1 || !after(una, skb.seq) {
                return false;
            }
            acked = self.trim_head(conn, id);
            if acked == 0 {
                return false;
            }
            cleaned.fully_acked = false;
        }
        let marks = skb.marks;
        if marks.any(Marks::ANY_RETRANS) {
            if marks.any(Marks::RETRANS) {
                conn.sk.retrans_out -= acked;
            }
            state.flag.insert(AckFlags::RETRANS_DATA_ACKED);
        } else if !marks.any(Marks::SACKED) {
            let first = cleaned.sent_us.map_or(skb.sent_us, |sent| sent.0);
            cleaned.sent_us = Some((first, skb.sent_us));
            if before(skb.seq, cleaned.reord) {
                cleaned.reord = skb.seq;
            }
            if !after(skb.end_seq, conn.sk.high_seq) {
                state.flag.insert(AckFlags::ORIG_SACK_ACKED);
            }
        }
        if marks.any(Marks::SACKED) {
            conn.sk.sacked_out -= acked;
        } else if conn.sack {
            conn.count_delivered(acked, state.flag.any(AckFlags::ECE));
            if !conn.spurious_retrans(&skb) {
                conn.rack_advance(&skb);
            }
        }
        if marks.any(Marks::LOST) {
            conn.sk.lost_out -= acked;
        }
        conn.sk.packets_out -= acked;
        cleaned.packets += acked;
        self.rate_skb_delivered(conn, id, &mut state.rs);
        if marks.any(Marks::SYN) {
            state.flag.insert(AckFlags::SYN_ACKED);
            conn.sk.retrans_stamp = 0;
        } else {
            state.flag.insert(AckFlags::DATA_ACKED);
        }
        if cleaned.fully_acked {
            self.queue.pop();
            let next = self.queue.head().map(|id| self.queue.get(id).marks);
            if self.joined > 0 && marks.any(Marks::SACKED) && next.is_some_and(|next| next.any(Marks::SACKED))
            {
                self.joined -= 1;
            }
        }
        cleaned.fully_acked
    }

    /// `tcp_tso_acked`: drops the acknowledged bytes of a super-packet. Returns the number of dropped
    /// segments.
    fn trim_head(&mut self, conn: &mut Connection, id: u32) -> u32 {
        let (una, mss) = (conn.sk.snd_una, conn.sk.mss_cache);
        let skb = self.queue.get_mut(id);
        let prior = skb.segs;
        skb.seq = una;
        skb.segs = segments(skb.len(), mss).min(prior);
        let skb = *skb;
        if skb.marks.any(Marks::LOST) && !skb.marks.any(Marks::RETRANS) {
            let seq = self.extended(conn, skb.seq);
            self.queue.push_lost(seq, id);
        }
        u32::from(prior - skb.segs)
    }
}

impl Connection {
    /// `tcp_skb_spurious_retrans`: the ACK echoes a time before the retransmission.
    fn spurious_retrans(&self, skb: &Skb) -> bool {
        skb.marks.any(Marks::ANY_RETRANS)
            && self.echo_before(self.timestamp(self.full_us(skb.sent_us) * 1000))
    }

    /// `tcp_tsopt_ecr_before`; `ms` is a time in units of the timestamp option.
    pub(super) fn echo_before(&self, ms: u32) -> bool {
        let echo = self.sk.rx_opt.rcv_tsecr;
        self.timestamps && echo != 0 && before(echo, ms)
    }
}
