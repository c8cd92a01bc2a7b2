//! The certificate authority of a mesh, at the point that created it.
//!
//! A point's certificate has the DNS name `NAME.point`, an invitation's `ID.invitation`. An invitation is a certificate too, so that nothing
//! is read from a client without a certificate. An invitation can be redeemed once, until it expires; the same key may repeat a request
//! whose reply was lost.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use data_encoding::HEXLOWER;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    Identity, Invitation, Members, check_name,
    identity::{INVITATION, POINT},
};
use crate::{Error, audit, files};

/// Validity of a point's certificate, days.
const POINT_DAYS: i64 = 825;
/// Validity of the authority's certificate, days.
const AUTHORITY_DAYS: i64 = 3650;
/// Random bytes in the id of an invitation.
const INVITATION_ID_BYTES: usize = 8;
/// Bytes of an uncompressed public key on P-256 (SEC 1 section 2.3.3).
const PUBLIC_KEY_BYTES: usize = 65;

/// The certificate authority of a mesh.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
}

/// An invitation, as the authority stores it.
#[derive(Debug, Serialize, Deserialize)]
struct StoredInvitation {
    name: String,
    /// Seconds since 1970.
    expires_s: u64,
    /// The key that it was redeemed for.
    key: Option<String>,
}

/// The new member that redeemed an invitation.
#[derive(Debug)]
pub(crate) struct Redeemed {
    /// The point's name.
    pub name: String,
    /// Its certificate, DER.
    pub certificate: Vec<u8>,
}

/// A public key of another point.
struct ForeignKey(Vec<u8>);

impl PublicKeyData for ForeignKey {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Authority {
    /// Creates a mesh: its authority, and the identity of its first point.
    ///
    /// # Errors
    /// If a file cannot be written, or exists already.
    pub fn create(state: &Path, name: &str) -> Result<(Authority, Identity), Error> {
        check_name(name)?;
        let directory = state.join("authority");
        files::create_directory(&directory.join("invitations"))?;
        let failed = |cause| Error::tls("create the authority's certificate", cause);
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = authority_params(Some(SystemTime::now())).self_signed(&key).map_err(failed)?;
        files::create(&directory.join("key.pem"), key.serialize_pem().as_bytes())?;
        let authority = Authority { directory };
        let own = KeyPair::generate().map_err(failed)?;
        let own_certificate = authority.certify(&own, &format!("{name}{POINT}"), POINT_DAYS)?;
        let identity = Identity::new(
            own_certificate,
            own.serialize_der(),
            certificate.der().to_vec(),
            &format!("{name}{POINT}"),
        );
        identity.create(state)?;
        Ok((authority, identity))
    }

    /// The authority in a state directory, if it is there.
    pub fn open(state: &Path) -> Option<Authority> {
        let directory = state.join("authority");
        directory.join("key.pem").exists().then_some(Authority { directory })
    }

    /// Signs a certificate for a key.
    fn certify(&self, key: &impl PublicKeyData, dns_name: &str, days: i64) -> Result<Vec<u8>, Error> {
        let path = self.directory.join("key.pem");
        let failed = |cause: rcgen::Error| Error::tls(format!("sign a certificate of {dns_name}"), cause);
        let own = KeyPair::from_pem(&files::read(&path)?).map_err(failed)?;
        let issuer_params = authority_params(None);
        let issuer = Issuer::from_params(&issuer_params, own);
        let mut params = CertificateParams::new(vec![dns_name.to_string()]).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, dns_name);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, SystemTime::now(), days);
        Ok(params.signed_by(key, &issuer).map_err(failed)?.der().to_vec())
    }

    /// Invites a point; the invitation expires after `lifetime`.
    ///
    /// # Errors
    /// If the name is not allowed or that of a member, or files cannot be written.
    pub fn invite(
        &self,
        state: &Path,
        name: &str,
        address: &str,
        lifetime: Duration,
    ) -> Result<Invitation, Error> {
        check_name(name)?;
        if let Some(at) = Members::open(state)?.address(&name.into()) {
            let remove = "if it is to join again, remove it first with `longfat agent expel`";
            return Err(Error::Refused(format!("{name} is a member of the mesh already, at {at}; {remove}")));
        }
        let identity = Identity::open(state)?;
        let id = os::random_hex(INVITATION_ID_BYTES)
            .map_err(|error| Error::system("draw a random number", error))?;
        let key = KeyPair::generate().map_err(|cause| Error::tls("create a key", cause))?;
        // Certificates are valid for whole days. The exact time is in the authority's copy of the invitation.
        let days = i64::try_from(lifetime.as_secs() / 86_400).unwrap_or(i64::MAX) + 1;
        let certificate = self.certify(&key, &format!("{id}{INVITATION}"), days)?;
        let expires_s = unix_seconds(SystemTime::now()).saturating_add(lifetime.as_secs());
        let issued = StoredInvitation { name: name.into(), expires_s, key: None };
        let details = json!({ "point": name, "invitation": id, "expires_s": expires_s });
        audit::append_own(state, "invite", details)?;
        self.write_issued(&id, &issued)?;
        Ok(Invitation {
            name: name.into(),
            authority: identity.name()?.0,
            address: address.into(),
            identity: Identity::new(
                certificate,
                key.serialize_der(),
                identity.authority_certificate().to_vec(),
                &format!("{id}{INVITATION}"),
            ),
        })
    }

    /// Redeems an invitation for a certificate of `public_key`.
    pub(crate) fn redeem(&self, id: &str, public_key: &[u8], now: SystemTime) -> Result<Redeemed, Error> {
        let refused = |text: &str| Error::Refused(format!("the invitation {id} {text}"));
        if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refused("has no valid name"));
        }
        let path = self.issued_path(id);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused("is not known"),
            _ => files::failed("read", &path)(error),
        })?;
        let mut issued: StoredInvitation =
            serde_json::from_str(&text).map_err(|error| files::failed("read", &path)(error.into()))?;
        let key = HEXLOWER.encode(public_key);
        match &issued.key {
            Some(used) if *used != key => return Err(refused("has been used")),
            _ if unix_seconds(now) > issued.expires_s => return Err(refused("has expired")),
            _ => {}
        }
        if !is_public_key(public_key) {
            return Err(refused("came with a key that is not on P-256"));
        }
        issued.key = Some(key);
        self.write_issued(id, &issued)?;
        let certificate =
            self.certify(&ForeignKey(public_key.into()), &format!("{}{POINT}", issued.name), POINT_DAYS)?;
        Ok(Redeemed { name: issued.name, certificate })
    }

    /// Signs a new certificate for a point's key.
    pub(crate) fn renew(&self, name: &str, public_key: &[u8]) -> Result<Vec<u8>, Error> {
        check_name(name)?;
        if !is_public_key(public_key) {
            return Err(Error::Refused("the key is not on P-256".into()));
        }
        self.certify(&ForeignKey(public_key.into()), &format!("{name}{POINT}"), POINT_DAYS)
    }

    fn issued_path(&self, id: &str) -> PathBuf {
        self.directory.join("invitations").join(format!("{id}.json"))
    }

    fn write_issued(&self, id: &str, issued: &StoredInvitation) -> Result<(), Error> {
        let path = self.issued_path(id);
        let text = serde_json::to_vec(issued).map_err(|error| files::failed("write", &path)(error.into()))?;
        files::replace(&path, &text)
    }
}

/// Whether these bytes have the form of an uncompressed public key on P-256.
fn is_public_key(bytes: &[u8]) -> bool {
    bytes.len() == PUBLIC_KEY_BYTES && bytes[0] == 4
}

/// The parameters of the authority's certificate. They are the same each time, so the certificate need not be
/// parsed to sign with its key.
fn authority_params(since: Option<SystemTime>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "longfat mesh authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if let Some(since) = since {
        set_validity(&mut params, since, AUTHORITY_DAYS);
    }
    params
}

/// Valid from a day before, because clocks differ.
fn set_validity(params: &mut CertificateParams, since: SystemTime, days: i64) {
    let since = i64::try_from(unix_seconds(since)).unwrap_or(i64::MAX);
    let date = |seconds: i64| {
        let date = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
        let date = date.to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8)
    };
    params.not_before = date(since.saturating_sub(86_400));
    params.not_after = date(since.saturating_add(days.saturating_add(1).saturating_mul(86_400)));
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_redeemed_once_in_time_and_repeated_for_the_same_key() {
        let state = tempfile::tempdir().unwrap();
        let (authority, _) = Authority::create(state.path(), "a").unwrap();
        Members::of_one("a".into(), "192.0.2.1:4862").write(state.path()).unwrap();
        let hour = Duration::from_secs(3600);
        let own = authority.invite(state.path(), "a", "192.0.2.1:4862", hour).unwrap_err();
        assert!(own.to_string().contains("a is a member of the mesh already, at 192.0.2.1:4862"), "{own}");
        let invitation = authority.invite(state.path(), "b", "192.0.2.1:4862", hour).unwrap();
        let id = match invitation.identity.owner().unwrap() {
            super::super::CertificateOwner::Invited(id) => id,
            other => panic!("{other:?}"),
        };
        let [first, second] = [(); 2].map(|()| KeyPair::generate().unwrap());
        let now = SystemTime::now();
        let late = authority.redeem(&id, first.public_key_raw(), now + hour * 2).unwrap_err();
        assert_eq!(late.to_string(), format!("the invitation {id} has expired"));
        let invalid = authority.redeem(&id, &[4; 64], now).unwrap_err();
        assert!(invalid.to_string().contains("not on P-256"), "{invalid}");
        for _ in 0..2 {
            assert_eq!(authority.redeem(&id, first.public_key_raw(), now).unwrap().name, "b");
        }
        let used = authority.redeem(&id, second.public_key_raw(), now).unwrap_err();
        assert_eq!(used.to_string(), format!("the invitation {id} has been used"));
        assert!(authority.redeem("../../key", first.public_key_raw(), now).is_err());
        assert!(authority.redeem("00", first.public_key_raw(), now).is_err());
    }

    #[test]
    fn a_renewed_certificate_is_for_the_same_point_and_key_only() {
        let state = tempfile::tempdir().unwrap();
        let (authority, identity) = Authority::create(state.path(), "a").unwrap();
        let key = identity.public_key().unwrap();
        let day = Duration::from_secs(86_400);
        assert!(identity.is_valid_for(day * 824).unwrap());
        assert!(!identity.is_valid_for(day * 827).unwrap());
        let renewed = identity.renewed(authority.renew("a", &key).unwrap()).unwrap();
        renewed.replace_certificate(state.path()).unwrap();
        assert_eq!(Identity::open(state.path()).unwrap().public_key().unwrap(), key);
        let other = KeyPair::generate().unwrap();
        for (name, key) in [("b", key.as_slice()), ("a", other.public_key_raw())] {
            let foreign = authority.renew(name, key).unwrap();
            assert!(identity.renewed(foreign).is_err(), "{name}");
        }
        let elsewhere = tempfile::tempdir().unwrap();
        let (stranger, _) = Authority::create(elsewhere.path(), "a").unwrap();
        assert!(identity.renewed(stranger.renew("a", &key).unwrap()).is_err());
        assert!(identity.renewed(vec![1, 2, 3]).is_err());
        assert!(authority.renew("a", &[4; 64]).is_err());
    }

    #[test]
    fn a_mesh_is_founded_once() {
        let state = tempfile::tempdir().unwrap();
        Authority::create(state.path(), "a").unwrap();
        assert!(Authority::create(state.path(), "a").is_err());
        assert!(Authority::create(state.path(), "A b").is_err());
    }
}
