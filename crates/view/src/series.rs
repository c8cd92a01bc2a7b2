//! Points of curves in base units: averaging of noisy samples, and decimation.

/// A point of a curve: seconds since the run's start, and the value; `None` is a gap.
pub(crate) type Point = (f64, Option<f64>);

/// Minimum time over which noisy curves are averaged, seconds.
const MIN_SMOOTHING_S: f64 = 0.1;
/// Maximum number of such intervals in a plot of a long run.
const SMOOTHING_INTERVALS: f64 = 200.0;

/// The time over which noisy curves of a run of `end_s` seconds are averaged.
pub(crate) fn smoothing_s(end_s: f64) -> f64 {
    crate::axis::nice_below((end_s / SMOOTHING_INTERVALS).max(MIN_SMOOTHING_S))
}

/// The moving average over the last `window_s`. Each value is weighted by the time since the previous point,
/// the first one by the time until the next.
pub(crate) fn smooth(points: &[Point], window_s: f64) -> Vec<Point> {
    let interval = |until: usize| Some(points.get(until)?.0 - points[until - 1].0);
    let weight = |i: usize| interval(i.max(1)).unwrap_or(0.0).max(1e-9);
    let mut out = Vec::with_capacity(points.len());
    let (mut area, mut time, mut first) = (0.0, 0.0, 0);
    for (i, (t, value)) in points.iter().enumerate() {
        let Some(value) = value else {
            (area, time, first) = (0.0, 0.0, i + 1);
            out.push((*t, None));
            continue;
        };
        area += value * weight(i);
        time += weight(i);
        while first < i && points[first].0 <= t - window_s + 1e-9 {
            area -= points[first].1.unwrap_or(0.0) * weight(first);
            time -= weight(first);
            first += 1;
        }
        out.push((*t, Some((area / time).max(0.0))));
    }
    out
}

/// Reduces a curve of the span from `from_s` to `to_s` to about `2 * buckets` points: the smallest and the
/// largest of each of `buckets` time intervals, in order of time. An interval with a gap keeps one gap.
pub(crate) fn decimate(points: &[Point], (from_s, to_s): (f64, f64), buckets: usize) -> Vec<Point> {
    if points.len() <= 2 * buckets || to_s <= from_s {
        return points.to_vec();
    }
    let bucket_of =
        |t: f64| (((t - from_s) / (to_s - from_s) * buckets as f64).max(0.0) as usize).min(buckets - 1);
    let mut out = Vec::with_capacity(3 * buckets);
    let mut rest = points;
    while let Some((t, _)) = rest.first() {
        let bucket = bucket_of(*t);
        let length = rest.iter().take_while(|(t, _)| bucket_of(*t) == bucket).count();
        let (here, after) = rest.split_at(length.max(1));
        push_extremes(here, &mut out);
        rest = after;
    }
    out
}

fn push_extremes(points: &[Point], out: &mut Vec<Point>) {
    let present = || points.iter().filter(|(_, value)| value.is_some());
    let by_value = |a: &&Point, b: &&Point| a.1.unwrap_or(0.0).total_cmp(&b.1.unwrap_or(0.0));
    if let (Some(low), Some(high)) = (present().min_by(by_value), present().max_by(by_value)) {
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        out.push(*first);
        if first.0 < second.0 {
            out.push(*second);
        }
    }
    if let Some(gap) = points.iter().find(|(_, value)| value.is_none()) {
        out.push(*gap);
    }
}

/// The smallest and largest value; `None` if there is none.
pub(crate) fn range<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<(f64, f64)> {
    let mut found: Option<(f64, f64)> = None;
    for value in points.into_iter().filter_map(|(_, value)| *value).filter(|v| v.is_finite()) {
        let (low, high) = found.unwrap_or((value, value));
        found = Some((low.min(value), high.max(value)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn smoothing_is_a_mean_over_time_and_stops_at_gaps() {
        let points: Vec<Point> =
            (1..=10).map(|i| (i as f64, Some(if i % 2 == 0 { 4.0 } else { 0.0 }))).collect();
        let smoothed = smooth(&points, 4.0);
        assert_eq!(smoothed[9], (10.0, Some(2.0)));
        assert_eq!(smoothed[0], (1.0, Some(0.0)));
        let gap = smooth(&[(1.0, Some(8.0)), (2.0, None), (3.0, Some(2.0))], 10.0);
        assert_eq!(gap, [(1.0, Some(8.0)), (2.0, None), (3.0, Some(2.0))]);
        assert_eq!(smooth(&[(9.0, Some(1.0))], 1.0), [(9.0, Some(1.0))]);
    }

    #[test]
    fn the_first_point_of_a_late_span_has_the_same_weight_as_the_others() {
        let late: Vec<Point> = (0..4).map(|i| (5000.0 + f64::from(i), Some(f64::from(i)))).collect();
        let means: Vec<f64> = smooth(&late, 10.0).into_iter().filter_map(|(_, mean)| mean).collect();
        assert_eq!(means, [0.0, 0.5, 1.0, 1.5]);
    }

    #[test]
    fn smoothing_time_grows_with_the_run_in_round_steps() {
        assert_eq!(smoothing_s(20.0), 0.1);
        assert_eq!(smoothing_s(7000.0), 20.0);
    }

    #[test]
    fn decimation_keeps_gaps() {
        let points: Vec<Point> =
            (0..10_000).map(|i| (f64::from(i), (i / 1000 != 5).then_some(1.0))).collect();
        let decimated = decimate(&points, (0.0, 10_000.0), 100);
        let gap = decimated.iter().filter(|(_, v)| v.is_none()).count();
        assert!(gap >= 1 && decimated.iter().all(|(t, v)| (5000.0..6000.0).contains(t) == v.is_none()));
    }

    proptest! {
        #[test]
        fn decimation_keeps_extremes_and_order(
            values in proptest::collection::vec(-1e9..1e9f64, 1..5000),
            from_s in 0.0..1e5f64,
        ) {
            let time = |i: usize| from_s + i as f64 * 0.01;
            let points: Vec<Point> = values.iter().enumerate().map(|(i, v)| (time(i), Some(*v))).collect();
            let decimated = decimate(&points, (from_s, time(values.len())), 300);
            // Each interval has a point, wherever the span begins.
            prop_assert!((values.len().min(300)..=600).contains(&decimated.len()));
            prop_assert_eq!(range(&decimated), range(&points));
            prop_assert!(decimated.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
