//! Which pipe has something to do next.

use std::{cmp::Reverse, collections::BinaryHeap};

use units::Time;

/// When each pipe has something to do: a heap in which entries may have become void, so that a pipe's instant can
/// change at no cost. Ties go by pipe index.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// One entry for each pipe that has something to do, and void ones. The first is never void.
    heap: BinaryHeap<Reverse<(Time, usize)>>,
    /// What counts: an entry is void unless it says the same.
    armed: Vec<Option<Time>>,
}

impl Wakes {
    /// Nothing to do for any of so many pipes.
    pub(crate) fn new(pipes: usize) -> Self {
        Wakes { heap: BinaryHeap::new(), armed: vec![None; pipes] }
    }

    /// From now on `pipe` has something to do at `wake`, and only then.
    pub(crate) fn arm(&mut self, pipe: usize, wake: Option<Time>) {
        if self.armed[pipe] != wake {
            self.armed[pipe] = wake;
            if let Some(wake) = wake {
                self.heap.push(Reverse((wake, pipe)));
            }
            self.drop_void();
        }
    }

    /// The next instant at which there is something to do.
    pub(crate) fn first(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes out the pipe with the next thing to do; it is to be armed again.
    pub(crate) fn pop(&mut self) -> Option<usize> {
        let Reverse((_, pipe)) = self.heap.pop()?;
        self.armed[pipe] = None;
        self.drop_void();
        Some(pipe)
    }

    fn drop_void(&mut self) {
        while self.heap.peek().is_some_and(|Reverse((at, pipe))| self.armed[*pipe] != Some(*at)) {
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However instants are moved about, there and back: none is lost, none comes twice, and the order is right.
        #[test]
        fn moved_instants_are_neither_lost_nor_doubled(
            steps in proptest::collection::vec((0usize..5, proptest::option::of(0u64..6), 0u32..4), 0..200),
        ) {
            let mut wakes = Wakes::new(5);
            let mut plain: Vec<Option<Time>> = vec![None; 5];
            let first = |plain: &[Option<Time>]| {
                plain.iter().enumerate().filter_map(|(pipe, at)| at.map(|at| (at, pipe))).min()
            };
            for (pipe, at, then) in steps {
                wakes.arm(pipe, at.map(Time));
                plain[pipe] = at.map(Time);
                prop_assert_eq!(wakes.first(), first(&plain).map(|f| f.0));
                if then == 0 {
                    let next = first(&plain);
                    prop_assert_eq!(wakes.pop(), next.map(|f| f.1));
                    next.into_iter().for_each(|f| plain[f.1] = None);
                }
            }
            while let Some(next) = first(&plain) {
                prop_assert_eq!(wakes.pop(), Some(next.1));
                plain[next.1] = None;
            }
            prop_assert_eq!(wakes.pop(), None);
            prop_assert_eq!(wakes.heap.len(), 0);
        }
    }
}
