//! What the driver's sender measures of its ACKs: round-trip times (`tcp_input.c`) and delivery rates (`tcp_rate.c`).

use super::sender::{JIFFY_US, Packet, Sender, Stand};
use crate::{CongestionControl, RateSample};

impl<C: CongestionControl> Sender<C> {
    /// `tcp_rate_skb_delivered`: the sample is of the packet that was sent last.
    pub(super) fn take_in(&mut self, packet: &Packet, sample: &mut RateSample, id: u64) {
        let newer = packet.sent_us >= self.sk.first_tx_mstamp || sample.prior_mstamp == 0;
        if !newer {
            return;
        }
        sample.prior_delivered = packet.delivered;
        sample.prior_delivered_ce = packet.delivered_ce;
        sample.prior_mstamp = packet.delivered_us;
        sample.is_app_limited = packet.app_limited;
        sample.is_retrans = packet.stand == Stand::SentAgain;
        sample.last_end_seq = self.sequence(id + 1);
        self.sk.first_tx_mstamp = packet.sent_us;
        sample.interval_us = (packet.sent_us - packet.first_tx_us) as i64;
    }

    /// `tcp_rtt_estimator` (RFC 6298 in fixed point, with Linux's slow fall of the deviation) and `tcp_set_rto`.
    pub(super) fn estimate(&mut self, rtt_us: u32) {
        let sk = &mut self.sk;
        let rto_min_us = sk.icsk_rto_min * JIFFY_US as u32;
        if sk.srtt_us == 0 {
            sk.srtt_us = rtt_us << 3;
            sk.mdev_us = rtt_us << 1;
            sk.rttvar_us = sk.mdev_us.max(rto_min_us);
            sk.mdev_max_us = sk.rttvar_us;
            sk.rtt_seq = sk.snd_nxt;
        } else {
            let mut error = i64::from(rtt_us) - i64::from(sk.srtt_us >> 3);
            sk.srtt_us = (i64::from(sk.srtt_us) + error).max(1) as u32;
            if error < 0 {
                error = -error - i64::from(sk.mdev_us >> 2);
                // A fall of the round-trip time is no rise of its deviation.
                error = if error > 0 { error >> 3 } else { error };
            } else {
                error -= i64::from(sk.mdev_us >> 2);
            }
            sk.mdev_us = (i64::from(sk.mdev_us) + error).max(0) as u32;
            if sk.mdev_us > sk.mdev_max_us {
                sk.mdev_max_us = sk.mdev_us;
                sk.rttvar_us = sk.rttvar_us.max(sk.mdev_max_us);
            }
            if sk.snd_una.wrapping_sub(sk.rtt_seq) as i32 > 0 {
                if sk.mdev_max_us < sk.rttvar_us {
                    sk.rttvar_us -= (sk.rttvar_us - sk.mdev_max_us) >> 2;
                }
                sk.rtt_seq = sk.snd_nxt;
                sk.mdev_max_us = rto_min_us;
            }
        }
        sk.icsk_rto = (u64::from((sk.srtt_us >> 3) + sk.rttvar_us)).div_ceil(JIFFY_US) as u32;
    }

    /// `tcp_rate_gen`.
    pub(super) fn rate_sample(&mut self, delivered: u32, lost: u32, sample: &mut RateSample) {
        let sk = &mut self.sk;
        if sk.app_limited != 0 && sk.delivered.wrapping_sub(sk.app_limited) as i32 > 0 {
            sk.app_limited = 0;
        }
        if delivered > 0 {
            sk.delivered_mstamp = sk.tcp_mstamp;
        }
        sample.acked_sacked = delivered;
        sample.losses = lost as i32;
        if sample.prior_mstamp == 0 {
            sample.delivered = -1;
            sample.interval_us = -1;
            return;
        }
        sample.delivered = sk.delivered.wrapping_sub(sample.prior_delivered) as i32;
        sample.delivered_ce = sk.delivered_ce.wrapping_sub(sample.prior_delivered_ce) as i32;
        let (sending_us, acking_us) = (sample.interval_us, (sk.tcp_mstamp - sample.prior_mstamp) as i64);
        sample.snd_interval_us = sending_us as u32;
        sample.rcv_interval_us = acking_us as u32;
        sample.interval_us = sending_us.max(acking_us);
        if sample.interval_us < i64::from(sk.rtt_min.s[0].v) {
            sample.interval_us = -1;
            return;
        }
        let (rate, best) = (sample.delivered as u64, u64::from(sk.rate_delivered));
        let faster = rate * u64::from(sk.rate_interval_us) >= best * sample.interval_us as u64;
        if !sample.is_app_limited || faster {
            sk.rate_delivered = sample.delivered as u32;
            sk.rate_interval_us = sample.interval_us as u32;
            sk.set_rate_app_limited(sample.is_app_limited);
        }
    }
}
