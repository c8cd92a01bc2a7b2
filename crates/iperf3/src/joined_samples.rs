//! Samples of both ends of a test on one time axis. The other end may send any values: sums and differences
//! saturate.

use std::collections::BTreeMap;

use schema::{FlowSample, Metrics};

/// Samples of the two ends are joined if they are at most this many sample intervals apart.
const MAX_JOIN_DISTANCE: u64 = 2;

/// Adds the values that the other end sampled at nearly the same time to this end's rows. The time axes of
/// the two ends are half a round trip apart.
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
        let Some(max_distance_us) = max_distance_us(samples) else { continue };
        let after = samples.partition_point(|sample| sample.time_us < row.time_us);
        let around = samples[after.saturating_sub(1)..].iter().take(2);
        let Some(nearest) = around.min_by_key(|sample| sample.time_us.abs_diff(row.time_us)) else {
            continue;
        };
        if nearest.time_us.abs_diff(row.time_us) > max_distance_us {
            continue;
        }
        let receiver_is_peer =
            nearest.rcvbuf_bytes.or(nearest.datagrams_received).or(nearest.bytes_received).is_some();
        if receiver_is_peer {
            // Goodput is computed over the time between this end's rows: the other end's samples have other
            // times.
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
    let ends: Vec<FlowSample> =
        by_flow.iter().filter_map(|(flow, samples)| last_arrivals(flow, samples, &rows)).collect();
    for end in ends {
        rows.insert(rows.partition_point(|row| row.time_us <= end.time_us), end);
    }
    rows
}

/// The largest distance of joined samples, microseconds; `None` with fewer than two samples.
fn max_distance_us(samples: &[&FlowSample]) -> Option<u64> {
    let [first, .., last] = samples else { return None };
    let spacing = last.time_us.saturating_sub(first.time_us) / (samples.len() as i64 - 1);
    Some(MAX_JOIN_DISTANCE.saturating_mul(spacing.unsigned_abs()))
}

/// A row at the receiver's last sample if that follows this end's last row: the data that has arrived since
/// then. The sender's values are those of its last row.
fn last_arrivals(flow: &str, samples: &[&FlowSample], rows: &[FlowSample]) -> Option<FlowSample> {
    let own = rows.iter().rev().find(|row| row.flow == flow)?;
    let last = samples.last()?;
    let (before, bytes) = (own.bytes_received?, last.bytes_received?);
    let is_near = last.time_us.abs_diff(own.time_us) <= max_distance_us(samples)?;
    if last.time_us <= own.time_us || bytes <= before || !is_near {
        return None;
    }
    let span_us = last.time_us.saturating_sub(own.time_us) as f64;
    Some(FlowSample {
        time_us: last.time_us,
        bytes_received: Some(bytes),
        goodput_bps: Some((bytes.saturating_sub(before) as f64 * 8e6 / span_us) as i64),
        datagrams_received: last.datagrams_received.or(own.datagrams_received),
        datagrams_lost: last.datagrams_lost.or(own.datagrams_lost),
        datagrams_reordered: last.datagrams_reordered.or(own.datagrams_reordered),
        datagrams_duplicated: last.datagrams_duplicated.or(own.datagrams_duplicated),
        ..own.clone()
    })
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
        let joined = join_samples(vec![row(500, None), row(1500, None), row(2000, None)], &peer);
        let bytes: Vec<_> = joined.iter().map(|row| row.bytes_received).collect();
        assert_eq!(bytes, [Some(500), Some(2000), Some(3000)]);
        assert_eq!(joined[1].goodput_bps, Some(12_000_000));
    }

    #[test]
    fn data_that_arrives_after_the_senders_last_sample_counts() {
        let peer = [row(0, Some(0)), row(1000, Some(1000)), row(2000, Some(3000))];
        let mut other = row(1800, None);
        other.flow = "stream-2".into();
        let joined = join_samples(vec![row(500, None), row(1500, None), other], &peer);
        let last = joined.last().unwrap();
        assert_eq!((last.time_us, last.bytes_received, last.flow.as_str()), (2000, Some(3000), "stream-1"));
        assert_eq!(last.goodput_bps, Some(16_000_000), "1000 bytes in 500 us");
        // A sample that is too late belongs to something else.
        let late = [row(0, Some(0)), row(100, Some(100)), row(200, Some(200)), row(300, Some(300))];
        assert_eq!(join_samples(vec![row(50, None)], &late).len(), 1);
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
