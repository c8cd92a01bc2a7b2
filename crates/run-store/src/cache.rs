//! The cache: a directory of records with the summaries of the object store.
//!
//! A finished record does not change, so its summary is read once. The summary of an unfinished record is
//! read each time; the file [`UNFINISHED`] in its directory marks such a record. The other files of a record
//! never change and are fetched when they are read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use futures_util::{StreamExt, TryStreamExt};
use record::Error;

use crate::client::Client;
use crate::index;

/// The file with a record's summary.
pub(crate) const SUMMARY: &str = "summary.json";
/// Marks a record in the cache whose summary may change.
const UNFINISHED: &str = ".unfinished";
/// Scenarios that are listed at once.
const PARALLEL_LISTS: usize = 16;
/// Objects that are read at once.
const PARALLEL_READS: usize = 64;

/// Brings the summaries of all records in `cache` up to date.
pub(crate) fn refresh(client: &Client, cache: &Path) -> Result<(), Error> {
    create(cache)?;
    client.wait(async {
        let scenarios = client.directories("").await?;
        let lists = scenarios.iter().map(|scenario| async move {
            let runs = client.directories(scenario).await?;
            Ok::<_, Error>(runs.into_iter().map(|run| format!("{scenario}/{run}")).collect::<Vec<_>>())
        });
        let lists: Vec<_> = lists.collect();
        let listed: Vec<Vec<String>> =
            futures_util::stream::iter(lists).buffer_unordered(PARALLEL_LISTS).try_collect().await?;
        let listed: BTreeSet<String> = listed.into_iter().flatten().collect();
        let mut unknown: BTreeSet<&String> =
            listed.iter().filter(|run| !is_finished(&cache.join(run))).collect();
        if unknown.len() >= index::MIN_RUNS {
            read_indexes(client, cache, &mut unknown).await?;
        }
        let reads: Vec<_> = unknown.into_iter().map(|run| read_summary(client, cache, run)).collect();
        futures_util::stream::iter(reads).buffer_unordered(PARALLEL_READS).try_collect::<()>().await?;
        remove_others(cache, &listed);
        Ok(())
    })
}

/// Brings up to date the objects below `directory`, which are not records.
pub(crate) fn refresh_files(client: &Client, cache: &Path, directory: &str) -> Result<(), Error> {
    create(cache)?;
    client.wait(fetch_missing(client, cache, directory)).map(drop)
}

/// Fetches the objects below `directory` that the cache does not have, and returns their paths.
async fn fetch_missing(client: &Client, cache: &Path, directory: &str) -> Result<Vec<String>, Error> {
    let missing = client.objects(directory).await?.into_iter().filter(|path| !cache.join(path).exists());
    let reads = missing.map(|path| async move {
        fetch(client, &path, &cache.join(&path)).await?;
        Ok::<_, Error>(path)
    });
    let reads: Vec<_> = reads.collect();
    futures_util::stream::iter(reads).buffer_unordered(PARALLEL_READS).try_collect().await
}

/// Reads new index objects, and removes the runs from `unknown` whose summaries they have.
async fn read_indexes(client: &Client, cache: &Path, unknown: &mut BTreeSet<&String>) -> Result<(), Error> {
    for path in fetch_missing(client, cache, index::DIRECTORY).await? {
        for (run, summary) in index::decode(&fs::read(cache.join(&path)).unwrap_or_default()) {
            if is_partial(summary.as_bytes()) || !unknown.remove(&run) {
                continue;
            }
            let directory = cache.join(&run);
            create(&directory)?;
            let failed = |source: io::Error| Error::Io { action: "write", path: directory.clone(), source };
            write(&directory.join(SUMMARY), summary.as_bytes(), SystemTime::now()).map_err(failed)?;
            match fs::remove_file(directory.join(UNFINISHED)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => remove_parts(&directory),
            }
        }
        // The summaries are in the cache now: an empty file marks this index object as read.
        let _ = File::create(cache.join(&path));
    }
    Ok(())
}

/// Copies an object to a file, which appears complete or not at all.
pub(crate) async fn fetch(client: &Client, path: &str, file: &Path) -> Result<(), Error> {
    create(file.parent().unwrap_or(file))?;
    let temporary = temporary(file);
    let failed = |source: io::Error| Error::Io { action: "write", path: file.to_owned(), source };
    let copied = async {
        let mut opened = File::create(&temporary).map_err(failed)?;
        match client.download(path, &mut opened).await? {
            true => fs::rename(&temporary, file).map_err(failed).map(|()| true),
            false => Ok(false),
        }
    };
    let copied = copied.await;
    if !matches!(copied, Ok(true)) {
        let _ = fs::remove_file(&temporary);
    }
    copied.map(drop)
}

fn is_finished(directory: &Path) -> bool {
    directory.join(SUMMARY).exists() && !directory.join(UNFINISHED).exists()
}

/// Reads a record's summary into the cache. A record without one is unfinished.
async fn read_summary(client: &Client, cache: &Path, run: &str) -> Result<(), Error> {
    let directory = cache.join(run);
    create(&directory)?;
    let found = client.read(&format!("{run}/{SUMMARY}")).await?;
    let mark = directory.join(UNFINISHED);
    let failed = |source: io::Error| Error::Io { action: "write", path: directory.clone(), source };
    let finished = found.as_ref().is_some_and(|(json, _)| !is_partial(json));
    if !finished {
        File::create(&mark).map_err(failed)?;
    }
    if let Some((json, written)) = found {
        write(&directory.join(SUMMARY), &json, written).map_err(failed)?;
    }
    if finished && mark.exists() {
        fs::remove_file(&mark).map_err(failed)?;
        remove_parts(&directory);
    }
    Ok(())
}

/// Whether a summary belongs to an unfinished run, or cannot be read.
pub(crate) fn is_partial(json: &[u8]) -> bool {
    let summary: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
    summary["runs"][0]["partial"].as_bool().unwrap_or(!summary["runs"][0].is_object())
}

/// Writes a file with the time of its object, which shows how old an unfinished record is.
fn write(file: &Path, bytes: &[u8], written: SystemTime) -> io::Result<()> {
    let temporary = temporary(file);
    fs::write(&temporary, bytes)?;
    File::options().write(true).open(&temporary)?.set_modified(written)?;
    fs::rename(&temporary, file)
}

/// A name for a file that is being written. Several programs and threads may fetch the same file.
fn temporary(file: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    file.with_file_name(format!(".{name}.{}-{number}.tmp", std::process::id()))
}

/// Removes records that the store does not have.
fn remove_others(cache: &Path, listed: &BTreeSet<String>) {
    let names = |directory: &Path| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    for scenario in names(cache).into_iter().filter(|name| !name.starts_with('.')) {
        for run in names(&cache.join(&scenario)) {
            let path = format!("{scenario}/{run}");
            if !listed.contains(&path) {
                let _ = fs::remove_dir_all(cache.join(path));
            }
        }
        // Not empty: it has other runs.
        let _ = fs::remove_dir(cache.join(scenario));
    }
}

/// Removes the parts of tables of a record that is finished now.
fn remove_parts(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().contains(".part-") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn create(directory: &Path) -> Result<(), Error> {
    let failed = |source| Error::Io { action: "create", path: directory.to_owned(), source };
    fs::create_dir_all(directory).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_of_unfinished_runs_are_recognized() {
        assert!(is_partial(br#"{"runs": [{"partial": true}]}"#));
        assert!(!is_partial(br#"{"runs": [{"partial": false}]}"#));
        assert!(!is_partial(br#"{"runs": [{"id": "x"}]}"#), "omitted where false");
        assert!(is_partial(b"{\"runs\"") && is_partial(b"{}") && is_partial(br#"{"runs": []}"#));
    }
}
