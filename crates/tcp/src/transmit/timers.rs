//! The sender's timer, and the purposes for which it is set (net/ipv4/tcp_timer.c,
//! include/net/inet_connection_sock.h).

use super::Sender;
use crate::{TcpState, behaviour::TimerWheel, connection::Connection};

/// `TCP_TIMEOUT_MIN_US`, which loss probes and RACK add to their timeouts before they are rounded to jiffies.
/// Kernels before 6.6 whose stable series lacks 1c2709cfff1d add two jiffies.
pub(super) const TIMEOUT_MIN_US: u32 = 2000;

/// `ICSK_TIME_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Timer {
    /// Retransmission timeout.
    Retransmission = 1,
    /// Zero-window probe.
    Window = 3,
    /// Tail loss probe.
    Probe = 5,
    /// RACK's reordering window.
    Reordering = 6,
}

impl Sender {
    /// `tcp_reset_xmit_timer`.
    pub(super) fn reset_xmit_timer(&mut self, conn: &mut Connection, timer: Timer, jiffies: u32) {
        let sk = &mut conn.sk;
        let paced_us = sk.tcp_wstamp_ns.saturating_sub(sk.tcp_clock_cache).div_ceil(1000);
        let when = jiffies + if paced_us > 0 { conn.us_to_jiffies(paced_us) } else { 0 };
        let when = when.min(conn.rto_max());
        conn.sk.icsk_pending = timer as u8;
        self.timer_ns = Some(conn.timer_end(when));
    }

    /// `inet_csk_clear_xmit_timer`.
    pub(super) fn clear_xmit_timer(&mut self, conn: &mut Connection) {
        conn.sk.icsk_pending = 0;
        self.timer_ns = None;
    }

    /// Closes the connection without a FIN: on a RST, or after too many retransmissions.
    pub(crate) fn abort(&mut self, conn: &mut Connection) {
        conn.set_state(TcpState::Closed);
        self.stop_timers(conn);
    }

    fn stop_timers(&mut self, conn: &mut Connection) {
        self.clear_xmit_timer(conn);
        self.pacing_timer_ns = None;
    }

    /// `tcp_rto_delta_us`: time until the first packet's timeout.
    pub(super) fn rto_delta_us(&self, conn: &Connection) -> i64 {
        let rto = conn.jiffies_to_us(conn.sk.icsk_rto) as i64;
        match self.queue.head() {
            Some(head) => rto - i64::from(conn.age_us(self.queue.get(head).sent_us)),
            None => rto,
        }
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self, conn: &mut Connection) {
        if conn.sk.packets_out == 0 {
            self.clear_xmit_timer(conn);
            return;
        }
        let mut rto = conn.sk.icsk_rto;
        let pending = conn.sk.icsk_pending;
        if pending == Timer::Reordering as u8 || pending == Timer::Probe as u8 {
            rto = conn.us_to_jiffies(self.rto_delta_us(conn).max(1) as u64);
        }
        self.reset_xmit_timer(conn, Timer::Retransmission, rto);
    }

    /// `tcp_set_xmit_timer`.
    #[inline]
    pub(super) fn set_xmit_timer(&mut self, conn: &mut Connection) {
        if !self.schedule_loss_probe(conn, true) {
            self.rearm_rto(conn);
        }
    }

    /// `tcp_check_probe_timer`: starts the window probe timer if the window is closed and nothing is in
    /// flight.
    pub(super) fn check_probe_timer(&mut self, conn: &mut Connection) {
        if conn.sk.packets_out == 0 && conn.sk.icsk_pending == 0 {
            let base = conn.sk.icsk_rto.max(conn.sk.icsk_rto_min);
            self.reset_xmit_timer(conn, Timer::Window, base);
        }
    }

    /// `tcp_ack_probe`: processes an ACK while nothing is in flight.
    pub(super) fn ack_probe(&mut self, conn: &mut Connection) {
        let Some(chunk) = self.queue.unsent.front().copied() else { return };
        let end = conn.sk.snd_nxt.wrapping_add(chunk.len).wrapping_add(u32::from(chunk.fin));
        if !crate::segment::after(end, conn.window_end()) {
            conn.sk.icsk_backoff = 0;
            self.clear_xmit_timer(conn);
        } else {
            let when = conn.probe0_when();
            self.reset_xmit_timer(conn, Timer::Window, when);
        }
    }

    /// Handles the sender's expired timers.
    pub(crate) fn on_timer(&mut self, conn: &mut Connection) {
        let now = conn.sk.tcp_clock_cache;
        if self.pacing_timer_ns.is_some_and(|at| at <= now) {
            self.pacing_timer_ns = None;
            self.pacing_timer(conn);
        }
        if self.timer_ns.is_none_or(|at| at > now) {
            return;
        }
        self.timer_ns = None;
        let pending = std::mem::take(&mut conn.sk.icsk_pending);
        if pending == Timer::Reordering as u8 {
            conn.sk.icsk_pending = pending;
            self.rack_reo_timeout(conn);
        } else if pending == Timer::Probe as u8 {
            conn.sk.icsk_pending = pending;
            self.send_loss_probe(conn);
        } else if pending == Timer::Retransmission as u8 {
            self.renext_timer(conn);
        } else if pending == Timer::Window as u8 {
            self.probe_timer(conn);
        }
    }
}

impl Connection {
    /// Expiry of a timer of `jiffies`: since 4.8 the kernel's timer wheel rounds up to 1, 8, 64 or 512
    /// jiffies (kernel/time/timer.c, calc_index).
    fn timer_end(&self, jiffies: u32) -> u64 {
        let now = self.tick.0;
        if self.behaviour.timer_wheel == TimerWheel::Exact {
            return (now + u64::from(jiffies.max(1))) * self.jiffy_us * 1000;
        }
        let shift = match jiffies {
            0..63 => 0,
            63..504 => 3,
            504..4032 => 6,
            _ => 9,
        };
        let ends = (now + u64::from(jiffies) + (1 << shift)) >> shift << shift;
        ends * self.jiffy_us * 1000
    }

    /// `tcp_probe0_when`.
    pub(super) fn probe0_when(&self) -> u32 {
        let base = u64::from(self.sk.icsk_rto.max(self.sk.icsk_rto_min));
        (base << self.sk.icsk_backoff.min(20)).min(u64::from(self.rto_max())) as u32
    }
}
