//! A connection with one bidirectional stream over a dedicated UDP socket: blocking calls with a check, which
//! ends them early.

use std::{
    net::SocketAddr,
    os::fd::AsFd,
    sync::Arc,
    time::{Duration, Instant},
};

use bulk::quic::{Congestion, Pacer, run_timers_and_events};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError,
    StreamEvent, StreamId, VarInt, WriteError,
};
use socket2::{SockAddr, Socket};
use traffic::udp::{Incoming, Outgoing, bind_bulk};
use units::{BitRate, Time};

use crate::{
    Check, Error, QuicOptions, congestion,
    error::{failed, tls_failed},
    identity::NAME,
};

/// Interval at which a wait calls its check.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// A peer that neither accepts nor sends data for this time counts as unreachable.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// A sender that sleeps between packets sleeps at least this long, and sends all due packets in one batch.
const MIN_SLEEP: Duration = Duration::from_micros(100);
/// A reader serves the connection at least this often.
const SERVE_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes in the send buffer in addition to the congestion window.
const UNSENT_BYTES: u64 = 2 << 20;
/// Maximum number of rounds of receiving before timers run again.
const MAX_ROUNDS: usize = 8;

/// Counts and state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicStatistics {
    /// Packets sent.
    pub sent_packets: u64,
    /// Lost packets among these; their data was retransmitted in other packets.
    pub lost_packets: u64,
    /// Bytes of their UDP payload.
    pub sent_bytes: u64,
    /// Data read from the stream.
    pub read_bytes: u64,
    /// The largest UDP payload of a packet.
    pub packet_bytes: u16,
    /// The congestion window.
    pub window_bytes: u64,
    /// Packets sent, and neither acknowledged nor lost.
    pub in_flight_packets: u64,
    /// The rate at which packets are paced, bit/s; `None`: they are not paced.
    pub rate_bps: Option<u64>,
    /// Smoothed and minimum round-trip time; `None` before the first acknowledgement.
    pub rtt: Option<(Duration, Duration)>,
    /// Mean deviation of the round-trip time.
    pub rtt_deviation: Time,
}

/// Receives the statistics of a connection at intervals.
struct StatisticsObserver {
    observe: Box<dyn FnMut(&QuicStatistics)>,
    interval: Duration,
    due: Instant,
}

/// A connection of quinn after its handshake.
pub(crate) struct Established {
    pub(crate) endpoint: Endpoint,
    pub(crate) handle: ConnectionHandle,
    pub(crate) connection: Connection,
    pub(crate) remote: SocketAddr,
}

/// A QUIC connection with one stream over a dedicated socket.
pub struct QuicStream {
    socket: Socket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    remote: SocketAddr,
    /// The client opens it; the server accepts it with the first data.
    stream: Option<StreamId>,
    is_connected: bool,
    /// The peer has acknowledged the end of this direction.
    is_finished: bool,
    /// The end of the peer's direction was read.
    is_read: bool,
    close_reason: Option<ConnectionError>,
    written_bytes: u64,
    rate: Option<BitRate>,
    pacer: Pacer,
    served: Instant,
    outgoing: Outgoing,
    incoming: Incoming,
    /// The datagram that is being written.
    scratch: Vec<u8>,
    read_bytes: u64,
    observer: Option<StatisticsObserver>,
    /// Must be dropped after the connection.
    congestion: Congestion,
}

impl QuicStream {
    /// Connects to a listener.
    ///
    /// # Errors
    /// If the peer does not reply in time or has another certificate, or the error of `check`.
    pub fn connect<E: From<Error>>(
        peer: SocketAddr,
        options: &QuicOptions,
        timeout: Duration,
        check: Check<'_, E>,
    ) -> Result<Self, E> {
        let local = SocketAddr::from(match peer {
            SocketAddr::V4(_) => (std::net::IpAddr::from(std::net::Ipv4Addr::UNSPECIFIED), 0),
            SocketAddr::V6(_) => (std::net::IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED), 0),
        });
        let socket = bind_bulk(local).map_err(failed(format!("open a UDP socket at {local}")))?;
        socket.connect(&SockAddr::from(peer)).map_err(failed(format!("connect to {peer}")))?;
        let congestion = congestion::load(&options.congestion)?;
        let mut endpoint = Endpoint::new(Arc::new(QuicOptions::endpoint()), None, false, None);
        let client = options.client(peer.ip(), &congestion)?;
        let begin = Instant::now();
        let (handle, connection) =
            endpoint.connect(begin, client, peer, NAME).map_err(tls_failed("begin a QUIC connection"))?;
        let established = Established { endpoint, handle, connection, remote: peer };
        let mut stream = QuicStream::new(socket, established, congestion, options.rate);
        stream.is_connected = false;
        while !stream.is_connected {
            if begin.elapsed() > timeout {
                return Err(Error::Timeout { what: "QUIC connection", after: timeout }.into());
            }
            stream.step(CHECK_INTERVAL, check)?;
        }
        stream.stream = stream.connection.streams().open(Dir::Bi);
        Ok(stream)
    }

    pub(crate) fn new(
        socket: Socket,
        established: Established,
        congestion: Congestion,
        rate: Option<BitRate>,
    ) -> Self {
        os::reduce_timer_slack();
        let Established { endpoint, handle, connection, remote } = established;
        let now = Instant::now();
        QuicStream {
            socket,
            endpoint,
            handle,
            connection,
            remote,
            stream: None,
            is_connected: true,
            is_finished: false,
            is_read: false,
            close_reason: None,
            written_bytes: 0,
            rate,
            pacer: Pacer::new(now),
            served: now,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            scratch: Vec::new(),
            read_bytes: 0,
            observer: None,
            congestion,
        }
    }

    /// Counts so far.
    pub fn statistics(&self) -> QuicStatistics {
        let stats = self.connection.stats();
        let path = stats.path;
        let state = self.congestion.state();
        QuicStatistics {
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            sent_bytes: stats.udp_tx.bytes,
            read_bytes: self.read_bytes,
            packet_bytes: path.current_mtu,
            window_bytes: path.cwnd,
            in_flight_packets: state.in_flight_packets,
            rate_bps: self.pacing_rate().map(|bytes| bytes.saturating_mul(8)),
            rtt: (stats.frame_rx.acks > 0).then_some((path.rtt, path.min_rtt)),
            rtt_deviation: state.rtt_deviation,
        }
    }

    /// Calls `observe` with the statistics while data is sent or received, at most once in `interval`.
    pub fn observe(&mut self, interval: Duration, observe: impl FnMut(&QuicStatistics) + 'static) {
        self.observer =
            Some(StatisticsObserver { observe: Box::new(observe), interval, due: Instant::now() });
    }

    fn notify_observer(&mut self, now: Instant) {
        let Some(mut observer) = self.observer.take() else { return };
        if now >= observer.due {
            observer.due = now + observer.interval;
            (observer.observe)(&self.statistics());
        }
        self.observer = Some(observer);
    }

    /// The rate at which packets are paced, bytes/s: the smaller of the limit and the congestion control's.
    fn pacing_rate(&self) -> Option<u64> {
        let limit = self.rate.map(|rate| rate.0 / 8);
        let requested = self.connection.congestion_state().metrics().pacing_rate.map(|bits| bits / 8);
        limit.into_iter().chain(requested).min()
    }

    fn received_acks(&self) -> u64 {
        self.connection.stats().frame_rx.acks
    }

    /// The largest number of written bytes that the peer may not have acknowledged.
    pub fn buffered_bytes(&self) -> u64 {
        self.send_buffer_bytes().min(self.written_bytes)
    }

    /// The congestion window, and space for data that is not yet sent.
    fn send_buffer_bytes(&self) -> u64 {
        self.connection.congestion_state().window() + UNSENT_BYTES
    }

    /// Writes all bytes into the send buffer.
    ///
    /// # Errors
    /// If the connection ends, there is no progress for a minute, or the error of `check`.
    pub fn write_all<E: From<Error>>(&mut self, mut bytes: &[u8], check: Check<'_, E>) -> Result<(), E> {
        let mut moved = Instant::now();
        while !bytes.is_empty() {
            let written = self.write(bytes)?;
            bytes = &bytes[written..];
            if written > 0 {
                moved = Instant::now();
                // Sends the packets that are due, without waiting.
                self.step(Duration::ZERO, check)?;
            } else {
                check_idle(moved)?;
                self.step(CHECK_INTERVAL, check)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let Some(id) = self.stream else { return Ok(0) };
        self.connection.set_send_window(self.send_buffer_bytes());
        match self.connection.send_stream(id).write(bytes) {
            Ok(count) => {
                self.written_bytes += count as u64;
                Ok(count)
            }
            Err(WriteError::Blocked) => Ok(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => Err(Error::StreamEnded),
        }
    }

    /// Reads at least one byte; 0 at the end of the stream.
    ///
    /// # Errors
    /// If the connection ends otherwise, nothing arrives for a minute, or the error of `check`.
    pub fn read<E: From<Error>>(&mut self, buffer: &mut [u8], check: Check<'_, E>) -> Result<usize, E> {
        let begin = Instant::now();
        if self.served.elapsed() > SERVE_INTERVAL {
            self.step(Duration::ZERO, check)?;
        }
        loop {
            match self.poll_read(buffer)? {
                Some(count) => return Ok(count),
                None => self.step(CHECK_INTERVAL, check)?,
            }
            check_idle(begin)?;
        }
    }

    /// Copies the data that has arrived; `None` if there is none.
    fn poll_read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        if self.stream.is_none() {
            self.stream = self.connection.streams().accept(Dir::Bi);
        }
        let Some(id) = self.stream else { return Ok(None) };
        if self.is_read {
            return Ok(Some(0));
        }
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Err(Error::StreamEnded) };
        let mut filled = 0;
        let result = loop {
            if filled == buffer.len() {
                break Ok(Some(filled));
            }
            match chunks.next(buffer.len() - filled) {
                Ok(Some(chunk)) => {
                    buffer[filled..filled + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    filled += chunk.bytes.len();
                }
                Ok(None) => {
                    self.is_read = true;
                    break Ok(Some(filled));
                }
                Err(ReadError::Blocked) => break Ok((filled > 0).then_some(filled)),
                Err(ReadError::Reset(_)) => break Err(Error::StreamEnded),
            }
        };
        // The next step sends the new limit of flow control.
        let _ = chunks.finalize();
        self.read_bytes += filled as u64;
        result
    }

    /// Acknowledges and sends for about `time`.
    ///
    /// # Errors
    /// If the connection ends other than by the peer.
    pub fn serve(&mut self, time: Duration) -> Result<(), Error> {
        match self.step(time, &mut || Ok(())) {
            Err(Error::Connection(ConnectionError::ApplicationClosed(_))) => Ok(()),
            other => other,
        }
    }

    /// Ends the stream in this direction, and waits until the peer has acknowledged everything or closes
    /// the connection. Each acknowledgement restarts the timeout of a minute without progress.
    ///
    /// # Errors
    /// As for [`QuicStream::write_all`].
    pub fn finish<E: From<Error>>(&mut self, check: Check<'_, E>) -> Result<(), E> {
        if let Some(id) = self.stream {
            self.connection.send_stream(id).finish().map_err(|_| Error::StreamEnded)?;
        }
        let (mut acknowledged, mut moved) = (self.received_acks(), Instant::now());
        while self.stream.is_some() && !self.is_finished {
            if self.received_acks() != acknowledged {
                (acknowledged, moved) = (self.received_acks(), Instant::now());
            }
            check_idle(moved)?;
            if let Err(error) = self.step(CHECK_INTERVAL, check) {
                // A peer that closes the connection needs no more data.
                let is_closed = matches!(self.close_reason, Some(ConnectionError::ApplicationClosed(_)));
                return if is_closed { Ok(()) } else { Err(error) };
            }
        }
        Ok(())
    }

    /// Closes the connection.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn close(mut self) -> Result<(), Error> {
        self.connection.close(Instant::now(), VarInt::from_u32(0), Bytes::new());
        self.transmit()
    }

    /// Receives, runs timers, sends, and waits for at most `wait`.
    fn step<E: From<Error>>(&mut self, wait: Duration, check: Check<'_, E>) -> Result<(), E> {
        check()?;
        self.receive()?;
        let now = Instant::now();
        self.served = now;
        run_timers_and_events(&mut self.endpoint, self.handle, &mut self.connection, now);
        let mut is_readable = false;
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.is_connected = true,
                Event::ConnectionLost { reason } => self.close_reason = Some(reason),
                Event::Stream(StreamEvent::Finished { .. }) => self.is_finished = true,
                Event::Stream(_) => is_readable = true,
                _ => {}
            }
        }
        self.transmit()?;
        self.notify_observer(now);
        if let Some(reason) = &self.close_reason {
            return Err(Error::Connection(reason.clone()).into());
        }
        let now = Instant::now();
        let timer = self.connection.poll_timeout();
        let paced = (self.pacer.due() > now).then(|| self.pacer.due());
        let due = timer.into_iter().chain(paced).min();
        let pause = due.map_or(wait, |due| due.saturating_duration_since(now).max(MIN_SLEEP).min(wait));
        if !pause.is_zero() && !is_readable {
            os::wait_any(&[self.socket.as_fd()], pause).map_err(failed("wait for a UDP socket"))?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Error> {
        let QuicStream { socket, endpoint, handle, connection, remote, outgoing, incoming, scratch, .. } =
            self;
        for _ in 0..MAX_ROUNDS {
            let received = incoming.receive(socket, |bytes, arrived| {
                scratch.clear();
                match endpoint.handle(arrived, *remote, None, None, BytesMut::from(bytes), scratch) {
                    Some(DatagramEvent::ConnectionEvent(target, event)) if target == *handle => {
                        connection.handle_event(event);
                    }
                    Some(DatagramEvent::NewConnection(other)) => endpoint.ignore(other),
                    Some(DatagramEvent::Response(_)) if !outgoing.is_full() => {
                        outgoing.add(|out| {
                            out.extend_from_slice(scratch);
                            true
                        });
                    }
                    _ => {}
                }
            });
            if !received.map_err(failed("receive from a UDP socket"))? {
                break;
            }
        }
        Ok(())
    }

    /// Sends the packets that are due.
    fn transmit(&mut self) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            let rate = self.pacing_rate();
            while !self.outgoing.is_full() && self.pacer.due() <= now {
                self.scratch.clear();
                let transmit = self.connection.poll_transmit(now, 1, &mut self.scratch);
                if transmit.is_none() {
                    break;
                }
                self.outgoing.add(|out| {
                    out.extend_from_slice(&self.scratch);
                    true
                });
                self.pacer.sent(now, self.scratch.len(), rate);
            }
            let is_full = self.outgoing.is_full();
            self.outgoing.flush(&self.socket).map_err(failed("send to a UDP socket"))?;
            if !is_full {
                return Ok(());
            }
        }
    }
}

fn check_idle(moved: Instant) -> Result<(), Error> {
    if moved.elapsed() > IDLE_TIMEOUT {
        return Err(Error::Timeout { what: "progress", after: IDLE_TIMEOUT });
    }
    Ok(())
}
