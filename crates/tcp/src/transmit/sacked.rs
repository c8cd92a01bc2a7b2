//! The selectively acknowledged ranges. They limit the processing of SACK blocks to the parts that are new.

use crate::segment::{after, before};
use std::collections::VecDeque;

/// Disjoint ranges, ascending.
#[derive(Debug, Default)]
pub(super) struct Sacked {
    ranges: VecDeque<(u32, u32)>,
}

impl Sacked {
    /// Removes ranges before `una`.
    pub(super) fn trim(&mut self, una: u32) {
        while self.ranges.front().is_some_and(|range| !after(range.1, una)) {
            self.ranges.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Adds a block; calls `on_new` with each part of it that is new, ascending.
    pub(super) fn add(&mut self, start: u32, end: u32, mut on_new: impl FnMut(u32, u32)) {
        // The ranges that touch or overlap the block.
        let first = self.ranges.partition_point(|range| before(range.1, start));
        let mut after_last = first;
        let mut merged = (start, end);
        let mut new_from = start;
        while let Some(range) = self.ranges.get(after_last).copied().filter(|range| !after(range.0, end)) {
            if before(new_from, range.0) {
                on_new(new_from, range.0);
            }
            new_from = if after(range.1, new_from) { range.1 } else { new_from };
            merged.0 = if before(range.0, merged.0) { range.0 } else { merged.0 };
            merged.1 = if after(range.1, merged.1) { range.1 } else { merged.1 };
            after_last += 1;
        }
        if before(new_from, end) {
            on_new(new_from, end);
        }
        match after_last - first {
            0 => self.ranges.insert(first, merged),
            1 => self.ranges[first] = merged,
            _ => {
                self.ranges[first] = merged;
                self.ranges.drain(first + 1..after_last);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_parts(sacked: &mut Sacked, start: u32, end: u32) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        sacked.add(start, end, |from, to| all.push((from, to)));
        all
    }

    #[test]
    fn only_new_parts_are_reported() {
        let mut sacked = Sacked::default();
        assert_eq!(new_parts(&mut sacked, 10, 20), [(10, 20)]);
        assert_eq!(new_parts(&mut sacked, 10, 25), [(20, 25)]);
        assert_eq!(new_parts(&mut sacked, 40, 50), [(40, 50)]);
        assert_eq!(new_parts(&mut sacked, 12, 18), []);
        assert_eq!(new_parts(&mut sacked, 5, 60), [(5, 10), (25, 40), (50, 60)]);
        assert_eq!(sacked.ranges, [(5, 60)]);
        sacked.trim(60);
        assert!(sacked.ranges.is_empty());
    }

    #[test]
    fn ranges_may_span_the_wrap_of_sequence_numbers() {
        let mut sacked = Sacked::default();
        assert_eq!(new_parts(&mut sacked, u32::MAX - 9, 10), [(u32::MAX - 9, 10)]);
        assert_eq!(new_parts(&mut sacked, u32::MAX - 19, 20), [(u32::MAX - 19, u32::MAX - 9), (10, 20)]);
    }
}
