//! Boots a guest and reads its console, until it ends or is killed.

use std::{
    ffi::{OsStr, OsString},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use crate::{Error, error::Attempted, memory_dir, sys};

/// Start of virtual time, the same in every run: 2020-01-01 UTC, nanoseconds since 1970.
const START_NS: u64 = 1_577_836_800_000_000_000;
/// The shared directory's path for the guest's hostfs mount: the kernel's process opens it, so this is its
/// working directory.
pub const SHARED_DIR: &str = "/proc/self/cwd";
/// Maximum wait for a line of the console.
const LINE_TIMEOUT: Duration = Duration::from_millis(100);

/// A guest to boot.
#[derive(Debug)]
pub struct Guest<'a> {
    /// The kernel: a UML executable.
    pub kernel: &'a Path,
    /// The guest's memory, bytes. This machine's memory is used only for pages that the guest has touched.
    pub memory: u64,
    /// A directory that the guest may write to; the kernel also puts its pid file and console socket there.
    /// The kernel mixes its command line into its random numbers, so the command line contains
    /// [`SHARED_DIR`], which is the same in every run, instead of this path.
    pub shared: &'a Path,
    /// The program of its first process; the guest sees this machine's files read-only, at the same paths.
    pub init: &'a Path,
    /// The arguments of its first process. UML adds the argument `console=tty0`.
    pub arguments: &'a [OsString],
}

/// Output on a guest's console: messages of its kernel. The guest's programs do not write to the console: the
/// interrupt after
/// a write occurs at a different instant in every run, and the kernel mixes that into its random numbers.
#[derive(Debug, PartialEq, Eq)]
pub enum ConsoleOutput {
    /// A line of the console.
    Text(String),
    /// No output for a tenth of a second.
    Silence,
    /// The guest has ended.
    End,
}

/// A running guest. It is killed when this value is dropped.
#[derive(Debug)]
pub struct RunningGuest {
    child: Child,
    lines: Receiver<String>,
}

impl Guest<'_> {
    /// Starts the kernel in virtual time. The kernel and its helper processes end with this thread at the
    /// latest.
    ///
    /// # Errors
    /// If the kernel cannot be started, or no directory can hold its memory.
    pub fn boot(&self) -> Result<RunningGuest, Error> {
        let mut command = Command::new(self.kernel);
        command
            .arg(format!("mem={}M", self.memory >> 20))
            .args(["root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .arg(parameter("init=", self.init.as_os_str())?)
            .args(["con=null", "con0=null,fd:1", "quiet", "panic=-1"])
            // From 6.16 on UML handles system calls without ptrace if the machine allows it; older kernels
            // ignore this.
            .arg("seccomp=auto")
            .args(["time-travel=inf-cpu".into(), format!("time-travel-start={START_NS}")])
            .args(["uml_dir=uml", "umid=guest"])
            .arg("--");
        for argument in self.arguments {
            command.arg(parameter("", argument)?);
        }
        command
            .current_dir(self.shared)
            .env_clear()
            .env("TMPDIR", memory_dir::choose(self.memory)?)
            .env("HOME", "/tmp")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        sys::prepare_kernel(&mut command);
        tracing::info!(?command, "boots");
        let what = || format!("start the guest kernel {}", self.kernel.display());
        let mut child = command.spawn().attempted(what)?;
        let output = child.stdout.take().map(BufReader::new);
        let (sender, lines) = channel();
        let reading = std::thread::Builder::new().name("guest console".into()).spawn(move || {
            let Some(mut output) = output else { return };
            let mut line = Vec::new();
            while output.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_string();
                tracing::trace!(text, "console");
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let running = RunningGuest { child, lines };
        reading.attempted(what)?;
        Ok(running)
    }
}

impl RunningGuest {
    /// The next line of the console.
    pub fn next_line(&mut self) -> ConsoleOutput {
        match self.lines.recv_timeout(LINE_TIMEOUT) {
            Ok(text) => ConsoleOutput::Text(text),
            Err(RecvTimeoutError::Timeout) => ConsoleOutput::Silence,
            Err(RecvTimeoutError::Disconnected) => ConsoleOutput::End,
        }
    }

    /// Processor time of the guest's kernel. The guest's programs run in other processes, which are not
    /// included.
    pub fn processor_time(&self) -> Duration {
        sys::processor_time(self.child.id())
    }
}

impl Drop for RunningGuest {
    fn drop(&mut self) {
        // The helper processes are in its process group.
        sys::kill_group(self.child.id());
        let _ = self.child.wait();
    }
}

/// A parameter for the kernel's command line, in quotation marks: the kernel separates parameters at each
/// byte that is a space in Latin-1 (`isspace`, lib/ctype.c), and the byte 0xA0 is part of many characters of
/// UTF-8, such as "à".
fn parameter(name: &str, value: &OsStr) -> Result<OsString, Error> {
    if value.as_encoded_bytes().iter().any(|byte| [b'"', b'\n'].contains(byte)) {
        return Err(Error::Path(PathBuf::from(value)));
    }
    let mut parameter = OsString::from(format!("{name}\""));
    parameter.push(value);
    parameter.push("\"");
    Ok(parameter)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of a command line, as the kernel separates them (`next_arg`, lib/cmdline.c).
    fn separated(line: &[u8]) -> Vec<Vec<u8>> {
        let is_space = |byte: u8| matches!(byte, 9..=13 | b' ' | 0xa0);
        let (mut parameters, mut is_quoted) = (vec![Vec::new()], false);
        for byte in line {
            match byte {
                b'"' => is_quoted = !is_quoted,
                byte if is_space(*byte) && !is_quoted => parameters.push(Vec::new()),
                byte => parameters.last_mut().unwrap().push(*byte),
            }
        }
        parameters
    }

    #[test]
    fn the_kernel_parses_each_quoted_parameter_as_one() {
        for path in ["/bin/true", "/a b/true", "/home/\u{e0} la carte/\u{420}/longfat", "/tab\there", ""] {
            let [init, argument] = ["init=", ""].map(|name| parameter(name, path.as_ref()).unwrap());
            let line = [init.as_encoded_bytes(), argument.as_encoded_bytes()].join(&b' ');
            assert_eq!(separated(&line), [format!("init={path}").into_bytes(), path.as_bytes().to_vec()]);
        }
        assert!(parameter("", "/a\"b".as_ref()).is_err());
        assert!(parameter("", "/a\nb".as_ref()).is_err());
    }

    #[test]
    fn a_program_that_is_not_a_kernel_is_reported_as_ended() {
        let guest = Guest {
            kernel: Path::new("/bin/true"),
            memory: 1 << 20,
            shared: Path::new("/"),
            init: Path::new("/bin/true"),
            arguments: &[],
        };
        assert_eq!(guest.boot().unwrap().next_line(), ConsoleOutput::End);
        let missing = Guest { kernel: Path::new("/nonexistent/linux"), ..guest };
        assert!(missing.boot().unwrap_err().to_string().contains("/nonexistent/linux"));
    }
}
