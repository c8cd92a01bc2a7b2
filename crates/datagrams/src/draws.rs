//! Random numbers from the scenario's seed (SplitMix64, Steele, Lea and Flood 2014), the same on every machine.

use units::Time;

/// The golden ratio as a fraction of 2^64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator.
#[derive(Debug, Clone)]
pub struct Draws(u64);

impl Draws {
    /// For one number of each `stream`: further ones would be those of the next streams.
    #[inline]
    pub fn one(seed: u64, stream: u32) -> u64 {
        Draws(seed.wrapping_add(u64::from(stream).wrapping_mul(STEP))).bits()
    }

    /// For as many as are wanted.
    #[inline]
    pub fn new(seed: u64, stream: u32) -> Self {
        Draws(Self::one(seed, stream))
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

    /// One of 0 to `bound - 1` (Lemire 2019, without its correction: the bias is below 2^-32 for such bounds as times are).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// An exponentially distributed time.
    #[inline]
    pub fn exponential(&mut self, mean: Time) -> Time {
        // Uniform in (0, 1].
        let uniform = ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Time((-libm::log(uniform) * mean.0 as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean() {
        let mut draws = Draws::new(1, 7);
        let times: Vec<f64> = (0..100_000).map(|_| draws.exponential(Time(1_000_000)).0 as f64).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let longer = times.iter().filter(|time| **time > 2e6).count() as f64 / times.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
        // e^-2.
        assert!((longer / 0.1353 - 1.0).abs() < 0.02, "{longer}");
    }
}
