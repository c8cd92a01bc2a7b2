//! 31-bit sequence numbers on the wire, 64-bit packet indexes inside.

use crate::udt::wire::SEQUENCE_MASK;

/// Converts between the sequence numbers of one direction and indexes that count its packets from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbering {
    initial: u32,
}

impl Numbering {
    pub(crate) fn new(initial: u32) -> Self {
        Numbering { initial: initial & SEQUENCE_MASK }
    }

    /// The sequence number of a packet.
    pub(crate) fn sequence(self, index: u64) -> u32 {
        self.initial.wrapping_add(index as u32) & SEQUENCE_MASK
    }

    /// Of all indexes with this sequence number, the one nearest to `near`; `None` if that is before the
    /// first packet.
    pub(crate) fn index(self, sequence: u32, near: u64) -> Option<u64> {
        let ahead = sequence.wrapping_sub(self.sequence(near)) & SEQUENCE_MASK;
        if ahead <= SEQUENCE_MASK / 2 {
            near.checked_add(u64::from(ahead))
        } else {
            near.checked_sub(u64::from(SEQUENCE_MASK - ahead) + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_index_near_another_is_found_across_the_wrap(
            initial in 0..=SEQUENCE_MASK, near in 0u64..1 << 40, offset in -1_000_000i64..1_000_000,
        ) {
            let numbering = Numbering::new(initial);
            let index = near.saturating_add_signed(offset);
            prop_assert_eq!(numbering.index(numbering.sequence(index), near), Some(index));
        }
    }

    #[test]
    fn numbers_before_the_first_packet_have_no_index() {
        assert_eq!(Numbering::new(5).index(4, 0), None);
    }
}
