//! How evenly flows share, and which increase would make them share evenly.

use units::Time;

/// Jain's fairness index: 1 where all are equal, 1/n where one has everything; `None` where all are zero.
///
/// Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984: (sum x)^2 / (n sum x^2).
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The additive increase (segments per round trip) with which a flow of `rtt` and `mss` shares evenly
/// with a flow of increase 1 at `reference_rtt` and `reference_mss`, where both lose at the same instants.
///
/// An AIMD flow gains A MSS / RTT^2 in a second, so even gains need A proportional to RTT^2 / MSS.
pub fn fair_increase(rtt: Time, mss: u32, reference_rtt: Time, reference_mss: u32) -> f64 {
    let rtts = rtt.as_secs_f64() / reference_rtt.as_secs_f64();
    rtts * rtts * f64::from(reference_mss) / f64::from(mss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[7.0, 0.0]), Some(0.5));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
        assert_eq!(jain_index(&[]), None);
        assert!((jain_index(&[202e6, 514e6]).unwrap() - 0.8404).abs() < 1e-4); // G-rttfair
    }
}
