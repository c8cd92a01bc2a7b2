//! How much has to come before a receiver of TCP is woken (SO_RCVLOWAT, socket(7)).
//!
//! At many Gb/s a receiver that empties its socket sleeps and is woken for each super-packet, on the processor that takes packets
//! in. While data come that fast they are read by the 128 kB. What is less, as at a test's end, is waited for 2 ms at most.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::Socket;

use crate::sys;

/// What is read at once while data come fast. Less than any socket buffer by then: the kernel makes a smaller one larger, and its
/// window smaller.
const MANY: i32 = 128 << 10;
/// So much in so short a time is fast: 2.1 Gb/s.
const SAMPLE_BYTES: usize = 4 << 20;
const SAMPLE_TIME: Duration = Duration::from_millis(16);
/// The longest wait for as much. Who waited so long while data came fast does so no more.
const SLOW: Duration = Duration::from_millis(2);

/// When a receiver is woken.
#[derive(Debug)]
pub(super) struct Wakes {
    since: Instant,
    bytes: usize,
    is_fast: bool,
}

impl Wakes {
    /// For each byte.
    pub(super) fn new() -> Self {
        Wakes { since: Instant::now(), bytes: 0, is_fast: false }
    }

    /// Takes in that `len` bytes were read.
    pub(super) fn read(&mut self, socket: &Socket, len: usize) {
        self.bytes += len;
        if !self.is_fast && self.bytes < SAMPLE_BYTES {
            return;
        }
        let now = Instant::now();
        let took = now - self.since;
        (self.since, self.bytes) = (now, 0);
        let is_fast = took < if self.is_fast { SLOW } else { SAMPLE_TIME };
        if is_fast != self.is_fast {
            self.set(socket, is_fast);
        }
    }

    /// Takes in that nothing came in the longest wait: from now on each byte wakes.
    pub(super) fn waited(&mut self, socket: &Socket) {
        self.set(socket, false);
    }

    /// Where the kernel refuses, it wakes as before.
    fn set(&mut self, socket: &Socket, is_fast: bool) {
        let limit = is_fast.then_some(SLOW);
        let bytes = if is_fast { MANY } else { 1 };
        if socket.set_read_timeout(limit).and_then(|()| wake_from(socket, bytes)).is_ok() {
            self.is_fast = is_fast;
        }
    }
}

fn wake_from(socket: &Socket, bytes: i32) -> io::Result<()> {
    sys::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn what_comes_slowly_after_a_flood_is_not_held_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver: Socket = listener.accept().unwrap().0.into();
        let mut wakes = Wakes::new();
        wakes.bytes = SAMPLE_BYTES;
        wakes.read(&receiver, 1);
        assert!(wakes.is_fast, "so much in no time");
        let mut buffer = vec![0; 2 * MANY as usize];
        let nothing = receiver.read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        // The rest of what was sent, less than it waits for, comes without more to follow.
        sender.write_all(&[1; 1000]).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 1000);
        wakes.waited(&receiver);
        assert!(!wakes.is_fast);
        assert_eq!(receiver.read_timeout().unwrap(), None);
        sender.write_all(&[1]).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 1, "one byte wakes it again");
    }
}
