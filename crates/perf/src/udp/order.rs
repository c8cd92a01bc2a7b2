//! From the numbers in datagrams to their places in the stream: numbers of 32 bits go on after their end, and those that no
//! sane sender would write are refused.

use super::Numbers;

/// A number so far beyond the newest is believed only when the next one follows it (RFC 3550 appendix A.1, there 3000). A path
/// that was down for seconds loses as many.
const MOST_JUMP: u64 = 1 << 20;

/// What is known of the numbers of a stream.
#[derive(Debug, Clone)]
pub(super) struct Order {
    numbers: Numbers,
    /// The newest number believed; 0 before the first.
    newest: u64,
    /// What would follow the last number that was not believed.
    suspect: Option<u64>,
}

impl Order {
    pub(super) fn new(numbers: Numbers) -> Self {
        Order { numbers, newest: 0, suspect: None }
    }

    /// The place of the datagram with this `number` (from 1), from 0; `None` where it cannot be one of this stream's.
    #[inline]
    pub(super) fn place(&mut self, number: u64) -> Option<u64> {
        let number = match self.numbers {
            Numbers::Bits64 => number,
            // The nearest to the newest that has these 32 bits.
            Numbers::Bits32 => {
                let distance = (number as u32).wrapping_sub(self.newest as u32) as i32;
                self.newest.checked_add_signed(distance.into())?
            }
        };
        let place = number.checked_sub(1)?;
        if number > self.newest {
            if number - self.newest > MOST_JUMP && self.suspect != Some(number) {
                self.suspect = Some(number.wrapping_add(1));
                return None;
            }
            self.newest = number;
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(numbers: Numbers, all: &[u64]) -> Vec<Option<u64>> {
        let mut order = Order::new(numbers);
        all.iter().map(|n| order.place(*n)).collect()
    }

    #[test]
    fn numbers_of_32_bits_go_on() {
        let mut order = Order { numbers: Numbers::Bits32, newest: u64::from(u32::MAX) - 1, suspect: None };
        let newest = u64::from(u32::MAX);
        assert_eq!(order.place(newest), Some(newest - 1));
        assert_eq!(order.place(1), Some(newest + 1), "0 was lost");
        assert_eq!(order.place(0), Some(newest), "and came late");
        assert_eq!(order.place(newest - 5), Some(newest - 6));
    }

    #[test]
    fn a_number_from_nowhere_is_refused_until_the_next_follows_it() {
        for numbers in [Numbers::Bits32, Numbers::Bits64] {
            let far = 5 + 3 * MOST_JUMP;
            let found = places(numbers, &[1, 2, far, 3, far + 9, far + 10, 4]);
            assert_eq!(found, [Some(0), Some(1), None, Some(2), None, Some(far + 9), Some(3)], "{numbers:?}");
        }
        assert_eq!(places(Numbers::Bits64, &[0, u64::MAX, u64::MAX]), [None, None, None]);
        assert_eq!(places(Numbers::Bits32, &[u64::from(u32::MAX)]), [None], "before the first");
    }

    proptest! {
        /// Reordering of up to 1000 does not confuse 32 bits, however often they begin anew.
        #[test]
        fn both_widths_agree(start in 0u64..1 << 40, steps in prop::collection::vec(-1000i64..1_000_000, 1..100)) {
            let mut wide = Order { numbers: Numbers::Bits64, newest: start, suspect: None };
            let mut narrow = Order { numbers: Numbers::Bits32, ..wide.clone() };
            for step in steps {
                let Some(number) = wide.newest.checked_add_signed(step) else { continue };
                let expected = wide.place(number);
                if number > 0 {
                    prop_assert_eq!(narrow.place(number & 0xffff_ffff), expected);
                }
            }
        }
    }
}
