//! Names of congestion controls in the kernel: at most 15 characters, and one of a kind on the whole machine
//! (namespaces do not separate them; include/net/tcp.h, TCP_CA_NAME_MAX).
//!
//! A generated name is the algorithm's, cut where needed, and a tail that nothing else has: `griddt_k3x9z`.

use std::hash::{BuildHasher, RandomState};

use super::Error;

/// The longest name that the kernel takes.
pub const LONGEST: usize = 15;
/// Letters of a tail: 60 million of them, so that two of a machine rarely meet; where they do, the kernel says so.
const TAIL: usize = 5;

/// A new name for an algorithm. Two calls give two names.
pub fn generate(algorithm: &str) -> String {
    let stem: String = algorithm.chars().filter(|c| is_fit(*c)).take(LONGEST - TAIL - 1).collect();
    // A hasher of the standard library starts from the system's randomness; that is all that is needed here.
    let mut random = RandomState::new().hash_one(std::process::id());
    let tail: String = (0..TAIL)
        .map(|_| {
            let letter = char::from(b"0123456789abcdefghijklmnopqrstuvwxyz"[(random % 36) as usize]);
            random /= 36;
            letter
        })
        .collect();
    format!("{stem}_{tail}")
}

/// An error unless the kernel and a file system of pins take this name.
pub fn check(name: &str) -> Result<(), Error> {
    let why = match name.chars().find(|c| !is_fit(*c)) {
        _ if name.is_empty() => "it is empty".into(),
        _ if name.len() > LONGEST => {
            format!("it has {} characters, the kernel takes {LONGEST} at most", name.len())
        }
        Some(c) => format!("it has {c:?}; letters, digits, - and _ are allowed"),
        None => return Ok(()),
    };
    Err(Error::Name { name: name.into(), why })
}

fn is_fit(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit_and_differ() {
        for algorithm in ["griddt", "a-very-long-name-of-an-algorithm", "", "dots.and blanks"] {
            let (one, other) = (generate(algorithm), generate(algorithm));
            assert_ne!(one, other);
            check(&one).unwrap();
        }
        assert!(generate("griddt").starts_with("griddt_"));
        assert_eq!(generate("a-very-long-name").len(), LONGEST);
    }

    #[test]
    fn names_that_the_kernel_would_not_take_are_refused_with_the_reason() {
        assert!(check("sixteen_letters_").unwrap_err().to_string().contains("16 characters"));
        assert!(check("a.b").unwrap_err().to_string().contains("'.'"));
        assert!(check("").is_err());
        check("fifteen_letters").unwrap();
    }
}
