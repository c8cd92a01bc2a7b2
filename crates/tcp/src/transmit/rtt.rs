//! Round-trip time and retransmission timeout (RFC 6298, RFC 7323; `tcp_ack_update_rtt`,
//! net/ipv4/tcp_input.c).

use super::RTO_MAX_S;
use crate::{MinMax, MinMaxSample, RateSample, behaviour::RttClock, connection::Connection, flag::AckFlags};

impl Connection {
    /// `tcp_ack_update_rtt`. Times in us, -1: none. Returns whether there was a sample.
    pub(crate) fn ack_update_rtt(
        &mut self,
        flag: AckFlags,
        seq_rtt: i64,
        sack_rtt: i64,
        ca_rtt: i64,
        rs: &mut RateSample,
    ) -> bool {
        if self.behaviour.rtt_clock == RttClock::Ticks {
            return self.update_rtt_in_ticks(flag, seq_rtt, ca_rtt, rs);
        }
        let mut seq_rtt = if seq_rtt < 0 { sack_rtt } else { seq_rtt };
        let mut ca_rtt = ca_rtt;
        if seq_rtt < 0 && self.timestamps && self.sk.rx_opt.rcv_tsecr != 0 && flag.any(AckFlags::ACKED) {
            let now_ms = (self.sk.tcp_mstamp / 1000) as u32;
            let ms = now_ms.wrapping_sub(self.sk.rx_opt.rcv_tsecr);
            if ms < 1 << 21 {
                seq_rtt = i64::from(ms.max(1)) * 1000;
                ca_rtt = seq_rtt;
            }
        }
        rs.rtt_us = ca_rtt;
        if seq_rtt < 0 {
            return false;
        }
        self.update_rtt_min(ca_rtt.max(0) as u32, flag);
        self.take_rtt(seq_rtt as u32);
        true
    }

    /// `tcp_ack_saw_tstamp`, `tcp_ack_no_tstamp` of Linux 2.4: the smoothed time counts in ticks, at least
    /// one, and only cumulatively acknowledged packets give samples.
    fn update_rtt_in_ticks(
        &mut self,
        flag: AckFlags,
        seq_rtt: i64,
        ca_rtt: i64,
        rs: &mut RateSample,
    ) -> bool {
        rs.rtt_us = ca_rtt;
        if ca_rtt >= 0 {
            self.update_rtt_min(ca_rtt as u32, flag);
        }
        if !flag.any(AckFlags::ACKED) {
            return false;
        }
        let (jiffy, now, echo) = (self.jiffy_us, self.sk.tcp_mstamp, self.sk.rx_opt.rcv_tsecr);
        let ticks = if self.timestamps && echo != 0 {
            let ms = self.timestamp(self.sk.tcp_clock_cache).wrapping_sub(echo);
            u64::from(ms) * 1000 / jiffy
        } else if seq_rtt >= 0 {
            now / jiffy - (now - seq_rtt as u64) / jiffy
        } else {
            return false;
        };
        self.take_rtt((ticks.max(1) * jiffy).min(u64::from(u32::MAX >> 3)) as u32);
        true
    }

    fn take_rtt(&mut self, rtt_us: u32) {
        self.sk.estimate_rtt(rtt_us, self.rto_min_us());
        self.set_rto();
        self.sk.icsk_backoff = 0;
    }

    /// `tcp_update_rtt_min`.
    fn update_rtt_min(&mut self, rtt_us: u32, flag: AckFlags) {
        if flag.any(AckFlags::ACK_MAYBE_DELAYED) && rtt_us > self.min_rtt_us() {
            return;
        }
        let window = self.config.min_rtt_wlen_s * self.config.hz;
        let v = if rtt_us > 0 { rtt_us } else { self.jiffy_us as u32 };
        let sample = MinMaxSample { t: self.jiffies(), v };
        running_min(&mut self.sk.rtt_min, window, sample);
    }

    /// `tcp_set_rto`, `tcp_bound_rto`.
    fn set_rto(&mut self) {
        let us = u64::from(self.sk.srtt_us >> 3) + u64::from(self.sk.rttvar_us);
        // Common case: the new value is rounded up to the current one. This check saves the division.
        let current = self.jiffies_to_us(self.sk.icsk_rto);
        if us <= current && us + self.jiffy_us > current && self.sk.icsk_rto <= self.rto_max() {
            return;
        }
        self.sk.icsk_rto = self.us_to_jiffies(us).min(self.rto_max());
    }

    /// `TCP_RTO_MAX`, jiffies.
    pub(super) fn rto_max(&self) -> u32 {
        RTO_MAX_S * self.config.hz
    }
}

/// `minmax_running_min` (lib/win_minmax.c): the minimum over a time window, from three samples.
fn running_min(minimum: &mut MinMax, window: u32, sample: MinMaxSample) {
    let s = &mut minimum.s;
    if sample.v <= s[0].v || sample.t.wrapping_sub(s[2].t) > window {
        *s = [sample; 3];
        return;
    }
    if sample.v <= s[1].v {
        s[1] = sample;
        s[2] = sample;
    } else if sample.v <= s[2].v {
        s[2] = sample;
    }
    let age = sample.t.wrapping_sub(s[0].t);
    if age > window {
        *s = [s[1], s[2], sample];
        if sample.t.wrapping_sub(s[0].t) > window {
            *s = [s[1], s[2], sample];
        }
    } else if s[1].t == s[0].t && age > window / 4 {
        s[1] = sample;
        s[2] = sample;
    } else if s[2].t == s[1].t && age > window / 2 {
        s[2] = sample;
    }
}
