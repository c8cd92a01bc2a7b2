//! The certificate authority of a mesh, at the point that created it.
//!
//! A point's certificate has the DNS name `NAME.point`, an invitation's `ID.invitation`. An invitation is a
//! certificate too, so that the authority reads nothing from a client without a certificate. An invitation
//! can be redeemed once, until it expires; the same key may repeat a request whose reply was lost, as long as
//! its point is a member.

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
    identity::{INVITATION, POINT, PUBLIC_KEY_BYTES},
};
use crate::{Error, audit, files};

/// Validity of a point's certificate, days.
const POINT_DAYS: i64 = 825;
/// Validity of the authority's certificate, days.
const AUTHORITY_DAYS: i64 = 3650;
/// Random bytes in the id of an invitation.
const INVITATION_ID_BYTES: usize = 8;

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

/// An invitation that a key may redeem.
#[derive(Debug)]
pub(crate) struct Acceptable {
    id: String,
    issued: StoredInvitation,
    public_key: Vec<u8>,
}

impl Acceptable {
    /// The name of the new point.
    pub fn name(&self) -> &str {
        &self.issued.name
    }
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

    /// Checks whether `public_key` may redeem an invitation.
    pub(crate) fn check_invitation(
        &self,
        id: &str,
        public_key: &[u8],
        now: SystemTime,
        is_member: impl Fn(&str) -> bool,
    ) -> Result<Acceptable, Error> {
        let refused = |text: &str| Error::Refused(format!("the invitation {id} {text}"));
        if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refused("has no valid name"));
        }
        let path = self.issued_path(id);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => refused("is unknown"),
            _ => files::failed("read", &path)(error),
        })?;
        let issued: StoredInvitation =
            serde_json::from_str(&text).map_err(|error| files::failed("read", &path)(error.into()))?;
        let key = HEXLOWER.encode(public_key);
        match &issued.key {
            Some(used) if *used != key => return Err(refused("has been used")),
            Some(_) if !is_member(&issued.name) => {
                return Err(refused("has been used, and its point is no longer a member"));
            }
            _ if unix_seconds(now) > issued.expires_s => return Err(refused("has expired")),
            _ => {}
        }
        if !is_public_key(public_key) {
            return Err(refused("came with a key that is not on P-256"));
        }
        Ok(Acceptable { id: id.into(), issued, public_key: public_key.into() })
    }

    /// Redeems an invitation; returns the certificate, DER. Its point is a member already: the same key may
    /// repeat the request after a kill.
    pub(crate) fn redeem(&self, acceptable: Acceptable) -> Result<Vec<u8>, Error> {
        let Acceptable { id, mut issued, public_key } = acceptable;
        issued.key = Some(HEXLOWER.encode(&public_key));
        self.write_issued(&id, &issued)?;
        self.certify(&ForeignKey(public_key), &format!("{}{POINT}", issued.name), POINT_DAYS)
    }

    /// Deletes all invitations of a name, used or not.
    pub(crate) fn delete_invitations(&self, name: &str) -> Result<(), Error> {
        let directory = self.directory.join("invitations");
        for entry in fs::read_dir(&directory).map_err(files::failed("read", &directory))? {
            let path = entry.map_err(files::failed("read", &directory))?.path();
            let text = fs::read(&path).unwrap_or_default();
            if serde_json::from_slice::<StoredInvitation>(&text).is_ok_and(|issued| issued.name == name) {
                fs::remove_file(&path).map_err(files::failed("delete", &path))?;
            }
        }
        Ok(())
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
    fn an_invitation_is_valid_for_one_key_until_it_expires() {
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
        let [first, second] = [&first, &second].map(KeyPair::public_key_raw);
        let now = SystemTime::now();
        let check = |id: &str, key: &[u8], now| authority.check_invitation(id, key, now, |name| name == "b");
        let late = check(&id, first, now + hour * 2).unwrap_err();
        assert_eq!(late.to_string(), format!("the invitation {id} has expired"));
        let invalid = check(&id, &[4; 64], now).unwrap_err();
        assert!(invalid.to_string().contains("not on P-256"), "{invalid}");
        for _ in 0..2 {
            let acceptable = check(&id, first, now).unwrap();
            assert_eq!(acceptable.name(), "b");
            authority.redeem(acceptable).unwrap();
        }
        let used = check(&id, second, now).unwrap_err();
        assert_eq!(used.to_string(), format!("the invitation {id} has been used"));
        assert!(check("../../key", first, now).is_err() && check("00", first, now).is_err());
        // An expelled point cannot return with it.
        let expelled = authority.check_invitation(&id, first, now, |_| false).unwrap_err();
        assert!(expelled.to_string().ends_with("is no longer a member"), "{expelled}");
        authority.invite(state.path(), "c", "192.0.2.1:4862", hour).unwrap();
        authority.delete_invitations("b").unwrap();
        let deleted = check(&id, first, now).unwrap_err();
        assert_eq!(deleted.to_string(), format!("the invitation {id} is unknown"));
        assert_eq!(fs::read_dir(state.path().join("authority/invitations")).unwrap().count(), 1);
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

    /// As on a host that starts with a clock that is behind.
    #[test]
    fn a_certificate_that_is_not_valid_yet_is_not_renewed() {
        let state = tempfile::tempdir().unwrap();
        let (authority, identity) = Authority::create(state.path(), "a").unwrap();
        let own = KeyPair::from_pem(&files::read(&authority.directory.join("key.pem")).unwrap()).unwrap();
        let issuer_params = authority_params(None);
        let issuer = Issuer::from_params(&issuer_params, own);
        let day = Duration::from_secs(86_400);
        let dns_name = format!("a{POINT}");
        let mut params = CertificateParams::new(vec![dns_name.clone()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        set_validity(&mut params, SystemTime::now() + day * 400, POINT_DAYS);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().der().to_vec();
        let root = identity.authority_certificate().to_vec();
        let later = Identity::new(certificate, key.serialize_der(), root, &dns_name);
        assert!(later.is_valid_for(day).unwrap());
        assert!(!later.is_valid_for(day * 1300).unwrap());
    }

    #[test]
    fn a_second_mesh_in_the_same_directory_is_refused() {
        let state = tempfile::tempdir().unwrap();
        Authority::create(state.path(), "a").unwrap();
        assert!(Authority::create(state.path(), "a").is_err());
        assert!(Authority::create(state.path(), "A b").is_err());
    }
}
