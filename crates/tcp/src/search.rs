//! Binary search from a guess (galloping search).

/// Returns the first index below `count` for which `is_before` is false, or `count`. `is_before` must be true
/// for all lower indices.
///
/// The cost is logarithmic in the error of `guess`: two calls of `is_before` if it is exact.
pub(crate) fn partition_near(count: usize, guess: usize, is_before: impl Fn(usize) -> bool) -> usize {
    // `is_before` is true below `low` and false at `high`. The step away from the guess doubles until the two
    // enclose the result.
    let (mut low, mut high, mut step) = (0, count, 1);
    let guess = guess.min(count.saturating_sub(1));
    if count > 0 && is_before(guess) {
        low = guess + 1;
        while count - low >= step {
            let index = low + step - 1;
            if !is_before(index) {
                high = index;
                break;
            }
            (low, step) = (index + 1, 2 * step);
        }
    } else {
        high = guess;
        while high >= step {
            let index = high - step;
            if is_before(index) {
                low = index + 1;
                break;
            }
            (high, step) = (index, 2 * step);
        }
    }
    while low < high {
        let index = low.midpoint(high);
        if is_before(index) {
            low = index + 1;
        } else {
            high = index;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The result is that of a linear search, whatever the guess.
        #[test]
        fn the_guess_does_not_change_the_result(count in 0usize..200, guess in 0usize..300, point in 0usize..200) {
            let point = point.min(count);
            prop_assert_eq!(partition_near(count, guess, |index| index < point), point);
        }
    }

    #[test]
    fn an_exact_guess_needs_two_calls() {
        let calls = std::cell::Cell::new(0);
        let is_before = |index: usize| {
            calls.set(calls.get() + 1);
            index < 77_777
        };
        assert_eq!(partition_near(200_000, 77_777, is_before), 77_777);
        assert_eq!(calls.get(), 2);
        assert_eq!(partition_near(200_000, 77_770, is_before), 77_777);
        assert!(calls.get() < 12, "{}", calls.get());
    }
}
