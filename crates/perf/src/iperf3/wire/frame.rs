//! JSON on the control connection: its length as a big-endian `u32`, then the text.

use serde::{Serialize, de::DeserializeOwned};

/// iperf3 refuses parameters that are longer than this (`MAX_PARAMS_JSON_STRING`), bytes.
pub const PARAMS_LIMIT: usize = 8192;

/// The message of a document.
pub fn encode(document: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut message = vec![0; 4];
    serde_json::to_writer(&mut message, document)?;
    // Nothing that we send comes near 4 GiB.
    let len = u32::try_from(message.len() - 4).unwrap_or(u32::MAX);
    message[..4].copy_from_slice(&len.to_be_bytes());
    Ok(message)
}

/// How long the text after these four bytes is; `None` where that is more than `limit`.
pub fn payload_len(header: [u8; 4], limit: usize) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(header)).ok().filter(|len| *len <= limit)
}

/// The document of a text.
pub fn decode<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    // C programs may count their string's last zero.
    serde_json::from_slice(text.strip_suffix(&[0]).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back() {
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
