//! iperf3's authentication: a user name, a password and the time, encrypted with the server's RSA key, in the
//! parameters' `authtoken` (`iperf_auth.c`). OAEP since iperf 3.17, PKCS#1 v1.5 before.
//!
//! As in iperf3, only user name, password and time are encrypted, nothing else of a test. The token can be
//! replayed within the time skew that the server allows.

use std::{fmt, fs, path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use data_encoding::HEXLOWER_PERMISSIVE;
use rsa::{
    Oaep, Pkcs1v15Encrypt, RsaPrivateKey, RsaPublicKey,
    pkcs1::{DecodeRsaPrivateKey, DecodeRsaPublicKey},
    pkcs8::{DecodePrivateKey, DecodePublicKey},
    rand_core::OsRng,
};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Maximum size of a file of keys or users, bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Default of the maximum difference of the client's and the server's clocks (iperf3's
/// --time-skew-threshold).
pub const TIME_SKEW: Duration = Duration::from_secs(10);

/// The padding of the encryption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// OAEP with SHA-1.
    #[default]
    Oaep,
    /// PKCS#1 v1.5, for iperf3 before 3.17.
    Pkcs1,
}

/// An error of keys, users or a token.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// A file cannot be read.
    #[error("cannot read {path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// The reason.
        reason: String,
    },
    /// A file has no such key.
    #[error("{path} has no RSA {kind} key in PEM: {reason}")]
    Key {
        /// The file.
        path: String,
        /// `public` or `private`.
        kind: &'static str,
        /// The reason.
        reason: String,
    },
    /// A malformed line in the file of users.
    #[error("{path}, line {line}: not of the form user,sha256 with 64 hexadecimal digits")]
    Users {
        /// The file.
        path: String,
        /// From 1.
        line: usize,
    },
    /// A secret that is too short.
    #[error("{path} has no token: it needs at least 16 characters, as from `openssl rand -hex 32`")]
    Token {
        /// The file.
        path: String,
    },
    /// iperf3 splits names and passwords at white space.
    #[error("the {0} is empty or contains white space, which iperf3's protocol cannot carry")]
    Credential(&'static str),
    /// The key is too short for the text to encrypt, or the system has no random bytes.
    #[error("cannot encrypt user name and password: {0}")]
    Encrypt(String),
    /// The other end failed the authentication.
    #[error("authentication failed: {0}")]
    Refused(&'static str),
}

/// A client's user name, password, and the server's public key.
#[derive(Clone)]
pub struct Credentials {
    user: String,
    password: String,
    key: RsaPublicKey,
    padding: Padding,
}

impl Credentials {
    /// Reads the server's public key, a PEM file.
    ///
    /// # Errors
    /// If the key cannot be read, or the user name or password contains white space.
    pub fn new(user: &str, password: &str, key: &Path, padding: Padding) -> Result<Self, AuthError> {
        for (what, text) in [("user name", user), ("password", password)] {
            if text.is_empty() || text.contains(char::is_whitespace) {
                return Err(AuthError::Credential(what));
            }
        }
        let pem = read(key)?;
        let key = RsaPublicKey::from_public_key_pem(&pem)
            .or_else(|error| RsaPublicKey::from_pkcs1_pem(&pem).map_err(|_| error))
            .map_err(|e| AuthError::Key {
                path: key.display().to_string(),
                kind: "public",
                reason: e.to_string(),
            })?;
        Ok(Credentials { user: user.into(), password: password.into(), key, padding })
    }

    /// The token for the time `now_s`, seconds since 1970.
    ///
    /// # Errors
    /// If the encryption fails.
    pub fn token(&self, now_s: u64) -> Result<String, AuthError> {
        let text = format!("user: {}\npwd:  {}\nts:   {now_s}", self.user, self.password);
        let encrypted = match self.padding {
            Padding::Oaep => self.key.encrypt(&mut OsRng, Oaep::new::<Sha1>(), text.as_bytes()),
            Padding::Pkcs1 => self.key.encrypt(&mut OsRng, Pkcs1v15Encrypt, text.as_bytes()),
        };
        Ok(STANDARD.encode(encrypted.map_err(|e| AuthError::Encrypt(e.to_string()))?))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials of {}", self.user)
    }
}

/// A server's private key and users.
#[derive(Clone)]
pub struct Authority {
    key: RsaPrivateKey,
    users: Vec<(String, [u8; 32])>,
    skew: Duration,
    padding: Padding,
}

impl Authority {
    /// Reads the private key (PEM, without a passphrase) and a file of `user,sha256("{user}password")` lines.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed.
    pub fn new(key: &Path, users: &Path, skew: Duration, padding: Padding) -> Result<Self, AuthError> {
        let pem = read(key)?;
        let key = RsaPrivateKey::from_pkcs8_pem(&pem)
            .or_else(|error| RsaPrivateKey::from_pkcs1_pem(&pem).map_err(|_| error))
            .map_err(|e| AuthError::Key {
                path: key.display().to_string(),
                kind: "private",
                reason: e.to_string(),
            })?;
        let users = parse_users(&read(users)?)
            .map_err(|line| AuthError::Users { path: users.display().to_string(), line })?;
        Ok(Authority { key, users, skew, padding })
    }

    /// The user of a token that is valid at `now_s` (seconds since 1970).
    ///
    /// # Errors
    /// If the token is missing, unreadable or expired, or the user or password is wrong.
    pub fn check(&self, token: Option<&str>, now_s: u64) -> Result<String, AuthError> {
        let token = token.ok_or(AuthError::Refused("the client sent no user name and password"))?;
        let unreadable = AuthError::Refused("the client's user name and password cannot be decrypted");
        let Ok(encrypted) = STANDARD.decode(token.trim()) else { return Err(unreadable) };
        let text = match self.padding {
            Padding::Oaep => self.key.decrypt_blinded(&mut OsRng, Oaep::new::<Sha1>(), &encrypted),
            Padding::Pkcs1 => self.key.decrypt_blinded(&mut OsRng, Pkcs1v15Encrypt, &encrypted),
        };
        let Some((user, password, at)) = text.ok().as_deref().and_then(parse_token) else {
            return Err(unreadable);
        };
        if now_s.abs_diff(at) > self.skew.as_secs() {
            return Err(AuthError::Refused("the clocks of client and server differ too much"));
        }
        let hash = hash(&user, &password);
        // Compares all users completely, so that the time reveals nothing about which users exist.
        let known = self.users.iter().fold(false, |known, (name, expected)| {
            let differs = expected.iter().zip(&hash).fold(0, |bits, (a, b)| bits | (a ^ b));
            known | (*name == user && differs == 0)
        });
        if known { Ok(user) } else { Err(AuthError::Refused("the user name or the password is wrong")) }
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authority over {} users", self.users.len())
    }
}

/// The hash in the file of users.
fn hash(user: &str, password: &str) -> [u8; 32] {
    Sha256::digest(format!("{{{user}}}{password}")).into()
}

/// Users and hashes, or the number of the malformed line.
fn parse_users(text: &str) -> Result<Vec<(String, [u8; 32])>, usize> {
    let mut users = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.split_once(',').and_then(|(user, hex)| Some((user.trim(), unhex(hex.trim())?)));
        match parsed {
            Some((user, hash)) if !user.is_empty() => users.push((user.to_string(), hash)),
            _ => return Err(index + 1),
        }
    }
    Ok(users)
}

/// The bytes of a hash in hexadecimal.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

/// User, password and seconds of a decrypted token.
fn parse_token(text: &[u8]) -> Option<(String, String, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let mut after = |label: &str| (words.next()? == label).then(|| words.next())?;
    Some((after("user:")?.into(), after("pwd:")?.into(), after("ts:")?.parse().ok()?))
}

pub(crate) fn read(path: &Path) -> Result<String, AuthError> {
    let failed = |reason: String| AuthError::File { path: path.display().to_string(), reason };
    let about = fs::metadata(path).map_err(|e| failed(e.to_string()))?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return Err(failed("not a regular file of at most 16 MiB".into()));
    }
    fs::read_to_string(path).map_err(|e| failed(e.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pair(padding: Padding) -> (Credentials, Authority) {
        // A short key, which is generated quickly.
        let key = RsaPrivateKey::new(&mut OsRng, 1024).unwrap();
        let credentials =
            Credentials { user: "mario".into(), password: "rossi".into(), key: key.to_public_key(), padding };
        let users = vec![("luigi".into(), [7; 32]), ("mario".into(), hash("mario", "rossi"))];
        (credentials, Authority { key, users, skew: TIME_SKEW, padding })
    }

    #[test]
    fn a_token_identifies_its_user_for_a_limited_time() {
        for padding in [Padding::Oaep, Padding::Pkcs1] {
            let (client, server) = pair(padding);
            let token = client.token(1_000_000).unwrap();
            assert!(!token.contains('\n'));
            assert_eq!(server.check(Some(&token), 1_000_010).unwrap(), "mario");
            assert_eq!(server.check(Some(&token), 999_990).unwrap(), "mario");
            assert!(server.check(Some(&token), 1_000_011).is_err());
            let wrong = Credentials { password: "bianchi".into(), ..client };
            assert!(server.check(Some(&wrong.token(1_000_000).unwrap()), 1_000_000).is_err());
        }
    }

    #[test]
    fn missing_and_malformed_tokens_are_rejected() {
        let (client, server) = pair(Padding::Oaep);
        for token in [None, Some(""), Some("%%%"), Some("AAAA")] {
            assert!(server.check(token, 0).is_err());
        }
        let other = Credentials { padding: Padding::Pkcs1, ..client };
        assert!(server.check(Some(&other.token(5).unwrap()), 5).is_err(), "the other padding");
    }

    #[test]
    fn the_users_file_has_iperf3s_format() {
        // printf '{mario}rossi' | sha256sum, as in iperf3's manual.
        let text = "# users\n\nmario,bf7a49a846d44b454a5d11e7acfaf13d138bbe0b7483aa3e050879700572709b\n";
        assert_eq!(parse_users(text).unwrap(), [("mario".to_string(), hash("mario", "rossi"))]);
        assert_eq!(parse_users("mario,bf7a"), Err(1));
        assert_eq!(parse_users("#\nmario"), Err(2));
        assert_eq!(parse_users(&format!(",{}", "0".repeat(64))), Err(1));
    }

    proptest! {
        #[test]
        fn arbitrary_tokens_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_token(&bytes);
        }
    }
}
