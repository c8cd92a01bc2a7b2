//! STAMP's packets, pure: RFC 8762 sections 4.2 and 4.3, with the session identifier of RFC 8972 section 3 where there were zeros.
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
//! Everything else is zero. The code covers the first 96 bytes.

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// Bytes of a packet.
pub const OPEN_BYTES: usize = 44;
/// Bytes of a packet with a code.
pub const AUTHENTICATED_BYTES: usize = 112;
/// What the code covers (RFC 8762 section 4.4: the first six blocks).
const COVERED: usize = 96;
/// Bytes of the code: HMAC-SHA-256 cut to 128 bits.
const CODE_BYTES: usize = 16;
/// From 1900, where NTP's time begins, to 1970, seconds (RFC 5905).
const NTP_TO_UNIX: u64 = 2_208_988_800;

/// The key of authenticated packets.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

impl Key {
    /// These bytes, whatever they are.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Key {
        Key(bytes.into())
    }

    /// HMAC-SHA-256 of a message (RFC 8762 section 4.4), of which a packet has the first half.
    fn over(&self, message: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length (RFC 2104 section 2).
        Hmac::<Sha256>::new_from_slice(&self.0).expect("any length is one").chain_update(message)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// How exact a clock is said to be (RFC 4656 section 4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate(pub u16);

impl ErrorEstimate {
    /// So many ns, rounded up; `synchronised` to a source outside.
    pub fn of(ns: u64, synchronised: bool) -> Self {
        // Multiplier x 2^(scale - 32) seconds.
        let units = (u128::from(ns) << 32).div_ceil(1_000_000_000).max(1);
        let bits = 128 - units.leading_zeros();
        let scale = bits.saturating_sub(8);
        let multiplier = (units >> scale) + u128::from(units & ((1 << scale) - 1) != 0);
        // Rounding up may take a ninth bit.
        let (scale, multiplier) =
            if multiplier > 255 { (scale + 1, multiplier.div_ceil(2)) } else { (scale, multiplier) };
        ErrorEstimate(u16::from(synchronised) << 15 | (scale.min(63) as u16) << 8 | multiplier as u16)
    }

    /// What it says, ns; `None` where the multiplier is 0, which says nothing.
    pub fn ns(self) -> Option<f64> {
        let (scale, multiplier) = (self.0 >> 8 & 0x3f, self.0 & 0xff);
        (multiplier > 0).then(|| f64::from(multiplier) * 2f64.powi(i32::from(scale) - 32) * 1e9)
    }

    /// Whether times are PTP's (RFC 8186) instead of NTP's.
    fn is_ptp(self) -> bool {
        self.0 & 1 << 14 != 0
    }
}

/// What a sender sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its number.
    pub sequence: u32,
    /// When it was sent: the bytes as they are, for the reflector gives them back.
    pub stamp: u64,
    /// How exact that is.
    pub error: ErrorEstimate,
    /// The session's; 0 for none.
    pub session: u16,
}

/// What a reflector answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Its own number.
    pub sequence: u32,
    /// When it was sent.
    pub stamp: u64,
    /// How exact the reflector's times are.
    pub error: ErrorEstimate,
    /// The session's.
    pub session: u16,
    /// When the request came.
    pub received: u64,
    /// The request's number, time and error.
    pub request: (u32, u64, ErrorEstimate),
    /// The time to live that the request came with; 255 where it is not known.
    pub ttl: u8,
}

/// A time as NTP writes it: seconds since 1900 and their fraction.
pub fn ntp(unix_ns: i64) -> u64 {
    let seconds = unix_ns.div_euclid(1_000_000_000) as u64;
    let fraction = (unix_ns.rem_euclid(1_000_000_000) as u64) << 32;
    seconds.wrapping_add(NTP_TO_UNIX) << 32 | fraction.div_ceil(1_000_000_000).min(u64::from(u32::MAX))
}

/// ns since 1970 of a time in the format that its error estimate names. NTP's era is the one that ends in 2104 (RFC 4330
/// section 3: a first bit of 0 is after 2036).
pub fn unix_ns(stamp: u64, error: ErrorEstimate) -> i64 {
    let (high, low) = (stamp >> 32, stamp & 0xffff_ffff);
    if error.is_ptp() {
        return (high * 1_000_000_000 + low) as i64;
    }
    let era = if high & 1 << 31 == 0 { 1 << 32 } else { 0 };
    (high + era) as i64 * 1_000_000_000 - NTP_TO_UNIX as i64 * 1_000_000_000
        + ((low * 1_000_000_000) >> 32) as i64
}

/// Where the fields are.
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

    /// As it came: `None` where it is too short or, with a key, not by who has it.
    pub fn from_bytes(bytes: &[u8], key: Option<&Key>) -> Option<Request> {
        let at = layout(key);
        let bytes = opened(bytes, key)?;
        let session = u16::from_be_bytes(word(bytes, at.error + 2)?);
        Some(Request {
            sequence: u32::from_be_bytes(word(bytes, 0)?),
            stamp: u64::from_be_bytes(word(bytes, at.stamp)?),
            error: ErrorEstimate(u16::from_be_bytes(word(bytes, at.error)?)),
            session,
        })
    }
}

impl Reply {
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

    /// As it came: `None` where it is too short or, with a key, not by who has it.
    pub fn from_bytes(bytes: &[u8], key: Option<&Key>) -> Option<Reply> {
        let at = layout(key);
        let bytes = opened(bytes, key)?;
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

fn opened<'a>(bytes: &'a [u8], key: Option<&Key>) -> Option<&'a [u8]> {
    let bytes = bytes.get(..layout(key).bytes)?;
    match key {
        None => Some(bytes),
        Some(key) => {
            key.over(&bytes[..COVERED]).verify_truncated_left(&bytes[COVERED..]).ok().map(|()| bytes)
        }
    }
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Reads any bytes as each packet, and what reads writes back; for fuzzers.
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

    /// Field by field as the figures of RFC 8762 sections 4.2.1 and 4.3.1 have them, with the session identifier where those of RFC 8972
    /// section 3 have it. The values are made up, each byte another, so that a field in a wrong place or order is seen; packets
    /// of another implementation are in tests/stamp_vectors.rs, and its fields agree with those of a third (scapy, contrib/stamp.py).
    #[test]
    fn open_packets_are_laid_out_as_the_rfc_says() {
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

    /// Sections 4.2.2 and 4.3.2 and RFC 8972 section 3. The code as another implementation of HMAC-SHA-256 (Python's hmac) computes it.
    #[test]
    fn authenticated_packets_are_laid_out_as_the_rfc_says() {
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
    fn whoever_changes_a_bit_is_found_out() {
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
    fn errors_are_never_made_smaller() {
        for ns in [0, 1, 232, 233, 1000, 65_000, 1_000_000, 123_456_789, 5_000_000_000] {
            let said = ErrorEstimate::of(ns, false).ns().unwrap();
            assert!(said >= ns as f64 && said <= ns as f64 * 1.01 + 1.0, "{ns}: {said}");
        }
        assert_eq!(ErrorEstimate(0x8100).ns(), None);
    }

    proptest! {
        #[test]
        fn times_come_back(ns in 0i64..4_000_000_000_000_000_000) {
            // To the unit of NTP, a quarter of a nanosecond, rounded down.
            let back = unix_ns(ntp(ns), ErrorEstimate(1));
            prop_assert!((back - ns).abs() <= 1, "{} {}", back, ns);
            let ptp = ((ns as u64 / 1_000_000_000) << 32) | (ns as u64 % 1_000_000_000);
            prop_assert_eq!(unix_ns(ptp, ErrorEstimate(0x4001)), ns);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz(&bytes);
        }
    }
}
