//! Proofs: of the token, of certificates and of files.

use data_encoding::HEXLOWER;
use iperf3::Token;

use crate::{
    Error,
    message::{Message, PROOF_PURPOSE},
};

/// Bytes that confirm a file.
pub(crate) const CONFIRMATION_BYTES: usize = 32;

/// Proves the token: a keyed hash of both ends' challenges and of the agreed values (for QUIC). `None`
/// without a token.
pub(crate) fn prove_token(
    token: Option<&Token>,
    role: &str,
    challenges: [&str; 2],
    agreed: &[&str],
) -> Option<String> {
    let parts = [role].into_iter().chain(challenges).chain(agreed.iter().copied());
    let parts: Vec<&[u8]> = parts.map(str::as_bytes).collect();
    token.map(|token| HEXLOWER.encode(&token.keyed_hash(PROOF_PURPOSE, &parts)))
}

/// The bytes that confirm a file's announcement and hash over an authenticated stream: both crossed the
/// control connection, which is not authenticated.
pub(crate) fn confirm_file(file: &Message, hash: &str) -> Result<[u8; CONFIRMATION_BYTES], Error> {
    let json = serde_json::to_vec(&(file, hash)).map_err(|error| Error::Protocol(error.to_string()))?;
    Ok(*blake3::hash(&json).as_bytes())
}
