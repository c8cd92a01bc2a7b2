//! The number of bytes that wake a TCP receiver (SO_RCVLOWAT, socket(7)).
//!
//! At many Gb/s, a receiver that has emptied its socket sleeps, and the processor that receives packets
//! wakes it for each super-packet. At such rates it is woken only for 128 KiB, and waits at most 2 ms for
//! fewer bytes, as at the end of a test.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::Socket;

/// The threshold at high rates. Less than any socket buffer at these rates: for a smaller buffer the kernel
/// would enlarge the buffer, and reduce its window.
const FAST_THRESHOLD_BYTES: i32 = 128 << 10;
/// A rate is high if this many bytes arrive in [`SAMPLE_TIME`]: 2.1 Gb/s.
const SAMPLE_BYTES: usize = 4 << 20;
const SAMPLE_TIME: Duration = Duration::from_millis(16);
/// Maximum wait for the threshold; a longer wait ends the high rate.
const MAX_WAIT: Duration = Duration::from_millis(2);

/// Adapts a receiver's threshold to the rate.
#[derive(Debug)]
pub(super) struct WakeThreshold {
    since: Instant,
    bytes: usize,
    is_fast: bool,
}

impl WakeThreshold {
    /// Starts with a threshold of one byte.
    pub(super) fn new() -> Self {
        WakeThreshold { since: Instant::now(), bytes: 0, is_fast: false }
    }

    /// To be called after `len` bytes were read.
    pub(super) fn read(&mut self, socket: &Socket, len: usize) {
        self.bytes += len;
        if !self.is_fast && self.bytes < SAMPLE_BYTES {
            return;
        }
        let now = Instant::now();
        let took = now - self.since;
        (self.since, self.bytes) = (now, 0);
        let is_fast = took < if self.is_fast { MAX_WAIT } else { SAMPLE_TIME };
        if is_fast != self.is_fast {
            self.set(socket, is_fast);
        }
    }

    /// To be called after a read has timed out: from now on each byte wakes the receiver.
    pub(super) fn waited(&mut self, socket: &Socket) {
        self.set(socket, false);
    }

    /// If the kernel refuses, the threshold stays as it is.
    fn set(&mut self, socket: &Socket, is_fast: bool) {
        let limit = is_fast.then_some(MAX_WAIT);
        let bytes = if is_fast { FAST_THRESHOLD_BYTES } else { 1 };
        if socket.set_read_timeout(limit).and_then(|()| set_low_water_mark(socket, bytes)).is_ok() {
            self.is_fast = is_fast;
        }
    }
}

fn set_low_water_mark(socket: &Socket, bytes: i32) -> io::Result<()> {
    os::set_option(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn slow_data_after_a_high_rate_is_delivered_immediately() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut receiver: Socket = listener.accept().unwrap().0.into();
        let mut threshold = WakeThreshold::new();
        threshold.bytes = SAMPLE_BYTES;
        threshold.read(&receiver, 1);
        assert!(threshold.is_fast, "4 MiB in no time");
        let mut buffer = vec![0; 2 * FAST_THRESHOLD_BYTES as usize];
        let nothing = receiver.read(&mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        // Fewer bytes than the threshold are delivered after the wait.
        sender.write_all(&[1; 1000]).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 1000);
        threshold.waited(&receiver);
        assert!(!threshold.is_fast);
        assert_eq!(receiver.read_timeout().unwrap(), None);
        sender.write_all(&[1]).unwrap();
        assert_eq!(receiver.read(&mut buffer).unwrap(), 1, "one byte threshold it again");
    }
}
