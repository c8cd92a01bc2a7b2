//! UDP sockets of bulk transports: large buffers, and many datagrams with one system call.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use units::{Instant, Time};

use super::mmsg::{self, MAX_MESSAGES, MessageBuffers, ReceivedMessage, WaitMode, enable_arrival_metadata};
use crate::sys::widen_receive_buffer;

/// The requested receive buffer, bytes.
const RECEIVE_BUFFER_BYTES: i32 = 32 << 20;
/// The requested send buffer, bytes: a few ms at 10 Gb/s.
const SEND_BUFFER_BYTES: usize = 4 << 20;
/// The largest datagram: somewhat more than a packet of 9000 bytes, so that longer ones are detected.
const MAX_DATAGRAM_BYTES: usize = 9_216;
/// A datagram that seems to have waited for longer than this was timestamped before the clock was set.
const MAX_AGE: Duration = Duration::from_millis(100);

/// A socket at `local` with large buffers.
///
/// # Errors
/// If the address is in use, or the kernel refuses an option.
pub fn bind_bulk(local: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
    if local.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.bind(&SockAddr::from(local))?;
    set_up_bulk(&socket)?;
    Ok(socket)
}

/// Gives a socket large buffers, and its datagrams the kernel's times of arrival.
///
/// # Errors
/// If the kernel refuses an option.
pub fn set_up_bulk(socket: &Socket) -> io::Result<()> {
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    widen_receive_buffer(socket, RECEIVE_BUFFER_BYTES)?;
    enable_arrival_metadata(socket)
}

/// Datagrams to be sent together.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Outgoing {
    /// Whether one system call can send no more.
    pub fn is_full(&self) -> bool {
        self.ends.len() == MAX_MESSAGES
    }

    /// Adds the datagram that `write` appends; false if it appends none.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        let is_added = write(&mut self.bytes);
        if is_added {
            self.ends.push(self.bytes.len());
        }
        is_added
    }

    /// Sends all datagrams. Those that the network rejects count as lost.
    ///
    /// # Errors
    /// The errors of sendmmsg(2) after which the socket does not work.
    pub fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.ends.len() {
            let pieces =
                (sent..self.ends.len()).map(|i| if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i]);
            match mmsg::send(socket, &self.bytes, pieces) {
                Ok(count) => sent += count,
                Err(error) if is_lost(&error) => sent += 1,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}

/// Errors after which the socket still works: ICMP messages of the network, and full queues.
fn is_lost(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENOBUFS
                | libc::EMSGSIZE
                | libc::EAGAIN
                | libc::EPERM
        )
    )
}

/// Buffers for received datagrams.
pub struct Incoming {
    buffers: MessageBuffers,
    dropped: u32,
}

impl Default for Incoming {
    fn default() -> Self {
        Incoming { buffers: MessageBuffers::new(MAX_MESSAGES, MAX_DATAGRAM_BYTES), dropped: 0 }
    }
}

impl Incoming {
    /// Buffers that also receive the addresses of the senders.
    pub fn with_sources() -> Self {
        let buffers = MessageBuffers::new(MAX_MESSAGES, MAX_DATAGRAM_BYTES).with_sources();
        Incoming { buffers, dropped: 0 }
    }

    /// Datagrams that were dropped because the socket's buffer was full, as of the last datagram, modulo
    /// 2^32.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Calls `each` with the datagrams that have arrived at a connected socket, and when each arrived;
    /// returns whether more may have. The times are the kernel's: datagrams of one call would otherwise seem
    /// to arrive together.
    ///
    /// # Errors
    /// The errors of recvmmsg(2) after which the socket does not work.
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(&[u8], std::time::Instant),
    ) -> io::Result<bool> {
        self.receive_messages(socket, |message, arrived| each(message.bytes, arrived))
    }

    /// Calls `each` with the datagrams of `peer` that have arrived, at a socket that need not be connected,
    /// of [`Incoming::with_sources`]; returns whether more may have.
    ///
    /// # Errors
    /// As for [`Incoming::receive`].
    pub fn receive_from(
        &mut self,
        socket: &Socket,
        peer: IpAddr,
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<bool> {
        let peer = peer.to_canonical();
        self.receive_messages(socket, |message, _| {
            if message.source.is_some_and(|source| source.ip().to_canonical() == peer) {
                each(message.bytes);
            }
        })
    }

    /// Calls `each` with the messages that have arrived, and when each arrived.
    fn receive_messages(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(&ReceivedMessage<'_>, std::time::Instant),
    ) -> io::Result<bool> {
        let count = match self.buffers.receive(socket, WaitMode::Never) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock || is_lost(&error) => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        // Both clocks are read here, so that an earlier wait of this thread for a processor is not counted as
        // part of the age.
        let (read_at, now_ns) = (std::time::Instant::now(), os::realtime_ns());
        for index in 0..count {
            let message = self.buffers.message(index);
            self.dropped = message.dropped.unwrap_or(self.dropped);
            if message.length == message.bytes.len() {
                let age = message.stamp_ns.and_then(|stamp| u64::try_from(now_ns - stamp).ok());
                let age = age.map(Duration::from_nanos).filter(|age| *age <= MAX_AGE);
                each(&message, age.and_then(|age| read_at.checked_sub(age)).unwrap_or(read_at));
            }
        }
        Ok(count == self.buffers.capacity())
    }
}

/// The current instant of a clock whose origin is `start`.
pub fn now_since(start: std::time::Instant) -> Instant {
    instant_since(start, std::time::Instant::now())
}

/// `at` as an instant of a clock whose origin is `start`.
pub fn instant_since(start: std::time::Instant, at: std::time::Instant) -> Instant {
    Instant::ZERO + Time::from_duration(at.saturating_duration_since(start))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn datagrams_of_other_senders_are_ignored() {
        let receiver = bind_bulk("127.0.0.1:0".parse().unwrap()).unwrap();
        let to = receiver.local_addr().unwrap().as_socket().unwrap();
        for (from, text) in [("127.0.0.2:0", "forged"), ("127.0.0.1:0", "real"), ("127.0.0.2:0", "forged")] {
            UdpSocket::bind(from).unwrap().send_to(text.as_bytes(), to).unwrap();
        }
        let mut incoming = Incoming::with_sources();
        let mut received = Vec::new();
        // Loopback delivers during the call.
        assert!(os::wait_readable(&receiver, Duration::from_secs(10)).unwrap());
        let peer = "::ffff:127.0.0.1".parse().unwrap();
        while incoming.receive_from(&receiver, peer, |bytes| received.push(bytes.to_vec())).unwrap() {}
        assert_eq!(received, [b"real"]);
    }
}
