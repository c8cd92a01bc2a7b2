//! Names of the files and directories of records.

use std::path::Path;

/// The file with a record's summary.
pub(crate) const SUMMARY: &str = "summary.json";
/// The file with a record's scenario.
pub(crate) const SCENARIO: &str = "scenario.toml";
/// The prefix of the id in the name of a record's directory in an object store, as in partitioned (Hive)
/// layouts: DuckDB, polars and Arrow make a column `run` of it. A copy of the store is a directory of
/// records.
pub const RUN_PARTITION: &str = "run=";

/// The id in the name of a finished record's directory.
pub(crate) fn id_of(name: &str) -> &str {
    name.strip_prefix(RUN_PARTITION).unwrap_or(name)
}

/// The name of the directory of an unfinished record with this id.
pub(crate) fn partial_name(id: &str) -> String {
    format!(".{id}.partial")
}

/// The id in a directory name of [`partial_name`]'s form.
pub(crate) fn partial_id(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".partial")
}

/// The last component of a path, also of one like `runs/lab8/x/`.
pub(crate) fn directory_name(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}
