//! A UDT stream over a UDP socket: blocking calls with a check, which ends them early.

use std::{
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use bulk::{
    flow::{ReceiverCounts, SenderCounts},
    udt::{Arrival, CloseReason, Config, Connection, Listener, RateControl, Statistics, ip_words},
};
use os::fill_random;
use socket2::{SockAddr, Socket};
use traffic::udp::{Incoming, Outgoing, bind_bulk, instant_since, now_since};
use units::{Instant, Time};

use crate::{
    Error,
    control::{CHECK_INTERVAL, IDLE_TIMEOUT},
    error::failed,
    sampler::{PUBLISH_INTERVAL, SharedCounts},
};

/// A sender that sleeps between packets sleeps at least this long, and sends all due packets in one batch.
const MIN_SLEEP: Duration = Duration::from_micros(100);
/// Maximum number of rounds of receiving until timers run again.
const MAX_ROUNDS: usize = 8;
/// Maximum number of reports of the control connection that are handled before the UDP socket is polled.
const MAX_REPORTS: usize = 256;

/// The functions that a blocking call of a UDT stream calls while it waits. A closure implements
/// [`Attendant::check`]: its error ends the call.
pub trait Attendant {
    /// Ends the call with an error.
    ///
    /// # Errors
    /// The reason.
    fn check(&mut self) -> Result<(), Error>;

    /// Sends a report of the connection (acknowledgement, loss report and so on); false: it is sent over UDP.
    ///
    /// # Errors
    /// If the report cannot be sent.
    fn send_report(&mut self, _packet: &[u8]) -> Result<bool, Error> {
        Ok(false)
    }

    /// A report that did not arrive over UDP.
    ///
    /// # Errors
    /// If no more can arrive.
    fn poll_report(&mut self) -> Result<Option<Vec<u8>>, Error> {
        Ok(None)
    }

    /// Is readable when a report may have arrived.
    fn report_descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

impl<F: FnMut() -> Result<(), Error>> Attendant for F {
    fn check(&mut self) -> Result<(), Error> {
        self()
    }
}

/// The attendant of a blocking call.
pub type Check<'a> = &'a mut dyn Attendant;

/// Accepts UDT connections of one port.
pub struct UdtListener {
    socket: UdpSocket,
    listener: Listener,
    start: std::time::Instant,
}

impl UdtListener {
    /// Listens at an address; port 0 chooses one.
    ///
    /// # Errors
    /// If the address is in use.
    pub fn bind(local: SocketAddr, config: Config) -> Result<Self, Error> {
        let mut secret = [0; 32];
        fill_random(&mut secret).map_err(failed("get random bytes"))?;
        Ok(UdtListener {
            socket: bind(local)?.into(),
            listener: Listener::new(config, secret),
            start: std::time::Instant::now(),
        })
    }

    /// The port.
    ///
    /// # Errors
    /// The errors of getsockname(2).
    pub fn port(&self) -> Result<u16, Error> {
        let address = self.socket.local_addr().map_err(failed("get a socket's address"))?;
        Ok(address.port())
    }

    /// Waits for a client whose address `is_expected`; the socket then belongs to its connection.
    ///
    /// # Errors
    /// If none connects in time, or the error of `check`.
    pub fn accept(
        self,
        timeout: Duration,
        is_expected: impl Fn(SocketAddr) -> bool,
        rate: Box<dyn RateControl>,
        check: Check<'_>,
    ) -> Result<UdtStream, Error> {
        let mut buffer = [0; 2048];
        let what = "receive from a UDP socket";
        loop {
            check.check()?;
            let left = timeout.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { what: "UDT connection", after: timeout });
            }
            match os::wait_readable(&self.socket, left.min(CHECK_INTERVAL)) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(what)(error)),
            }
            let Ok((length, peer)) = self.socket.recv_from(&mut buffer) else { continue };
            if !is_expected(peer) {
                continue;
            }
            let now = now_since(self.start);
            match self.listener.handle_datagram(now, peer.to_string().as_bytes(), &buffer[..length]) {
                Arrival::Ignored => {}
                Arrival::Reply(reply) => {
                    // The client's next request retransmits a lost reply.
                    let _ = self.socket.send_to(&reply, peer);
                }
                Arrival::Request(incoming) => {
                    self.socket.connect(peer).map_err(failed("connect a UDP socket"))?;
                    let peer_ip = ip_words(peer.ip().to_canonical());
                    let connection = self.listener.accept(now, &incoming, random_id()?, peer_ip, rate);
                    return Ok(UdtStream::new(self.socket.into(), connection, self.start));
                }
            }
        }
    }
}

/// A UDT connection over a dedicated socket.
pub struct UdtStream {
    socket: Socket,
    connection: Connection,
    start: std::time::Instant,
    outgoing: Outgoing,
    incoming: Incoming,
    read_bytes: u64,
    /// The place where the counts are published, and the next time.
    published: Option<(SharedCounts, Instant)>,
}

impl UdtStream {
    /// Connects to a listener.
    ///
    /// # Errors
    /// If the peer does not reply or rejects the connection, or the error of `check`.
    pub fn connect(
        peer: SocketAddr,
        config: Config,
        rate: Box<dyn RateControl>,
        check: Check<'_>,
    ) -> Result<Self, Error> {
        let local = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let local = local.parse().map_err(|_| Error::Input(local.into()))?;
        let socket = bind(local)?;
        socket.connect(&SockAddr::from(peer)).map_err(failed(format!("connect to {peer}")))?;
        let start = std::time::Instant::now();
        let config = Config { socket_id: random_id()?, initial: random_id()?, ..config };
        let connection =
            Connection::connect(now_since(start), config, ip_words(peer.ip().to_canonical()), rate);
        let mut stream = UdtStream::new(socket, connection, start);
        while !stream.connection.is_established() {
            stream.step(CHECK_INTERVAL, check)?;
        }
        Ok(stream)
    }

    fn new(socket: Socket, connection: Connection, start: std::time::Instant) -> Self {
        os::reduce_timer_slack();
        UdtStream {
            socket,
            connection,
            start,
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            read_bytes: 0,
            published: None,
        }
    }

    /// Publishes the counts from now on.
    pub(crate) fn publish_to(&mut self, counts: SharedCounts) {
        self.published = Some((counts, Instant::ZERO));
    }

    fn publish_if_due(&mut self, now: Instant) {
        let Some((counts, due)) = &mut self.published else { return };
        if now >= *due {
            *due = now + Time::from_duration(PUBLISH_INTERVAL);
            let receiver = ReceiverCounts {
                received_bytes: self.read_bytes,
                rtt: self.connection.measured_rtt(),
                min_rtt: self.connection.min_rtt(),
                ..ReceiverCounts::default()
            };
            counts.publish(SenderCounts::of_udt(&self.connection), receiver);
        }
    }

    /// Counts so far.
    pub fn statistics(&self) -> Statistics {
        self.connection.statistics()
    }

    /// Bytes in the send buffer, rounded up to whole packets.
    pub fn unacknowledged_bytes(&self) -> u64 {
        (self.connection.unacknowledged_packets() * self.connection.payload_bytes()) as u64
    }

    /// Writes all bytes into the send buffer.
    ///
    /// # Errors
    /// If the connection ends, there is no progress for a minute, or the error of `check`.
    pub fn write_all(&mut self, mut bytes: &[u8], check: Check<'_>) -> Result<(), Error> {
        let mut moved = std::time::Instant::now();
        while !bytes.is_empty() {
            let written = self.connection.write(bytes);
            bytes = &bytes[written..];
            if written > 0 {
                moved = std::time::Instant::now();
                // Sends the packets that are due, without waiting.
                self.step(Duration::ZERO, check)?;
            } else {
                self.check_idle(moved)?;
                self.step(CHECK_INTERVAL, check)?;
            }
        }
        Ok(())
    }

    /// Reads at least one byte; 0 after the peer closed.
    ///
    /// # Errors
    /// If the connection ends otherwise, nothing arrives for a minute, or the error of `check`.
    pub fn read(&mut self, buffer: &mut [u8], check: Check<'_>) -> Result<usize, Error> {
        let begin = std::time::Instant::now();
        loop {
            let count = self.connection.read(buffer);
            self.read_bytes += count as u64;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.step(CHECK_INTERVAL, check) {
                Err(Error::Udt(CloseReason::Peer)) if self.connection.has_data() => {}
                Err(Error::Udt(CloseReason::Peer)) => return Ok(0),
                other => other?,
            }
            self.check_idle(begin)?;
        }
    }

    /// Waits until everything is acknowledged.
    ///
    /// # Errors
    /// As for [`UdtStream::write_all`].
    pub fn flush(&mut self, check: Check<'_>) -> Result<(), Error> {
        let (mut moved, mut acked) = (std::time::Instant::now(), self.connection.statistics().acks);
        while !self.connection.is_flushed() {
            self.step(CHECK_INTERVAL, check)?;
            let acks = self.connection.statistics().acks;
            if acks != acked {
                (moved, acked) = (std::time::Instant::now(), acks);
            }
            self.check_idle(moved)?;
        }
        Ok(())
    }

    /// Acknowledges and sends for about `time`.
    ///
    /// # Errors
    /// If the connection ends other than by the peer.
    pub fn serve(&mut self, time: Duration, check: Check<'_>) -> Result<(), Error> {
        match self.step(time, check) {
            Err(Error::Udt(CloseReason::Peer)) => Ok(()),
            other => other,
        }
    }

    /// Flushes and closes the connection.
    ///
    /// # Errors
    /// As for [`UdtStream::flush`].
    pub fn close(mut self, check: Check<'_>) -> Result<(), Error> {
        self.flush(check)?;
        self.connection.close();
        self.transmit(check)
    }

    /// Handles a report that did not arrive over UDP.
    pub(crate) fn handle_report(&mut self, packet: &[u8]) {
        self.connection.handle_datagram(now_since(self.start), packet);
    }

    fn check_idle(&self, moved: std::time::Instant) -> Result<(), Error> {
        if moved.elapsed() > IDLE_TIMEOUT {
            return Err(Error::Timeout { what: "progress", after: IDLE_TIMEOUT });
        }
        Ok(())
    }

    /// Receives, runs timers, sends, and waits for at most `wait`.
    fn step(&mut self, wait: Duration, check: Check<'_>) -> Result<(), Error> {
        check.check()?;
        for _ in 0..MAX_REPORTS {
            let Some(packet) = check.poll_report()? else { break };
            self.handle_report(&packet);
        }
        for _ in 0..MAX_ROUNDS {
            let (connection, start) = (&mut self.connection, self.start);
            let received = self.incoming.receive(&self.socket, |bytes, arrived| {
                connection.handle_datagram(instant_since(start, arrived), bytes);
            });
            if !received.map_err(failed("receive from a UDP socket"))? {
                break;
            }
        }
        let now = now_since(self.start);
        if self.connection.next_timeout() <= now {
            self.connection.handle_timeout(now);
        }
        self.transmit(check)?;
        self.publish_if_due(now);
        if let Some(reason) = self.connection.close_reason() {
            return Err(Error::Udt(reason));
        }
        let due = self.connection.next_timeout().saturating_since(now_since(self.start));
        let pause = due.to_duration().max(MIN_SLEEP).min(wait);
        if !pause.is_zero() && !self.connection.has_data() {
            let socket = self.socket.as_fd();
            let waited = match check.report_descriptor() {
                Some(reports) => os::wait_any(&[socket, reports], pause),
                None => os::wait_any(&[socket], pause),
            };
            waited.map_err(failed("wait for a UDP socket"))?;
        }
        Ok(())
    }

    /// Sends the packets that are due.
    fn transmit(&mut self, check: Check<'_>) -> Result<(), Error> {
        loop {
            let now = now_since(self.start);
            let mut has_more = true;
            while has_more && !self.outgoing.is_full() {
                let mut report = None;
                self.outgoing.add(|out| {
                    let begin = out.len();
                    has_more = self.connection.poll_transmit(now, out);
                    report = is_report(&out[begin..]).then(|| out.split_off(begin));
                    has_more && report.is_none()
                });
                if let Some(report) = report
                    && !check.send_report(&report)?
                {
                    self.outgoing.add(|out| {
                        out.extend_from_slice(&report);
                        true
                    });
                }
            }
            let is_full = self.outgoing.is_full();
            self.outgoing.flush(&self.socket).map_err(failed("send to a UDP socket"))?;
            if !is_full {
                return Ok(());
            }
        }
    }
}

/// Whether a packet is a control packet other than a handshake. Handshakes always use UDP, because they show
/// that datagrams arrive.
fn is_report(packet: &[u8]) -> bool {
    packet.len() >= 2 && packet[0] & 0x80 != 0 && packet[..2] != [0x80, 0]
}

fn bind(local: SocketAddr) -> Result<Socket, Error> {
    bind_bulk(local).map_err(failed(format!("open a UDP socket at {local}")))
}

/// A random number of 31 bits, not 0.
pub(crate) fn random_id() -> Result<u32, Error> {
    let mut bytes = [0; 4];
    fill_random(&mut bytes).map_err(failed("get random bytes"))?;
    Ok((u32::from_be_bytes(bytes) & 0x7fff_ffff).max(1))
}
