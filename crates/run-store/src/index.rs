//! Index objects: the summaries of the finished records that one program has written, in one object.
//!
//! A sweep of a thousand runs is then listed by a few requests instead of a thousand. An index object never
//! changes, and is only a cache: summaries of runs that no index contains are read one by one, and entries of
//! removed runs are ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The directory of index objects.
pub(crate) const DIRECTORY: &str = ".index";
/// Minimum number of runs for which an index object is written or read. Fewer summaries are read one by one.
pub(crate) const MIN_RUNS: usize = 20;
const SCHEMA: &str = "longfat.index/1";

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    /// By the record's directory, as in `lab8/run=ID`.
    summaries: BTreeMap<String, Box<RawValue>>,
}

/// An index object of these summaries, each with the directory of its record; `None` if one is not JSON.
pub(crate) fn encode<'a>(summaries: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) -> Option<Vec<u8>> {
    let raw = |json: &[u8]| RawValue::from_string(String::from_utf8(json.to_vec()).ok()?).ok();
    let summaries = summaries.map(|(key, json)| Some((key.clone(), raw(json)?))).collect::<Option<_>>()?;
    serde_json::to_vec(&Document { schema: SCHEMA.into(), summaries }).ok()
}

/// The summaries in an index object; none if it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> BTreeMap<String, String> {
    let document: Option<Document> = serde_json::from_slice(bytes).ok();
    let summaries = document.filter(|document| document.schema == SCHEMA).map(|document| document.summaries);
    summaries.unwrap_or_default().into_iter().map(|(key, json)| (key, json.get().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_the_same_after_encoding_and_decoding() {
        let (key, json) = ("lab8/run=1".to_owned(), b"{\n \"b\": 1.50,\n \"a\": null\n}\n".to_vec());
        let index = encode([(&key, &json)].into_iter()).unwrap();
        let summaries = decode(&index);
        assert_eq!(
            summaries[&key], "{\n \"b\": 1.50,\n \"a\": null\n}",
            "to the byte, without the spaces around it"
        );
        assert!(decode(&index[..index.len() / 2]).is_empty() && decode(b"{}").is_empty());
        assert!(encode([(&key, &b"{".to_vec())].into_iter()).is_none());
    }
}
