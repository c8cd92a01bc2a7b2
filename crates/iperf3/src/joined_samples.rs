//! Samples of both ends of a test on one time axis. The other end may send any values: sums and differences saturate.

use std::collections::BTreeMap;

use schema::{FlowSample, Metrics};

/// Samples of the two ends are joined if they are at most this many sample intervals apart.
const MAX_JOIN_DISTANCE: u64 = 2;

/// Adds the values that the other end sampled at nearly the same time to this end's rows. The time axes of the two ends are
/// half a round trip apart.
pub fn join_samples(mut rows: Vec<FlowSample>, peer: &[FlowSample]) -> Vec<FlowSample> {
    let mut by_flow: BTreeMap<&str, Vec<&FlowSample>> = BTreeMap::new();
    for row in peer {
        by_flow.entry(&row.flow).or_default().push(row);
    }
    for samples in by_flow.values_mut() {
        samples.sort_by_key(|row| row.time_us);
    }
    let mut before: BTreeMap<String, (i64, Option<i64>)> = BTreeMap::new();
    for row in &mut rows {
        let Some(samples) = by_flow.get(row.flow.as_str()) else { continue };
        let spacing = match samples.as_slice() {
            [first, .., last] => last.time_us.saturating_sub(first.time_us) / (samples.len() as i64 - 1),
            _ => continue,
        };
        let after = samples.partition_point(|sample| sample.time_us < row.time_us);
        let around = samples[after.saturating_sub(1)..].iter().take(2);
        let Some(nearest) = around.min_by_key(|sample| sample.time_us.abs_diff(row.time_us)) else {
            continue;
        };
        if nearest.time_us.abs_diff(row.time_us) > MAX_JOIN_DISTANCE * spacing.unsigned_abs() {
            continue;
        }
        let receiver_is_peer =
            nearest.rcvbuf_bytes.or(nearest.datagrams_received).or(nearest.bytes_received).is_some();
        if receiver_is_peer {
            // Goodput is computed over the time between this end's rows: the other end's samples have other times.
            row.bytes_received = bytes_at(samples, after, row.time_us);
            row.goodput_bps = rate_since(&before, row).or(nearest.goodput_bps).or(row.goodput_bps);
            before.insert(row.flow.clone(), (row.time_us, row.bytes_received));
        }
        for index in 0..FlowSample::COLUMNS.len() {
            if row.metric(index).is_none() {
                row.set_metric(index, nearest.metric(index));
            }
        }
    }
    rows
}

/// Bytes received until an instant, interpolated between the two samples around it; `after` is the second.
fn bytes_at(samples: &[&FlowSample], after: usize, time_us: i64) -> Option<i64> {
    let known =
        |index: usize| samples.get(index).and_then(|sample| Some((sample.time_us, sample.bytes_received?)));
    match (after.checked_sub(1).and_then(known), known(after)) {
        (Some((from, first)), Some((to, second))) if to > from => {
            let share = time_us.saturating_sub(from) as f64 / to.saturating_sub(from) as f64;
            Some(first.saturating_add((second.saturating_sub(first) as f64 * share) as i64))
        }
        (Some((_, bytes)), _) | (None, Some((_, bytes))) => Some(bytes),
        (None, None) => None,
    }
}

/// Goodput since the flow's previous row, bit/s.
fn rate_since(before: &BTreeMap<String, (i64, Option<i64>)>, row: &FlowSample) -> Option<i64> {
    let (from, first) = before.get(&row.flow)?;
    let span_us = row.time_us.saturating_sub(*from).max(0) as f64;
    (span_us > 0.0).then_some((row.bytes_received?.saturating_sub((*first)?) as f64 * 8e6 / span_us) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(time_us: i64, bytes_received: Option<i64>) -> FlowSample {
        FlowSample { time_us, flow: "stream-1".into(), bytes_received, ..FlowSample::default() }
    }

    #[test]
    fn bytes_are_interpolated_between_the_other_ends_samples() {
        let peer = [row(0, Some(0)), row(1000, Some(1000)), row(2000, Some(3000))];
        let joined = join_samples(vec![row(500, None), row(1500, None)], &peer);
        assert_eq!(joined.iter().map(|row| row.bytes_received).collect::<Vec<_>>(), [Some(500), Some(2000)]);
        assert_eq!(joined[1].goodput_bps, Some(12_000_000));
    }

    #[test]
    fn arbitrary_values_of_the_other_end_are_joined() {
        let extremes = [i64::MIN, -1, 0, 1, i64::MAX];
        let peer: Vec<FlowSample> =
            extremes.iter().flat_map(|at| extremes.map(|bytes| row(*at, Some(bytes)))).collect();
        let own = extremes.map(|at| row(at, None)).to_vec();
        assert_eq!(join_samples(own, &peer).len(), extremes.len());
    }
}
