//! Loss-throughput laws: the throughput at a random loss rate.
//!
//! Sources: Mathis, Semke, Mahdavi, Ott, "The Macroscopic Behavior of the TCP Congestion Avoidance
//! Algorithm", CCR 27(3), 1997; Padhye, Firoiu, Towsley, Kurose, "Modeling TCP Reno Performance",
//! IEEE/ACM ToN 8(2), 2000, equation 30; RFC 9438, section 5. Losses are independent per segment.

use units::Time;

use crate::{CUBIC_BETA, CUBIC_C};

/// Reno's mean window in segments at loss rate `loss`: sqrt(3 / (2 b p)), b segments per ACK (1 or 2).
///
/// Linux counts acknowledged segments, so b = 1 there even with delayed ACKs. Infinite at loss 0.
pub fn reno_window_segs(loss: f64, segments_per_ack: f64) -> f64 {
    (1.5 / (segments_per_ack * loss)).sqrt()
}

/// CUBIC's mean window in segments at loss rate `loss` (RFC 9438, section 5.1 and the Reno-friendly region of
/// 4.3).
///
/// (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT / p)^(3/4) with RTT in seconds, at least Reno's.
pub fn cubic_window_segs(loss: f64, rtt: Time) -> f64 {
    cubic_only_window_segs(loss, rtt).max(reno_window_segs(loss, 1.0))
}

/// The same without the Reno-friendly region.
pub(crate) fn cubic_only_window_segs(loss: f64, rtt: Time) -> f64 {
    cubic_factor() * libm::pow(rtt.as_secs_f64() / loss, 0.75)
}

/// (C (3 + beta) / (4 (1 - beta)))^(1/4) = 1.054.
fn cubic_factor() -> f64 {
    libm::pow(CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA)), 0.25)
}

/// The loss rate at which Reno's mean window is `window_segs`: the largest loss rate that keeps such a path
/// full.
pub fn loss_for_reno(window_segs: f64) -> f64 {
    (1.5 / (window_segs * window_segs)).min(1.0)
}

/// The loss rate at which CUBIC's mean window is `window_segs`.
pub fn loss_for_cubic(window_segs: f64, rtt: Time) -> f64 {
    let cubic = rtt.as_secs_f64() * libm::pow(cubic_factor() / window_segs, 4.0 / 3.0);
    cubic.max(loss_for_reno(window_segs)).min(1.0)
}

/// Bits per second of payload for a window in segments of `mss` bytes.
pub fn window_throughput_bps(window_segs: f64, mss: u32, rtt: Time) -> f64 {
    window_segs * f64::from(mss) * 8.0 / rtt.as_secs_f64()
}

/// The Mathis law: MSS / RTT x sqrt(3 / (2 b p)), in bits per second.
pub fn mathis_bps(loss: f64, mss: u32, rtt: Time, segments_per_ack: f64) -> f64 {
    window_throughput_bps(reno_window_segs(loss, segments_per_ack), mss, rtt)
}

/// The full model of Padhye et al. with timeouts, in bits per second of payload sent.
///
/// `max_window_segs` is the receiver's window, `rto` the first timeout, `segments_per_ack` 1 or 2.
/// Returns the window's rate at loss 0, and 0 at loss 1.
pub fn pftk_bps(
    loss: f64,
    mss: u32,
    rtt: Time,
    rto: Time,
    segments_per_ack: f64,
    max_window_segs: f64,
) -> f64 {
    let (p, b) = (loss, segments_per_ack);
    if p <= 0.0 {
        return window_throughput_bps(max_window_segs, mss, rtt);
    }
    if p >= 1.0 {
        return 0.0;
    }
    let (rtt, rto) = (rtt.as_secs_f64(), rto.as_secs_f64());
    let c = (2.0 + b) / (3.0 * b);
    let unlimited = c + (8.0 * (1.0 - p) / (3.0 * b * p) + c * c).sqrt();
    let window = unlimited.min(max_window_segs);
    // Round trips of the period between two losses.
    let rounds = if unlimited < max_window_segs {
        b / 2.0 * window + 1.0
    } else {
        b / 8.0 * window + (1.0 - p) / (p * window) + 2.0
    };
    let timeout_share = timeout_share(p, window);
    let segments = (1.0 - p) / p + window + timeout_share / (1.0 - p);
    let seconds = rtt * rounds + timeout_share * rto * timeout_backoff(p) / (1.0 - p);
    segments / seconds * f64::from(mss) * 8.0
}

/// The sum of timeouts that double up to 64 times the first, in first timeouts (f(p) there).
pub(crate) fn timeout_backoff(p: f64) -> f64 {
    1.0 + p + 2.0 * p.powi(2) + 4.0 * p.powi(3) + 8.0 * p.powi(4) + 16.0 * p.powi(5) + 32.0 * p.powi(6)
}

/// The chance that a loss in a window of `w` segments ends in a timeout (equation 24 there).
pub(crate) fn timeout_share(p: f64, w: f64) -> f64 {
    let q = 1.0 - p;
    let three = 1.0 - q.powi(3);
    let share = three * (1.0 + q.powi(3) * (1.0 - libm::pow(q, w - 3.0))) / (1.0 - libm::pow(q, w));
    share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, tolerance: f64) {
        assert!((a - b).abs() <= tolerance * b.abs(), "{a} is not within {tolerance} of {b}");
    }

    const RTT: Time = Time::from_millis(100);

    /// RFC 9438, table 1 (RTT 0.1 s), to its printed digits; Reno there is sqrt(3 / (2p)).
    #[test]
    fn rfc_9438_table() {
        for (loss, reno, cubic) in [
            (1e-2, 12.0, 12.0),
            (1e-3, 38.0, 38.0),
            (1e-4, 120.0, 187.0),
            (1e-5, 379.0, 1_054.0),
            (1e-6, 1_200.0, 5_926.0),
            (1e-7, 3_795.0, 33_325.0),
            (1e-8, 12_000.0, 187_400.0),
        ] {
            // The RFC rounds sqrt(3/2) = 1.2247 to 1.2.
            near(reno_window_segs(loss, 1.0), reno, 0.025);
            near(cubic_window_segs(loss, RTT), cubic, 0.025);
        }
    }

    #[test]
    fn mathis_constants() {
        near(mathis_bps(1e-4, 1_448, RTT, 1.0), 1_448.0 * 8.0 / 0.1 * 1.5_f64.sqrt() * 100.0, 1e-12);
        near(mathis_bps(1e-4, 1_448, RTT, 2.0) / mathis_bps(1e-4, 1_448, RTT, 1.0), 0.5_f64.sqrt(), 1e-12);
    }

    /// Linux 6.1: 100 Mb/s, 50 ms, loss 1e-4, second half of eight runs: Reno 26.9, CUBIC 33.8 Mb/s in the
    /// mean.
    #[test]
    fn the_laws_agree_with_the_kernel() {
        let rtt = Time::from_millis(50);
        near(mathis_bps(1e-4, 1_448, rtt, 1.0), 26.9e6, 0.10);
        near(window_throughput_bps(cubic_window_segs(1e-4, rtt), 1_448, rtt), 33.8e6, 0.20);
    }

    #[test]
    fn loss_and_window_are_inverse() {
        for window in [10.0, 100.0, 1_000.0, 100_000.0] {
            near(reno_window_segs(loss_for_reno(window), 1.0), window, 1e-9);
            near(cubic_window_segs(loss_for_cubic(window, RTT), RTT), window, 1e-9);
        }
    }

    #[test]
    fn pftk_tends_to_mathis_at_small_loss_and_to_the_window_without_loss() {
        let rto = Time::from_millis(300);
        for loss in [1e-7, 1e-8] {
            near(pftk_bps(loss, 1_448, RTT, rto, 2.0, 1e9), mathis_bps(loss, 1_448, RTT, 2.0), 0.01);
        }
        near(pftk_bps(1e-9, 1_448, RTT, rto, 2.0, 100.0), window_throughput_bps(100.0, 1_448, RTT), 0.001);
        assert_eq!(pftk_bps(0.0, 1_448, RTT, rto, 2.0, 100.0), window_throughput_bps(100.0, 1_448, RTT));
        assert_eq!(pftk_bps(1.0, 1_448, RTT, rto, 2.0, 100.0), 0.0);
    }

    /// The simplified form of the same paper (equation 33, also RFC 5348) within its known error.
    #[test]
    fn pftk_is_near_its_simplified_form() {
        let (rtt, rto, b) = (0.1_f64, 0.4_f64, 1.0_f64);
        for p in [0.001_f64, 0.003, 0.01, 0.03] {
            let timeouts = rto * (3.0 * (3.0 * b * p / 8.0).sqrt()).min(1.0) * p * (1.0 + 32.0 * p * p);
            let simple = 1_448.0 * 8.0 / (rtt * (2.0 * b * p / 3.0).sqrt() + timeouts);
            let full = pftk_bps(p, 1_448, RTT, Time::from_secs_f64(rto), b, 1e9);
            near(full, simple, 0.30);
        }
    }

    #[test]
    fn pftk_decreases_with_loss() {
        let rate = |p| pftk_bps(p, 1_448, RTT, Time::from_millis(300), 1.0, 1e6);
        for p in [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5] {
            assert!(rate(p) > rate(p * 1.5), "{p}");
        }
    }
}
