//! The one timer of the sending half and what it stands for (net/ipv4/tcp_timer.c, include/net/inet_connection_sock.h).

use crate::{Endpoint, behaviour::TimerWheel};

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

impl Endpoint {
    /// `tcp_reset_xmit_timer`.
    pub(super) fn reset_xmit_timer(&mut self, what: Timer, jiffies: u32) {
        let sk = &mut self.sk;
        let paced_us = sk.tcp_wstamp_ns.saturating_sub(sk.tcp_clock_cache).div_ceil(1000);
        let when = jiffies + if paced_us > 0 { self.us_to_jiffies(paced_us) } else { 0 };
        let when = when.min(self.rto_max());
        self.sk.icsk_pending = what as u8;
        self.tx.timer_ns = Some(self.timer_end(when));
    }

    /// When a timer of so many jiffies ends: since 4.8 the kernel's timer wheel rounds up, to 1, 8, 64 or 512 jiffies
    /// (kernel/time/timer.c, calc_index).
    fn timer_end(&self, jiffies: u32) -> u64 {
        let now = self.tx.tick.0;
        if self.behaviour.timer_wheel == TimerWheel::Exact {
            return (now + u64::from(jiffies.max(1))) * self.tx.jiffy_us * 1000;
        }
        let shift = match jiffies {
            0..63 => 0,
            63..504 => 3,
            504..4032 => 6,
            _ => 9,
        };
        let ends = (now + u64::from(jiffies) + (1 << shift)) >> shift << shift;
        ends * self.tx.jiffy_us * 1000
    }

    /// `inet_csk_clear_xmit_timer`.
    pub(super) fn clear_xmit_timer(&mut self) {
        self.sk.icsk_pending = 0;
        self.tx.timer_ns = None;
    }

    /// No timer runs any more.
    pub(crate) fn give_up_timers(&mut self) {
        self.clear_xmit_timer();
        self.tx.pacing_timer_ns = None;
    }

    /// `tcp_rto_delta_us`: how far away the timeout of the first packet is.
    pub(super) fn rto_delta_us(&self) -> i64 {
        let rto = self.jiffies_to_us(self.sk.icsk_rto) as i64;
        match self.tx.queue.head() {
            Some(head) => rto - i64::from(self.age_us(self.tx.queue.get(head).sent_us)),
            None => rto,
        }
    }

    /// `tcp_rearm_rto`.
    pub(super) fn rearm_rto(&mut self) {
        if self.sk.packets_out == 0 {
            self.clear_xmit_timer();
            return;
        }
        let mut rto = self.sk.icsk_rto;
        let pending = self.sk.icsk_pending;
        if pending == Timer::Reordering as u8 || pending == Timer::Probe as u8 {
            rto = self.us_to_jiffies(self.rto_delta_us().max(1) as u64);
        }
        self.reset_xmit_timer(Timer::Retransmission, rto);
    }

    /// `tcp_set_xmit_timer`.
    #[inline]
    pub(super) fn set_xmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_rto();
        }
    }

    /// `tcp_check_probe_timer`: the window is closed and nothing is out.
    pub(super) fn check_probe_timer(&mut self) {
        if self.sk.packets_out == 0 && self.sk.icsk_pending == 0 {
            let base = self.sk.icsk_rto.max(self.sk.icsk_rto_min);
            self.reset_xmit_timer(Timer::Window, base);
        }
    }

    /// `tcp_ack_probe`: an ACK while nothing is out.
    pub(super) fn ack_probe(&mut self) {
        let Some(chunk) = self.tx.queue.unsent.front().copied() else { return };
        let end = self.sk.snd_nxt.wrapping_add(chunk.len).wrapping_add(u32::from(chunk.fin));
        if !crate::segment::after(end, self.window_end()) {
            self.sk.icsk_backoff = 0;
            self.clear_xmit_timer();
        } else {
            let when = self.probe0_when();
            self.reset_xmit_timer(Timer::Window, when);
        }
    }

    /// `tcp_probe0_when`.
    pub(super) fn probe0_when(&self) -> u32 {
        let base = u64::from(self.sk.icsk_rto.max(self.sk.icsk_rto_min));
        (base << self.sk.icsk_backoff.min(20)).min(u64::from(self.rto_max())) as u32
    }

    /// The sending half's timers, as far as they have ended.
    pub(crate) fn transmit_timers(&mut self) {
        let now = self.sk.tcp_clock_cache;
        if self.tx.pacing_timer_ns.is_some_and(|at| at <= now) {
            self.tx.pacing_timer_ns = None;
            self.pacing_timer();
        }
        if self.tx.timer_ns.is_none_or(|at| at > now) {
            return;
        }
        self.tx.timer_ns = None;
        let pending = std::mem::take(&mut self.sk.icsk_pending);
        if pending == Timer::Reordering as u8 {
            self.sk.icsk_pending = pending;
            self.rack_reo_timeout();
        } else if pending == Timer::Probe as u8 {
            self.sk.icsk_pending = pending;
            self.send_loss_probe();
        } else if pending == Timer::Retransmission as u8 {
            self.retransmit_timer();
        } else if pending == Timer::Window as u8 {
            self.probe_timer();
        }
    }
}
