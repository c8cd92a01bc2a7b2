//! The first bytes of each datagram.

use super::{put, word};

/// Length of a datagram's number and time.
pub const DATAGRAM_HEADER_BYTES: usize = 16;

/// Number and time of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramHeader {
    /// 1, 2, 3, ...; negative: the last one, which is repeated until the receiver replies.
    pub number: i64,
    /// When it was sent, by the sender's clock, nanoseconds since 1970 (in microsecond steps).
    pub sent_ns: i64,
}

impl DatagramHeader {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; DATAGRAM_HEADER_BYTES] {
        let mut bytes = [0; DATAGRAM_HEADER_BYTES];
        put(&mut bytes, 0, self.number as u32);
        put(&mut bytes, 4, (self.sent_ns / 1_000_000_000) as u32);
        put(&mut bytes, 8, ((self.sent_ns % 1_000_000_000) / 1000) as u32);
        put(&mut bytes, 12, (self.number >> 32) as u32);
        bytes
    }

    /// Reads the header; `has_64_bits`: as the client's header states. `None` if bytes are missing.
    pub fn decode(bytes: &[u8], has_64_bits: bool) -> Option<DatagramHeader> {
        let low = word(bytes, 0)?;
        let number = match has_64_bits {
            true => (i64::from(word(bytes, 12)? as i32) << 32) | i64::from(low),
            false => i64::from(low as i32),
        };
        let (seconds, micros) = (i64::from(word(bytes, 4)?), i64::from(word(bytes, 8)?));
        Some(DatagramHeader { number, sent_ns: seconds * 1_000_000_000 + micros * 1000 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn headers_round_trip(number: i64, seconds in 0i64..1 << 32, micros in 0i64..1_000_000) {
            let header = DatagramHeader { number, sent_ns: seconds * 1_000_000_000 + micros * 1000 };
            prop_assert_eq!(DatagramHeader::decode(&header.encode(), true), Some(header));
            let short = DatagramHeader { number: i64::from(number as i32), ..header };
            prop_assert_eq!(DatagramHeader::decode(&short.encode(), false), Some(short));
        }
    }

    #[test]
    fn a_short_datagram_has_no_header() {
        assert_eq!(DatagramHeader::decode(&[0; 11], false), None);
        assert_eq!(DatagramHeader::decode(&[0; 15], true), None);
    }
}
