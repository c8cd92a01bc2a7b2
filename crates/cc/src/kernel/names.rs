//! Names of congestion controls in the kernel: at most 15 characters, and unique on the whole machine
//! (namespaces do not separate them; include/net/tcp.h, TCP_CA_NAME_MAX).
//!
//! A generated name is that of the algorithm, truncated if necessary, with a random suffix: `griddt_k3x9z`.

use std::hash::{BuildHasher, RandomState};

use super::Error;

/// Maximum length of a name, characters.
pub const MAX_NAME_LEN: usize = 15;
/// Length of the suffix, characters: 60 million values, so that collisions are rare. The kernel reports a
/// collision.
const SUFFIX_LEN: usize = 5;

/// Generates a new name for an algorithm. Each call returns another name.
pub fn generate(algorithm: &str) -> String {
    let stem: String =
        algorithm.chars().filter(|c| is_permitted(*c)).take(MAX_NAME_LEN - SUFFIX_LEN - 1).collect();
    // The keys of the standard library's hasher are random, which is sufficient here.
    let mut random = RandomState::new().hash_one(std::process::id());
    let suffix: String = (0..SUFFIX_LEN)
        .map(|_| {
            let letter = char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(random % 36) as usize]);
            random /= 36;
            letter
        })
        .collect();
    format!("{stem}_{suffix}")
}

/// Checks that the kernel and a BPF file system accept this name.
///
/// # Errors
/// If the name is invalid, with the reason.
pub fn check(name: &str) -> Result<(), Error> {
    let why = match name.chars().find(|c| !is_permitted(*c)) {
        _ if name.is_empty() => "it is empty".into(),
        _ if name.len() > MAX_NAME_LEN => {
            format!("it has {} characters, the kernel allows at most {MAX_NAME_LEN}", name.len())
        }
        Some(c) => format!("it has {c:?}; letters, digits, - and _ are allowed"),
        None => return Ok(()),
    };
    Err(Error::Name { name: name.into(), why })
}

fn is_permitted(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_valid_and_different() {
        for algorithm in ["griddt", "a-very-long-name-of-an-algorithm", "", "dots.and blanks"] {
            let (one, other) = (generate(algorithm), generate(algorithm));
            assert_ne!(one, other);
            check(&one).unwrap();
        }
        assert!(generate("griddt").starts_with("griddt_"));
        assert_eq!(generate("a-very-long-name").len(), MAX_NAME_LEN);
    }

    #[test]
    fn invalid_names_are_refused_with_the_reason() {
        assert!(check("sixteen_letters_").unwrap_err().to_string().contains("16 characters"));
        assert!(check("a.b").unwrap_err().to_string().contains("'.'"));
        assert!(check("").is_err());
        check("fifteen_letters").unwrap();
    }
}
