//! Certificates that belong to one connection. Each end accepts only the certificate that it expects.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use crate::{Error, error::tls_failed};

/// The name in certificates. It is not checked, because the whole certificate is compared.
pub(crate) const NAME: &str = "longfat";

/// A certificate for one connection, with its key.
#[derive(Clone)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({} bytes)", self.certificate.len())
    }
}

impl Identity {
    /// A new key (ECDSA, P-256) and its self-signed certificate.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn generate() -> Result<Self, Error> {
        let pair = rcgen::generate_simple_self_signed([NAME.to_string()])
            .map_err(tls_failed("create a certificate"))?;
        Ok(Identity { certificate: pair.cert.der().to_vec(), key: pair.signing_key.serialize_der() })
    }

    /// The certificate, DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    fn parts(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = PrivatePkcs8KeyDer::from(self.key.clone());
        (vec![self.certificate.clone().into()], key.into())
    }

    /// TLS 1.3 as a client of the server with this certificate.
    pub(crate) fn client(&self, server: &[u8], alpn: &[u8]) -> Result<ClientConfig, Error> {
        let (certificate, key) = self.parts();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls_failed("use TLS 1.3"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Pinned::new(server)))
            .with_client_auth_cert(certificate, key)
            .map_err(tls_failed("use a certificate"))?;
        config.alpn_protocols = vec![alpn.to_vec()];
        Ok(config)
    }

    /// TLS 1.3 as a server, for the client with this certificate; `None`: clients need no certificate.
    pub(crate) fn server(&self, client: Option<&[u8]>, alpn: &[u8]) -> Result<ServerConfig, Error> {
        let (certificate, key) = self.parts();
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(tls_failed("use TLS 1.3"))?;
        let builder = match client {
            Some(client) => builder.with_client_cert_verifier(Arc::new(Pinned::new(client))),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(certificate, key).map_err(tls_failed("use a certificate"))?;
        // There is one connection, so no session is resumed.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![alpn.to_vec()];
        Ok(config)
    }
}

/// Accepts one certificate and ignores its names and validity period. The handshake proves that the peer has
/// its key.
#[derive(Debug)]
struct Pinned {
    certificate: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn new(certificate: &[u8]) -> Self {
        Pinned { certificate: certificate.to_vec(), provider: provider() }
    }

    fn compare(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        // Certificates are public: the comparison need not take constant time.
        if certificate.as_ref() == self.certificate {
            return Ok(());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn refuse_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("QUIC needs TLS 1.3".into()))
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.compare(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Pinned::refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.compare(certificate).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Pinned::refuse_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verify(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
