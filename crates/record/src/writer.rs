//! Writes a record: in parts during the run, complete at its end, and removed after a failure.
//!
//! During a run, rows are appended as part files (`flows.part-0001.parquet`, each a complete Parquet file) in
//! `runs/<scenario>/.<id>.partial/`. [`Writer::finish`] writes the final files, removes the parts and renames
//! the directory.
//!
//! Traces have many rows and are never held in memory as a whole. Each batch becomes a part, and at the end
//! the parts become row groups of `trace.parquet` in order.
//!
//! Files that remain on disk if a record is not finished:
//!
//! - after an error (a full disk): nothing;
//! - after [`Writer::abort`]: nothing;
//! - dropped without either (a panic, an early return): the partial record where it has any row, else
//!   nothing;
//! - after SIGKILL or a power failure: the partial record as of its last part.
//!
//! Parts are not synced to disk, because a killed process does not lose them; the final files are synced.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use schema::{Event, FlowSample, LinkSample, Summary, TraceRow};

use crate::Error;
use crate::error::Context;
use crate::id::file_name;
use crate::layout::{SCENARIO, SUMMARY, partial_name};
use crate::lock::lock;
use crate::origin::Origin;
use crate::parquet_file::{Encoder, decode, encode};
use crate::table::Table;

/// A part is written once the pending rows span at least this time, and at least the part of the written time
/// that [`PART_DIVISOR`] states.
const MIN_PART_US: i64 = 1_000_000;
/// A part is written once the pending rows span at least the time already written divided by this, so that
/// long runs have few parts.
const PART_DIVISOR: i64 = 10;
/// Number of trace rows in one part.
const TRACE_PART_ROWS: usize = 128 * 1024;
/// A file of the directory of runs: a suffix for the ids of records that are written there. It makes them
/// unique among all writers to the same object store.
pub const ID_SUFFIX_FILE: &str = ".id-suffix";
/// Maximum number of times that another run may remove the scenario's directory while this one starts.
const MAX_VANISHED: u32 = 100;

/// A record being written.
#[derive(Debug)]
pub struct Writer {
    id: String,
    /// The directory in which it is written.
    partial: PathBuf,
    /// The directory of the finished record.
    finished: PathBuf,
    /// Directories above it that this writer created, outermost first.
    created: Vec<PathBuf>,
    summary: Summary,
    /// The columns that identify the run to which the rows belong.
    origin: Origin,
    /// Locks the directory while the record is written, so that `remove` refuses it. The kernel releases the
    /// lock of a killed process.
    _lock: Option<File>,
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
    /// The id gets the suffix in [`ID_SUFFIX_FILE`], if there is one, and `-2` (and so on) if it is taken;
    /// [`Writer::id`] returns the result. `initial` is the summary that remains after a kill; its one run is
    /// marked partial and gets the id.
    ///
    /// # Errors
    /// If a directory or file cannot be written; nothing remains then.
    pub fn create(
        runs_dir: &Path,
        scenario_name: &str,
        id: &str,
        scenario_toml: &str,
        initial: &Summary,
    ) -> Result<Self, Error> {
        let dir = runs_dir.join(file_name(scenario_name));
        let mut created = Vec::new();
        let id = match fs::read_to_string(runs_dir.join(ID_SUFFIX_FILE)) {
            Ok(suffix) => format!("{}-{}", file_name(id), file_name(suffix.trim())),
            Err(_) => file_name(id),
        };
        let (id, partial) = match claim(&dir, &id, &mut created) {
            Ok(claimed) => claimed,
            Err(e) => {
                remove_empty(&created);
                return Err(e);
            }
        };
        let finished = dir.join(&id);
        let lock = lock(&partial);
        let summary = with_run(initial, &id, &partial, Some(true));
        let mut writer = Writer {
            origin: Origin::of(&summary),
            summary,
            _lock: lock,
            id,
            partial,
            finished,
            created,
            pending: Pending::default(),
            parts: 0,
            trace: Vec::new(),
            trace_parts: 0,
            written_until_us: 0,
            newest_us: 0,
            closed: false,
        };
        let written = write_file(&writer.partial, SCENARIO, scenario_toml.as_bytes(), Sync::No)
            .and_then(|()| write_summary(&writer.partial, &writer.summary, Sync::No));
        writer.remove_on_error(written)?;
        Ok(writer)
    }

    /// The record's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The directory in which it is written until it is finished.
    pub fn path(&self) -> &Path {
        &self.partial
    }

    /// Adds rows. They are buffered and written as parts.
    ///
    /// # Errors
    /// If a part cannot be written; the record is removed then.
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
        let pending_us = self.newest_us - self.written_until_us;
        if pending_us < MIN_PART_US.max(self.written_until_us / PART_DIVISOR) {
            return Ok(());
        }
        let flushed = self.flush();
        self.remove_on_error(flushed)
    }

    /// Adds rows of traces.
    ///
    /// # Errors
    /// If a part cannot be written; the record is removed then.
    pub fn append_trace(&mut self, rows: &[TraceRow]) -> Result<(), Error> {
        self.check_open()?;
        self.trace.extend_from_slice(rows);
        if self.trace.len() < TRACE_PART_ROWS {
            return Ok(());
        }
        let flushed = self.flush_trace();
        self.remove_on_error(flushed)
    }

    /// Writes the final files with the run's complete rows and returns the finished record's directory.
    ///
    /// # Errors
    /// If a file cannot be written; the record is removed then.
    pub fn finish(
        mut self,
        summary: &Summary,
        flows: &[FlowSample],
        links: &[LinkSample],
        events: &[Event],
    ) -> Result<PathBuf, Error> {
        self.check_open()?;
        let finished = self.write_final(summary, flows, links, events);
        self.remove_on_error(finished)?;
        self.closed = true;
        Ok(self.finished.clone())
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
        write_part(&self.partial, &self.origin, self.parts, &self.pending.flows)?;
        write_part(&self.partial, &self.origin, self.parts, &self.pending.links)?;
        write_part(&self.partial, &self.origin, self.parts, &self.pending.events)?;
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
            write_part(&self.partial, &self.origin, self.trace_parts, &self.trace)?;
            self.trace.clear();
        }
        Ok(())
    }

    /// Joins the trace's parts into one file, with one part in memory at a time.
    fn join_trace(&mut self) -> Result<(), Error> {
        self.flush_trace()?;
        if self.trace_parts == 0 {
            return Ok(());
        }
        let path = self.partial.join(format!("{}.parquet", TraceRow::NAME));
        let temporary = self.partial.join(format!("{}.parquet.tmp", TraceRow::NAME));
        let failed = |reason: String| Error::Encode { path: path.clone(), reason };
        let file = File::create(&temporary).context("create", &path)?;
        let mut encoder = Encoder::<TraceRow, _>::new(BufWriter::new(file), &self.origin)
            .map_err(|e| failed(e.to_string()))?;
        for part in 1..=self.trace_parts {
            let path = self.partial.join(part_name(TraceRow::NAME, part));
            let rows = decode(File::open(&path).context("read", &path)?)
                .map_err(|reason| Error::Parquet { path: path.clone(), reason })?;
            encoder.add(&rows).map_err(|e| failed(e.to_string()))?;
        }
        let written = encoder.finish().map_err(|e| failed(e.to_string()))?;
        let file = written.into_inner().map_err(io::IntoInnerError::into_error).context("write", &path)?;
        file.sync_all().context("write", &path)?;
        fs::rename(&temporary, &path).context("rename", &temporary)?;
        for part in 1..=self.trace_parts {
            let path = self.partial.join(part_name(TraceRow::NAME, part));
            fs::remove_file(&path).context("remove", &path)?;
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
        let summary = with_run(summary, &self.id, &self.finished, None);
        // The kernel of a run may be known only at its end.
        self.origin = Origin::of(&summary);
        let origin = &self.origin;
        write_table(&self.partial, FlowSample::NAME, flows, origin, Sync::Yes)?;
        write_table(&self.partial, LinkSample::NAME, links, origin, Sync::Yes)?;
        write_table(&self.partial, Event::NAME, events, origin, Sync::Yes)?;
        self.join_trace()?;
        write_summary(&self.partial, &summary, Sync::Yes)?;
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
        fs::rename(&self.partial, &self.finished).context("rename", &self.partial)?;
        self.finished.parent().map_or(Ok(()), sync_directory)
    }

    /// Returns `result`, and removes the record where it is an error.
    fn remove_on_error<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.is_err() {
            self.remove();
        }
        result
    }

    /// Removes the record and the directories created for it. Failures are ignored, because nothing could be
    /// done about them.
    fn remove(&mut self) {
        self.closed = true;
        let _ = fs::remove_dir_all(&self.partial);
        remove_empty(&self.created);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let kept = self.flush().and_then(|()| self.flush_trace());
        if kept.is_err() || (self.parts == 0 && self.trace_parts == 0) {
            self.remove();
        }
    }
}

/// Whether a file is synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sync {
    Yes,
    No,
}

/// Creates `dir/.<id>.partial` for an unused id, and appends the directories created above it to `created`.
fn claim(dir: &Path, id: &str, created: &mut Vec<PathBuf>) -> Result<(String, PathBuf), Error> {
    let mut attempt = 1;
    let mut vanished = 0;
    loop {
        let candidate = if attempt == 1 { id.to_owned() } else { format!("{id}-{attempt}") };
        let partial = dir.join(partial_name(&candidate));
        create_directories(dir, created)?;
        match fs::create_dir(&partial) {
            // Claimed, but another run with this id may have finished just before.
            Ok(()) if dir.join(&candidate).exists() => {
                fs::remove_dir(&partial).context("remove", &partial)?
            }
            Ok(()) => return Ok((candidate, partial)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            // An aborted run has just removed the empty parent directory: create it again.
            Err(e) if e.kind() == ErrorKind::NotFound && vanished < MAX_VANISHED => {
                vanished += 1;
                continue;
            }
            Err(e) => return Err(e).context("create", &partial),
        }
        attempt += 1;
    }
}

/// Removes those of `directories` (outermost first) that are empty; a directory with another run's record is
/// not.
pub(crate) fn remove_empty(directories: &[PathBuf]) {
    for dir in directories.iter().rev() {
        let _ = fs::remove_dir(dir);
    }
}

/// Creates `dir` and its missing parents, and appends those created to `created`.
pub(crate) fn create_directories(dir: &Path, created: &mut Vec<PathBuf>) -> Result<(), Error> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        create_directories(parent, created)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => created.push(dir.to_owned()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(e) => return Err(e).context("create", dir),
    }
    Ok(())
}

fn part_name(table: &str, part: u32) -> String {
    format!("{table}.part-{part:04}.parquet")
}

/// `summary` with the run's id and record set, and its partial mark where `partial` is given.
fn with_run(summary: &Summary, id: &str, record: &Path, partial: Option<bool>) -> Summary {
    let mut summary = summary.clone();
    for run in &mut summary.runs {
        run.id = id.to_owned();
        run.record = Some(record.display().to_string());
        run.partial = partial.unwrap_or(run.partial);
    }
    summary
}

fn newest<T: Table>(rows: &[T]) -> Option<i64> {
    rows.iter().map(T::time_us).max()
}

fn write_part<T: Table>(dir: &Path, origin: &Origin, part: u32, rows: &[T]) -> Result<(), Error> {
    let name = part_name(T::NAME, part);
    let stem = name.trim_end_matches(".parquet");
    if rows.is_empty() { Ok(()) } else { write_table(dir, stem, rows, origin, Sync::No) }
}

fn write_table<T: Table>(
    dir: &Path,
    stem: &str,
    rows: &[T],
    origin: &Origin,
    sync: Sync,
) -> Result<(), Error> {
    let name = format!("{stem}.parquet");
    let encoded = encode(rows, origin);
    let bytes = encoded.map_err(|e| Error::Encode { path: dir.join(&name), reason: e.to_string() })?;
    write_file(dir, &name, &bytes, sync)
}

fn write_summary(dir: &Path, summary: &Summary, sync: Sync) -> Result<(), Error> {
    let mut json = serde_json::to_string_pretty(summary)
        .map_err(|e| Error::Encode { path: dir.join(SUMMARY), reason: e.to_string() })?;
    json.push('\n');
    write_file(dir, SUMMARY, json.as_bytes(), sync)
}

/// Writes a file under a temporary name and renames it, so that a reader never finds an incomplete file.
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
