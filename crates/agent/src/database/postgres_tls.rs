//! TLS 1.3 to a PostgreSQL server with rustls: a connector for tokio-postgres.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::{
    Socket,
    tls::{ChannelBinding, MakeTlsConnect, TlsConnect},
};

use super::postgres_address::{Authorities, TlsParameters, Verification};
use crate::trust;

/// The name of the protocol in TLS (ALPN); servers older than PostgreSQL 17 ignore it.
const ALPN: &[u8] = b"postgresql";

/// Connects over TLS.
#[derive(Clone)]
pub(super) struct Connector {
    /// `None` if the address excludes TLS; no connection then uses the connector.
    config: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Reads the files that the parameters name.
    pub fn new(tls: Option<&TlsParameters>) -> io::Result<Connector> {
        Ok(Connector { config: tls.map(client_config).transpose()? })
    }
}

fn client_config(tls: &TlsParameters) -> io::Result<Arc<ClientConfig>> {
    let authorities = match &tls.authorities {
        Some(Authorities::System) => trust::certificates(trust::SYSTEM.as_ref())?,
        Some(Authorities::File(path)) => trust::certificates(path)?,
        None => Vec::new(),
    };
    let provider = Arc::new(ring::default_provider());
    let verifier = ServerVerifier {
        verification: tls.verification,
        roots: trust::store(&authorities),
        authorities,
        provider: Arc::clone(&provider),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let named =
                |error: &dyn std::fmt::Display| io::Error::other(format!("{}: {error}", key.display()));
            let chain = trust::certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| named(&error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| named(&error))?
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

/// Verifies the server's certificate to the extent that `sslmode` requires. A certificate that is itself in
/// the file of authorities, such as a self-signed one, is trusted without an issuer.
#[derive(Debug)]
struct ServerVerifier {
    verification: Verification,
    authorities: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.verification != Verification::None {
            let parsed = ParsedCertificate::try_from(certificate)?;
            if !self.authorities.contains(certificate) {
                let algorithms = self.provider.signature_verification_algorithms.all;
                verify_server_cert_signed_by_trust_anchor(
                    &parsed,
                    &self.roots,
                    intermediates,
                    now,
                    algorithms,
                )?;
            }
            if self.verification == Verification::Host {
                verify_server_name(&parsed, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("the connection needs TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = TlsStream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { config: self.config.clone(), host: host.into() })
    }
}

/// The handshake with one host.
pub(super) struct Handshake {
    config: Option<Arc<ClientConfig>>,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = TlsStream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TlsStream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let config = self.config.ok_or_else(|| io::Error::other("the address excludes TLS"))?;
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let stream = tokio_rustls::TlsConnector::from(config).connect(name, socket).await?;
            Ok(TlsStream(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub(super) struct TlsStream(Box<tokio_rustls::client::TlsStream<Socket>>);

impl tokio_postgres::tls::TlsStream for TlsStream {
    /// SCRAM without channel binding: the server is verified by its certificate.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    };
    use testing::{Missing, postgres::Cluster};

    use crate::database::{DatabaseError, Postgres, PostgresAddress, sql::read_first};

    /// Sets the subject: OpenSSL treats a certificate whose subject equals its issuer as self-signed.
    fn named(name: &str, mut params: CertificateParams) -> CertificateParams {
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    /// A new certificate authority.
    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = named(name, CertificateParams::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// A certificate for a name, and its key, PEM.
    fn certificate(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = named(name, CertificateParams::new(vec![name.to_string()]).unwrap());
        let certificate = params.signed_by(&key, issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    /// Connects; returns whether the server reports TLS.
    fn connect(directory: &Path, address: &str) -> Result<bool, DatabaseError> {
        let address: PostgresAddress = address.parse().unwrap();
        let postgres = Postgres::connect(&address.relative_to(directory))?;
        let query = "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        let ssl: Option<i64> = read_first(&postgres, query, &[], |row| row.next())?;
        Ok(ssl == Some(1))
    }

    #[test]
    fn servers_are_verified_as_sslmode_requires() {
        let Some(mut cluster) = Cluster::create() else {
            return testing::skip(Missing::Tool, "PostgreSQL 15 or newer is not installed");
        };
        let (own, other) = (authority("own"), authority("other"));
        let (server, server_key) = certificate(&own, "db.example");
        let (client, client_key) = certificate(&own, "a.point");
        let directory = tempfile::tempdir().unwrap();
        let files = [
            ("ca.pem", own.pem()),
            ("other.pem", other.pem()),
            ("server.pem", server.clone()),
            ("client.pem", client),
            ("client-key.pem", client_key),
            ("empty.pem", String::new()),
        ];
        for (name, text) in files {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let port = cluster.serve_tls(&server, &server_key, &own.pem());
        cluster.start();
        let connect = |host: &str, parameters: &str| {
            let host = format!("host={host} hostaddr=127.0.0.1 port={port} user=postgres");
            connect(directory.path(), &format!("{host} {parameters}"))
        };
        for (host, parameters) in [
            ("db.example", "dbname=postgres"),
            ("db.example", "dbname=postgres sslmode=require"),
            ("127.0.0.1", "dbname=postgres sslmode=verify-ca sslrootcert=ca.pem"),
            ("db.example", "dbname=postgres sslmode=verify-full sslrootcert=ca.pem"),
            ("db.example", "dbname=postgres sslmode=verify-full sslrootcert=server.pem"),
            ("db.example", "dbname=template1 sslmode=require sslcert=client.pem sslkey=client-key.pem"),
        ] {
            match connect(host, parameters) {
                Ok(is_tls) => assert!(is_tls, "{parameters}"),
                Err(error) => panic!("{host} {parameters}: {error}"),
            }
        }
        for (host, parameters, part) in [
            ("db.example", "dbname=postgres sslmode=disable", "no encryption"),
            ("other.example", "dbname=postgres sslmode=verify-full sslrootcert=ca.pem", "not valid for name"),
            ("127.0.0.1", "dbname=postgres sslmode=verify-full sslrootcert=ca.pem", "not valid for name"),
            ("db.example", "dbname=postgres sslmode=verify-ca sslrootcert=other.pem", "UnknownIssuer"),
            ("db.example", "dbname=postgres sslmode=require sslrootcert=other.pem", "UnknownIssuer"),
            ("db.example", "dbname=postgres sslmode=verify-full sslrootcert=system", "UnknownIssuer"),
            (
                "db.example",
                "dbname=postgres sslmode=verify-ca sslrootcert=empty.pem",
                "contains no certificate",
            ),
            ("db.example", "dbname=template1 sslmode=require", "valid client certificate"),
        ] {
            let error = connect(host, parameters).unwrap_err().to_string();
            assert!(error.contains(part), "{host} {parameters}: {error}");
        }
        // Unix sockets have no TLS.
        let socket = format!("{} port={port} sslmode=require", cluster.address());
        let address: PostgresAddress = socket.parse().unwrap();
        Postgres::connect(&address).unwrap();
    }
}
