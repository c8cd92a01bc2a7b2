//! STAMP's packets, pure: RFC 8762 sections 4.2 and 4.3, with the session identifier of RFC 8972 section 3
//! where there were zeros.
//!
//! ```text
//! sender                44 B   authenticated 112 B
//! sequence                 0       0
//! timestamp                4      16
//! error estimate          12      24
//! session identifier      14      26
//! code                     -      96
//!
//! reflector             44 B   authenticated 112 B
//! sequence                 0       0
//! timestamp                4      16
//! error estimate          12      24
//! session identifier      14      26
//! received                16      32
//! sender's sequence       24      48
//! sender's timestamp      28      64
//! sender's error          36      72
//! sender's TTL            40      80
//! code                     -      96
//! ```
//!
//! All other bytes are zero. The code (HMAC) covers the first 96 bytes.
//!
//! Unauthenticated packets of TWAMP (RFC 5357 section 4) have the same fields, without identifier. A sender's
//! packet has at least 14 bytes, a reflector's 41; all further bytes are padding. Packets of OWAMP (RFC 4656
//! section 4.1.2) are those of TWAMP's sender. Shorter packets are therefore read too.

use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of an unauthenticated packet.
pub const OPEN_BYTES: usize = 44;
/// Bytes of an authenticated packet.
pub const AUTHENTICATED_BYTES: usize = 112;
/// Bytes of the shortest packet of a TWAMP or OWAMP sender (RFC 5357 section 4.1.2).
pub const SHORTEST_REQUEST_BYTES: usize = 14;
/// Bytes of the shortest packet of a TWAMP reflector (RFC 5357 section 4.2.1).
pub const SHORTEST_REPLY_BYTES: usize = 41;
/// Bytes that the code covers (RFC 8762 section 4.4: the first six blocks).
const COVERED: usize = 96;
/// Bytes of the code: HMAC-SHA-256 cut to 128 bits.
const CODE_BYTES: usize = 16;
/// From 1900, the beginning of NTP's time, to 1970, seconds (RFC 5905).
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// The key of authenticated packets.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// A key of any bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Key {
        Key(bytes.into())
    }

    /// HMAC-SHA-256 of a message (RFC 8762 section 4.4); a packet contains its first half.
    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length (RFC 2104 section 2).
        Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is valid").chain_update(message)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The error estimate of a clock (RFC 4656 section 4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate(pub u16);

impl ErrorEstimate {
    /// An error of `ns`, rounded up; `is_synchronized` to an external source.
    pub fn of(ns: u64, is_synchronized: bool) -> Self {
        // Multiplier x 2^(scale - 32) seconds.
        let units = (u128::from(ns) << 32).div_ceil(1_000_000_000).max(1);
        let bits = 128 - units.leading_zeros();
        let scale = bits.saturating_sub(8);
        let multiplier = (units >> scale) + u128::from(units & ((1 << scale) - 1) != 0);
        // Rounding up may need a ninth bit.
        let (scale, multiplier) =
            if multiplier > 255 { (scale + 1, multiplier.div_ceil(2)) } else { (scale, multiplier) };
        ErrorEstimate(u16::from(is_synchronized) << 15 | (scale.min(63) as u16) << 8 | multiplier as u16)
    }

    /// The error, ns; `None` if the multiplier is 0, which is invalid.
    pub fn ns(self) -> Option<f64> {
        let (scale, multiplier) = (self.0 >> 8 & 0x3f, self.0 & 0xff);
        (multiplier > 0).then(|| f64::from(multiplier) * 2f64.powi(i32::from(scale) - 32) * 1e9)
    }

    /// Whether the timestamps are in PTP's format (RFC 8186) instead of NTP's.
    fn is_ptp(self) -> bool {
        self.0 & 1 << 14 != 0
    }
}

/// A packet of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its sequence number.
    pub sequence: u32,
    /// When it was sent, as raw bytes, which the reflector returns unchanged.
    pub stamp: u64,
    /// The error estimate of that time.
    pub error: ErrorEstimate,
    /// The session identifier; 0 for none.
    pub session: u16,
}

/// A packet of the reflector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Its sequence number.
    pub sequence: u32,
    /// When it was sent.
    pub stamp: u64,
    /// The error estimate of the reflector's times.
    pub error: ErrorEstimate,
    /// The session identifier.
    pub session: u16,
    /// When the request arrived.
    pub received: u64,
    /// The request's sequence number, time and error estimate.
    pub request: (u32, u64, ErrorEstimate),
    /// The request's time to live on arrival; 255 if unknown.
    pub ttl: u8,
}

/// A time in NTP's format: seconds since 1900 and their fraction.
pub fn ntp(unix_ns: i64) -> u64 {
    let seconds = unix_ns.div_euclid(1_000_000_000) as u64;
    let fraction = (unix_ns.rem_euclid(1_000_000_000) as u64) << 32;
    seconds.wrapping_add(NTP_TO_UNIX) << 32 | fraction.div_ceil(1_000_000_000).min(u64::from(u32::MAX))
}

/// Converts a time, in the format that its error estimate selects, to ns since 1970. NTP's era is the one
/// that ends in 2104 (RFC 4330 section 3: times with a first bit of 0 are after 2036).
pub fn unix_ns(stamp: u64, error: ErrorEstimate) -> i64 {
    let (high, low) = (stamp >> 32, stamp & 0xffff_ffff);
    if error.is_ptp() {
        return (high * 1_000_000_000 + low) as i64;
    }
    let era = if high & 1 << 31 == 0 { 1 << 32 } else { 0 };
    (high + era) as i64 * 1_000_000_000 - NTP_TO_UNIX as i64 * 1_000_000_000
        + ((low * 1_000_000_000) >> 32) as i64
}

/// An interval in NTP's format: units of 2^-32 s.
pub fn ntp_interval(interval: Duration) -> u64 {
    u64::try_from((interval.as_nanos() << 32) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// Converts an interval in NTP's format.
pub fn interval(units: u64) -> Duration {
    Duration::new(units >> 32, (((units & 0xffff_ffff) * 1_000_000_000) >> 32) as u32)
}

/// The offsets of the fields.
struct Layout {
    bytes: usize,
    stamp: usize,
    error: usize,
    received: usize,
    sequence: usize,
    their_stamp: usize,
    their_error: usize,
    ttl: usize,
}

const OPEN: Layout = Layout {
    bytes: OPEN_BYTES,
    stamp: 4,
    error: 12,
    received: 16,
    sequence: 24,
    their_stamp: 28,
    their_error: 36,
    ttl: 40,
};
const AUTHENTICATED: Layout = Layout {
    bytes: AUTHENTICATED_BYTES,
    stamp: 16,
    error: 24,
    received: 32,
    sequence: 48,
    their_stamp: 64,
    their_error: 72,
    ttl: 80,
};

fn layout(key: Option<&Key>) -> &'static Layout {
    if key.is_some() { &AUTHENTICATED } else { &OPEN }
}

impl Request {
    /// The bytes to send.
    pub fn to_bytes(self, key: Option<&Key>) -> Vec<u8> {
        let at = layout(key);
        let mut bytes = vec![0; at.bytes];
        bytes[..4].copy_from_slice(&self.sequence.to_be_bytes());
        put_own(&mut bytes, at, self.stamp, self.error, self.session);
        seal(bytes, key)
    }

    /// Reads a packet; `None` if it is too short, or not authenticated with the key.
    pub fn from_bytes(bytes: &[u8], key: Option<&Key>) -> Option<Request> {
        let at = layout(key);
        let bytes = verified(bytes, key, SHORTEST_REQUEST_BYTES)?;
        let session = word(bytes, at.error + 2).map_or(0, u16::from_be_bytes);
        Some(Request {
            sequence: u32::from_be_bytes(word(bytes, 0)?),
            stamp: u64::from_be_bytes(word(bytes, at.stamp)?),
            error: ErrorEstimate(u16::from_be_bytes(word(bytes, at.error)?)),
            session,
        })
    }
}

/// Maximum time between the arrival of a request and its reply.
const MAX_REFLECTION_TIME_NS: u64 = 10_000_000_000;

impl Reply {
    /// Whether it can be a reply: its two times are by one clock and close to each other. In a request the
    /// field of the second time is zero, or filled with random bytes.
    pub fn has_times_of_one_clock(&self) -> bool {
        let [sent, received] = [self.stamp, self.received].map(|stamp| unix_ns(stamp, self.error));
        self.received != 0 && sent.abs_diff(received) < MAX_REFLECTION_TIME_NS
    }

    /// The bytes to send.
    pub fn to_bytes(self, key: Option<&Key>) -> Vec<u8> {
        let at = layout(key);
        let mut bytes = vec![0; at.bytes];
        bytes[..4].copy_from_slice(&self.sequence.to_be_bytes());
        put_own(&mut bytes, at, self.stamp, self.error, self.session);
        let (sequence, stamp, error) = self.request;
        bytes[at.received..at.received + 8].copy_from_slice(&self.received.to_be_bytes());
        bytes[at.sequence..at.sequence + 4].copy_from_slice(&sequence.to_be_bytes());
        bytes[at.their_stamp..at.their_stamp + 8].copy_from_slice(&stamp.to_be_bytes());
        bytes[at.their_error..at.their_error + 2].copy_from_slice(&error.0.to_be_bytes());
        bytes[at.ttl] = self.ttl;
        seal(bytes, key)
    }

    /// Reads a packet; `None` if it is too short, or not authenticated with the key.
    pub fn from_bytes(bytes: &[u8], key: Option<&Key>) -> Option<Reply> {
        let at = layout(key);
        let bytes = verified(bytes, key, SHORTEST_REPLY_BYTES)?;
        Some(Reply {
            sequence: u32::from_be_bytes(word(bytes, 0)?),
            stamp: u64::from_be_bytes(word(bytes, at.stamp)?),
            error: ErrorEstimate(u16::from_be_bytes(word(bytes, at.error)?)),
            session: u16::from_be_bytes(word(bytes, at.error + 2)?),
            received: u64::from_be_bytes(word(bytes, at.received)?),
            request: (
                u32::from_be_bytes(word(bytes, at.sequence)?),
                u64::from_be_bytes(word(bytes, at.their_stamp)?),
                ErrorEstimate(u16::from_be_bytes(word(bytes, at.their_error)?)),
            ),
            ttl: *bytes.get(at.ttl)?,
        })
    }
}

fn put_own(bytes: &mut [u8], at: &Layout, stamp: u64, error: ErrorEstimate, session: u16) {
    bytes[at.stamp..at.stamp + 8].copy_from_slice(&stamp.to_be_bytes());
    bytes[at.error..at.error + 2].copy_from_slice(&error.0.to_be_bytes());
    bytes[at.error + 2..at.error + 4].copy_from_slice(&session.to_be_bytes());
}

fn seal(mut bytes: Vec<u8>, key: Option<&Key>) -> Vec<u8> {
    if let Some(key) = key {
        let code = key.over(&bytes[..COVERED]).finalize().into_bytes();
        bytes[COVERED..].copy_from_slice(&code[..CODE_BYTES]);
    }
    bytes
}

/// A packet that is authenticated with the key; without a key, one of at least `shortest` bytes.
fn verified<'a>(bytes: &'a [u8], key: Option<&Key>, shortest: usize) -> Option<&'a [u8]> {
    let Some(key) = key else { return Some(bytes).filter(|bytes| bytes.len() >= shortest) };
    let bytes = bytes.get(..AUTHENTICATED_BYTES)?;
    key.over(&bytes[..COVERED]).verify_truncated_left(&bytes[COVERED..]).ok().map(|()| bytes)
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Fuzz target: reads any bytes as each packet; packets that can be read must round-trip.
pub fn fuzz(bytes: &[u8]) {
    let key = Key::new(*b"key");
    for key in [None, Some(&key)] {
        if let Some(request) = Request::from_bytes(bytes, key) {
            assert_eq!(Request::from_bytes(&request.to_bytes(key), key), Some(request));
            let _ = (unix_ns(request.stamp, request.error), request.error.ns());
        }
        if let Some(reply) = Reply::from_bytes(bytes, key) {
            assert_eq!(Reply::from_bytes(&reply.to_bytes(key), key), Some(reply));
            let _ = unix_ns(reply.received, reply.error);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUEST: Request = Request {
        sequence: 0x0102_0304,
        stamp: 0x1112_1314_1516_1718,
        error: ErrorEstimate(0x8123),
        session: 0x2122,
    };
    const REPLY: Reply = Reply {
        sequence: 0x3132_3334,
        stamp: 0x4142_4344_4546_4748,
        error: ErrorEstimate(0x0155),
        session: 0x2122,
        received: 0x5152_5354_5556_5758,
        request: (0x0102_0304, 0x1112_1314_1516_1718, ErrorEstimate(0x8123)),
        ttl: 0x61,
    };

    /// Field by field as in the figures of RFC 8762 sections 4.2.1 and 4.3.1, with the session identifier as
    /// in RFC 8972 section 3. All bytes of the example values differ, so that a wrong offset or byte order
    /// is detected. Packets of another implementation are in tests/vectors.rs; their
    /// fields agree with those of a third (scapy, contrib/stamp.py).
    #[test]
    fn open_packets_have_the_layout_of_the_rfc() {
        let mut expected =
            vec![1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x81, 0x23, 0x21, 0x22];
        expected.extend([0; 28]);
        assert_eq!(REQUEST.to_bytes(None), expected);
        let expected = [
            0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x01, 0x55, 0x21, 0x22,
            0x51, 0x52, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16,
            0x17, 0x18, 0x81, 0x23, 0, 0, 0x61, 0, 0, 0,
        ];
        assert_eq!(REPLY.to_bytes(None), expected);
    }

    /// Sections 4.2.2 and 4.3.2 and RFC 8972 section 3. The code was computed by another implementation of
    /// HMAC-SHA-256 (Python's hmac).
    #[test]
    fn authenticated_packets_have_the_layout_of_the_rfc() {
        let key = Key::new(*b"secret");
        let bytes = REQUEST.to_bytes(Some(&key));
        assert_eq!(bytes.len(), 112);
        assert_eq!(
            (&bytes[..4], &bytes[16..28]),
            (
                &[1, 2, 3, 4][..],
                &[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x81, 0x23, 0x21, 0x22][..]
            )
        );
        assert_eq!(bytes[4..16], [0; 12]);
        assert_eq!(bytes[28..96], [0; 68]);
        assert_eq!(bytes[96..], SENDER_CODE);
        let bytes = REPLY.to_bytes(Some(&key));
        assert_eq!(
            (&bytes[32..40], &bytes[48..52]),
            (&0x5152_5354_5556_5758u64.to_be_bytes()[..], &[1, 2, 3, 4][..])
        );
        assert_eq!(
            (&bytes[64..74], bytes[80]),
            (&[0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x81, 0x23][..], 0x61)
        );
        assert_eq!(bytes[96..], REFLECTOR_CODE);
    }

    const SENDER_CODE: [u8; 16] =
        [0xf0, 0xd3, 0x56, 0xb7, 0x0b, 0x4d, 0xc7, 0x29, 0x56, 0x2c, 0x69, 0x5e, 0x91, 0x0e, 0xc5, 0xba];
    const REFLECTOR_CODE: [u8; 16] =
        [0x11, 0xae, 0xdd, 0x16, 0x6d, 0x42, 0x89, 0xc0, 0x4c, 0xc3, 0x8c, 0xb8, 0x09, 0x63, 0xea, 0x27];

    #[test]
    fn a_changed_bit_is_detected() {
        let key = Key::new(*b"secret");
        for bytes in [REQUEST.to_bytes(Some(&key)), REPLY.to_bytes(Some(&key))] {
            for bit in 0..bytes.len() * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Request::from_bytes(&changed, Some(&key)), None, "bit {bit}");
                assert_eq!(Reply::from_bytes(&changed, Some(&key)), None, "bit {bit}");
            }
            assert_eq!(Request::from_bytes(&bytes, Some(&Key::new(*b"another"))), None);
            assert_eq!(Request::from_bytes(&bytes[..111], Some(&key)), None);
        }
    }

    #[test]
    fn error_estimates_are_never_rounded_down() {
        for ns in [0, 1, 232, 233, 1000, 65_000, 1_000_000, 123_456_789, 5_000_000_000] {
            let estimate = ErrorEstimate::of(ns, false).ns().unwrap();
            assert!(estimate >= ns as f64 && estimate <= ns as f64 * 1.01 + 1.0, "{ns}: {estimate}");
        }
        assert_eq!(ErrorEstimate(0x8100).ns(), None);
    }

    proptest! {
        #[test]
        fn times_round_trip(ns in 0i64..4_000_000_000_000_000_000) {
            // In NTP's unit, a quarter of a nanosecond, rounded down.
            let converted = unix_ns(ntp(ns), ErrorEstimate(1));
            prop_assert!((converted - ns).abs() <= 1, "{} {}", converted, ns);
            let ptp = ((ns as u64 / 1_000_000_000) << 32) | (ns as u64 % 1_000_000_000);
            prop_assert_eq!(unix_ns(ptp, ErrorEstimate(0x4001)), ns);
        }

        #[test]
        fn intervals_round_trip(ns in 0u64..4_000_000_000_000_000_000) {
            let converted = interval(ntp_interval(Duration::from_nanos(ns))).as_nanos() as u64;
            prop_assert!(converted <= ns && ns - converted <= 1, "{} {}", converted, ns);
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz(&bytes);
        }
    }
}
