//! Texts for terminals, mail and disks: sanitizes those of other points, and prints times.

/// The text as one line, without control characters, truncated to this length.
pub(crate) fn plain(text: &str, max_bytes: usize) -> String {
    const CUT: &str = "...";
    let mut plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if plain.len() > max_bytes {
        plain.truncate(plain.floor_char_boundary(max_bytes.saturating_sub(CUT.len())));
        plain += CUT;
    }
    plain
}

/// Whether a text has the form of a name in the archive, as in `receive_window`.
pub(crate) fn is_word(text: &str, max_bytes: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=max_bytes).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// A time in microseconds since 1970, as in `2027-01-15T08:00:00Z` (RFC 3339).
pub(crate) fn utc(time_us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(time_us).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed_and_long_texts_truncated() {
        assert_eq!(plain("a\r\nBcc: x\u{9b}31m", 100), "a  Bcc: x 31m");
        assert_eq!(plain("abcdef", 6), "abcdef");
        assert_eq!(plain("abcdéf", 6), "abc...");
        assert_eq!(plain("éé", 4), "éé");
        assert!(is_word("sack_off", 8) && !is_word("sack_off", 7));
        assert!(!is_word("", 8) && !is_word("A", 8) && !is_word("a b", 8) && !is_word("a\n", 8));
    }
}
