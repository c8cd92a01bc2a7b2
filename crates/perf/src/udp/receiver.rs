//! Receives a stream of datagrams: many a call, with the kernel's times of arrival, so that it does not matter how late the
//! program looks. It looks as seldom as the socket's buffer allows, at least each millisecond.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::Socket;

use super::{
    Statistics, Tally,
    sys::{self, Inbox, Message, Wait},
};
use crate::{Error, Stop, error::Attempted};

/// How soon a stop is seen whatever happens to the socket.
const TIMEOUT: Duration = Duration::from_millis(100);
/// How long what has come before a stop is still read.
const DRAIN: Duration = Duration::from_millis(100);
/// The receive buffer asked for where the caller asks for none, bytes: 4 ms of 10 Gb/s in packets of 1500 bytes, which the kernel
/// charges with 2304.
const BUFFER: i32 = 8 << 20;
/// The longest time between two looks.
const MOST_NAP: Duration = Duration::from_millis(1);
/// The shortest that is worth sleeping.
const LEAST_NAP: Duration = Duration::from_micros(20);
/// Messages of one call where each is one datagram: their headers only, the rest is dropped uncopied (MSG_TRUNC).
const SINGLES: (usize, usize) = (sys::MOST_MESSAGES, 64);
/// Messages of one call where each is several datagrams.
const PIECES: (usize, usize) = (8, 1 << 16);

/// How arrivals are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// Each datagram with its own time.
    #[default]
    Exact,
    /// Datagrams that the kernel finds side by side come in one piece with one time (UDP_GRO, Linux 5.0): for streams as fast
    /// as it goes.
    Coalesced,
}

/// The receiving end of a stream.
#[derive(Debug)]
pub struct Receiver {
    socket: Socket,
    arrivals: Arrivals,
}

impl Receiver {
    /// Receives on a socket that is connected to the sender. Its receive buffer is widened; set one before and give `buffer` to
    /// keep it.
    ///
    /// # Errors
    /// Where the socket is none.
    pub fn new(socket: impl Into<Socket>, arrivals: Arrivals, buffer: Buffer) -> Result<Self, Error> {
        let socket = socket.into();
        let failed = || "cannot prepare the receiver's socket".to_string();
        sys::tell_arrivals(&socket).attempted(failed)?;
        if buffer == Buffer::Wide {
            sys::widen(&socket, BUFFER).attempted(failed)?;
        }
        // An older kernel gives single datagrams: the same with more work.
        let coalesces = arrivals == Arrivals::Coalesced && sys::coalesce(&socket).is_ok();
        socket.set_read_timeout(Some(TIMEOUT)).attempted(failed)?;
        let arrivals = if coalesces { Arrivals::Coalesced } else { Arrivals::Exact };
        Ok(Receiver { socket, arrivals })
    }

    /// Receives until `stop` is set, then what has come by then.
    ///
    /// # Errors
    /// Where the socket fails.
    pub fn run(self, stop: &Stop, tally: &Tally) -> Result<(), Error> {
        self.run_telling(stop, tally, || ())
    }

    /// The same; calls `after` before it waits for more.
    pub(crate) fn run_telling(
        self,
        stop: &Stop,
        tally: &Tally,
        mut after: impl FnMut(),
    ) -> Result<(), Error> {
        let failed = || "cannot receive datagrams".to_string();
        stop.watch(self.socket.try_clone().attempted(failed)?);
        sys::sleep_exactly();
        let buffer = self.socket.recv_buffer_size().attempted(failed)?;
        let mut naps = Naps::new(buffer);
        let (messages, each) = if self.arrivals == Arrivals::Coalesced { PIECES } else { SINGLES };
        let mut inbox = Inbox::new(messages, each);
        while !stop.is_set() {
            match inbox.receive(&self.socket, Wait::ForOne) {
                Ok(count) => {
                    let bytes = take(&inbox, count, &mut tally.lock());
                    naps.looked(bytes + count * MESSAGE_CHARGE, count == inbox.room());
                    after();
                }
                Err(e) if passes(&e) => {}
                Err(_) if stop.is_set() => break,
                Err(e) => return Err(e).attempted(failed),
            }
        }
        let until = Instant::now() + DRAIN;
        while let Ok(count) = inbox.receive(&self.socket, Wait::Never) {
            // A socket that was shut down gives empty messages for ever.
            let bytes = take(&inbox, count, &mut tally.lock());
            if bytes == 0 || Instant::now() > until {
                break;
            }
        }
        Ok(())
    }
}

/// What becomes of the socket's receive buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Buffer {
    /// As wide as a fast stream needs, as far as the machine lets us.
    #[default]
    Wide,
    /// As it is.
    AsIs,
}

/// An error after which the socket goes on: nothing came in time, or an earlier packet of ours was refused.
fn passes(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | TimedOut | ConnectionRefused)
}

/// Counts the messages of a call; returns their bytes.
fn take(inbox: &Inbox, count: usize, statistics: &mut Statistics) -> usize {
    let mut bytes = 0;
    for message in (0..count).map(|index| inbox.message(index)) {
        // Only an ancient kernel does not stamp.
        let now = message.stamp_ns.unwrap_or_else(sys::realtime_ns);
        if let Some(dropped) = message.dropped {
            let before = statistics.dropped_at_socket;
            statistics.dropped_at_socket += u64::from(dropped.wrapping_sub(before as u32));
        }
        for (datagram, length) in datagrams(&message) {
            statistics.take(datagram, length, now);
        }
        bytes += message.length;
    }
    bytes
}

/// The datagrams of a message, as far as they were kept, and their lengths.
fn datagrams<'a>(message: &Message<'a>) -> impl Iterator<Item = (&'a [u8], usize)> {
    let (bytes, length) = (message.bytes, message.length);
    // What a shut socket gives is none.
    let step = message.segment.unwrap_or(length).max(1);
    (0..length).step_by(step).map(move |start| {
        let end = (start + step).min(length);
        (&bytes[start.min(bytes.len())..end.min(bytes.len())], end - start)
    })
}

/// What the kernel charges a message with beside its bytes, about: packets of 1500 bytes with 2304, short ones with 768.
const MESSAGE_CHARGE: usize = 800;

/// How long the program lets datagrams gather between two looks: a quarter of the buffer may fill.
#[derive(Debug)]
struct Naps {
    /// A quarter of the buffer, bytes.
    enough: usize,
    nap: Duration,
    /// What was found since the last nap, bytes as the kernel charges them.
    since: usize,
}

impl Naps {
    fn new(buffer: usize) -> Self {
        Naps { enough: buffer / 4, nap: Duration::ZERO, since: 0 }
    }

    /// So many bytes were found; `more` may be there.
    fn looked(&mut self, charged: usize, more: bool) {
        self.since += charged;
        if more {
            return;
        }
        let found = std::mem::take(&mut self.since);
        self.nap = match found {
            _ if found > self.enough => self.nap / 4,
            _ if found > self.enough / 4 => self.nap,
            _ => (self.nap * 2).clamp(LEAST_NAP, MOST_NAP),
        };
        if self.nap >= LEAST_NAP {
            std::thread::sleep(self.nap);
        }
    }
}
