//! Maps the numbers of datagrams to their index in the stream: unwraps numbers of 32 bits, and rejects
//! numbers that cannot belong to the stream.

use super::NumberWidth;

/// A number that exceeds the newest by more than this is accepted only when the next datagram continues from
/// it (RFC 3550 appendix A.1, where the limit is 3000). A path that is down for some seconds loses this many
/// datagrams.
const MAX_JUMP: u64 = 1 << 20;

/// Unwraps the numbers of one stream.
#[derive(Debug, Clone)]
pub(super) struct NumberUnwrapper {
    numbers: NumberWidth,
    /// The newest accepted number; 0 before the first.
    newest: u64,
    /// The successor of the last rejected number.
    suspect: Option<u64>,
}

impl NumberUnwrapper {
    pub(super) fn new(numbers: NumberWidth) -> Self {
        NumberUnwrapper { numbers, newest: 0, suspect: None }
    }

    /// The index (from 0) of the datagram with this `number` (from 1); `None` if it cannot belong to this
    /// stream.
    #[inline]
    pub(super) fn index(&mut self, number: u64) -> Option<u64> {
        let number = match self.numbers {
            NumberWidth::Bits64 => number,
            // The number nearest to the newest that has these 32 bits.
            NumberWidth::Bits32 => {
                let distance = (number as u32).wrapping_sub(self.newest as u32) as i32;
                self.newest.checked_add_signed(distance.into())?
            }
        };
        let index = number.checked_sub(1)?;
        if number > self.newest {
            if number - self.newest > MAX_JUMP && self.suspect != Some(number) {
                self.suspect = Some(number.wrapping_add(1));
                return None;
            }
            self.newest = number;
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn indices(numbers: NumberWidth, all: &[u64]) -> Vec<Option<u64>> {
        let mut unwrapper = NumberUnwrapper::new(numbers);
        all.iter().map(|n| unwrapper.index(*n)).collect()
    }

    #[test]
    fn numbers_of_32_bits_are_unwrapped() {
        let mut unwrapper =
            NumberUnwrapper { numbers: NumberWidth::Bits32, newest: u64::from(u32::MAX) - 1, suspect: None };
        let newest = u64::from(u32::MAX);
        assert_eq!(unwrapper.index(newest), Some(newest - 1));
        assert_eq!(unwrapper.index(1), Some(newest + 1), "0 is missing");
        assert_eq!(unwrapper.index(0), Some(newest), "and arrives late");
        assert_eq!(unwrapper.index(newest - 5), Some(newest - 6));
    }

    #[test]
    fn a_number_far_ahead_is_rejected_until_the_next_continues_from_it() {
        for numbers in [NumberWidth::Bits32, NumberWidth::Bits64] {
            let far = 5 + 3 * MAX_JUMP;
            let found = indices(numbers, &[1, 2, far, 3, far + 9, far + 10, 4]);
            assert_eq!(found, [Some(0), Some(1), None, Some(2), None, Some(far + 9), Some(3)], "{numbers:?}");
        }
        assert_eq!(indices(NumberWidth::Bits64, &[0, u64::MAX, u64::MAX]), [None, None, None]);
        assert_eq!(indices(NumberWidth::Bits32, &[u64::from(u32::MAX)]), [None], "before the first");
    }

    proptest! {
        /// Reordering of up to 1000 does not confuse numbers of 32 bits, however often they wrap around.
        #[test]
        fn numbers_of_both_widths_give_the_same_indices(start in 0u64..1 << 40, steps in prop::collection::vec(-1000i64..1_000_000, 1..100)) {
            let mut wide = NumberUnwrapper { numbers: NumberWidth::Bits64, newest: start, suspect: None };
            let mut narrow = NumberUnwrapper { numbers: NumberWidth::Bits32, ..wide.clone() };
            for step in steps {
                let Some(number) = wide.newest.checked_add_signed(step) else { continue };
                let expected = wide.index(number);
                if number > 0 {
                    prop_assert_eq!(narrow.index(number & 0xffff_ffff), expected);
                }
            }
        }
    }
}
