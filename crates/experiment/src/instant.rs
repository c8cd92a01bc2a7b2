//! Formats of instants in records and in file names.

/// The current time in RFC 3339, UTC, in seconds.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

/// RFC 3339, UTC, in seconds: the format of instants in records.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Removes the separators from an RFC 3339 instant, for file names.
pub fn compact(started: &str) -> String {
    started.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}
