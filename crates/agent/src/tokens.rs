//! Tokens of programs that use the HTTP interface. Each has a name, scopes or a role, and may expire; the
//! file has only hashes of their secrets.
//!
//! The file is read for each request that needs a token, so that a removed token is refused at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{Error, audit, files, mesh::check_name};

/// Bytes of a token's secret.
const SECRET_BYTES: usize = 32;
/// Begins every token, so that scanners for leaked secrets can find it.
const PREFIX: &str = "longfat-token-";
/// In limits and calendars the token `NAME` is the user `token:NAME@POINT`; a login name has no colon
/// (passwd(5)).
const USER_PREFIX: &str = "token:";

/// What a token or a [`Role`](crate::Role) permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Reserve slots, and cancel reservations of the same token or user.
    Reserve,
    /// Report the result of a transfer that the same token or user reserved.
    Report,
    /// Acknowledge causes, and mute alerts.
    Alerts,
    /// Cancel any reservation.
    Cancel,
    /// Read the state, the calendar, reservations and results. The HTTP interface needs no token for this.
    Read,
    /// Remove points from the mesh.
    Administer,
}

/// The names of scopes, for messages.
pub(crate) fn scope_names(scopes: &BTreeSet<Scope>) -> String {
    let names: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

impl Scope {
    /// All scopes.
    pub const ALL: [Scope; 6] =
        [Scope::Reserve, Scope::Report, Scope::Alerts, Scope::Cancel, Scope::Read, Scope::Administer];

    /// Name in the file, on the command line and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Reserve => "reserve",
            Scope::Report => "report",
            Scope::Alerts => "alerts",
            Scope::Cancel => "cancel",
            Scope::Read => "read",
            Scope::Administer => "administer",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Scope::ALL.into_iter().find(|scope| scope.name() == text).ok_or_else(|| {
            let names = Scope::ALL.map(Scope::name).join(", ");
            format!("{text:?} is not a scope; the scopes are: {names}")
        })
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// Its scopes; with a role it has none of its own.
    pub scopes: Vec<Scope>,
    /// The name of its role, whose scopes apply instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// When it was created, seconds since 1970.
    pub created_s: u64,
    /// When it expires, seconds since 1970.
    pub expires_s: Option<u64>,
    /// SHA-256 of its secret, hexadecimal.
    #[serde(rename = "sha256")]
    digest: String,
}

/// The tokens of a point.
#[derive(Debug)]
pub struct Tokens {
    state: PathBuf,
    path: PathBuf,
    entries: BTreeMap<String, TokenEntry>,
}

/// The user of a token in requests of its point.
pub(crate) fn user_of(name: &str) -> String {
    format!("{USER_PREFIX}{name}")
}

/// Whether a user is a program with a token.
pub(crate) fn is_program(user: &str) -> bool {
    user.starts_with(USER_PREFIX)
}

impl Tokens {
    /// Reads the tokens of a point.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(state: &Path) -> Result<Tokens, Error> {
        let path = state.join("tokens.json");
        let entries = match files::read(&path) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| files::failed("read", &path)(io::Error::other(error)))?,
            Err(Error::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Tokens { state: state.into(), path, entries })
    }

    /// All tokens by name.
    pub fn entries(&self) -> &BTreeMap<String, TokenEntry> {
        &self.entries
    }

    /// Creates a token. The returned text is secret; only its hash is stored.
    ///
    /// # Errors
    /// If there is a token of this name, or the file cannot be written.
    pub fn create(&mut self, name: &str, scopes: &[Scope], valid: Option<Duration>) -> Result<String, Error> {
        self.add(name, scopes, None, valid)
    }

    /// As [`create`](Self::create), with the scopes that a role has at the time of each request.
    ///
    /// # Errors
    /// As of `create`.
    pub fn create_with_role(
        &mut self,
        name: &str,
        role: &str,
        valid: Option<Duration>,
    ) -> Result<String, Error> {
        self.add(name, &[], Some(role.into()), valid)
    }

    fn add(
        &mut self,
        name: &str,
        scopes: &[Scope],
        role: Option<String>,
        valid: Option<Duration>,
    ) -> Result<String, Error> {
        check_name(name)?;
        if self.entries.contains_key(name) {
            return Err(Error::Refused(format!("there is a token of the name {name}; remove it first")));
        }
        let secret =
            os::random_hex(SECRET_BYTES).map_err(|error| Error::system("draw a random number", error))?;
        let mut scopes = scopes.to_vec();
        scopes.sort();
        scopes.dedup();
        let created_s = os::realtime().as_secs();
        let entry = TokenEntry {
            scopes,
            role,
            created_s,
            expires_s: valid.map(|valid| created_s.saturating_add(valid.as_secs())),
            digest: digest(&secret),
        };
        let mut details = json!({ "token": name, "scopes": entry.scopes, "expires_s": entry.expires_s });
        if let Some(role) = &entry.role {
            details["role"] = role.as_str().into();
        }
        self.entries.insert(name.into(), entry);
        self.write("create token", details)?;
        Ok(format!("{PREFIX}{name}.{secret}"))
    }

    /// Removes a token; requests with it are refused from now on.
    ///
    /// # Errors
    /// If there is none, or the file cannot be written.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        if self.entries.remove(name).is_none() {
            return Err(Error::Refused(format!("there is no token of the name {name:?}")));
        }
        self.write("remove token", json!({ "token": name }))
    }

    fn write(&self, action: &str, details: Value) -> Result<(), Error> {
        audit::append_own(&self.state, action, details)?;
        let text = serde_json::to_string_pretty(&self.entries);
        let text = text.map_err(|error| files::failed("write", &self.path)(error.into()))?;
        files::replace(&self.path, text.as_bytes())
    }

    /// The token with this text, unless it has expired. Hashes are compared, so the time depends on nothing
    /// that is secret.
    pub(crate) fn authenticate(&self, text: &str, now_s: u64) -> Option<(&str, &TokenEntry)> {
        let (name, secret) = text.strip_prefix(PREFIX).and_then(|text| text.split_once('.'))?;
        let is_valid = |(_, entry): &(&String, &TokenEntry)| {
            entry.digest == digest(secret) && entry.expires_s.is_none_or(|expires| now_s < expires)
        };
        let (name, entry) = self.entries.get_key_value(name).filter(is_valid)?;
        Some((name, entry))
    }
}

fn digest(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Roles, roles::Grant};

    #[test]
    fn tokens_permit_their_scopes_until_they_expire_or_are_removed() {
        let state = tempfile::tempdir().unwrap();
        let open = || Tokens::open(state.path()).unwrap();
        let hour = Duration::from_secs(3600);
        let text = open().create("evlbi", &[Scope::Reserve, Scope::Reserve], Some(hour)).unwrap();
        let now_s = os::realtime().as_secs();
        let grant = |text: &str, now_s| {
            let tokens = open();
            let (name, entry) = tokens.authenticate(text, now_s)?;
            Some((name.to_owned(), Roles::default().grant_of_token(entry)))
        };
        let (name, its_grant) = grant(&text, now_s).unwrap();
        assert_eq!((name.as_str(), its_grant), ("evlbi", Grant::Scopes([Scope::Reserve].into())));
        assert_eq!(grant(&text, now_s + 3601), None);
        let mut forged = text.clone();
        forged.pop();
        let other_name = text.replace("evlbi", "backup");
        for wrong in ["", "evlbi", &forged, &format!("{text}0"), &other_name, "longfat-token-evlbi."] {
            assert_eq!(grant(wrong, now_s), None, "{wrong}");
        }
        // A backup of the file reveals no token.
        let file = std::fs::read_to_string(state.path().join("tokens.json")).unwrap();
        assert!(!file.contains(text.split_once('.').unwrap().1));
        assert!(open().create("evlbi", &[Scope::Report], None).is_err());
        assert!(open().create("A B", &[Scope::Report], None).is_err());
        open().remove("evlbi").unwrap();
        assert_eq!(grant(&text, now_s), None);
        assert!(open().remove("evlbi").is_err());
        // A role that the configuration does not have permits nothing.
        let text = open().create_with_role("backup", "operators", None).unwrap();
        let (_, unknown) = grant(&text, now_s).unwrap();
        assert_eq!(unknown.role(), Some("operators"));
        assert!(Scope::ALL.iter().all(|scope| !unknown.permits(*scope)));
    }
}
