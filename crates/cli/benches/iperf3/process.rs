//! Processes and the processor time they took.
#![allow(unsafe_code)]

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// No process of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a process wrote and took.
pub struct Ended {
    pub stdout: String,
    pub cpu_s: f64,
}

/// A program that can be started.
pub fn have(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Reads what the process writes, waits until it ends, and tells its processor time, user and system. Nothing is told of one that
/// fails, or does not end and is killed.
pub fn end(mut child: Child) -> Option<Ended> {
    let mut out = child.stdout.take().expect("it is piped");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let until = Instant::now() + PATIENCE;
    let pid = child.id() as libc::pid_t;
    let (status, usage) = loop {
        // SAFETY: an all-zero rusage is valid; the pointers live across the call; nobody else waits for this child.
        let (waited, status, usage) = unsafe {
            let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
            let waited = libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage);
            (waited, status, usage)
        };
        if waited == pid {
            break (status, usage);
        }
        if Instant::now() > until {
            child.kill().expect("it can be killed");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stdout = reading.join().expect("no panic").expect("it can be read");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (status == 0).then(|| Ended { stdout, cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime) })
}
