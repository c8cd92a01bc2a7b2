//! Percent-encoding in URLs.

/// Decodes a value (RFC 3986 section 2.1).
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes().iter();
    while let Some(byte) = rest.next() {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?,
            byte => *byte,
        });
    }
    String::from_utf8(bytes).ok()
}
