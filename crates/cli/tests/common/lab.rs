//! A standing lab for one test, and the tools of a networking class on its hosts.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{CommandOutput, TestDir, binary, eventually};

/// A name that no other lab on this machine has.
pub fn lab_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A standing lab. Drop takes it down, also after a failure of the test.
pub struct Lab<'a> {
    pub test_dir: &'a TestDir,
    pub name: String,
    /// Exit code and output of `lab up`.
    pub up_result: CommandOutput,
}

impl<'a> Lab<'a> {
    /// Starts a lab with the directory's `s.toml`.
    pub fn up(test_dir: &'a TestDir, options: &[&str]) -> Self {
        Self::of(test_dir, Path::new("s.toml"), options)
    }

    /// Starts a lab with this scenario file.
    pub fn of(test_dir: &'a TestDir, file: &Path, options: &[&str]) -> Self {
        let name = lab_name();
        let up_result =
            test_dir.run(&[&["lab", "up", file.to_str().unwrap(), "--name", &name], options].concat());
        assert_eq!(up_result.code, 0, "{up_result:?}");
        Lab { test_dir, name, up_result }
    }

    pub fn exec(&self, host: &str, program: &[&str]) -> CommandOutput {
        self.test_dir.run(&[&["lab", "exec", "--lab", &self.name, host, "--"], program].concat())
    }

    /// Runs a line of shell on a host.
    pub fn sh(&self, host: &str, line: &str) -> CommandOutput {
        self.exec(host, &["sh", "-c", line])
    }

    pub fn shell(&self, commands: &[&str]) -> CommandOutput {
        let each = commands.iter().flat_map(|c| ["-c", c]);
        self.test_dir.run(&["lab", "shell", "--lab", &self.name].into_iter().chain(each).collect::<Vec<_>>())
    }

    /// Runs `lab shell` with these lines as its standard input.
    pub fn type_into_shell(&self, lines: &str) -> CommandOutput {
        let file = self.test_dir.path("typed");
        std::fs::write(&file, lines).unwrap();
        let mut command = self.test_dir.longfat(&["lab", "shell", "--lab", &self.name]);
        CommandOutput::from(command.stdin(std::fs::File::open(file).unwrap()).output().unwrap())
    }

    pub fn status(&self) -> serde_json::Value {
        self.test_dir.run(&["lab", "status", &self.name, "--json"]).json()["labs"][0].clone()
    }

    pub fn keeper(&self) -> u32 {
        u32::try_from(self.status()["pid"].as_u64().unwrap()).unwrap()
    }

    pub fn down(&self) -> CommandOutput {
        self.test_dir.run(&["lab", "down", &self.name])
    }

    /// The median round-trip time of pings after the first.
    pub fn rtt_ms(&self, from: &str, to: &str) -> f64 {
        let ran = self.exec(from, &["ping", "-i", "0.1", "-c", "6", to]);
        let mut times: Vec<f64> = ran
            .stdout
            .lines()
            .filter_map(|l| l.split("time=").nth(1)?.split_whitespace().next()?.parse().ok())
            .skip(1)
            .collect();
        times.sort_by(f64::total_cmp);
        *times.get(times.len() / 2).unwrap_or_else(|| panic!("{ran:?}"))
    }

    /// Starts iperf3's server on a host, until the lab goes down.
    pub fn serve_iperf3(&self, host: &str) {
        let ran = self.exec(host, &["iperf3", "-s", "-D"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let listens = || self.sh(host, "cat /proc/net/tcp /proc/net/tcp6").stdout.contains(":1451 ");
        assert!(super::eventually(listens), "iperf3 on {host} does not listen");
    }

    /// The goodput of one second of iperf3, bit/s, as counted by the receiver.
    pub fn iperf3_bps(&self, from: &str, to: &str) -> f64 {
        let ran = self.exec(from, &["iperf3", "-c", to, "-t", "1", "-J"]);
        let json: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{from} to {to}: {e}: {ran:?}"));
        json["end"]["sum_received"]["bits_per_second"]
            .as_f64()
            .unwrap_or_else(|| panic!("{from} to {to}: {json}"))
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        self.down();
    }
}

pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

/// Sends a signal, such as `-KILL`.
pub fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

/// True if these programs are installed (`scripts/setup.sh tests` installs them); otherwise reports which one
/// is missing.
pub fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing: Vec<&&str> =
        programs.iter().filter(|p| !directories.iter().any(|d| d.join(p).is_file())).collect();
    if !missing.is_empty() {
        testing::skip(testing::Missing::Tool, format_args!("{missing:?} is not installed"));
    }
    missing.is_empty()
}

/// A `longfat serve` on a host of the lab, until it is dropped.
pub struct Served(Child);

impl Served {
    pub fn on(lab: &Lab<'_>, host: &str, options: &[&str]) -> Self {
        let serve =
            [&["lab", "exec", "--lab", &lab.name, host, "--", binary(), "serve"][..], options].concat();
        let child = lab.test_dir.longfat(&serve).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Port 5201 and the state LISTEN: connections of a server that was killed have the port too.
        let is_listening = |line: &str| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns.get(1).is_some_and(|local| local.ends_with(":1451")) && columns.get(3) == Some(&"0A")
        };
        let listens = || lab.sh(host, "cat /proc/net/tcp6 /proc/net/tcp").stdout.lines().any(is_listening);
        assert!(eventually(listens), "no server on {host}");
        Served(child)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The server ends with it. It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
