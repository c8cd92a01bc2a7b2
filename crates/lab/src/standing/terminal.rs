//! Programs in the foreground of this process's terminal, as a shell with job control runs them
//! (credentials(7), tcsetpgrp(3)).
//!
//! Each program gets its own process group, so that Ctrl-C reaches only that program. Programs with job
//! control (bash, less) may give the terminal to other groups; this process takes it back when the program
//! ends. Ctrl-Z has no lasting effect: a stopped program is continued, because no command could continue it
//! later.
#![allow(unsafe_code)]

use std::{
    io, mem,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus},
};

use os::check;

const STDIN: libc::c_int = libc::STDIN_FILENO;

/// Runs `command` and waits for it. If standard input is a terminal with this process's group in the
/// foreground, the program runs in the foreground; afterwards the terminal's former modes are restored.
///
/// # Errors
/// If the program cannot be started or waited for.
pub fn run_in_foreground(command: &mut Command) -> io::Result<ExitStatus> {
    let Some(terminal) = Terminal::in_foreground() else { return command.status() };
    command.process_group(0);
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(|| give_terminal_to(libc::getpid())) };
    let result = command.spawn().and_then(|child| wait(child.id() as libc::pid_t));
    terminal.take_back();
    result
}

/// The terminal of this process, with its state before a program ran.
struct Terminal {
    group: libc::pid_t,
    modes: libc::termios,
}

impl Terminal {
    /// The terminal at standard input, if this process's group is in its foreground.
    fn in_foreground() -> Option<Self> {
        // SAFETY: plain arguments; an all-zero termios is valid and has space for the result.
        unsafe {
            let group = libc::getpgrp();
            if libc::tcgetpgrp(STDIN) != group {
                return None;
            }
            let mut modes: libc::termios = mem::zeroed();
            check(libc::tcgetattr(STDIN, &raw mut modes)).ok()?;
            Some(Terminal { group, modes })
        }
    }

    /// Makes this process's group the foreground again. Fails if the terminal has been closed, which its next
    /// reader reports.
    fn take_back(&self) {
        let _ = give_terminal_to(self.group);
        // SAFETY: the modes were returned by tcgetattr.
        let _ = check(unsafe { libc::tcsetattr(STDIN, libc::TCSADRAIN, &raw const self.modes) });
    }
}

/// Moves a process group of this session into the terminal's foreground. SIGTTOU is blocked meanwhile: it
/// would stop this process, which is in the background itself.
fn give_terminal_to(group: libc::pid_t) -> io::Result<()> {
    // SAFETY: all-zero signal sets are valid and live across the calls; only system calls are made (this also
    // runs between fork and exec).
    unsafe {
        let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
        libc::sigemptyset(&raw mut blocked);
        libc::sigaddset(&raw mut blocked, libc::SIGTTOU);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
        let result = check(libc::tcsetpgrp(STDIN, group));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result.map(drop)
    }
}

/// Waits for the end of the child `pid`, the leader of its process group, and continues it whenever it is
/// stopped.
fn wait(pid: libc::pid_t) -> io::Result<ExitStatus> {
    loop {
        let mut status = 0;
        // SAFETY: `status` has space for the result.
        match check(unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) }) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
            Ok(_) if libc::WIFSTOPPED(status) => {
                give_terminal_to(pid)?;
                // SAFETY: plain arguments; the group exists until its leader has been waited for.
                unsafe { libc::kill(-pid, libc::SIGCONT) };
            }
            Ok(_) => return Ok(ExitStatus::from_raw(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Tests with a terminal are among those of the program (`lab_shell.rs`).
    #[test]
    fn a_program_runs_without_a_terminal() {
        let status = run_in_foreground(Command::new("sh").args(["-c", "exit 3"]).stdin(Stdio::null()));
        assert_eq!(status.unwrap().code(), Some(3));
        assert!(run_in_foreground(&mut Command::new("/no/such/program")).is_err());
    }
}
