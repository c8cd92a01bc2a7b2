//! How well a sender kept its schedule, and the budget that several streams share.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use hdrhistogram::Histogram;

/// How well a sender kept its schedule.
#[derive(Debug, Clone)]
pub struct SendSummary {
    /// How late datagrams were passed to the kernel, ns, to two significant digits; empty without a schedule.
    pub late: Histogram<u64>,
    /// Time by which the schedule was moved because the machine stalled for longer than the maximum lateness.
    pub skipped: Duration,
}

impl SendSummary {
    /// An empty summary.
    pub(super) fn new() -> Self {
        // Cannot fail: the lower bound is at least 1, the upper at least twice that, and there are at most
        // five digits.
        let late = Histogram::new_with_bounds(1, 1_000_000_000, 2).expect("these bounds are valid");
        SendSummary { late, skipped: Duration::ZERO }
    }
}

/// Takes up to `max` of the remaining datagrams.
pub(super) fn claim(remaining: Option<&AtomicU64>, max: usize) -> usize {
    let Some(remaining) = remaining else { return max };
    let take = |remaining: u64| Some(remaining - remaining.min(max as u64));
    let before = remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
    before.min(max as u64) as usize
}
