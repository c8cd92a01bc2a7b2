//! The end of a test of automatic length (`-t auto`): slow start is over, and the mean goodput since then is
//! known within 2 %, or would not be within any reasonable time.
//!
//! The confidence interval is that of batch means (Law and Kelton, Simulation Modeling and Analysis, chapter
//! 9): samples of a sawtooth are correlated, but means over whole teeth hardly are. The time since slow start
//! is therefore divided into at least ten batches of the same length, and there must have been at least as
//! many loss epochs as batches. A flow without losses has "epochs" of twenty round trips.

use std::collections::BTreeMap;

use schema::FlowSample;

use experiment::confidence::half_width;

/// Number of batches; more time makes them longer, not more.
const BATCHES: usize = 10;
/// Required half-width of the confidence interval, relative to the mean.
const PRECISION: f64 = 0.02;
/// Length of an epoch without losses, in round trips, and its minimum, seconds.
const EPOCH_ROUND_TRIPS: f64 = 20.0;
const MIN_EPOCH_S: f64 = 0.1;
/// Losses within this number of round trips are one loss epoch.
const SAME_EPOCH_ROUND_TRIPS: f64 = 2.0;
/// Minimum growth of the goodput from one epoch to the next in slow start.
const MIN_SLOW_START_GROWTH: f64 = 1.05;
/// Interval between two evaluations, seconds.
const EVALUATION_INTERVAL_S: f64 = 0.1;
/// A test that would need more time than this for the required precision ends after [`MIN_IMPRECISE_TEST_S`],
/// seconds.
const MAX_NEEDED_S: f64 = 600.0;
const MIN_IMPRECISE_TEST_S: f64 = 30.0;

/// The samples of a test's streams.
#[derive(Debug, Default)]
pub struct Steadiness {
    /// Time and payload of all streams since the start, seconds and bytes.
    arrived: Vec<(f64, f64)>,
    bytes: f64,
    streams: BTreeMap<String, Totals>,
    losses: Vec<f64>,
    rtt_s: f64,
    evaluated_s: f64,
}

#[derive(Debug, Default)]
struct Totals {
    last_us: i64,
    retransmitted: i64,
}

/// An estimate of the goodput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Start of the averaged time, seconds since the data began.
    pub from_s: f64,
    /// The mean goodput, bit/s.
    pub goodput_bps: f64,
    /// Half-width of its confidence interval, relative to it.
    pub precision: f64,
    /// Number of loss epochs, or of epochs without losses.
    pub epochs: usize,
    /// End of the averaged time, seconds since the data began.
    pub end_s: f64,
}

impl Estimate {
    /// Whether the goodput is known within 2 %.
    pub fn is_precise(&self) -> bool {
        self.precision < PRECISION
    }

    /// Duration of a test after which it would be known within 2 %, seconds: a mean of n times as many
    /// samples is the root of n times as precise.
    pub fn needed_s(&self) -> f64 {
        self.from_s + (self.end_s - self.from_s) * (self.precision / PRECISION).powi(2)
    }
}

impl Steadiness {
    /// Adds samples of the streams, in order of time.
    pub fn add(&mut self, rows: &[FlowSample]) {
        for row in rows {
            let time_s = row.time_us as f64 * 1e-6;
            let seen = self.streams.entry(row.flow.clone()).or_default();
            let span_s = (row.time_us - seen.last_us) as f64 * 1e-6;
            self.bytes += row.goodput_bps.unwrap_or(0) as f64 / 8.0 * span_s;
            seen.last_us = row.time_us;
            let retransmitted = row.total_retrans_segs.unwrap_or(0);
            let far =
                self.losses.last().is_none_or(|last| time_s - last > SAME_EPOCH_ROUND_TRIPS * self.rtt_s);
            if retransmitted > seen.retransmitted && far {
                self.losses.push(time_s);
            }
            seen.retransmitted = retransmitted;
            if let Some(rtt) = row.srtt_us.or(row.rcv_rtt_us) {
                self.rtt_s = rtt as f64 * 1e-6;
            }
            self.arrived.push((time_s, self.bytes));
        }
    }

    /// True once the estimate is precise enough, or clearly will not be.
    pub fn is_enough(&mut self) -> bool {
        let now_s = self.arrived.last().map_or(0.0, |(time_s, _)| *time_s);
        if now_s - self.evaluated_s < EVALUATION_INTERVAL_S {
            return false;
        }
        self.evaluated_s = now_s;
        self.estimate().is_some_and(|estimate| {
            let takes_too_long = now_s >= MIN_IMPRECISE_TEST_S && estimate.needed_s() > MAX_NEEDED_S;
            estimate.is_precise() || takes_too_long
        })
    }

    /// The goodput since slow start; `None` during slow start or with too few epochs.
    pub fn estimate(&self) -> Option<Estimate> {
        let (end_s, _) = *self.arrived.last()?;
        let from_s = self.settled_s()?;
        let losses = self.losses.iter().filter(|at| **at > from_s).count();
        let epochs = match losses {
            0 => ((end_s - from_s) / self.epoch_s()) as usize,
            losses => losses,
        };
        if epochs < BATCHES {
            return None;
        }
        let length_s = (end_s - from_s) / BATCHES as f64;
        let edge = |index: usize| self.arrived_at(from_s + index as f64 * length_s);
        let means: Vec<f64> = (0..BATCHES).map(|i| (edge(i + 1) - edge(i)) * 8.0 / length_s).collect();
        let mean = means.iter().sum::<f64>() / BATCHES as f64;
        let half = half_width(&means, mean)?;
        (mean > 0.0).then_some(Estimate { from_s, goodput_bps: mean, precision: half / mean, epochs, end_s })
    }

    /// End of slow start: the first loss, or when the goodput has not grown for two epochs.
    fn settled_s(&self) -> Option<f64> {
        let epoch_s = self.epoch_s();
        let (end_s, _) = *self.arrived.last()?;
        let rate = |index: usize| {
            self.arrived_at((index + 1) as f64 * epoch_s) - self.arrived_at(index as f64 * epoch_s)
        };
        let whole = (end_s / epoch_s) as usize;
        let flat = (0..whole.saturating_sub(2)).find(|i| {
            let (first, second, third) = (rate(*i), rate(i + 1), rate(i + 2));
            first > 0.0 && second <= MIN_SLOW_START_GROWTH * first && third <= MIN_SLOW_START_GROWTH * second
        });
        let flat = flat.map(|index| index as f64 * epoch_s);
        match (self.losses.first(), flat) {
            (Some(loss), Some(flat)) => Some(loss.min(flat)),
            (Some(loss), None) => Some(*loss),
            (None, flat) => flat,
        }
    }

    fn epoch_s(&self) -> f64 {
        (EPOCH_ROUND_TRIPS * self.rtt_s).max(MIN_EPOCH_S)
    }

    /// Payload until a time, interpolated between samples.
    fn arrived_at(&self, time_s: f64) -> f64 {
        let after = self.arrived.partition_point(|(at, _)| *at <= time_s);
        let before = after.checked_sub(1).map_or((0.0, 0.0), |index| self.arrived[index]);
        match self.arrived.get(after) {
            None => before.1,
            Some(next) => before.1 + (next.1 - before.1) * (time_s - before.0) / (next.0 - before.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow with a round-trip time of 20 ms that reaches `rate(t)` and loses packets at multiples of
    /// `tooth_s`, sampled every 10 ms.
    fn after(seconds: f64, tooth_s: Option<f64>, rate: impl Fn(f64) -> f64) -> Steadiness {
        let mut steadiness = Steadiness::default();
        for i in 1..=(seconds * 100.0) as i64 {
            let t = i as f64 * 0.01;
            steadiness.add(&[FlowSample {
                time_us: i * 10_000,
                flow: "f".into(),
                goodput_bps: Some(rate(t) as i64),
                srtt_us: Some(20_000),
                total_retrans_segs: Some(tooth_s.map_or(0, |tooth| (t / tooth) as i64)),
                ..FlowSample::default()
            }]);
        }
        steadiness
    }

    #[test]
    fn a_sawtooth_needs_ten_loss_epochs() {
        let saw = |t: f64| 1e9 * (0.5 + 0.5 * (t % 1.0));
        assert_eq!(after(9.0, Some(1.0), saw).estimate(), None);
        let mut steady = after(40.0, Some(1.0), saw);
        let estimate = steady.estimate().unwrap();
        assert!((estimate.goodput_bps / 0.75e9 - 1.0).abs() < 0.02, "{estimate:?}");
        assert!(steady.is_enough(), "{estimate:?}");
    }

    #[test]
    fn slow_start_is_excluded() {
        let mut steady = after(12.0, None, |t| 1e9 * (t / 2.0).min(1.0));
        let estimate = steady.estimate().unwrap();
        assert!(estimate.from_s > 1.0, "{estimate:?}");
        assert!((estimate.goodput_bps / 1e9 - 1.0).abs() < 0.02, "{estimate:?}");
        assert!(steady.is_enough());
        assert_eq!(after(1.5, None, |t| 1e9 * t / 2.0).estimate(), None, "still growing");
    }

    #[test]
    fn a_changing_rate_is_never_steady() {
        let wild = |t: f64| if (t / 13.0) as i64 % 2 == 0 { 1e9 } else { 0.3e9 };
        let mut early = after(25.0, Some(1.0), wild);
        assert!(!early.is_enough(), "{:?}", early.estimate());
        // The test still ends, with the estimate so far.
        let mut late = after(60.0, Some(1.0), wild);
        let estimate = late.estimate().unwrap();
        assert!(
            !estimate.is_precise() && estimate.needed_s() > MAX_NEEDED_S && late.is_enough(),
            "{estimate:?}"
        );
    }
}
