//! Random numbers: one seeded generator for each purpose, so that a change of one does not affect the others.
//!
//! Logarithms and roots are those of `libm`, so that results are the same on every machine.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::spec::Distribution;

/// The purpose of a generator; its number is part of the seed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Packet loss.
    Loss = 0,
    /// All other impairments of the wire.
    Wire = 1,
    /// Decisions of the queue discipline.
    Queue = 2,
}

/// A random number generator.
#[derive(Debug, Clone)]
pub(crate) struct Draws(Pcg64Mcg);

impl Draws {
    /// `stream` distinguishes the pipes of one network.
    pub(crate) fn new(seed: u64, stream: u64, purpose: Purpose) -> Self {
        let stream = stream ^ ((purpose as u64) << 56);
        let state = (u128::from(seed) << 64) | u128::from(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut rng = Pcg64Mcg::new(state ^ 0xcafe_f00d_d15e_a5e5_0000_0000_0000_0001);
        // The first numbers of a multiplicative generator are correlated for adjacent seeds.
        for _ in 0..8 {
            rng.next_u64();
        }
        Draws(rng)
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in (0, 1].
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability; takes no draw if it is 0 or 1.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        if probability <= 0.0 {
            return false;
        }
        probability >= 1.0 || self.uniform() <= probability
    }

    /// A deviation with mean 0: between -1 and 1 if uniform, otherwise with standard deviation 1.
    pub(crate) fn deviation(&mut self, distribution: Distribution) -> f64 {
        match distribution {
            Distribution::Uniform => 2.0 * self.uniform() - 1.0,
            Distribution::Normal => self.normal(),
            Distribution::Pareto => self.pareto(),
        }
    }

    /// Box and Muller 1958; the second value of each pair is discarded.
    fn normal(&mut self) -> f64 {
        let (radius, angle) = (self.uniform(), self.uniform());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(2.0 * std::f64::consts::PI * angle)
    }

    /// x^-(1/a) of a uniform x is Pareto of shape a = 3: mean a / (a - 1) = 3/2, variance a / ((a-1)^2 (a-2))
    /// = 3/4.
    fn pareto(&mut self) -> f64 {
        (1.0 / libm::cbrt(self.uniform()) - 1.5) / libm::sqrt(0.75)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_and_deviation(distribution: Distribution) -> (f64, f64) {
        let mut draws = Draws::new(5, 0, Purpose::Wire);
        let n = 1_000_000;
        let values: Vec<f64> = (0..n).map(|_| draws.deviation(distribution)).collect();
        let mean = values.iter().sum::<f64>() / f64::from(n);
        let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / f64::from(n);
        (mean, variance.sqrt())
    }

    #[test]
    fn deviations_have_a_mean_of_zero_and_the_expected_width() {
        for (distribution, width, tolerance) in [
            (Distribution::Uniform, (1.0f64 / 3.0).sqrt(), 0.003),
            (Distribution::Normal, 1.0, 0.004),
            // With shape 3 there is no fourth moment, so the sample variance converges slowly.
            (Distribution::Pareto, 1.0, 0.1),
        ] {
            let (mean, deviation) = mean_and_deviation(distribution);
            assert!(mean.abs() < 0.003, "{distribution:?}: mean {mean}");
            assert!((deviation - width).abs() < tolerance, "{distribution:?}: deviation {deviation}");
        }
    }

    #[test]
    fn two_thirds_of_a_normal_distribution_lie_within_its_deviation() {
        let mut draws = Draws::new(6, 0, Purpose::Wire);
        let within = (0..1_000_000).filter(|_| draws.normal().abs() < 1.0).count() as f64 / 1e6;
        assert!((within - 0.682_689).abs() < 0.0013, "{within}");
    }

    #[test]
    fn a_pareto_distribution_has_the_expected_quantiles() {
        let mut draws = Draws::new(7, 0, Purpose::Wire);
        // P(X > 2) = 2^-3 for shape 3.
        let above = (2.0 - 1.5) / 0.75f64.sqrt();
        let share = (0..1_000_000).filter(|_| draws.pareto() > above).count() as f64 / 1e6;
        assert!((share - 0.125).abs() < 0.0009, "{share}");
    }

    #[test]
    fn different_purposes_have_different_random_numbers() {
        assert_ne!(Draws::new(1, 1, Purpose::Wire).bits(), Draws::new(1, 1, Purpose::Queue).bits());
    }
}
