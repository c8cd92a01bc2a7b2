//! The secret of a probe session, for servers that do not serve everyone.

use std::fmt;

use iperf3::wire::COOKIE_BYTES;

use super::wire::COOKIE_PREFIX;

/// Bytes of a cookie after its prefix and before the zero at its end.
const SECRET_BYTES: usize = COOKIE_BYTES - 1 - COOKIE_PREFIX.len();

/// A secret, which the client sends in its cookie. It is not encrypted: use it for one session only.
#[derive(Clone, PartialEq, Eq)]
pub struct ProbeSecret([u8; SECRET_BYTES]);

impl ProbeSecret {
    /// The first 20 characters of a text; `None` if they are not ASCII letters and digits, or fewer.
    pub fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes().first_chunk::<SECRET_BYTES>()?;
        bytes.iter().all(u8::is_ascii_alphanumeric).then_some(ProbeSecret(*bytes))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether a cookie has this text after its prefix. The time of the comparison does not depend on the
    /// text.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let differences = text.bytes().zip(self.0).fold(0, |all, (theirs, own)| all | (theirs ^ own));
        text.len() == SECRET_BYTES && differences == 0
    }
}

impl fmt::Debug for ProbeSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_text_has_the_secret() {
        let text = "0123456789abcdef0123456789abcdef";
        let secret = ProbeSecret::new(text).unwrap();
        assert!(secret.is_in(&text[..SECRET_BYTES]));
        for wrong in ["", "0", "1123456789abcdef0123", &text[..SECRET_BYTES - 1], text] {
            assert!(!secret.is_in(wrong), "{wrong}");
        }
        assert_eq!((ProbeSecret::new("short"), ProbeSecret::new(&" ".repeat(40))), (None, None));
        assert!(!format!("{secret:?}").contains("0123"));
    }
}
