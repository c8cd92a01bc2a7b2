//! Abuse of standing labs: slow clients, stopped keepers, removed devices, signals, unusual files.

use crate::common;
use std::{
    io::Write,
    os::unix::{net::UnixStream, process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{CommandOutput, SMALL, TestDir, eventually, lab_slots::acquire_lab_slot};

/// A standing lab. Drop takes it down, also after a failure of the test.
struct Lab<'a> {
    test_dir: &'a TestDir,
    name: String,
}

impl<'a> Lab<'a> {
    fn up(test_dir: &'a TestDir, name: &str) -> Self {
        let name = format!("abuse-{}-{name}", std::process::id());
        let ran = test_dir.run(&["lab", "up", "s.toml", "--name", &name]);
        assert_eq!(ran.code, 0, "{ran:?}");
        Lab { test_dir, name }
    }

    fn exec_command(&self, host: &str, program: &[&str]) -> Command {
        self.test_dir.longfat(&[&["lab", "exec", "--lab", &self.name, host, "--"], program].concat())
    }

    fn exec(&self, host: &str, program: &[&str]) -> CommandOutput {
        CommandOutput::from(self.exec_command(host, program).output().unwrap())
    }

    fn shell(&self, command: &str) -> CommandOutput {
        self.test_dir.run(&["lab", "shell", "--lab", &self.name, "-c", command])
    }

    fn keeper(&self) -> String {
        let status = self.test_dir.run(&["lab", "status", &self.name, "--json"]).json();
        status["labs"][0]["pid"].to_string()
    }

    /// The path of the control socket on a host, a symbolic link.
    fn socket(&self) -> PathBuf {
        self.exec("h1", &["readlink", "/run/lab/control"]).stdout.trim().into()
    }
}

impl Drop for Lab<'_> {
    fn drop(&mut self) {
        self.test_dir.run(&["lab", "down", &self.name]);
    }
}

fn kill(signal: &str, pid: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

#[test]
fn silent_clients_do_not_delay_others() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "silent");
    let socket = lab.socket();
    let mut silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    silent[0].write_all(b"{\"do\":").unwrap();
    silent[1].write_all(&[0xff; 1000]).unwrap();
    // If they were served one after another, with 2 s each, they would exceed the 10 s timeout of a client.
    let ran = test_dir.run(&["lab", "status", &lab.name]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_host_can_query_its_own_lab() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "inside");
    let inside = lab.exec("h1", &[common::binary(), "lab", "status"]);
    assert!(inside.stdout.contains(&lab.name), "{inside:?}");
    assert_eq!(
        test_dir.run(&["lab", "status", &lab.name]).code,
        0,
        "the keeper's process id does not exist on a host"
    );
}

#[test]
fn a_host_without_its_device_leaves_the_lab_up() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "device");
    assert_eq!(lab.exec("h1", &["ip", "link", "del", "h1-eth0"]).code, 0);
    assert_ne!(lab.exec("h2", &["ping", "-c", "1", "-W", "1", "h1"]).code, 0);
    assert_eq!(test_dir.run(&["lab", "status", &lab.name]).code, 0);
}

#[test]
fn captures_refuse_pipes_and_report_full_disks() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "files");
    assert!(Command::new("mkfifo").arg(test_dir.path("pipe")).status().unwrap().success());
    let pipe = lab.shell("pcap h1 pipe");
    assert!(pipe.code == 1 && pipe.stderr.contains("named pipe"), "{pipe:?}");
    assert_eq!(lab.shell("pcap h1 'two words.pcapng'").code, 0);
    assert!(test_dir.path("two words.pcapng").exists());
    let captured = lab.exec("s1", &["pcap", "h2", "there.pcapng"]);
    assert!(captured.code == 0 && test_dir.path("there.pcapng").exists(), "{captured:?}");
    assert_eq!(lab.shell("pcap h2 /dev/full").code, 0);
    assert_eq!(lab.exec("h1", &["ping", "-c", "1", "h2"]).code, 0);
    let down = test_dir.run(&["lab", "down", &lab.name]);
    assert!(down.code == 0 && down.stderr.contains("capture of h2 is not complete"), "{down:?}");
}

#[test]
fn signals_sent_to_exec_reach_the_program() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "signals");
    let program = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = lab.exec_command("h1", &["sh", "-c", program]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    // exec handles signals after it has started its program.
    std::thread::sleep(Duration::from_millis(100));
    kill("-TERM", &child.id().to_string());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("got it\n", Some(5)));
}

/// As under `ssh -t HOST longfat lab exec ...`: exec is the session leader of a terminal that is closed.
#[test]
fn a_program_ends_when_the_terminal_of_exec_is_closed() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, "terminal");
    let seconds = format!("77{}", std::process::id());
    let line = format!("{} lab exec --lab {} h1 -- sleep {seconds}", common::binary(), lab.name);
    // script(1) runs the line on a terminal, as its session's leader, and closes that terminal when it is
    // killed.
    let mut script = Command::new("script");
    script.args(["-qec", &format!("exec {line}"), "/dev/null"]);
    let mut script = common::with_default_signals(&script);
    let script = script.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let Ok(mut script) = script else {
        testing::skip(testing::Missing::Tool, "script(1) is not installed");
        return;
    };
    let sleeps = || {
        !Command::new("pgrep").args(["-f", &format!("^sleep {seconds}")]).output().unwrap().stdout.is_empty()
    };
    assert!(eventually(sleeps));
    std::thread::sleep(Duration::from_millis(100));
    script.kill().unwrap();
    script.wait().unwrap();
    assert!(eventually(|| !sleeps()));
}

#[test]
fn a_terminated_shell_takes_its_lab_down() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let mut shell = test_dir
        .longfat(&["lab", "shell", "s.toml", "-c", "sh echo up", "-c", "h1 sleep 60"])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "up\n");
    kill("-HUP", &shell.id().to_string());
    assert_eq!(shell.wait().unwrap().code(), Some(128 + 1));
    assert_eq!(test_dir.run(&["lab", "status", "s"]).code, 2, "no lab s is up");
}

#[test]
fn a_stopped_keeper_is_reported_beside_other_labs() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let (stopped, other) = (Lab::up(&test_dir, "stopped"), Lab::up(&test_dir, "other"));
    let keeper = stopped.keeper();
    kill("-STOP", &keeper);
    let began = Instant::now();
    let ran = test_dir.run(&["lab", "status"]);
    kill("-CONT", &keeper);
    assert!(ran.stdout.contains(&other.name) && ran.stderr.contains("does not reply"), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_lab_holds_no_files_of_its_caller() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let name = format!("abuse-{}-lock", std::process::id());
    let line = format!("exec 9>lock && flock 9 && {} lab up s.toml --name {name}", common::binary());
    let up = Command::new("sh").args(["-c", &line]).current_dir(test_dir.dir.path()).status().unwrap();
    assert!(up.success());
    let lab = Lab { test_dir: &test_dir, name };
    let free = Command::new("flock").arg("-n").arg(test_dir.path("lock")).arg("true").status().unwrap();
    assert!(free.success(), "the caller's lock must be released when the caller ends");
    let fds = lab.exec("h1", &["sh", "-c", "ls -l /proc/$PPID/fd /proc/self/fd"]);
    assert!(!fds.stdout.contains("socket:") && !fds.stdout.contains("net:["), "{fds:?}");
    assert!(eventually(|| test_dir.run(&["lab", "status", &lab.name]).code == 0));
}
