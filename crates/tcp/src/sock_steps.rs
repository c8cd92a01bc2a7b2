//! Steps of the kernel that change only members of the socket; the sender and the test kit share them.
//!
//! Sources: net/ipv4/tcp_input.c and tcp_rate.c; each method names its function.

use crate::{CaState, RateSample, TcpSock, segment::after};

impl TcpSock {
    /// `tcp_in_cwnd_reduction`.
    #[inline]
    pub(crate) fn in_cwnd_reduction(&self) -> bool {
        matches!(self.ca_state(), CaState::Cwr | CaState::Recovery)
    }

    /// `tcp_current_ssthresh`.
    pub(crate) fn current_ssthresh(&self) -> u32 {
        match self.in_cwnd_reduction() {
            true => self.snd_ssthresh,
            false => self.snd_ssthresh.max((self.snd_cwnd >> 1) + (self.snd_cwnd >> 2)),
        }
    }

    /// `tcp_init_cwnd_reduction` without the threshold, which the controller sets.
    pub(crate) fn begin_reduction(&mut self) {
        self.high_seq = self.snd_nxt;
        self.tlp_high_seq = 0;
        self.snd_cwnd_cnt = 0;
        self.prior_cwnd = self.snd_cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
    }

    /// `tcp_cwnd_reduction`: proportional rate reduction (RFC 9937). `may_grow`: the ACK advanced `snd_una`,
    /// and no packet was marked lost.
    pub(crate) fn reduce_cwnd(&mut self, newly_acked: u32, may_grow: bool) {
        if newly_acked == 0 || self.prior_cwnd == 0 {
            return;
        }
        let in_flight = self.packets_in_flight();
        let delta = i64::from(self.snd_ssthresh) - i64::from(in_flight);
        self.prr_delivered += newly_acked;
        let send = if delta < 0 {
            let share = u64::from(self.snd_ssthresh) * u64::from(self.prr_delivered);
            share.div_ceil(u64::from(self.prior_cwnd)) as i64 - i64::from(self.prr_out)
        } else {
            let owed = i64::from(self.prr_delivered) - i64::from(self.prr_out);
            delta.min(owed.max(i64::from(newly_acked)) + i64::from(may_grow))
        };
        // The first retransmission of a recovery is always allowed.
        let send = send.max(i64::from(self.prr_out == 0));
        self.snd_cwnd = (i64::from(in_flight) + send).max(1) as u32;
    }

    /// `tcp_rtt_estimator` (RFC 6298 in fixed point, with Linux's slow decrease of the deviation).
    pub(crate) fn estimate_rtt(&mut self, rtt_us: u32, rto_min_us: u32) {
        if self.srtt_us == 0 {
            self.srtt_us = (rtt_us << 3).max(1);
            self.mdev_us = rtt_us << 1;
            self.rttvar_us = self.mdev_us.max(rto_min_us);
            self.mdev_max_us = self.rttvar_us;
            self.rtt_seq = self.snd_nxt;
            return;
        }
        let mut error = i64::from(rtt_us) - i64::from(self.srtt_us >> 3);
        self.srtt_us = (i64::from(self.srtt_us) + error).max(1) as u32;
        if error < 0 {
            // A decrease of the round-trip time increases the deviation only slightly.
            error = -error - i64::from(self.mdev_us >> 2);
            error = if error > 0 { error >> 3 } else { error };
        } else {
            error -= i64::from(self.mdev_us >> 2);
        }
        self.mdev_us = (i64::from(self.mdev_us) + error).max(0) as u32;
        if self.mdev_us > self.mdev_max_us {
            self.mdev_max_us = self.mdev_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if after(self.snd_una, self.rtt_seq) {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.rtt_seq = self.snd_nxt;
            self.mdev_max_us = rto_min_us;
        }
    }

    /// `tcp_rate_gen`: completes the sample of an ACK.
    #[inline]
    pub(crate) fn complete_rate_sample(
        &mut self,
        delivered: u32,
        lost: u32,
        is_reneg: bool,
        rs: &mut RateSample,
    ) {
        if self.app_limited != 0 && after(self.delivered, self.app_limited) {
            self.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_mstamp = self.tcp_mstamp;
        }
        rs.acked_sacked = delivered;
        rs.losses = lost as i32;
        if rs.prior_mstamp == 0 || is_reneg {
            rs.delivered = -1;
            rs.interval_us = -1;
            return;
        }
        rs.delivered = self.delivered.wrapping_sub(rs.prior_delivered) as i32;
        rs.delivered_ce = self.delivered_ce.wrapping_sub(rs.prior_delivered_ce) as i32;
        let sent_us = rs.interval_us;
        let acked_us = self.tcp_mstamp.saturating_sub(rs.prior_mstamp) as i64;
        rs.interval_us = sent_us.max(acked_us);
        rs.snd_interval_us = sent_us as u32;
        rs.rcv_interval_us = acked_us as u32;
        if rs.interval_us < i64::from(self.rtt_min.s[0].v) {
            rs.interval_us = -1;
            return;
        }
        let better = rs.delivered as u64 * u64::from(self.rate_interval_us)
            >= u64::from(self.rate_delivered) * rs.interval_us as u64;
        if !rs.is_app_limited || better {
            self.rate_delivered = rs.delivered as u32;
            self.rate_interval_us = rs.interval_us as u32;
            self.set_rate_app_limited(rs.is_app_limited);
        }
    }

    /// `tcp_update_pacing_rate`: a percentage of a window per round trip, in slow start and in congestion
    /// avoidance.
    #[inline]
    pub(crate) fn update_pacing_rate(&mut self, slow_start_percent: u32, avoidance_percent: u32) {
        let slow_start = self.snd_cwnd < self.snd_ssthresh / 2;
        let percent = if slow_start { slow_start_percent } else { avoidance_percent };
        let window = u64::from(self.snd_cwnd.max(self.packets_out));
        // srtt_us is 8 times the round-trip time.
        let mut rate =
            (u64::from(self.mss_cache) * (10_000 << 3) * u64::from(percent)).saturating_mul(window);
        if self.srtt_us > 0 {
            rate /= u64::from(self.srtt_us);
        }
        self.sk_pacing_rate = rate.min(self.sk_max_pacing_rate);
    }
}
