//! iperf3's options of a program that nobody watches: log file, time stamps, process number, and a server in the background.

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

/// Where the form of time stamps is not said (iperf3's).
const STAMP: &str = "%c ";
/// What %c is in C's locale.
const DATE_AND_TIME: &str = "%a %b %e %H:%M:%S %Y";
/// Tells a server that it is the one in the background.
const IN_BACKGROUND: &str = "LONGFAT_IN_BACKGROUND";
/// What that says once it serves.
const READY: &str = "ready";

/// Where what is printed goes, and who may find us.
#[derive(Debug, Args)]
pub struct UnattendedArgs {
    /// Append what would be printed to this file
    #[arg(long, value_name = "FILE", help_heading = "Reports")]
    logfile: Option<PathBuf>,
    /// Begin each line with the time, in strftime's form
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = STAMP, help_heading = "Reports")]
    timestamps: Option<String>,
    /// Write our process number into this file while we run
    #[arg(short = 'I', long, value_name = "FILE", help_heading = "Reports")]
    pidfile: Option<PathBuf>,
    /// Does nothing: each line is written at once
    #[arg(long, hide = true)]
    forceflush: bool,
}

impl UnattendedArgs {
    /// From now on all is printed as asked; `is_text`: lines may get time stamps. What it returns removes the file with our
    /// process number when it goes.
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

    /// Where our process number is written.
    pub fn pidfile(&self) -> Option<&Path> {
        self.pidfile.as_deref()
    }
}

fn append(path: &Path) -> anyhow::Result<File> {
    // Opened for reading as well, a FIFO without a reader does not block (fifo(7)).
    let is_fifo = fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    let file = File::options().create(!is_fifo).read(is_fifo).append(true).open(path);
    file.with_context(|| format!("cannot open the log file {}", path.display()))
}

/// A file with our process number, as long as this lives.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    fn write(path: &Path) -> anyhow::Result<PidFile> {
        fs::write(path, format!("{}\n", std::process::id()))
            .with_context(|| format!("cannot write our process number into {}", path.display()))?;
        Ok(PidFile(path.into()))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Who removed it before has done our work.
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs this very command line again in the background, and returns when that serves: true. False where we are that one.
///
/// # Errors
/// Where it ended without serving; it has said why itself.
pub fn to_background() -> anyhow::Result<bool> {
    if std::env::var_os(IN_BACKGROUND).is_some() {
        return Ok(false);
    }
    let mut command = Command::new(std::env::current_exe().context("cannot find our own program")?);
    command.args(std::env::args_os().skip(1)).env(IN_BACKGROUND, "1");
    // A group of its own: what ends ours, as Ctrl-C does, does not end it.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().context("cannot start a server in the background")?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut line = String::new();
    if let Some(stdout) = stdout {
        BufReader::new(stdout).read_line(&mut line).context("cannot hear of the server in the background")?;
    }
    if line.trim_end() == READY {
        return Ok(true);
    }
    if let Some(mut stderr) = stderr {
        // What cannot be told is told by the exit code.
        let _ = io::copy(&mut stderr, &mut io::stderr());
    }
    let status = child.wait().context("cannot wait for the server in the background")?;
    Err(Exit::Child(status.code().unwrap_or(1)).into())
}

/// Tells whoever waits for us in [`to_background`] that we serve.
pub fn is_serving() {
    if std::env::var_os(IN_BACKGROUND).is_some() {
        // It may have gone.
        let _ = writeln!(io::stdout(), "{READY}");
    }
}
