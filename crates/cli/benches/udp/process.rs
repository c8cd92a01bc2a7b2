//! Processes and the processor time they took.
#![allow(unsafe_code)]

use std::{
    io::Read,
    process::{Child, Command, Stdio},
};

/// What a process wrote and took.
pub struct Ended {
    pub stdout: String,
    pub cpu_s: f64,
}

/// A program that can be started.
pub fn have(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Reads what the process writes, waits until it ends, and tells its processor time, user and system.
pub fn end(mut child: Child) -> Ended {
    let mut stdout = String::new();
    child.stdout.take().expect("it is piped").read_to_string(&mut stdout).expect("it can be read");
    let pid = child.id() as libc::pid_t;
    // SAFETY: an all-zero rusage is valid; the pointers live across the call; nobody else waits for this child.
    let usage = unsafe {
        let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
        let waited = libc::wait4(pid, &raw mut status, 0, &raw mut usage);
        assert_eq!((waited, status), (pid, 0), "it ends well: {stdout}");
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    Ended { stdout, cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime) }
}
