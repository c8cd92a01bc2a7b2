//! Standard output, standard error and files: texts are written whole and without control characters, and a
//! closed reader causes no panic. With a log file, both outputs are written to it.
//!
//! A command that measures or serves calls [`queue()`] first: from then on a thread writes, and a stalled
//! reader cannot block the command.

mod printable;
mod queue;

use std::{
    fs::{self, File},
    io::{self, ErrorKind, IsTerminal, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::Serialize;

pub use self::printable::printable;
use self::{
    printable::{printable_json, printable_with_colours},
    queue::OutputQueue,
};

/// Maximum queued output of a server: old lines matter less than the next test.
const SERVER_QUEUE_BYTES: usize = 4 << 20;
/// Maximum queued output of a command that ends by itself.
const COMMAND_QUEUE_BYTES: usize = 256 << 20;
/// Maximum time for which the program's exit waits for a stalled reader.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum length at which lines of prose are broken, characters; on narrower terminals the terminal itself
/// breaks them.
const MIN_LINE_LENGTH: usize = 30;

/// Dropped lines are reported at most this often.
const DROPPED_INTERVAL: Duration = Duration::from_secs(10);

/// The queues, if the command called [`queue()`].
static QUEUES: OnceLock<Queues> = OnceLock::new();

#[derive(Debug)]
struct Queues {
    /// Standard output's queue and its file index in it.
    out: (Arc<OutputQueue>, usize),
    /// Standard error's.
    notes: (Arc<OutputQueue>, usize),
    /// If set, the program exits without writing all output. `None`: a server, which never waits.
    stop: Option<Arc<AtomicBool>>,
}

/// Whether anything was printed on standard output.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// The destination of output and the prefix of lines, set once.
static PRINTING: OnceLock<Printing> = OnceLock::new();

#[derive(Debug, Default)]
struct Printing {
    log: Option<File>,
    stamp: Option<String>,
}

/// Redirects all output to `log` if given, and begins lines with the time in strftime's format `stamp`. Must
/// be called once, before anything is printed.
pub fn redirect(log: Option<File>, stamp: Option<String>) {
    // A second call would have no effect.
    let _ = PRINTING.set(Printing { log, stamp });
}

/// Maximum time for which the exit of a command waits for its queued output.
#[derive(Debug)]
pub enum Finish {
    /// A server exits within a deadline, even if its readers stall.
    AtOnce,
    /// A command exits after all output is written, unless the flag is set.
    UnlessStopped(Arc<AtomicBool>),
}

/// Starts the output thread (see [`OutputQueue`]). Must be called after [`redirect`].
pub fn queue(finish: Finish) -> anyhow::Result<()> {
    let (limit, stop) = match finish {
        Finish::AtOnce => (SERVER_QUEUE_BYTES, None),
        Finish::UnlessStopped(stop) => (COMMAND_QUEUE_BYTES, Some(stop)),
    };
    let what = "cannot start the output thread";
    let file = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from);
    let queues = match log() {
        Some(log) => {
            let both = OutputQueue::start(vec![log.try_clone().context(what)?], limit).context(what)?;
            Queues { out: (Arc::clone(&both), 0), notes: (both, 0), stop }
        }
        None => {
            // The descriptor is closed: nothing can be written, and nothing blocks.
            let (Ok(out), Ok(notes)) = (file(io::stdout().as_fd()), file(io::stderr().as_fd())) else {
                return Ok(());
            };
            if is_same_file(&out, &notes) {
                let both = OutputQueue::start(vec![out, notes], limit).context(what)?;
                Queues { out: (Arc::clone(&both), 0), notes: (both, 1), stop }
            } else {
                let out = OutputQueue::start(vec![out], limit).context(what)?;
                let notes = OutputQueue::start(vec![notes], limit).context(what)?;
                Queues { out: (out, 0), notes: (notes, 0), stop }
            }
        }
    };
    // A second call would have no effect.
    let _ = QUEUES.set(queues);
    Ok(())
}

/// Output to the same terminal or file shares a queue, to keep its order.
fn is_same_file(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|m| (m.dev(), m.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Prints the number of dropped lines, at most once per [`DROPPED_INTERVAL`] unless `is_last`.
fn report_dropped_lines(is_last: bool) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(Queues { out: (out, _), notes: (notes, _), .. }) = QUEUES.get() else { return };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    // Otherwise this message would be dropped as well.
    if notes.is_full() || (!is_last && last.is_some_and(|last| last.elapsed() < DROPPED_INTERVAL)) {
        return;
    }
    let dropped = out.take_dropped_lines() + notes.take_dropped_lines();
    if dropped > 0 {
        *last = Some(Instant::now());
        note(&format!(
            "longfat: {dropped} lines of output were dropped: the reader stalls, or the disk is full"
        ));
    }
}

/// Waits until the queued output is written, within the limits of [`Finish`].
///
/// # Errors
/// If a command's output could not be written; for a server this is only a message.
pub fn finish() -> anyhow::Result<()> {
    let Some(queues) = QUEUES.get() else { return Ok(()) };
    let failed = queues.out.0.finish(queues.stop.as_deref(), FINISH_TIMEOUT);
    report_dropped_lines(true);
    queues.notes.0.finish(queues.stop.as_deref(), FINISH_TIMEOUT);
    match failed {
        Some(kind) if queues.stop.is_some() && kind != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::from(io::Error::from(kind)).context("cannot write the output"))
        }
        _ => Ok(()),
    }
}

/// The number of characters in a line of the terminal; `None` where standard output is not a terminal.
pub fn width() -> Option<usize> {
    if log().is_some() || !io::stdout().is_terminal() {
        return None;
    }
    columns()
}

/// The width of the terminal of standard error, in characters; `None` if it is not a terminal.
fn error_width() -> Option<usize> {
    if log().is_some() || !io::stderr().is_terminal() {
        return None;
    }
    columns()
}

fn columns() -> Option<usize> {
    let (columns, _) = ratatui::crossterm::terminal::size().ok()?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// The length of lines of prose: at most `max`, less on a narrow terminal.
pub fn line_length(max: usize) -> usize {
    width().map_or(max, |width| width.clamp(MIN_LINE_LENGTH.min(max), max))
}

/// Prints a text and a newline.
pub fn text(text: &str) -> anyhow::Result<()> {
    let text = printable(text);
    let stamped = PRINTING.get().and_then(|printing| printing.stamp.as_deref());
    match stamped.and_then(|format| jiff::fmt::strtime::format(format, &jiff::Zoned::now()).ok()) {
        None => print(&text),
        Some(stamp) => {
            let lines = text.trim_end_matches('\n').lines();
            print(&lines.map(|line| format!("{stamp}{line}\n")).collect::<String>())
        }
    }
}

/// Prints an exported file and a newline: unchanged, except on a terminal.
pub fn document(document: &str) -> anyhow::Result<()> {
    if io::stdout().is_terminal() { text(document) } else { print(document) }
}

/// Prints a text with sentences: on a terminal they are broken at spaces.
pub fn prose(sentences: &str) -> anyhow::Result<()> {
    match width() {
        Some(width) => text(&view::table::wrapped(sentences, width)),
        None => text(sentences),
    }
}

/// Prints one JSON document.
pub fn json(document: &impl Serialize) -> anyhow::Result<()> {
    print(&printable_json(serde_json::to_string_pretty(document)?))
}

/// Whether the command has printed on standard output. An error document would be a second document.
pub fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

fn print(text: &str) -> anyhow::Result<()> {
    HAS_PRINTED.store(true, Ordering::Relaxed);
    let whole = format!("{}\n", text.trim_end_matches('\n'));
    if let Some(Queues { out: (queue, file), .. }) = QUEUES.get() {
        report_dropped_lines(false);
        return Ok(queue.push(*file, whole)?);
    }
    if let Some(mut log) = log() {
        return Ok(log.write_all(whole.as_bytes())?);
    }
    let mut out = io::stdout().lock();
    out.write_all(whole.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes or overwrites a file.
pub fn file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints a message on standard error, broken at spaces if that is a terminal; lost if it is closed.
pub fn note(text: &str) {
    print_note(&printable(text));
}

/// Prints a message as [`note`] does, with its colours.
pub fn coloured_note(text: &str) {
    print_note(&printable_with_colours(text));
}

/// Replaces the last line of standard error, a terminal, as of a display of progress. The text must be
/// [printable()]. Skipped while the terminal is stopped and the queue is full, and with a log file; lost if
/// the terminal is closed.
pub fn rewrite_line(text: &str) {
    if log().is_some() {
        return;
    }
    let line = format!("\r\x1b[K{text}");
    match QUEUES.get() {
        Some(Queues { notes: (queue, _), .. }) if queue.is_full() => {}
        Some(Queues { notes: (queue, file), .. }) => {
            let _ = queue.push(*file, line);
        }
        None => {
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

fn print_note(text: &str) {
    let broken = error_width().map(|width| view::table::wrapped(text, width));
    let text = broken.as_deref().map_or(text, |text| text.trim_end_matches('\n'));
    if let Some(Queues { notes: (queue, file), .. }) = QUEUES.get() {
        let _ = queue.push(*file, format!("{text}\n"));
        return;
    }
    let _ = match log() {
        Some(mut log) => writeln!(log, "{text}"),
        None => writeln!(io::stderr(), "{text}"),
    };
}

fn log() -> Option<&'static File> {
    PRINTING.get()?.log.as_ref()
}

/// True for the error of writing to a closed pipe, as in `longfat ls | head`.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
