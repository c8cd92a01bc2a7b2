//! Independent loss: each segment is lost with the same probability, whatever happened before.
//!
//! The number of segments between two losses is geometric, so one logarithm a loss is enough; `libm`
//! makes it the same on every machine.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// Draws which segments are lost.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    probability: f64,
    rng: Pcg64Mcg,
    /// Segments that still pass before the next loss.
    passing: u64,
}

impl Loss {
    /// `None` where nothing is ever lost. `stream` keeps the links of one network apart.
    pub(crate) fn new(probability: f64, seed: u64, stream: u64) -> Option<Self> {
        if probability <= 0.0 {
            return None;
        }
        let state = (u128::from(seed) << 64) | u128::from(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rng = Pcg64Mcg::new(state ^ 0xcafe_f00d_d15e_a5e5_0000_0000_0000_0001);
        // Neighbouring seeds give correlated first numbers in a multiplicative generator.
        for _ in 0..8 {
            rng.next_u64();
        }
        let mut loss = Loss { probability, rng, passing: 0 };
        loss.passing = loss.gap();
        Some(loss)
    }

    /// Takes the next `segments` if none of them is lost; otherwise takes nothing and says false.
    pub(crate) fn all_pass(&mut self, segments: u32) -> bool {
        let pass = self.passing >= u64::from(segments);
        if pass {
            self.passing -= u64::from(segments);
        }
        pass
    }

    /// Takes the next segment; true where it is lost.
    pub(crate) fn next_is_lost(&mut self) -> bool {
        if self.passing == 0 {
            self.passing = self.gap();
            return true;
        }
        self.passing -= 1;
        false
    }

    fn gap(&mut self) -> u64 {
        if self.probability >= 1.0 {
            return 0;
        }
        // Uniform in (0, 1].
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let gap = libm::floor(libm::log(uniform) / libm::log1p(-self.probability));
        // A float-to-integer cast saturates, so a tiny probability gives a very long gap.
        gap as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_lost_is_within_its_confidence_interval() {
        let n = 1_000_000u32;
        for p in [0.5, 0.01, 0.001] {
            let mut loss = Loss::new(p, 7, 3).unwrap();
            let lost = (0..n).filter(|_| loss.next_is_lost()).count() as f64;
            let mean = f64::from(n) * p;
            let deviation = (mean * (1.0 - p)).sqrt();
            assert!((lost - mean).abs() < 2.576 * deviation, "p {p}: {lost} lost, {mean} expected");
        }
    }

    #[test]
    fn certain_loss_and_no_loss() {
        let mut all = Loss::new(1.0, 1, 1).unwrap();
        assert!((0..100).all(|_| all.next_is_lost()));
        assert!(Loss::new(0.0, 1, 1).is_none());
    }

    #[test]
    fn taking_many_at_once_takes_the_same_draws() {
        let (mut one, mut many) = (Loss::new(0.02, 9, 0).unwrap(), Loss::new(0.02, 9, 0).unwrap());
        for _ in 0..10_000 {
            let single: Vec<bool> = (0..5).map(|_| one.next_is_lost()).collect();
            if many.all_pass(5) {
                assert!(!single.contains(&true));
            } else {
                assert_eq!(single, (0..5).map(|_| many.next_is_lost()).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| Loss::new(0.001, seed, stream).unwrap().passing;
        let draws: std::collections::BTreeSet<u64> =
            (0..8).flat_map(|s| (0..8).map(move |t| first(s, t))).collect();
        assert!(draws.len() > 55, "only {} different first gaps of 64", draws.len());
    }
}
