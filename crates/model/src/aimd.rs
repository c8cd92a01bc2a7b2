//! Additive increase, multiplicative decrease (AIMD): recovery after a loss, and the link utilization of the
//! sawtooth.
//!
//! Sources: S. Ravot, "TCP transfers over high latency/bandwidth networks - Grid DT", PFLDnet 2003
//! (responsiveness); RFC 5681 (Reno); RFC 9438 (CUBIC's constants and curve). One flow alone on its
//! bottleneck, one loss a cycle.

use units::{BitRate, Time};

use crate::bdp_f64;

/// CUBIC's scaling constant, segments per second cubed (RFC 9438, section 4.1).
pub const CUBIC_C: f64 = 0.4;

/// Share of its window that CUBIC keeps after a loss (RFC 9438, section 4.6).
pub const CUBIC_BETA: f64 = 0.7;

/// An AIMD rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aimd {
    /// Growth of the window in segments per round trip (the A of Grid DT).
    pub increase_segs: f64,
    /// Share by which a loss reduces the window.
    pub decrease: f64,
}

impl Aimd {
    /// Reno: one segment per round trip, half the window lost.
    pub const RENO: Aimd = Aimd { increase_segs: 1.0, decrease: 0.5 };
    /// Reno that counts ACKs, with delayed ACKs for two segments each (Linux 2.4; current kernels count
    /// segments).
    pub const RENO_DELAYED_ACK: Aimd = Aimd { increase_segs: 0.5, decrease: 0.5 };
    /// CUBIC in its Reno-friendly region: with an increase of 3 (1 - beta) / (1 + beta) its mean window is
    /// Reno's (RFC 9438, section 4.3).
    pub const CUBIC_LIKE_RENO: Aimd =
        Aimd { increase_segs: 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA), decrease: 1.0 - CUBIC_BETA };

    /// Mean window in segments at loss rate `loss`: sqrt(A (1 - d/2) / (d p)); for Reno sqrt(3 / 2p).
    ///
    /// One loss per period of 1/p segments. The window grows from (1 - d) W to W by A per round trip: d W / A
    /// round trips of (1 - d/2) W on average.
    pub fn window_segs(self, loss: f64) -> f64 {
        (self.increase_segs * (1.0 - self.decrease / 2.0) / (self.decrease * loss)).sqrt()
    }
}

/// Responsiveness in seconds: the time until the link is full again after one loss at a window of one BDP.
///
/// The window regains the lost share of C RTT / MSS segments by `increase_segs` per round trip:
/// r = decrease C RTT^2 / (increase MSS); for Reno C RTT^2 / (2 MSS). MSS in bytes here.
pub fn responsiveness(rule: Aimd, rate: BitRate, rtt: Time, mss: u32) -> f64 {
    let window_segs = bdp_f64(rate, rtt) / f64::from(mss);
    rule.decrease * window_segs / rule.increase_segs * rtt.as_secs_f64()
}

/// Seconds in which the rule's increase regains `rate` (bit/s of payload), by `increase_segs` MSS / RTT each
/// round trip.
pub fn regain_time(rule: Aimd, rate: BitRate, rtt: Time, mss: u32) -> f64 {
    let lost_segs = bdp_f64(rate, rtt) / f64::from(mss);
    lost_segs / rule.increase_segs * rtt.as_secs_f64()
}

/// Seconds until CUBIC has regained its window after one loss: K = cbrt(W (1 - beta) / C), W in segments.
///
/// Source: RFC 9438, equation 2. Independent of the round-trip time except through the window.
pub fn cubic_recovery_time(window_segs: f64) -> f64 {
    libm::cbrt(window_segs * (1.0 - CUBIC_BETA) / CUBIC_C)
}

/// Link utilization of the sawtooth with a bottleneck queue of `queue_bdp` BDPs.
///
/// In units of the BDP the window runs from (1 - decrease)(1 + q) to 1 + q, linear per round trip. Below 1
/// the link delivers the window each base RTT; above, the link is full and the RTT grows with the window.
/// Reno uses 3/4 without a queue, and the whole link with a queue of one BDP.
pub fn sawtooth_utilization(rule: Aimd, queue_bdp: f64) -> f64 {
    let top = 1.0 + queue_bdp;
    let bottom = (1.0 - rule.decrease) * top;
    if bottom >= 1.0 {
        return 1.0;
    }
    let full_time = (top * top - 1.0) / 2.0;
    let partial_time = 1.0 - bottom;
    let partial_delivered = (1.0 - bottom * bottom) / 2.0;
    (partial_delivered + full_time) / (partial_time + full_time)
}

/// Link utilization of CUBIC with a bottleneck queue of `queue_bdp` BDPs.
///
/// W(t) = top - u (1 - t/K)^3 with u = 0.3 top, from the loss to K; below 1 BDP the shortfall is unused.
/// Without a queue 92.5 %. Ignores the Reno-friendly region of short paths and the probing beyond K.
pub fn cubic_utilization(queue_bdp: f64) -> f64 {
    let lost = (1.0 - CUBIC_BETA) * (1.0 + queue_bdp);
    if queue_bdp >= lost {
        return 1.0;
    }
    // The share of K that remains when the window reaches one BDP.
    let remaining = libm::cbrt(queue_bdp / lost);
    1.0 - (lost / 4.0 * (1.0 - remaining.powi(4)) - queue_bdp * (1.0 - remaining))
}

/// The smallest queue in BDPs with which the link stays full after a loss: decrease / (1 - decrease).
pub fn queue_for_full_use(decrease: f64) -> f64 {
    decrease / (1.0 - decrease)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{a} is not within {tolerance} of {b}");
    }

    #[test]
    fn the_sawtooth_has_the_known_points() {
        assert_eq!(sawtooth_utilization(Aimd::RENO, 0.0), 0.75);
        assert_eq!(sawtooth_utilization(Aimd::RENO, 1.0), 1.0);
        near(cubic_utilization(0.0), 0.925, 1e-12);
        assert_eq!(cubic_utilization(0.5), 1.0);
        near(queue_for_full_use(0.5), 1.0, 1e-12);
        near(queue_for_full_use(0.3), 0.4286, 1e-3);
    }

    #[test]
    fn utilization_grows_with_the_queue_and_is_continuous() {
        let mut before = (0.0, 0.0);
        for step in 0..=120 {
            let queue = f64::from(step) / 100.0;
            let now = (sawtooth_utilization(Aimd::RENO, queue), cubic_utilization(queue));
            assert!(now.0 >= before.0 && now.1 >= before.1, "{queue}: {now:?} {before:?}");
            assert!(
                step == 0 || now.0 - before.0 < 0.01 && now.1 - before.1 < 0.01,
                "{queue}: {now:?} {before:?}"
            );
            before = now;
        }
        assert_eq!(before, (1.0, 1.0));
    }

    #[test]
    fn the_mean_window_at_a_loss_rate() {
        for loss in [1e-2, 1e-5, 1e-8] {
            near(Aimd::RENO.window_segs(loss), crate::reno_window_segs(loss, 1.0), 1e-12);
            near(Aimd::CUBIC_LIKE_RENO.window_segs(loss), Aimd::RENO.window_segs(loss), 1e-12);
            near(
                Aimd { increase_segs: 4.0, ..Aimd::RENO }.window_segs(loss),
                2.0 * (1.5 / loss).sqrt(),
                1e-12,
            );
        }
        // A sawtooth step by step: from half of 200 to 200 by 5 a round trip, then a loss.
        let (rule, top) = (Aimd { increase_segs: 5.0, decrease: 0.5 }, 200.0);
        let windows: Vec<f64> = (0..20).map(|n| top / 2.0 + 5.0 * (f64::from(n) + 0.5)).collect();
        let sent: f64 = windows.iter().sum();
        near(rule.window_segs(1.0 / sent), sent / 20.0, 1e-12);
    }

    /// Linux 6.1 in virtual time: 100 Mb/s, 100 ms, queue of 0.1 BDP, second half of 120 s. A full link
    /// carries 95.64 Mb/s.
    #[test]
    fn the_sawtooth_agrees_with_the_kernel() {
        near(sawtooth_utilization(Aimd::RENO, 0.1005) * 95.64, 78.38, 0.01);
        near(cubic_utilization(0.1005) * 95.64, 89.21, 0.05);
    }

    #[test]
    fn cubic_recovers_in_the_time_k() {
        near(cubic_recovery_time(17_265.0), 23.48, 0.001); // 10 Gb/s x 20 ms
    }
}
