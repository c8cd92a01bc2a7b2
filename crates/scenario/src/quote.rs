//! Strings as TOML.

use std::fmt::Write;

/// A TOML string on one line. Quantities of `units` are printed exactly.
pub(crate) fn quote(value: impl std::fmt::Display) -> String {
    let mut quoted = String::from('"');
    for c in value.to_string().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A multi-line TOML string, so that the text stays readable.
pub(crate) fn quote_lines(text: &str) -> String {
    let mut quoted = String::from("\"\"\"\n");
    let mut quotes = 0;
    for c in text.chars() {
        quotes = if c == '"' { quotes + 1 } else { 0 };
        match c {
            '\\' => quoted.push_str("\\\\"),
            // Three quotes in a row would end the string.
            '"' if quotes % 3 == 0 => quoted.push_str("\\\""),
            '\n' | '\t' => quoted.push(c),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    // The text must not end with a quote either.
    if quotes % 3 != 0 {
        quoted.pop();
        quoted.push_str("\\\"");
    }
    quoted + "\"\"\""
}
