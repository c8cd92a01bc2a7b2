//! What the fuzz targets call: readers of bytes that others wrote.

/// Reads a datagram of sock_diag as an answer to request 1.
pub fn sock_diag(bytes: &[u8]) {
    crate::diag::read(bytes);
}

/// Reads a filter.
pub fn filter(text: &str) {
    let _ = crate::Filter::parse(text);
}
