//! A connection that has not yet said whose it is: its first 37 bytes are a cookie, or it is no iperf3 client.

use std::{
    io::{ErrorKind, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
    time::Instant,
};

use socket2::Socket;

use crate::iperf3::wire::{COOKIE_BYTES, Cookie, State};

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) socket: Socket,
    pub(super) peer: SocketAddr,
    /// Its place in the order of all connections: streams are numbered by it.
    pub(super) number: u64,
    pub(super) since: Instant,
    bytes: [u8; COOKIE_BYTES],
    have: usize,
}

/// How far a greeting is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More is to come.
    Partial,
    /// It belongs to the test of this cookie.
    Complete(Cookie),
    /// It is over, or no cookie.
    Hopeless,
}

impl Greeting {
    /// Of a socket that does not block.
    pub(super) fn new(socket: Socket, peer: SocketAddr, number: u64, since: Instant) -> Self {
        Greeting { socket, peer, number, since, bytes: [0; COOKIE_BYTES], have: 0 }
    }

    /// Reads what has come, and nothing beyond the cookie.
    pub(super) fn read(&mut self) -> Progress {
        while self.have < COOKIE_BYTES {
            match (&self.socket).read(&mut self.bytes[self.have..]) {
                Ok(0) => return Progress::Hopeless,
                Ok(n) => self.have += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Progress::Partial,
                Err(_) => return Progress::Hopeless,
            }
        }
        Cookie::from_wire(self.bytes).map_or(Progress::Hopeless, Progress::Complete)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Tells a client that it is not wanted; the connection ends when it is dropped.
pub(super) fn deny(mut socket: &Socket) {
    // Who does not listen any more need not hear it.
    let _ = socket.write(&State::AccessDenied.code().to_be_bytes());
}
