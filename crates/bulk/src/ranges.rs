//! A set of packet numbers, as disjoint ranges: the lost packets, or the arrived ones.

use std::collections::BTreeMap;

/// Disjoint, ascending, inclusive ranges.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    /// The last number of each range, by its first number.
    last_of: BTreeMap<u64, u64>,
    length: u64,
}

impl Ranges {
    /// Count of numbers in the set.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Count of disjoint ranges.
    pub(crate) fn range_count(&self) -> usize {
        self.last_of.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The smallest number.
    pub(crate) fn first(&self) -> Option<u64> {
        self.last_of.keys().next().copied()
    }

    /// The largest number.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last_of.values().next_back().copied()
    }

    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.last_of.iter().map(|(first, last)| (*first, *last))
    }

    /// The range that contains this number, or the next one.
    pub(crate) fn range_at_or_after(&self, index: u64) -> Option<(u64, u64)> {
        let at = self.last_of.range(..=index).next_back().filter(|(_, last)| **last >= index);
        at.or_else(|| self.last_of.range(index..).next()).map(|(first, last)| (*first, *last))
    }

    pub(crate) fn contains(&self, index: u64) -> bool {
        self.last_of.range(..=index).next_back().is_some_and(|(_, last)| *last >= index)
    }

    /// Adds `first..=last`; ranges that touch it are merged.
    pub(crate) fn insert(&mut self, mut first: u64, mut last: u64) {
        if first > last {
            return;
        }
        while let Some((&other, &end)) = self.last_of.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            first = first.min(other);
            last = last.max(end);
            self.last_of.remove(&other);
            self.length -= end - other + 1;
        }
        self.last_of.insert(first, last);
        self.length += last - first + 1;
    }

    /// Removes `first..=last`.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        while let Some((&other, &end)) = self.last_of.range(..=last).next_back() {
            if end < first {
                break;
            }
            self.last_of.remove(&other);
            self.length -= end - other + 1;
            if end > last {
                self.last_of.insert(last + 1, end);
                self.length += end - last;
            }
            if other < first {
                self.last_of.insert(other, first - 1);
                self.length += first - other;
                break;
            }
        }
    }

    /// Removes and returns the smallest number.
    pub(crate) fn pop_first(&mut self) -> Option<u64> {
        let (first, last) = self.last_of.pop_first()?;
        if last > first {
            self.last_of.insert(first + 1, last);
        }
        self.length -= 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_set(operations in proptest::collection::vec((0u8..3, 0u64..40, 0u64..12), 0..60)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (operation, first, length) in operations {
                let last = first + length;
                match operation {
                    0 => { ranges.insert(first, last); set.extend(first..=last); }
                    1 => { ranges.remove(first, last); set.retain(|index| !(first..=last).contains(index)); }
                    _ => prop_assert_eq!(ranges.pop_first(), set.pop_first()),
                }
                let listed: Vec<u64> = ranges.iter().flat_map(|(first, last)| first..=last).collect();
                prop_assert_eq!(listed, set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(ranges.len(), set.len() as u64);
                prop_assert_eq!(ranges.first(), set.first().copied());
                prop_assert_eq!(ranges.last(), set.last().copied());
                for index in 0..60 {
                    prop_assert_eq!(ranges.contains(index), set.contains(&index));
                    let next = ranges.range_at_or_after(index).map(|(first, _)| first.max(index));
                    prop_assert_eq!(next, set.range(index..).next().copied());
                }
            }
        }
    }
}
