//! The address of records in an object store: `s3://bucket/prefix`.

use std::fmt;
use std::path::Path;

use object_store::path::Path as Key;

use crate::Error;

const SCHEME: &str = "s3://";

/// Whether the location of records is the address of an object store.
pub fn is_address(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(SCHEME))
}

/// A bucket, and the beginning of the keys of its objects; it may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) bucket: String,
    pub(crate) prefix: Key,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Address { address: text.to_owned(), reason };
        let rest = text.strip_prefix(SCHEME).unwrap_or(text).trim_end_matches('/');
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(wrong("it has no bucket: write s3://BUCKET or s3://BUCKET/PREFIX".into()));
        }
        let prefix = Key::parse(prefix).map_err(|error| wrong(error.to_string()))?;
        Ok(Address { bucket: bucket.to_owned(), prefix })
    }

    /// The key of an object; `path` is relative to the prefix.
    pub(crate) fn key(&self, path: &str) -> Key {
        match self.prefix.as_ref() {
            "" => Key::from(path),
            prefix => Key::from(format!("{prefix}/{path}")),
        }
    }

    /// The path of an object relative to the prefix.
    pub(crate) fn relative<'a>(&self, key: &'a Key) -> &'a str {
        let own = key.as_ref().strip_prefix(self.prefix.as_ref()).unwrap_or(key.as_ref());
        own.trim_start_matches('/')
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.as_ref().is_empty() { "" } else { "/" };
        write!(f, "{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_bucket_and_perhaps_a_prefix() {
        let parse = |text| Address::parse(text).map(|address| address.to_string());
        assert_eq!(parse("s3://b").unwrap(), "s3://b");
        assert_eq!(parse("s3://b/").unwrap(), "s3://b");
        assert_eq!(parse("s3://b/a/c/").unwrap(), "s3://b/a/c");
        assert!(parse("s3://").is_err() && parse("s3:///a").is_err() && parse("s3://b/a//c").is_err());
        assert!(is_address(Path::new("s3://b")) && !is_address(Path::new("runs")));
    }

    #[test]
    fn keys_are_below_the_prefix() {
        let nested = Address::parse("s3://b/a/c").unwrap();
        let key = nested.key("lab8/run=1/flows.parquet");
        assert_eq!(key.as_ref(), "a/c/lab8/run=1/flows.parquet");
        assert_eq!(nested.relative(&key), "lab8/run=1/flows.parquet");
        let whole = Address::parse("s3://b").unwrap();
        assert_eq!(whole.relative(&whole.key("x/y")), "x/y");
    }
}
