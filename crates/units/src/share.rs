//! A share between 0 and 1, such as a loss rate.

use crate::ParseError;

/// Parses a share: `1%` or `0.01`, from 0 to 1 (0 % to 100 %).
///
/// # Errors
/// The text is not a number, has a comma, or lies outside the range. A bare `1` is an error too, because it
/// often means one per cent.
pub fn parse_share(input: &str) -> Result<f64, ParseError> {
    let text = input.trim();
    if text.is_empty() {
        return Err(ParseError::Empty { what: "share", example: "0.01 or 1%" });
    }
    if text.contains(',') {
        return Err(ParseError::Comma { input: text.into() });
    }
    if text == "1" {
        return Err(ParseError::Ambiguous { input: text.into(), first: "1%".into(), second: "100%".into() });
    }
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number.trim_end(), 100.0),
        None => (text, 1.0),
    };
    let begins_as_number = number.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let value: f64 = number
        .parse()
        .ok()
        .filter(|_| begins_as_number)
        .ok_or_else(|| ParseError::NotANumber { input: text.into(), example: "0.01 or 1%" })?;
    let share = value / scale;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(ParseError::ShareRange { input: text.into() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts() {
        for (text, share) in [
            ("1%", 0.01),
            ("0.01", 0.01),
            ("0.1 %", 0.001),
            ("1e-5", 1e-5),
            ("0", 0.0),
            ("100%", 1.0),
            ("1.0", 1.0),
        ] {
            assert_eq!(parse_share(text), Ok(share), "{text}");
        }
    }

    #[test]
    fn rejects() {
        for text in ["2", "101%", "-0.1", "-1%"] {
            assert!(matches!(parse_share(text), Err(ParseError::ShareRange { .. })), "{text}");
        }
        for text in ["nan", "inf", "x%", "1%%", "+1%", "0.1x"] {
            assert!(matches!(parse_share(text), Err(ParseError::NotANumber { .. })), "{text}");
        }
        assert_eq!(parse_share("1").unwrap_err().to_string(), "`1` is ambiguous; write 1% or 100%");
        assert!(matches!(parse_share("0,01"), Err(ParseError::Comma { .. })));
        assert!(matches!(parse_share(" "), Err(ParseError::Empty { .. })));
    }
}
