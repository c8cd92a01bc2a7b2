//! What a receiver knows of a stream, readable at any time by whoever reports it.

use std::sync::{Mutex, MutexGuard};

use datagrams::Received;
use hdrhistogram::Histogram;

use super::{Header, Numbers, order::Order};
use crate::report;

/// The longest gap that the histogram tells from longer ones, ns.
const MOST_GAP_NS: u64 = 60_000_000_000;

/// A stream's statistics so far.
#[derive(Debug, Clone)]
pub struct Statistics {
    numbers: Numbers,
    order: Order,
    /// Losses, reordering, duplicates, delays and jitter.
    pub counts: Received,
    /// Times between two arrivals, ns, to two digits. Those that came in one piece (see `Arrivals::Coalesced`) are 0 apart.
    pub gaps: Histogram<u64>,
    /// Datagrams that are none of this stream's: too short, or with impossible numbers.
    pub malformed: u64,
    /// Packets that came to this host and were dropped as the socket's buffer was full (SO_RXQ_OVFL): the receiver's fault, not
    /// the path's. They are among the lost.
    pub dropped_at_socket: u64,
}

impl Statistics {
    /// Nothing has come yet.
    pub fn new(numbers: Numbers) -> Self {
        // From a nanosecond on, at least twice that, with at most five digits: then it cannot fail.
        let gaps = Histogram::new_with_bounds(1, MOST_GAP_NS, 2).expect("these bounds are valid");
        Statistics {
            numbers,
            order: Order::new(numbers),
            counts: Received::default(),
            gaps,
            malformed: 0,
            dropped_at_socket: 0,
        }
    }

    /// A datagram has come: its first bytes, its length and when it came (ns).
    #[inline]
    pub fn take(&mut self, bytes: &[u8], length: usize, now_ns: i64) {
        let placed = Header::read(self.numbers, bytes)
            .and_then(|header| Some((self.order.place(header.number)?, header.sent_ns)));
        let Some((place, sent_ns)) = placed else {
            self.malformed += 1;
            return;
        };
        let before = self.counts.last_ns;
        let received = self.counts.received;
        self.counts.take(place, length as u32, sent_ns, now_ns);
        // Duplicates are none of the sender's spacing.
        if let Some(before) = before
            && self.counts.received > received
        {
            self.gaps.saturating_record(u64::try_from(now_ns.saturating_sub(before)).unwrap_or(0));
        }
    }

    /// What a report says of it.
    pub fn datagrams(&self) -> report::Datagrams {
        report::Datagrams {
            packets: self.counts.expected(),
            lost: i64::try_from(self.counts.lost()).unwrap_or(i64::MAX),
            out_of_order: self.counts.reordered,
            jitter_s: self.counts.jitter_ns * 1e-9,
        }
    }

    /// How much longer than the shortest one-way delay the mean and the longest are, ns (RFC 5481 section 4.2). Free of the
    /// clocks' offset, not of their drift.
    pub fn delay_variation_ns(&self) -> Option<(i64, i64)> {
        let (least, most) = self.counts.owd_ns?;
        Some((self.counts.mean_owd_ns()?.saturating_sub(least), most.saturating_sub(least)))
    }
}

/// Statistics shared by the thread that receives and those that report.
#[derive(Debug)]
pub struct Tally(Mutex<Statistics>);

impl Tally {
    /// Nothing has come yet.
    pub fn new(numbers: Numbers) -> Self {
        Tally(Mutex::new(Statistics::new(numbers)))
    }

    /// The statistics as of now; the receiver waits meanwhile. A thread that panicked leaves them usable.
    pub fn lock(&self) -> MutexGuard<'_, Statistics> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// For the fuzzer: a byte that says how wide numbers are, then datagrams, each after its time of arrival (8 bytes) and its length
/// (1 byte). All are counted, once, and nothing panics.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((width, mut rest)) = data.split_first() else { return };
    let numbers = if width & 1 == 0 { Numbers::Bits32 } else { Numbers::Bits64 };
    let mut statistics = Statistics::new(numbers);
    let mut all = 0;
    while let Some((head, tail)) = rest.split_at_checked(9) {
        let now_ns = head[..8].iter().fold(0, |time, byte| time << 8 | i64::from(*byte));
        let (datagram, tail) = tail.split_at(usize::from(head[8]).min(tail.len()));
        statistics.take(datagram, datagram.len(), now_ns);
        all += 1;
        rest = tail;
    }
    let counts = &statistics.counts;
    assert_eq!(counts.received + counts.duplicated + statistics.malformed, all);
    assert!(counts.lost() <= counts.expected() && counts.reordered <= counts.received);
    assert!(statistics.datagrams().jitter_s.is_finite());
    assert!(statistics.delay_variation_ns().is_none_or(|(mean, most)| mean >= 0 && most >= mean));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn datagram(number: u64, sent_ns: i64) -> [u8; 16] {
        let mut bytes = [0; 16];
        Header { sent_ns, number }.write(Numbers::Bits64, &mut bytes);
        bytes
    }

    #[test]
    fn a_report_has_what_came() {
        let mut statistics = Statistics::new(Numbers::Bits64);
        for (number, now) in [(1, 5_000), (2, 15_000), (5, 25_000), (4, 35_000), (4, 36_000), (6, 45_000)] {
            statistics.take(&datagram(number, number as i64 * 10_000), 1448, now);
        }
        statistics.take(&[0; 4], 4, 46_000);
        statistics.take(&datagram(0, 0), 1448, 47_000);
        let report = statistics.datagrams();
        assert_eq!((report.packets, report.lost, report.out_of_order), (6, 1, 1));
        assert_eq!((statistics.counts.duplicated, statistics.malformed), (1, 2));
        assert_eq!(statistics.counts.bytes, 5 * 1448);
        // Four gaps of 10 us, to two digits.
        assert_eq!(statistics.gaps.len(), 4);
        assert!((statistics.gaps.mean() / 1e4 - 1.0).abs() < 0.01, "{}", statistics.gaps.mean());
        // Delays of -5, -5, -25, -5 and -15 us.
        assert_eq!(statistics.delay_variation_ns(), Some((14_000, 20_000)));
    }

    proptest! {
        /// Whatever a peer sends, at whatever times, is counted somewhere and breaks nothing.
        #[test]
        fn any_datagrams_are_counted(
            all in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..24), any::<i64>()), 0..100),
            good in 1u64..50,
            wide: bool,
        ) {
            let numbers = if wide { Numbers::Bits64 } else { Numbers::Bits32 };
            let mut statistics = Statistics::new(numbers);
            for (bytes, now) in &all {
                statistics.take(bytes, 65_507, *now);
            }
            let counts = &statistics.counts;
            prop_assert_eq!(counts.received + counts.duplicated + statistics.malformed, all.len() as u64);
            prop_assert!(statistics.datagrams().jitter_s.is_finite());
            // A stream among strangers' datagrams is counted whole.
            let mut mixed = Statistics::new(numbers);
            let mut bytes = [0; 16];
            for number in 1..=good {
                Header { sent_ns: 0, number }.write(numbers, &mut bytes);
                mixed.take(&bytes, 16, 0);
                mixed.take(&bytes[..8], 8, 0);
            }
            prop_assert_eq!((mixed.counts.received, mixed.counts.lost(), mixed.malformed), (good, 0, good));
        }
    }
}
