//! Predicts the gain of removing each limit by simulating the measured path without it, and orders the limits
//! by gain.

use units::{BitRate, Time, three_digits};

use crate::{
    change::Variation,
    limit::{Doubt, JointRemoval, Kind, Limit, Ranking},
    observed::Observed,
    simulated_path::SimulatedPath,
};

/// Minimum ratio of goodput without a limit to goodput with it that counts as a gain.
const MIN_RATIO: f64 = 1.03;
/// Minimum gain that is worth a change, as a share of the test's goodput.
const MIN_WORTHWHILE: f64 = 0.15;
/// Pairs of limits are simulated for at most this number of limits.
const MAX_PAIRED: usize = 4;
/// Minimum gain of the second limit, as a share of the first one's, that makes the first one uncertain.
const MIN_NEAR_GAIN: f64 = 0.6;

/// Simulates the path without each limit and sorts the limits by their gain, if the path is known well
/// enough.
pub(crate) fn predict(seen: &Observed, time: Time, ranking: &mut Ranking) {
    let test_bps = seen.test_goodput_bps();
    let path = if ranking.healthy { None } else { SimulatedPath::of(seen, time, &ranking.limits) };
    let Some((path, simulated_bps)) = path.and_then(|path| path.fitted(test_bps, seen.marked_segs)) else {
        return;
    };
    ranking.scenario = Some(path.scenario());
    if !SimulatedPath::matches(simulated_bps, test_bps) {
        doubt(ranking, simulated_bps, test_bps, seen.variation);
        return;
    }
    let gains: Vec<Option<f64>> = ranking
        .limits
        .iter()
        .map(|limit| {
            let without_bps = path.without(limit.kind)?.mean_goodput()?;
            // Smaller differences are noise: repeated runs of one path differ by as much.
            Some(if without_bps < MIN_RATIO * simulated_bps {
                0.0
            } else {
                (without_bps - test_bps).max(0.0)
            })
        })
        .collect();
    for (limit, gain) in ranking.limits.iter_mut().zip(gains) {
        if gain.is_some() {
            limit.gain_bps = gain;
            limit.gain_is_upper_bound = path.hides_other_limits(limit.kind);
        }
    }
    sort(ranking, test_bps);
    doubt_variation(ranking, seen);
    ranking.together = joint_removal(&path, ranking, test_bps);
}

/// The pair of limits whose removal gains most, if removing a single one gains little.
fn joint_removal(path: &SimulatedPath, ranking: &Ranking, test_bps: f64) -> Option<JointRemoval> {
    let alone = ranking.limits.iter().filter_map(|limit| limit.gain_bps).fold(0.0, f64::max);
    if alone >= MIN_WORTHWHILE * test_bps {
        return None;
    }
    let kinds: Vec<Kind> = ranking.limits.iter().map(|limit| limit.kind).take(MAX_PAIRED).collect();
    let pairs = kinds
        .iter()
        .enumerate()
        .flat_map(|(index, one)| kinds[..index].iter().map(move |other| [*other, *one]));
    let gains = pairs.filter_map(|[one, other]| {
        let without_bps = path.without(one)?.without(other)?.mean_goodput()?;
        Some(JointRemoval { kinds: [one, other], gain_bps: without_bps - test_bps })
    });
    gains
        .filter(|both| both.gain_bps >= MIN_WORTHWHILE * test_bps)
        .max_by(|a, b| a.gain_bps.total_cmp(&b.gain_bps))
}

/// Sorts limits by gain, and marks the first as uncertain if the second gains nearly as much.
fn sort(ranking: &mut Ranking, test_bps: f64) {
    let gain =
        |limit: &Limit| limit.gain_bps.filter(|gain| *gain >= (MIN_RATIO - 1.0) * test_bps).unwrap_or(0.0);
    // Stable sort: limits without gain keep their order.
    ranking.limits.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let measured = ranking.limits.iter().find(|limit| limit.measured).map(|limit| limit.kind);
    let [first, second, ..] = ranking.limits.as_mut_slice() else { return };
    let (largest, next) = (gain(first), gain(second));
    if first.doubt.is_none() && !first.measured && measured.is_some() {
        first.doubt = Some(Doubt {
            instead: measured,
            why: "its removal gains most in the simulation, but it did not limit the test".into(),
            decide: "remove one of them and test again".into(),
        });
    }
    if first.doubt.is_none() && next > 0.0 && next >= MIN_NEAR_GAIN * largest {
        first.doubt = Some(Doubt {
            instead: Some(second.kind),
            why: "removing that one gains nearly as much, or removing both gains more than either".into(),
            decide: "remove one of them and test again".into(),
        });
    }
}

/// Reports that the limits found do not explain the test, and removes their gains.
fn doubt(ranking: &mut Ranking, simulated: f64, test_bps: f64, variation: Option<Variation>) {
    let rate = |bps: f64| BitRate(three_digits(bps));
    for limit in &mut ranking.limits {
        limit.gain_bps = None;
    }
    let second = ranking.limits.get(1).map(|limit| limit.kind);
    let Some(first) = ranking.limits.first_mut().filter(|first| first.doubt.is_none()) else { return };
    let unexplained = format!(
        "a simulation of the path with these limits reaches {}, but the test reached {}",
        rate(simulated),
        rate(test_bps)
    );
    first.doubt = Some(match variation {
        Some(variation) => varied(variation, &unexplained),
        None => Doubt {
            instead: second.filter(|kind| *kind != Kind::PathRate),
            why: unexplained,
            decide: "repeat the diagnosis at another time and for longer (--time 60)".into(),
        },
    });
}

/// A single connection cannot distinguish other traffic in a full queue from a lower rate of the link. Marks
/// either limit as uncertain if the rate varied and no probe confirmed the available bandwidth.
fn doubt_variation(ranking: &mut Ranking, seen: &Observed) {
    let Some(variation) = seen.variation.filter(|_| !seen.is_available_confirmed()) else { return };
    let is_of_path = |limit: &&mut Limit| matches!(limit.kind, Kind::CompetingTraffic | Kind::SlowHop);
    if let Some(first) = ranking.limits.first_mut().filter(is_of_path).filter(|first| first.doubt.is_none()) {
        first.doubt = Some(varied(variation, "no probe confirmed the available bandwidth"));
    }
}

fn varied(Variation { low_bps, high_bps }: Variation, also: &str) -> Doubt {
    let rate = |bps: f64| BitRate(three_digits(bps));
    Doubt {
        instead: Some(Kind::PathChanged),
        why: format!(
            "the path was full while its rate varied between {} and {}: either its own rate changes repeatedly, or other traffic starts and stops; \
             {also}",
            rate(low_bps),
            rate(high_bps)
        ),
        decide: "plot the test's record: if the rate returns to the same levels, the path's own rate changes; then repeat the diagnosis \
                 when the path has no other traffic"
            .into(),
    }
}
