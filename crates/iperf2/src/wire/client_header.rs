//! The header in which a client describes its test.

use std::time::Duration;

use units::{BitRate, Bytes};

use super::{put, word};

/// Length of the header that this crate writes: the base of 24 bytes and the extension of 36.
pub const HEADER_BYTES: usize = BASE_BYTES + EXTENSION_BYTES;
/// Maximum length of a header, bytes: its length field has eight bits.
pub const MAX_HEADER_BYTES: usize = 256;
const BASE_BYTES: usize = 24;
const EXTENSION_BYTES: usize = 36;
/// Length of an acknowledgement without timestamps.
const ACKNOWLEDGEMENT_BYTES: usize = 28;
/// The type of an acknowledgement (CLIENTHDRACK).
const ACKNOWLEDGEMENT: u32 = 2;
/// The version that this crate announces: the other end selects features by it.
const VERSION: (u32, u32) = (0x0002_0001, 0x0008_0003);

/// Flags of the first word.
mod flag {
    pub const VERSION1: u32 = 0x8000_0000;
    pub const EXTEND: u32 = 0x4000_0000;
    pub const UDP_TESTS: u32 = 0x2000_0000;
    pub const KEY_CHECK: u32 = 0x1000_0000;
    pub const NUMBERS_64BIT: u32 = 0x0800_0000;
    pub const VERSION2: u32 = 0x0400_0000;
    pub const PEER_DETECT: u32 = 0x0200_0000;
    pub const BOUNCE_BACK: u32 = 0x0080_0000;
    /// The length of the header, shifted by one, is in the low bits.
    pub const LENGTH: u32 = 0x0001_0000;
    pub const LENGTH_MASK: u32 = 0x0000_01fe;
    pub const RUN_NOW: u32 = 0x0000_0001;
}

/// Flags of the extension's upper half-word.
mod upper_flag {
    pub const NO_UDP_FIN: u32 = 0x0008;
    pub const TRIP_TIMES: u32 = 0x0010;
    pub const REVERSE: u32 = 0x0400;
    pub const FULL_DUPLEX: u32 = 0x0800;
}

/// The sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TestMode {
    /// The client.
    #[default]
    Forward,
    /// The server, on the client's connection (`-R`).
    Reverse,
    /// Both, on the client's connection (`--full-duplex`).
    FullDuplex,
    /// Both: the server connects to the client (`-d`).
    Dual,
    /// First the client, then the server, which connects to the client (`-r`).
    Tradeoff,
}

/// When a test ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// After this time, in steps of 10 ms.
    Time(Duration),
    /// After this number of bytes.
    Bytes(Bytes),
}

/// A client's description of its test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientHeader {
    /// The sender.
    pub mode: TestMode,
    /// Parallel streams.
    pub streams: u32,
    /// The port of the client's own listener, for [`TestMode::Dual`] and [`TestMode::Tradeoff`].
    pub port: u32,
    /// Bytes of a write or datagram; 0: the default.
    pub block: u32,
    /// When the test ends.
    pub amount: Amount,
    /// Rate of the server's data; `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// Numbers of datagrams have 64 bits.
    pub numbers_64bit: bool,
    /// The client waits for an [`acknowledgement`] before it sends.
    pub wants_acknowledgement: bool,
    /// The client expects the times of its header in the acknowledgement (`--trip-times`).
    pub wants_times: bool,
    /// A UDP client expects no report at the end.
    pub no_udp_report: bool,
}

/// Why a header cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Bytes are missing.
    #[error("the header of the test is too short")]
    Short,
    /// `--bounceback`.
    #[error("bounce-back tests (--bounceback) are not supported")]
    BounceBack,
    /// `--trip-times` over TCP.
    #[error("trip times over TCP (--trip-times) are not supported")]
    TripTimes,
    /// `--permit-key`.
    #[error("tests with a permit key (--permit-key) are not supported")]
    PermitKey,
}

/// The length of the header whose first word is `flags`; 0: the client sends none.
///
/// # Errors
/// The test is of a kind that is not supported.
pub fn header_length(flags: u32) -> Result<usize, WireError> {
    if flags & (flag::VERSION1 | flag::VERSION2 | flag::EXTEND) == 0 {
        return match flags & flag::BOUNCE_BACK != 0 && flags & 0x0070_ffff == 0 {
            true => Err(WireError::BounceBack),
            false => Ok(0),
        };
    }
    if flags & flag::KEY_CHECK != 0 {
        return Err(WireError::PermitKey);
    }
    Ok(match flags & flag::LENGTH != 0 {
        true => (flags & flag::LENGTH_MASK) as usize >> 1,
        false if flags & (flag::EXTEND | flag::VERSION2) != 0 => HEADER_BYTES,
        false => BASE_BYTES,
    })
}

/// Whether the first bytes of a connection are those of an iperf3 client's cookie.
pub fn is_iperf3_cookie(bytes: [u8; 4]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// The message that a client with [`ClientHeader::wants_acknowledgement`] waits for.
pub fn acknowledgement() -> [u8; ACKNOWLEDGEMENT_BYTES] {
    let mut bytes = [0; ACKNOWLEDGEMENT_BYTES];
    put(&mut bytes, 0, ACKNOWLEDGEMENT);
    put(&mut bytes, 4, ACKNOWLEDGEMENT_BYTES as u32);
    put(&mut bytes, 12, VERSION.0);
    put(&mut bytes, 16, VERSION.1);
    bytes
}

impl ClientHeader {
    /// The header of a TCP connection, or of each datagram (after its [`super::DatagramHeader`]).
    pub fn encode(&self, is_udp: bool) -> [u8; HEADER_BYTES] {
        let mut flags = flag::EXTEND;
        let mut upper = 0;
        match self.mode {
            TestMode::Forward => {}
            TestMode::Reverse => (flags, upper) = (flags | flag::VERSION2, upper_flag::REVERSE),
            TestMode::FullDuplex => (flags, upper) = (flags | flag::VERSION2, upper_flag::FULL_DUPLEX),
            TestMode::Dual => flags |= flag::VERSION1 | flag::RUN_NOW,
            TestMode::Tradeoff => flags |= flag::VERSION1,
        }
        if self.no_udp_report {
            (flags, upper) = (flags | flag::UDP_TESTS, upper | upper_flag::NO_UDP_FIN);
        }
        if is_udp && matches!(self.mode, TestMode::Reverse | TestMode::FullDuplex) {
            flags |= flag::UDP_TESTS;
        }
        if self.wants_times {
            upper |= upper_flag::TRIP_TIMES;
        }
        if self.numbers_64bit {
            flags |= flag::NUMBERS_64BIT;
        }
        // Without VERSION2 it is implied.
        if self.wants_acknowledgement && flags & flag::VERSION2 != 0 {
            flags |= flag::PEER_DETECT;
        }
        // In datagrams it counts from the beginning of the datagram.
        let before = if is_udp { super::DATAGRAM_HEADER_BYTES } else { 0 };
        flags |= flag::LENGTH | (((before + HEADER_BYTES) as u32) << 1);
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, flags);
        put(&mut bytes, 4, self.streams);
        put(&mut bytes, 8, self.port);
        put(&mut bytes, 12, self.block);
        put(&mut bytes, 20, encode_amount(self.amount));
        put(&mut bytes, BASE_BYTES + 8, upper << 16);
        put(&mut bytes, BASE_BYTES + 12, VERSION.0);
        put(&mut bytes, BASE_BYTES + 16, VERSION.1);
        let rate = self.rate.map_or(0, |rate| rate.0);
        put(&mut bytes, BASE_BYTES + 24, rate as u32);
        put(&mut bytes, BASE_BYTES + 28, ((rate >> 32) as u32) << 8);
        bytes
    }

    /// Reads a header; `None` if the client sends none, as iperf before 2.0.10 without `-d` and `-r`.
    ///
    /// # Errors
    /// Bytes are missing, or the test is of a kind that is not supported.
    pub fn decode(bytes: &[u8]) -> Result<Option<ClientHeader>, WireError> {
        let at = |at: usize| word(bytes, at).ok_or(WireError::Short);
        let flags = at(0)?;
        if header_length(flags)? == 0 {
            return Ok(None);
        }
        let is_extended = flags & (flag::EXTEND | flag::VERSION2) != 0;
        let (upper, low, high) = match is_extended {
            true => (at(BASE_BYTES + 8)? >> 16, at(BASE_BYTES + 24)?, at(BASE_BYTES + 28)? >> 8),
            false => (0, 0, 0),
        };
        let is_version2 = flags & flag::VERSION2 != 0;
        let mode = match () {
            () if is_version2 && upper & upper_flag::FULL_DUPLEX != 0 => TestMode::FullDuplex,
            () if is_version2 && upper & upper_flag::REVERSE != 0 => TestMode::Reverse,
            () if flags & flag::VERSION1 == 0 || is_version2 => TestMode::Forward,
            () if flags & flag::RUN_NOW != 0 => TestMode::Dual,
            () => TestMode::Tradeoff,
        };
        let rate = BitRate(u64::from(low) | u64::from(high) << 32);
        Ok(Some(ClientHeader {
            mode,
            streams: at(4)?,
            port: at(8)?,
            block: at(12)?,
            amount: decode_amount(at(20)?),
            rate: Some(rate).filter(|rate| rate.0 > 0),
            numbers_64bit: flags & flag::NUMBERS_64BIT != 0,
            // Clients of 2.0.10 to 2.0.13 wait for it without the flag of 2.0.14; others ignore it.
            wants_acknowledgement: flags & flag::PEER_DETECT != 0 || (is_extended && !is_version2),
            wants_times: upper & upper_flag::TRIP_TIMES != 0,
            no_udp_report: upper & upper_flag::NO_UDP_FIN != 0 && flags & flag::UDP_TESTS != 0,
        }))
    }
}

/// The largest amount of bytes of a header.
pub const MAX_AMOUNT_BYTES: u64 = 0x7fff_ffff;

/// A time is negative, in units of 10 ms; an amount of bytes has 31 bits.
fn encode_amount(amount: Amount) -> u32 {
    match amount {
        Amount::Time(time) => {
            let units = (time.as_millis() / 10).clamp(1, i32::MAX as u128) as i32;
            (-units) as u32
        }
        Amount::Bytes(bytes) => bytes.0.min(MAX_AMOUNT_BYTES) as u32,
    }
}

fn decode_amount(word: u32) -> Amount {
    match word as i32 {
        time @ ..0 => Amount::Time(Duration::from_millis(u64::from(time.unsigned_abs()) * 10)),
        bytes => Amount::Bytes(Bytes(bytes as u64)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(mode: TestMode) -> ClientHeader {
        ClientHeader {
            mode,
            streams: 4,
            port: 5001,
            block: 0,
            amount: Amount::Time(Duration::from_secs(10)),
            rate: None,
            numbers_64bit: false,
            wants_acknowledgement: !matches!(mode, TestMode::Reverse | TestMode::FullDuplex),
            wants_times: false,
            no_udp_report: false,
        }
    }

    /// The first word of real clients of iperf 2.1.8, from captures.
    #[test]
    fn flags_are_those_of_iperf_2_1_8() {
        let flags = |mode, is_udp| word(&header(mode).encode(is_udp), 0).unwrap();
        assert_eq!(flags(TestMode::Forward, false), 0x4001_0078);
        assert_eq!(flags(TestMode::Reverse, false), 0x4401_0078);
        assert_eq!(flags(TestMode::Dual, false), 0xc001_0079);
        let udp = ClientHeader { numbers_64bit: true, ..header(TestMode::Forward) };
        assert_eq!(word(&udp.encode(true), 0).unwrap(), 0x4801_0098);
        assert_eq!(header_length(0x4001_0078), Ok(60));
        assert_eq!(header_length(u32::from_be_bytes(*b"0123")), Ok(0), "the payload of iperf 2.0.5");
        assert_eq!(header_length(0x5001_0078), Err(WireError::PermitKey));
        assert_eq!(header_length(0x0080_0000), Err(WireError::BounceBack));
    }

    #[test]
    fn iperf3_cookies_are_not_headers() {
        assert!(is_iperf3_cookie(*b"abz7"));
        for mode in [TestMode::Forward, TestMode::Reverse, TestMode::Dual] {
            assert!(!is_iperf3_cookie(header(mode).encode(false)[..4].try_into().unwrap()));
        }
        assert!(!is_iperf3_cookie(*b"0123"));
    }

    #[test]
    fn a_truncated_header_is_an_error() {
        let whole = header(TestMode::Reverse).encode(false);
        assert_eq!(ClientHeader::decode(&whole), Ok(Some(header(TestMode::Reverse))));
        for length in 0..56 {
            assert_eq!(ClientHeader::decode(&whole[..length]), Err(WireError::Short), "{length}");
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(
            mode in 0usize..5, streams in 1u32..128, port in 1u32..65536, block in 0u32..1 << 20,
            time in 1u64..100_000, bytes in proptest::option::of(0u64..1 << 31), rate in 0u64..1 << 50,
        ) {
            let modes =
                [TestMode::Forward, TestMode::Reverse, TestMode::FullDuplex, TestMode::Dual, TestMode::Tradeoff];
            let amount = match bytes {
                Some(bytes) => Amount::Bytes(Bytes(bytes)),
                None => Amount::Time(Duration::from_millis(time * 10)),
            };
            let rate = Some(BitRate(rate)).filter(|rate| rate.0 > 0);
            let header = ClientHeader { streams, port, block, amount, rate, ..header(modes[mode]) };
            prop_assert_eq!(header_length(word(&header.encode(false), 0).unwrap()), Ok(HEADER_BYTES));
            prop_assert_eq!(ClientHeader::decode(&header.encode(false)), Ok(Some(header)));
            prop_assert_eq!(ClientHeader::decode(&header.encode(true)), Ok(Some(header)));
        }

        #[test]
        fn any_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = ClientHeader::decode(&bytes);
        }
    }
}
