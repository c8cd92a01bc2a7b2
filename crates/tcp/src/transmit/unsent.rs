//! Written and unsent data, as a run-length encoded list: a window of data may wait here as single segments
//! of one length.

use std::collections::VecDeque;

/// A packet that is being filled with written data, up to the size goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Chunk {
    pub(super) len: u32,
    pub(super) fin: bool,
    /// A write ended with it, waited for space after it, or was pushed there: its last segment has PSH.
    pub(super) push: bool,
}

impl Chunk {
    pub(super) fn of(len: u32) -> Chunk {
        Chunk { len, ..Chunk::default() }
    }
}

/// Chunks in order. Only the last can grow.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    /// Runs of equal chunks with their lengths; the last run has length 1.
    runs: VecDeque<(Chunk, u32)>,
    count: usize,
}

impl Unsent {
    /// Number of chunks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&Chunk> {
        self.runs.front().map(|run| &run.0)
    }

    #[inline]
    pub(super) fn back(&self) -> Option<&Chunk> {
        self.runs.back().map(|run| &run.0)
    }

    /// The chunk that can grow.
    #[inline]
    pub(super) fn back_mut(&mut self) -> Option<&mut Chunk> {
        self.runs.back_mut().map(|run| &mut run.0)
    }

    /// Appends a chunk; the chunk before it no longer grows.
    pub(super) fn push_back(&mut self, chunk: Chunk) {
        self.count += 1;
        let runs = self.runs.len();
        if runs >= 2 && self.runs[runs - 2].0 == self.runs[runs - 1].0 {
            self.runs[runs - 2].1 += 1;
            self.runs[runs - 1] = (chunk, 1);
        } else {
            self.runs.push_back((chunk, 1));
        }
    }

    /// Appends `count` equal chunks, at least one; the chunks before no longer grow.
    pub(super) fn push_many(&mut self, chunk: Chunk, count: u32) {
        self.push_back(chunk);
        // All except the last, which can grow, form a run.
        let before = count - 1;
        let last = self.runs.len() - 1;
        match last.checked_sub(1).map(|index| &mut self.runs[index]) {
            _ if before == 0 => {}
            Some(run) if run.0 == chunk => run.1 += before,
            _ => self.runs.insert(last, (chunk, before)),
        }
        self.count += before as usize;
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        let Some(run) = self.runs.front_mut() else { return };
        self.count -= 1;
        run.1 -= 1;
        if run.1 == 0 {
            self.runs.pop_front();
        }
    }

    /// The first `len` bytes of the first chunk, which is longer, become a separate chunk.
    pub(super) fn split_front(&mut self, len: u32) {
        self.shorten_front(len);
        self.runs.push_front((Chunk::of(len), 1));
        self.count += 1;
    }

    /// Moves up to `missing` bytes from the second chunk to the first. Returns the new first chunk.
    pub(super) fn refill_front(&mut self, missing: u32) -> Chunk {
        let mut first = self.front().copied().unwrap_or(Chunk::of(0));
        self.pop_front();
        if let Some(next) = self.front().copied() {
            let taken = missing.min(next.len);
            first.len += taken;
            if taken == next.len {
                (first.fin, first.push) = (next.fin, first.push | next.push);
                self.pop_front();
            } else {
                self.shorten_front(taken);
            }
        }
        self.runs.push_front((first, 1));
        self.count += 1;
        first
    }

    /// Removes the first `len` bytes of the first chunk, which is longer.
    pub(super) fn shorten_front(&mut self, len: u32) {
        let Some(run) = self.runs.front_mut() else { return };
        let remainder = Chunk { len: run.0.len - len, ..run.0 };
        if run.1 == 1 {
            run.0 = remainder;
        } else {
            run.1 -= 1;
            self.runs.push_front((remainder, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result is that of a plain list of chunks.
        #[test]
        fn runs_behave_like_a_list(steps in proptest::collection::vec((0u8..7, 1u32..4), 0..300)) {
            let (mut unsent, mut plain) = (Unsent::default(), VecDeque::<Chunk>::new());
            for (step, len) in steps {
                let longer = plain.front().is_some_and(|chunk| chunk.len > len);
                match step {
                    0 | 1 => {
                        unsent.push_back(Chunk::of(len));
                        plain.push_back(Chunk::of(len));
                    }
                    2 => {
                        unsent.pop_front();
                        plain.pop_front();
                    }
                    3 => {
                        unsent.back_mut().into_iter().for_each(|last| last.len += len);
                        plain.back_mut().into_iter().for_each(|last| last.len += len);
                    }
                    4 => {
                        unsent.push_many(Chunk::of(2), len);
                        plain.extend(vec![Chunk::of(2); len as usize]);
                    }
                    5 if plain.len() > 1 => {
                        let taken = len.min(plain[1].len);
                        (plain[0].len, plain[1].len) = (plain[0].len + taken, plain[1].len - taken);
                        if plain[1].len == 0 {
                            plain.remove(1);
                        }
                        prop_assert_eq!(unsent.refill_front(len), plain[0]);
                    }
                    6 if longer => {
                        plain[0].len -= len;
                        if len == 1 {
                            unsent.shorten_front(len);
                        } else {
                            unsent.split_front(len);
                            plain.push_front(Chunk::of(len));
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!((unsent.len(), unsent.front(), unsent.back()), (plain.len(), plain.front(), plain.back()));
            }
            while let Some(chunk) = plain.pop_front() {
                prop_assert_eq!(unsent.front(), Some(&chunk));
                unsent.pop_front();
            }
            prop_assert!(unsent.is_empty());
        }
    }

    #[test]
    fn a_window_of_equal_segments_needs_two_runs() {
        let mut unsent = Unsent::default();
        for _ in 0..200_000 {
            unsent.push_back(Chunk::of(0));
            unsent.back_mut().unwrap().len = 1448;
        }
        assert_eq!((unsent.len(), unsent.runs.len()), (200_000, 2));
    }
}
