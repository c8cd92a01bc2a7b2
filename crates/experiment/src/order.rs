//! The order in which the runs of a sweep are executed. On a path that drifts, runs in the order of the swept
//! values make the drift appear as an effect of the field.

use std::str::FromStr;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::Job;

/// An order of execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunOrder {
    /// All repeats of the first point, then of the second, and so on.
    #[default]
    ByPoint,
    /// The first repeat of all points, then the second, and so on.
    Interleaved,
    /// Random, from a seed.
    Random(u64),
}

impl FromStr for RunOrder {
    type Err = String;

    /// `by-point`, `interleaved`, `random` or `random:SEED`.
    fn from_str(text: &str) -> Result<Self, String> {
        let seed = |text: &str| text.parse().map_err(|_| format!("\"{text}\" is not a seed"));
        match text {
            "by-point" => Ok(RunOrder::ByPoint),
            "interleaved" => Ok(RunOrder::Interleaved),
            "random" => Ok(RunOrder::Random(1)),
            other => match other.strip_prefix("random:") {
                Some(text) => Ok(RunOrder::Random(seed(text)?)),
                None => Err("the order is by-point, interleaved, random or random:SEED".into()),
            },
        }
    }
}

impl RunOrder {
    /// The indices of the jobs in this order.
    pub(crate) fn indices(self, jobs: &[Job<'_>]) -> Vec<usize> {
        let mut indices: Vec<usize> = (0..jobs.len()).collect();
        match self {
            RunOrder::ByPoint => {}
            RunOrder::Interleaved => indices.sort_by_key(|index| (jobs[*index].repeat, *index)),
            RunOrder::Random(seed) => shuffle(&mut indices, seed),
        }
        indices
    }
}

/// Fisher and Yates's shuffle.
fn shuffle(indices: &mut [usize], seed: u64) {
    let mut draws = Pcg64Mcg::new(u128::from(seed) << 64 | 0x9e37_79b9_7f4a_7c15);
    for last in (1..indices.len()).rev() {
        let chosen = (draws.next_u64() % (last as u64 + 1)) as usize;
        indices.swap(last, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_is_a_permutation_that_its_seed_determines() {
        let of = |seed| {
            let mut all: Vec<usize> = (0..50).collect();
            shuffle(&mut all, seed);
            all
        };
        let mut sorted = of(7);
        assert_eq!(of(7), sorted);
        assert_ne!(of(7), of(8));
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn orders_are_named() {
        assert_eq!("interleaved".parse(), Ok(RunOrder::Interleaved));
        assert_eq!("random:9".parse(), Ok(RunOrder::Random(9)));
        assert!("sorted".parse::<RunOrder>().is_err() && "random:x".parse::<RunOrder>().is_err());
    }
}
