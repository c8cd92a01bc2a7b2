//! A timer queue with one timer per object: a pipe of a network, or a flow of the simulator.

use units::Instant;

/// The object has no leaf in the tree yet.
const NO_LEAF: u32 = u32::MAX;

/// The timers of a fixed set of objects: a tournament tree (indexed priority queue). The earliest timer is
/// first, and of equal ones that of the lowest object.
///
/// A changed timer updates the tree upwards until a node keeps its value; no entry ever moves. Objects whose
/// timer was never armed (such as ideal pipes) have no leaf.
#[derive(Debug)]
pub struct TimerQueue {
    /// A complete binary tree. The earliest instant of all is at 1, those of the two halves are at 2 and 3,
    /// and so on. The second half of the array holds the leaves, in the order of the objects, so that the
    /// left one precedes at equal times.
    tree: Vec<Instant>,
    /// A copy of `tree[1]`, which is read before every event.
    earliest: Instant,
    /// The index of each object's leaf in `tree`.
    leaf_of: Vec<u32>,
    /// The object of each leaf.
    objects: Vec<u32>,
}

impl TimerQueue {
    /// A queue for this number of objects, with no timer armed.
    pub fn new(objects: usize) -> Self {
        TimerQueue {
            tree: vec![Instant::NEVER; 2],
            earliest: Instant::NEVER,
            leaf_of: vec![NO_LEAF; objects],
            objects: Vec::new(),
        }
    }

    /// Sets the timer of `object` to `at`, or disarms it.
    #[inline]
    pub fn arm(&mut self, object: usize, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::NEVER);
        let leaf = self.leaf_of[object];
        if leaf == NO_LEAF {
            if at < Instant::NEVER {
                self.add_leaf(object, at);
            }
        } else if self.tree[leaf as usize] != at {
            self.update(leaf as usize, at);
        }
    }

    /// Sets the timer of `object` to `at` unless it is armed for an earlier instant. So a timer that each
    /// packet postpones costs nothing until it expires.
    #[inline]
    pub fn arm_no_later_than(&mut self, object: usize, at: Option<Instant>) {
        let leaf = self.leaf_of[object];
        if leaf == NO_LEAF || at.unwrap_or(Instant::NEVER) < self.tree[leaf as usize] {
            self.arm(object, at);
        }
    }

    /// The earliest timer and its object, if it has expired by `now`. The caller must arm it again after the
    /// event.
    #[inline]
    pub fn due(&self, now: Instant) -> Option<(Instant, usize)> {
        if self.earliest > now || self.earliest == Instant::NEVER {
            return None;
        }
        let leaves = self.tree.len() / 2;
        let mut node = 1;
        while node < leaves {
            node = 2 * node + usize::from(self.tree[2 * node] != self.earliest);
        }
        Some((self.earliest, self.objects[node - leaves] as usize))
    }

    /// The earliest timer; [`Instant::NEVER`] if none is armed.
    #[inline]
    pub fn next(&self) -> Instant {
        self.earliest
    }

    /// Sets a leaf and updates the nodes above it, up to the first that keeps its value.
    #[inline(never)]
    fn update(&mut self, leaf: usize, at: Instant) {
        let (mut node, mut earliest) = (leaf, at);
        let tree = self.tree.as_mut_slice();
        while tree[node] != earliest {
            tree[node] = earliest;
            if node == 1 {
                self.earliest = earliest;
                return;
            }
            earliest = earliest.min(tree[node ^ 1]);
            node /= 2;
        }
    }

    /// Adds a leaf for an object whose timer is armed for the first time, and rebuilds the tree.
    #[cold]
    fn add_leaf(&mut self, object: usize, at: Instant) {
        let leaves = self.tree.split_off(self.tree.len() / 2);
        let mut all: Vec<(u32, Instant)> = self.objects.drain(..).zip(leaves).collect();
        let new = all.partition_point(|leaf| (leaf.0 as usize) < object);
        all.insert(new, (object as u32, at));
        let leaves = all.len().next_power_of_two();
        self.tree = vec![Instant::NEVER; 2 * leaves];
        for (i, (object, at)) in all.into_iter().enumerate() {
            self.objects.push(object);
            self.leaf_of[object as usize] = (leaves + i) as u32;
            self.tree[leaves + i] = at;
        }
        for node in (1..leaves).rev() {
            self.tree[node] = self.tree[2 * node].min(self.tree[2 * node + 1]);
        }
        self.earliest = self.tree[1];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However timers are rearmed: none is lost, none expires twice, and their order is correct.
        #[test]
        fn rearmed_timers_expire_once_and_in_order(
            steps in proptest::collection::vec((0usize..5, proptest::option::of(0u64..6), 0u32..4), 0..200),
        ) {
            let mut timers = TimerQueue::new(5);
            let mut reference: Vec<Option<Instant>> = vec![None; 5];
            let first = |reference: &[Option<Instant>]| {
                reference.iter().enumerate().filter_map(|(object, at)| at.map(|at| (at, object))).min()
            };
            for (object, at, then) in steps {
                timers.arm(object, at.map(Instant::from_nanos));
                reference[object] = at.map(Instant::from_nanos);
                prop_assert_eq!(timers.due(Instant::from_nanos(6)), first(&reference));
                let early = Instant::from_nanos(2);
                prop_assert_eq!(timers.due(early), first(&reference).filter(|first| first.0 <= early));
                prop_assert_eq!(timers.next(), first(&reference).map_or(Instant::NEVER, |first| first.0));
                if then == 0 && let Some((_, next)) = first(&reference) {
                    timers.arm(next, None);
                    reference[next] = None;
                }
            }
            while let Some(next) = first(&reference) {
                prop_assert_eq!(timers.due(next.0), Some(next));
                timers.arm(next.1, None);
                reference[next.1] = None;
            }
            prop_assert_eq!(timers.due(Instant::NEVER), None);
        }
    }
}
