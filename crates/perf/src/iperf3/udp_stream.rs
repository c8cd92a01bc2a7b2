//! A UDP stream of a test: the greeting that makes it a stream, and the engine that sends or receives on it.
//!
//! The client sends four bytes, the server answers with four from a socket that is connected to it. Both may be lost, so the
//! client asks again each second; in a test with `-R` data may come before the answer.

use std::{
    io::{self, ErrorKind, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use socket2::Socket;

use crate::{
    Error as SystemError, Stop,
    error::Attempted,
    iperf3::Error,
    report::{Datagrams, TestSpec},
    sys,
    udp::{Arrivals, Buffer, Numbers, Receiver, Sender, SenderOptions, Sent, Tally},
};

/// What a client says first (UDP_CONNECT_MSG, as little-endian machines send it). Servers take anything.
const HELLO: [u8; 4] = [0x39, 0x38, 0x37, 0x36];
/// What servers answer (UDP_CONNECT_REPLY), the last one before iperf 3.12 on either kind of machine.
const ANSWERS: [[u8; 4]; 3] =
    [[0x36, 0x37, 0x38, 0x39], 987_654_321u32.to_le_bytes(), 987_654_321u32.to_be_bytes()];
/// A hello that is not answered is sent again after this time.
const AGAIN: Duration = Duration::from_secs(1);

/// What a UDP stream has beside its socket.
#[derive(Debug)]
pub(crate) struct UdpStream {
    numbers: Numbers,
    sent: Sent,
    tally: Tally,
    stop: Stop,
}

impl UdpStream {
    pub(crate) fn new(spec: &TestSpec) -> Self {
        let numbers = if spec.udp_counters_64bit { Numbers::Bits64 } else { Numbers::Bits32 };
        UdpStream { numbers, sent: Sent::default(), tally: Tally::new(numbers), stop: Stop::default() }
    }

    /// Payload sent or received so far.
    pub(crate) fn bytes(&self, sends: bool) -> u64 {
        if sends { self.sent.bytes.load(Ordering::Relaxed) } else { self.tally.lock().counts.bytes }
    }

    /// Datagrams so far.
    pub(crate) fn datagrams(&self, sends: bool) -> Datagrams {
        match sends {
            true => {
                Datagrams { packets: self.sent.datagrams.load(Ordering::Relaxed), ..Datagrams::default() }
            }
            false => self.tally.lock().datagrams(),
        }
    }

    /// The receiver's statistics.
    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Ends the stream's thread.
    pub(crate) fn end(&self) {
        self.stop.set();
    }

    /// Sends until [`UdpStream::end`], or until `left` datagrams of all streams are sent; `after` each call.
    pub(crate) fn send(
        &self,
        socket: Socket,
        spec: &TestSpec,
        left: Arc<AtomicU64>,
        after: impl FnMut(),
    ) -> Result<(), SystemError> {
        let options = SenderOptions {
            block: u32::try_from(spec.block.0).unwrap_or(u32::MAX),
            rate: spec.rate,
            burst: spec.burst,
            numbers: self.numbers,
            left: Some(left),
        };
        let sender = Sender::new(socket, &options);
        let sender = match spec.most_late {
            Some(most) => sender.making_up(most),
            None => sender,
        };
        sender.run_telling(&self.stop, &self.sent, after).map(drop)
    }

    /// Receives until [`UdpStream::end`]; `after` before it waits for more.
    pub(crate) fn receive(
        &self,
        socket: Socket,
        spec: &TestSpec,
        after: impl FnMut(),
    ) -> Result<(), SystemError> {
        // Paced datagrams are looked at one by one; a flood needs the kernel's help.
        let arrivals = if spec.rate.is_some() { Arrivals::Exact } else { Arrivals::Coalesced };
        let buffer = if spec.window.is_some() { Buffer::AsIs } else { Buffer::Wide };
        Receiver::new(socket, arrivals, buffer)?.run_telling(&self.stop, &self.tally, after)
    }
}

/// Forbids routers to fragment what `socket` sends.
pub(crate) fn forbid_fragments(socket: &Socket) -> Result<(), SystemError> {
    sys::set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO)
        .attempted(|| "cannot forbid fragments".into())
}

/// Makes a stream of a socket that is connected to the server: says hello until it is answered.
pub(crate) fn greet(socket: &Socket, within: Duration) -> Result<(), Error> {
    let what = || "cannot greet the server on a UDP stream".to_string();
    let begin = Instant::now();
    loop {
        match socket.send(&HELLO) {
            // An earlier hello was refused: the server may not listen yet.
            Err(e) if e.kind() != ErrorKind::ConnectionRefused => return Err(e).attempted(what)?,
            _ => {}
        }
        let again = Instant::now() + AGAIN;
        while let Some(left) = again.checked_duration_since(Instant::now()) {
            if begin.elapsed() >= within {
                return Err(Error::Timeout { what: "answer to a UDP stream's greeting", after: within });
            }
            if sys::wait_readable(socket, left.min(within)).attempted(what)?
                && is_answer(socket).attempted(what)?
            {
                return Ok(());
            }
        }
    }
}

/// Whether the next datagram is an answer; data that is already on its way is passed over.
fn is_answer(socket: &Socket) -> io::Result<bool> {
    let mut bytes = [0; 8];
    let mut from = socket;
    match from.read(&mut bytes) {
        Ok(n) => Ok(ANSWERS.iter().any(|answer| answer == &bytes[..n])),
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

/// Answers a client's hello.
pub(crate) fn answer(socket: &Socket) -> io::Result<()> {
    socket.send(&ANSWERS[0]).map(drop)
}

/// Answers again where a hello came again: the first answer was lost.
pub(crate) fn answer_again(socket: &Socket) -> io::Result<()> {
    if sys::wait_readable(socket, Duration::ZERO)? {
        let mut from = socket;
        // What it is does not matter, and an error tells of an answer that nobody took.
        if from.read(&mut [0; 8]).is_ok() {
            answer(socket)?;
        }
    }
    Ok(())
}
