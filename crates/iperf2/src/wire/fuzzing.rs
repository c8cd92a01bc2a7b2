//! The fuzz target, whose corpus `fuzz/corpus` a test replays: decodes arbitrary bytes as each of the
//! messages.

use super::{ClientHeader, DatagramHeader, ServerReport, header_length};

/// Must not panic; a decoded message must be the same after encoding and decoding.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(Some(header)) = ClientHeader::decode(bytes) {
        for is_udp in [false, true] {
            let again = ClientHeader::decode(&header.encode(is_udp)).expect("what was written can be read");
            let again = again.expect("a header was written");
            assert_eq!((again.streams, again.port, again.block), (header.streams, header.port, header.block));
        }
    }
    if let Some(first) = bytes.first_chunk::<4>() {
        let _ = header_length(u32::from_be_bytes(*first));
    }
    for has_64_bits in [false, true] {
        if let Some(header) = DatagramHeader::decode(bytes, has_64_bits) {
            let _ = header.encode();
        }
    }
    if let Some(report) = ServerReport::decode(bytes) {
        assert_eq!(ServerReport::decode(&report.encode()), Some(report));
    }
}
