//! The netlink socket to sock_diag.

use std::{
    io::{Read, Write},
    time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};

use super::message::{self, ReplyStatus};
use crate::{Error, SocketSample, error::Attempted};

const NETLINK_SOCK_DIAG: i32 = 4;
/// Timeout of a reply; the kernel normally replies at once.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the receive buffer: more than the kernel's largest datagram (32 KiB).
const DATAGRAM_BYTES: usize = 64 * 1024;

/// A sock_diag socket. It lists the connections of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Diag {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diag {
    /// Opens a socket in the namespace of this thread.
    ///
    /// # Errors
    /// If the kernel has no sock_diag.
    pub fn open() -> Result<Self, Error> {
        let open = || {
            let kind = Type::DGRAM.cloexec();
            let socket =
                Socket::new(Domain::from(libc::AF_NETLINK), kind, Some(Protocol::from(NETLINK_SOCK_DIAG)))?;
            socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
            Ok(socket)
        };
        let socket = open().attempted(|| "open a sock_diag socket".into())?;
        Ok(Diag { socket, sequence: 0, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Appends a sample of every connection to `samples`. Connections opened or closed during the dump may be
    /// missing.
    ///
    /// # Errors
    /// If the kernel refuses, or does not reply within 5 s.
    pub fn dump(&mut self, samples: &mut Vec<SocketSample>) -> Result<(), Error> {
        let operation = || "request connections from sock_diag".to_string();
        self.sequence = self.sequence.wrapping_add(1);
        (&self.socket).write_all(&message::request(self.sequence)).attempted(operation)?;
        loop {
            let length = (&self.socket).read(&mut self.buffer).attempted(operation)?;
            match message::parse_reply(&self.buffer[..length], self.sequence, samples) {
                ReplyStatus::More => {}
                ReplyStatus::Done | ReplyStatus::Changed => return Ok(()),
                ReplyStatus::Refused(libc::ENOENT) => {
                    let cause = "this kernel has no tcp_diag (CONFIG_INET_TCP_DIAG)";
                    return Err(std::io::Error::new(std::io::ErrorKind::NotFound, cause))
                        .attempted(operation);
                }
                ReplyStatus::Refused(errno) => {
                    return Err(std::io::Error::from_raw_os_error(errno)).attempted(operation);
                }
            }
        }
    }
}
