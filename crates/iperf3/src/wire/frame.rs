//! JSON on the control connection: its length as a big-endian `u32`, then the text.

use serde::{Serialize, de::DeserializeOwned};

/// iperf3 refuses parameters that are longer than this (`MAX_PARAMS_JSON_STRING`), bytes.
pub const PARAMS_LIMIT: usize = 8192;

/// Encodes a document as a message.
///
/// # Errors
/// If the document cannot be written as JSON.
pub fn encode(document: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut message = vec![0; 4];
    serde_json::to_writer(&mut message, document)?;
    // All sent messages are far shorter than 4 GiB.
    let len = u32::try_from(message.len() - 4).unwrap_or(u32::MAX);
    message[..4].copy_from_slice(&len.to_be_bytes());
    Ok(message)
}

/// The length of the text after these four bytes; `None` if it is more than `limit`.
pub fn payload_len(header: [u8; 4], limit: usize) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(header)).ok().filter(|len| *len <= limit)
}

/// Decodes a text.
///
/// # Errors
/// If it is not the expected JSON.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    // C programs may include their string's last zero.
    serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_round_trips() {
        let message = encode(&serde_json::json!({"a": [1, 2]})).unwrap();
        let header = message[..4].try_into().unwrap();
        assert_eq!(payload_len(header, PARAMS_LIMIT), Some(message.len() - 4));
        assert_eq!(decode::<serde_json::Value>(&message[4..]).unwrap()["a"][1], 2);
        assert_eq!(decode::<serde_json::Value>(b"{}\0").unwrap(), serde_json::json!({}));
    }

    #[test]
    fn lengths_have_a_limit() {
        assert_eq!(payload_len([0, 0, 0x20, 0], PARAMS_LIMIT), Some(8192));
        assert_eq!(payload_len([0, 0, 0x20, 1], PARAMS_LIMIT), None);
        assert_eq!(payload_len([0xff; 4], PARAMS_LIMIT), None);
    }
}
