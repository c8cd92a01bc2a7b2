//! The directories of an object store on this machine: the cache and the outboxes of running programs.
//!
//! ```text
//! ~/.cache/longfat/stores/ENDPOINT_BUCKET_PREFIX/
//!   runs/         the cache: a directory of records
//!   outbox/TAG/   the records that one program has written, until they are uploaded
//! ```

use std::env;
use std::fmt::Write;
use std::path::PathBuf;

use crate::Error;
use crate::address::Address;

/// The directories of one place of records.
#[derive(Debug, Clone)]
pub(crate) struct Directories {
    pub(crate) cache: PathBuf,
    pub(crate) outboxes: PathBuf,
}

impl Directories {
    /// Those below `$XDG_CACHE_HOME`, else `~/.cache`. They need not exist.
    pub(crate) fn of_this_user(address: &Address, endpoint: &str) -> Result<Self, Error> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // The XDG Base Directory Specification requires that relative paths are ignored.
        let xdg = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        let base = xdg.or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let base = base.ok_or_else(|| Error::NoCache { address: address.to_string() })?;
        let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
        let name =
            format!("{}_{}_{}", escape(host), escape(&address.bucket), escape(address.prefix.as_ref()));
        let own = base.join("longfat/stores").join(name);
        Ok(Directories { cache: own.join("runs"), outboxes: own.join("outbox") })
    }
}

/// Percent-encodes all bytes of `text` except letters, digits, `-` and `.`, so that different texts have
/// different file names.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut name, byte| {
        match byte.is_ascii_alphanumeric() || b"-.".contains(&byte) {
            true => name.push(byte.into()),
            false => {
                let _ = write!(name, "%{byte:02x}");
            }
        }
        name
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_stores_have_different_directory_names() {
        let names = ["a/b", "a_b", "a-b", "ab", ""].map(escape);
        assert_eq!(names, ["a%2fb", "a%5fb", "a-b", "ab", ""]);
    }
}
