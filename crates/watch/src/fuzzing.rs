//! Entry points for the fuzz targets: parsers of untrusted input.

/// Parses a datagram of sock_diag as the reply to request 1.
pub fn sock_diag(bytes: &[u8]) {
    crate::diag::parse_reply(bytes);
}

/// Parses a filter.
pub fn filter(text: &str) {
    let _ = crate::Filter::parse(text);
}
