//! Writes a record: in parts while the run goes on, whole at its end, and nothing of it after a failure.
//!
//! While a run goes on, rows are appended as part files (`flows.part-0001.parquet`, each complete in itself)
//! in `runs/<scenario>/.<id>.partial/`. [`Writer::finish`] writes the final files, takes the parts away and
//! renames the directory.
//!
//! Rows of traces are many: they are never kept in memory whole. Each batch becomes a part, and at the end the parts become row
//! groups of `trace.parquet`, one after the other.
//!
//! What is left behind otherwise:
//!
//! - after an error (a full disk): nothing;
//! - after [`Writer::abort`]: nothing;
//! - dropped without either (a panic, an early return): the partial record where any row came in, else nothing;
//! - after SIGKILL or a power cut: the partial record as of its last part.
//!
//! Parts are not forced to the disk (a killed process does not lose them); the final files are.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use schema::{Event, FlowSample, LinkSample, Summary, TraceRow};

use crate::Error;
use crate::error::Context;
use crate::id::file_name;
use crate::parquet_file::{Encoder, decode, encode};
use crate::table::Table;

/// A part is written once this much of the run came in since the last, at the least.
const PART_MIN_US: i64 = 1_000_000;
/// And this fraction of what is already written, so that long runs have few parts.
const PART_FRACTION: i64 = 10;
/// Rows of traces in one part.
const TRACE_PART_ROWS: usize = 128 * 1024;
/// How often the scenario's directory may vanish under a starting run before that is an error.
const VANISHED_MAX: u32 = 100;

/// A record being written.
#[derive(Debug)]
pub struct Writer {
    id: String,
    /// Where it is written.
    partial: PathBuf,
    /// Where it will be.
    place: PathBuf,
    /// Directories above it that did not exist before, outermost first.
    made: Vec<PathBuf>,
    summary: Summary,
    pending: Pending,
    parts: u32,
    trace: Vec<TraceRow>,
    trace_parts: u32,
    written_until_us: i64,
    newest_us: i64,
    closed: bool,
}

/// Rows that are not in a part yet.
#[derive(Debug, Default)]
struct Pending {
    flows: Vec<FlowSample>,
    links: Vec<LinkSample>,
    events: Vec<Event>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.flows.is_empty() && self.links.is_empty() && self.events.is_empty()
    }
}

impl Writer {
    /// Starts the record of a run as `runs_dir/scenario_name/.id.partial`.
    ///
    /// Where the id is taken, `-2` (and so on) is appended: ask [`Writer::id`]. `initial` is the summary that
    /// a killed run keeps; its one run is marked partial and given the id.
    pub fn create(
        runs_dir: &Path,
        scenario_name: &str,
        id: &str,
        scenario_toml: &str,
        initial: &Summary,
    ) -> Result<Self, Error> {
        let dir = runs_dir.join(file_name(scenario_name));
        let mut made = Vec::new();
        let (id, partial) = match claim(&dir, &file_name(id), &mut made) {
            Ok(claimed) => claimed,
            Err(e) => {
                remove_empty(&made);
                return Err(e);
            }
        };
        let place = dir.join(&id);
        let mut writer = Writer {
            summary: with_run(initial, &id, Some(true)),
            id,
            partial,
            place,
            made,
            pending: Pending::default(),
            parts: 0,
            trace: Vec::new(),
            trace_parts: 0,
            written_until_us: 0,
            newest_us: 0,
            closed: false,
        };
        let written = write_file(&writer.partial, "scenario.toml", scenario_toml.as_bytes(), Sync::No)
            .and_then(|()| write_summary(&writer.partial, &writer.summary, Sync::No));
        writer.remove_unless(written)?;
        Ok(writer)
    }

    /// The record's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory it is written in until it is finished.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Adds rows. They are buffered, and written as a part now and then. After an error the record is gone.
    pub fn append(
        &mut self,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Error> {
        self.check_open()?;
        self.pending.flows.extend_from_slice(flows);
        self.pending.links.extend_from_slice(links);
        self.pending.events.extend_from_slice(events);
        self.newest_us = [newest(flows), newest(links), newest(events)]
            .into_iter()
            .flatten()
            .fold(self.newest_us, i64::max);
        let waited_us = self.newest_us - self.written_until_us;
        if waited_us < PART_MIN_US.max(self.written_until_us / PART_FRACTION) {
            return Ok(());
        }
        let flushed = self.flush();
        self.remove_unless(flushed)
    }

    /// Adds rows of traces. After an error the record is gone.
    pub fn append_trace(&mut self, rows: &[TraceRow]) -> Result<(), Error> {
        self.check_open()?;
        self.trace.extend_from_slice(rows);
        if self.trace.len() < TRACE_PART_ROWS {
            return Ok(());
        }
        let flushed = self.flush_trace();
        self.remove_unless(flushed)
    }

    /// Writes the final files with the run's complete rows and moves the record to its place, which is returned.
    /// After an error the record is gone.
    pub fn finish(
        mut self,
        summary: &Summary,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<PathBuf, Error> {
        self.check_open()?;
        let finished = self.write_final(summary, flows, links, events);
        self.remove_unless(finished)?;
        self.closed = true;
        Ok(self.place.clone())
    }

    /// Removes everything that was written.
    pub fn abort(mut self) {
        self.remove();
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closed { Err(Error::Removed { path: self.partial.clone() }) } else { Ok(()) }
    }

    /// Writes the pending rows as the next part.
    fn flush(&mut self) -> Result<(), Error> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.parts += 1;
        write_part(&self.partial, self.parts, &self.pending.flows)?;
        write_part(&self.partial, self.parts, &self.pending.links)?;
        write_part(&self.partial, self.parts, &self.pending.events)?;
        for run in &mut self.summary.runs {
            run.duration_s = self.newest_us as f64 / 1e6;
        }
        write_summary(&self.partial, &self.summary, Sync::No)?;
        self.written_until_us = self.newest_us;
        self.pending = Pending::default();
        Ok(())
    }

    fn flush_trace(&mut self) -> Result<(), Error> {
        if !self.trace.is_empty() {
            self.trace_parts += 1;
            write_part(&self.partial, self.trace_parts, &self.trace)?;
            self.trace.clear();
        }
        Ok(())
    }

    /// Makes one file of the trace's parts, with one part in memory at a time.
    fn join_trace(&mut self) -> Result<(), Error> {
        self.flush_trace()?;
        if self.trace_parts == 0 {
            return Ok(());
        }
        let path = self.partial.join(format!("{}.parquet", TraceRow::NAME));
        let temporary = self.partial.join(format!("{}.parquet.tmp", TraceRow::NAME));
        let failed = |reason: String| Error::Encode { path: path.clone(), reason };
        let file = File::create(&temporary).context("create", &path)?;
        let mut encoder =
            Encoder::<TraceRow, _>::new(BufWriter::new(file)).map_err(|e| failed(e.to_string()))?;
        for part in 1..=self.trace_parts {
            let place = self.partial.join(part_name(TraceRow::NAME, part));
            let rows = decode(File::open(&place).context("read", &place)?)
                .map_err(|reason| Error::Parquet { path: place.clone(), reason })?;
            encoder.add(&rows).map_err(|e| failed(e.to_string()))?;
        }
        let written = encoder.finish().map_err(|e| failed(e.to_string()))?;
        let file = written.into_inner().map_err(io::IntoInnerError::into_error).context("write", &path)?;
        file.sync_all().context("write", &path)?;
        fs::rename(&temporary, &path).context("rename", &temporary)?;
        for part in 1..=self.trace_parts {
            let place = self.partial.join(part_name(TraceRow::NAME, part));
            fs::remove_file(&place).context("remove", &place)?;
        }
        Ok(())
    }

    fn write_final(
        &mut self,
        summary: &Summary,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<(), Error> {
        write_table(&self.partial, &format!("{}.parquet", FlowSample::NAME), flows, Sync::Yes)?;
        write_table(&self.partial, &format!("{}.parquet", LinkSample::NAME), links, Sync::Yes)?;
        write_table(&self.partial, &format!("{}.parquet", Event::NAME), events, Sync::Yes)?;
        self.join_trace()?;
        write_summary(&self.partial, &with_run(summary, &self.id, None), Sync::Yes)?;
        for part in 1..=self.parts {
            for table in [FlowSample::NAME, LinkSample::NAME, Event::NAME] {
                let path = self.partial.join(part_name(table, part));
                match fs::remove_file(&path) {
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).context("remove", &path),
                    _ => {}
                }
            }
        }
        sync_directory(&self.partial)?;
        fs::rename(&self.partial, &self.place).context("rename", &self.partial)?;
        self.place.parent().map_or(Ok(()), sync_directory)
    }

    /// Passes `result` on; where it is an error, the record goes.
    fn remove_unless<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.remove();
        }
        result
    }

    /// Takes away the record and the directories made for it. Best effort: there is nothing to do where it fails.
    fn remove(&mut self) {
        self.closed = true;
        let _ = fs::remove_dir_all(&self.partial);
        remove_empty(&self.made);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let kept = self.flush().and_then(|()| self.flush_trace());
        if kept.is_err() || self.parts == 0 {
            self.remove();
        }
    }
}

/// Whether a file is forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Yes,
    No,
}

/// Makes `dir/.<id>.partial` for an id that nobody has; directories that had to be made above it go to `made`.
fn claim(dir: &Path, id: &str, made: &mut Vec<PathBuf>) -> Result<(String, PathBuf), Error> {
    let mut attempt = 1;
    let mut vanished = 0;
    loop {
        let candidate = if attempt == 1 { id.to_owned() } else { format!("{id}-{attempt}") };
        let partial = dir.join(partial_name(&candidate));
        make_directories(dir, made)?;
        match fs::create_dir(&partial) {
            // Claimed. Somebody may have finished a run of this id before we claimed it.
            Ok(()) if dir.join(&candidate).exists() => {
                fs::remove_dir(&partial).context("remove", &partial)?
            }
            Ok(()) => return Ok((candidate, partial)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            // Another run, aborted, took the empty directory away just now: make it again.
            Err(e) if e.kind() == ErrorKind::NotFound && vanished < VANISHED_MAX => {
                vanished += 1;
                continue;
            }
            Err(e) => return Err(e).context("create", &partial),
        }
        attempt += 1;
    }
}

/// Removes those of `directories` (outermost first) that are empty. One with another run's record in it stays.
fn remove_empty(directories: &[PathBuf]) {
    for dir in directories.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

/// Makes `dir` and what is missing above it, and appends what it made to `made`.
fn make_directories(dir: &Path, made: &mut Vec<PathBuf>) -> Result<(), Error> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_directories(parent, made)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => made.push(dir.to_owned()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(e) => return Err(e).context("create", dir),
    }
    Ok(())
}

pub(crate) fn partial_name(id: &str) -> String {
    format!(".{id}.partial")
}

/// The id of a directory name that [`partial_name`] made.
pub(crate) fn partial_id(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".partial")
}

fn part_name(table: &str, part: u32) -> String {
    format!("{table}.part-{part:04}.parquet")
}

/// `summary` with the run's id set, and its partial mark where one is given.
fn with_run(summary: &Summary, id: &str, partial: Option<bool>) -> Summary {
    let mut summary = summary.clone();
    for run in &mut summary.runs {
        run.id = id.to_owned();
        run.partial = partial.unwrap_or(run.partial);
    }
    summary
}

fn newest<T: Table>(rows: &[T]) -> Option<i64> {
    rows.iter().map(T::time_us).max()
}

fn write_part<T: Table>(dir: &Path, part: u32, rows: &[T]) -> Result<(), Error> {
    if rows.is_empty() { Ok(()) } else { write_table(dir, &part_name(T::NAME, part), rows, Sync::No) }
}

fn write_table<T: Table>(dir: &Path, name: &str, rows: &[T], sync: Sync) -> Result<(), Error> {
    let bytes = encode(rows).map_err(|e| Error::Encode { path: dir.join(name), reason: e.to_string() })?;
    write_file(dir, name, &bytes, sync)
}

fn write_summary(dir: &Path, summary: &Summary, sync: Sync) -> Result<(), Error> {
    let mut json = serde_json::to_string_pretty(summary)
        .map_err(|e| Error::Encode { path: dir.join("summary.json"), reason: e.to_string() })?;
    json.push('\n');
    write_file(dir, "summary.json", json.as_bytes(), sync)
}

/// Writes a file under a temporary name and renames it, so that under its own name it is always whole.
fn write_file(dir: &Path, name: &str, bytes: &[u8], sync: Sync) -> Result<(), Error> {
    let path = dir.join(name);
    let temporary = dir.join(format!("{name}.tmp"));
    let mut file = File::create(&temporary).context("create", &path)?;
    file.write_all(bytes).context("write", &path)?;
    if sync == Sync::Yes {
        file.sync_all().context("write", &path)?;
    }
    fs::rename(&temporary, &path).context("rename", &temporary)
}

fn sync_directory(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|f| f.sync_all()).context("write", dir)
}
