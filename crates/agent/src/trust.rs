//! Certificates in files: those of authorities, and the ones that this machine trusts.

use std::{
    fs::File,
    io::{self, BufReader},
    path::Path,
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};

/// The certificates that this machine trusts (package ca-certificates).
pub(crate) const SYSTEM: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The certificates of a file (PEM); those that cannot be read are skipped.
pub(crate) fn certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = BufReader::new(File::open(path).map_err(named)?);
    let found: Vec<_> = CertificateDer::pem_reader_iter(file).flatten().collect();
    if found.is_empty() {
        return Err(named(io::Error::new(io::ErrorKind::InvalidData, "it contains no certificate")));
    }
    Ok(found)
}

/// A store of trusted authorities.
pub(crate) fn store(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}
