//! A program on a pseudoterminal (pty(7)). The test reads its output and sends keys.
#![allow(unsafe_code)]

use std::{
    fs::File,
    io::{Read, Write},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

/// Timeout for an expected text: the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(40);

/// A program and its terminal.
pub struct Terminal {
    child: Child,
    keyboard: File,
    /// All output so far.
    screen: Arc<Mutex<String>>,
    /// Number of bytes of the output that the test has already matched.
    matched: usize,
}

impl Terminal {
    /// Starts a program as the session leader of a new terminal with 80 columns.
    pub fn start(mut command: Command) -> Self {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: both descriptors are new and each gets one owner; null means "no name, default modes".
        let (master, slave) = unsafe {
            let null = std::ptr::null_mut();
            let result = libc::openpty(
                &raw mut master,
                &raw mut slave,
                null,
                null.cast(),
                (&raw const size).cast_mut(),
            );
            assert_eq!(result, 0, "openpty: {}", std::io::Error::last_os_error());
            (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave))
        };
        // SAFETY: this sets a flag of an open descriptor. Without it the program would keep its own terminal
        // open.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        let stream = || slave.try_clone().unwrap();
        command.env("TERM", "xterm").stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: only system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop(command);
        let mut output = File::from(master.try_clone().unwrap());
        let screen = Arc::new(Mutex::new(String::new()));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // EIO at the end: the program has closed its side.
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Terminal { child, keyboard: File::from(master), screen, matched: 0 }
    }

    /// Waits until this text appears after the text that was expected before.
    pub fn expect(&mut self, text: &str) {
        let started = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap().clone();
            if let Some(at) = screen[self.matched..].find(text) {
                self.matched += at + text.len();
                return;
            }
            assert!(
                started.elapsed() < TIMEOUT,
                "{text:?} does not appear in: {:?}",
                &screen[self.matched..]
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Presses these keys: `\r` is Enter, `\t` TAB, `\x03` Ctrl-C.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The program's exit code once it has ended.
    pub fn code(&mut self) -> Option<i32> {
        let started = Instant::now();
        while started.elapsed() < TIMEOUT {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the program does not end: {:?}", self.screen.lock().unwrap())
    }

    /// All output so far.
    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
