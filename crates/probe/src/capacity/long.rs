//! Long trains: past what a token bucket lets through at once, and at two rates past cross traffic.

use std::ops::Range;

use super::{
    BURST_BEND, Capacity, LONG_TRAINS, Phase,
    bursts::{Burst, Undisturbed},
    most_packets,
};
use crate::{
    answer::Interval,
    cross::growing_bps,
    curve::{Curve, curve},
    statistics::{median, quantile},
    train::Seen,
};

/// What passes before a queue overflows, over what passes in all: within this where it is one queue.
const SAME_QUEUE: Range<f64> = 0.9..1.35;
/// Two rates tell of cross traffic where they differ by this factor, and what passes is not known better than to this share.
const LEVER: f64 = 1.6;
const LEAST_SPREAD: f64 = 0.004;
/// A long train lasts so long at the rate found, where the limit on the load allows it, ns.
const LONG_NS: f64 = 150e6;
/// Packets of a long train, at least and at most.
const LONG_PACKETS: (usize, usize) = (200, 200_000);
/// A bend counts where more than this share of a train, and more than so many packets, passed before it.
const BEND_SHARE: f64 = 0.08;
const BEND_PACKETS: f64 = 4.0;

/// What long trains at one rate showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub(super) sent_bps: f64,
    pub(super) rate_bps: f64,
    /// How uncertain that rate is, as a share of itself: by the difference of the trains.
    spread: f64,
    /// Packets were dropped while it was taken: then others lose another share than the trains.
    overflows: bool,
}

impl Passed {
    fn of(sent_bps: f64, rates: &[f64], overflows: bool) -> Option<Passed> {
        let rate_bps = median(rates)?;
        let range = quantile(rates, 1.0)? - quantile(rates, 0.0)?;
        // The range of three is 1.7 standard deviations and of six 2.5; the median's is two thirds of one, and half of one.
        let part = if rates.len() > LONG_TRAINS { 0.2 } else { 0.4 };
        Some(Passed { sent_bps, rate_bps, spread: part * range / rate_bps, overflows })
    }
}

impl Capacity {
    /// Packets of a long train at this rate.
    pub(super) fn long_packets(&self, rate_bps: f64) -> usize {
        let wanted = rate_bps * LONG_NS / 8e9 / f64::from(self.bytes);
        let most = most_packets(&self.limits, self.bytes) / 2;
        (wanted as usize).clamp(LONG_PACKETS.0, LONG_PACKETS.1).min(most).max(8)
    }

    pub(super) fn long(&mut self, rate_bps: f64, left: usize, seen: &[Seen]) {
        let curves: Vec<Curve> =
            seen.iter().filter_map(|seen| curve(seen, self.limits.resolution_ns)).collect();
        let sent = median(&seen.iter().filter_map(Seen::sent_bps).collect::<Vec<_>>()).unwrap_or(rate_bps);
        let Some(passed) = self.passed(sent, seen) else {
            self.doubts.push("long trains were lost".into());
            return self.phase = Phase::Done;
        };
        let rate = passed.rate_bps;
        let bend = median(&curves.iter().map(|c| c.bend_bytes).collect::<Vec<_>>()).unwrap_or(0.0);
        let total = median(&curves.iter().map(|c| c.bytes).collect::<Vec<_>>()).unwrap_or(1.0);
        let before = self.found.map_or(f64::INFINITY, |found| found.value);
        let bends =
            median(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>()).is_some_and(|b| b > BURST_BEND);
        // Beside cross traffic of all the capacity a train at twice the rate would still have two thirds of it.
        let bent = bend > (BEND_SHARE * total).max(BEND_PACKETS * f64::from(self.bytes))
            || rate < 0.6 * before
            || bends;
        let none_known = self.found.is_none();
        if none_known && rate > 0.95 * sent && left > 1 {
            // Nothing held it up: faster.
            return self.phase = Phase::Long { rate_bps: 2.0 * rate_bps, left: left - 1 };
        }
        if self.bucket_bytes.is_some() || none_known || (bent && rate < 0.9 * before) {
            if self.bucket_bytes.is_none() {
                self.peak_bps = self.found.map(|found| found.value);
            }
            // Nothing comes to the bucket faster than the links before it carry.
            let sent = sent.min(self.peak_bps.unwrap_or(f64::INFINITY));
            self.beyond.push(Passed { sent_bps: sent, ..passed });
            // Cross traffic leaves it emptier now and then.
            self.bucket_bytes = Some(bend.max(self.bucket_bytes.unwrap_or(0.0)));
            self.through_two_rates();
            self.phase = match (left, self.steep().count()) {
                (0 | 1, _) => {
                    self.doubts.push("the rate behind a token bucket did not settle".into());
                    Phase::Done
                }
                // Close to it now.
                (_, 0) => Phase::Long { rate_bps: 2.0 * rate, left: left - 1 },
                // Once more, at another rate: twice as fast, or slower where this host cannot.
                (_, 1) if self.peak_bps.is_none_or(|peak| peak > 3.0 * rate) && sent < 3.0 * rate => {
                    Phase::Long { rate_bps: 2.0 * sent, left: left - 1 }
                }
                (_, 1) => Phase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), left: left - 1 },
                _ if self.two_rates().is_some() => Phase::Done,
                _ => Phase::Long { rate_bps: (0.6 * sent).max(1.15 * rate), left: left - 1 },
            };
            return;
        }
        // A bucket that each burst emptied: its rate is known by their later halves.
        let least_bend = quantile(&self.bursts.iter().map(|b| b.bend).collect::<Vec<_>>(), 0.1)
            .unwrap_or(0.0)
            * self.packets as f64
            * f64::from(self.bytes);
        if self.undisturbed == Undisturbed::Enough && least_bend > BEND_PACKETS * f64::from(self.bytes) {
            self.bucket_bytes = Some(least_bend);
        }
        self.phase = match self.undisturbed {
            Undisturbed::TooFew => {
                self.beyond.push(passed);
                Phase::Slow { rate_bps: before }
            }
            _ => Phase::Done,
        };
    }

    /// What long trains at one rate showed: of those that overflow a queue the part before, where that is long enough.
    fn passed(&self, sent_bps: f64, seen: &[Seen]) -> Option<Passed> {
        let rate = |seen: &Seen| Some(curve(seen, self.limits.resolution_ns)?.rate_bps);
        let whole: Vec<f64> = seen.iter().filter_map(rate).collect();
        let margin = 4.0 * f64::from(self.bytes) * 8e9 / median(&whole)? + 2.0 * self.limits.resolution_ns;
        let lossy = seen.iter().filter(|seen| seen.lost() > 0).count() * 2 > seen.len();
        if !lossy {
            return Passed::of(sent_bps, &whole, false);
        }
        // A queue far faster than what passes in the end is another one: this host's, before a policer.
        let typical = median(&whole)?;
        let growing: Vec<f64> = seen
            .iter()
            .filter_map(|seen| growing_bps(seen, margin))
            .filter(|rate| SAME_QUEUE.contains(&(rate / typical)))
            .collect();
        match growing.len() * 2 > seen.len() {
            true => Passed::of(sent_bps, &growing, false),
            false => Passed::of(sent_bps, &whole, true),
        }
    }

    /// Long trains at twice the bursts' rate and at that rate itself: from the two, the capacity without cross traffic.
    pub(super) fn slow(&mut self, seen: &[Seen]) {
        self.phase = Phase::Done;
        let slow: Vec<Burst> = seen.iter().filter_map(|seen| self.burst(seen)).collect();
        let sent = median(&slow.iter().filter_map(|b| b.sent_bps).collect::<Vec<_>>());
        let passed = sent.and_then(|sent| self.passed(sent, seen));
        let (Some(slow), Some(fast)) = (passed, self.beyond.last()) else { return };
        if fast.sent_bps > 1.3 * slow.sent_bps && slow.rate_bps < 0.98 * slow.sent_bps {
            let (found, cross) = without_cross_traffic(slow, *fast);
            (self.found, self.cross_bps) = (Some(found), Some(cross));
        }
    }

    /// Trains that were sent faster than they passed, but not so fast that little of them did.
    fn steep(&self) -> impl Iterator<Item = Passed> + '_ {
        self.beyond.iter().copied().filter(|passed| (1.1..8.0).contains(&(passed.sent_bps / passed.rate_bps)))
    }

    /// The slowest and the fastest of them, where they differ enough.
    pub(super) fn two_rates(&self) -> Option<[Passed; 2]> {
        let slow = self.steep().min_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        let fast = self.steep().max_by(|a, b| a.sent_bps.total_cmp(&b.sent_bps))?;
        (fast.sent_bps > LEVER * slow.sent_bps).then_some([slow, fast])
    }

    fn through_two_rates(&mut self) {
        match self.two_rates() {
            Some([slow, fast]) => {
                let (found, cross) = without_cross_traffic(slow, fast);
                (self.found, self.cross_bps) = (Some(found), Some(cross));
            }
            None => self.found = self.beyond.last().map(|last| Interval::within(last.rate_bps, 0.1)),
        }
    }
}

/// From trains at two rates, the capacity and the cross traffic: 1 / received = 1 / C + (X / C) / sent, with X / C from 0 to 1.
fn without_cross_traffic(slow: Passed, fast: Passed) -> (Interval, f64) {
    let reach = (1.0 / fast.sent_bps) / (1.0 / slow.sent_bps - 1.0 / fast.sent_bps);
    let computed = (1.0 / slow.rate_bps - 1.0 / fast.rate_bps) * fast.sent_bps * reach;
    let share = computed.clamp(0.0, 1.0);
    let value = 1.0 / (1.0 / fast.rate_bps - share / fast.sent_bps);
    // The error of the line through both where it meets 1 / sent = 0.
    let part =
        |passed: Passed, weight: f64| weight * passed.spread.max(LEAST_SPREAD) * value / passed.rate_bps;
    let error = part(fast, 1.0 + reach).hypot(part(slow, reach));
    // What was added for cross traffic is hardly known better than to a third of itself, and not at all where the trains made a
    // queue overflow: a policer and a full queue of bytes drop large packets sooner than small ones.
    let known = if slow.overflows || fast.overflows { 1.0 } else { 3.0 };
    // Nor is a share that cannot be.
    let impossible = (computed - share).abs() * value / fast.sent_bps;
    let least = ((value / fast.rate_bps - 1.0) / known).clamp(0.01, 0.9);
    (Interval::within(value, (2.5 * error + impossible).clamp(least, 0.9)), share * value)
}
