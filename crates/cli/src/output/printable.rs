//! Removes characters that control a terminal. Records, captures, scenario files and the texts of peers may
//! contain any: an escape sequence in a title could hide lines, set the clipboard, or let some terminals type
//! commands.

use std::borrow::Cow;

/// Whether a character, other than a newline or a tab, controls the terminal.
fn is_control(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
}

/// A text without control characters other than newlines and tabs.
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_control) {
        true => text.replace(is_control, "").into(),
        false => text.into(),
    }
}

/// As [`printable`], but keeps the text's colours (SGR sequences, ECMA-48 section 8.3.117).
pub fn printable_with_colours(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let mut out = printable(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let is_parameter = |c: char| c.is_ascii_digit() || c == ';';
        let end = part.strip_prefix('[').map(|rest| rest.trim_start_matches(is_parameter));
        if end.is_some_and(|end| end.starts_with('m')) {
            out.push('\u{1b}');
        }
        out.push_str(&printable(part));
    }
    out
}

/// A JSON document in which the control characters that JSON allows in strings are escaped: U+007F to U+009F.
pub fn printable_json(document: String) -> String {
    if !document.contains(is_control) {
        return document;
    }
    let escaped = |c: char| match is_control(c) {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    document.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newlines_and_tabs_remain() {
        assert_eq!(printable("a\tb\n\u{1b}[2J\u{9b}31mc\r\u{7f}\u{e9}\u{7}"), "a\tb\n[2J31mc\u{e9}");
        assert!(matches!(printable("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn only_colour_sequences_are_kept() {
        let text = "\u{1b}[1;31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;title\u{7}\u{1b}m\u{9b}x";
        assert_eq!(printable_with_colours(text), "\u{1b}[1;31mred\u{1b}[0m [2J]0;titlemx");
    }

    #[test]
    fn documents_have_the_same_content() {
        let text = "a\u{1b}\u{9b}\u{7f}\u{85}\n\u{e9}";
        let document =
            printable_json(serde_json::to_string_pretty(&serde_json::json!({ "k": text })).unwrap());
        assert!(!document.contains(is_control), "{document:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&document).unwrap()["k"], text);
    }
}
