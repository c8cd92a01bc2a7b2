//! Sends a stream of datagrams: as fast as it goes, or each at its exact time.
//!
//! Times are those of a schedule that begins with the stream, so that no lateness adds up. What is late goes at once and in one
//! call; what is later than is to be made up for is given up, and the schedule moves: nothing floods the path because the
//! machine stood still for a second.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use datagrams::{Draws, Source, SourcePlan};
use hdrhistogram::Histogram;
use socket2::Socket;
use units::{BitRate, Time};

use super::{
    Numbers,
    alarm::Watch,
    batch::Batch,
    schedule::{Due, Schedule},
    sys,
};
use crate::{Error, Stop, error::Attempted};

/// Lateness that is made up for, where nothing else is said.
const MOST_LATE: Duration = Duration::from_millis(100);
/// How long a sender waits where a device's queue is full and the kernel does not wait for it (ENOBUFS).
const FULL_NAP: Duration = Duration::from_micros(50);
/// Calls that may fail one after the other. An error may tell of an earlier datagram, by ICMP: that the path's MTU is smaller, or
/// that nobody listens there yet.
const MOST_REFUSALS: u32 = 3;

/// What a sender sends.
#[derive(Debug, Clone, Default)]
pub struct SenderOptions {
    /// Payload of a datagram, header included, bytes: from the header's size (16 B at most) to 65,507.
    pub block: u32,
    /// Payload a second; `None`: as fast as it goes.
    pub rate: Option<BitRate>,
    /// Datagrams that are sent back to back where there is a rate; 0 is one.
    pub burst: u32,
    /// How wide the numbers are.
    pub numbers: Numbers,
    /// How many datagrams are still to be sent, by all streams that share it; `None`: until stopped.
    pub left: Option<Arc<AtomicU64>>,
}

/// What a sender has sent so far, readable at any time.
#[derive(Debug, Default)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: AtomicU64,
    /// Their payload, bytes.
    pub bytes: AtomicU64,
}

/// How well a sender kept to its schedule.
#[derive(Debug, Clone)]
pub struct SendEnd {
    /// How late datagrams were handed to the kernel, ns, to two digits; empty where there was no schedule.
    pub late: Histogram<u64>,
    /// By how much the schedule was moved as the machine stood still for longer than is made up for.
    pub given_up: Duration,
}

/// The sending end of a stream.
#[derive(Debug)]
pub struct Sender {
    wire: Wire,
    next: Next,
    most_late: Duration,
    watch: Watch,
    paused: Arc<AtomicU64>,
}

/// What comes next.
#[derive(Debug)]
enum Next {
    /// At once.
    Now { block: usize, left: Option<Arc<AtomicU64>> },
    /// As its schedule says.
    Due { source: Box<Source>, left: Option<Arc<AtomicU64>> },
}

impl Sender {
    /// Sends on a connected socket.
    pub fn new(socket: impl Into<Socket>, options: &SenderOptions) -> Self {
        let (socket, left) = (socket.into(), options.left.clone());
        let block = options.block.max(options.numbers.header_bytes() as u32);
        let batch = Batch::new(&socket, block as usize, options.numbers);
        let next = match options.rate {
            None => Next::Now { block: block as usize, left },
            Some(rate) => {
                let plan =
                    SourcePlan { rate, payload: block, together: options.burst, ..SourcePlan::default() };
                Next::Due { source: Box::new(Source::new(&plan, Draws::new(0, 0), Time(0))), left }
            }
        };
        Self::of(socket, batch, next)
    }

    /// Sends what `source` says, with numbers of 64 bits, on a connected socket. The source's time 0 is when it runs.
    /// Datagrams without room for their header are sent with as much as that takes.
    pub fn of_source(socket: impl Into<Socket>, source: Source) -> Self {
        let (socket, numbers) = (socket.into(), Numbers::Bits64);
        let batch = Batch::new(&socket, source.payload() as usize, numbers);
        let next = Next::Due { source: Box::new(source), left: None };
        Self::of(socket, batch, next)
    }

    fn of(socket: Socket, batch: Batch, next: Next) -> Self {
        let wire = Wire { socket, batch, refusals: 0 };
        Sender { wire, next, most_late: MOST_LATE, watch: Watch::AsNeeded, paused: Arc::default() }
    }

    /// Makes up for lateness of up to `most` (100 ms unless said), by what is then a burst, and gives more up.
    #[must_use]
    pub fn making_up(self, most: Duration) -> Self {
        Sender { most_late: most, ..self }
    }

    /// Says how much of its waits it watches the clock.
    #[must_use]
    pub fn watching(self, watch: Watch) -> Self {
        Sender { watch, ..self }
    }

    /// Stands still with what it sends to: `paused` is for how long that has stood still so far, nanoseconds.
    #[must_use]
    pub fn pausing(self, paused: Arc<AtomicU64>) -> Self {
        Sender { paused, ..self }
    }

    /// Sends until all is sent or `stop` is set.
    ///
    /// # Errors
    /// Where the socket refuses to send: the datagrams are too long, or the network is unreachable. That nobody listens there is
    /// no error: UDP does not care.
    pub fn run(self, stop: &Stop, sent: &Sent) -> Result<SendEnd, Error> {
        self.run_telling(stop, sent, || ())
    }

    /// The same; calls `after` each time that something was sent.
    pub(crate) fn run_telling(
        self,
        stop: &Stop,
        sent: &Sent,
        mut after: impl FnMut(),
    ) -> Result<SendEnd, Error> {
        let Sender { mut wire, next, most_late, watch, paused } = self;
        stop.watch(wire.socket.try_clone().attempted(|| "cannot duplicate the sender's socket".into())?);
        let mut end = SendEnd::new();
        match next {
            Next::Now { block, left } => flood(&mut wire, block, left.as_deref(), stop, sent, after)?,
            Next::Due { source, left } => {
                let mut schedule = Schedule::new(*source, left.as_deref(), most_late, watch, &paused);
                while let Some(due) = schedule.wait(wire.batch.room(), stop, &mut end) {
                    if !wire.send(due, stop, sent)? {
                        break;
                    }
                    after();
                }
            }
        }
        Ok(end)
    }
}

impl SendEnd {
    /// Nothing was late yet.
    pub(super) fn new() -> Self {
        // From a nanosecond on, at least twice that, with at most five digits: then it cannot fail.
        let late = Histogram::new_with_bounds(1, 1_000_000_000, 2).expect("these bounds are valid");
        SendEnd { late, given_up: Duration::ZERO }
    }
}

/// Sends at once what is left, or without end.
fn flood(
    wire: &mut Wire,
    block: usize,
    left: Option<&AtomicU64>,
    stop: &Stop,
    sent: &Sent,
    mut after: impl FnMut(),
) -> Result<(), Error> {
    while !stop.is_set() {
        let count = claim(left, wire.batch.room());
        if count == 0 || !wire.send(Due { count, block, last: block }, stop, sent)? {
            break;
        }
        after();
    }
    Ok(())
}

/// A socket and what is sent on it.
#[derive(Debug)]
struct Wire {
    socket: Socket,
    batch: Batch,
    /// Calls that failed since one went well.
    refusals: u32,
}

impl Wire {
    /// Sends what is due; false where it was stopped meanwhile.
    fn send(&mut self, due: Due, stop: &Stop, sent: &Sent) -> Result<bool, Error> {
        let Due { mut count, block, last } = due;
        while count > 0 {
            let before = sent.datagrams.load(Ordering::Relaxed);
            match self.batch.send(&self.socket, before + 1, count, last, sys::realtime_ns()) {
                Ok(went) => {
                    self.refusals = 0;
                    count -= went;
                    let bytes = went * block - if count == 0 { block - last } else { 0 };
                    sent.datagrams.store(before + went as u64, Ordering::Relaxed);
                    sent.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(_) if stop.is_set() => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => std::thread::sleep(FULL_NAP),
                Err(_) if self.refusals < MOST_REFUSALS => self.refusals += 1,
                Err(e) => return Err(e).attempted(|| format!("cannot send after {before} datagrams")),
            }
        }
        Ok(true)
    }
}

/// Takes up to `most` of what is left.
pub(super) fn claim(left: Option<&AtomicU64>, most: usize) -> usize {
    let Some(left) = left else { return most };
    let take = |left: u64| Some(left - left.min(most as u64));
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
    before.min(most as u64) as usize
}
