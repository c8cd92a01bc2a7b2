//! A receiver's statistics of a stream, which other threads can read at any time.

use std::sync::{Mutex, MutexGuard};

use datagrams::ReceiverCounters;
use hdrhistogram::Histogram;

use super::{Header, NumberWidth, number_unwrapper::NumberUnwrapper};

/// The histogram's upper bound, ns; longer gaps are counted as this value.
const MAX_GAP_NS: u64 = 60_000_000_000;

/// A stream's statistics so far.
#[derive(Debug, Clone)]
pub struct ReceiverStatistics {
    numbers: NumberWidth,
    unwrapper: NumberUnwrapper,
    /// Losses, reordering, duplicates, delays and jitter.
    pub counts: ReceiverCounters,
    /// Times between two arrivals, ns, to two significant digits; 0 between coalesced datagrams
    /// (`ArrivalTimes::Coalesced`).
    pub gaps: Histogram<u64>,
    /// Datagrams that do not belong to this stream: too short, or with impossible numbers.
    pub malformed: u64,
    /// Packets that arrived at this host and were dropped because the socket's buffer was full (SO_RXQ_OVFL):
    /// the receiver lost them, not the path. They are included in the lost datagrams.
    pub dropped_at_socket: u64,
}

impl ReceiverStatistics {
    /// Empty statistics.
    pub fn new(numbers: NumberWidth) -> Self {
        // Cannot fail: the lower bound is at least 1, the upper at least twice that, and there are at most
        // five digits.
        let gaps = Histogram::new_with_bounds(1, MAX_GAP_NS, 2).expect("these bounds are valid");
        ReceiverStatistics {
            numbers,
            unwrapper: NumberUnwrapper::new(numbers),
            counts: ReceiverCounters::default(),
            gaps,
            malformed: 0,
            dropped_at_socket: 0,
        }
    }

    /// Records a received datagram: its first bytes, its length and its time of arrival (ns).
    #[inline]
    pub fn record(&mut self, bytes: &[u8], length: usize, now_ns: i64) {
        let numbered = Header::read(self.numbers, bytes)
            .and_then(|header| Some((self.unwrapper.index(header.number)?, header.sent_ns)));
        let Some((index, sent_ns)) = numbered else {
            self.malformed += 1;
            return;
        };
        let before = self.counts.last_ns;
        let received = self.counts.received;
        self.counts.record(index, length as u32, sent_ns, now_ns);
        // Duplicates are not part of the sender's spacing.
        if let Some(before) = before
            && self.counts.received > received
        {
            self.gaps.saturating_record(u64::try_from(now_ns.saturating_sub(before)).unwrap_or(0));
        }
    }

    /// The mean and the maximum one-way delay minus the minimum, ns (RFC 5481 section 4.2). The offset of the
    /// clocks cancels out, but not their drift.
    pub fn delay_variation_ns(&self) -> Option<(i64, i64)> {
        let (min, max) = self.counts.owd_ns?;
        Some((self.counts.mean_owd_ns()?.saturating_sub(min), max.saturating_sub(min)))
    }
}

/// Statistics shared by the receiving thread and the threads that report.
#[derive(Debug)]
pub struct SharedStatistics(Mutex<ReceiverStatistics>);

impl SharedStatistics {
    /// Empty statistics.
    pub fn new(numbers: NumberWidth) -> Self {
        SharedStatistics(Mutex::new(ReceiverStatistics::new(numbers)))
    }

    /// The current statistics; the receiver waits while they are locked. They remain usable if a thread
    /// panicked while it held the lock.
    pub fn lock(&self) -> MutexGuard<'_, ReceiverStatistics> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Fuzz target. The input: a byte for the width of the numbers, then datagrams, each after its time of
/// arrival (8 bytes) and its length (1 byte). Each must be counted once, without a panic.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((width, mut rest)) = data.split_first() else { return };
    let numbers = if width & 1 == 0 { NumberWidth::Bits32 } else { NumberWidth::Bits64 };
    let mut statistics = ReceiverStatistics::new(numbers);
    let mut all = 0;
    while let Some((head, tail)) = rest.split_at_checked(9) {
        let now_ns = head[..8].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
        let (datagram, tail) = tail.split_at(usize::from(head[8]).min(tail.len()));
        statistics.record(datagram, datagram.len(), now_ns);
        all += 1;
        rest = tail;
    }
    let counts = &statistics.counts;
    assert_eq!(counts.received + counts.duplicated + statistics.malformed, all);
    assert!(counts.lost() <= counts.expected() && counts.reordered <= counts.received);
    assert!(statistics.counts.jitter_ns.is_finite());
    assert!(statistics.delay_variation_ns().is_none_or(|(mean, max)| mean >= 0 && max >= mean));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn datagram(number: u64, sent_ns: i64) -> [u8; 16] {
        let mut bytes = [0; 16];
        Header { sent_ns, number }.write(NumberWidth::Bits64, &mut bytes);
        bytes
    }

    #[test]
    fn received_datagrams_are_counted() {
        let mut statistics = ReceiverStatistics::new(NumberWidth::Bits64);
        for (number, now) in [(1, 5_000), (2, 15_000), (5, 25_000), (4, 35_000), (4, 36_000), (6, 45_000)] {
            statistics.record(&datagram(number, number as i64 * 10_000), 1448, now);
        }
        statistics.record(&[0; 4], 4, 46_000);
        statistics.record(&datagram(0, 0), 1448, 47_000);
        let counts = &statistics.counts;
        assert_eq!((counts.expected(), counts.lost(), counts.reordered), (6, 1, 1));
        assert_eq!((statistics.counts.duplicated, statistics.malformed), (1, 2));
        assert_eq!(statistics.counts.bytes, 5 * 1448);
        // Four gaps of 10 us, to two significant digits.
        assert_eq!(statistics.gaps.len(), 4);
        assert!((statistics.gaps.mean() / 1e4 - 1.0).abs() < 0.01, "{}", statistics.gaps.mean());
        // Delays of -5, -5, -25, -5 and -15 us.
        assert_eq!(statistics.delay_variation_ns(), Some((14_000, 20_000)));
    }

    proptest! {
        /// Arbitrary datagrams at arbitrary times are counted and cause no panic.
        #[test]
        fn arbitrary_datagrams_are_counted(
            all in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..24), any::<i64>()), 0..100),
            good in 1u64..50,
            wide: bool,
        ) {
            let numbers = if wide { NumberWidth::Bits64 } else { NumberWidth::Bits32 };
            let mut statistics = ReceiverStatistics::new(numbers);
            for (bytes, now) in &all {
                statistics.record(bytes, 65_507, *now);
            }
            let counts = &statistics.counts;
            prop_assert_eq!(counts.received + counts.duplicated + statistics.malformed, all.len() as u64);
            prop_assert!(statistics.counts.jitter_ns.is_finite());
            // Datagrams of other streams do not change the counts of a stream.
            let mut mixed = ReceiverStatistics::new(numbers);
            let mut bytes = [0; 16];
            for number in 1..=good {
                Header { sent_ns: 0, number }.write(numbers, &mut bytes);
                mixed.record(&bytes, 16, 0);
                mixed.record(&bytes[..8], 8, 0);
            }
            prop_assert_eq!((mixed.counts.received, mixed.counts.lost(), mixed.malformed), (good, 0, good));
        }
    }
}
