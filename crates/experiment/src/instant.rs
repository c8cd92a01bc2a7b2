//! Instants as records and their names have them.

/// RFC 3339, in seconds.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

/// RFC 3339, in seconds, as records have instants.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 without separators, for file names.
pub fn compact(started: &str) -> String {
    started.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}
