//! A certificate with its key, and the TLS configurations made of it: both ends always present a certificate
//! of the mesh.

use std::{path::Path, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use rcgen::KeyPair;
use reservation::PointName;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::CertifiedKey,
};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage};

use crate::{Error, files, framing::PROTOCOL};

/// Bytes of an uncompressed public key on P-256 (SEC 1 section 2.3.3).
pub(super) const PUBLIC_KEY_BYTES: usize = 65;
/// Suffix of the names in points' certificates.
pub(super) const POINT: &str = ".point";
/// Suffix of the names in invitations.
pub(super) const INVITATION: &str = ".invitation";

/// A certificate with its key.
#[derive(Clone)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authority: Vec<u8>,
    dns_name: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({})", self.dns_name)
    }
}

/// The owner of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CertificateOwner {
    /// A point.
    Point(PointName),
    /// The holder of the invitation with this id.
    Invited(String),
}

impl CertificateOwner {
    /// The owner of a certificate whose chain has been verified.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<CertificateOwner> {
        let certificate = EndEntityCert::try_from(certificate).ok()?;
        let mut names = certificate.valid_dns_names();
        let name = names.next()?;
        if names.next().is_some() {
            return None;
        }
        if let Some(name) = name.strip_suffix(POINT) {
            return Some(CertificateOwner::Point(name.into()));
        }
        Some(CertificateOwner::Invited(name.strip_suffix(INVITATION)?.into()))
    }
}

/// The digest of a point's public key (on P-256, uncompressed) in the list of members: SHA-256, hexadecimal.
pub(crate) fn key_digest(public_key: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(public_key))
}

/// The [`key_digest`] of a certificate.
pub(crate) fn digest_of(certificate: &CertificateDer<'_>) -> Option<String> {
    let info = EndEntityCert::try_from(certificate).ok()?.subject_public_key_info();
    // The key is the end of its description (RFC 5480 section 2).
    Some(key_digest(info.last_chunk::<PUBLIC_KEY_BYTES>()?))
}

impl Identity {
    pub(super) fn new(certificate: Vec<u8>, key: Vec<u8>, authority: Vec<u8>, dns_name: &str) -> Self {
        Identity { certificate, key, authority, dns_name: dns_name.into() }
    }

    /// The key of a point that joins, with its public part. It is the same after an attempt that failed,
    /// because an invitation is redeemed for one key only.
    pub(crate) fn joining_key(state: &Path) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let directory = state.join("tls");
        files::create_directory(&directory)?;
        let path = directory.join("key.pem");
        let failed = |cause: rcgen::Error| Error::tls(format!("use the key {}", path.display()), cause);
        let key = if path.exists() {
            KeyPair::from_pem(&files::read(&path)?).map_err(failed)?
        } else {
            let key = KeyPair::generate().map_err(failed)?;
            files::create(&path, key.serialize_pem().as_bytes())?;
            key
        };
        Ok((key.serialize_der(), key.public_key_raw().to_vec()))
    }

    /// The identity of a point that has joined.
    pub(crate) fn joined(name: &str, certificate: Vec<u8>, key: Vec<u8>, authority: Vec<u8>) -> Self {
        Identity::new(certificate, key, authority, &format!("{name}{POINT}"))
    }

    /// Writes the identity into a state directory that has none.
    pub(crate) fn create(&self, state: &Path) -> Result<(), Error> {
        let directory = state.join("tls");
        files::create_directory(&directory)?;
        for (file, label, der) in [
            ("key.pem", "PRIVATE KEY", &self.key),
            ("authority.pem", "CERTIFICATE", &self.authority),
            // Written last: it makes the identity complete.
            ("point.pem", "CERTIFICATE", &self.certificate),
        ] {
            let path = directory.join(file);
            if path.exists() && file == "point.pem" {
                let cause = std::io::ErrorKind::AlreadyExists.into();
                return Err(files::failed("create", &path)(cause));
            }
            files::replace(&path, pem(label, der).as_bytes())?;
        }
        Ok(())
    }

    /// Whether a state directory has an identity.
    pub fn exists(state: &Path) -> bool {
        state.join("tls/point.pem").exists()
    }

    /// The identity in a state directory.
    ///
    /// # Errors
    /// If the identity is missing or damaged.
    pub fn open(state: &Path) -> Result<Identity, Error> {
        let read = |file: &str| {
            let path = state.join("tls").join(file);
            let certificate = CertificateDer::from_pem_slice(files::read(&path)?.as_bytes());
            certificate
                .map(|certificate| certificate.to_vec())
                .map_err(|cause| Error::tls(format!("read {}", path.display()), cause))
        };
        let (certificate, authority) = (read("point.pem")?, read("authority.pem")?);
        let path = state.join("tls/key.pem");
        let key = PrivatePkcs8KeyDer::from_pem_slice(files::read(&path)?.as_bytes());
        let key = key.map_err(|cause| Error::tls(format!("read {}", path.display()), cause))?;
        let mut identity = Identity {
            certificate,
            key: key.secret_pkcs8_der().to_vec(),
            authority,
            dns_name: String::new(),
        };
        identity.dns_name = format!("{}{POINT}", identity.name()?);
        Ok(identity)
    }

    /// The owner of the certificate.
    pub(crate) fn owner(&self) -> Result<CertificateOwner, Error> {
        CertificateOwner::of(&self.certificate.as_slice().into()).ok_or_else(|| {
            Error::tls("read this point's certificate", "it is not a certificate of a longfat mesh")
        })
    }

    /// The point's name.
    pub(crate) fn name(&self) -> Result<PointName, Error> {
        match self.owner()? {
            CertificateOwner::Point(name) => Ok(name),
            CertificateOwner::Invited(_) => {
                Err(Error::tls("read this point's certificate", "it is an invitation"))
            }
        }
    }

    /// The authority's certificate, DER.
    pub(crate) fn authority_certificate(&self) -> &[u8] {
        &self.authority
    }

    /// Certificate and key, DER.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        (&self.certificate, &self.key)
    }

    /// The public key, as in [`Identity::joining_key`].
    pub(crate) fn public_key(&self) -> Result<Vec<u8>, Error> {
        let key = KeyPair::try_from(self.key.as_slice());
        let key = key.map_err(|cause| Error::tls("use this point's key", cause))?;
        Ok(key.public_key_raw().to_vec())
    }

    /// Whether the certificate will still be valid after this time.
    pub(crate) fn is_valid_for(&self, time: Duration) -> Result<bool, Error> {
        match self.verify(time) {
            // Not valid yet: this host's clock is behind, for example at its start. A new certificate would
            // not help.
            Ok(()) | Err(webpki::Error::CertNotValidYet { .. }) => Ok(true),
            Err(webpki::Error::CertExpired { .. }) => Ok(false),
            Err(error) => Err(Error::tls("verify this point's certificate", error)),
        }
    }

    /// Verifies the certificate for the instant `time` from now.
    fn verify(&self, time: Duration) -> Result<(), webpki::Error> {
        let root = CertificateDer::from(self.authority.as_slice());
        let root = webpki::anchor_from_trusted_cert(&root)?;
        let certificate = CertificateDer::from(self.certificate.as_slice());
        let certificate = EndEntityCert::try_from(&certificate)?;
        let now = UnixTime::since_unix_epoch(os::realtime().saturating_add(time));
        let algorithms = provider().signature_verification_algorithms.all;
        let usage = KeyUsage::client_auth();
        certificate.verify_for_usage(algorithms, &[root], &[], now, usage, None, None).map(drop)
    }

    /// The identity with a new certificate.
    ///
    /// # Errors
    /// If the certificate is not for this point and its key, or not of its authority.
    pub(crate) fn renewed(&self, certificate: Vec<u8>) -> Result<Identity, Error> {
        let failed = |cause: String| Error::tls("use the new certificate", cause);
        let renewed = Identity { certificate, ..self.clone() };
        renewed.verify(Duration::ZERO).map_err(|cause| failed(cause.to_string()))?;
        if renewed.owner()? != self.owner()? {
            return Err(failed("it has another name".into()));
        }
        // Checks that the certificate is for this point's key.
        let (chain, key) = renewed.chain_and_key();
        CertifiedKey::from_der(chain, key, &provider()).map_err(|cause| failed(cause.to_string()))?;
        Ok(renewed)
    }

    /// Replaces the stored certificate with this one.
    pub(crate) fn replace_certificate(&self, state: &Path) -> Result<(), Error> {
        let path = state.join("tls/point.pem");
        files::replace(&path, pem("CERTIFICATE", &self.certificate).as_bytes())
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, Error> {
        let mut roots = RootCertStore::empty();
        let added = roots.add(self.authority.clone().into());
        added.map_err(|cause| Error::tls("use the authority's certificate", cause))?;
        Ok(Arc::new(roots))
    }

    fn chain_and_key(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        (vec![self.certificate.clone().into()], key.into())
    }

    /// The TLS 1.3 configuration of a client.
    pub(crate) fn client(&self) -> Result<Arc<ClientConfig>, Error> {
        let failed = |cause| Error::tls("use this point's certificate", cause);
        let (certificate, key) = self.chain_and_key();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(certificate, key)
            .map_err(failed)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }

    /// The TLS 1.3 configuration of a server, which requires clients to have a certificate of the mesh.
    pub(crate) fn server(&self) -> Result<Arc<ServerConfig>, Error> {
        let failed = |cause| Error::tls("use this point's certificate", cause);
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider());
        let verifier =
            verifier.build().map_err(|cause| Error::tls("use the authority's certificate", cause))?;
        let (certificate, key) = self.chain_and_key();
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificate, key)
            .map_err(failed)?;
        // Connections are few and long, so sessions are not resumed.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }
}

/// The name by which a client verifies a point's certificate.
pub(crate) fn server_name(point: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(format!("{point}{POINT}"))
        .map_err(|cause| Error::tls(format!("connect to {point}"), cause))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Authority;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let state = tempfile::tempdir().unwrap();
        let (_, identity) = Authority::create(state.path(), "point-1").unwrap();
        let read = Identity::open(state.path()).unwrap();
        assert_eq!(read.parts(), identity.parts());
        assert_eq!(read.owner().unwrap(), CertificateOwner::Point("point-1".into()));
        assert!(read.client().is_ok() && read.server().is_ok());
        // The key of a certificate is that of the request to join.
        let certificate = CertificateDer::from(read.parts().0);
        assert_eq!(digest_of(&certificate), Some(key_digest(&read.public_key().unwrap())));
    }
}
