//! Processes and their processor time.
#![allow(unsafe_code)]

use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Timeout of a process.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Output and processor time of a process that has ended.
pub struct FinishedProcess {
    pub stdout: String,
    pub cpu_s: f64,
}

/// Whether a program can be started.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Reads the output of a process and waits for its end. Returns `None` if it fails, or exceeds
/// [`PROCESS_TIMEOUT`] and is killed.
pub fn wait(mut child: Child) -> Option<FinishedProcess> {
    let mut out = child.stdout.take().expect("the output is piped");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let until = Instant::now() + PROCESS_TIMEOUT;
    let pid = child.id() as libc::pid_t;
    let (status, usage) = loop {
        // SAFETY: an all-zero rusage is valid; the pointers live across the call; no other code waits for
        // this child.
        let (waited, status, usage) = unsafe {
            let (mut status, mut usage) = (0, std::mem::zeroed::<libc::rusage>());
            let waited = libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage);
            (waited, status, usage)
        };
        if waited == pid {
            break (status, usage);
        }
        if Instant::now() > until {
            child.kill().expect("the process can be killed");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let stdout = reading.join().expect("no panic").expect("the output can be read");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (status == 0)
        .then(|| FinishedProcess { stdout, cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime) })
}
