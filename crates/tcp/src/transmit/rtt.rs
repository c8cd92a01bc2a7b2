//! Round-trip time and retransmission timeout (RFC 6298, RFC 7323; `tcp_ack_update_rtt`, net/ipv4/tcp_input.c).

use super::{RTO_MAX_S, flag};
use crate::{Endpoint, MinMax, MinMaxSample, RateSample};

impl Endpoint {
    /// `tcp_ack_update_rtt`. Times in us, -1: none. Tells whether there was a sample.
    pub(crate) fn ack_update_rtt(
        &mut self,
        flag: i32,
        seq_rtt: i64,
        sack_rtt: i64,
        ca_rtt: i64,
        rs: &mut RateSample,
    ) -> bool {
        let mut seq_rtt = if seq_rtt < 0 { sack_rtt } else { seq_rtt };
        let mut ca_rtt = ca_rtt;
        if seq_rtt < 0 && self.tx.timestamps && self.sk.rx_opt.rcv_tsecr != 0 && flag & flag::ACKED != 0 {
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
        self.sk.estimate_rtt(seq_rtt as u32, self.rto_min_us());
        self.set_rto();
        self.sk.icsk_backoff = 0;
        true
    }

    /// `tcp_update_rtt_min`.
    fn update_rtt_min(&mut self, rtt_us: u32, flag: i32) {
        if flag & flag::ACK_MAYBE_DELAYED != 0 && rtt_us > self.min_rtt_us() {
            return;
        }
        let window = self.config.min_rtt_wlen_s * self.config.hz;
        let v = if rtt_us > 0 { rtt_us } else { self.tx.jiffy_us as u32 };
        let sample = MinMaxSample { t: self.jiffies(), v };
        running_min(&mut self.sk.rtt_min, window, sample);
    }

    /// `tcp_set_rto`, `tcp_bound_rto`.
    fn set_rto(&mut self) {
        let us = u64::from(self.sk.srtt_us >> 3) + u64::from(self.sk.rttvar_us);
        self.sk.icsk_rto = self.us_to_jiffies(us).min(self.rto_max());
    }

    /// `TCP_RTO_MAX`, jiffies.
    pub(super) fn rto_max(&self) -> u32 {
        RTO_MAX_S * self.config.hz
    }
}

/// `minmax_running_min` (lib/win_minmax.c): the least over a window of time, from three samples.
fn running_min(least: &mut MinMax, window: u32, sample: MinMaxSample) {
    let s = &mut least.s;
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
