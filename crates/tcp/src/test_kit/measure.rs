//! Measurements of the model sender: round-trip times (`tcp_input.c`) and delivery rates (`tcp_rate.c`).

use super::sender::{JIFFY_US, ModelSender, Packet, PacketState};
use crate::{CongestionControl, RateSample};

impl<C: CongestionControl> ModelSender<C> {
    /// `tcp_rate_skb_delivered`: the sample is taken from the packet that was sent last.
    pub(super) fn update_sample(&mut self, packet: &Packet, sample: &mut RateSample, id: u64) {
        let newer = packet.sent_us >= self.sk.first_tx_mstamp || sample.prior_mstamp == 0;
        if !newer {
            return;
        }
        sample.prior_delivered = packet.delivered;
        sample.prior_delivered_ce = packet.delivered_ce;
        sample.prior_mstamp = packet.delivered_us;
        sample.is_app_limited = packet.app_limited;
        sample.is_retrans = packet.state == PacketState::Retransmitted;
        sample.last_end_seq = self.sequence(id + 1);
        self.sk.first_tx_mstamp = packet.sent_us;
        sample.interval_us = (packet.sent_us - packet.first_tx_us) as i64;
    }

    /// `tcp_rtt_estimator` and `tcp_set_rto`.
    pub(super) fn estimate(&mut self, rtt_us: u32) {
        let sk = &mut self.sk;
        sk.estimate_rtt(rtt_us, sk.icsk_rto_min * JIFFY_US as u32);
        sk.icsk_rto = (u64::from((sk.srtt_us >> 3) + sk.rttvar_us)).div_ceil(JIFFY_US) as u32;
    }
}
