//! Losses and queues in the samples of a TCP test.

use schema::FlowSample;
use serde::Serialize;

/// Loss episodes of a test: losses within two round trips are one episode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Losses {
    /// Number of episodes.
    pub episodes: usize,
    /// Data in flight at the losses, bytes: the median over episodes of the maximum in the two preceding
    /// round trips.
    pub outstanding_bytes: f64,
    /// Round-trip time at the losses, microseconds: the median over episodes of the maximum in the two
    /// preceding round trips.
    pub rtt_us: Option<f64>,
    /// The maximum over episodes of the same round-trip times, microseconds.
    pub longest_rtt_us: Option<f64>,
}

impl Losses {
    /// The losses in a flow's samples, in order of time; `None` without losses.
    pub fn of(rows: &[FlowSample]) -> Option<Self> {
        let (mut outstanding, mut rtts): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        let mut quiet_until = i64::MIN;
        // A row without samples of the sender has no count; the next count is compared with the one before
        // it.
        let mut retransmitted = rows.first().and_then(|row| row.total_retrans_segs);
        for (index, pair) in rows.windows(2).enumerate() {
            let earlier = retransmitted;
            retransmitted = pair[1].total_retrans_segs.or(earlier);
            let lost = earlier.zip(retransmitted).is_some_and(|(before, now)| now > before);
            if !lost || pair[1].time_us < quiet_until {
                continue;
            }
            let reach = pair[1].srtt_us.unwrap_or(0).saturating_mul(2);
            quiet_until = pair[1].time_us.saturating_add(reach);
            let since = pair[1].time_us.saturating_sub(reach.max(1));
            let before = || rows[..=index].iter().rev().take_while(|row| row.time_us >= since);
            let in_flight = |row: &FlowSample| Some(in_flight_bytes(row)? as f64);
            outstanding.extend(before().filter_map(in_flight).reduce(f64::max));
            rtts.extend(before().filter_map(|row| Some(row.srtt_us? as f64)).reduce(f64::max));
        }
        Some(Losses {
            episodes: outstanding.len(),
            outstanding_bytes: median(&mut outstanding)?,
            rtt_us: median(&mut rtts),
            longest_rtt_us: rtts.iter().copied().reduce(f64::max),
        })
    }
}

/// Minimum increase of the round-trip time that shows a queue, as a share and in microseconds.
const MIN_VISIBLE_QUEUE: (f64, f64) = (0.1, 500.0);
/// Minimum increase that shows a queue, in deviations of the round-trip time.
const MIN_DEVIATIONS: f64 = 2.0;

/// Minimum visible queueing delay, microseconds, for a round-trip time of `base_us` without a queue.
pub(crate) fn visible_queue_us(base_us: f64) -> f64 {
    (MIN_VISIBLE_QUEUE.0 * base_us).max(MIN_VISIBLE_QUEUE.1)
}

/// Share of the samples in the second half of a test with a queue, which shows that the slowest link was
/// busy. `None` without samples.
pub(crate) fn queued_share(rows: &[FlowSample], base_us: f64) -> Option<f64> {
    settled_share(rows, |row| {
        // Variation shows queueing of the flow's own bursts, not a standing queue.
        let variation_us = MIN_DEVIATIONS * row.rttvar_us.unwrap_or(0) as f64;
        Some(row.srtt_us? as f64 - base_us >= visible_queue_us(base_us).max(variation_us))
    })
}

/// Share of the samples in the second half with more queueing delay than the test's data in flight can cause
/// on a link of `capacity_bps`: others' packets were in the queue. `None` without samples.
pub(crate) fn behind_others_share(rows: &[FlowSample], base_us: f64, capacity_bps: f64) -> Option<f64> {
    settled_share(rows, |row| {
        let own_us = in_flight_bytes(row)? as f64 * 8e6 / capacity_bps.max(1.0);
        Some(row.srtt_us? as f64 - base_us >= visible_queue_us(base_us) + own_us)
    })
}

/// Data in flight. The values may be those of the other end, which may send any.
fn in_flight_bytes(row: &FlowSample) -> Option<i64> {
    Some(row.unacked_segs?.saturating_mul(row.snd_mss_bytes?))
}

/// Share of the samples in the second half for which the predicate is true, of those for which it is known.
fn settled_share(rows: &[FlowSample], predicate: impl Fn(&FlowSample) -> Option<bool>) -> Option<f64> {
    let known: Vec<bool> = rows[rows.len() / 2..].iter().filter_map(predicate).collect();
    (!known.is_empty()).then(|| known.iter().filter(|yes| **yes).count() as f64 / known.len() as f64)
}

/// The upper median; `None` without values. Sorts them.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(retransmitted: [Option<i64>; 4]) -> Vec<FlowSample> {
        let row = |(index, total_retrans_segs): (usize, Option<i64>)| FlowSample {
            time_us: 10_000 * index as i64,
            total_retrans_segs,
            srtt_us: Some(20_000),
            unacked_segs: Some(10),
            snd_mss_bytes: Some(1000),
            ..FlowSample::default()
        };
        retransmitted.into_iter().enumerate().map(row).collect()
    }

    #[test]
    fn a_row_without_the_senders_samples_is_no_loss() {
        let episodes = |retransmitted| Losses::of(&rows(retransmitted)).map(|losses| losses.episodes);
        assert_eq!(episodes([Some(5), None, Some(5), Some(5)]), None);
        assert_eq!(episodes([None, Some(5), Some(5), Some(5)]), None);
        assert_eq!(episodes([Some(5), None, Some(6), Some(6)]), Some(1));
    }

    #[test]
    fn arbitrary_values_of_the_other_end_cause_no_overflow() {
        let mut rows = rows([Some(i64::MIN), Some(0), Some(i64::MAX), Some(0)]);
        for (row, time_us) in rows.iter_mut().zip([i64::MIN, i64::MAX, i64::MIN, i64::MAX]) {
            (row.time_us, row.srtt_us) = (time_us, Some(i64::MAX));
            (row.unacked_segs, row.snd_mss_bytes, row.delivered_segs) =
                (Some(i64::MAX), Some(i64::MAX), Some(i64::MAX));
            (row.datagrams_lost, row.datagrams_received) = (row.total_retrans_segs, row.total_retrans_segs);
        }
        Losses::of(&rows);
        behind_others_share(&rows, 0.0, 1e9);
        crate::change::Change::of(&rows);
        crate::capacity::lost_at_once(&rows);
        crate::path::Arrived::of(&rows, 1448);
    }
}
