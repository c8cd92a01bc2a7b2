//! The order of the tests of a full mesh, so that no point has two tests at once.

/// The turn in which point `from` tests point `to`, from 0: a round-robin tournament by the circle method, in
/// which each point has at most one test in each turn, and each pair has a turn in each direction. `count`
/// points, an even number, need 2 x (`count` - 1) turns.
pub fn round_robin_turn(from: usize, to: usize, count: usize) -> u64 {
    let others = count - 1;
    let round = match (from.min(to), from.max(to)) {
        // The last point keeps its position, the others rotate.
        (one, last) if last == others => 2 * one % others,
        (one, other) => (one + other) % others,
    };
    (2 * round + usize::from(from > to)) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pair_has_a_turn_in_which_neither_point_has_another_test() {
        for count in [2, 4, 6, 12] {
            let mut busy = BTreeSet::new();
            for from in 0..count {
                for to in (0..count).filter(|to| *to != from) {
                    let turn = round_robin_turn(from, to, count);
                    assert!(busy.insert((turn, from)) && busy.insert((turn, to)), "{from} to {to} in {turn}");
                    assert!(turn < 2 * (count as u64 - 1));
                }
            }
        }
    }
}
