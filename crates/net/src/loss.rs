//! The loss of segments on the wire: the models of [`LossModel`].
//!
//! With independent losses the number of segments between two losses has a geometric distribution, so one
//! logarithm per loss is enough. The Gilbert-Elliott model (Gilbert 1960, Elliott 1963; as in netem's
//! `gemodel`) starts in the good state; each segment is lost with the probability of the current state, then
//! the state may change.

use std::sync::Arc;

use units::Instant;

use crate::{
    draws::{Draws, Purpose},
    spec::{GilbertElliott, LossModel},
};

/// Decides which segments are lost, in the order in which they reach the wire.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    state: ModelState,
    draws: Draws,
}

#[derive(Debug, Clone)]
enum ModelState {
    /// `passing` segments pass before the next loss.
    Independent {
        probability: f64,
        passing: u64,
    },
    GilbertElliott {
        chain: GilbertElliott,
        bad: bool,
    },
    Every {
        n: u64,
        sent: u64,
    },
    /// `next` is the index in `numbers` of the next loss.
    Packets {
        numbers: Arc<[u64]>,
        next: usize,
        sent: u64,
    },
    /// `next` is the index in `at` of the next instant; `pending` losses remain of the instants before.
    Times {
        at: Arc<[Instant]>,
        count: u32,
        next: usize,
        pending: u64,
    },
}

impl Loss {
    /// `None` if no packet is ever lost. `stream` distinguishes the pipes of one network.
    pub(crate) fn new(model: &LossModel, seed: u64, stream: u64) -> Option<Self> {
        Loss::with_draws(model, Draws::new(seed, stream, Purpose::Loss))
    }

    /// As [`Loss::new`], with an existing generator.
    pub(crate) fn with_draws(model: &LossModel, mut draws: Draws) -> Option<Self> {
        let state = match model {
            LossModel::None => return None,
            LossModel::Independent(p) if *p <= 0.0 => return None,
            LossModel::Independent(p) => {
                ModelState::Independent { probability: *p, passing: draw_gap(*p, &mut draws) }
            }
            LossModel::GilbertElliott(chain) => ModelState::GilbertElliott { chain: *chain, bad: false },
            LossModel::Every(n) => ModelState::Every { n: (*n).max(1), sent: 0 },
            LossModel::Packets(numbers) => {
                ModelState::Packets { numbers: numbers.as_slice().into(), next: 0, sent: 0 }
            }
            LossModel::Times { at, count } => {
                ModelState::Times { at: at.as_slice().into(), count: *count, next: 0, pending: 0 }
            }
        };
        Some(Loss { state, draws })
    }

    /// The generator in its current state.
    pub(crate) fn draws(&self) -> &Draws {
        &self.draws
    }

    /// Passes the next `segments` if it is certain that none of them is lost. Otherwise returns false and
    /// changes nothing.
    pub(crate) fn all_pass(&mut self, segments: u32) -> bool {
        let segments = u64::from(segments);
        match &mut self.state {
            ModelState::Independent { passing, .. } => take(passing, segments),
            ModelState::Every { n, sent } => {
                let pass = *sent + segments < *n;
                *sent += if pass { segments } else { 0 };
                pass
            }
            ModelState::Packets { numbers, next, sent } => {
                let pass = numbers.get(*next).is_none_or(|number| *sent + segments < *number);
                *sent += if pass { segments } else { 0 };
                pass
            }
            ModelState::Times { at, next, pending, .. } => *pending == 0 && *next == at.len(),
            ModelState::GilbertElliott { .. } => false,
        }
    }

    /// Decides on the next segment, which reaches the wire at `at`: true if it is lost.
    pub(crate) fn next_is_lost(&mut self, at: Instant) -> bool {
        match &mut self.state {
            ModelState::Independent { probability, passing } => {
                let lost = !take(passing, 1);
                if lost {
                    *passing = draw_gap(*probability, &mut self.draws);
                }
                lost
            }
            ModelState::GilbertElliott { chain, bad } => {
                let (lost, change) =
                    if *bad { (chain.loss_bad, chain.to_good) } else { (chain.loss_good, chain.to_bad) };
                let lost = self.draws.happens(lost);
                *bad ^= self.draws.happens(change);
                lost
            }
            ModelState::Every { n, sent } => {
                *sent = (*sent + 1) % *n;
                *sent == 0
            }
            ModelState::Packets { numbers, next, sent } => {
                *sent += 1;
                // Skips numbers that are duplicates or out of order, which can no longer match.
                while numbers.get(*next).is_some_and(|number| *number < *sent) {
                    *next += 1;
                }
                numbers.get(*next) == Some(sent)
            }
            ModelState::Times { at: instants, count, next, pending } => {
                while instants.get(*next).is_some_and(|instant| *instant <= at) {
                    *next += 1;
                    *pending += u64::from((*count).max(1));
                }
                take(pending, 1)
            }
        }
    }
}

/// Subtracts `n` from `remaining` if that is possible.
fn take(remaining: &mut u64, n: u64) -> bool {
    let is_enough = *remaining >= n;
    if is_enough {
        *remaining -= n;
    }
    is_enough
}

/// Draws the number of segments between two independent losses.
fn draw_gap(probability: f64, draws: &mut Draws) -> u64 {
    if probability >= 1.0 {
        return 0;
    }
    let gap = libm::floor(libm::log(draws.uniform()) / libm::log1p(-probability));
    // The cast from float to integer saturates, so a tiny probability gives a very long gap.
    gap as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half the width of a 99 % confidence interval of a normal distribution, in standard deviations.
    const SIGMAS: f64 = 2.576;

    fn independent(p: f64, seed: u64, stream: u64) -> Loss {
        Loss::new(&LossModel::Independent(p), seed, stream).unwrap()
    }

    fn pattern(model: LossModel, n: usize) -> Vec<bool> {
        let mut loss = Loss::new(&model, 11, 3).unwrap();
        (0..n).map(|i| loss.next_is_lost(Instant::from_nanos(i as u64))).collect()
    }

    #[test]
    fn the_loss_rate_is_within_its_confidence_interval() {
        let n = 1_000_000u32;
        for p in [0.5, 0.01, 0.001] {
            let mut loss = independent(p, 7, 3);
            let lost = (0..n).filter(|_| loss.next_is_lost(Instant::ZERO)).count() as f64;
            let mean = f64::from(n) * p;
            let deviation = (mean * (1.0 - p)).sqrt();
            assert!((lost - mean).abs() < SIGMAS * deviation, "p {p}: {lost} lost, {mean} expected");
        }
    }

    #[test]
    fn probability_one_loses_all_packets_and_probability_zero_none() {
        let mut all = independent(1.0, 1, 1);
        assert!((0..100).all(|_| all.next_is_lost(Instant::ZERO)));
        assert!(Loss::new(&LossModel::Independent(0.0), 1, 1).is_none());
        assert!(Loss::new(&LossModel::None, 1, 1).is_none());
    }

    /// Gilbert's closed forms with loss in the bad state only: loss rate p / (p + r), mean burst length 1 /
    /// r. Successive draws have a correlation of 1 - p - r, which widens the confidence interval of the loss
    /// rate.
    #[test]
    fn gilbert_elliott_has_the_expected_loss_rate_and_burst_length() {
        let (p, r) = (0.01, 0.25);
        let chain = GilbertElliott { to_bad: p, to_good: r, loss_bad: 1.0, loss_good: 0.0 };
        let n = 2_000_000;
        let lost = pattern(LossModel::GilbertElliott(chain), n);
        let share = lost.iter().filter(|l| **l).count() as f64 / n as f64;
        let expected = p / (p + r);
        let correlation = 1.0 - p - r;
        let deviation =
            (expected * (1.0 - expected) / n as f64 * (1.0 + correlation) / (1.0 - correlation)).sqrt();
        assert!((share - expected).abs() < SIGMAS * deviation, "{share}, {expected} expected");
        let bursts: Vec<usize> =
            lost.chunk_by(|a, b| a == b).filter(|run| run[0]).map(<[bool]>::len).collect();
        let mean = bursts.iter().sum::<usize>() as f64 / bursts.len() as f64;
        let deviation = ((1.0 - r) / (r * r) / bursts.len() as f64).sqrt();
        assert!((mean - 1.0 / r).abs() < SIGMAS * deviation, "bursts of {mean}, {} expected", 1.0 / r);
    }

    /// With losses in both states the loss rate is the weighted mean.
    #[test]
    fn gilbert_elliott_has_losses_in_both_states() {
        let chain = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_bad: 0.6, loss_good: 0.02 };
        let model = LossModel::GilbertElliott(chain);
        let n = 1_000_000;
        let share = pattern(model.clone(), n).iter().filter(|l| **l).count() as f64 / n as f64;
        // The correlation of the chain increases the variance; three times the independent variance is a safe
        // bound.
        let deviation = (0.165 * 0.835 / n as f64 * 3.0).sqrt();
        assert!((model.mean() - 0.165).abs() < 1e-12);
        assert!((share - 0.165).abs() < SIGMAS * deviation, "{share}");
    }

    #[test]
    fn every_nth_is_lost() {
        let lost = pattern(LossModel::Every(3), 9);
        assert_eq!(lost, [false, false, true, false, false, true, false, false, true]);
        assert!(pattern(LossModel::Every(1), 5).iter().all(|l| *l));
    }

    #[test]
    fn numbered_packets_are_lost() {
        let lost = pattern(LossModel::Packets(vec![1, 4, 5]), 7);
        assert_eq!(lost, [true, false, false, true, true, false, false]);
    }

    #[test]
    fn at_each_instant_the_next_count_packets_are_lost() {
        let times = LossModel::Times { at: vec![Instant::from_nanos(10), Instant::from_nanos(20)], count: 2 };
        let mut loss = Loss::new(&times, 1, 1).unwrap();
        let lost: Vec<bool> = [5, 10, 11, 12, 25, 25, 25]
            .iter()
            .map(|at| loss.next_is_lost(Instant::from_nanos(*at)))
            .collect();
        assert_eq!(lost, [false, true, true, false, true, true, false]);
    }

    #[test]
    fn deciding_on_many_segments_at_once_gives_the_same_losses() {
        let models = [
            LossModel::Independent(0.02),
            LossModel::Every(17),
            LossModel::Packets((1..500).map(|i| i * i).collect()),
            LossModel::Times { at: vec![Instant::ZERO], count: 3 },
        ];
        for model in models {
            let (mut one, mut many) = (Loss::new(&model, 9, 0).unwrap(), Loss::new(&model, 9, 0).unwrap());
            for _ in 0..10_000 {
                let single: Vec<bool> = (0..5).map(|_| one.next_is_lost(Instant::ZERO)).collect();
                if many.all_pass(5) {
                    assert!(!single.contains(&true), "{model:?}");
                } else {
                    assert_eq!(single, (0..5).map(|_| many.next_is_lost(Instant::ZERO)).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn different_seeds_and_streams_lose_different_packets() {
        let first = |seed, stream| {
            let mut loss = independent(0.001, seed, stream);
            (0..).take_while(|_| !loss.next_is_lost(Instant::ZERO)).count()
        };
        let draws: std::collections::BTreeSet<usize> =
            (0..8).flat_map(|s| (0..8).map(move |t| first(s, t))).collect();
        assert!(draws.len() > 55, "only {} different first gaps of 64", draws.len());
    }
}
