//! Standard output and error: whole texts, and no panic when the reader has gone.

use std::io::{self, Write};

use serde::Serialize;

/// Prints a text, with a line's end after it.
pub fn text(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.trim_end_matches('\n').as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints one JSON document.
pub fn json(document: &impl Serialize) -> anyhow::Result<()> {
    text(&serde_json::to_string_pretty(document)?)
}

/// Tells people something on standard error; where nobody listens any more it is lost.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// True for the error of writing to a reader that has gone, as in `longfat ls | head`.
pub fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
