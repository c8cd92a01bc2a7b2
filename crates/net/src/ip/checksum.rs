//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// The sum of `bytes` as 16-bit words, with an odd last byte padded with zero; not folded.
pub fn sum_words(bytes: &[u8]) -> u64 {
    let (words, odd) = bytes.as_chunks::<2>();
    let sum: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    sum + odd.first().map_or(0, |&last| u64::from(last) << 8)
}

/// Folds a sum to 16 bits (not inverted).
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The checksum of `bytes`, including the value in their checksum field: 0 if that is correct.
pub fn checksum(bytes: &[u8]) -> u16 {
    !fold(sum_words(bytes))
}

/// The checksum after one covered word has changed (RFC 1624 equation 3).
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// The sum over a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1), not folded. `addresses` are the
/// source and destination address as in the IP header.
pub fn pseudo_header_sum(addresses: &[u8], protocol: u8, length: usize) -> u64 {
    sum_words(addresses) + u64::from(protocol) + length as u64
}

/// Offset of the checksum in a UDP header, bytes (RFC 768).
const UDP_CHECKSUM: usize = 6;

/// Completes the checksum over `frame` from `start`, as a device does for its kernel (virtio 1.2 section
/// 5.1.6.2). The field at `start + offset` holds the folded sum of the pseudo-header. Does nothing if the
/// field is outside of the frame.
pub fn finish(frame: &mut [u8], start: usize, offset: usize) {
    let Some(covered) = frame.get_mut(start..).filter(|c| offset + 2 <= c.len()) else { return };
    // Only in UDP zero means "no checksum"; all ones are the same number in ones' complement (RFC 768). In
    // other protocols zero stays zero: packet analysers report all ones as an incorrect update (RFC 1624
    // section 3).
    let sum = match checksum(covered) {
        0 if offset == UDP_CHECKSUM => 0xffff,
        sum => sum,
    };
    covered[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn matches_the_example_of_rfc_1071() {
        assert_eq!(fold(sum_words(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(sum_words(&[1, 2, 3]), 0x0102 + 0x0300);
    }

    #[test]
    fn matches_the_example_of_rfc_1624() {
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn a_checksum_of_zero_stays_zero_except_in_udp() {
        let finished = |offset: usize| {
            // The field holds the folded sum of a pseudo-header, 1. Together with the other words the sum is
            // 0xffff.
            let mut header = [0; 20];
            header[offset + 1] = 1;
            header[..2].copy_from_slice(&0xfffe_u16.to_be_bytes());
            finish(&mut header, 0, offset);
            u16::from_be_bytes([header[offset], header[offset + 1]])
        };
        assert_eq!((finished(UDP_CHECKSUM), finished(16)), (0xffff, 0x0000));
    }

    proptest! {
        #[test]
        fn an_updated_checksum_stays_correct(
            mut words in proptest::collection::vec(any::<u16>(), 2..30), at in any::<prop::sample::Index>(), new in any::<u16>(),
        ) {
            // Not all zero, because no IP header is.
            words[0] |= 0x4000;
            let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
            let before = checksum(&bytes(&words));
            let at = 1 + at.index(words.len() - 1);
            let old = std::mem::replace(&mut words[at], new);
            words.push(updated(before, old, new));
            prop_assert_eq!(checksum(&bytes(&words)), 0);
        }
    }
}
