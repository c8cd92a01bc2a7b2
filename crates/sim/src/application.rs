//! The applications at the ends of a transfer, as the lab's are: one writes as much as the socket takes (or at a rate), the
//! other reads all there is (or at a rate, with a pause) and throws it away.

use std::ops::ControlFlow;

use scenario::Tcp;
use tcp::Endpoint;
use units::Time;

use crate::pace::Pace;

/// One write at most.
const WRITE_BYTES: u64 = 64 * 1024;
/// One read at most.
const READ_BYTES: u64 = 512 * 1024;

/// The writing application.
#[derive(Debug)]
pub(crate) struct Writer {
    left: u64,
    pace: Option<Pace>,
    /// Of a write that the socket has not taken whole.
    pending: u64,
    closed: bool,
}

impl Writer {
    pub(crate) fn new(tcp: &Tcp, now: Time) -> Self {
        Writer {
            left: tcp.size.map_or(u64::MAX, |size| size.0),
            pace: tcp.write_rate.map(|rate| Pace::new(rate, now)),
            pending: 0,
            closed: false,
        }
    }

    /// Writes once, if it may; to be called again where that did something, when the segments that followed have been sent:
    /// a large buffer takes tens of thousands at once. Otherwise it tells when it wants to write by itself again.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: Time) -> ControlFlow<Option<Time>> {
        if self.left == 0 {
            if !self.closed {
                self.closed = true;
                endpoint.close(now.0);
            }
            return ControlFlow::Break(None);
        }
        if self.pending == 0 {
            match self.next_write(now) {
                Ok(bytes) => self.pending = bytes,
                Err(at) => return ControlFlow::Break(Some(at)),
            }
        }
        if endpoint.writable() == 0 {
            return ControlFlow::Break(None);
        }
        let taken = endpoint.write(now.0, self.pending).min(self.pending);
        if taken == 0 {
            return ControlFlow::Break(None);
        }
        self.pending -= taken;
        self.left -= taken;
        if let Some(pace) = &mut self.pace {
            pace.spend(taken);
        }
        ControlFlow::Continue(())
    }

    /// Whether all was written.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    fn next_write(&self, now: Time) -> Result<u64, Time> {
        let allowed = self.pace.as_ref().map_or(Ok(WRITE_BYTES), |pace| pace.allowed(now, WRITE_BYTES))?;
        Ok(allowed.min(self.left))
    }
}

/// The reading application.
#[derive(Debug)]
pub(crate) struct Reader {
    pace: Option<Pace>,
    rate: Option<units::BitRate>,
    pause: Option<(Time, Option<Time>)>,
    /// Application bytes read so far.
    pub(crate) received: u64,
}

impl Reader {
    pub(crate) fn new(tcp: &Tcp, now: Time) -> Self {
        let pause = match (tcp.reader_stops, tcp.reader_resumes) {
            (None, None) => None,
            (stops, resumes) => Some((stops.unwrap_or_default(), resumes)),
        };
        Reader {
            pace: tcp.read_rate.map(|rate| Pace::new(rate, now)),
            rate: tcp.read_rate,
            // What was over before the flow began is no pause of it.
            pause: pause.filter(|(_, until)| until.is_none_or(|until| until > now)),
            received: 0,
        }
    }

    /// Reads what it may. Tells when it wants to read by itself again.
    pub(crate) fn work(&mut self, endpoint: &mut Endpoint, now: Time) -> Option<Time> {
        if let Some((from, until)) = self.pause
            && now >= from
        {
            if until.is_none_or(|until| now < until) {
                return until;
            }
            self.pause = None;
            // Whoever reads slowly does not make up for the pause.
            self.pace = self.rate.map(|rate| Pace::new(rate, now));
        }
        while endpoint.readable() > 0 {
            let most = match self.pace.as_ref().map_or(Ok(READ_BYTES), |pace| pace.allowed(now, READ_BYTES)) {
                Ok(most) => most,
                Err(at) => return Some(at),
            };
            let read = endpoint.read(now.0, most);
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
