//! A connection whose cookie has not been received yet: its first 37 bytes are a cookie, or it is not an
//! iperf3 client.

use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use socket2::Socket;

use crate::wire::{COOKIE_BYTES, Cookie, State};

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) socket: Socket,
    pub(crate) peer: SocketAddr,
    /// Its index in the order of all connections, which determines the numbers of streams.
    pub(crate) number: u64,
    pub(crate) since: Instant,
    bytes: [u8; COOKIE_BYTES],
    have: usize,
}

/// The state of a greeting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes are missing.
    Partial,
    /// It belongs to the test of this cookie.
    Complete(Cookie),
    /// The connection is closed, or the bytes are not a cookie.
    Invalid,
    /// The bytes are the header of an iperf 2 client.
    Iperf2,
}

impl Greeting {
    /// For a non-blocking socket.
    pub(crate) fn new(socket: Socket, peer: SocketAddr, number: u64, since: Instant) -> Self {
        Greeting { socket, peer, number, since, bytes: [0; COOKIE_BYTES], have: 0 }
    }

    /// Reads the received bytes, but nothing after the cookie.
    pub(crate) fn read(&mut self) -> Progress {
        while self.have < COOKIE_BYTES {
            match (&self.socket).read(&mut self.bytes[self.have..]) {
                Ok(0) => return Progress::Invalid,
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Progress::Partial,
                Err(_) => return Progress::Invalid,
            }
        }
        match Cookie::from_wire(self.bytes) {
            Some(cookie) => Progress::Complete(cookie),
            None if is_iperf2_header(&self.bytes) => Progress::Iperf2,
            None => Progress::Invalid,
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the first bytes are the header of an iperf 2 client (version 2.0.10 or newer, or with `-d` or
/// `-r`): flags that announce a header, then a number of streams and a port.
fn is_iperf2_header(bytes: &[u8; COOKIE_BYTES]) -> bool {
    // Older ones send only data, repeating the ten digits.
    if bytes.starts_with(b"0123456789") {
        return true;
    }
    let announces = bytes[0] & 0xc0 != 0 && !bytes[0].is_ascii_lowercase();
    announces && bytes[4..6] == [0, 0] && bytes[8..10] == [0, 0]
}

/// Sends a client ACCESS_DENIED; the connection is closed when the socket is dropped.
pub(crate) fn deny(mut socket: &Socket) {
    // An error means that the client has disconnected.
    let _ = socket.write(&State::AccessDenied.code().to_be_bytes());
}
