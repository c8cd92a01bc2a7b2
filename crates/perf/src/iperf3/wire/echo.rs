//! The datagram of a latency probe between two longfats: the client asks at the server's port, the server sends the same back.
//! 57 bytes, big-endian: a mark, the cookie of the test, a number, and in the answer the nanoseconds that the server held it.
//! An answer is no longer than what it answers, and only the host of a running test gets one.

use std::time::Duration;

use super::{COOKIE_BYTES, Cookie};

/// What these datagrams begin with. Hellos of UDP streams have 4 bytes.
const MARK: &[u8; 8] = b"lfecho/1";
/// Bytes of one.
pub const ECHO_BYTES: usize = MARK.len() + COOKIE_BYTES + 4 + 8;

/// A question or its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// Of the test.
    pub cookie: Cookie,
    /// Of the probe, from 0.
    pub number: u32,
    /// From its arrival at the server, as the kernel stamped it, to the answer's leaving; 0 in a question.
    pub held: Duration,
}

impl Echo {
    /// The bytes to send.
    pub fn to_bytes(self) -> [u8; ECHO_BYTES] {
        let mut bytes = [0; ECHO_BYTES];
        let (mark, rest) = bytes.split_at_mut(MARK.len());
        let (cookie, rest) = rest.split_at_mut(COOKIE_BYTES);
        let (number, held) = rest.split_at_mut(4);
        mark.copy_from_slice(MARK);
        cookie.copy_from_slice(self.cookie.as_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        held.copy_from_slice(&u64::try_from(self.held.as_nanos()).unwrap_or(u64::MAX).to_be_bytes());
        bytes
    }

    /// As it came; `None` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Echo> {
        let rest = bytes.strip_prefix(MARK)?;
        let (cookie, rest) = rest.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let held = u64::from_be_bytes(rest.try_into().ok()?);
        Some(Echo {
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
        fn an_echo_reads_back(random: [u8; COOKIE_BYTES - 1], number: u32, held: u64) {
            let echo = Echo { cookie: Cookie::from_random(random), number, held: Duration::from_nanos(held) };
            prop_assert_eq!(Echo::from_bytes(&echo.to_bytes()), Some(echo));
        }

        #[test]
        fn what_is_cut_or_longer_is_none(random: [u8; COOKIE_BYTES - 1], cut in 0..ECHO_BYTES) {
            let bytes = Echo { cookie: Cookie::from_random(random), number: 1, held: Duration::ZERO }.to_bytes();
            prop_assert_eq!(Echo::from_bytes(&bytes[..cut]), None);
            prop_assert_eq!(Echo::from_bytes(&[&bytes[..], b"x"].concat()), None);
        }
    }
}
