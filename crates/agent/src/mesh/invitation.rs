//! The token with which a new point joins: the authority's address and certificate, and a certificate with
//! its key that permits one join request.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::{Identity, check_name};
use crate::Error;

/// Prefix of a token.
const PREFIX: &str = "longfat-invitation-";
/// Largest token, characters.
const MAX_TOKEN_CHARS: usize = 8192;

/// An invitation to a mesh. It is a secret.
#[derive(Debug)]
pub struct Invitation {
    /// The name that the new point will have.
    pub name: String,
    /// The point that invites.
    pub authority: String,
    /// Its address, `HOST:PORT`.
    pub address: String,
    /// The certificate that permits the join request.
    pub identity: Identity,
}

#[derive(Serialize, Deserialize)]
struct Content {
    name: String,
    authority: String,
    address: String,
    root: String,
    certificate: String,
    key: String,
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (certificate, key) = self.identity.parts();
        let content = Content {
            name: self.name.clone(),
            authority: self.authority.clone(),
            address: self.address.clone(),
            root: encode(self.identity.authority_certificate()),
            certificate: encode(certificate),
            key: encode(key),
        };
        let text = serde_json::to_vec(&content).map_err(|_| fmt::Error)?;
        write!(f, "{PREFIX}{}", encode(&text))
    }
}

impl FromStr for Invitation {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Refused("this is not a complete token of `longfat agent invite`".into());
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid());
        if text.len() > MAX_TOKEN_CHARS {
            return Err(invalid());
        }
        let content = text.trim().strip_prefix(PREFIX).ok_or_else(invalid)?;
        let content: Content = serde_json::from_slice(&decode(content)?).map_err(|_| invalid())?;
        check_name(&content.name)?;
        check_name(&content.authority)?;
        let (certificate, key) = (decode(&content.certificate)?, decode(&content.key)?);
        let identity = Identity::new(certificate, key, decode(&content.root)?, "invitation");
        let Content { name, authority, address, .. } = content;
        Ok(Invitation { name, authority, address, identity })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Authority, Members};

    #[test]
    fn a_printed_token_parses_and_an_incomplete_one_does_not() {
        let state = tempfile::tempdir().unwrap();
        let (authority, _) = Authority::create(state.path(), "a").unwrap();
        Members::of_one("a".into(), "[::1]:4862").write(state.path()).unwrap();
        let invitation = authority.invite(state.path(), "b", "[::1]:4862", Duration::from_secs(60)).unwrap();
        let token = invitation.to_string();
        let read: Invitation = token.parse().unwrap();
        assert_eq!((read.name.as_str(), read.address.as_str()), ("b", "[::1]:4862"));
        assert_eq!(read.identity.parts(), invitation.identity.parts());
        for length in [0, 5, 20, token.len() - 1] {
            assert!(token[..length].parse::<Invitation>().is_err(), "{length}");
        }
    }
}
