//! The time of an ACK: at once, delayed, or compressed.
//!
//! Source: `__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_enter_quickack_mode` (net/ipv4/tcp_input.c);
//! `tcp_send_delayed_ack`, `tcp_event_ack_sent` (net/ipv4/tcp_output.c); `tcp_delack_timer_handler`,
//! `tcp_compressed_ack_kick` (net/ipv4/tcp_timer.c); `__tcp_cleanup_rbuf` (net/ipv4/tcp.c); RFC 9293 section
//! 3.8.6.3.
//!
//! Differences from the kernel:
//!
//! 1. `ato` has 8 bits in all kernels, as in 6.18.
//! 2. SO_RCVLOWAT is 1, and no route requests quick ACKs.
//! 3. The timer of a delayed ACK stops when the ACK is sent; the kernel lets it expire without effect.

use super::{AckAction, Receiver};
use crate::{TcpSock, behaviour::TimerWheel};

/// `ICSK_ACK_SCHED`: an ACK is due.
pub(super) const SCHED: u8 = 1;
/// `ICSK_ACK_TIMER`: the timer of the ACK runs.
pub(super) const TIMER: u8 = 2;
/// `ICSK_ACK_PUSHED`: a small segment arrived, or one with PSH.
pub(super) const PUSHED: u8 = 4;
/// `ICSK_ACK_PUSHED2`: a second such segment arrived.
pub(super) const PUSHED2: u8 = 8;
/// `ICSK_ACK_NOW`: the next ACK must not wait.
pub(super) const NOW: u8 = 16;
/// `ICSK_ACK_NOMEM`: a segment was dropped because the buffer was full.
pub(super) const NOMEM: u8 = 32;

/// `TCP_MAX_QUICKACKS`.
pub(super) const MAX_QUICK_ACKS: u32 = 16;
/// `TCP_FASTRETRANS_THRESH`: number of duplicate ACKs that are not compressed.
const DUPLICATE_ACKS: u8 = 3;
/// `INET_CSK_PINGPONG_THRESH`.
const PINGPONG: u8 = 1;

/// Compression of ACKs of out-of-order data.
#[derive(Debug, Clone, Default)]
pub(super) struct Compression {
    /// Compressed ACKs so far (`compressed_ack`).
    pub held: u8,
    /// ACKs sent at once since `rcv_nxt` last advanced (`dup_ack_counter`).
    duplicates: u8,
    /// `compressed_ack_rcv_nxt`.
    rcv_nxt: u32,
    /// When the compressed ACK is sent, ns.
    pub timer: Option<u64>,
}

/// The timer of a delayed ACK.
#[derive(Debug, Clone)]
pub(super) struct DelayTimer {
    /// The requested tick (`icsk_ack.timeout`).
    tick: u64,
    /// When the timer expires, ns.
    at: u64,
}

/// The current timeout of a delayed ACK, jiffies: the low 8 bits.
pub(super) fn ato(sk: &TcpSock) -> u32 {
    sk.icsk_ack_bits & 0xff
}

fn set_ato(sk: &mut TcpSock, jiffies: u32) {
    sk.icsk_ack_bits = sk.icsk_ack_bits & !0xff | jiffies.min(0xff);
}

fn in_quick_mode(sk: &TcpSock) -> bool {
    sk.icsk_ack_quick > 0 && sk.icsk_ack_pingpong < PINGPONG
}

/// `tcp_incr_quickack`.
fn add_quick_acks(sk: &mut TcpSock, max_acks: u32) {
    let acks = sk.rcv_wnd / (2 * u32::from(sk.icsk_ack_rcv_mss.max(1)));
    let acks = if acks == 0 { 2 } else { acks }.min(max_acks) as u8;
    sk.icsk_ack_quick = sk.icsk_ack_quick.max(acks);
}

impl Receiver {
    /// `TCP_ATO_MIN` and `TCP_DELACK_MIN`, jiffies: 40 ms.
    fn min_delay(&self) -> u32 {
        self.settings.hz / 25
    }

    /// Ticks since the start.
    #[inline]
    fn jiffies(&self, now: u64) -> u64 {
        now / 1000 * u64::from(self.settings.hz) / 1_000_000
    }

    /// `tcp_enter_quickack_mode`.
    pub(super) fn enter_quick_mode(&self, sk: &mut TcpSock, max_acks: u32) {
        add_quick_acks(sk, max_acks);
        sk.icsk_ack_pingpong = 0;
        set_ato(sk, self.min_delay());
    }

    /// Notes the time from which the next gap between segments is measured.
    pub(super) fn note_arrival(&self, sk: &mut TcpSock, now: u64) {
        sk.icsk_ack_lrcvtime = self.jiffies(now) as u32;
    }

    /// The middle of `tcp_event_data_recv`: adapts the delay of ACKs to the interval between data segments.
    pub(super) fn adapt_delay(&self, sk: &mut TcpSock, now: u64) {
        let now = self.jiffies(now) as u32;
        let (old, min_delay) = (ato(sk), self.min_delay());
        if old == 0 {
            add_quick_acks(sk, MAX_QUICK_ACKS);
            set_ato(sk, min_delay);
        } else {
            let gap = now.wrapping_sub(sk.icsk_ack_lrcvtime);
            if gap <= min_delay / 2 {
                set_ato(sk, (old >> 1) + min_delay / 2);
            } else if gap < old {
                set_ato(sk, ((old >> 1) + gap).min(sk.icsk_rto));
            } else if gap > sk.icsk_rto {
                add_quick_acks(sk, MAX_QUICK_ACKS);
            }
        }
        sk.icsk_ack_lrcvtime = now;
    }

    /// `tcp_ack_snd_check`: the action for the ACK, after a segment has been processed and data has been
    /// sent.
    #[inline]
    pub fn ack_check(&mut self, sk: &mut TcpSock, now: u64) -> AckAction {
        if sk.icsk_ack_pending & SCHED == 0 {
            return AckAction::None;
        }
        let unacknowledged = sk.rcv_nxt.wrapping_sub(self.rcv_wup);
        let enough = unacknowledged > u32::from(sk.icsk_ack_rcv_mss)
            && (sk.rcv_nxt == sk.copied_seq || self.possible_window(sk) >= sk.rcv_wnd);
        if enough || in_quick_mode(sk) || sk.icsk_ack_pending & NOW != 0 {
            return AckAction::Now;
        }
        if self.reorder.is_empty() {
            return self.delay_ack(sk, now);
        }
        self.compress_ack(sk, now)
    }

    /// The end of `__tcp_ack_snd_check`: at most one ACK per millisecond, or per share of a round trip if
    /// that is shorter.
    fn compress_ack(&mut self, sk: &TcpSock, now: u64) -> AckAction {
        let compression = &mut self.compression;
        if !self.sack || compression.held >= self.settings.comp_sack_nr {
            return AckAction::Now;
        }
        if compression.rcv_nxt != sk.rcv_nxt {
            (compression.rcv_nxt, compression.duplicates) = (sk.rcv_nxt, 0);
        }
        if compression.duplicates < DUPLICATE_ACKS {
            compression.duplicates += 1;
            return AckAction::Now;
        }
        compression.held += 1;
        if compression.timer.is_none() {
            let mut rtt_us = sk.rcv_rtt_est.rtt_us;
            if sk.srtt_us > 0 {
                rtt_us = rtt_us.min(sk.srtt_us);
            }
            // `rtt_us` is 8 times the round-trip time.
            let share =
                u64::from(rtt_us) * (1000 >> 3) * u64::from(self.settings.comp_sack_rtt_percent) / 100;
            let delay = share.min(self.settings.comp_sack_delay_ns);
            // Soft timers expire at the end of their slack.
            compression.timer = Some(now + delay + self.settings.comp_sack_slack_ns);
        }
        AckAction::Delayed
    }

    /// `tcp_send_delayed_ack`.
    fn delay_ack(&mut self, sk: &mut TcpSock, now: u64) -> AckAction {
        let hz = self.settings.hz;
        let mut delay = ato(sk);
        if delay > self.min_delay() {
            let interactive = sk.icsk_ack_pingpong >= PINGPONG || sk.icsk_ack_pending & PUSHED != 0;
            let mut max_delay = if interactive { hz / 5 } else { hz / 2 };
            if sk.srtt_us > 0 {
                let rtt = (u64::from(sk.srtt_us >> 3) * u64::from(hz)).div_ceil(1_000_000) as u32;
                max_delay = max_delay.min(rtt.max(self.min_delay()));
            }
            delay = delay.min(max_delay);
        }
        delay = delay.min(sk.icsk_delack_max);
        let jiffies = self.jiffies(now);
        let mut timeout = jiffies + u64::from(delay);
        if let Some(running) = &self.delayed {
            if running.tick <= jiffies + u64::from(delay >> 2) {
                return AckAction::Now;
            }
            timeout = timeout.min(running.tick);
        }
        sk.icsk_ack_pending |= SCHED | TIMER;
        // The timer wheel rounds up, so one tick more (`calc_index`, kernel/time/timer.c).
        let rounded = u64::from(self.settings.behaviour.timer_wheel == TimerWheel::Coarse);
        let ends = (timeout + rounded) * 1_000_000;
        self.delayed = Some(DelayTimer { tick: timeout, at: ends.div_ceil(u64::from(hz)) * 1000 });
        AckAction::Delayed
    }

    /// When to call [`Self::on_timer`], ns.
    #[inline]
    pub fn timer(&self) -> Option<u64> {
        let delayed = self.delayed.as_ref().map(|timer| timer.at);
        match (delayed, self.compression.timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Handles an expired timer, if there is one.
    pub fn on_timer(&mut self, sk: &mut TcpSock, now: u64) -> AckAction {
        if self.compression.timer.is_some_and(|at| at <= now) {
            self.compression.timer = None;
            if self.compression.held > 0 {
                return AckAction::Now;
            }
        }
        if self.delayed.as_ref().is_none_or(|timer| now < timer.at) {
            return AckAction::None;
        }
        self.delayed = None;
        sk.icsk_ack_pending &= !TIMER;
        if sk.icsk_ack_pending & SCHED == 0 {
            return AckAction::None;
        }
        if sk.icsk_ack_pingpong < PINGPONG {
            let doubled = (ato(sk) << 1).min(sk.icsk_rto);
            set_ato(sk, doubled);
        } else {
            sk.icsk_ack_pingpong = 0;
            set_ato(sk, self.min_delay());
        }
        AckAction::Now
    }

    /// Notes that a segment with [`Self::ack_fields`] was sent (`tcp_event_ack_sent`).
    #[inline]
    pub fn ack_sent(&mut self, sk: &mut TcpSock) {
        self.compression.held = 0;
        self.compression.timer = None;
        if sk.icsk_ack_quick > 0 {
            let counts = sk.icsk_ack_pending & SCHED;
            if counts >= sk.icsk_ack_quick {
                sk.icsk_ack_quick = 0;
                set_ato(sk, self.min_delay());
            } else {
                sk.icsk_ack_quick -= counts;
            }
        }
        self.delayed = None;
        sk.icsk_ack_pending = 0;
        sk.icsk_ack_retry = 0;
    }

    /// Notes that data was sent (the end of `tcp_event_data_sent`). If data was received shortly before, the
    /// session counts as interactive.
    pub fn data_sent(&self, sk: &mut TcpSock, now: u64) {
        if (self.jiffies(now) as u32).wrapping_sub(sk.icsk_ack_lrcvtime) < ato(sk) {
            enter_pingpong(sk);
        }
    }

    /// `tcp_cleanup_rbuf`: whether a read makes an ACK due, to acknowledge data or to open the window.
    pub(super) fn ack_after_read(&mut self, sk: &mut TcpSock, copied: u64) -> AckAction {
        let pending = sk.icsk_ack_pending;
        if pending & SCHED != 0 {
            let unacknowledged = sk.rcv_nxt.wrapping_sub(self.rcv_wup);
            let pushed = pending & PUSHED2 != 0 || pending & PUSHED != 0 && sk.icsk_ack_pingpong < PINGPONG;
            let drained = copied > 0 && pushed && self.rmem_alloc == 0;
            if unacknowledged > u32::from(sk.icsk_ack_rcv_mss) || drained {
                return AckAction::Now;
            }
        }
        if copied > 0 && !self.fin_received() {
            let remaining = self.receive_window(sk);
            if 2 * u64::from(remaining) <= u64::from(sk.window_clamp) {
                let window = self.possible_window(sk);
                if window > 0 && u64::from(window) >= 2 * u64::from(remaining) {
                    return AckAction::Now;
                }
            }
        }
        AckAction::None
    }
}

/// `inet_csk_enter_pingpong_mode`.
pub(super) fn enter_pingpong(sk: &mut TcpSock) {
    sk.icsk_ack_pingpong = PINGPONG;
}
