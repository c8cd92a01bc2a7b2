//! Accepts one connection. Any host can send datagrams to the port until then.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::{Duration, Instant},
};

use bulk::quic::{Congestion, run_timers_and_events};
use bytes::BytesMut;
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, Endpoint, Event, Incoming};
use traffic::udp::bind_bulk;

use crate::{
    Check, Error, QuicOptions, QuicStream, congestion,
    error::failed,
    stream::{CHECK_INTERVAL, Established},
};

/// Maximum number of simultaneous handshakes. Clients that do not complete theirs occupy them until
/// [`QuicListener::accept`] ends, because connections have no idle timeout.
const MAX_HANDSHAKES: usize = 16;
/// The largest datagram, bytes.
const MAX_DATAGRAM_BYTES: usize = 9_216;

/// Waits for one connection at a UDP port.
pub struct QuicListener {
    socket: UdpSocket,
    endpoint: Endpoint,
    congestion: Congestion,
    options: QuicOptions,
    start: Instant,
    handshakes: BTreeMap<usize, Handshake>,
    /// The datagram that is being written.
    scratch: Vec<u8>,
}

/// A connection whose client has not yet proved that it has the expected certificate.
struct Handshake {
    remote: SocketAddr,
    connection: Connection,
}

impl QuicListener {
    /// Listens at an address; port 0 chooses one.
    ///
    /// # Errors
    /// If the address is in use, or an option is invalid.
    pub fn bind(local: SocketAddr, options: QuicOptions) -> Result<Self, Error> {
        let socket = bind_bulk(local).map_err(failed(format!("open a UDP socket at {local}")))?;
        let congestion = congestion::load(&options.congestion)?;
        let server = Arc::new(options.server(local.ip(), &congestion)?);
        Ok(QuicListener {
            socket: socket.into(),
            endpoint: Endpoint::new(Arc::new(QuicOptions::endpoint()), Some(server), false, None),
            congestion,
            options,
            start: Instant::now(),
            handshakes: BTreeMap::new(),
            scratch: Vec::new(),
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

    /// Waits for a client whose address `is_expected` and that has the expected certificate. The socket then
    /// belongs to its connection.
    ///
    /// # Errors
    /// If none connects in time, or the error of `check`.
    pub fn accept<E: From<Error>>(
        mut self,
        timeout: Duration,
        is_expected: impl Fn(SocketAddr) -> bool,
        check: Check<'_, E>,
    ) -> Result<QuicStream, E> {
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            check()?;
            let left = timeout.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return Err(Error::Timeout { what: "QUIC connection", after: timeout }.into());
            }
            if self.wait(left.min(CHECK_INTERVAL))?
                && let Ok((length, peer)) = self.socket.recv_from(&mut buffer)
                && is_expected(peer)
            {
                self.handle_datagram(peer, &buffer[..length]);
            }
            if let Some(handle) = self.run_handshakes()
                && let Some(Handshake { remote, connection }) = self.handshakes.remove(&handle)
            {
                self.socket.connect(remote).map_err(failed("connect a UDP socket"))?;
                self.endpoint.set_server_config(None);
                let established = Established {
                    endpoint: self.endpoint,
                    handle: ConnectionHandle(handle),
                    connection,
                    remote,
                };
                return Ok(QuicStream::new(
                    self.socket.into(),
                    established,
                    self.congestion,
                    self.options.rate,
                ));
            }
        }
    }

    /// Waits for a datagram or the next timer of a handshake.
    fn wait(&mut self, most: Duration) -> Result<bool, Error> {
        let due =
            self.handshakes.values_mut().filter_map(|handshake| handshake.connection.poll_timeout()).min();
        let timeout = due.map_or(most, |due| due.saturating_duration_since(Instant::now()).min(most));
        match os::wait_readable(&self.socket, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(false),
            other => other.map_err(failed("receive from a UDP socket")),
        }
    }

    fn handle_datagram(&mut self, peer: SocketAddr, bytes: &[u8]) {
        self.scratch.clear();
        let event =
            self.endpoint.handle(Instant::now(), peer, None, None, BytesMut::from(bytes), &mut self.scratch);
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(handshake) = self.handshakes.get_mut(&handle.0) {
                    handshake.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.handle_client(incoming),
            Some(DatagramEvent::Response(_)) => self.reply(peer),
        }
    }

    /// Requests an address validation, and begins the handshake of a client that has passed the validation.
    fn handle_client(&mut self, incoming: Incoming) {
        let remote = incoming.remote_address();
        self.scratch.clear();
        if !incoming.remote_address_validated() {
            match self.endpoint.retry(incoming, &mut self.scratch) {
                Ok(_) => self.reply(remote),
                Err(error) => self.endpoint.ignore(error.into_incoming()),
            }
            return;
        }
        if self.handshakes.len() >= MAX_HANDSHAKES {
            return self.endpoint.ignore(incoming);
        }
        match self.endpoint.accept(incoming, Instant::now(), &mut self.scratch, None) {
            Ok((handle, connection)) => {
                self.handshakes.insert(handle.0, Handshake { remote, connection });
            }
            Err(error) if error.response.is_some() => self.reply(remote),
            Err(_) => {}
        }
    }

    /// Sends the datagram that quinn wrote. The client's next request retransmits a lost reply.
    fn reply(&self, peer: SocketAddr) {
        let _ = self.socket.send_to(&self.scratch, peer);
    }

    /// Runs all handshakes; returns the first that is complete.
    fn run_handshakes(&mut self) -> Option<usize> {
        let now = Instant::now();
        let (mut complete, mut failed) = (None, Vec::new());
        for (number, Handshake { remote, connection }) in &mut self.handshakes {
            run_timers_and_events(&mut self.endpoint, ConnectionHandle(*number), connection, now);
            while let Some(event) = connection.poll() {
                match event {
                    Event::Connected => complete = complete.or(Some(*number)),
                    Event::ConnectionLost { .. } => failed.push(*number),
                    _ => {}
                }
            }
            loop {
                self.scratch.clear();
                let Some(_) = connection.poll_transmit(now, 1, &mut self.scratch) else { break };
                // A lost datagram is retransmitted.
                let _ = self.socket.send_to(&self.scratch, *remote);
            }
        }
        for number in failed {
            self.handshakes.remove(&number);
        }
        complete
    }
}
