//! Helpers of the end-to-end tests: the binary, scenarios, and a limit on concurrent labs.
#![allow(dead_code, reason = "each test file uses only some of the helpers")]

pub mod iperf3;
pub mod lab;
pub mod lab_slots;
pub mod terminal;

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::LazyLock,
};

use tempfile::TempDir;

/// h1 - s1 - h2 at 100 Mb/s and 10 ms, with one CUBIC flow of one second.
pub const SMALL: &str = r#"title = "small"
duration = "1s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
forward = { rate = "100mbit", delay = "10ms", queue = "250kB" }
[[links]]
ends = ["s1", "h2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
"#;

/// A temporary directory with scenario `s.toml`. Runs write their records to its subdirectory `runs`.
pub struct TestDir {
    pub dir: TempDir,
}

impl TestDir {
    pub fn new(scenario: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("s.toml"), scenario).unwrap();
        TestDir { dir }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The command `longfat` with these arguments and this working directory.
    pub fn longfat(&self, args: &[&str]) -> Command {
        let mut command = self.command(binary());
        with_default_signals(command.args(args))
    }

    /// Another program with this working directory, which finds the program under test as `longfat`.
    pub fn with_longfat(&self, program: impl AsRef<OsStr>) -> Command {
        let folder = Path::new(binary()).parent().unwrap().display();
        let mut command = self.command(program);
        command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
        command
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env("NO_COLOR", "1").env_remove("LONGFAT_RUNS");
        // Ignore the configuration of the user who runs the tests.
        command.env("XDG_CONFIG_HOME", self.path("no-configuration"));
        command
    }

    /// Network namespaces that programs started from here use or have open, including their own. Those of
    /// other programs on this machine are not counted, because their labs start and end at any time.
    pub fn network_namespaces(&self) -> BTreeSet<String> {
        let mark = self.dir.path().as_os_str().as_encoded_bytes();
        let is_ours = |process: &PathBuf| {
            let environment = std::fs::read(process.join("environ")).unwrap_or_default();
            environment.windows(mark.len()).any(|part| part == mark)
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let ours = processes.filter(|process| process.join("ns").exists()).filter(is_ours);
        let links = ours.flat_map(|process| {
            let tasks = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
            tasks.map(|task| task.path().join("ns/net")).chain(open_files(&process)).collect::<Vec<_>>()
        });
        let targets =
            links.filter_map(|link| Some(std::fs::read_link(link).ok()?.to_string_lossy().into_owned()));
        targets.filter(|target| target.starts_with("net:[")).collect()
    }

    /// Runs `longfat` with these arguments and waits for its end.
    pub fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::from(self.longfat(args).output().unwrap())
    }
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl CommandOutput {
    /// The JSON document on standard output; the command must have succeeded.
    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{self:?}");
        self.parsed()
    }

    /// The JSON document on standard output, whatever the exit code.
    pub fn parsed(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// This command with default handling of the signals that tests send: under nohup, or in the background
/// of a script, these signals are ignored, and programs inherit that.
pub fn with_default_signals(command: &Command) -> Command {
    let mut with_defaults = Command::new("env");
    with_defaults
        .arg("--default-signal=INT,HUP,TERM,QUIT")
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => with_defaults.env(name, value),
            None => with_defaults.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        with_defaults.current_dir(directory);
    }
    with_defaults
}

/// The program under test: the one that cargo has built, or a packaged one, which `LONGFAT_PACKAGED` names
/// (relative to the repository).
pub fn binary() -> &'static str {
    static PACKAGED: LazyLock<Option<String>> = LazyLock::new(|| {
        let named = std::env::var_os("LONGFAT_PACKAGED")?;
        // cargo starts tests in the package's directory, and tests start the program in theirs.
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(named);
        let path = path.canonicalize().expect("LONGFAT_PACKAGED names a program");
        Some(path.to_str().expect("the path is Unicode").to_owned())
    });
    PACKAGED.as_deref().unwrap_or(env!("CARGO_BIN_EXE_longfat"))
}

/// Installs a copy of the binary that all users may run. A separate program copies it: children that other
/// tests fork meanwhile would inherit this process's descriptor for writing, and running the copy would fail
/// with ETXTBSY until they call exec.
pub fn copy_binary(to: &Path) {
    let copied = Command::new("install").args(["-m", "755"]).arg(binary()).arg(to).status();
    assert!(copied.unwrap().success());
}

/// The text of a scenario file in the repository's directory `scenarios`.
pub fn bundled_scenario(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)).unwrap()
}

fn open_files(process: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|f| f.path()).collect()
}

/// Waits until `condition` holds; false if it does not within a minute.
pub fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        if condition() {
            return true;
        }
        if std::time::Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)
}
