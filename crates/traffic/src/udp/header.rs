//! The header at the beginning of each datagram, as iperf3 writes it (esnet/iperf, src/iperf_udp.c): when it
//! was sent, in seconds and microseconds, and its number, all in network byte order. The first number is 1.
//!
//! ```text
//!  0        4        8        12       16
//!  | sec    | usec   | number |            12 bytes, numbers of 32 bits
//!  | sec    | usec   | number          |   16 bytes, numbers of 64 bits
//! ```
//!
//! iperf3 takes the time from CLOCK_MONOTONIC, longfat from CLOCK_REALTIME: only between two longfat ends is
//! the difference to the time of arrival a one-way delay. It is as exact as their clocks are synchronized.

/// The width of the datagrams' numbers (`udp_counters_64bit` of the test's parameters).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NumberWidth {
    /// 32 bits: they wrap around after 2^32 datagrams.
    Bits32,
    /// 64 bits.
    #[default]
    Bits64,
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When the datagram was sent, ns on the sender's clock.
    pub sent_ns: i64,
    /// Its number, from 1, truncated to the width.
    pub number: u64,
}

impl NumberWidth {
    /// Bytes of a header, which is the shortest datagram.
    pub fn header_bytes(self) -> usize {
        match self {
            NumberWidth::Bits32 => 12,
            NumberWidth::Bits64 => 16,
        }
    }
}

impl Header {
    /// Reads the beginning of a datagram; `None` if it is too short.
    pub fn read(numbers: NumberWidth, datagram: &[u8]) -> Option<Self> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_be_bytes(datagram.get(at..at + 4)?.try_into().ok()?))
        };
        let (seconds, micros, high) = (word(0)?, word(4)?, word(8)?);
        let number = match numbers {
            NumberWidth::Bits32 => u64::from(high),
            NumberWidth::Bits64 => u64::from(high) << 32 | u64::from(word(12)?),
        };
        // At most 4.3e18 + 4.3e12, which an i64 holds.
        let sent_ns = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1000;
        Some(Header { sent_ns, number })
    }

    /// Writes the header at the beginning of `datagram`, which must be long enough; the time in microseconds,
    /// the number truncated to the width.
    pub fn write(self, numbers: NumberWidth, datagram: &mut [u8]) {
        let seconds = (self.sent_ns / 1_000_000_000) as u32;
        let micros = (self.sent_ns % 1_000_000_000 / 1000) as u32;
        datagram[..4].copy_from_slice(&seconds.to_be_bytes());
        datagram[4..8].copy_from_slice(&micros.to_be_bytes());
        match numbers {
            NumberWidth::Bits32 => datagram[8..12].copy_from_slice(&(self.number as u32).to_be_bytes()),
            NumberWidth::Bits64 => datagram[8..16].copy_from_slice(&self.number.to_be_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_iperf3s() {
        let header = Header { sent_ns: 1_700_000_000_123_456_789, number: 0x1_0000_0002 };
        let mut bytes = [0xff; 20];
        header.write(NumberWidth::Bits64, &mut bytes);
        let expected =
            [0x65, 0x53, 0xf1, 0x00, 0x00, 0x01, 0xe2, 0x40, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(bytes, expected);
        header.write(NumberWidth::Bits32, &mut bytes);
        assert_eq!(bytes[8..16], [0, 0, 0, 2, 0, 0, 0, 2]);
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            micros in 0i64..4_294_967_295_000_000, number: u64, wide: bool, rest in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let numbers = if wide { NumberWidth::Bits64 } else { NumberWidth::Bits32 };
            let number = if wide { number } else { number & 0xffff_ffff };
            let header = Header { sent_ns: micros * 1000, number };
            let mut bytes = [vec![0; numbers.header_bytes()], rest].concat();
            header.write(numbers, &mut bytes);
            prop_assert_eq!(Header::read(numbers, &bytes), Some(header));
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            for numbers in [NumberWidth::Bits32, NumberWidth::Bits64] {
                let header = Header::read(numbers, &bytes);
                prop_assert_eq!(header.is_some(), bytes.len() >= numbers.header_bytes());
                prop_assert!(header.is_none_or(|h| h.sent_ns >= 0));
            }
        }
    }
}
