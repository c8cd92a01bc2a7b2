//! HMAC-SHA-256 (RFC 2104, FIPS 198-1), cut to 128 bits as STAMP does (RFC 8762 section 4.4).

use sha2::{Digest, Sha256};

/// SHA-256's block.
const BLOCK: usize = 64;

/// Bytes of the code in a packet.
pub(super) const CODE_BYTES: usize = 16;

/// The first 16 bytes of the code.
pub(super) fn code(key: &[u8], message: &[u8]) -> [u8; CODE_BYTES] {
    let full = full(key, message);
    std::array::from_fn(|i| full[i])
}

/// Whether two codes are the same, in a time that does not tell where they differ.
pub(super) fn same(a: &[u8; CODE_BYTES], b: &[u8; CODE_BYTES]) -> bool {
    a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn full(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test cases 1, 2 and 6.
    #[test]
    fn the_vectors_of_rfc_4231() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(
            hex(full(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            hex(full(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(full(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        assert!(same(&[1; 16], &[1; 16]) && !same(&[1; 16], &[2; 16]));
    }
}
