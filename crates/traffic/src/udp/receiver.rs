//! Receives a stream of datagrams: many per call, with the kernel's times of arrival, so that the time
//! of the read call does not matter. The receiver reads as rarely as the socket's buffer allows, but at least
//! every millisecond.

use std::{
    io,
    time::{Duration, Instant},
};

use socket2::Socket;

use super::{
    ReceiverStatistics, SharedStatistics,
    mmsg::{self, MessageBuffers, ReceivedMessage, WaitMode},
};
use crate::{Attempted, Error, Stop, sys};

/// Maximum time until a stop takes effect, whatever happens to the socket.
const READ_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum time for reading datagrams that arrived before a stop.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The default receive buffer, bytes: 4 ms at 10 Gb/s in packets of 1500 bytes; the kernel charges 2304 bytes
/// for each packet.
const RECEIVE_BUFFER_BYTES: i32 = 8 << 20;
/// Maximum time between two reads.
const MAX_SLEEP: Duration = Duration::from_millis(1);
/// Shorter sleeps are not worth their cost.
const MIN_SLEEP: Duration = Duration::from_micros(20);
/// Messages of one call, and bytes of each, if each is one datagram: the payload is discarded without copying
/// (MSG_TRUNC).
const SINGLE_MESSAGES: (usize, usize) = (mmsg::MAX_MESSAGES, 64);
/// Messages of one call, and bytes of each, if each has several datagrams.
const COALESCED_MESSAGES: (usize, usize) = (8, 1 << 16);

/// The resolution of arrival times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArrivalTimes {
    /// Each datagram has its own time.
    #[default]
    Exact,
    /// Consecutive datagrams that the kernel coalesces have one time (UDP_GRO, Linux 5.0): for streams
    /// without a rate.
    Coalesced,
}

/// The receiving end of a stream.
#[derive(Debug)]
pub struct Receiver {
    socket: Socket,
    arrivals: ArrivalTimes,
}

impl Receiver {
    /// Receives on a socket that is connected to the sender.
    ///
    /// # Errors
    /// If an option cannot be set.
    pub fn new(
        socket: impl Into<Socket>,
        arrivals: ArrivalTimes,
        buffer: ReceiveBuffer,
    ) -> Result<Self, Error> {
        let socket = socket.into();
        let failed = || "prepare the receiver's socket".to_string();
        mmsg::enable_arrival_metadata(&socket).attempted(failed)?;
        if buffer == ReceiveBuffer::Wide {
            sys::widen_receive_buffer(&socket, RECEIVE_BUFFER_BYTES).attempted(failed)?;
        }
        // An older kernel returns single datagrams: the same result for more processor time.
        let coalesces = arrivals == ArrivalTimes::Coalesced && mmsg::coalesce(&socket).is_ok();
        socket.set_read_timeout(Some(READ_TIMEOUT)).attempted(failed)?;
        let arrivals = if coalesces { ArrivalTimes::Coalesced } else { ArrivalTimes::Exact };
        Ok(Receiver { socket, arrivals })
    }

    /// Receives until `stop` is set, including everything that has arrived by then.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn run(self, stop: &Stop, statistics: &SharedStatistics) -> Result<(), Error> {
        self.run_observed(stop, statistics, || ())
    }

    /// Like [`Receiver::run`], and calls `after` each time before it waits for more.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn run_observed(
        self,
        stop: &Stop,
        statistics: &SharedStatistics,
        mut after: impl FnMut(),
    ) -> Result<(), Error> {
        let failed = || "receive datagrams".to_string();
        stop.watch(self.socket.try_clone().attempted(failed)?);
        os::reduce_timer_slack();
        let buffer = self.socket.recv_buffer_size().attempted(failed)?;
        let mut sleep = AdaptiveSleep::new(buffer);
        let (messages, each) =
            if self.arrivals == ArrivalTimes::Coalesced { COALESCED_MESSAGES } else { SINGLE_MESSAGES };
        let mut buffers = MessageBuffers::new(messages, each);
        while !stop.is_set() {
            match buffers.receive(&self.socket, WaitMode::ForFirst) {
                Ok(count) => {
                    let bytes = take(&buffers, count, &mut statistics.lock());
                    sleep.after_read(bytes + count * MESSAGE_CHARGE, count == buffers.capacity());
                    after();
                }
                Err(e) if is_transient(&e) => {}
                Err(_) if stop.is_set() => break,
                Err(e) => return Err(e).attempted(failed),
            }
        }
        let until = Instant::now() + DRAIN_TIMEOUT;
        while let Ok(count) = buffers.receive(&self.socket, WaitMode::Never) {
            // A socket that was shut down returns empty messages forever.
            let bytes = take(&buffers, count, &mut statistics.lock());
            if bytes == 0 || Instant::now() > until {
                break;
            }
        }
        Ok(())
    }
}

/// The size of the socket's receive buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReceiveBuffer {
    /// As large as a fast stream needs, or the machine's limit.
    #[default]
    Wide,
    /// As the caller has set it.
    Unchanged,
}

/// True if the socket is usable after this error: nothing arrived in time, or an earlier packet of ours was
/// rejected.
fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | TimedOut | ConnectionRefused)
}

/// Counts the messages of a call; returns their bytes.
fn take(buffers: &MessageBuffers, count: usize, statistics: &mut ReceiverStatistics) -> usize {
    let mut bytes = 0;
    for message in (0..count).map(|index| buffers.message(index)) {
        // Only very old kernels give no timestamp.
        let now = message.stamp_ns.unwrap_or_else(os::realtime_ns);
        if let Some(dropped) = message.dropped {
            let before = statistics.dropped_at_socket;
            statistics.dropped_at_socket += u64::from(dropped.wrapping_sub(before as u32));
        }
        for (datagram, length) in datagrams(&message) {
            statistics.record(datagram, length, now);
        }
        bytes += message.length;
    }
    bytes
}

/// The datagrams of a message, truncated to the received bytes, and their lengths.
fn datagrams<'a>(message: &ReceivedMessage<'a>) -> impl Iterator<Item = (&'a [u8], usize)> {
    let (bytes, length) = (message.bytes, message.length);
    // An empty message of a socket that was shut down contains no datagram.
    let step = message.segment.unwrap_or(length).max(1);
    (0..length).step_by(step).map(move |start| {
        let end = (start + step).min(length);
        (&bytes[start.min(bytes.len())..end.min(bytes.len())], end - start)
    })
}

/// Approximate memory that the kernel charges per message in addition to its bytes: 2304 for packets of 1500
/// bytes, short ones 768.
const MESSAGE_CHARGE: usize = 800;

/// Adapts the time between two reads, so that at most a quarter of the buffer fills.
#[derive(Debug)]
struct AdaptiveSleep {
    /// A quarter of the buffer, bytes.
    target: usize,
    sleep: Duration,
    /// Bytes read since the last sleep, as the kernel charges them.
    since: usize,
}

impl AdaptiveSleep {
    fn new(buffer: usize) -> Self {
        AdaptiveSleep { target: buffer / 4, sleep: Duration::ZERO, since: 0 }
    }

    /// Sleeps after a read of `charged` bytes, unless there may be `more`.
    fn after_read(&mut self, charged: usize, more: bool) {
        self.since += charged;
        if more {
            return;
        }
        let found = std::mem::take(&mut self.since);
        self.sleep = match found {
            _ if found > self.target => self.sleep / 4,
            _ if found > self.target / 4 => self.sleep,
            _ => (self.sleep * 2).clamp(MIN_SLEEP, MAX_SLEEP),
        };
        if self.sleep >= MIN_SLEEP {
            std::thread::sleep(self.sleep);
        }
    }
}
