//! Standard output and error, and files: whole texts, and no panic when the reader has gone. Where a log file is asked for both go there.
//!
//! A command that measures or serves calls [`queue`] first: from then on a thread writes, and no reader can block the command.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicBool},
    time::{Duration, Instant},
};

use anyhow::Context;
use serde::Serialize;

use crate::output_queue::OutputQueue;

/// Output that waits for its reader, at most, of a server: older lines matter less than the next test.
const SERVER_QUEUE_BYTES: usize = 4 << 20;
/// The same of a command that ends by itself.
const COMMAND_QUEUE_BYTES: usize = 256 << 20;
/// How long the end of the program waits for a reader that stalls.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Dropped lines are reported at most this often.
const DROPPED_INTERVAL: Duration = Duration::from_secs(10);

/// The queues, where the command has them.
static QUEUES: OnceLock<Queues> = OnceLock::new();

#[derive(Debug)]
struct Queues {
    /// Standard output's queue and its file there.
    out: (Arc<OutputQueue>, usize),
    /// Standard error's.
    notes: (Arc<OutputQueue>, usize),
    /// All of the output is written before the program ends, unless this is set; `None`: a server, which does not wait.
    stop: Option<Arc<AtomicBool>>,
}

/// What is to be done with all that is printed, set once.
static PRINTING: OnceLock<Printing> = OnceLock::new();

#[derive(Debug, Default)]
struct Printing {
    log: Option<File>,
    stamp: Option<String>,
}

/// From now on all goes to `log`, where there is one, and lines of text begin with the time in strftime's form `stamp`. To be
/// called once, before anything is printed.
pub fn redirect(log: Option<File>, stamp: Option<String>) {
    // A second call, which nobody makes, would change nothing.
    let _ = PRINTING.set(Printing { log, stamp });
}

/// How a command's queued output ends.
#[derive(Debug)]
pub enum Finish {
    /// A server stops within a deadline, whatever its readers do.
    AtOnce,
    /// All is written, unless the flag is set.
    UnlessStopped(Arc<AtomicBool>),
}

/// From now on a thread writes what is printed, see [`OutputQueue`]; to be called after [`redirect`].
pub fn queue(finish: Finish) -> anyhow::Result<()> {
    let (limit, stop) = match finish {
        Finish::AtOnce => (SERVER_QUEUE_BYTES, None),
        Finish::UnlessStopped(stop) => (COMMAND_QUEUE_BYTES, Some(stop)),
    };
    let what = "cannot make a thread that writes the output";
    let file = |of: BorrowedFd<'_>| of.try_clone_to_owned().map(File::from);
    let queues = match log() {
        Some(log) => {
            let both = OutputQueue::start(vec![log.try_clone().context(what)?], limit).context(what)?;
            Queues { out: (Arc::clone(&both), 0), notes: (both, 0), stop }
        }
        None => {
            // A closed descriptor: then nothing can be written, and nothing blocks.
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
    // A second call would change nothing.
    let _ = QUEUES.set(queues);
    Ok(())
}

/// One terminal or file has one order.
fn is_same_file(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|m| (m.dev(), m.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

/// Notes how many lines were dropped since the last note; while a reader stalls not more often than each [`DROPPED_INTERVAL`],
/// unless `is_last`.
fn report_dropped_lines(is_last: bool) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Some(Queues { out: (out, _), notes: (notes, _), .. }) = QUEUES.get() else { return };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    // The note must not be dropped as well.
    if notes.is_full() || (!is_last && last.is_some_and(|last| last.elapsed() < DROPPED_INTERVAL)) {
        return;
    }
    let dropped = out.take_dropped_lines() + notes.take_dropped_lines();
    if dropped > 0 {
        *last = Some(Instant::now());
        note(&format!(
            "longfat: {dropped} lines of output were dropped: their reader stalls, or the disk is full"
        ));
    }
}

/// Waits for what is still to be written, within the limits of [`Finish`].
///
/// # Errors
/// Where a command's output could not be written; of a server that is only noted.
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

/// Prints a text, with a line's end after it.
pub fn text(text: &str) -> anyhow::Result<()> {
    let stamped = PRINTING.get().and_then(|printing| printing.stamp.as_deref());
    match stamped.and_then(|format| jiff::fmt::strtime::format(format, &jiff::Zoned::now()).ok()) {
        None => print(text),
        Some(stamp) => {
            let lines = text.trim_end_matches('\n').lines();
            print(&lines.map(|line| format!("{stamp}{line}\n")).collect::<String>())
        }
    }
}

/// Prints one JSON document.
pub fn json(document: &impl Serialize) -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(document)?)
}

fn print(text: &str) -> anyhow::Result<()> {
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

/// Writes a file, over what was there.
pub fn file(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// Tells people something on standard error; where nobody listens any more it is lost.
pub fn note(text: &str) {
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

/// True for the error of writing to a reader that has gone, as in `longfat ls | head`.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
