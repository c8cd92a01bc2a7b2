//! Random bytes of the kernel.
#![allow(unsafe_code)]

use std::io;

use data_encoding::HEXLOWER;

/// Fills `bytes` with random bytes (getrandom(2)).
///
/// # Errors
/// The errors of getrandom(2).
pub fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let remaining = &mut bytes[filled..];
        // SAFETY: the pointer and the length describe `remaining`.
        match unsafe { libc::getrandom(remaining.as_mut_ptr().cast(), remaining.len(), 0) } {
            n if n > 0 => filled += n as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// A text that cannot be guessed: this many random bytes as hexadecimal digits.
///
/// # Errors
/// The errors of getrandom(2).
pub fn random_hex(bytes: usize) -> io::Result<String> {
    let mut random = vec![0; bytes];
    fill_random(&mut random)?;
    Ok(HEXLOWER.encode(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_differ_and_have_two_digits_for_each_byte() {
        let texts = [(); 2].map(|()| random_hex(16).unwrap());
        assert!(texts.iter().all(|text| text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit())));
        assert_ne!(texts[0], texts[1]);
        assert_eq!(random_hex(0).unwrap(), "");
    }

    #[test]
    fn all_bytes_are_filled() {
        // Longer than one call of getrandom(2) returns without interruption: 256 bytes. 1,000 zeros in a row
        // are impossible.
        let mut bytes = vec![0; 100_000];
        fill_random(&mut bytes).unwrap();
        assert!(bytes.chunks(1000).all(|part| part.iter().any(|byte| *byte != 0)));
    }
}
