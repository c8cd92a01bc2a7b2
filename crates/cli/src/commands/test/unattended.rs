//! iperf3's options for unattended use: log file, timestamps, pid file, and a server in the background.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::{fs::FileTypeExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::Context;
use clap::Args;

use crate::{exit::Exit, output};

/// Default format of timestamps (as in iperf3).
const DEFAULT_TIMESTAMP: &str = "%c ";
/// %c in the C locale.
const DATE_AND_TIME: &str = "%a %b %e %H:%M:%S %Y";
/// Environment variable that marks the background process.
const IN_BACKGROUND: &str = "LONGFAT_IN_BACKGROUND";
/// The line that the background process prints when it serves.
const READY: &str = "ready";

/// Options for unattended use.
#[derive(Debug, Args)]
pub struct UnattendedArgs {
    /// Append output to this file instead of printing it
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    logfile: Option<PathBuf>,
    /// Begin each line with the time, in strftime's format
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = DEFAULT_TIMESTAMP, help_heading = "Reports")]
    timestamps: Option<String>,
    /// Write the process id to this file
    #[arg(short = 'I', long, value_name = "FILE", help_heading = "Reports")]
    pidfile: Option<PathBuf>,
    /// Ignored: each line is always written at once
    #[arg(long, hide = true)]
    forceflush: bool,
}

impl UnattendedArgs {
    /// Applies the options; `is_text`: lines may have timestamps. The returned value removes the pid file
    /// when it is dropped.
    pub fn apply(&self, is_text: bool) -> anyhow::Result<Option<PidFile>> {
        let stamp = self.timestamps.as_ref().map(|format| format.replace("%c", DATE_AND_TIME));
        if let Some(format) = &stamp {
            jiff::fmt::strtime::format(format, &jiff::Zoned::now())
                .map_err(|error| Exit::BadInput(format!("--timestamps={format}: {error}")))?;
        }
        let log = self.logfile.as_deref().map(append).transpose()?;
        output::redirect(log, stamp.filter(|_| is_text));
        self.pidfile.as_deref().map(PidFile::write).transpose()
    }

    /// The path of the pid file.
    pub fn pidfile(&self) -> Option<&Path> {
        self.pidfile.as_deref()
    }
}

fn append(path: &Path) -> anyhow::Result<File> {
    // Opened for reading as well: then a FIFO without a reader does not block (fifo(7)).
    let is_fifo = fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    let file = File::options().create(!is_fifo).read(is_fifo).append(true).open(path);
    file.with_context(|| format!("cannot open the log file {}", path.display()))
}

/// A pid file, removed when this is dropped.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &Path) -> anyhow::Result<PidFile> {
        fs::write(path, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write the process id to {}", path.display()))?;
        Ok(PidFile(path.into()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // It may have been removed already.
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs this command line again in the background. Returns true when that process serves, false in the
/// background process itself.
///
/// # Errors
/// If the background process ended without serving; it has printed the reason.
pub fn to_background() -> anyhow::Result<bool> {
    if std::env::var_os(IN_BACKGROUND).is_some() {
        return Ok(false);
    }
    let mut command = Command::new(std::env::current_exe().context("cannot find the path of this program")?);
    command.args(std::env::args_os().skip(1)).env(IN_BACKGROUND, "1");
    // A separate process group: Ctrl-C on this terminal does not end it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start a server in the background")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut line = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout).read_line(&mut line).context("cannot read from the background server")?;
    }
    if line.trim_end() == READY {
        return Ok(true);
    }
    if let Some(mut stderr) = stderr {
        // If its message cannot be read, the exit code remains.
        let _ = io::copy(&mut stderr, &mut io::stderr());
    }
    let status = child.wait().context("cannot wait for the background server")?;
    Err(Exit::Child(status.code().unwrap_or(1)).into())
}

/// Notifies the process that waits in [`to_background`].
pub fn is_serving() {
    if std::env::var_os(IN_BACKGROUND).is_some() {
        // That process may have ended.
        let _ = writeln!(io::stdout(), "{READY}");
    }
}
