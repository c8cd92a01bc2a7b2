//! Runs the programs of a build: their output goes to a log, they are killed when the build is stopped, and
//! they end with this process, however it ends.
//!
//! A program and all its children are one process group. A watcher, a shell in another group, waits on a pipe
//! that this process holds: when the pipe closes, because the build is stopped or this process was killed,
//! the shell kills the group. The watcher's name is not `longfat`, so `killall -9 longfat` does not kill it.

use std::{
    env,
    fs::{self, File},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Result, error::Attempted, sys};

/// Interval at which a running program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of output lines that an error quotes.
const MAX_ERROR_LINES: usize = 10;
/// Maximum number of output bytes, from the end, that are searched for these lines.
const MAX_ERROR_BYTES: u64 = 256 << 10;
/// Texts that mark a line as the cause of a failure, in the output of gcc, ld, make, kconfig, apt and tar.
const ERROR_MARKS: [&str; 7] =
    ["error:", "Error ", "*** ", "E: ", "undefined reference", "No space left", "annot "];
/// The script of the watcher. The first line that it reads is the group's id; its second `read` returns when
/// the pipe closes.
const WATCHER_SCRIPT: &str =
    r#"trap "" INT TERM HUP; read -r group || exit 0; read -r never; kill -KILL "-$group""#;
/// Environment variables that programs inherit. Others, such as those of make, kbuild and the compiler, could
/// change the result.
const INHERITED_VARIABLES: [&str; 10] = [
    "PATH",
    "HOME",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "LD_LIBRARY_PATH",
];

/// Runs programs one after another.
pub(crate) struct Runner<'a> {
    log: File,
    log_path: PathBuf,
    temporary: PathBuf,
    stop: &'a AtomicBool,
}

impl<'a> Runner<'a> {
    /// Programs write their output to the file `log`, and temporary files to `temporary`. When `stop` is set,
    /// the running program is killed.
    pub(crate) fn new(log: PathBuf, temporary: PathBuf, stop: &'a AtomicBool) -> Result<Self> {
        let open = || File::options().append(true).create(true).open(&log);
        Ok(Runner {
            log: open().attempted(|| format!("write {}", log.display()))?,
            log_path: log,
            temporary,
            stop,
        })
    }

    /// A command that runs the program `name`, with the environment that all programs get.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.env_clear().env("LC_ALL", "C").env("TMPDIR", &self.temporary);
        for name in INHERITED_VARIABLES {
            if let Some(value) = env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// If the program fails; `what` describes its purpose in the error.
    pub(crate) fn run(&mut self, what: &str, command: Command) -> Result<()> {
        self.run_watched(what, command, |_| {})
    }

    /// Like [`Self::run`]. `on_output` gets the complete lines that the program has written since the last
    /// call, often none.
    ///
    /// # Errors
    /// If the program fails.
    pub(crate) fn run_watched(
        &mut self,
        what: &str,
        mut command: Command,
        on_output: impl FnMut(&str),
    ) -> Result<()> {
        let out = self.log.try_clone().attempted(|| "copy a descriptor".into())?;
        command.stdout(out);
        self.run_to_log(what, command, None, on_output)
    }

    /// Runs a program to its end and returns its standard output.
    ///
    /// # Errors
    /// If the program fails, or takes longer than `limit`.
    pub(crate) fn output(
        &mut self,
        what: &str,
        mut command: Command,
        limit: Option<Duration>,
    ) -> Result<String> {
        let path = self.temporary.join("output");
        let file = File::create(&path).attempted(|| format!("write {}", path.display()))?;
        command.stdout(file);
        self.run_to_log(what, command, limit, |_| {})?;
        let bytes = fs::read(&path).attempted(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn run_to_log(
        &mut self,
        what: &str,
        mut command: Command,
        limit: Option<Duration>,
        mut on_output: impl FnMut(&str),
    ) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let writing = || format!("write {}", self.log_path.display());
        writeln!(self.log, "$ {}", command_line(&command)).attempted(writing)?;
        let start = self.log.seek(SeekFrom::End(0)).attempted(writing)?;
        let errors = self.log.try_clone().attempted(|| "copy a descriptor".into())?;
        command.stdin(Stdio::null()).stderr(errors);
        let mut output = Lines::new(&self.log_path, start)?;
        let started = Instant::now();
        let mut running = Running::start(command)?;
        let status = loop {
            let ended = running.poll()?;
            on_output(&output.read()?);
            match ended {
                Some(status) => break status,
                None if self.stop.load(Ordering::Relaxed) => return Err(Error::Interrupted),
                None if limit.is_some_and(|limit| started.elapsed() > limit) => {
                    let lines =
                        vec![format!("{program} did not end within {} s", started.elapsed().as_secs())];
                    return Err(self.failed(what, lines));
                }
                None => thread::sleep(POLL_INTERVAL),
            }
        };
        if status.success() {
            return Ok(());
        }
        let mut lines = error_lines(&self.log_path, start);
        if lines.is_empty() {
            lines.push(format!("{program} ended with {status}"));
        }
        Err(self.failed(what, lines))
    }

    fn failed(&self, what: &str, lines: Vec<String>) -> Error {
        Error::Failed { what: what.into(), lines, log: self.log_path.clone() }
    }
}

/// A running program; when dropped, it is killed with all its children.
struct Running {
    program: Child,
    /// `None` after the program has ended.
    watcher: Option<Child>,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let mut watch = Command::new("/bin/sh");
        watch.args(["-c", WATCHER_SCRIPT]).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut watcher =
            watch.stderr(Stdio::null()).process_group(0).spawn().attempted(|| "run /bin/sh".into())?;
        command.process_group(0);
        // Needed until the shell has the group's id.
        sys::kill_with_parent(&mut command);
        let name = command.get_program().to_string_lossy().into_owned();
        let program = match command.spawn() {
            Ok(program) => program,
            Err(source) => {
                let _ = watcher.kill();
                let _ = watcher.wait();
                return Err(Error::Os { what: format!("run {name}"), source });
            }
        };
        let sent = watcher.stdin.as_mut().map(|pipe| writeln!(pipe, "{}", program.id()));
        let running = Running { program, watcher: Some(watcher) };
        sent.transpose().attempted(|| "write to the shell that watches this program".into())?;
        Ok(running)
    }

    /// The program's exit status, if it has ended.
    fn poll(&mut self) -> Result<Option<ExitStatus>> {
        let Some(status) = self.program.try_wait().attempted(|| "wait for a program".into())? else {
            return Ok(None);
        };
        // The group's id may be reused from now on.
        if let Some(mut watcher) = self.watcher.take() {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
        Ok(Some(status))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            // The pipe closes, and the shell kills the group.
            drop(watcher.stdin.take());
            let _ = watcher.wait();
            let _ = self.program.kill();
            let _ = self.program.wait();
        }
    }
}

/// Reads the lines of a file that is being written.
struct Lines {
    file: File,
    /// The beginning of a line that is not yet complete.
    incomplete: Vec<u8>,
}

impl Lines {
    fn new(path: &Path, start: u64) -> Result<Self> {
        let open = || {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(start))?;
            Ok(file)
        };
        Ok(Lines { file: open().attempted(|| format!("read {}", path.display()))?, incomplete: Vec::new() })
    }

    /// Complete lines since the last call.
    fn read(&mut self) -> Result<String> {
        self.file.read_to_end(&mut self.incomplete).attempted(|| "read the build's log".into())?;
        let end = self.incomplete.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let complete: Vec<u8> = self.incomplete.drain(..end).collect();
        Ok(String::from_utf8_lossy(&complete).into_owned())
    }
}

/// The command line of a command, for the log.
fn command_line(command: &Command) -> String {
    let arguments = std::iter::once(command.get_program()).chain(command.get_args());
    arguments.map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// The lines of a log after offset `start` that give the cause of a failure; if there are none, the last
/// lines.
fn error_lines(log: &Path, start: u64) -> Vec<String> {
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(MAX_ERROR_BYTES))))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let marked: Vec<&str> =
        lines.iter().copied().filter(|line| ERROR_MARKS.iter().any(|mark| line.contains(mark))).collect();
    let chosen = if marked.is_empty() { lines } else { marked };
    chosen[chosen.len().saturating_sub(MAX_ERROR_LINES)..].iter().map(|line| (*line).to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(runner: &Runner<'_>, script: &str) -> Command {
        let mut command = runner.program("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_returned_and_errors_quote_it() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut runner = Runner::new(dir.path().join("log"), dir.path().into(), &stop).unwrap();
        let mut seen = String::new();
        let command = shell(&runner, "echo one; sleep 0.2; printf tw; sleep 0.2; echo o; printf half");
        runner.run_watched("counting", command, |text| seen += text).unwrap();
        assert_eq!(seen, "one\ntwo\n");
        let command = shell(&runner, "echo $TMPDIR$MAKEFLAGS; echo hidden >&2");
        let output = runner.output("printing", command, None).unwrap();
        assert_eq!(output, format!("{}\n", dir.path().display()));
        let command = shell(&runner, "echo fine; echo 'a.c:1: error: bad'; echo more; exit 3");
        let error = runner.run("compiling", command).unwrap_err().to_string();
        assert!(error.starts_with("compiling failed:\na.c:1: error: bad\nthe complete log is "), "{error}");
        let command = shell(&runner, "exit 3");
        let error = runner.run("compiling", command).unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        let command = shell(&runner, "sleep 60");
        let limit = Some(Duration::from_millis(200));
        assert!(
            runner.output("waiting", command, limit).unwrap_err().to_string().contains("did not end within")
        );
        let missing = runner.program("no-such-program");
        assert!(runner.run("x", missing).unwrap_err().to_string().contains("cannot run no-such-program"));
        assert!(fs::read_to_string(dir.path().join("log")).unwrap().contains("$ sh -c exit 3\n"));
    }

    #[test]
    fn a_stopped_program_ends_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let mut runner = Runner::new(dir.path().join("log"), dir.path().into(), &stop).unwrap();
        let command = shell(&runner, "sh -c 'echo $$; sleep 60; echo $$' & echo $$; wait");
        let mut processes = Vec::new();
        let result = runner.run_watched("sleeping", command, |text| {
            processes.extend(text.lines().map(String::from));
            stop.store(processes.len() == 2, Ordering::Relaxed);
        });
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        let deadline = Instant::now() + Duration::from_secs(5);
        for process in processes {
            let status = || fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            // A zombie has ended, although it is not reaped yet.
            while !status().is_empty() && !status().contains(") Z ") {
                assert!(Instant::now() < deadline, "process {process} still runs");
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
}
