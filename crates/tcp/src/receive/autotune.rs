//! Autotuning of the receive buffer (dynamic right-sizing): the buffer follows the bytes that the application
//! reads per round trip.
//!
//! Source: `tcp_rcv_rtt_update`, `tcp_rcv_rtt_measure`, `tcp_rcv_rtt_measure_ts`, `tcp_rcv_space_adjust`,
//! `tcp_rcvbuf_grow` (net/ipv4/tcp_input.c).
//!
//! Differences from the kernel:
//!
//! 1. All simulated kernels adopt a shorter round-trip time at once; Linux does so since 6.16 and in stable
//!    backports.
//! 2. Timestamps count in milliseconds (`tcp_usec_ts` is 0).

use super::{Receiver, memory::SKB_OVERHEAD};
use crate::{Segment, TcpSock, segment::before};

/// Bytes that the application reads per round trip (`rcvq_space`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadRate {
    /// Maximum over all round trips, bytes.
    pub space: u32,
    /// `copied_seq` at the start of the current round trip.
    seq: u32,
    /// Start of the current round trip, us.
    time_us: u64,
}

impl ReadRate {
    /// Starts a round trip.
    pub fn restart(&mut self, copied_seq: u32, now: u64) {
        self.seq = copied_seq;
        self.time_us = now / 1000;
    }
}

impl Receiver {
    /// `tcp_rcv_rtt_update`: adds a sample of the round-trip time, us. `by_window`: the sample is the time
    /// that a window took to fill.
    fn update_rtt(&self, sk: &mut TcpSock, sample_us: u32, by_window: bool) {
        let old = sk.rcv_rtt_est.rtt_us;
        let new = sample_us << 3;
        if old == 0 || new < old {
            sk.rcv_rtt_est.rtt_us = new;
            return;
        }
        let stale = self.settings.careful_rtt && sk.rcv_nxt != sk.copied_seq;
        if !by_window && !stale {
            sk.rcv_rtt_est.rtt_us = old - (old >> 3) + sample_us;
        }
    }

    /// `tcp_rcv_rtt_measure`: the time from one window to the next is at least a round trip.
    pub(super) fn measure_rtt_by_window(&self, sk: &mut TcpSock, now: u64) {
        let now_us = now / 1000;
        if sk.rcv_rtt_est.time != 0 {
            if before(sk.rcv_nxt, sk.rcv_rtt_est.seq) {
                return;
            }
            let took = (now_us - sk.rcv_rtt_est.time).clamp(1, u64::from(u32::MAX >> 3));
            self.update_rtt(sk, took as u32, true);
        }
        sk.rcv_rtt_est.seq = sk.rcv_nxt.wrapping_add(sk.rcv_wnd);
        sk.rcv_rtt_est.time = now_us;
    }

    /// `tcp_rcv_rtt_measure_ts`: takes one sample per echoed timestamp. Only segments of established
    /// connections are measured (`tcp_rcv_established`).
    pub(crate) fn measure_rtt_by_timestamp(&mut self, sk: &mut TcpSock, now: u64, segment: &Segment) {
        if !self.timestamps || segment.tsecr == self.last_tsecr {
            return;
        }
        self.last_tsecr = segment.tsecr;
        if segment.end_seq().wrapping_sub(segment.seq) < u32::from(sk.icsk_ack_rcv_mss) {
            return;
        }
        let mut delta_ms = super::timestamp_ms(now).wrapping_sub(segment.tsecr);
        if delta_ms == 0 && !self.settings.careful_rtt {
            delta_ms = 1;
        }
        if delta_ms > 0 && delta_ms < i32::MAX as u32 / 1000 / 8 {
            self.update_rtt(sk, delta_ms * 1000, false);
        }
    }

    /// `tcp_rcv_space_adjust`: adjusts the buffer to the bytes that the application has read, once per round
    /// trip.
    pub(super) fn adjust_space(&mut self, sk: &mut TcpSock, now: u64) {
        let rtt_us = u64::from(sk.rcv_rtt_est.rtt_us >> 3);
        if rtt_us == 0 || (now / 1000).saturating_sub(self.read_rate.time_us) < rtt_us {
            return;
        }
        let mut copied = i64::from(sk.copied_seq.wrapping_sub(self.read_rate.seq));
        if self.settings.grows_by_reordering {
            copied -= i64::from(sk.rcv_nxt.wrapping_sub(sk.copied_seq));
        }
        if copied > i64::from(self.read_rate.space) {
            self.grow_buffer(sk, copied as u32);
        }
        self.read_rate.restart(sk.copied_seq, now);
    }

    /// `tcp_rcvbuf_grow`: grows the buffer for round trips with `copied` bytes. The sender may double its
    /// rate in each; on short paths the buffer grows more slowly since 6.19.
    pub(super) fn grow_buffer(&mut self, sk: &mut TcpSock, copied: u32) {
        let old = u64::from(self.read_rate.space.max(1));
        self.read_rate.space = copied;
        if !self.settings.moderate || self.settings.locked {
            return;
        }
        let copied = u64::from(copied);
        let mut window = 2 * copied;
        if !self.settings.grows_by_reordering {
            window += 16 * u64::from(sk.advmss);
        }
        let (rtt_us, low_rtt_us) =
            (u64::from(sk.rcv_rtt_est.rtt_us >> 3), self.settings.rcvbuf_low_rtt_us.into());
        let growth = copied.saturating_sub(old);
        window += match rtt_us < low_rtt_us {
            true => window * rtt_us / low_rtt_us,
            false if self.settings.doubles_before_division => 2 * window * growth / old,
            false => 2 * (window * growth / old),
        };
        if self.settings.grows_by_reordering
            && let Some(end) = self.reorder.end()
        {
            window += u64::from(end.wrapping_sub(sk.rcv_nxt));
        }
        let wanted = self.buffer_for(sk, window).min(self.settings.max_rcvbuf as u64) as i32;
        if wanted > sk.sk_rcvbuf {
            sk.sk_rcvbuf = wanted;
            sk.window_clamp = self.full_space(sk).max(0) as u32;
        }
    }

    /// The buffer for a window (`tcp_space_from_win`). Before 6.6 it holds whole segments, each with its
    /// truesize.
    fn buffer_for(&self, sk: &TcpSock, window: u64) -> u64 {
        match self.share {
            super::window_share::WindowShare::Learnt(ratio) => (window << 8) / u64::from(ratio),
            super::window_share::WindowShare::Fixed(_) => {
                let advmss = u32::from(sk.advmss).max(1);
                let mut memory = advmss + self.settings.max_tcp_header + SKB_OVERHEAD;
                while self.share.window(i64::from(memory)) < i64::from(advmss) {
                    memory += 128;
                }
                window / u64::from(advmss) * u64::from(memory)
            }
        }
    }
}
