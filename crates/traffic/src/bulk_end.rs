//! Runs one end of a bulk transport ([`bulk::flow`]) over kernel sockets.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use crate::udp::{Incoming, Outgoing, instant_since, now_since};
use bulk::flow::End;
use socket2::Socket;

/// A sender that sleeps between packets sleeps at least this long, and sends all due packets in one batch.
const MIN_SLEEP: Duration = Duration::from_micros(100);
/// Maximum time between two calls of `publish`.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of batches that are received before timers run and packets are sent, and that are sent
/// before packets are received again: an end whose rate this machine does not reach always has more.
const MAX_ROUNDS: usize = 8;

/// The sockets of one end.
#[derive(Debug)]
pub struct Sockets {
    /// Connected to the other end; see [`crate::udp::set_up_bulk`].
    pub udp: Socket,
    /// The control connection of protocols that have one.
    pub control: Option<ControlSocket>,
}

/// Runs one end until `publish` returns true. `publish` is called at least every 20 ms, with the end and the
/// number of datagrams that its socket dropped.
///
/// # Errors
/// If a socket or the end fails.
pub fn drive<E: End>(
    mut end: E,
    sockets: Sockets,
    start: std::time::Instant,
    mut publish: impl FnMut(&E, u32) -> bool,
) -> io::Result<()> {
    os::reduce_timer_slack();
    let Sockets { udp, mut control } = sockets;
    let (mut incoming, mut outgoing) = (Incoming::default(), Outgoing::default());
    loop {
        for _ in 0..MAX_ROUNDS {
            let has_more = incoming.receive(&udp, |bytes, arrived| {
                end.handle_datagram(instant_since(start, arrived), bytes);
            })?;
            if !has_more {
                break;
            }
        }
        if let Some(control) = &mut control {
            control.read(|bytes| end.handle_control(now_since(start), bytes))?;
        }
        if end.next_timeout() <= now_since(start) {
            end.handle_timeout(now_since(start));
        }
        let mut has_more = true;
        for _ in 0..MAX_ROUNDS {
            let now = now_since(start);
            while !outgoing.is_full() && outgoing.add(|out| end.poll_transmit(now, out)) {}
            has_more = outgoing.is_full();
            outgoing.flush(&udp)?;
            if !has_more {
                break;
            }
        }
        if let Some(control) = &mut control {
            control.write(&end.take_control())?;
        }
        if publish(&end, incoming.dropped()) {
            return Ok(());
        }
        if let Some(failure) = end.failure() {
            return Err(io::Error::other(failure));
        }
        let due = end.next_timeout().saturating_since(now_since(start));
        let pause = match has_more {
            true => Duration::ZERO,
            false => due.to_duration().clamp(MIN_SLEEP, PUBLISH_INTERVAL),
        };
        let control = control.as_ref().filter(|control| !control.has_ended).map(ControlSocket::fd);
        let files: Vec<BorrowedFd<'_>> = std::iter::once(udp.as_fd()).chain(control).collect();
        os::wait_any(&files, pause)?;
    }
}

/// One end of a control connection.
#[derive(Debug)]
pub struct ControlSocket {
    stream: TcpStream,
    /// Bytes that the socket has not accepted yet.
    unwritten: Vec<u8>,
    /// The peer has closed its end.
    has_ended: bool,
}

impl ControlSocket {
    /// Makes the connection non-blocking.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(ControlSocket { stream, unwritten: Vec::new(), has_ended: false })
    }

    /// A duplicate of its socket.
    ///
    /// # Errors
    /// If no descriptors are free.
    pub fn socket(&self) -> io::Result<Socket> {
        self.stream.try_clone().map(Socket::from)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Calls `each` with all bytes that have arrived.
    fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while !self.has_ended {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(count) => each(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The other end has closed the connection, which is not a failure of this end.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => self.has_ended = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes bytes; the next call writes those that the socket does not accept now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unwritten.extend_from_slice(bytes);
        while !self.unwritten.is_empty() && !self.has_ended {
            match self.stream.write(&self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.has_ended = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use units::Instant;

    use super::*;
    use crate::udp::bind_bulk;

    const DATAGRAMS: u32 = 100_000;

    /// Is behind its rate until the last datagram.
    #[derive(Default)]
    struct Behind {
        sent: u32,
    }

    impl End for Behind {
        fn handle_datagram(&mut self, _now: Instant, _bytes: &[u8]) {}
        fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
        fn next_timeout(&self) -> Instant {
            Instant::ZERO
        }
        fn handle_timeout(&mut self, _now: Instant) {}
        fn poll_transmit(&mut self, _now: Instant, out: &mut Vec<u8>) -> bool {
            let has_more = self.sent < DATAGRAMS;
            if has_more {
                self.sent += 1;
                out.push(0);
            }
            has_more
        }
        fn take_control(&mut self) -> Vec<u8> {
            Vec::new()
        }
        fn failure(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn an_end_that_is_always_behind_its_rate_can_be_stopped() {
        let [udp, peer] = [(); 2].map(|()| bind_bulk("127.0.0.1:0".parse().unwrap()).unwrap());
        udp.connect(&peer.local_addr().unwrap()).unwrap();
        let mut sent = 0;
        let publish = |end: &Behind, _: u32| {
            sent = end.sent;
            true
        };
        drive(Behind::default(), Sockets { udp, control: None }, std::time::Instant::now(), publish).unwrap();
        assert!(sent < DATAGRAMS, "{sent}");
    }
}
