//! One data stream and the thread that sends or receives on it.

use std::{
    io,
    net::Shutdown,
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use socket2::Socket;
use watch::TcpInfo;

use crate::{
    Error,
    error::Attempted,
    iperf3::{
        looking::Looking,
        pace::Pace,
        payload::{READ_BYTES, Sink, Source},
        shared::Shared,
        udp_stream::UdpStream,
        wakes::Wakes,
    },
    report::{Datagrams, Protocol, TestSpec},
    sys,
};

/// One write at most where buffers are set by hand: Linux 6.18 looks at the send buffer's limit about once a call, so larger
/// writes exceed a small one several times over.
const WRITE_BYTES: usize = 64 << 10;
/// A sender that waits for its turn looks this often whether it is to stop.
const NAP: Duration = Duration::from_millis(20);

/// A connected stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// iperf3's number: 1, 3, 4, 5, ...
    pub(crate) id: u32,
    /// This end sends on it.
    pub(crate) sends: bool,
    pub(crate) socket: Socket,
    /// Payload sent or received so far; of a UDP stream its engine counts.
    bytes: AtomicU64,
    /// When a TCP receiver read last, microseconds since the data began.
    received_us: AtomicU64,
    pub(crate) udp: Option<UdpStream>,
    pub(crate) looking: Looking,
}

/// What is known of a stream at one instant, since its begin.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    pub(crate) bytes: u64,
    /// At the sender of a TCP stream.
    pub(crate) tcp: Option<TcpInfo>,
    pub(crate) udp: Option<Datagrams>,
}

impl Stream {
    pub(crate) fn new(number: u32, sends: bool, socket: Socket, spec: &TestSpec) -> Self {
        let udp = (spec.protocol == Protocol::Udp).then(|| UdpStream::new(spec));
        let (bytes, received_us) = (AtomicU64::new(0), AtomicU64::new(0));
        let looking = Looking::new(None, udp.is_some());
        Stream { id: stream_id(number), sends, socket, bytes, received_us, udp, looking }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.udp.as_ref().map_or_else(|| self.bytes.load(Ordering::Relaxed), |udp| udp.bytes(self.sends))
    }

    /// When a TCP receiver read last, time since the data began.
    pub(crate) fn received_at(&self) -> Duration {
        Duration::from_micros(self.received_us.load(Ordering::Relaxed))
    }

    /// Looks at the stream. A socket that is gone has no TCP_INFO any more.
    pub(crate) fn look(&self) -> Look {
        if let Some(udp) = &self.udp {
            return Look { bytes: self.bytes(), tcp: None, udp: Some(udp.datagrams(self.sends)) };
        }
        let tcp = self.sends.then(|| watch::tcp_info(self.socket.as_fd()).ok()).flatten();
        Look { bytes: self.bytes(), tcp, udp: None }
    }

    /// True once all that was sent is acknowledged; also where that cannot be told any more.
    pub(crate) fn is_acknowledged(&self) -> bool {
        !self.sends
            || self.udp.is_some()
            || sys::unacknowledged(&self.socket).map_or(true, |bytes| bytes == 0)
    }

    /// Wakes whoever blocks: a receiver still takes what has come, a sender's data still goes.
    pub(crate) fn end(&self) {
        if let Some(udp) = &self.udp {
            return udp.end();
        }
        // A socket that is not connected any more has nobody left to wake.
        let _ = self.socket.shutdown(if self.sends { Shutdown::Write } else { Shutdown::Read });
    }

    /// Lets the kernel forget what is not delivered when the socket is closed: nobody reads it any more.
    pub(crate) fn forget(&self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sends or receives until the test is over.
    pub(crate) fn run(&self, spec: &TestSpec, shared: &Shared) -> Result<(), Error> {
        let Some(udp) = &self.udp else {
            return if self.sends { self.send(spec, shared) } else { self.receive(spec, shared) };
        };
        let socket = self.socket.try_clone().attempted(|| format!("cannot duplicate stream {}", self.id))?;
        let after = || self.looking.after(self, shared);
        match self.sends {
            true => udp.send(socket, spec, shared.datagrams_left(), after),
            false => udp.receive(socket, spec, after),
        }
    }

    fn send(&self, spec: &TestSpec, shared: &Shared) -> Result<(), Error> {
        let block = usize::try_from(spec.block.0).unwrap_or(WRITE_BYTES);
        let mut source = Source::new(block, spec)?;
        let piece = if spec.window.is_some() { WRITE_BYTES } else { block };
        let mut pace = spec.rate.map(|rate| Pace::new(rate, block, spec.burst, Instant::now()));
        while !shared.sending_is_over() {
            if let Some(wait) = pace.as_ref().map(|pace| pace.wait(Instant::now()))
                && !wait.is_zero()
            {
                std::thread::sleep(wait.min(NAP));
                continue;
            }
            let len = source.next(shared.take(block))?;
            if len == 0 {
                if source.is_finite() {
                    // The test is over where the first stream has sent all of its file, as iperf3's is.
                    shared.limit_sending(0, 1);
                }
                break;
            }
            let mut sent = 0;
            while sent < len {
                self.looking.before_sending(self, shared);
                match source.send(&self.socket, sent, piece.min(len - sent)) {
                    // The file became shorter.
                    Ok(0) => break,
                    Ok(n) => {
                        sent += n;
                        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
                        self.looking.after_sending(shared);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) if shared.sending_is_over() => return Ok(()),
                    Err(e) => return Err(e).attempted(|| format!("cannot send on stream {}", self.id)),
                }
            }
            if let Some(pace) = &mut pace {
                pace.spend(len);
            }
        }
        Ok(())
    }

    fn receive(&self, spec: &TestSpec, shared: &Shared) -> Result<(), Error> {
        let mut sink = Sink::new(spec)?;
        let mut wakes = Wakes::new();
        // What had come when the test was over is still taken, and no more.
        let mut rest = None;
        loop {
            if rest.is_none() && shared.is_over() {
                rest = Some(sys::unread(&self.socket).unwrap_or(0));
            }
            let most = rest.unwrap_or(READ_BYTES).min(READ_BYTES);
            if most == 0 {
                return Ok(());
            }
            match sink.receive(&self.socket, most) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    sink.keep(n)?;
                    self.received_us.store(shared.now_us(), Ordering::Relaxed);
                    self.bytes.fetch_add(n as u64, Ordering::Relaxed);
                    shared.count_received(n as u64);
                    self.looking.after(self, shared);
                    wakes.read(&self.socket, n);
                    rest = rest.map(|rest| rest - n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => wakes.waited(&self.socket),
                Err(_) if shared.is_over() => return Ok(()),
                Err(e) => return Err(e).attempted(|| format!("cannot receive on stream {}", self.id)),
            }
        }
    }
}

/// The number of the stream that was made as the `number`th, from 0. 2 is left out, as in iperf3.
pub(crate) fn stream_id(number: u32) -> u32 {
    if number == 0 { 1 } else { number + 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_numbers_leave_two_out() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }
}
