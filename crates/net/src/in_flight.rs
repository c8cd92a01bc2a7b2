//! Packets on their way to the other end of a link, in the order in which they are due: as small as can be, for there are
//! as many of them as a window has.
//!
//! Instants are kept as spans of 32 bits, a packet's after the one before it and a train's from one end to the other. What
//! does not fit (seconds without a packet on a long link, trains on a slow one) is kept in full beside them.

use std::{collections::VecDeque, mem::ManuallyDrop};

use units::Time;

use crate::Train;

/// The packets.
pub(crate) struct InFlight<P> {
    items: VecDeque<Item<P>>,
    /// Of items that say so, instants in full.
    odd: VecDeque<(Time, Train)>,
    /// When the first and the last are due.
    first: Time,
    last: Time,
}

struct Item<P> {
    /// How long after the one before it this is due, ns; [`ODD`]: `odd` tells.
    after: u32,
    /// From when it is due to the train's last segment, ns; from the first segment, if negative.
    span: i32,
    /// So that nothing has to be done about it where a call could panic, and it is moved once. See `drop`.
    packet: ManuallyDrop<P>,
}

const ODD: u32 = u32::MAX;

impl<P> InFlight<P> {
    pub(crate) fn new() -> Self {
        InFlight { items: VecDeque::new(), odd: VecDeque::new(), first: Time(0), last: Time(0) }
    }

    /// A packet of one segment, or whose segments come at one instant, that is not due before those that are here.
    #[inline(always)]
    pub(crate) fn push_one(&mut self, due: Time, packet: P) {
        let after = self.gap_before(due);
        let after = if after < u64::from(ODD) { after as u32 } else { self.note_odd(due, Train::at(due)) };
        self.append(Item { after, span: 0, packet: ManuallyDrop::new(packet) });
    }

    /// A packet that is due at the train's first segment or its last, and not before those that are here.
    #[inline]
    pub(crate) fn push(&mut self, due: Time, train: Train, packet: P) {
        let span = if due == train.last {
            i32::try_from(due.0 - train.first.0).map(|span| -span)
        } else {
            i32::try_from(train.last.0 - due.0)
        };
        let after = self.gap_before(due);
        let (after, span) = match span {
            Ok(span) if after < u64::from(ODD) => (after as u32, span),
            _ => (self.note_odd(due, train), 0),
        };
        self.append(Item { after, span, packet: ManuallyDrop::new(packet) });
    }

    /// How long after the last packet one is due that is the last from now on; a first one is due at once.
    #[inline]
    fn gap_before(&mut self, due: Time) -> u64 {
        if self.items.is_empty() {
            (self.first, self.last) = (due, due);
        }
        due.0 - std::mem::replace(&mut self.last, due).0
    }

    /// Keeps the instants of a packet in full.
    #[cold]
    fn note_odd(&mut self, due: Time, train: Train) -> u32 {
        self.odd.push_back((due, train));
        ODD
    }

    #[inline]
    fn append(&mut self, item: Item<P>) {
        if self.items.len() == self.items.capacity() {
            self.grow();
        }
        self.items.push_back(item);
    }

    /// Doubling would waste half of a large window's memory.
    #[cold]
    fn grow(&mut self) {
        self.items.reserve_exact(16 + self.items.len() / 32);
    }

    /// When the first packet is due.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Time> {
        (!self.items.is_empty()).then_some(self.first)
    }

    /// Takes the first packet, if it is due.
    #[inline]
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Train, P)> {
        if self.first > now { None } else { self.take() }
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Train, P)> {
        let Item { after, span, packet } = self.items.pop_front()?;
        let due = self.first;
        let train = if after == ODD {
            self.odd.pop_front()?.1
        } else if span < 0 {
            Train { first: Time(due.0 - u64::from(span.unsigned_abs())), last: due }
        } else {
            Train { first: due, last: Time(due.0 + span as u64) }
        };
        if let Some(next) = self.items.front() {
            self.first = match next.after {
                ODD => self.odd.front()?.0,
                after => Time(due.0 + u64::from(after)),
            };
        }
        Some((train, ManuallyDrop::into_inner(packet)))
    }
}

impl<P> Drop for InFlight<P> {
    fn drop(&mut self) {
        self.items.drain(..).for_each(|item| drop(ManuallyDrop::into_inner(item.packet)));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_instant_takes_eight_bytes() {
        assert_eq!(size_of::<Item<u64>>(), 16);
    }

    proptest! {
        /// What comes out is what went in, when it is due, however far apart packets and trains' ends are.
        #[test]
        fn nothing_is_changed(
            steps in proptest::collection::vec(
                (0usize..4, prop_oneof![0u64..3, Just(5_000_000_000u64), Just(0xffff_ffff)],
                 prop_oneof![0u64..3, Just(3_000_000_000u64), Just(0x8000_0000)], any::<bool>()),
                0..100,
            ),
        ) {
            let (mut wire, mut plain) = (InFlight::new(), VecDeque::new());
            let mut due = 10_000_000_000;
            for (number, (takes, gap, span, first)) in steps.into_iter().enumerate() {
                due += gap;
                let train = if first {
                    Train { first: Time(due), last: Time(due + span) }
                } else {
                    Train { first: Time(due - span), last: Time(due) }
                };
                wire.push(Time(due), train, number);
                plain.push_back((Time(due), train, number));
                for _ in 0..takes {
                    prop_assert_eq!(wire.next_due(), plain.front().map(|front| front.0));
                    let early = wire.next_due().map_or(Time(0), |at| Time(at.0 - 1));
                    prop_assert_eq!(wire.pop(early), None);
                    let popped = wire.pop(Time(due));
                    prop_assert_eq!(popped, plain.pop_front().map(|front| (front.1, front.2)));
                }
            }
            while let Some((at, train, number)) = plain.pop_front() {
                prop_assert_eq!(wire.next_due(), Some(at));
                prop_assert_eq!(wire.take(), Some((train, number)));
            }
            prop_assert_eq!(wire.take(), None);
        }
    }
}
