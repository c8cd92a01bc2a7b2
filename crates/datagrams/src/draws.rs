//! Random numbers from the scenario's seed (SplitMix64; Steele, Lea and Flood 2014), the same on every
//! machine.

use units::Time;

/// The golden ratio as a fraction of 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A random number generator.
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// One random number for each `stream`. Use [`Draws::new`] for more: the second number of a stream would
    /// be the first of the next stream.
    #[inline]
    pub fn draw_once(seed: u64, stream: u32) -> u64 {
        Draws(seed.wrapping_add(u64::from(stream).wrapping_mul(STEP))).bits()
    }

    /// A generator for any number of draws.
    #[inline]
    pub fn new(seed: u64, stream: u32) -> Self {
        Draws(Self::draw_once(seed, stream))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 to `bound - 1` (Lemire 2019, without the rejection step: for bounds as large as times
    /// are, the bias is below 2^-32).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// An exponentially distributed time.
    #[inline]
    pub fn exponential(&mut self, mean: Time) -> Time {
        // Uniform in (0, 1].
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Time::from_nanos((-libm::log(uniform) * mean.as_nanos_f64()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_the_given_mean() {
        let mut draws = Draws::new(1, 7);
        let mean = Time::from_millis(1);
        let times: Vec<f64> = (0..100_000).map(|_| draws.exponential(mean).as_nanos_f64()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let longer = times.iter().filter(|time| **time > 2e6).count() as f64 / times.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        // e^-2.
        assert!((longer / 0.1353 - 1.0).abs() < 0.02, "{longer}");
    }
}
