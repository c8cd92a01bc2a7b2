//! Mininet's Python programs as scenarios: python3 runs the program with `stand_in.py` in place of Mininet,
//! which records the network that the program builds and writes it as MiniEdit would save it.
//!
//! The program's own code runs as this user. The stand-in does not execute commands for nodes, starts no
//! programs and skips sleeps; it is not a sandbox. Time and the size of files and memory are limited.

use std::{
    fs, io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use scenario::{Imported, import_mn};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, Result};

const STAND_IN: &str = include_str!("stand_in.py");
/// Maximum time for which a program may run. Building a network takes milliseconds, and sleeps are skipped.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Interval of checks whether it has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The document that `stand_in.py` writes.
#[derive(Deserialize)]
struct Found {
    mn: Option<Value>,
    error: Option<String>,
    notes: Vec<String>,
}

/// Executes a Mininet program with python3 and converts the network that it builds to a scenario. `topology`
/// chooses a topology by its name in `topos` or by its class, with arguments as `mn --topo` takes them
/// (`tree,depth=2`).
///
/// # Errors
/// [`Error::Missing`] without python3; [`Error::BadInput`] if the program fails, does not end in time or
/// builds no network.
pub fn read_program(file: &Path, topology: Option<&str>) -> Result<Imported> {
    let bad = |why: String| Error::BadInput(format!("{}: {why}", file.display()));
    let program = fs::canonicalize(file)
        .map_err(|e| Error::BadInput(format!("cannot read {}: {e}", file.display())))?;
    let directory =
        TemporaryDirectory::new().map_err(|e| Error::Failed(format!("cannot create a directory: {e}")))?;
    let (stand_in, result) = (directory.0.join("stand_in.py"), directory.0.join("result.json"));
    fs::write(&stand_in, STAND_IN)
        .map_err(|e| Error::Failed(format!("cannot write {}: {e}", stand_in.display())))?;
    let mut command = Command::new("python3");
    command.arg("-B").arg(&stand_in).arg(&program).arg(&result).arg(topology.unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::Missing("python3 is not installed; it runs the Mininet program".into())
        }
        _ => Error::Failed(format!("cannot start python3: {e}")),
    })?;
    wait(child).map_err(bad)?;
    let text = fs::read_to_string(&result)
        .map_err(|_| bad("the program ended python3 before it had built a network".into()))?;
    let found: Found =
        serde_json::from_str(&text).map_err(|e| bad(format!("its network is not readable: {e}")))?;
    let mn = found.mn.ok_or_else(|| bad(found.error.unwrap_or_default()))?;
    let name = file.file_stem().map_or("topology".into(), |stem| stem.to_string_lossy());
    let imported = import_mn(&mn.to_string(), &name).map_err(|e| bad(e.to_string()))?;
    let source = file.file_name().unwrap_or_default().to_string_lossy();
    let toml =
        imported.toml.replacen("Imported from MiniEdit.", &format!("Imported from Mininet ({source:?})."), 1);
    Ok(Imported { toml, notes: found.notes.into_iter().chain(imported.notes).collect() })
}

/// Waits for the end of the program, and kills it after [`TIMEOUT`].
fn wait(mut child: Child) -> std::result::Result<(), String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if started.elapsed() < TIMEOUT => std::thread::sleep(POLL_INTERVAL),
            Ok(None) => {
                // The stand-in lets the program start no other process.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the program did not end within {} s", TIMEOUT.as_secs()));
            }
            Err(e) => return Err(format!("cannot wait for python3: {e}")),
        }
    }
}

/// A directory that is removed when dropped.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        for number in 0..u32::MAX {
            let name = format!("longfat-mininet-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(TemporaryDirectory(path)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
