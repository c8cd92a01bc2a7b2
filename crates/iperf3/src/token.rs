//! Authentication by a token, between two longfat ends. Both ends share a secret, and each JSON message of
//! the control connection carries a keyed hash (HMAC with SHA-256, RFC 2104) over its text, its sender, its
//! sequence number and the test's cookie. Without the secret it is therefore impossible to request a test,
//! change requests or results, or impersonate the other end. Nothing is encrypted, and neither the states
//! between the messages nor the data are protected.
//!
//! The parameters carry the time, and a server accepts no cookie twice while that time is valid: a recorded
//! message cannot be replayed.

use std::{
    collections::VecDeque,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{
    auth::{AuthError, read, unhex},
    report::Role,
    wire::Cookie,
};

/// Prefix of the hashed bytes, so that hashes of this protocol are valid in no other (domain separation).
const PURPOSE: &[u8] = b"longfat control/1";
/// Minimum length of a secret, characters.
const MIN_TOKEN_CHARS: usize = 16;
/// Maximum growth of a text by sealing: its quotes are escaped, and the hash is added.
pub(crate) const SEALED_LIMIT_FACTOR: usize = 2;

/// A secret that both ends share.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// A sealed message.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed {
    longfat_sealed: String,
    /// Hexadecimal.
    longfat_mac: String,
}

/// One end's seal for one test.
#[derive(Debug)]
pub(crate) struct Seal {
    token: Token,
    cookie: Cookie,
    role: Role,
    sent: u32,
    received: u32,
}

impl Token {
    /// A secret that both ends have agreed on by other means.
    pub fn new(secret: impl Into<Vec<u8>>) -> Token {
        Token(secret.into())
    }

    /// Reads the file's text, without leading and trailing white space: at least 16 characters.
    ///
    /// # Errors
    /// If the file cannot be read or its text is too short.
    pub fn read(path: &Path) -> Result<Token, AuthError> {
        let text = read(path)?;
        let text = text.trim();
        if text.len() < MIN_TOKEN_CHARS {
            return Err(AuthError::Token { path: path.display().to_string() });
        }
        Ok(Token(text.into()))
    }

    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Token {
        Token(text.into())
    }

    /// A keyed hash for another protocol of longfat, whose `purpose` separates it from all others. Each part
    /// is preceded by its length.
    pub fn keyed_hash(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!());
        for part in [purpose.as_bytes()].iter().chain(parts) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    fn mac(&self, cookie: &Cookie, from: Role, number: u32, text: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of any length.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!());
        mac.update(PURPOSE);
        mac.update(cookie.as_bytes());
        mac.update(&[u8::from(from == Role::Server)]);
        mac.update(&number.to_be_bytes());
        mac.update(text);
        mac
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Seal {
    pub(crate) fn new(token: Token, cookie: Cookie, role: Role) -> Seal {
        Seal { token, cookie, role, sent: 0, received: 0 }
    }

    /// Seals `text`: returns the message to send instead.
    pub(crate) fn close(&mut self, text: String) -> impl Serialize + use<> {
        let mac = self.token.mac(&self.cookie, self.role, self.sent, text.as_bytes()).finalize().into_bytes();
        self.sent += 1;
        let longfat_mac = HEXLOWER.encode(&mac);
        Sealed { longfat_sealed: text, longfat_mac }
    }

    /// Checks a message that the other end has sealed, and returns its text.
    pub(crate) fn open(&mut self, message: &[u8]) -> Result<String, AuthError> {
        let Ok(sealed) = serde_json::from_slice::<Sealed>(message) else {
            return Err(AuthError::Refused("the other end has no token"));
        };
        let other = if self.role == Role::Client { Role::Server } else { Role::Client };
        let text = sealed.longfat_sealed;
        let mac = self.token.mac(&self.cookie, other, self.received, text.as_bytes());
        self.received += 1;
        let received_mac = unhex(&sealed.longfat_mac).unwrap_or_default();
        // A comparison in constant time.
        mac.verify_slice(&received_mac)
            .map_err(|_| AuthError::Refused("the other end has a different token"))?;
        Ok(text)
    }
}

/// A server's check of tokens.
#[derive(Debug)]
pub struct TokenGate {
    token: Token,
    skew: Duration,
    /// Cookies of sealed parameters, and their times of arrival, oldest first.
    recent: Mutex<VecDeque<(u64, Cookie)>>,
}

impl TokenGate {
    /// Accepts clients whose clocks differ by up to `skew`.
    pub fn new(token: Token, skew: Duration) -> TokenGate {
        TokenGate { token, skew, recent: Mutex::default() }
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Admits each cookie once. `at_s` is the time in the parameters, `now_s` this host's, seconds since
    /// 1970.
    pub(crate) fn admit(&self, cookie: &Cookie, at_s: u64, now_s: u64) -> Result<(), AuthError> {
        let skew = self.skew.as_secs();
        if now_s.abs_diff(at_s) > skew {
            return Err(AuthError::Refused("the clocks of client and server differ too much"));
        }
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        // Their times are no longer valid.
        while recent.front().is_some_and(|(at, _)| now_s > at + 2 * skew) {
            recent.pop_front();
        }
        if recent.iter().any(|(_, known)| known == cookie) {
            return Err(AuthError::Refused("the parameters were used before (replay)"));
        }
        recent.push_back((now_s, *cookie));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::COOKIE_BYTES;

    fn cookie(n: u8) -> Cookie {
        Cookie::from_random([n; COOKIE_BYTES - 1])
    }

    fn pair(ours: &str, theirs: &str) -> (Seal, Seal) {
        let token = Token::of;
        (Seal::new(token(ours), cookie(1), Role::Client), Seal::new(token(theirs), cookie(1), Role::Server))
    }

    fn bytes(message: impl Serialize) -> Vec<u8> {
        serde_json::to_vec(&message).unwrap()
    }

    #[test]
    fn sealed_messages_are_accepted_only_in_order() {
        let (mut client, mut server) = pair("a secret of both", "a secret of both");
        let (first, second) = (bytes(client.close("{\"a\":1}".into())), bytes(client.close("{}".into())));
        assert_eq!(server.open(&first).unwrap(), "{\"a\":1}");
        assert!(server.open(&first).is_err(), "the same again");
        let (_, mut late) = pair("a secret of both", "a secret of both");
        assert!(late.open(&second).is_err(), "out of order");
        let (mut own, _) = pair("a secret of both", "a secret of both");
        assert!(own.open(&first).is_err(), "this end's own message");
    }

    #[test]
    fn a_different_token_text_or_cookie_is_rejected() {
        let (mut client, mut server) = pair("a secret of both", "another secret..");
        assert!(server.open(&bytes(client.close("{}".into()))).is_err());
        let (mut client, mut server) = pair("a secret of both", "a secret of both");
        let changed = String::from_utf8(bytes(client.close("{\"time\":10}".into()))).unwrap();
        assert!(server.open(changed.replace("10", "99").as_bytes()).is_err());
        let mut other = Seal::new(Token("a secret of both".into()), cookie(2), Role::Server);
        let (mut client, _) = pair("a secret of both", "");
        assert!(other.open(&bytes(client.close("{}".into()))).is_err());
        for nonsense in [&b""[..], b"{}", b"null", b"{\"longfat_sealed\":\"\",\"longfat_mac\":\"zz\"}"] {
            assert!(server.open(nonsense).is_err());
        }
    }

    #[test]
    fn parameters_are_accepted_once_and_for_a_limited_time() {
        let gate = TokenGate::new(Token("a secret of both".into()), Duration::from_secs(10));
        assert!(gate.admit(&cookie(1), 1000, 1005).is_ok());
        assert!(gate.admit(&cookie(1), 1000, 1005).is_err());
        assert!(gate.admit(&cookie(2), 1000, 1011).is_err());
        assert!(gate.admit(&cookie(1), 1010, 1015).is_err(), "a later time of the client does not help");
        assert!(gate.admit(&cookie(3), 2000, 2000).is_ok());
        assert_eq!(gate.recent.lock().unwrap().len(), 1, "expired cookies are dropped");
    }
}
