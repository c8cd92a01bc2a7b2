//! Predicts what is gained without each limit by simulating the measured path without it, and orders the limits by that.

use units::{BitRate, Time, three_digits};

use crate::{
    limit::{Doubt, Kind, Limit, Ranking, Together},
    observed::Observed,
    twin::Twin,
};

/// Minimum ratio of goodput without a limit to goodput with it. Below that its removal gains nothing.
const MIN_RATIO: f64 = 1.03;
/// Minimum gain that is worth a change, as a share of what the test got.
const MIN_WORTHWHILE: f64 = 0.15;
/// Maximum number of limits of which pairs are made.
const MAX_PAIRED: usize = 4;
/// Minimum gain of the second limit, as a share of the first one's, that makes the first one unsure.
const NEAR: f64 = 0.6;

/// Corrects the limits' gains by simulating the path without each, and their order, where enough is known of the path.
pub(crate) fn predict(seen: &Observed, time: Time, ranking: &mut Ranking) {
    let got = seen.got();
    let twin = if ranking.healthy { None } else { Twin::of(seen, time, &ranking.limits) };
    let Some((twin, now)) = twin.and_then(|twin| twin.fitted(got)) else { return };
    ranking.scenario = Some(twin.scenario());
    if !Twin::is_like(now, got) {
        doubt(ranking, now, got);
        return;
    }
    let gains: Vec<Option<f64>> = ranking
        .limits
        .iter()
        .map(|limit| {
            let then = twin.without(limit.kind)?.usual_goodput()?;
            // Another run of the same path differs by that much, too.
            Some(if then < MIN_RATIO * now { 0.0 } else { (then - got).max(0.0) })
        })
        .collect();
    for (limit, gain) in ranking.limits.iter_mut().zip(gains) {
        if gain.is_some() {
            limit.gain_bps = gain;
            limit.gain_is_most = twin.hides_what_is_behind(limit.kind);
        }
    }
    sort(ranking, got);
    ranking.together = together(&twin, ranking, got);
}

/// The two limits whose removal gains the maximum of all pairs, where none alone is worth removing.
fn together(twin: &Twin, ranking: &Ranking, got: f64) -> Option<Together> {
    let alone = ranking.limits.iter().filter_map(|limit| limit.gain_bps).fold(0.0, f64::max);
    if alone >= MIN_WORTHWHILE * got {
        return None;
    }
    let kinds: Vec<Kind> = ranking.limits.iter().map(|limit| limit.kind).take(MAX_PAIRED).collect();
    let pairs = kinds
        .iter()
        .enumerate()
        .flat_map(|(place, one)| kinds[..place].iter().map(move |other| [*other, *one]));
    let gains = pairs.filter_map(|[one, other]| {
        let then = twin.without(one)?.without(other)?.usual_goodput()?;
        Some(Together { kinds: [one, other], gain_bps: then - got })
    });
    gains
        .filter(|both| both.gain_bps >= MIN_WORTHWHILE * got)
        .max_by(|a, b| a.gain_bps.total_cmp(&b.gain_bps))
}

/// Sorts limits by gain, and adds a doubt where the second one gains nearly as much as the first.
fn sort(ranking: &mut Ranking, got: f64) {
    let gain = |limit: &Limit| limit.gain_bps.filter(|gain| *gain >= (MIN_RATIO - 1.0) * got).unwrap_or(0.0);
    // Stable: those that gain nothing stay as they were.
    ranking.limits.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let bound = ranking.limits.iter().find(|limit| limit.measured).map(|limit| limit.kind);
    let [first, second, ..] = ranking.limits.as_mut_slice() else { return };
    let (largest, next) = (gain(first), gain(second));
    if first.doubt.is_none() && !first.measured && bound.is_some() {
        first.doubt = Some(Doubt {
            instead: bound,
            why: "it gains most on a simulated path, and did not bind in the test".into(),
            decide: "change one, and test again".into(),
        });
    }
    if first.doubt.is_none() && next > 0.0 && next >= NEAR * largest {
        first.doubt = Some(Doubt {
            instead: Some(second.kind),
            why: "without that one limit a connection gains nearly as much, or together they gain more than each".into(),
            decide: "change one, and test again".into(),
        });
    }
}

/// Reports that the limits found do not explain the test, and removes their gains.
fn doubt(ranking: &mut Ranking, simulated: f64, got: f64) {
    let rate = |bps: f64| BitRate(three_digits(bps));
    for limit in &mut ranking.limits {
        limit.gain_bps = None;
    }
    let second = ranking.limits.get(1).map(|limit| limit.kind);
    if let Some(first) = ranking.limits.first_mut()
        && first.doubt.is_none()
    {
        first.doubt = Some(Doubt {
            instead: second.filter(|kind| *kind != Kind::PathRate),
            why: format!(
                "a simulated path with these limits gives {}, and the test got {}",
                rate(simulated),
                rate(got)
            ),
            decide: "the same again, at another time and for longer (--time 60)".into(),
        });
    }
}
