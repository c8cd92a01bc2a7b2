//! A binary search that begins near its end.

/// The first place below `count` for which `is_before` is false, or `count`; it is true for all places before that one.
///
/// Costs the logarithm of how far `guess` is off, so two questions where it is right.
pub(crate) fn partition_near(count: usize, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    // What lies below `low` is before, `high` is not. Steps away from the guess double until it lies between both.
    let (mut low, mut high, mut step) = (0, count, 1);
    let guess = guess.min(count.saturating_sub(1));
    if count > 0 && is_before(guess) {
        low = guess + 1;
        while count - low >= step {
            let place = low + step - 1;
            if !is_before(place) {
                high = place;
                break;
            }
            (low, step) = (place + 1, 2 * step);
        }
    } else {
        high = guess;
        while high >= step {
            let place = high - step;
            if is_before(place) {
                low = place + 1;
                break;
            }
            (high, step) = (place, 2 * step);
        }
    }
    while low < high {
        let place = low.midpoint(high);
        if is_before(place) {
            low = place + 1;
        } else {
            high = place;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the guess, it finds what a search through all finds.
        #[test]
        fn the_guess_changes_nothing(count in 0usize..200, guess in 0usize..300, point in 0usize..200) {
            let point = point.min(count);
            prop_assert_eq!(partition_near(count, guess, |place| place < point), point);
        }
    }

    #[test]
    fn a_right_guess_costs_two_questions() {
        let asked = std::cell::Cell::new(0);
        let is_before = |place: usize| {
            asked.set(asked.get() + 1);
            place < 77_777
        };
        assert_eq!(partition_near(200_000, 77_777, is_before), 77_777);
        assert_eq!(asked.get(), 2);
        assert_eq!(partition_near(200_000, 77_770, is_before), 77_777);
        assert!(asked.get() < 12, "{}", asked.get());
    }
}
