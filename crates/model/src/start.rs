//! Slow start: the time until a window is reached, and the bytes delivered until then.
//!
//! Source: RFC 5681 (doubling each round trip), RFC 6928 (initial window of 10 segments).
//! Not considered: HyStart's early exit, losses by overshooting the queue, address resolution.

use units::Time;

/// The initial congestion window (RFC 6928, and Linux).
pub const INITIAL_WINDOW_SEGS: u32 = 10;

/// The receiver's first window cannot be scaled (RFC 7323, section 2.2).
const FIRST_RECEIVE_WINDOW_BYTES: f64 = 65_535.0;

/// Bytes of the first flight: ten segments, at most the receiver's first window.
pub fn initial_window_bytes(mss: u32) -> f64 {
    f64::from(INITIAL_WINDOW_SEGS * mss).min(FIRST_RECEIVE_WINDOW_BYTES)
}

/// Slow start from a connection's first segment to a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    initial_bytes: f64,
    window_bytes: f64,
    rtt_s: f64,
}

impl SlowStart {
    /// Slow start up to `window_bytes` of payload per round trip.
    pub fn new(window_bytes: f64, mss: u32, rtt: Time) -> Self {
        SlowStart { initial_bytes: initial_window_bytes(mss), window_bytes, rtt_s: rtt.as_secs_f64() }
    }

    /// Round trips of doubling, with a fraction for the last; 0 if the first flight suffices.
    pub fn rounds(&self) -> f64 {
        libm::log2(self.window_bytes / self.initial_bytes).max(0.0)
    }

    /// Seconds of doubling.
    pub fn seconds(&self) -> f64 {
        self.rounds() * self.rtt_s
    }

    /// End of slow start, in seconds since the connection request: the handshake's round trip, half a round
    /// trip until the first data arrives, and the doubling.
    pub fn settled_s(&self) -> f64 {
        1.5 * self.rtt_s + self.seconds()
    }

    /// Bytes delivered `elapsed_s` after the connection request, if the rate after slow start is
    /// `bytes_per_s`.
    pub fn delivered_bytes(&self, elapsed_s: f64, bytes_per_s: f64) -> f64 {
        let since_first = elapsed_s - 1.5 * self.rtt_s;
        if since_first <= 0.0 {
            return 0.0;
        }
        let settled = since_first - self.seconds();
        if settled >= 0.0 {
            return self.doubling_bytes(self.rounds()) + settled * bytes_per_s;
        }
        self.doubling_bytes(since_first / self.rtt_s)
    }

    /// Seconds from the connection's request until `bytes` are delivered; `None` if they never are.
    pub fn time_for_bytes(&self, bytes: f64, bytes_per_s: f64) -> Option<f64> {
        let doubled = self.doubling_bytes(self.rounds());
        if bytes < doubled {
            // Inverse of `doubling_bytes`.
            let rounds = libm::log2(bytes / self.initial_bytes + 1.0);
            return Some((1.5 + rounds) * self.rtt_s);
        }
        (bytes_per_s > 0.0).then(|| self.settled_s() + (bytes - doubled) / bytes_per_s)
    }

    /// The sum of the flights of `rounds` round trips: initial x (2^rounds - 1).
    fn doubling_bytes(&self, rounds: f64) -> f64 {
        self.initial_bytes * (rounds.exp2() - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_gigabits_at_20_ms_take_eleven_rounds() {
        let start = SlowStart::new(25e6, 1_448, Time::from_millis(20));
        assert!((start.rounds() - 10.75).abs() < 0.01);
        assert!((start.seconds() - 0.215).abs() < 0.001);
    }

    #[test]
    fn jumbo_frames_begin_with_the_first_receive_window() {
        assert_eq!(initial_window_bytes(8_948), 65_535.0);
        assert_eq!(initial_window_bytes(1_448), 14_480.0);
    }

    #[test]
    fn a_small_window_needs_no_doubling() {
        let start = SlowStart::new(5_000.0, 1_448, Time::from_millis(20));
        assert_eq!(start.rounds(), 0.0);
        assert_eq!(start.delivered_bytes(0.02, 1e6), 0.0);
        assert!((start.delivered_bytes(1.03, 1e6) - 1e6).abs() < 1.0);
        assert_eq!(start.time_for_bytes(10.0, 0.0), None);
    }

    proptest! {
        #[test]
        fn delivery_and_its_inverse_agree(window in 1e4..1e8f64, rtt_ms in 1_u64..300, elapsed in 0.5..100.0f64) {
            let start = SlowStart::new(window, 1_448, Time::from_millis(rtt_ms));
            let rate = window / (rtt_ms as f64 / 1e3);
            let bytes = start.delivered_bytes(elapsed, rate);
            prop_assume!(bytes > 0.0);
            let time = start.time_for_bytes(bytes, rate).unwrap();
            prop_assert!((time - elapsed).abs() < 1e-6 * elapsed, "{time} {elapsed}");
        }
    }
}
