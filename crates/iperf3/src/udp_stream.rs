//! A UDP stream of a test: the handshake that opens it, and the sender or receiver on it.
//!
//! The client sends a hello of four bytes, and the server replies with four from a socket that is connected
//! to the client. Both may be lost, so the client repeats the hello each second. In a test with `-R` data may
//! arrive before the reply.

use std::{
    io::{self, ErrorKind, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use socket2::Socket;
use traffic::{
    Attempted, Error as SystemError, Stop,
    udp::{
        ArrivalTimes, NumberWidth, ReceiveBuffer, Receiver, ReceiverStatistics, Sender, SenderOptions,
        SentCounts, SharedStatistics,
    },
};

use crate::{
    Error,
    report::{Datagrams, TestSpec},
};

/// A client's hello (UDP_CONNECT_MSG, as little-endian machines send it). Servers accept any bytes.
const HELLO: [u8; 4] = [0x39, 0x38, 0x37, 0x36];
/// Servers' replies (UDP_CONNECT_REPLY); the last two are those before iperf 3.12, of little-endian and
/// big-endian machines.
const REPLIES: [[u8; 4]; 3] =
    [[0x36, 0x37, 0x38, 0x39], 987_654_321u32.to_le_bytes(), 987_654_321u32.to_be_bytes()];
/// A hello without a reply is repeated after this time.
const HELLO_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of the checks of [`greet_unless`].
const OPEN_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The state of a UDP stream, except its socket.
#[derive(Debug)]
pub(crate) struct UdpStream {
    numbers: NumberWidth,
    sent: SentCounts,
    statistics: SharedStatistics,
    stop: Stop,
}

impl UdpStream {
    pub(crate) fn new(spec: &TestSpec) -> Self {
        let numbers = if spec.udp_counters_64bit { NumberWidth::Bits64 } else { NumberWidth::Bits32 };
        UdpStream {
            numbers,
            sent: SentCounts::default(),
            statistics: SharedStatistics::new(numbers),
            stop: Stop::default(),
        }
    }

    /// Payload sent or received so far.
    pub(crate) fn bytes(&self, sends: bool) -> u64 {
        if sends { self.sent.bytes.load(Ordering::Relaxed) } else { self.statistics.lock().counts.bytes }
    }

    /// Datagrams so far.
    pub(crate) fn datagrams(&self, sends: bool) -> Datagrams {
        match sends {
            true => {
                Datagrams { packets: self.sent.datagrams.load(Ordering::Relaxed), ..Datagrams::default() }
            }
            false => received_datagrams(&self.statistics.lock()),
        }
    }

    /// The receiver's statistics.
    pub(crate) fn statistics(&self) -> &SharedStatistics {
        &self.statistics
    }

    /// Ends the stream's thread.
    pub(crate) fn end(&self) {
        self.stop.set();
    }

    /// Sends until [`UdpStream::end`], or until the `remaining` datagrams of all streams are sent; calls
    /// `after` after each send call.
    pub(crate) fn send(
        &self,
        socket: Socket,
        spec: &TestSpec,
        remaining: Arc<AtomicU64>,
        after: impl FnMut(),
    ) -> Result<(), SystemError> {
        let options = SenderOptions {
            block: u32::try_from(spec.block.0).unwrap_or(u32::MAX),
            rate: spec.rate,
            burst: spec.burst,
            numbers: self.numbers,
            remaining: Some(remaining),
        };
        let sender = Sender::new(socket, &options);
        let sender = match spec.max_lateness {
            Some(most) => sender.with_max_lateness(most),
            None => sender,
        };
        sender.run_observed(&self.stop, &self.sent, after).map(drop)
    }

    /// Receives until [`UdpStream::end`]; calls `after` before it waits for more.
    pub(crate) fn receive(
        &self,
        socket: Socket,
        spec: &TestSpec,
        after: impl FnMut(),
    ) -> Result<(), SystemError> {
        // Paced datagrams are received one by one; a flood needs the kernel's coalescing.
        let arrivals = if spec.rate.is_some() { ArrivalTimes::Exact } else { ArrivalTimes::Coalesced };
        let buffer = if spec.window.is_some() { ReceiveBuffer::Unchanged } else { ReceiveBuffer::Wide };
        Receiver::new(socket, arrivals, buffer)?.run_observed(&self.stop, &self.statistics, after)
    }
}

/// A receiver's statistics in a report's form.
fn received_datagrams(statistics: &ReceiverStatistics) -> Datagrams {
    let counts = &statistics.counts;
    Datagrams {
        packets: counts.expected(),
        lost: i64::try_from(counts.lost()).unwrap_or(i64::MAX),
        out_of_order: counts.reordered,
        jitter_s: counts.jitter_ns * 1e-9,
    }
}

/// Forbids routers to fragment what `socket` sends.
pub(crate) fn forbid_fragments(socket: &Socket) -> Result<(), SystemError> {
    os::set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
        .attempted(|| "forbid fragments".into())
}

/// Opens a stream on a socket that is connected to the server: sends hellos until the server replies.
///
/// # Errors
/// If the socket fails, or no reply arrives within `timeout`.
pub fn greet(socket: &Socket, timeout: Duration) -> Result<(), Error> {
    greet_unless(socket, timeout, || Ok(false))
}

/// Like [`greet`], but also ends when `is_open` returns true: the server has confirmed the hello in another
/// way, so a lost reply does not matter.
///
/// # Errors
/// As for [`greet`], and those of `is_open`.
pub fn greet_unless(
    socket: &Socket,
    timeout: Duration,
    mut is_open: impl FnMut() -> Result<bool, Error>,
) -> Result<(), Error> {
    let what = || "send a hello on a UDP stream".to_string();
    let begin = Instant::now();
    loop {
        match socket.send(&HELLO) {
            // An earlier hello was rejected: the server may not listen yet.
            Err(e) if e.kind() != ErrorKind::ConnectionRefused => return Err(e).attempted(what)?,
            _ => {}
        }
        let next_hello = Instant::now() + HELLO_INTERVAL;
        while let Some(left) = next_hello.checked_duration_since(Instant::now()) {
            if begin.elapsed() >= timeout {
                return Err(Error::Timeout { what: "reply to a UDP stream's hello", after: timeout });
            }
            let has_datagram = os::wait_readable(socket, left.min(OPEN_CHECK_INTERVAL)).attempted(what)?;
            if has_datagram && is_reply(socket).attempted(what)? || is_open()? {
                return Ok(());
            }
        }
    }
}

/// Whether the next datagram is a reply; data that is already in flight is skipped.
fn is_reply(socket: &Socket) -> io::Result<bool> {
    let mut bytes = [0; 8];
    let mut from = socket;
    match from.read(&mut bytes) {
        Ok(n) => Ok(REPLIES.iter().any(|reply| reply == &bytes[..n])),
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// Whether a datagram is the hello of [`greet`].
pub fn is_hello(datagram: &[u8]) -> bool {
    datagram == HELLO
}

/// Replies to a client's hello, for the first time or again after a lost reply.
///
/// # Errors
/// If the socket fails.
pub fn reply_to_hello(socket: &Socket) -> io::Result<()> {
    socket.send(&REPLIES[0]).map(drop)
}

/// Replies again if the client has repeated its hello, because the first reply was lost.
///
/// # Errors
/// If the socket fails.
pub(crate) fn repeat_reply(socket: &Socket) -> io::Result<()> {
    if os::wait_readable(socket, Duration::ZERO)? {
        let mut from = socket;
        // Any content is a hello; an error reports that an earlier reply was rejected.
        if from.read(&mut [0; 8]).is_ok() {
            reply_to_hello(socket)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn no_reply_is_needed_if_the_server_confirms_the_hello_otherwise() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(silent.local_addr().unwrap()).unwrap();
        let socket = Socket::from(client);
        let mut checks = 0;
        let opened = greet_unless(&socket, Duration::from_secs(20), || {
            checks += 1;
            Ok(checks == 3)
        });
        opened.unwrap();
        let failed = greet_unless(&socket, Duration::from_secs(20), || Err(Error::Interrupted));
        assert!(matches!(failed, Err(Error::Interrupted)));
        let mut hello = [0; 8];
        assert_eq!(silent.recv(&mut hello).unwrap(), HELLO.len());
    }
}
