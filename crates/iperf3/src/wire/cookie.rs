//! The cookie, which identifies the connections of a test: 36 characters of `a-z2-7` and a zero.

/// Length on the wire, bytes, including the zero at the end.
pub const COOKIE_BYTES: usize = 37;

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A test's cookie, as received or sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cookie([u8; COOKIE_BYTES]);

impl Cookie {
    /// Generates a cookie from random bytes; uses five bits of each.
    pub fn from_random(random: [u8; COOKIE_BYTES - 1]) -> Cookie {
        let mut bytes = [0; COOKIE_BYTES];
        for (byte, random) in bytes.iter_mut().zip(random) {
            *byte = ALPHABET[usize::from(random % 32)];
        }
        Cookie(bytes)
    }

    /// Reads a cookie. Other programs may use other characters (old iperf3 used the host's name and the
    /// time), so any printable text with a zero at its end is accepted.
    pub fn from_wire(bytes: [u8; COOKIE_BYTES]) -> Option<Cookie> {
        let text = &bytes[..COOKIE_BYTES - 1];
        let ends = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        let printable = text[..ends].iter().all(|b| b.is_ascii_graphic());
        (bytes[COOKIE_BYTES - 1] == 0 && ends > 0 && printable).then_some(Cookie(bytes))
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8; COOKIE_BYTES] {
        &self.0
    }

    /// The characters before the zero.
    pub fn as_str(&self) -> &str {
        let ends = self.0.iter().position(|b| *b == 0).unwrap_or(COOKIE_BYTES);
        // ASCII by construction.
        std::str::from_utf8(&self.0[..ends]).unwrap_or_default()
    }
}

impl std::fmt::Debug for Cookie {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cookie({})", self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_of_random_bytes_round_trips() {
        let random = std::array::from_fn(|i| (i * 7) as u8);
        let cookie = Cookie::from_random(random);
        assert_eq!(cookie.as_str().len(), 36);
        assert!(cookie.as_str().bytes().all(|b| ALPHABET.contains(&b)));
        assert_eq!(Cookie::from_wire(*cookie.as_bytes()), Some(cookie));
    }

    #[test]
    fn only_printable_text_is_accepted_as_a_cookie() {
        let with = |fill: u8, last: u8| {
            let mut bytes = [fill; COOKIE_BYTES];
            bytes[COOKIE_BYTES - 1] = last;
            Cookie::from_wire(bytes)
        };
        assert_eq!(with(b'a', b'a'), None, "no zero at the end");
        assert_eq!(with(0, 0), None, "empty");
        assert_eq!(with(0xff, 0), None);
        assert_eq!(with(b'\n', 0), None);
        assert!(with(b'H', 0).is_some());
    }
}
