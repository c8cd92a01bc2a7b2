//! Standard output and error, and files: whole texts, and no panic when the reader has gone. Where a log file is asked for both go there.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
    sync::OnceLock,
};

use anyhow::Context;
use serde::Serialize;

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
