//! SABUL's rate control, on UDT's connection: the constants and rules of its authors' program of March 2003
//! (`sender.cpp`, Laboratory for Advanced Computing, University of Illinois at Chicago).
//!
//! The period begins at 10 us. Each SYN in which the loss rate is at most 0.1 % raises the rate by
//! 10^ceil(log10(r)) / 1000 packets per SYN, where r is the rate in packets per SYN. The first loss report of
//! a new epoch lengthens the period by 1/8 and stops the sender for a SYN; the 16th, 32nd, 64th report of the
//! epoch and so on lengthen it again.
//!
//! Differences from that program: 1. The reports are UDT's, over UDP; SABUL's control connection is TCP.
//! 2. Packets sent in a SYN are the new ones and the reported losses, each of which is retransmitted once.

use units::{Instant, Time};

use super::rate_control::{PathState, RateControl, SYN, power_of_ten};

/// Bounds of the period, microseconds. The initial period is the shortest.
const PERIOD_US: std::ops::RangeInclusive<f64> = 10.0..=1000.0;
/// Maximum loss rate at which the rate increases.
const MAX_LOSS: f64 = 0.001;
/// Weight of the earlier loss rate.
const HISTORY: f64 = 0.1;
/// Smallest increase, packets per SYN.
const MIN_INCREASE: f64 = 1.0 / 1500.0;
/// Factor of the period at a decrease.
const DECREASE: f64 = 1.125;
/// The second decrease of an epoch is at report 2 to the power of this.
const SECOND_DECREASE: u32 = 4;

/// The rate control of SABUL.
#[derive(Debug)]
pub struct Sabul {
    period_us: f64,
    loss_rate: f64,
    /// Packets reported lost since the last SYN.
    lost: u64,
    first_index: u64,
    last_change: Instant,
    /// The next new packet at the first decrease of the epoch.
    last_decrease: Option<u64>,
    reports: u64,
    next_decrease: u32,
    pause: Time,
}

impl Default for Sabul {
    fn default() -> Self {
        Sabul {
            period_us: *PERIOD_US.start(),
            loss_rate: 0.0,
            lost: 0,
            first_index: 0,
            last_change: Instant::ZERO,
            last_decrease: None,
            reports: 0,
            next_decrease: 1,
            pause: Time::ZERO,
        }
    }
}

impl RateControl for Sabul {
    fn on_ack(&mut self, now: Instant, _next: u64, path: &PathState) {
        if now.saturating_since(self.last_change) < SYN {
            return;
        }
        self.last_change = now;
        let new = path.next_index.saturating_sub(self.first_index);
        self.first_index = path.next_index;
        let lost = std::mem::take(&mut self.lost);
        if new + lost == 0 {
            return;
        }
        let current = lost as f64 / (new + lost) as f64;
        self.loss_rate = HISTORY * self.loss_rate + (1.0 - HISTORY) * current;
        if self.loss_rate > MAX_LOSS {
            return;
        }
        let syn_us = SYN.as_micros_f64();
        let increase = (10f64.powi(power_of_ten(syn_us / self.period_us)) / 1000.0).max(MIN_INCREASE);
        let period_us = self.period_us * syn_us / (self.period_us * increase + syn_us);
        self.period_us = period_us.clamp(*PERIOD_US.start(), *PERIOD_US.end());
    }

    fn on_loss(&mut self, _now: Instant, first: u64, count: u64, path: &PathState) {
        self.lost += count;
        if self.last_decrease.is_none_or(|last| first > last) {
            self.period_us *= DECREASE;
            self.last_decrease = Some(path.next_index);
            self.pause = SYN;
            self.reports = 1;
            self.next_decrease = SECOND_DECREASE;
            return;
        }
        self.reports += 1;
        if self.reports >= 1u64 << self.next_decrease.min(63) {
            self.next_decrease += 1;
            self.period_us *= DECREASE;
        }
    }

    fn on_timeout(&mut self, _now: Instant, _path: &PathState) {}

    fn period(&self) -> Time {
        Time::from_nanos_f64(self.period_us * 1e3)
    }

    /// Only the receiver's buffer limits the packets in flight.
    fn window(&self) -> f64 {
        f64::INFINITY
    }

    fn take_pause(&mut self) -> Time {
        std::mem::take(&mut self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(next_index: u64) -> PathState {
        PathState {
            rtt: Time::from_millis(100),
            receive_rate: 50_000,
            capacity: 83_333,
            mss: 1500,
            max_window: 25_600,
            next_index,
        }
    }

    #[test]
    fn a_loss_lengthens_the_period_and_stops_the_sender_for_a_syn() {
        let mut control = Sabul::default();
        assert_eq!(control.period(), Time::from_micros(10));
        control.on_loss(Instant::ZERO, 10, 1, &path(1000));
        assert_eq!(
            (control.period(), control.take_pause(), control.take_pause()),
            (Time::from_nanos(11_250), SYN, Time::ZERO)
        );
        // Reports 2 to 15 of the epoch change nothing, the 16th does, then the 32nd.
        for _ in 2..=15 {
            control.on_loss(Instant::ZERO, 20, 1, &path(1000));
        }
        assert_eq!(control.period(), Time::from_nanos(11_250));
        control.on_loss(Instant::ZERO, 20, 1, &path(1000));
        assert_eq!(control.period(), Time::from_nanos_f64(11_250.0 * 1.125));
        // A new epoch.
        control.on_loss(Instant::ZERO, 1001, 1, &path(2000));
        assert_eq!(control.take_pause(), SYN);
    }

    #[test]
    fn the_rate_grows_by_a_thousandth_of_a_power_of_ten_while_losses_are_rare() {
        let mut control = Sabul { period_us: 20.0, ..Sabul::default() };
        // 500 packets per SYN: 1 packet per SYN more.
        control.on_ack(Instant::ZERO + SYN, 0, &path(500));
        assert!((10_000.0 / control.period_us - 501.0).abs() < 1e-9, "{}", control.period_us);
        // Less than a SYN later nothing changes.
        let period_us = control.period_us;
        control.on_ack(Instant::ZERO + SYN + Time::from_millis(9), 0, &path(900));
        assert_eq!(control.period_us, period_us);
        // A loss of 1 % stops the increase, until the history has forgotten it.
        control.on_loss(Instant::ZERO + SYN, 600, 5, &path(900));
        let period_us = control.period_us;
        control.on_ack(Instant::ZERO + SYN + SYN, 0, &path(1000));
        assert_eq!(control.period_us, period_us);
        control.on_ack(Instant::from_millis(30), 0, &path(1500));
        control.on_ack(Instant::from_millis(40), 0, &path(2000));
        assert!(control.period_us < period_us);
    }
}
