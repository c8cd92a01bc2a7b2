//! Who may test, between two longfats: both know a secret, and each JSON message of the control connection comes with a keyed hash
//! (HMAC with SHA-256, RFC 2104) over its text, who sent it, its place in the order, and the test's cookie. So nobody without the
//! secret can ask for a test, change what is asked for or what is told, or make out to be the other end. Nothing is encrypted, and
//! the states between the messages and the data itself are as they are.
//!
//! The parameters carry the time, and a server takes no cookie twice while that could still be valid: what was heard cannot
//! be sent again.

use std::{
    collections::VecDeque,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::{
    iperf3::{
        auth::{AuthError, read, unhex},
        wire::Cookie,
    },
    report::Role,
};

/// Before what is hashed, so that the secret makes nothing that means something elsewhere.
const PURPOSE: &[u8] = b"longfat control/1";
/// Characters of a secret at least.
const SHORTEST: usize = 16;
/// What sealing adds to a text at most: quotes in it are escaped, and the hash comes beside.
pub(crate) const SEALED_LIMIT_FACTOR: usize = 2;

/// The secret.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// A message under seal.
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
    /// The file's text without the white space around it: at least 16 characters.
    pub fn read(path: &Path) -> Result<Token, AuthError> {
        let text = read(path)?;
        let text = text.trim();
        if text.len() < SHORTEST {
            return Err(AuthError::Token { path: path.display().to_string() });
        }
        Ok(Token(text.into()))
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

    /// The message to send instead of `text`.
    pub(crate) fn close(&mut self, text: String) -> impl Serialize + use<> {
        let mac = self.token.mac(&self.cookie, self.role, self.sent, text.as_bytes()).finalize().into_bytes();
        self.sent += 1;
        let longfat_mac = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        Sealed { longfat_sealed: text, longfat_mac }
    }

    /// The text of a message that the other end sealed.
    pub(crate) fn open(&mut self, message: &[u8]) -> Result<String, AuthError> {
        let Ok(sealed) = serde_json::from_slice::<Sealed>(message) else {
            return Err(AuthError::Refused("the other end has no token"));
        };
        let other = if self.role == Role::Client { Role::Server } else { Role::Client };
        let text = sealed.longfat_sealed;
        let mac = self.token.mac(&self.cookie, other, self.received, text.as_bytes());
        self.received += 1;
        let told = unhex(&sealed.longfat_mac).unwrap_or_default();
        // Takes the same time wherever they differ.
        mac.verify_slice(&told).map_err(|_| AuthError::Refused("the other end has another token"))?;
        Ok(text)
    }
}

/// What a server checks with.
#[derive(Debug)]
pub struct TokenGate {
    token: Token,
    skew: Duration,
    /// Cookies of parameters that came under seal, and their times, oldest first.
    seen: Mutex<VecDeque<(u64, Cookie)>>,
}

impl TokenGate {
    /// Clocks may be apart by `skew`.
    pub fn new(token: Token, skew: Duration) -> TokenGate {
        TokenGate { token, skew, seen: Mutex::default() }
    }

    pub(crate) fn token(&self) -> &Token {
        &self.token
    }

    /// Lets each cookie in once. `at_s` is the time in the parameters, `now_s` ours, seconds since 1970.
    pub(crate) fn admit(&self, cookie: &Cookie, at_s: u64, now_s: u64) -> Result<(), AuthError> {
        let skew = self.skew.as_secs();
        if now_s.abs_diff(at_s) > skew {
            return Err(AuthError::Refused("the client's clock and ours are too far apart"));
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // By then its time is too far away.
        while seen.front().is_some_and(|(at, _)| now_s > at + 2 * skew) {
            seen.pop_front();
        }
        if seen.iter().any(|(_, known)| known == cookie) {
            return Err(AuthError::Refused("these parameters came before"));
        }
        seen.push_back((now_s, *cookie));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iperf3::wire::COOKIE_BYTES;

    fn cookie(n: u8) -> Cookie {
        Cookie::from_random([n; COOKIE_BYTES - 1])
    }

    fn pair(ours: &str, theirs: &str) -> (Seal, Seal) {
        let token = |text: &str| Token(text.into());
        (Seal::new(token(ours), cookie(1), Role::Client), Seal::new(token(theirs), cookie(1), Role::Server))
    }

    fn bytes(message: impl Serialize) -> Vec<u8> {
        serde_json::to_vec(&message).unwrap()
    }

    #[test]
    fn a_sealed_text_comes_back_in_its_order_only() {
        let (mut client, mut server) = pair("a secret of both", "a secret of both");
        let (first, second) = (bytes(client.close("{\"a\":1}".into())), bytes(client.close("{}".into())));
        assert_eq!(server.open(&first).unwrap(), "{\"a\":1}");
        assert!(server.open(&first).is_err(), "the same again");
        let (_, mut late) = pair("a secret of both", "a secret of both");
        assert!(late.open(&second).is_err(), "out of order");
        let (mut own, _) = pair("a secret of both", "a secret of both");
        assert!(own.open(&first).is_err(), "one's own");
    }

    #[test]
    fn another_token_text_or_cookie_is_refused() {
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
    fn parameters_count_once_and_for_a_while() {
        let gate = TokenGate::new(Token("a secret of both".into()), Duration::from_secs(10));
        assert!(gate.admit(&cookie(1), 1000, 1005).is_ok());
        assert!(gate.admit(&cookie(1), 1000, 1005).is_err());
        assert!(gate.admit(&cookie(2), 1000, 1011).is_err());
        assert!(gate.admit(&cookie(1), 1010, 1015).is_err(), "the time is not the client's to choose");
        assert!(gate.admit(&cookie(3), 2000, 2000).is_ok());
        assert_eq!(gate.seen.lock().unwrap().len(), 1, "what is over is forgotten");
    }
}
