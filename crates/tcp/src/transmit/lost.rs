//! Lost packets that wait for retransmission, by sequence number (a priority queue).
//!
//! Packets are nearly always marked lost in that order, so most are appended to a deque. The few others are
//! in a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Extended sequence number and id of a packet.
type Entry = (u64, u32);

/// The lost packets.
#[derive(Debug, Default)]
pub(super) struct Lost {
    in_order: VecDeque<Entry>,
    others: BinaryHeap<Reverse<Entry>>,
}

impl Lost {
    /// Adds a packet.
    pub(super) fn push(&mut self, entry: Entry) {
        match self.in_order.back() {
            Some(last) if entry < *last => self.others.push(Reverse(entry)),
            _ => self.in_order.push_back(entry),
        }
    }

    /// The packet with the lowest sequence number.
    pub(super) fn first(&self) -> Option<Entry> {
        let other = self.others.peek().map(|other| other.0);
        self.in_order.front().copied().into_iter().chain(other).min()
    }

    /// Takes the packet with the lowest sequence number.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let first = self.first()?;
        if self.in_order.front() == Some(&first) {
            self.in_order.pop_front()
        } else {
            self.others.pop().map(|other| other.0)
        }
    }

    /// Removes all packets.
    pub(super) fn clear(&mut self) {
        self.in_order.clear();
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Packets leave in order, whatever the order of insertion.
        #[test]
        fn lost_packets_are_taken_in_sequence_order(steps in proptest::collection::vec(proptest::option::of((0u64..50, 0u32..3)), 0..200)) {
            let (mut lost, mut plain) = (Lost::default(), Vec::new());
            for step in steps {
                match step {
                    Some(entry) => {
                        lost.push(entry);
                        plain.push(entry);
                        plain.sort_unstable();
                    }
                    None => {
                        let first = (!plain.is_empty()).then(|| plain.remove(0));
                        prop_assert_eq!(lost.pop(), first);
                    }
                }
                prop_assert_eq!(lost.first(), plain.first().copied());
            }
        }
    }
}
