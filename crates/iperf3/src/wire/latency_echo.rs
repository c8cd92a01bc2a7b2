//! The datagram of a latency probe between two longfat ends: the client sends it to the server's port, and
//! the server returns it. 57 bytes, big-endian: a magic string, the cookie of the test, a number, and in the
//! reply the time for which the server held the request, ns. A reply is as long as its request, and only the
//! client's host of a running test gets one, so that servers cannot be abused for amplification.

use std::time::Duration;

use super::{COOKIE_BYTES, Cookie};

/// The first bytes of these datagrams. The hellos of UDP streams have 4 bytes.
const MAGIC: &[u8; 8] = b"lfecho/1";
/// Bytes of a datagram.
pub const LATENCY_ECHO_BYTES: usize = MAGIC.len() + COOKIE_BYTES + 4 + 8;

/// A request or its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyEcho {
    /// The test's cookie.
    pub cookie: Cookie,
    /// The probe's number, from 0.
    pub number: u32,
    /// The time from the request's arrival at the server, by the kernel's timestamp, to sending the reply; 0
    /// in a request.
    pub held: Duration,
}

impl LatencyEcho {
    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; LATENCY_ECHO_BYTES] {
        let mut bytes = [0; LATENCY_ECHO_BYTES];
        let (magic, rest) = bytes.split_at_mut(MAGIC.len());
        let (cookie, rest) = rest.split_at_mut(COOKIE_BYTES);
        let (number, held) = rest.split_at_mut(4);
        magic.copy_from_slice(MAGIC);
        cookie.copy_from_slice(self.cookie.as_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        held.copy_from_slice(&u64::try_from(self.held.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
        bytes
    }

    /// Reads a datagram; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<LatencyEcho> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let held = u64::from_be_bytes(rest.try_into().ok()?);
        Some(LatencyEcho {
            cookie: Cookie::from_wire(*cookie)?,
            number: u32::from_be_bytes(*number),
            held: Duration::from_nanos(held),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_echo_round_trips(random: [u8; COOKIE_BYTES - 1], number: u32, held: u64) {
            let echo = LatencyEcho { cookie: Cookie::from_random(random), number, held: Duration::from_nanos(held) };
            prop_assert_eq!(LatencyEcho::from_bytes(&echo.to_bytes()), Some(echo));
        }

        #[test]
        fn truncated_and_longer_datagrams_are_ignored(random: [u8; COOKIE_BYTES - 1], cut in 0..LATENCY_ECHO_BYTES) {
            let bytes = LatencyEcho { cookie: Cookie::from_random(random), number: 1, held: Duration::ZERO }.to_bytes();
            prop_assert_eq!(LatencyEcho::from_bytes(&bytes[..cut]), None);
            prop_assert_eq!(LatencyEcho::from_bytes(&[&bytes[..], b"x"].concat()), None);
        }
    }
}
