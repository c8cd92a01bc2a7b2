//! The outbox of a program that was killed: the objects that the next program uploads and removes, and those
//! that it must not change.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::select;
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore;
use serde_json::Value;
use tempfile::TempDir;
use testing::s3::{BUCKET, S3Server};
use testing::{Missing, skip};

use crate::address::Address;
use crate::client::Client;
use crate::directories::Directories;
use crate::http::Connector;
use crate::journal::Journal;
use crate::outbox::{Outbox, open_lock};
use crate::settings::Settings;
use crate::upload::Uploader;

/// The tag of the killed program.
const TAG: &str = "0a1b2c";
const KEY: &str = "s/run=1-0a1b2c";

struct Place {
    _server: S3Server,
    user: TempDir,
    settings: Settings,
    client: Arc<Client>,
}

impl Place {
    /// `None` if the server is not installed; the test is reported as skipped then.
    fn new() -> Option<Place> {
        let Some(server) = S3Server::start() else {
            skip(Missing::Tool, "moto_server is not in target/python/venv; run scripts/setup.sh tests");
            return None;
        };
        let address = Address::parse(&format!("s3://{BUCKET}/some/place")).unwrap();
        let settings = Settings::from_variables(address, &server.environment());
        let client = Arc::new(Client::start(&settings).unwrap());
        Some(Place { _server: server, user: tempfile::tempdir().unwrap(), settings, client })
    }

    fn directories(&self) -> Directories {
        Directories { cache: self.user.path().join("runs"), outboxes: self.user.path().join("outbox") }
    }

    /// A program that writes nothing.
    fn next_program(&self) {
        Outbox::start(&self.client, &self.directories()).unwrap().finish().unwrap();
    }

    /// The names of the objects.
    fn objects(&self) -> BTreeSet<String> {
        self.client.wait(self.client.objects("")).unwrap().into_iter().collect()
    }

    /// The store without this crate's client.
    fn store(&self) -> AmazonS3 {
        let connector = Connector { needs_tls: false };
        self.settings.builder().with_http_connector(connector).build().unwrap()
    }

    /// Whether the store has a multipart upload that has not ended.
    fn has_upload(&self, path: &str, id: &str) -> bool {
        let (store, key, id) = (self.store(), self.client.address.key(path), id.to_owned());
        self.client.wait(store.put_part(&key, &id, 9, "part".into())).is_ok()
    }
}

/// The outbox of a program, with the operations of the program on one record in it.
struct Writer<'a> {
    place: &'a Place,
    outbox: PathBuf,
    uploader: Uploader,
}

impl<'a> Writer<'a> {
    /// A program that has uploaded the part of an unfinished record.
    fn begin(place: &'a Place) -> Self {
        let outbox = place.directories().outboxes.join(TAG);
        let partial = outbox.join("s/.1-0a1b2c.partial");
        fs::create_dir_all(&partial).unwrap();
        for file in ["scenario.toml", "flows.part-0001.parquet"] {
            fs::write(partial.join(file), file).unwrap();
        }
        write_summary(&partial, true);
        let mut writer = Writer { place, uploader: Uploader::new(&outbox).unwrap(), outbox };
        writer.upload();
        let expected = ["flows.part-0001.parquet", "scenario.toml", "summary.json"];
        assert_eq!(place.objects(), objects(&expected));
        writer
    }

    fn upload(&mut self) {
        self.place.client.wait(self.uploader.upload(&self.place.client)).unwrap();
    }

    /// Finishes the record on this machine.
    fn finish(&self) {
        let (partial, finished) = (self.outbox.join("s/.1-0a1b2c.partial"), self.outbox.join("s/1-0a1b2c"));
        fs::write(partial.join("flows.parquet"), "all rows").unwrap();
        fs::remove_file(partial.join("flows.part-0001.parquet")).unwrap();
        write_summary(&partial, false);
        fs::rename(partial, finished).unwrap();
    }
}

/// These files of the record, as objects.
fn objects(files: &[&str]) -> BTreeSet<String> {
    files.iter().map(|file| format!("{KEY}/{file}")).collect()
}

fn write_summary(directory: &Path, is_partial: bool) {
    let mut summary: Value = serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap();
    summary["runs"][0]["partial"] = is_partial.into();
    fs::write(directory.join("summary.json"), summary.to_string()).unwrap();
}

#[test]
fn parts_of_a_record_are_removed_if_its_writer_was_killed_after_it_was_finished() {
    let Some(place) = Place::new() else { return };
    let writer = Writer::begin(&place);
    writer.finish();
    // A file that the store has is not uploaded again.
    let scenario = "s/1-0a1b2c/scenario.toml";
    fs::write(writer.outbox.join(scenario), "SCENARIO.TOML").unwrap();
    drop(writer);
    place.next_program();
    let (text, _) = place.client.wait(place.client.read(&format!("{KEY}/scenario.toml"))).unwrap().unwrap();
    assert_eq!(text, b"scenario.toml");
    assert_eq!(place.objects(), objects(&["flows.parquet", "scenario.toml", "summary.json"]));
    assert!(place.directories().cache.join(KEY).join("flows.parquet").exists());
    assert_eq!(fs::read_dir(place.directories().outboxes).unwrap().count(), 0);
}

#[test]
fn an_unfinished_record_of_a_killed_writer_remains() {
    let Some(place) = Place::new() else { return };
    Writer::begin(&place);
    let before = place.objects();
    place.next_program();
    assert_eq!(place.objects(), before);
}

#[test]
fn a_discarded_attempt_of_a_killed_writer_is_removed() {
    let Some(place) = Place::new() else { return };
    let writer = Writer::begin(&place);
    fs::remove_dir_all(writer.outbox.join("s")).unwrap();
    drop(writer);
    place.next_program();
    assert_eq!(place.objects(), BTreeSet::new());
}

#[test]
fn a_finished_record_remains_if_only_its_journal_is_left() {
    let Some(place) = Place::new() else { return };
    let mut writer = Writer::begin(&place);
    writer.finish();
    writer.upload();
    fs::remove_dir_all(writer.outbox.join("s")).unwrap();
    drop(writer);
    place.next_program();
    assert_eq!(place.objects(), objects(&["flows.parquet", "scenario.toml", "summary.json"]));
}

#[test]
fn uploads_of_a_running_program_are_not_touched() {
    let Some(place) = Place::new() else { return };
    let writer = Writer::begin(&place);
    let lock = open_lock(&writer.outbox).unwrap();
    lock.try_lock().unwrap();
    let (path, id) = (format!("{KEY}/trace.parquet"), begin_upload(&place, &writer.outbox));
    // The record that it discards next.
    fs::remove_dir_all(writer.outbox.join("s")).unwrap();
    let before = place.objects();
    place.next_program();
    assert_eq!(place.objects(), before);
    assert!(place.has_upload(&path, &id) && writer.outbox.exists());
    drop(lock);
    place.next_program();
    assert!(!place.has_upload(&path, &id) && !writer.outbox.exists());
    assert_eq!(place.objects(), BTreeSet::new());
}

/// Begins a multipart upload, like a program that is killed during it; returns its id.
fn begin_upload(place: &Place, outbox: &Path) -> String {
    let path = format!("{KEY}/trace.parquet");
    let id = place.client.wait(async {
        let (store, key) = (place.store(), place.client.address.key(&path));
        let id = store.create_multipart(&key).await.unwrap();
        store.put_part(&key, &id, 0, vec![0; 5 << 20].into()).await.unwrap();
        id
    });
    Journal::open(outbox).unwrap().add_upload(&path, &id).unwrap();
    id
}

#[test]
fn large_files_are_uploaded_in_parts_and_an_interrupted_upload_is_discarded() {
    let Some(place) = Place::new() else { return };
    let mut writer = Writer::begin(&place);
    let path = format!("{KEY}/trace.parquet");
    let file = writer.outbox.join("s/.1-0a1b2c.partial/trace.parquet");
    let bytes: Vec<u8> = (0..20_u32 << 20).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
    fs::write(&file, &bytes).unwrap();
    // The upload ends after its first request, as after an error of another file.
    let journal = Journal::open(&writer.outbox).unwrap();
    place.client.wait(async {
        let upload = Box::pin(place.client.upload(&path, &file, &journal));
        let has_begun = poll_fn(|_| match journal.uploads().is_empty() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        });
        select(upload, Box::pin(has_begun)).await;
    });
    let (_, id) = journal.uploads().pop().unwrap();
    assert!(place.has_upload(&path, &id));
    // The next call of a program with this journal.
    writer.uploader = Uploader::new(&writer.outbox).unwrap();
    writer.upload();
    assert!(!place.has_upload(&path, &id));
    place.client.wait(place.client.abort_upload(&path, &id)).expect("an upload that has ended");
    let copy = place.user.path().join("copy");
    let mut copied = File::create(&copy).unwrap();
    assert!(place.client.wait(place.client.download(&path, &mut copied)).unwrap());
    assert!(fs::read(&copy).unwrap() == bytes, "the parts are in order");
}
