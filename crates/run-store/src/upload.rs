//! Uploads the contents of an outbox: finished records, and the parts of records that are being written.
//!
//! The objects of a record are uploaded in such an order that its summary never names a file that the store
//! does not have. While the record is written, a summary that is marked partial comes first. The final
//! summary comes after all other files, so a program that is killed leaves a record that is marked partial.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, TryStreamExt};
use record::{Error, RUN_PARTITION};
use serde_json::Value;

use crate::cache::{SUMMARY, is_partial};
use crate::client::Client;
use crate::index;
use crate::journal::Journal;

/// Records that are uploaded at once, and files of each. The uplink limits them further.
const PARALLEL: (usize, usize) = (8, 4);

/// A record in an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OutboxRecord {
    directory: PathBuf,
    /// Its directory in the store, as in `lab8/run=ID`.
    key: String,
    is_finished: bool,
}

/// The uploaded part of a record.
#[derive(Debug, Clone, Default)]
struct Sent {
    files: BTreeSet<String>,
    /// The last summary; empty if there was none.
    summary: Vec<u8>,
    is_finished: bool,
    /// Whether the store may have files that the finished record does not have: parts of its tables.
    may_have_parts: bool,
    /// Whether the store may have files that are not in `files`: after an error, and if a program that has
    /// ended began it.
    may_have_more: bool,
    /// Whether a program that has ended began it.
    is_inherited: bool,
}

impl Sent {
    fn inherited() -> Self {
        Sent { may_have_parts: true, may_have_more: true, is_inherited: true, ..Sent::default() }
    }
}

/// Uploads an outbox, again and again while records are written to it.
#[derive(Debug)]
pub(crate) struct Uploader {
    outbox: PathBuf,
    journal: Journal,
    records: BTreeMap<String, Sent>,
    /// Other files, relative to the outbox. They never change.
    others: BTreeSet<String>,
    /// Whether the outbox is that of a program that has ended.
    is_inherited: bool,
}

impl Uploader {
    /// Of an outbox that this program has created.
    pub(crate) fn new(outbox: &Path) -> Result<Self, Error> {
        Ok(Uploader {
            outbox: outbox.to_owned(),
            journal: Journal::open(outbox)?,
            records: BTreeMap::new(),
            others: BTreeSet::new(),
            is_inherited: false,
        })
    }

    /// Of the outbox of a program that has ended.
    pub(crate) fn take_over(outbox: &Path) -> Result<Self, Error> {
        let mut own = Self::new(outbox)?;
        own.is_inherited = true;
        own.records = own.journal.records().into_iter().map(|key| (key, Sent::inherited())).collect();
        Ok(own)
    }

    /// Uploads all new files, until the first error.
    pub(crate) async fn upload(&mut self, client: &Client) -> Result<(), Error> {
        // Multipart uploads that a killed program left, or the last call, which an error ended.
        for (path, id) in self.journal.uploads() {
            client.abort_upload(&path, &id).await?;
            self.journal.close_upload(&path, &id);
        }
        let found = records(&self.outbox)?;
        let is_there = |key: &String| found.iter().any(|record| record.key == *key);
        let removed: Vec<String> = self.records.keys().filter(|key| !is_there(key)).cloned().collect();
        for key in removed {
            // A discarded try, or a run without any row.
            if !self.records[&key].is_inherited || is_unfinished(client, &key).await? {
                client.remove(&client.objects(&key).await?).await?;
            }
            self.records.remove(&key);
        }
        let mut uploads = Vec::new();
        let journal = &self.journal;
        for record in found {
            let new = || if self.is_inherited { Sent::inherited() } else { Sent::default() };
            let known = self.records.entry(record.key.clone()).or_insert_with(new);
            if !record.is_finished {
                journal.add_record(&record.key)?;
                known.may_have_parts = true;
            }
            // A copy, because the first error ends all uploads.
            let mut sent = known.clone();
            if !sent.is_finished {
                uploads.push(async move {
                    let done = upload_record(client, &record, &mut sent, journal).await;
                    (record.key, sent, done)
                });
            }
        }
        let mut uploads = futures_util::stream::iter(uploads).buffer_unordered(PARALLEL.0);
        let mut first_error = Ok(());
        while let Some((key, sent, done)) = uploads.next().await {
            self.records.insert(key, sent);
            first_error = first_error.and(done);
            if first_error.is_err() {
                break;
            }
        }
        drop(uploads);
        if first_error.is_err() {
            self.records.values_mut().for_each(|sent| sent.may_have_more = true);
        }
        first_error?;
        self.upload_others(client).await
    }

    async fn upload_others(&mut self, client: &Client) -> Result<(), Error> {
        let mut files = Vec::new();
        collect_files(&self.outbox, "", &mut files)?;
        let new: Vec<String> = files.into_iter().filter(|file| !self.others.contains(file)).collect();
        let (outbox, journal) = (&self.outbox, &self.journal);
        let uploads = new
            .iter()
            .map(|path| async move { client.upload(path, &outbox.join(path), journal).await.map(|_| path) });
        let uploads: Vec<_> = uploads.collect();
        let uploads = futures_util::stream::iter(uploads).buffer_unordered(PARALLEL.0 * PARALLEL.1);
        let sent: Vec<&String> = uploads.try_collect().await?;
        self.others.extend(sent.into_iter().cloned());
        Ok(())
    }

    /// Writes an index object called `name` of the finished records, if there are many.
    pub(crate) async fn write_index(&self, client: &Client, name: &str) -> Result<(), Error> {
        let finished = || self.records.iter().filter(|(_, sent)| sent.is_finished);
        if finished().count() < index::MIN_RUNS {
            return Ok(());
        }
        let summaries = finished().map(|(key, sent)| (key, &sent.summary));
        match index::encode(summaries) {
            Some(bytes) => client.write(&format!("{}/{name}", index::DIRECTORY), bytes).await,
            None => Ok(()),
        }
    }

    /// Removes the journal. The outbox must have been uploaded.
    pub(crate) fn remove_journal(&self) -> Result<(), Error> {
        self.journal.remove()
    }

    /// Moves the uploaded records to the cache, where they need not be fetched.
    pub(crate) fn move_to(&self, cache: &Path) {
        let records = records(&self.outbox).unwrap_or_default();
        for record in records.into_iter().filter(|record| record.is_finished) {
            let cached = cache.join(&record.key);
            if let Some(scenario) = cached.parent().filter(|_| !cached.exists()) {
                // Without the cache they are fetched when they are read.
                let _ = fs::create_dir_all(scenario).and_then(|()| fs::rename(&record.directory, &cached));
            }
        }
    }
}

/// The directory in the store of a record in an outbox, whose path there is `path`, as in `lab8/.ID.partial`.
pub(crate) fn key_of(path: &Path) -> Option<String> {
    let mut names = path.iter().map(|name| name.to_string_lossy());
    let (scenario, directory) = (names.next()?, names.next()?);
    let id = directory.strip_prefix('.').and_then(|name| name.strip_suffix(".partial")).unwrap_or(&directory);
    (!scenario.starts_with('.') && !id.starts_with('.')).then(|| format!("{scenario}/{RUN_PARTITION}{id}"))
}

/// The records in an outbox.
fn records(outbox: &Path) -> Result<Vec<OutboxRecord>, Error> {
    let mut records: Vec<OutboxRecord> = Vec::new();
    for scenario in subdirectories(outbox)? {
        for directory in subdirectories(&scenario)? {
            let Some(key) = directory.strip_prefix(outbox).ok().and_then(key_of) else { continue };
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let is_finished = !name.starts_with('.');
            // A record that is finished in this moment may be found under both names.
            match records.iter_mut().find(|known| known.key == key) {
                Some(known) if is_finished => *known = OutboxRecord { directory, key, is_finished },
                Some(_) => {}
                None => records.push(OutboxRecord { directory, key, is_finished }),
            }
        }
    }
    Ok(records)
}

fn subdirectories(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let paths = entries(directory)?.into_iter().map(|entry| entry.path());
    Ok(paths.filter(|path| path.is_dir()).collect())
}

/// The entries of a directory; none if it does not exist. All other errors are returned, because the objects
/// of a record that is no longer in the outbox are removed from the store.
fn entries(directory: &Path) -> Result<Vec<DirEntry>, Error> {
    match fs::read_dir(directory).and_then(Iterator::collect) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(|source| Error::Io { action: "read", path: directory.to_owned(), source }),
    }
}

/// The files in hidden directories of an outbox, except those that are being written.
fn collect_files(outbox: &Path, below: &str, files: &mut Vec<String>) -> Result<(), Error> {
    for entry in entries(&outbox.join(below))? {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let is_directory = entry.path().is_dir();
        if is_directory && (!below.is_empty() || name.starts_with('.')) {
            collect_files(outbox, &path, files)?;
        } else if !is_directory && !below.is_empty() && !name.starts_with('.') {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether the store has a record that is not finished, or nothing of it.
async fn is_unfinished(client: &Client, key: &str) -> Result<bool, Error> {
    let summary = client.read(&format!("{key}/{SUMMARY}")).await?;
    Ok(summary.is_none_or(|(json, _)| is_partial(&json)))
}

/// Uploads the new files of a record. Files that vanish meanwhile belong to a record that has just been
/// finished or removed.
async fn upload_record(
    client: &Client,
    record: &OutboxRecord,
    sent: &mut Sent,
    journal: &Journal,
) -> Result<(), Error> {
    let summary_path = format!("{}/{SUMMARY}", record.key);
    let Some(summary) = summary(record, &client.url(&record.key))? else { return Ok(()) };
    if !record.is_finished {
        // The final summary is written before the record's directory is renamed.
        if is_partial(&summary) && summary != sent.summary {
            client.write(&summary_path, summary.clone()).await?;
            sent.summary = summary.clone();
        }
        if sent.summary.is_empty() {
            return Ok(());
        }
    }
    let names: BTreeSet<String> = entries(&record.directory)?
        .into_iter()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != SUMMARY && !name.starts_with('.') && !name.ends_with(".tmp"))
        .collect();
    if sent.may_have_more {
        sent.files.extend(complete_files(client, record, &names).await?);
        sent.may_have_more = false;
    }
    let new: Vec<&String> = names.difference(&sent.files).collect();
    let uploads = new.into_iter().map(|name| async move {
        let path = format!("{}/{name}", record.key);
        let is_there = client.upload(&path, &record.directory.join(name), journal).await?;
        Ok::<_, Error>(is_there.then(|| name.clone()))
    });
    let uploads: Vec<_> = uploads.collect();
    let uploads = futures_util::stream::iter(uploads).buffer_unordered(PARALLEL.1);
    let uploaded: Vec<Option<String>> = uploads.try_collect().await?;
    sent.files.extend(uploaded.into_iter().flatten());
    if record.is_finished {
        if sent.may_have_parts {
            // Not those in `sent`: an upload that failed or was ended may be there too.
            let mut others = client.objects(&record.key).await?;
            let name_of = |path: &String| path.rsplit('/').next().unwrap_or_default().to_owned();
            others.retain(|path| name_of(path) != SUMMARY && !names.contains(&name_of(path)));
            client.remove(&others).await?;
        }
        client.write(&summary_path, summary.clone()).await?;
        sent.summary = summary;
        sent.is_finished = true;
    }
    Ok(())
}

/// The files of a record that the store has. A file never changes under its name, so an object of the same
/// size is a copy of it.
async fn complete_files(
    client: &Client,
    record: &OutboxRecord,
    names: &BTreeSet<String>,
) -> Result<BTreeSet<String>, Error> {
    let stored: BTreeMap<String, u64> = client.sizes(&record.key).await?.into_iter().collect();
    let is_complete = |name: &&String| {
        let size = fs::metadata(record.directory.join(name)).ok().map(|file| file.len());
        size.is_some() && size == stored.get(&format!("{}/{name}", record.key)).copied()
    };
    Ok(names.iter().filter(is_complete).cloned().collect())
}

/// The summary of a record with its address in the store; `None` if there is none, or only a part of it.
fn summary(record: &OutboxRecord, url: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = record.directory.join(SUMMARY);
    match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Io { action: "read", path, source }),
        Ok(text) => Ok(with_address(&text, url)),
    }
}

fn with_address(summary: &[u8], url: &str) -> Option<Vec<u8>> {
    let mut summary: Value = serde_json::from_slice(summary).ok()?;
    summary.get_mut("runs")?.get_mut(0)?["record"] = url.into();
    let mut json = serde_json::to_vec_pretty(&summary).ok()?;
    json.push(b'\n');
    Some(json)
}

#[cfg(test)]
mod tests {
    use record::ID_SUFFIX_FILE;

    use super::*;

    #[test]
    fn records_are_found_under_both_names() {
        let outbox = tempfile::tempdir().unwrap();
        for directory in
            ["lab8/.a.partial", "lab8/b", "lab8/.c.removed", "dsl/.b.partial", "dsl/b", ".points/3f"]
        {
            fs::create_dir_all(outbox.path().join(directory)).unwrap();
        }
        fs::write(outbox.path().join(".points/3f/3f0c.json"), "{}").unwrap();
        fs::write(outbox.path().join(".points/3f/.1-2.new"), "{").unwrap();
        fs::write(outbox.path().join(ID_SUFFIX_FILE), "abc").unwrap();
        let found = records(outbox.path()).unwrap();
        let mut found: Vec<(String, bool)> =
            found.into_iter().map(|record| (record.key, record.is_finished)).collect();
        found.sort();
        let expected = [("dsl/run=b", true), ("lab8/run=a", false), ("lab8/run=b", true)];
        assert_eq!(found, expected.map(|(key, is_finished)| (key.to_owned(), is_finished)));
        let mut files = Vec::new();
        collect_files(outbox.path(), "", &mut files).unwrap();
        assert_eq!(files, [".points/3f/3f0c.json"]);
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_not_an_empty_one() {
        let outbox = tempfile::tempdir().unwrap();
        let file = outbox.path().join("file");
        fs::write(&file, "").unwrap();
        let record = OutboxRecord { directory: file.clone(), key: "lab8/run=a".into(), is_finished: true };
        assert!(summary(&record, "s3://bucket").is_err());
        assert!(records(&file).is_err() && collect_files(&file, "", &mut Vec::new()).is_err());
        assert!(records(&outbox.path().join("missing")).unwrap().is_empty());
    }
}
