//! Sends a stream of datagrams: as fast as possible, or each at its exact time.
//!
//! The schedule counts from the start of the stream, so that lateness does not accumulate. Late datagrams are
//! sent immediately and in one call. Lateness beyond a maximum is skipped: the schedule moves by the excess,
//! so that the sender does not flood the path after the machine stalled for a second.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use datagrams::{DatagramSource, Draws, SourcePlan};
use socket2::Socket;
use units::{BitRate, Instant};

use super::{
    NumberWidth,
    batch::Batch,
    precise_timer::SpinPolicy,
    schedule::{Due, Schedule},
    send_summary::{SendSummary, claim},
};
use crate::{Attempted, Error, Stop};

/// Default maximum lateness that a burst catches up.
const MAX_LATENESS: Duration = Duration::from_millis(100);
/// Time for which a sender waits if a device's queue is full and the kernel does not block (ENOBUFS).
const QUEUE_FULL_PAUSE: Duration = Duration::from_micros(50);
/// Maximum consecutive failed calls. An error may report an earlier datagram's ICMP message: the path's MTU
/// is smaller, or nothing listens at the port yet.
const MAX_CONSECUTIVE_ERRORS: u32 = 3;

/// Options of a sender.
#[derive(Debug, Clone, Default)]
pub struct SenderOptions {
    /// Payload of a datagram, header included, bytes: from the header's size (16 B at most) to 65,507.
    pub block: u32,
    /// Payload bits per second; `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// With a rate: datagrams that are sent back to back; 0 means 1.
    pub burst: u32,
    /// The width of the numbers.
    pub numbers: NumberWidth,
    /// Number of datagrams that all streams which share this counter still have to send; `None`: until
    /// stopped.
    pub remaining: Option<Arc<AtomicU64>>,
}

/// Counters of a sender, readable at any time.
#[derive(Debug, Default)]
pub struct SentCounts {
    /// Datagrams.
    pub datagrams: AtomicU64,
    /// Their payload, bytes.
    pub bytes: AtomicU64,
}

/// The sending end of a stream.
#[derive(Debug)]
pub struct Sender {
    batch_sender: BatchSender,
    timing: Timing,
    max_lateness: Duration,
    spin_policy: SpinPolicy,
    paused: Arc<AtomicU64>,
}

/// When datagrams are sent.
#[derive(Debug)]
enum Timing {
    /// As fast as possible.
    Flood { block: usize, remaining: Option<Arc<AtomicU64>> },
    /// At the times that a source determines.
    Scheduled { source: Box<DatagramSource>, remaining: Option<Arc<AtomicU64>> },
}

impl Sender {
    /// Sends on a connected socket.
    pub fn new(socket: impl Into<Socket>, options: &SenderOptions) -> Self {
        let (socket, remaining) = (socket.into(), options.remaining.clone());
        let block = options.block.max(options.numbers.header_bytes() as u32);
        let batch = Batch::new(&socket, block as usize, options.numbers);
        let timing = match options.rate {
            None => Timing::Flood { block: block as usize, remaining },
            Some(rate) => {
                let plan =
                    SourcePlan { rate, payload: block, back_to_back: options.burst, ..SourcePlan::default() };
                Timing::Scheduled {
                    source: Box::new(DatagramSource::new(&plan, Draws::new(0, 0), Instant::ZERO)),
                    remaining,
                }
            }
        };
        Self::of(socket, batch, timing)
    }

    /// Sends the datagrams of `source`, with 64-bit numbers, on a connected socket. The source's time 0 is
    /// the start of the sender. Datagrams shorter than their header are sent with the header's length.
    pub fn from_source(socket: impl Into<Socket>, source: DatagramSource) -> Self {
        let (socket, numbers) = (socket.into(), NumberWidth::Bits64);
        let batch = Batch::new(&socket, source.payload() as usize, numbers);
        let timing = Timing::Scheduled { source: Box::new(source), remaining: None };
        Self::of(socket, batch, timing)
    }

    fn of(socket: Socket, batch: Batch, timing: Timing) -> Self {
        let batch_sender = BatchSender { socket, batch, consecutive_errors: 0 };
        Sender {
            batch_sender,
            timing,
            max_lateness: MAX_LATENESS,
            spin_policy: SpinPolicy::AsNeeded,
            paused: Arc::default(),
        }
    }

    /// Catches up lateness of up to `max_lateness` (default 100 ms) with a burst; skips any excess.
    #[must_use]
    pub fn with_max_lateness(self, max_lateness: Duration) -> Self {
        Sender { max_lateness, ..self }
    }

    /// Sets how much of its waits it spends spinning on the clock.
    #[must_use]
    pub fn with_spin_policy(self, spin_policy: SpinPolicy) -> Self {
        Sender { spin_policy, ..self }
    }

    /// Pauses the schedule together with the destination: `paused` is the total time of its pauses so far,
    /// ns.
    #[must_use]
    pub fn with_pauses(self, paused: Arc<AtomicU64>) -> Self {
        Sender { paused, ..self }
    }

    /// Sends until all is sent or `stop` is set.
    ///
    /// # Errors
    /// If the socket refuses to send: the datagrams are too long, or the network is unreachable. A closed
    /// destination port is not an error.
    pub fn run(self, stop: &Stop, sent: &SentCounts) -> Result<SendSummary, Error> {
        self.run_observed(stop, sent, || ())
    }

    /// Like [`Sender::run`], and calls `after` each time after it has sent datagrams.
    ///
    /// # Errors
    /// See [`Sender::run`].
    pub fn run_observed(
        self,
        stop: &Stop,
        sent: &SentCounts,
        mut after: impl FnMut(),
    ) -> Result<SendSummary, Error> {
        let Sender { mut batch_sender, timing, max_lateness, spin_policy, paused } = self;
        stop.watch(batch_sender.socket.try_clone().attempted(|| "duplicate the sender's socket".into())?);
        let mut summary = SendSummary::new();
        match timing {
            Timing::Flood { block, remaining } => {
                flood(&mut batch_sender, block, remaining.as_deref(), stop, sent, after)?
            }
            Timing::Scheduled { source, remaining } => {
                let mut schedule =
                    Schedule::new(*source, remaining.as_deref(), max_lateness, spin_policy, &paused);
                while let Some(due) = schedule.wait(batch_sender.batch.capacity(), stop, &mut summary) {
                    if !batch_sender.send(due, stop, sent)? {
                        break;
                    }
                    after();
                }
            }
        }
        Ok(summary)
    }
}

/// Sends the remaining datagrams, or without end, as fast as possible.
fn flood(
    batch_sender: &mut BatchSender,
    block: usize,
    remaining: Option<&AtomicU64>,
    stop: &Stop,
    sent: &SentCounts,
    mut after: impl FnMut(),
) -> Result<(), Error> {
    while !stop.is_set() {
        let count = claim(remaining, batch_sender.batch.capacity());
        if count == 0 || !batch_sender.send(Due { count, block, last: block }, stop, sent)? {
            break;
        }
        after();
    }
    Ok(())
}

/// A socket with its batch.
#[derive(Debug)]
struct BatchSender {
    socket: Socket,
    batch: Batch,
    /// Failed calls since the last successful one.
    consecutive_errors: u32,
}

impl BatchSender {
    /// Sends the due datagrams; false if it was stopped meanwhile.
    fn send(&mut self, due: Due, stop: &Stop, sent: &SentCounts) -> Result<bool, Error> {
        let Due { mut count, block, last } = due;
        while count > 0 {
            let before = sent.datagrams.load(Ordering::Relaxed);
            match self.batch.send(&self.socket, before + 1, count, last, os::realtime_ns()) {
                Ok(accepted) => {
                    self.consecutive_errors = 0;
                    count -= accepted;
                    let bytes = accepted * block - if count == 0 { block - last } else { 0 };
                    sent.datagrams.store(before + accepted as u64, Ordering::Relaxed);
                    sent.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
                Err(_) if stop.is_set() => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => std::thread::sleep(QUEUE_FULL_PAUSE),
                Err(_) if self.consecutive_errors < MAX_CONSECUTIVE_ERRORS => self.consecutive_errors += 1,
                Err(e) => return Err(e).attempted(|| format!("send after {before} datagrams")),
            }
        }
        Ok(true)
    }
}
