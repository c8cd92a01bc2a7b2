//! The names of points.

use crate::Error;

/// Checks the name of a point: it is part of a DNS name in certificates.
///
/// # Errors
/// If the name is not allowed; the error names the allowed form.
pub fn check_name(name: &str) -> Result<(), Error> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_valid = (1..=32).contains(&name.len())
        && name.chars().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if is_valid {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "{name:?} is not a valid point name: 1 to 32 characters of a-z, 0-9 and \"-\", not beginning or ending with \"-\""
    )))
}
