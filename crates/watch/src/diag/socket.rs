//! The socket that asks.

use std::{
    io::{Read, Write},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::message::{self, Progress};
use crate::{Error, Look, error::Attempted};

const NETLINK_SOCK_DIAG: i32 = 4;
/// The kernel answers at once; one that does not is told after so long.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than the kernel puts into one datagram (32 KiB).
const DATAGRAM_BYTES: usize = 64 * 1024;

/// A door to the connections of one network namespace: the one that it was opened in.
#[derive(Debug)]
pub struct Diag {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens it in the namespace of this thread.
    ///
    /// # Errors
    /// Where the kernel has no netlink.
    pub fn open() -> Result<Self, Error> {
        let open = || {
            let kind = Type::DGRAM.cloexec();
            let socket =
                Socket::new(Domain::from(libc::AF_NETLINK), kind, Some(Protocol::from(NETLINK_SOCK_DIAG)))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = open().attempted(|| "open a sock_diag socket".into())?;
        Ok(Diag { socket, sequence: 0, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Adds a look at every connection. One that came or went while the kernel told may be missing.
    ///
    /// # Errors
    /// Where the kernel refuses or does not answer.
    pub fn dump(&mut self, looks: &mut Vec<Look>) -> Result<(), Error> {
        let operation = || "ask sock_diag for connections".to_string();
        self.sequence = self.sequence.wrapping_add(1);
        (&self.socket).write_all(&message::request(self.sequence)).attempted(operation)?;
        loop {
            let length = (&self.socket).read(&mut self.buffer).attempted(operation)?;
            match message::read(&self.buffer[..length], self.sequence, looks) {
                Progress::More => {}
                Progress::Done | Progress::Changed => return Ok(()),
                Progress::Refused(errno) => {
                    return Err(std::io::Error::from_raw_os_error(errno)).attempted(operation);
                }
            }
        }
    }
}
