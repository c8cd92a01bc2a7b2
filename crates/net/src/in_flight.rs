//! Packets in flight to the other end of a link, in order of their due time. Entries are as small as
//! possible, because there are as many of them as packets in a window.
//!
//! Times are stored as 32-bit spans: from one packet to the next, and from one end of a train to the other.
//! Times that do not fit (seconds without a packet on a long link, trains on a slow one) are stored in full
//! in a second queue.

use std::{collections::VecDeque, mem::ManuallyDrop};

use units::{Instant, Time};

use crate::TrainTimes;

/// A queue of packets in flight.
pub(crate) struct InFlight<P> {
    entries: VecDeque<Entry<P>>,
    /// The full times of entries marked as [`IN_FULL`].
    full_times: VecDeque<(Instant, TrainTimes)>,
    /// When the first packet is due.
    first: Instant,
    /// When the last packet is due.
    last: Instant,
}

struct Entry<P> {
    /// Due time after the entry before, ns; [`IN_FULL`]: see `full_times`.
    after: u32,
    /// From the due time to the train's last segment, ns; if negative, from the first segment to the due
    /// time.
    span: i32,
    /// `ManuallyDrop` avoids cleanup code where a call could panic, so the packet is moved only once. See
    /// `drop`.
    packet: ManuallyDrop<P>,
}

/// The times of the entry do not fit into 32 bits.
const IN_FULL: u32 = u32::MAX;

impl<P> InFlight<P> {
    pub(crate) fn new() -> Self {
        InFlight {
            entries: VecDeque::new(),
            full_times: VecDeque::new(),
            first: Instant::ZERO,
            last: Instant::ZERO,
        }
    }

    /// Appends a packet whose segments all arrive at `due`, which must not be earlier than the last packet's
    /// due time.
    #[inline(always)]
    pub(crate) fn push_single(&mut self, due: Instant, packet: P) {
        let after = self.gap_before(due).as_nanos();
        let after = if after < u64::from(IN_FULL) {
            after as u32
        } else {
            self.store_in_full(due, TrainTimes::at(due))
        };
        self.append(Entry { after, span: 0, packet: ManuallyDrop::new(packet) });
    }

    /// Appends a packet that is due with the first or the last segment of `train`. `due` must not be earlier
    /// than the last packet's due time.
    #[inline]
    pub(crate) fn push(&mut self, due: Instant, train: TrainTimes, packet: P) {
        let span = if due == train.last {
            i32::try_from(due.since(train.first).as_nanos()).map(|span| -span)
        } else {
            i32::try_from(train.last.since(due).as_nanos())
        };
        let after = self.gap_before(due).as_nanos();
        let (after, span) = match span {
            Ok(span) if after < u64::from(IN_FULL) => (after as u32, span),
            _ => (self.store_in_full(due, train), 0),
        };
        self.append(Entry { after, span, packet: ManuallyDrop::new(packet) });
    }

    /// Makes `due` the last due time, and returns the span since the one before; zero for the first packet.
    #[inline]
    fn gap_before(&mut self, due: Instant) -> Time {
        if self.entries.is_empty() {
            (self.first, self.last) = (due, due);
        }
        due.since(std::mem::replace(&mut self.last, due))
    }

    /// Stores the times of a packet in full.
    #[cold]
    fn store_in_full(&mut self, due: Instant, train: TrainTimes) -> u32 {
        self.full_times.push_back((due, train));
        IN_FULL
    }

    #[inline]
    fn append(&mut self, entry: Entry<P>) {
        if self.entries.len() == self.entries.capacity() {
            self.grow();
        }
        self.entries.push_back(entry);
    }

    /// Grows by 1/32: doubling would waste half of a large window's memory.
    #[cold]
    fn grow(&mut self) {
        self.entries.reserve_exact(16 + self.entries.len() / 32);
    }

    /// When the first packet is due.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// Takes the first packet if it is due.
    #[inline]
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(TrainTimes, P)> {
        if self.first > now { None } else { self.take() }
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(TrainTimes, P)> {
        let Entry { after, span, packet } = self.entries.pop_front()?;
        let due = self.first;
        let train = if after == IN_FULL {
            self.full_times.pop_front()?.1
        } else if span < 0 {
            TrainTimes { first: due.earlier_by(Time::from_nanos(span.unsigned_abs().into())), last: due }
        } else {
            TrainTimes { first: due, last: due.later_by(Time::from_nanos(span as u64)) }
        };
        if let Some(next) = self.entries.front() {
            self.first = match next.after {
                IN_FULL => self.full_times.front()?.0,
                after => due.later_by(Time::from_nanos(after.into())),
            };
        }
        Some((train, ManuallyDrop::into_inner(packet)))
    }
}

impl<P> Drop for InFlight<P> {
    fn drop(&mut self) {
        self.entries.drain(..).for_each(|entry| drop(ManuallyDrop::into_inner(entry.packet)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_times_of_a_packet_take_eight_bytes() {
        assert_eq!(size_of::<Entry<u64>>(), 16);
    }

    proptest! {
        /// Packets come out when due, with their times, however far apart packets and ends of trains are.
        #[test]
        fn packets_keep_their_order_and_times(
            steps in proptest::collection::vec(
                (0usize..4, prop_oneof![0u64..3, Just(5_000_000_000u64), Just(0xffff_ffff)],
                 prop_oneof![0u64..3, Just(3_000_000_000u64), Just(0x8000_0000)], any::<bool>()),
                0..100,
            ),
        ) {
            let (mut in_flight, mut reference) = (InFlight::new(), VecDeque::new());
            let mut due = 10_000_000_000;
            for (number, (takes, gap, span, first)) in steps.into_iter().enumerate() {
                due += gap;
                let train = if first {
                    TrainTimes { first: Instant::from_nanos(due), last: Instant::from_nanos(due + span) }
                } else {
                    TrainTimes { first: Instant::from_nanos(due - span), last: Instant::from_nanos(due) }
                };
                in_flight.push(Instant::from_nanos(due), train, number);
                reference.push_back((Instant::from_nanos(due), train, number));
                for _ in 0..takes {
                    prop_assert_eq!(in_flight.next_due(), reference.front().map(|front| front.0));
                    let early = in_flight.next_due().unwrap_or_default();
                    let early = early.saturating_sub(Time::from_nanos(1));
                    prop_assert_eq!(in_flight.pop(early), None);
                    let popped = in_flight.pop(Instant::from_nanos(due));
                    prop_assert_eq!(popped, reference.pop_front().map(|front| (front.1, front.2)));
                }
            }
            while let Some((at, train, number)) = reference.pop_front() {
                prop_assert_eq!(in_flight.next_due(), Some(at));
                prop_assert_eq!(in_flight.take(), Some((train, number)));
            }
            prop_assert_eq!(in_flight.take(), None);
        }
    }
}
