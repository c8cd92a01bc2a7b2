//! One data stream and the thread that sends or receives on it.

use std::{
    io,
    net::Shutdown,
    os::fd::AsFd,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use socket2::Socket;
use traffic::{Attempted, Error};
use watch::TcpInfo;

use crate::{
    pace::Pace,
    payload::{READ_BYTES, Sink, Source},
    report::{Datagrams, Protocol, TestSpec},
    shared_state::SharedState,
    stream_sampler::StreamSampler,
    udp_stream::UdpStream,
    wake_threshold::WakeThreshold,
};

/// Maximum size of a write if the user sets the buffer size. Linux 6.18 checks the limit of the send buffer
/// about once per call, so a larger write exceeds a small buffer several times over.
const WRITE_BYTES: usize = 64 << 10;
/// Interval at which a paced sender checks for a stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A connected stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// iperf3's number: 1, 3, 4, 5, ...
    pub(crate) id: u32,
    /// Whether this end sends on the stream.
    pub(crate) sends: bool,
    pub(crate) socket: Socket,
    /// Payload sent or received so far; a UDP stream has its own counters.
    bytes: AtomicU64,
    /// When a TCP receiver last read, microseconds since the data began.
    received_us: AtomicU64,
    pub(crate) udp: Option<UdpStream>,
    pub(crate) sampler: StreamSampler,
}

/// A stream's counters since its start, read at one instant.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamSnapshot {
    pub(crate) bytes: u64,
    /// Only at the sender of a TCP stream.
    pub(crate) tcp: Option<TcpInfo>,
    pub(crate) udp: Option<Datagrams>,
}

impl Stream {
    pub(crate) fn new(number: u32, sends: bool, socket: Socket, spec: &TestSpec) -> Self {
        let udp = (spec.protocol == Protocol::Udp).then(|| UdpStream::new(spec));
        let (bytes, received_us) = (AtomicU64::new(0), AtomicU64::new(0));
        let sampler = StreamSampler::new(None, udp.is_some());
        Stream { id: stream_id(number), sends, socket, bytes, received_us, udp, sampler }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.udp.as_ref().map_or_else(|| self.bytes.load(Ordering::Relaxed), |udp| udp.bytes(self.sends))
    }

    /// When a TCP receiver last read, time since the data began.
    pub(crate) fn received_at(&self) -> Duration {
        Duration::from_micros(self.received_us.load(Ordering::Relaxed))
    }

    /// Takes a snapshot. A closed socket has no TCP_INFO.
    pub(crate) fn snapshot(&self) -> StreamSnapshot {
        if let Some(udp) = &self.udp {
            return StreamSnapshot { bytes: self.bytes(), tcp: None, udp: Some(udp.datagrams(self.sends)) };
        }
        let tcp = self.sends.then(|| watch::read_tcp_info(self.socket.as_fd()).ok()).flatten();
        StreamSnapshot { bytes: self.bytes(), tcp, udp: None }
    }

    /// True once all sent data is acknowledged, or if the kernel no longer has this information.
    pub(crate) fn is_acknowledged(&self) -> bool {
        !self.sends
            || self.udp.is_some()
            || os::unacknowledged_bytes(&self.socket).map_or(true, |bytes| bytes == 0)
    }

    /// Ends the stream and wakes its thread if it is blocked. A receiver still reads the data that has
    /// arrived, and the kernel still delivers a sender's data.
    pub(crate) fn end(&self) {
        if let Some(udp) = &self.udp {
            return udp.end();
        }
        // A socket that is no longer connected blocks no thread.
        let _ = self.socket.shutdown(if self.sends { Shutdown::Write } else { Shutdown::Read });
    }

    /// Makes the kernel discard undelivered data when the socket is closed.
    pub(crate) fn discard_undelivered(&self) {
        let _ = self.socket.set_linger(Some(Duration::ZERO));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sends or receives until the test is over.
    pub(crate) fn run(&self, spec: &TestSpec, shared: &SharedState) -> Result<(), Error> {
        let Some(udp) = &self.udp else {
            return if self.sends { self.send(spec, shared) } else { self.receive(spec, shared) };
        };
        let socket = self.socket.try_clone().attempted(|| format!("duplicate stream {}", self.id))?;
        let after = || self.sampler.after_io(self, shared);
        match self.sends {
            true => udp.send(socket, spec, shared.datagrams_left(), after),
            false => udp.receive(socket, spec, after),
        }
    }

    fn send(&self, spec: &TestSpec, shared: &SharedState) -> Result<(), Error> {
        let block = usize::try_from(spec.block.0).unwrap_or(WRITE_BYTES);
        let mut source = Source::new(block, spec)?;
        let piece = if spec.window.is_some() { WRITE_BYTES } else { block };
        let mut pace = spec.rate.map(|rate| Pace::new(rate, block, spec.burst, Instant::now()));
        while !shared.sending_is_over() {
            if let Some(wait) = pace.as_ref().map(|pace| pace.wait(Instant::now()))
                && !wait.is_zero()
            {
                std::thread::sleep(wait.min(STOP_CHECK_INTERVAL));
                continue;
            }
            let len = source.next(shared.claim(block))?;
            if len == 0 {
                if source.is_finite() {
                    // The test is over when the first stream has sent all of its file, as in iperf3.
                    shared.limit_sending(0, 1);
                }
                break;
            }
            let mut sent = 0;
            while sent < len {
                self.sampler.before_sending(self, shared);
                match source.send(&self.socket, sent, piece.min(len - sent)) {
                    // The file has been truncated meanwhile.
                    Ok(0) => break,
                    Ok(n) => {
                        sent += n;
                        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
                        self.sampler.after_sending(shared);
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) if shared.sending_is_over() => return Ok(()),
                    Err(e) => return Err(e).attempted(|| format!("send on stream {}", self.id)),
                }
            }
            if let Some(pace) = &mut pace {
                pace.spend(len);
            }
        }
        Ok(())
    }

    fn receive(&self, spec: &TestSpec, shared: &SharedState) -> Result<(), Error> {
        let mut sink = Sink::new(spec)?;
        let mut threshold = WakeThreshold::new();
        // After the end of the test only data that had arrived by then is read.
        let mut remaining = None;
        loop {
            if remaining.is_none() && shared.is_over() {
                remaining = Some(os::unread_bytes(&self.socket).unwrap_or(0));
            }
            let max = remaining.unwrap_or(READ_BYTES).min(READ_BYTES);
            if max == 0 {
                return Ok(());
            }
            match sink.receive(&self.socket, max) {
                Ok(0) => return Ok(()),
                Ok(n) => {
                    sink.keep(n)?;
                    self.received_us.store(shared.now_us(), Ordering::Relaxed);
                    self.bytes.fetch_add(n as u64, Ordering::Relaxed);
                    shared.count_received(n as u64);
                    self.sampler.after_io(self, shared);
                    threshold.read(&self.socket, n);
                    remaining = remaining.map(|remaining| remaining - n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => threshold.waited(&self.socket),
                Err(_) if shared.is_over() => return Ok(()),
                Err(e) => return Err(e).attempted(|| format!("receive on stream {}", self.id)),
            }
        }
    }
}

/// iperf3's number of the stream with index `number` in the order of creation: 1, 3, 4, 5, ... There is no
/// stream 2.
pub(crate) fn stream_id(number: u32) -> u32 {
    if number == 0 { 1 } else { number + 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_numbers_skip_two() {
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }
}
