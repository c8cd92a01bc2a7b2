//! The counters of a receiver of numbered datagrams: losses, duplicates, reordering, delays and jitter.
//!
//! Sources: RFC 3550 section 6.4.1 (jitter), RFC 4737 section 3 (reordering), RFC 5481 section 4.2 (delay
//! variation against the smallest delay). Times are nanoseconds. The clocks of the two ends may have
//! different origins: then one-way delays have an offset, but their variation and the jitter do not.

use crate::sequence_window::{SequenceOrder, SequenceWindow};

/// Size of the reordering window, datagrams. A datagram overtaken by this many later ones counts as lost,
/// and as a duplicate if it arrives after that.
const REORDERING_WINDOW: usize = 1 << 20;

/// The counters so far.
#[derive(Debug, Clone)]
pub struct ReceiverCounters {
    window: SequenceWindow,
    /// Datagrams received, without duplicates.
    pub received: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// Datagrams that arrived after one with a higher number (RFC 4737 section 3); also counted in
    /// `received`.
    pub reordered: u64,
    /// Duplicates.
    pub duplicated: u64,
    /// Interarrival jitter, ns (RFC 3550 section 6.4.1).
    pub jitter_ns: f64,
    /// Smallest and largest one-way delay, ns.
    pub owd_ns: Option<(i64, i64)>,
    /// Arrival of the last datagram, ns.
    pub last_ns: Option<i64>,
    last_owd_ns: i64,
    /// Sum of all one-way delays, ns.
    owd_sum_ns: i128,
    /// `owd_sum_ns` and `received` at the last call of [`ReceiverCounters::take_mean_owd_ns`].
    taken: (i128, u64),
}

impl Default for ReceiverCounters {
    fn default() -> Self {
        ReceiverCounters {
            window: SequenceWindow::new(REORDERING_WINDOW),
            received: 0,
            bytes: 0,
            reordered: 0,
            duplicated: 0,
            jitter_ns: 0.0,
            owd_ns: None,
            last_ns: None,
            last_owd_ns: 0,
            owd_sum_ns: 0,
            taken: (0, 0),
        }
    }
}

impl ReceiverCounters {
    /// Records the arrival of datagram `number` (the first is 0) with `payload` bytes.
    #[inline]
    pub fn record(&mut self, number: u64, payload: u32, sent_ns: i64, now_ns: i64) -> SequenceOrder {
        let order = self.window.record(number);
        match order {
            SequenceOrder::Duplicate => {
                self.duplicated += 1;
                return order;
            }
            SequenceOrder::Late => self.reordered += 1,
            SequenceOrder::Newest => {}
        }
        self.received += 1;
        self.bytes += u64::from(payload);
        // The send time comes from the peer: it may have any value, and the difference must not overflow.
        let owd = now_ns.saturating_sub(sent_ns);
        if self.last_ns.is_some() {
            let difference = (owd as f64 - self.last_owd_ns as f64).abs();
            self.jitter_ns += (difference - self.jitter_ns) / 16.0;
        }
        (self.last_ns, self.last_owd_ns) = (Some(now_ns), owd);
        let (min, max) = self.owd_ns.unwrap_or((owd, owd));
        self.owd_ns = Some((min.min(owd), max.max(owd)));
        self.owd_sum_ns += i128::from(owd);
        order
    }

    /// The highest number plus one: datagrams received or lost.
    pub fn expected(&self) -> u64 {
        self.window.next()
    }

    /// Datagrams lost: those missing below the highest number.
    pub fn lost(&self) -> u64 {
        self.expected() - self.received
    }

    /// Mean one-way delay of all datagrams, ns.
    pub fn mean_owd_ns(&self) -> Option<i64> {
        mean(self.owd_sum_ns, self.received)
    }

    /// Mean one-way delay of the datagrams received since the last call, ns; `None` if there were none.
    pub fn take_mean_owd_ns(&mut self) -> Option<i64> {
        let (sum, count) = std::mem::replace(&mut self.taken, (self.owd_sum_ns, self.received));
        mean(self.owd_sum_ns - sum, self.received - count)
    }
}

fn mean(sum: i128, count: u64) -> Option<i64> {
    sum.checked_div(i128::from(count)).and_then(|mean| i64::try_from(mean).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_losses_reordering_duplicates_and_delays() {
        let mut counters = ReceiverCounters::default();
        for (number, now) in [(0, 100), (2, 320), (1, 330), (1, 340), (5, 700)] {
            counters.record(number, 1000, number as i64 * 100, now);
        }
        assert_eq!((counters.received, counters.bytes), (4, 4000));
        assert_eq!((counters.expected(), counters.lost()), (6, 2));
        assert_eq!((counters.reordered, counters.duplicated), (1, 1));
        assert_eq!(counters.owd_ns, Some((100, 230)));
        assert_eq!(counters.take_mean_owd_ns(), Some((100 + 120 + 230 + 200) / 4));
        assert_eq!(counters.take_mean_owd_ns(), None);
        counters.record(6, 1000, 600, 900);
        assert_eq!((counters.take_mean_owd_ns(), counters.mean_owd_ns()), (Some(300), Some(190)));
        // 20, 110, 30 and 100 ns of difference.
        let expected = [20.0, 110.0, 30.0, 100.0].iter().fold(0.0, |jitter, d| jitter + (d - jitter) / 16.0);
        assert!((counters.jitter_ns - expected).abs() < 1e-9, "{}", counters.jitter_ns);
    }

    proptest! {
        /// Whatever a peer writes into its datagrams, the counters add up and nothing overflows.
        #[test]
        fn counters_of_arbitrary_datagrams_add_up(
            all in prop::collection::vec((any::<u64>(), 0u32..65_508, any::<i64>(), 0i64..i64::MAX), 0..200),
            near in prop::collection::vec(0u64..300, 0..300),
        ) {
            let mut counters = ReceiverCounters::default();
            for number in &near {
                counters.record(*number, 1, 0, 0);
            }
            let mut distinct = near.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(counters.received, distinct.len() as u64);
            prop_assert_eq!(counters.duplicated, (near.len() - distinct.len()) as u64);
            prop_assert_eq!(counters.expected(), distinct.last().map_or(0, |last| last + 1));
            for (number, payload, sent, now) in &all {
                counters.record(number & (u64::MAX >> 1), *payload, *sent, *now);
            }
            prop_assert_eq!(counters.received + counters.duplicated, (near.len() + all.len()) as u64);
            prop_assert!(counters.lost() < u64::MAX / 2 && counters.jitter_ns.is_finite());
        }
    }
}
