//! The applications at the ends of a TCP transfer. They behave as the lab's: the writer fills the socket (or
//! writes at a rate); the reader discards all that is readable (or reads at a rate, or pauses).

use std::ops::ControlFlow;

use scenario::TcpSpec;
use tcp::Endpoint;
use units::Instant;

use crate::pace::Pace;

/// Largest read.
const MAX_READ_BYTES: u64 = 512 * 1024;

/// The writing application.
#[derive(Debug)]
pub(crate) struct Writer {
    /// Bytes still to write, `pending` included.
    remaining: u64,
    pace: Option<Pace>,
    /// Largest write.
    write_bytes: u64,
    /// Remaining bytes of a write that the socket has not accepted in full.
    pending: u64,
    is_closed: bool,
}

impl Writer {
    pub(crate) fn new(tcp: &TcpSpec, now: Instant) -> Self {
        Writer {
            remaining: tcp.size.map_or(u64::MAX, |size| size.0),
            pace: tcp.write_rate.map(|rate| Pace::new(rate, now)),
            write_bytes: tcp.write_size.map_or(u64::from(::tcp::DEFAULT_WRITE_BYTES), |size| size.0),
            pending: 0,
            is_closed: false,
        }
    }

    /// Writes once, if possible. `Continue`: something was written; send the resulting segments, then call
    /// again. One write at a time, because a large buffer accepts tens of thousands of segments. `Break`:
    /// when to call again without another event.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: Instant) -> ControlFlow<Option<Instant>> {
        if self.remaining == 0 {
            if !self.is_closed {
                self.is_closed = true;
                endpoint.close(now.as_nanos());
            }
            return ControlFlow::Break(None);
        }
        if self.pending == 0 {
            match self.next_write(now) {
                Ok(bytes) => self.pending = bytes,
                Err(at) => return ControlFlow::Break(Some(at)),
            }
        }
        if !endpoint.can_write() {
            return ControlFlow::Break(None);
        }
        let written = endpoint.write(now.as_nanos(), self.pending).min(self.pending);
        if written == 0 {
            return ControlFlow::Break(None);
        }
        self.pending -= written;
        self.remaining -= written;
        if let Some(pace) = &mut self.pace {
            pace.spend(written);
        }
        ControlFlow::Continue(())
    }

    /// True once all bytes are written.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.remaining == 0
    }

    fn next_write(&self, now: Instant) -> Result<u64, Instant> {
        let max_bytes = self.write_bytes;
        let allowed = self.pace.as_ref().map_or(Ok(max_bytes), |pace| pace.allowed(now, max_bytes))?;
        Ok(allowed.min(self.remaining))
    }
}

/// The reading application.
#[derive(Debug)]
pub(crate) struct Reader {
    pace: Option<Pace>,
    rate: Option<units::BitRate>,
    pause: Option<(Instant, Option<Instant>)>,
    /// Application bytes read so far.
    pub(crate) received: u64,
}

impl Reader {
    pub(crate) fn new(tcp: &TcpSpec, now: Instant) -> Self {
        let pause = match (tcp.reader_stops, tcp.reader_resumes) {
            (None, None) => None,
            (stops, resumes) => Some((stops.unwrap_or_default(), resumes)),
        };
        Reader {
            pace: tcp.read_rate.map(|rate| Pace::new(rate, now)),
            rate: tcp.read_rate,
            // A pause that ended before the flow started does not apply to it.
            pause: pause.filter(|(_, until)| until.is_none_or(|until| until > now)),
            received: 0,
        }
    }

    /// Reads the data that the rate and the pause allow. Returns when to call again without another event.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: Instant) -> Option<Instant> {
        if let Some((from, until)) = self.pause
            && now >= from
        {
            if until.is_none_or(|until| now < until) {
                return until;
            }
            self.pause = None;
            // A paced reader does not catch up on the pause.
            self.pace = self.rate.map(|rate| Pace::new(rate, now));
        }
        while endpoint.readable() > 0 {
            let max =
                match self.pace.as_ref().map_or(Ok(MAX_READ_BYTES), |pace| pace.allowed(now, MAX_READ_BYTES))
                {
                    Ok(max) => max,
                    Err(at) => return Some(at),
                };
            let read = endpoint.read(now.as_nanos(), max);
            if read == 0 {
                break;
            }
            self.received += read;
            if let Some(pace) = &mut self.pace {
                pace.spend(read);
            }
        }
        None
    }
}
