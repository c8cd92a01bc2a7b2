//! The sending rate of a UDT connection: a trait, and its controls.
//!
//! - [`Daimd`]: UDT's own control (draft-gg-udt-03 section 3.4 and `CUDTCC` of libudt 4.11).
//! - [`Daimd::tolerant`]: the same, which ignores a share of lost packets.
//! - [`Sabul`](super::Sabul): the control of UDT's predecessor.
//! - [`FixedRate`]: a rate that the user sets (`CUDPBlast` of libudt's sample programs).

use rand_core::Rng;
use rand_pcg::Pcg32;
use units::{BitRate, Instant, Time};

/// UDT's constant interval between rate changes and acknowledgements (SYN).
pub const SYN: Time = Time::from_millis(10);

/// The measured path of a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathState {
    /// Smoothed round-trip time.
    pub rtt: Time,
    /// Smoothed receive rate, packets/s; 0 if unknown.
    pub receive_rate: u32,
    /// Smoothed path capacity, packets/s.
    pub capacity: u32,
    /// Largest packet with IP and UDP headers, bytes.
    pub mss: u32,
    /// The largest window that the receiver allows, packets.
    pub max_window: u32,
    /// Index of the next new packet.
    pub next_index: u64,
}

/// The sending rate of a connection. Calls receive the current time and the path's state.
pub trait RateControl: Send {
    /// A full acknowledgement: every packet before `next` has arrived.
    fn on_ack(&mut self, now: Instant, next: u64, path: &PathState);
    /// The receiver reports `count` lost packets, the first with this index.
    fn on_loss(&mut self, now: Instant, first: u64, count: u64, path: &PathState);
    /// Nothing has arrived for longer than the expiration timer.
    fn on_timeout(&mut self, now: Instant, path: &PathState);
    /// Time between two packets.
    fn period(&self) -> Time;
    /// Maximum number of packets in flight, counted from the first that is not acknowledged.
    fn window(&self) -> f64;
    /// Takes a time for which the sender is to send nothing, beginning now. Called after each loss report.
    fn take_pause(&mut self) -> Time {
        Time::ZERO
    }
}

/// Decreasing AIMD (Gu, Hong, Grossman 2004): the increase depends on the unused capacity in steps of powers
/// of ten, the decrease is 1/9.
#[derive(Debug)]
pub struct Daimd {
    period_us: f64,
    window: f64,
    is_slow_start: bool,
    /// A loss was reported since the last acknowledgement.
    has_loss: bool,
    last_change: Instant,
    last_ack: u64,
    /// The next new packet at the last decrease; earlier losses belong to the same epoch.
    last_decrease: u64,
    last_decrease_period_us: f64,
    naks_average: u32,
    naks: u32,
    decreases: u32,
    decrease_every: u32,
    random: Pcg32,
    tolerance: Option<Tolerance>,
}

/// Losses that are repaired without a lower rate.
#[derive(Debug)]
struct Tolerance {
    share: f64,
    epoch_end: u64,
    lost: u64,
}

/// Packets over which the share of losses is counted.
const TOLERANCE_EPOCH: u64 = 4096;
/// Initial window (draft-gg-udt-03 section 3.4).
const INITIAL_WINDOW: f64 = 16.0;
/// Smallest increase, packets per SYN (libudt 4.11; the draft has 1/MSS).
const MIN_INCREASE: f64 = 0.01;
/// Packets per SYN for each bit/s of unused capacity, times the segment size (draft: Beta).
const BETA: f64 = 0.000_001_5;
/// Factor of the period at a decrease.
const DECREASE: f64 = 1.125;
/// Maximum number of further decreases within an epoch.
const MAX_DECREASES: u32 = 5;

impl Daimd {
    /// UDT's control. `seed` chooses the random numbers that desynchronize flows.
    pub fn new(seed: u64) -> Self {
        Daimd {
            period_us: 1.0,
            window: INITIAL_WINDOW,
            is_slow_start: true,
            has_loss: false,
            last_change: Instant::ZERO,
            last_ack: 0,
            last_decrease: 0,
            last_decrease_period_us: 1.0,
            naks_average: 0,
            naks: 0,
            decreases: 0,
            decrease_every: 1,
            random: Pcg32::new(seed, 0),
            tolerance: None,
        }
    }

    /// A control that does not slow down for losses up to `share` (0 to 1) of each 4096 packets, for paths
    /// that lose packets without congestion. Beyond that it slows down once per round trip, by exactly 1/9
    /// (libudt rounds the time between packets up to whole microseconds, which at 1 Gb/s is 8 %). Its window
    /// is three times as large: a lost packet holds the acknowledgement for a round trip, and a lost
    /// retransmission for another.
    pub fn tolerant(seed: u64, share: f64) -> Self {
        let tolerance = Tolerance { share: share.clamp(0.0, 1.0), epoch_end: TOLERANCE_EPOCH, lost: 0 };
        Daimd { tolerance: Some(tolerance), ..Daimd::new(seed) }
    }

    /// Whether the loss is within the tolerance.
    fn tolerates(&mut self, count: u64, path: &PathState) -> bool {
        let Some(tolerance) = &mut self.tolerance else { return false };
        if path.next_index >= tolerance.epoch_end {
            tolerance.epoch_end = path.next_index + TOLERANCE_EPOCH;
            tolerance.lost = 0;
        }
        tolerance.lost += count;
        tolerance.lost as f64 <= tolerance.share * TOLERANCE_EPOCH as f64
    }

    /// Ends slow start at the receive rate if it is known, else at the rate of the window.
    fn leave_slow_start(&mut self, path: &PathState) -> bool {
        self.is_slow_start = false;
        if self.tolerance.is_some() {
            self.last_decrease = path.next_index;
        }
        if path.receive_rate > 0 {
            self.period_us = 1e6 / f64::from(path.receive_rate);
            return true;
        }
        self.period_us = (path.rtt + SYN).as_micros_f64() / self.window;
        false
    }
}

impl RateControl for Daimd {
    fn on_ack(&mut self, now: Instant, next: u64, path: &PathState) {
        if now.saturating_since(self.last_change) < SYN {
            return;
        }
        self.last_change = now;
        if self.is_slow_start {
            self.window += next.saturating_sub(self.last_ack) as f64;
            self.last_ack = next;
            if self.window > f64::from(path.max_window) {
                self.leave_slow_start(path);
            } else {
                return;
            }
        } else {
            let factor = if self.tolerance.is_some() { 3.0 } else { 1.0 };
            self.window =
                factor * f64::from(path.receive_rate) * (path.rtt + SYN).as_secs_f64() + INITIAL_WINDOW;
        }
        if std::mem::take(&mut self.has_loss) {
            return;
        }
        let mut unused = f64::from(path.capacity) - 1e6 / self.period_us;
        if self.period_us > self.last_decrease_period_us {
            unused = unused.min(f64::from(path.capacity) / 9.0);
        }
        let increase = if unused <= 0.0 {
            MIN_INCREASE
        } else {
            let bits = unused * f64::from(path.mss) * 8.0;
            (10f64.powi(power_of_ten(bits)) * BETA / f64::from(path.mss)).max(MIN_INCREASE)
        };
        let syn_us = SYN.as_micros_f64();
        self.period_us = self.period_us * syn_us / (self.period_us * increase + syn_us);
    }

    fn on_loss(&mut self, _now: Instant, first: u64, count: u64, path: &PathState) {
        if self.tolerates(count, path) || (self.is_slow_start && self.leave_slow_start(path)) {
            return;
        }
        if self.tolerance.is_some() {
            if first >= self.last_decrease {
                self.last_decrease_period_us = self.period_us;
                self.period_us *= DECREASE;
                self.last_decrease = path.next_index;
            }
            return;
        }
        self.has_loss = true;
        if first >= self.last_decrease {
            self.last_decrease_period_us = self.period_us;
            self.period_us = (self.period_us * DECREASE).ceil();
            self.naks_average =
                (f64::from(self.naks_average) * 0.875 + f64::from(self.naks) * 0.125).ceil() as u32;
            self.naks = 1;
            self.decreases = 1;
            self.last_decrease = path.next_index;
            // 1 to naks_average, uniform.
            self.decrease_every = 1 + self.random.next_u32() % self.naks_average.max(1);
        } else if self.decreases < MAX_DECREASES {
            self.decreases += 1;
            self.naks += 1;
            if self.naks.is_multiple_of(self.decrease_every) {
                self.period_us = (self.period_us * DECREASE).ceil();
                self.last_decrease = path.next_index;
            }
        }
    }

    fn on_timeout(&mut self, _now: Instant, path: &PathState) {
        if self.is_slow_start {
            self.leave_slow_start(path);
        }
    }

    fn period(&self) -> Time {
        Time::from_nanos_f64(self.period_us * 1e3)
    }

    fn window(&self) -> f64 {
        self.window
    }
}

/// The smallest n with 10^n >= value, without a logarithm, whose last bit differs between machines.
pub(super) fn power_of_ten(value: f64) -> i32 {
    (0..=19).find(|power| 10f64.powi(*power) >= value).unwrap_or(19)
}

/// A constant rate, independent of losses.
#[derive(Debug, Clone, Copy)]
pub struct FixedRate {
    period: Time,
}

impl FixedRate {
    /// Sends packets of `mss` bytes (IP and UDP headers included) at `rate`.
    pub fn new(rate: BitRate, mss: u32) -> Self {
        let seconds = f64::from(mss) * 8.0 / (rate.0.max(1) as f64);
        FixedRate { period: Time::from_secs_f64(seconds) }
    }
}

impl RateControl for FixedRate {
    fn on_ack(&mut self, _now: Instant, _next: u64, _path: &PathState) {}
    fn on_loss(&mut self, _now: Instant, _first: u64, _count: u64, _path: &PathState) {}
    fn on_timeout(&mut self, _now: Instant, _path: &PathState) {}
    fn period(&self) -> Time {
        self.period
    }
    fn window(&self) -> f64 {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathState = PathState {
        rtt: Time::from_millis(100),
        receive_rate: 50_000,
        capacity: 83_333,
        mss: 1500,
        max_window: 25_600,
        next_index: 1000,
    };

    /// A control that has left slow start at 50,000 packets/s.
    fn running() -> Daimd {
        let mut control = Daimd::new(1);
        control.on_loss(Instant::ZERO, 10, 1, &PATH);
        assert_eq!(control.period(), Time::from_micros(20));
        control
    }

    #[test]
    fn slow_start_adds_the_acknowledged_packets() {
        let mut control = Daimd::new(1);
        control.on_ack(Instant::ZERO + SYN, 16, &PATH);
        assert_eq!(control.window(), 32.0);
        // Less than an interval later nothing changes.
        control.on_ack(Instant::from_millis(15), 30, &PATH);
        assert_eq!(control.window(), 32.0);
        control.on_ack(Instant::from_millis(20), 48, &PATH);
        assert_eq!(control.window(), 64.0);
    }

    #[test]
    fn the_increase_is_a_power_of_ten_of_the_unused_capacity() {
        // 33,333 packets/s of 1500 B are 400 Mb/s: 10^9 x 1.5e-6 / 1500 = 1 packet per SYN.
        let mut control = running();
        control.on_ack(Instant::ZERO + SYN, 100, &PATH);
        assert!((1e6 / control.period_us - 50_100.0).abs() < 1e-6);
        assert_eq!(control.window(), 50_000.0 * 0.11 + 16.0);
        // Without unused capacity the smallest increase: 0.01 packets per SYN.
        control.on_ack(Instant::ZERO + SYN + SYN, 200, &PathState { capacity: 40_000, ..PATH });
        assert!((1e6 / control.period_us - 50_101.0).abs() < 1e-6);
    }

    #[test]
    fn the_rate_decreases_once_per_epoch_and_a_few_times_more() {
        let mut control = running();
        control.on_loss(Instant::ZERO, 1200, 1, &PathState { next_index: 2000, ..PATH });
        // The period is rounded up to whole microseconds, as in libudt.
        assert_eq!(control.period(), Time::from_micros(23));
        let mut periods = Vec::new();
        for _ in 0..20 {
            control.on_loss(Instant::ZERO, 1500, 1, &PathState { next_index: 2000, ..PATH });
            periods.push(control.period());
        }
        assert!(periods.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(periods[4], periods[19], "at most five decreases per epoch");
    }

    #[test]
    fn a_loss_stops_the_next_increase() {
        let mut control = running();
        control.on_loss(Instant::ZERO, 1200, 1, &PATH);
        let period = control.period();
        control.on_ack(Instant::ZERO + SYN, 1300, &PATH);
        assert_eq!(control.period(), period);
        control.on_ack(Instant::ZERO + SYN + SYN, 1400, &PATH);
        assert!(control.period() < period);
    }

    #[test]
    fn tolerated_losses_do_not_slow_down() {
        let mut control = Daimd::tolerant(1, 0.01);
        for first in 0..40 {
            control.on_loss(Instant::ZERO, 1000 + first, 1, &PATH);
        }
        assert!(control.is_slow_start, "40 of 4096 packets are under 1 %");
        control.on_loss(Instant::ZERO, 1100, 1, &PATH);
        assert!(!control.is_slow_start);
        let period = control.period();
        control.on_loss(Instant::ZERO, 900, 1, &PATH);
        assert_eq!(control.period(), period, "sent before the rate changed");
        control.on_loss(Instant::ZERO, 1101, 1, &PATH);
        assert_eq!(control.period(), period * 9 / 8);
    }

    #[test]
    fn powers_of_ten() {
        assert_eq!([0.5, 1.0, 9.0, 10.0, 11.0, 1e9].map(power_of_ten), [0, 0, 1, 1, 2, 9]);
    }
}
