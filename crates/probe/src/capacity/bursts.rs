//! Bursts of equal packets: which of them no cross traffic disturbed, and what these say.

use super::{Capacity, LONG_TRIES, Phase};
use crate::{
    answer::Interval,
    curve::curve,
    statistics::{least, median, mode, quantile},
    train::Seen,
};

/// Bursts of the final length at a time.
pub(super) const BURSTS: usize = 16;
/// Rounds of final bursts at most, and bursts undisturbed by cross traffic that are enough.
const ROUNDS: usize = 6;
const ENOUGH: usize = 6;
/// Undisturbed bursts differ by no more than this share, and what time stamps blur.
const ALIKE: f64 = 0.05;
/// The upper bound is that of the burst that is faster than this share, as far as it is no more than so many times the value: a queue
/// behind the narrow link makes single bursts faster.
const FASTEST: f64 = 0.98;
const MOST_ABOVE: f64 = 1.1;
/// Gaps between two packets count where they are so many times the resolution.
const WINDOW: f64 = 15.0;

/// Packets come evenly whose gaps differ by no more than this factor.
const EVEN: f64 = 1.1;
/// A link that has two rates has one that is slower than so much of the other, in so many bursts, and in one of so many.
const SLOWER: f64 = 0.8;
const SLOW_BURSTS: (usize, usize) = (3, 12);

/// What a burst showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    pub(super) rate_bps: f64,
    pub(super) first_delay: f64,
    pub(super) last_delay: f64,
    pub(super) lost: usize,
    pub(super) sent_bps: Option<f64>,
    /// Share of its packets before a bend.
    pub(super) bend: f64,
    /// Its packets came evenly, as one link sends them: other traffic between them would have made gaps of many sizes.
    pub(super) is_even: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Undisturbed {
    Unknown,
    Enough,
    TooFew,
}

impl Capacity {
    pub(super) fn burst(&self, seen: &Seen) -> Option<Burst> {
        let curve = curve(seen, self.limits.resolution_ns)?;
        let (first, last) = (seen.received().next()?, seen.received().next_back()?);
        Some(Burst {
            rate_bps: curve.rate_bps,
            first_delay: first.delay_ns(),
            last_delay: last.delay_ns(),
            lost: seen.lost(),
            sent_bps: seen.sent_bps(),
            bend: curve.bend_bytes / (seen.sent() as f64 * f64::from(seen.bytes)),
            is_even: self.is_even(seen),
        })
    }

    fn is_even(&self, seen: &Seen) -> bool {
        let arrived: Vec<i64> = seen.received().map(|packet| packet.arrived_ns).collect();
        let gaps: Vec<f64> = arrived.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let (Some(low), Some(high)) = (quantile(&gaps, 0.1), quantile(&gaps, 0.9)) else { return false };
        seen.lost() == 0 && low > WINDOW * self.limits.resolution_ns && high <= EVEN * low
    }

    /// A slower rate at which bursts came as evenly as at the one that was found: the link has now one, now the other.
    pub(super) fn slower_rate(&self, found_bps: f64) -> Option<f64> {
        let slow = self.bursts.iter().filter(|burst| burst.is_even && burst.rate_bps < SLOWER * found_bps);
        let rates: Vec<f64> = slow.map(|burst| burst.rate_bps).collect();
        let often = rates.len() >= SLOW_BURSTS.0 && rates.len() >= self.bursts.len() / SLOW_BURSTS.1;
        mode(&rates).filter(|_| often)
    }

    pub(super) fn measure(&mut self, packets: usize, seen: &[Seen]) {
        let new: Vec<Burst> = seen.iter().filter_map(|seen| self.burst(seen)).collect();
        self.bursts.extend(new);
        for seen in seen {
            self.look_through_windows(seen);
        }
        self.rounds += 1;
        if self.bursts.is_empty() {
            self.phase = Phase::Done;
            return;
        }
        // Where losses are rare, bursts without any; their slopes are not bent by what is missing.
        let whole: Vec<Burst> = self.bursts.iter().filter(|b| b.lost == 0).copied().collect();
        let bursts = if whole.len() * 4 >= self.bursts.len() { whole } else { self.bursts.clone() };
        let rates: Vec<f64> = bursts.iter().map(|b| b.rate_bps).collect();
        let Some(typical) = median(&rates) else { return self.phase = Phase::Done };
        let dispersion = f64::from(self.bytes) * 8e9 * packets as f64 / typical;
        let tolerance = 2.0 * self.limits.resolution_ns + 0.02 * dispersion;
        let (first, last) =
            (least(bursts.iter().map(|b| b.first_delay)), least(bursts.iter().map(|b| b.last_delay)));
        let (Some(first), Some(last)) = (first, last) else { return self.phase = Phase::Done };
        let clean: Vec<f64> = bursts
            .iter()
            .filter(|b| b.first_delay <= first + tolerance && b.last_delay <= last + tolerance)
            .map(|b| b.rate_bps)
            .collect();
        let blur = 2.0 * self.limits.resolution_ns / dispersion;
        let agree = agree(&clean, blur);
        if (clean.len() < ENOUGH || !agree) && self.rounds < ROUNDS {
            return;
        }
        let (value, sample) = if agree && clean.len() >= ENOUGH.min(self.bursts.len() / 2) {
            self.undisturbed = Undisturbed::Enough;
            (median(&clean).unwrap_or(typical), clean)
        } else if let Some(value) = self.most_frequent_window() {
            self.undisturbed = Undisturbed::Enough;
            (value, vec![value])
        } else {
            self.undisturbed = Undisturbed::TooFew;
            (mode(&rates).unwrap_or(typical), rates.clone())
        };
        // Beside other traffic the fastest bursts are those with the least of it between their packets.
        let fastest = quantile(&rates, FASTEST).unwrap_or(value).clamp(value, value * MOST_ABOVE);
        let (low, high) = (quantile(&sample, 0.1).unwrap_or(value), quantile(&sample, 0.9).unwrap_or(value));
        self.found = Some(Interval {
            low: low.min(value) * (1.0 - blur),
            value,
            high: high.max(fastest) * (1.0 + blur),
        });
        self.phase = Phase::Long { rate_bps: 2.0 * value, left: LONG_TRIES };
    }

    /// Rates between packets that are so few apart that cross traffic often misses them, where time stamps can tell.
    fn look_through_windows(&mut self, seen: &Seen) {
        let all: Vec<_> = seen.received().collect();
        // The later half, as all slopes: what comes before may have come out of a bucket.
        for pair in all[all.len() / 2..].windows(2) {
            let gap = (pair[1].arrived_ns - pair[0].arrived_ns) as f64;
            if pair[1].number == pair[0].number + 1 {
                self.windows.push(f64::from(self.bytes) * 8e9 / gap.max(1.0));
            }
        }
    }

    /// The mode of the windows, where a fifth of them is within two per cent of it and hardly any is faster: beside packets that are
    /// smaller than the probes most windows may hold one or two of them.
    fn most_frequent_window(&self) -> Option<f64> {
        let mode = mode(&self.windows)?;
        if f64::from(self.bytes) * 8e9 / mode < WINDOW * self.limits.resolution_ns {
            return None;
        }
        let near = self.windows.iter().filter(|rate| (*rate / mode - 1.0).abs() < 0.02).count();
        let faster = self.windows.iter().filter(|rate| **rate > mode * 1.02).count();
        (near >= 50 && near * 5 >= self.windows.len() && faster * 20 <= self.windows.len()).then_some(mode)
    }
}

/// Whether bursts are undisturbed, and not merely the least disturbed ones that there were: then they are alike.
fn agree(rates: &[f64], blur: f64) -> bool {
    let range = quantile(rates, 0.9).zip(quantile(rates, 0.1));
    range.is_some_and(|(high, low)| high <= low * (1.0 + ALIKE + 2.0 * blur))
}
