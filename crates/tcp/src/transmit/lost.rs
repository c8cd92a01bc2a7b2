//! Packets that are to be sent again, by sequence number.
//!
//! Nearly always they are found to be lost in that order, and then they stand in a row; the few that come before others are
//! in a heap beside it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Extended sequence number and id of a packet.
type Entry = (u64, u32);

/// The packets, first things first.
#[derive(Debug, Default)]
pub(super) struct Lost {
    row: VecDeque<Entry>,
    others: BinaryHeap<Reverse<Entry>>,
}

impl Lost {
    /// Adds a packet.
    pub(super) fn push(&mut self, entry: Entry) {
        match self.row.back() {
            Some(last) if entry < *last => self.others.push(Reverse(entry)),
            _ => self.row.push_back(entry),
        }
    }

    /// The one that comes first.
    pub(super) fn first(&self) -> Option<Entry> {
        let other = self.others.peek().map(|other| other.0);
        self.row.front().copied().into_iter().chain(other).min()
    }

    /// Takes the one that comes first.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let first = self.first()?;
        if self.row.front() == Some(&first) {
            self.row.pop_front()
        } else {
            self.others.pop().map(|other| other.0)
        }
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.row.clear();
        self.others.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// They come out in order, however they went in.
        #[test]
        fn the_first_comes_first(steps in proptest::collection::vec(proptest::option::of((0u64..50, 0u32..3)), 0..200)) {
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
