//! A path whose rate changed while a test ran.

use schema::{Cause, FlowSample};
use serde::Serialize;
use units::{BitRate, Instant, three_digits};

use crate::losses::median;

/// A piece lasts this many round trips, and at least this long, microseconds.
const ROUND_TRIPS: i64 = 4;
const MIN_PIECE_US: i64 = 200_000;
/// Approximate maximum number of pieces: every split between them is tried, which takes quadratic time.
const MAX_PIECES: i64 = 500;
/// Share of a test's beginning that is skipped: slow start.
const SKIPPED_SHARE: f64 = 0.1;
/// Minimum number of pieces before a change, and after it.
const MIN_PIECES: usize = 4;
/// Minimum ratio of the rates before and after a change.
const MIN_CHANGE_RATIO: f64 = 1.3;
/// Minimum ratio of the high rates to the low ones if the path's rate varied.
const MIN_VARIATION_RATIO: f64 = 1.8;
/// Maximum distance of rates from their median, as a share of it, if the path has one rate.
const MAX_SPREAD: f64 = 0.15;
/// Minimum share of pieces limited by the path's rate, on a full path.
const MIN_FULL: f64 = 0.7;
/// Pieces that TCP needs to adapt to a new rate.
const ADAPTATION_PIECES: usize = 3;

/// A change of a path's rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Time since the beginning of the test.
    pub at: Instant,
    /// Goodput of the test before, bit/s.
    pub before_bps: f64,
    /// Goodput of the test after, bit/s.
    pub after_bps: f64,
}

/// Rates of a full path that varied more often than once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Variation {
    /// A tenth of the test was slower than this, bit/s.
    pub low_bps: f64,
    /// A tenth of the test was faster than this, bit/s.
    pub high_bps: f64,
}

impl Variation {
    /// The variation in a TCP test's samples, in order of time; `None` if the path was not full or its rate
    /// hardly varied.
    pub fn of(rows: &[FlowSample]) -> Option<Self> {
        let pieces = pieces(rows);
        let skipped = (pieces.len() as f64 * SKIPPED_SHARE).ceil() as usize;
        let pieces = pieces.get(skipped..).filter(|pieces| pieces.len() >= 2 * MIN_PIECES)?;
        let full = pieces.iter().filter(|piece| piece.is_full).count();
        let mut rates: Vec<f64> = pieces.iter().map(|piece| piece.bps).collect();
        rates.sort_by(f64::total_cmp);
        let (low_bps, high_bps) = (rates[rates.len() / 10], rates[rates.len() - 1 - rates.len() / 10]);
        let varied = high_bps >= MIN_VARIATION_RATIO * low_bps.max(1.0);
        (full as f64 >= MIN_FULL * pieces.len() as f64 && varied).then_some(Variation { low_bps, high_bps })
    }
}

/// A part of the test, with the rate at which data arrived.
struct Piece {
    from_us: i64,
    bps: f64,
    is_full: bool,
}

impl Change {
    /// In words, as in `the path's rate fell from 95 Mb/s to 20 Mb/s at 6.2 s`. `at_s`: the time to print,
    /// seconds.
    pub fn sentence(&self, at_s: f64) -> String {
        let rate = |bps: f64| BitRate(three_digits(bps));
        let how = if self.after_bps < self.before_bps { "fell" } else { "rose" };
        format!(
            "the path's rate {how} from {} to {} at {at_s:.1} s",
            rate(self.before_bps),
            rate(self.after_bps)
        )
    }

    /// The change in a TCP test's samples, in order of time: the boundary between two steady rates of a full
    /// path. Of several, the one with the steadiest rate before it. `None` if the path was not full before
    /// and after, or its rate did not change.
    pub fn of(rows: &[FlowSample]) -> Option<Self> {
        let pieces = pieces(rows);
        let skipped = (pieces.len() as f64 * SKIPPED_SHARE).ceil() as usize;
        let pieces = pieces.get(skipped..)?;
        let splits = MIN_PIECES..pieces.len().saturating_sub(MIN_PIECES + ADAPTATION_PIECES);
        let changes = splits.filter_map(|split| {
            let (before, after) = (steady(&pieces[..split])?, steady(&pieces[split + ADAPTATION_PIECES..])?);
            let ratio = (before / after).max(after / before);
            (ratio >= MIN_CHANGE_RATIO).then(|| {
                let at = Instant::from_micros(u64::try_from(pieces[split].from_us).unwrap_or(0));
                (Change { at, before_bps: before, after_bps: after }, spread(&pieces[..split], before))
            })
        });
        // The last split before which the test had one rate.
        changes.min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.at.cmp(&a.0.at))).map(|(change, _)| change)
    }
}

fn pieces(rows: &[FlowSample]) -> Vec<Piece> {
    let mut round_trips: Vec<f64> = rows.iter().filter_map(|row| Some(row.srtt_us? as f64)).collect();
    let median_rtt_us = median(&mut round_trips).unwrap_or(0.0) as i64;
    let span =
        rows.first().zip(rows.last()).map_or(0, |(first, last)| last.time_us.saturating_sub(first.time_us));
    let length = median_rtt_us.saturating_mul(ROUND_TRIPS).max(MIN_PIECE_US).max(span / MAX_PIECES);
    let mut pieces = Vec::new();
    let mut begin: Option<(i64, i64)> = None;
    let (mut full, mut all) = (0, 0);
    for row in rows {
        let Some(bytes) = delivered_bytes(row) else { continue };
        let (from_us, before) = *begin.get_or_insert((row.time_us, bytes));
        full += usize::from(row.limited_by == Some(Cause::PathRate));
        all += 1;
        let passed = row.time_us.saturating_sub(from_us);
        if passed >= length {
            let bps = bytes.saturating_sub(before).max(0) as f64 * 8e6 / passed as f64;
            pieces.push(Piece { from_us, bps, is_full: full * 2 >= all });
            begin = Some((row.time_us, bytes));
            (full, all) = (0, 0);
        }
    }
    pieces
}

/// Payload delivered in any order, if the sender reports it: data in order arrives all at once when a hole is
/// repaired.
fn delivered_bytes(row: &FlowSample) -> Option<i64> {
    let any_order = || Some(row.delivered_segs?.saturating_mul(row.snd_mss_bytes?));
    any_order().or(row.bytes_received).or(row.bytes_acked)
}

/// The steady rate of these pieces; `None` if the path was not full or the rate not steady.
fn steady(pieces: &[Piece]) -> Option<f64> {
    let full = pieces.iter().filter(|piece| piece.is_full).count();
    let mut rates: Vec<f64> = pieces.iter().map(|piece| piece.bps).collect();
    let typical = median(&mut rates).filter(|rate| *rate > 0.0)?;
    (full as f64 >= MIN_FULL * pieces.len() as f64 && spread(pieces, typical) <= MAX_SPREAD)
        .then_some(typical)
}

/// The 90th percentile of the rates' distances from this rate, as a share of it.
fn spread(pieces: &[Piece], rate: f64) -> f64 {
    let mut deviations: Vec<f64> = pieces.iter().map(|piece| (piece.bps / rate - 1.0).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    deviations.get(deviations.len() * 9 / 10).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples every 10 ms for ten seconds, at a rate (Mb/s) of the time (s), labelled.
    fn rows(rate: impl Fn(f64) -> f64, cause: Cause) -> Vec<FlowSample> {
        sampled(1000, 10, rate, cause)
    }

    /// This number of samples, one each `every_ms`, at a rate (Mb/s) of the time (s), labelled.
    fn sampled(count: u32, every_ms: u32, rate: impl Fn(f64) -> f64, cause: Cause) -> Vec<FlowSample> {
        let every = f64::from(every_ms) * 1e-3;
        let mut bytes = 0.0;
        (0..count)
            .map(|i| {
                bytes += rate(f64::from(i) * every) * 1e6 / 8.0 * every;
                FlowSample {
                    time_us: i64::from(i) * i64::from(every_ms) * 1000,
                    bytes_received: Some(bytes as i64),
                    srtt_us: Some(20_000),
                    limited_by: Some(cause),
                    ..FlowSample::default()
                }
            })
            .collect()
    }

    #[test]
    fn a_path_that_alternates_between_two_rates_varies() {
        let two = rows(|t| if t % 4.0 < 2.0 { 95.0 } else { 39.0 }, Cause::PathRate);
        let Variation { low_bps, high_bps } = Variation::of(&two).unwrap();
        assert!((low_bps / 39e6 - 1.0).abs() < 0.05 && (high_bps / 95e6 - 1.0).abs() < 0.05);
        assert_eq!(Variation::of(&rows(|_| 95.0, Cause::PathRate)), None);
        // On a path that is not full, a varying window shows no change of the path.
        assert_eq!(Variation::of(&rows(|t| if t % 4.0 < 2.0 { 95.0 } else { 39.0 }, Cause::Loss)), None);
    }

    /// When a hole is repaired, much data becomes in-order at once, even if the rate of the path is constant.
    #[test]
    fn a_repaired_hole_is_no_change() {
        let mut rows = rows(|t| if t < 5.0 { 95.0 } else { 30.0 }, Cause::PathRate);
        for (index, row) in rows.iter_mut().enumerate() {
            let bytes = row.bytes_received.unwrap();
            (row.delivered_segs, row.snd_mss_bytes) = (Some(bytes / 1448), Some(1448));
            // In the second half of each second, no data arrives in order.
            if index % 100 >= 50 {
                row.bytes_received = None;
            }
        }
        for index in 1..rows.len() {
            let before = rows[index - 1].bytes_received;
            rows[index].bytes_received = rows[index].bytes_received.or(before);
        }
        let fell = Change::of(&rows).unwrap();
        assert!((fell.at.as_secs_f64() - 5.0).abs() <= 0.4, "{fell:?}");
    }

    #[test]
    fn a_rate_step_of_a_full_path_is_found_with_its_time_and_rates() {
        let fell = Change::of(&rows(|t| if t < 6.2 { 95.0 } else { 20.0 }, Cause::PathRate)).unwrap();
        assert!((fell.at.as_secs_f64() - 6.2).abs() <= 0.3, "{fell:?}");
        assert!((fell.before_bps / 95e6 - 1.0).abs() < 0.01 && (fell.after_bps / 20e6 - 1.0).abs() < 0.01);
        let rose = Change::of(&rows(|t| if t < 3.0 { 30.0 } else { 60.0 }, Cause::PathRate)).unwrap();
        assert!(rose.before_bps < rose.after_bps);
        // Possibly no data arrives while TCP adapts to the new rate.
        let gap = |t: f64| {
            if t < 5.0 {
                95.0
            } else if t < 5.5 {
                0.0
            } else {
                30.0
            }
        };
        let found = Change::of(&rows(gap, Cause::PathRate)).unwrap();
        assert!((found.at.as_secs_f64() - 5.0).abs() <= 0.5, "{found:?}");
    }

    /// An hour has the same number of minimum-length pieces with samples every 100 ms as every 10 ms; trying
    /// every split of them would take minutes.
    #[test]
    fn a_long_test_has_few_pieces() {
        let fell = |t: f64| (if t < 2400.0 { 95.0 } else { 40.0 }) + (t / 50.0).fract();
        let hour = sampled(36_000, 100, fell, Cause::PathRate);
        let count = pieces(&hour).len() as i64;
        assert!((MAX_PIECES / 2..=MAX_PIECES).contains(&count), "{count}");
        let change = Change::of(&hour).unwrap();
        assert!((change.at.as_secs_f64() - 2400.0).abs() <= 15.0, "{change:?}");
        assert!(
            (change.before_bps / 95e6 - 1.0).abs() < 0.02 && (change.after_bps / 40e6 - 1.0).abs() < 0.02
        );
    }

    #[test]
    fn tcps_own_variation_is_not_a_change() {
        let steady = |_| 95.0;
        let sawtooth = |t: f64| 50.0 + 45.0 * (t / 3.0).fract();
        let growing = |t: f64| (10.0 * t).min(60.0);
        assert_eq!(Change::of(&rows(steady, Cause::PathRate)), None);
        assert_eq!(Change::of(&rows(sawtooth, Cause::PathRate)), None);
        assert_eq!(Change::of(&rows(growing, Cause::SlowStart)), None);
        let step = |t: f64| if t < 5.0 { 80.0 } else { 40.0 };
        assert_eq!(Change::of(&rows(step, Cause::ReceiveWindow)), None, "a window, not the path");
        assert_eq!(Change::of(&[]), None);
    }
}
