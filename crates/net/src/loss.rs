//! Which segments are lost on the wire: the models of [`LossModel`].
//!
//! With independent loss the number of segments between two losses is geometric, so one logarithm a loss is
//! enough. The Gilbert-Elliott model (Gilbert 1960, Elliott 1963; as in netem's `gemodel`) starts in the good
//! state; each segment is lost by the present state's probability, then the state may change.

use std::sync::Arc;

use units::Time;

use crate::{
    draws::{Draws, Purpose},
    spec::{GilbertElliott, LossModel},
};

/// Decides which segments are lost, in the order in which they reach the wire.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    model: Model,
    draws: Draws,
}

#[derive(Debug, Clone)]
enum Model {
    /// `passing`: segments that still pass before the next loss.
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
        seen: u64,
    },
    /// `next` is the place in `numbers` of the next to be lost.
    Packets {
        numbers: Arc<[u64]>,
        next: usize,
        seen: u64,
    },
    /// `next` is the place in `at` of the next instant; `left` segments are still to be lost for those before.
    Times {
        at: Arc<[Time]>,
        count: u32,
        next: usize,
        left: u64,
    },
}

impl Loss {
    /// `None` where nothing is ever lost. `stream` keeps the links of one network apart.
    pub(crate) fn new(model: &LossModel, seed: u64, stream: u64) -> Option<Self> {
        Loss::with_draws(model, Draws::new(seed, stream, Purpose::Loss))
    }

    /// The same with a generator that has been used before.
    pub(crate) fn with_draws(model: &LossModel, mut draws: Draws) -> Option<Self> {
        let model = match model {
            LossModel::None => return None,
            LossModel::Independent(p) if *p <= 0.0 => return None,
            LossModel::Independent(p) => Model::Independent { probability: *p, passing: gap(*p, &mut draws) },
            LossModel::GilbertElliott(chain) => Model::GilbertElliott { chain: *chain, bad: false },
            LossModel::Every(n) => Model::Every { n: (*n).max(1), seen: 0 },
            LossModel::Packets(numbers) => {
                Model::Packets { numbers: numbers.as_slice().into(), next: 0, seen: 0 }
            }
            LossModel::Times { at, count } => {
                Model::Times { at: at.as_slice().into(), count: *count, next: 0, left: 0 }
            }
        };
        Some(Loss { model, draws })
    }

    /// Its generator as it stands.
    pub(crate) fn draws(&self) -> &Draws {
        &self.draws
    }

    /// Takes the next `segments` if it is known that none of them is lost; otherwise takes nothing and says false.
    pub(crate) fn all_pass(&mut self, segments: u32) -> bool {
        let segments = u64::from(segments);
        match &mut self.model {
            Model::Independent { passing, .. } => take(passing, segments),
            Model::Every { n, seen } => {
                let pass = *seen + segments < *n;
                *seen += if pass { segments } else { 0 };
                pass
            }
            Model::Packets { numbers, next, seen } => {
                let pass = numbers.get(*next).is_none_or(|number| *seen + segments < *number);
                *seen += if pass { segments } else { 0 };
                pass
            }
            Model::Times { at, next, left, .. } => *left == 0 && *next == at.len(),
            Model::GilbertElliott { .. } => false,
        }
    }

    /// Takes the next segment, which reaches the wire at `at`; true where it is lost.
    pub(crate) fn next_is_lost(&mut self, at: Time) -> bool {
        match &mut self.model {
            Model::Independent { probability, passing } => {
                let lost = !take(passing, 1);
                if lost {
                    *passing = gap(*probability, &mut self.draws);
                }
                lost
            }
            Model::GilbertElliott { chain, bad } => {
                let (lost, change) =
                    if *bad { (chain.loss_bad, chain.to_good) } else { (chain.loss_good, chain.to_bad) };
                let lost = self.draws.happens(lost);
                *bad ^= self.draws.happens(change);
                lost
            }
            Model::Every { n, seen } => {
                *seen = (*seen + 1) % *n;
                *seen == 0
            }
            Model::Packets { numbers, next, seen } => {
                *seen += 1;
                // What lies behind was doubled or out of order: it is never reached.
                while numbers.get(*next).is_some_and(|number| *number < *seen) {
                    *next += 1;
                }
                numbers.get(*next) == Some(seen)
            }
            Model::Times { at: instants, count, next, left } => {
                while instants.get(*next).is_some_and(|instant| *instant <= at) {
                    *next += 1;
                    *left += u64::from((*count).max(1));
                }
                take(left, 1)
            }
        }
    }
}

/// Takes `n` from what is left, if there is enough.
fn take(left: &mut u64, n: u64) -> bool {
    let enough = *left >= n;
    if enough {
        *left -= n;
    }
    enough
}

/// Segments between two independent losses.
fn gap(probability: f64, draws: &mut Draws) -> u64 {
    if probability >= 1.0 {
        return 0;
    }
    let gap = libm::floor(libm::log(draws.uniform()) / libm::log1p(-probability));
    // A float-to-integer cast saturates, so a tiny probability gives a very long gap.
    gap as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For a two-sided 99 % confidence interval of a normal distribution.
    const SIGMAS: f64 = 2.576;

    fn independent(p: f64, seed: u64, stream: u64) -> Loss {
        Loss::new(&LossModel::Independent(p), seed, stream).unwrap()
    }

    fn pattern(model: LossModel, n: usize) -> Vec<bool> {
        let mut loss = Loss::new(&model, 11, 3).unwrap();
        (0..n).map(|i| loss.next_is_lost(Time(i as u64))).collect()
    }

    #[test]
    fn the_share_lost_is_within_its_confidence_interval() {
        let n = 1_000_000u32;
        for p in [0.5, 0.01, 0.001] {
            let mut loss = independent(p, 7, 3);
            let lost = (0..n).filter(|_| loss.next_is_lost(Time(0))).count() as f64;
            let mean = f64::from(n) * p;
            let deviation = (mean * (1.0 - p)).sqrt();
            assert!((lost - mean).abs() < SIGMAS * deviation, "p {p}: {lost} lost, {mean} expected");
        }
    }

    #[test]
    fn certain_loss_and_no_loss() {
        let mut all = independent(1.0, 1, 1);
        assert!((0..100).all(|_| all.next_is_lost(Time(0))));
        assert!(Loss::new(&LossModel::Independent(0.0), 1, 1).is_none());
        assert!(Loss::new(&LossModel::None, 1, 1).is_none());
    }

    /// Gilbert's closed forms with loss in the bad state only: share p / (p + r), bursts of mean length 1 / r.
    /// Successive draws are correlated by 1 - p - r, which widens the share's interval.
    #[test]
    fn gilbert_elliott_has_its_share_and_its_bursts() {
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

    /// With losses in both states the share is the mixture.
    #[test]
    fn gilbert_elliott_loses_in_both_states() {
        let chain = GilbertElliott { to_bad: 0.1, to_good: 0.3, loss_bad: 0.6, loss_good: 0.02 };
        let model = LossModel::GilbertElliott(chain);
        let n = 1_000_000;
        let share = pattern(model.clone(), n).iter().filter(|l| **l).count() as f64 / n as f64;
        // The mixture's variance per draw is at most that of the correlated chain; three times is ample.
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
    fn at_each_instant_so_many_are_lost() {
        let times = LossModel::Times { at: vec![Time(10), Time(20)], count: 2 };
        let mut loss = Loss::new(&times, 1, 1).unwrap();
        let lost: Vec<bool> =
            [5, 10, 11, 12, 25, 25, 25].iter().map(|at| loss.next_is_lost(Time(*at))).collect();
        assert_eq!(lost, [false, true, true, false, true, true, false]);
    }

    #[test]
    fn taking_many_at_once_takes_the_same_draws() {
        let models = [
            LossModel::Independent(0.02),
            LossModel::Every(17),
            LossModel::Packets((1..500).map(|i| i * i).collect()),
            LossModel::Times { at: vec![Time(0)], count: 3 },
        ];
        for model in models {
            let (mut one, mut many) = (Loss::new(&model, 9, 0).unwrap(), Loss::new(&model, 9, 0).unwrap());
            for _ in 0..10_000 {
                let single: Vec<bool> = (0..5).map(|_| one.next_is_lost(Time(0))).collect();
                if many.all_pass(5) {
                    assert!(!single.contains(&true), "{model:?}");
                } else {
                    assert_eq!(single, (0..5).map(|_| many.next_is_lost(Time(0))).collect::<Vec<_>>());
                }
            }
        }
    }

    #[test]
    fn seeds_and_streams_differ() {
        let first = |seed, stream| {
            let mut loss = independent(0.001, seed, stream);
            (0..).take_while(|_| !loss.next_is_lost(Time(0))).count()
        };
        let draws: std::collections::BTreeSet<usize> =
            (0..8).flat_map(|s| (0..8).map(move |t| first(s, t))).collect();
        assert!(draws.len() > 55, "only {} different first gaps of 64", draws.len());
    }
}
