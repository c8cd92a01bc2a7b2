//! VDIF frames in UDP datagrams, as VLBI recorders receive them.
//!
//! ```text
//! packet number (64, little-endian)   VDIF header (32 B)   data
//! ```
//!
//! The header is that of the VDIF specification, release 1.1.1, section 5: eight little-endian words, the
//! last four of which are the user's (zeros here). The packet number before it is that of jive5ab's format
//! "udps" (`udpsreader.cc`): it increases by one with each packet and does not restart with a second. Its
//! byte order is that of x86.

use units::BitRate;

/// Bytes of a VDIF header that is not of the legacy form.
pub const HEADER_BYTES: usize = 32;
/// The unit of a frame's length, bytes.
const LENGTH_UNIT: u32 = 8;
/// VDIF's version in the header: 1 since release 1.1.
const VERSION: u32 = 1;
/// Seconds since 1970 of 2000-01-01 00:00 UTC, the beginning of reference epoch 0.
const EPOCH_0_S: i64 = 946_684_800;
const DAY_S: i64 = 86_400;

/// The frames of a stream: one thread of one channel, real samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frames {
    /// The station's two letters.
    pub station: [u8; 2],
    /// Thread ID, below 1024.
    pub thread: u16,
    /// Bits of a sample, 1 to 32.
    pub sample_bits: u8,
    /// When the first frame begins.
    pub begin: Second,
    /// Frames in a second.
    pub per_second: u32,
}

/// A second as VDIF counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Second {
    /// Half years since 2000, below 64.
    pub epoch: u8,
    /// Seconds since the epoch.
    pub second: u32,
}

/// The fields of a frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The second in which the frame begins.
    pub second: Second,
    /// The frame's number within the second.
    pub frame: u32,
    /// Bytes of the frame, header included; a multiple of eight.
    pub frame_bytes: u32,
    /// Bits of a sample, 1 to 32.
    pub sample_bits: u8,
    /// Thread ID.
    pub thread: u16,
    /// The station's two letters.
    pub station: [u8; 2],
}

impl Second {
    /// The second of a time in seconds since 1970. The epochs begin at midnight UTC of January 1 and July 1.
    pub fn at_unix(unix_s: i64) -> Second {
        let since = (unix_s - EPOCH_0_S).max(0);
        // The last epoch that has begun; epochs repeat after 64 half years.
        let mut epoch = (since / (184 * DAY_S)) as u32;
        while epoch_start_s(epoch + 1) <= since {
            epoch += 1;
        }
        Second { epoch: (epoch % 64) as u8, second: (since - epoch_start_s(epoch)) as u32 }
    }
}

/// The beginning of half year `epoch`, seconds since 2000.
fn epoch_start_s(epoch: u32) -> i64 {
    let years = i64::from(epoch / 2);
    // Until 2099 every fourth year is a leap year, from 2000 on.
    let leap_days = (years + 3) / 4;
    let first_half = if years % 4 == 0 { 182 } else { 181 };
    let days = years * 365 + leap_days + if epoch % 2 == 1 { first_half } else { 0 };
    days * DAY_S
}

/// The largest payload of at most `max_bytes` that is a multiple of eight and fills a second with whole
/// frames.
pub fn largest_payload(rate: BitRate, max_bytes: u32) -> Option<u32> {
    let bytes_per_second = rate.0 / 8;
    let fits = |payload: u32| rate.0.is_multiple_of(8) && bytes_per_second.is_multiple_of(u64::from(payload));
    (1..=max_bytes / LENGTH_UNIT).rev().map(|words| words * LENGTH_UNIT).find(|payload| fits(*payload))
}

/// Frames in a second, if that is a whole number that the header can count.
pub fn frames_per_second(rate: BitRate, payload_bytes: u32) -> Option<u32> {
    let bits = u64::from(payload_bytes) * 8;
    let per_second = u32::try_from(rate.0.checked_div(bits)?).ok()?;
    (rate.0.is_multiple_of(bits) && payload_bytes.is_multiple_of(LENGTH_UNIT) && per_second < 1 << 24)
        .then_some(per_second)
}

impl Frames {
    /// The header of packet `number`.
    pub fn header(&self, number: u64, payload_bytes: u32) -> Header {
        let per_second = u64::from(self.per_second.max(1));
        Header {
            second: Second {
                // The field has 30 bits: 34 years.
                second: (u64::from(self.begin.second) + number / per_second) as u32 & 0x3fff_ffff,
                ..self.begin
            },
            frame: (number % per_second) as u32,
            frame_bytes: HEADER_BYTES as u32 + payload_bytes,
            sample_bits: self.sample_bits,
            thread: self.thread,
            station: self.station,
        }
    }
}

impl Header {
    /// The header's bytes: one channel of real samples, valid.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let words = [
            self.second.second & 0x3fff_ffff,
            u32::from(self.second.epoch & 0x3f) << 24 | self.frame & 0xff_ffff,
            VERSION << 29 | (self.frame_bytes / LENGTH_UNIT) & 0xff_ffff,
            (u32::from(self.sample_bits.clamp(1, 32)) - 1) << 26
                | u32::from(self.thread & 0x3ff) << 16
                | u32::from(u16::from_be_bytes(self.station)),
        ];
        let mut bytes = [0; HEADER_BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads a header; `None` if it is of the legacy form or marked invalid, or has several channels or
    /// complex samples.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let word = |index: usize| {
            bytes.get(4 * index..4 * index + 4).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes)
        };
        let [time, number, shape, samples] = [word(0)?, word(1)?, word(2)?, word(3)?];
        let (has_flags, log2_channels, is_complex) =
            (time >> 30 != 0, shape >> 24 & 0x1f, samples >> 31 == 1);
        if has_flags || log2_channels != 0 || is_complex {
            return None;
        }
        Some(Header {
            second: Second { epoch: (number >> 24 & 0x3f) as u8, second: time & 0x3fff_ffff },
            frame: number & 0xff_ffff,
            frame_bytes: (shape & 0xff_ffff) * LENGTH_UNIT,
            sample_bits: (samples >> 26 & 0x1f) as u8 + 1,
            thread: (samples >> 16 & 0x3ff) as u16,
            station: (samples as u16).to_be_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;
    use crate::stream::Parameters;

    #[test]
    fn the_first_payload_that_fills_a_second_with_whole_frames_is_the_largest() {
        assert_eq!(largest_payload(BitRate(512_000_000), 1432), Some(1280));
        assert_eq!(largest_payload(BitRate(2_048_000_000), 8_960), Some(8_192));
        assert_eq!(frames_per_second(BitRate(512_000_000), 1280), Some(50_000));
        assert_eq!(frames_per_second(BitRate(512_000_000), 1288), None);
        // A prime number of bytes.
        assert_eq!(largest_payload(BitRate(8 * 65_537), 1432), None);
    }

    /// A frame of 1280 B at 2026-11-25 21:40:07.2469 UTC, as the Python package baseband 4.3.0 writes and
    /// reads it.
    #[test]
    fn a_header_equals_that_of_another_implementation() {
        let bytes = [
            0x37, 0xfd, 0xc2, 0x00, 0x39, 0x30, 0x00, 0x35, 0xa4, 0x00, 0x00, 0x20, 0x66, 0x4c, 0x03, 0x04,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let begin = Second::at_unix(1_795_642_807);
        let frames = Frames { station: *b"Lf", thread: 3, sample_bits: 2, begin, per_second: 50_000 };
        let header = frames.header(12_345, 1280);
        assert_eq!(header.encode(), bytes);
        assert_eq!(Header::decode(&bytes), Some(header));
    }

    #[test]
    fn packets_begin_with_their_number_in_little_endian_order_and_foreign_frames_are_not_data() {
        let begin = Second { epoch: 53, second: 99 };
        let frames = Frames { station: *b"Lf", thread: 0, sample_bits: 2, begin, per_second: 50_000 };
        let parameters = Parameters {
            rate: BitRate(512_000_000),
            payload_bytes: 1280,
            deadline: Time::from_millis(100),
            repairs: false,
            packets: None,
            vdif: Some(frames),
        };
        let mut packet = Vec::new();
        parameters.write_header(0x0001_0203_0405, &mut packet);
        assert_eq!(packet[..8], [5, 4, 3, 2, 1, 0, 0, 0]);
        packet.resize(parameters.header_bytes() + 1280, 0);
        assert_eq!(parameters.read_number(&packet), Some(0x0001_0203_0405));
        assert_eq!(parameters.read_number(&packet[..packet.len() - 1]), None);
        packet[8 + 12] ^= 1;
        assert_eq!(parameters.read_number(&packet), None, "another station");
    }

    #[test]
    fn frames_are_numbered_within_seconds() {
        let begin = Second { epoch: 53, second: 99 };
        let frames = Frames { station: *b"Lf", thread: 0, sample_bits: 2, begin, per_second: 50_000 };
        let at = |number| {
            let header = frames.header(number, 1280);
            (header.second.second, header.frame)
        };
        assert_eq!([at(0), at(49_999), at(50_000)], [(99, 0), (99, 49_999), (100, 0)]);
    }

    #[test]
    fn epochs_are_half_years() {
        let at = |unix_s| {
            let Second { epoch, second } = Second::at_unix(unix_s);
            (epoch, second)
        };
        assert_eq!(at(946_684_800), (0, 0));
        // 2000-06-30 23:59:59 and a second later.
        assert_eq!(at(962_409_599), (0, 182 * 86_400 - 1));
        assert_eq!(at(962_409_600), (1, 0));
        // 2001-07-01.
        assert_eq!(at(993_945_600), (3, 0));
        // 2032-01-01: the epochs begin again.
        assert_eq!(at(1_956_528_000), (0, 0));
    }
}
