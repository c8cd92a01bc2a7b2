//! A path whose rate changed while a test ran.

use schema::{Cause, FlowSample};
use serde::Serialize;
use units::Time;

/// Rates are taken over so many round trips, and at least so long, microseconds.
const ROUND_TRIPS: i64 = 4;
const SHORTEST_US: i64 = 200_000;
/// So much of a test's beginning is left out: TCP is still growing.
const GROWING: f64 = 0.1;
/// Each part lasts at least so many rates.
const LEAST: usize = 4;
/// What is not this many times what it was before did not change.
const CHANGED: f64 = 1.3;
/// Rates that differ from their median by no more than this share are one rate.
const STEADY: f64 = 0.15;
/// The path was full in so many of a part's samples.
const FULL: f64 = 0.7;
/// After a change TCP needs so many rates to find the new one.
const FINDING: usize = 3;

/// A change of what a path gives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// When, since the beginning of the test.
    pub at: Time,
    /// What the test got before, bit/s.
    pub before_bps: f64,
    /// And after.
    pub after_bps: f64,
}

/// What arrived over a piece of time.
struct Piece {
    from_us: i64,
    bps: f64,
    is_full: bool,
}

impl Change {
    /// Of a TCP test's samples in order of time: the moment between two steady rates of a full path that differ most; `None` where the path was
    /// not full before and after, or gave the same.
    pub fn of(rows: &[FlowSample]) -> Option<Self> {
        let pieces = pieces(rows);
        let skipped = (pieces.len() as f64 * GROWING).ceil() as usize;
        let pieces = pieces.get(skipped..)?;
        let splits = LEAST..pieces.len().saturating_sub(LEAST + FINDING);
        let changes = splits.filter_map(|split| {
            let (before, after) = (steady(&pieces[..split])?, steady(&pieces[split + FINDING..])?);
            let ratio = (before / after).max(after / before);
            (ratio >= CHANGED).then(|| {
                let at = Time::from_micros(u64::try_from(pieces[split].from_us).unwrap_or(0));
                (Change { at, before_bps: before, after_bps: after }, spread(&pieces[..split], before))
            })
        });
        // The last moment at which what came before was still one rate.
        changes.min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.at.cmp(&a.0.at))).map(|(change, _)| change)
    }
}

fn pieces(rows: &[FlowSample]) -> Vec<Piece> {
    let mut round_trips: Vec<i64> = rows.iter().filter_map(|row| row.srtt_us).collect();
    round_trips.sort_unstable();
    let usual = round_trips.get(round_trips.len() / 2).copied().unwrap_or(0);
    let length = (ROUND_TRIPS * usual).max(SHORTEST_US);
    let mut pieces = Vec::new();
    let mut begin: Option<(i64, i64)> = None;
    let (mut full, mut all) = (0, 0);
    for row in rows {
        let Some(bytes) = row.bytes_received.or(row.bytes_acked) else { continue };
        let (from_us, before) = *begin.get_or_insert((row.time_us, bytes));
        full += usize::from(row.limited_by == Some(Cause::PathRate));
        all += 1;
        let passed = row.time_us - from_us;
        if passed >= length {
            let bps = (bytes - before).max(0) as f64 * 8e6 / passed as f64;
            pieces.push(Piece { from_us, bps, is_full: full * 2 >= all });
            begin = Some((row.time_us, bytes));
            (full, all) = (0, 0);
        }
    }
    pieces
}

/// The one rate of these pieces of a full path; `None` where they have none.
fn steady(pieces: &[Piece]) -> Option<f64> {
    let full = pieces.iter().filter(|piece| piece.is_full).count();
    let mut rates: Vec<f64> = pieces.iter().map(|piece| piece.bps).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().filter(|median| *median > 0.0)?;
    (full as f64 >= FULL * pieces.len() as f64 && spread(pieces, median) <= STEADY).then_some(median)
}

/// By how much of it nine tenths of the rates differ from this one at most.
fn spread(pieces: &[Piece], rate: f64) -> f64 {
    let mut off: Vec<f64> = pieces.iter().map(|piece| (piece.bps / rate - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    off.get((off.len() * 9 / 10).min(off.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples each 10 ms for ten seconds, at a rate (Mb/s) of the time (s), labelled.
    fn rows(rate: impl Fn(f64) -> f64, cause: Cause) -> Vec<FlowSample> {
        let mut bytes = 0.0;
        (0..1000)
            .map(|i| {
                bytes += rate(f64::from(i) * 0.01) * 1e6 / 8.0 * 0.01;
                FlowSample {
                    time_us: i64::from(i) * 10_000,
                    bytes_received: Some(bytes as i64),
                    srtt_us: Some(20_000),
                    limited_by: Some(cause),
                    ..FlowSample::default()
                }
            })
            .collect()
    }

    #[test]
    fn a_step_of_a_full_path_has_its_time_and_rates() {
        let fell = Change::of(&rows(|t| if t < 6.2 { 95.0 } else { 20.0 }, Cause::PathRate)).unwrap();
        assert!((fell.at.as_secs_f64() - 6.2).abs() <= 0.3, "{fell:?}");
        assert!((fell.before_bps / 95e6 - 1.0).abs() < 0.01 && (fell.after_bps / 20e6 - 1.0).abs() < 0.01);
        let rose = Change::of(&rows(|t| if t < 3.0 { 30.0 } else { 60.0 }, Cause::PathRate)).unwrap();
        assert!(rose.before_bps < rose.after_bps);
        // While TCP finds the new rate nothing may come.
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

    #[test]
    fn what_tcp_does_by_itself_is_no_change() {
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
