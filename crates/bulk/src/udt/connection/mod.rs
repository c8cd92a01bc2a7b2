//! One UDT connection, without I/O: datagrams and the time go in, datagrams and timers come out.
//!
//! Differences from libudt 4.11:
//! 1. Missing packets are reported again after a round trip, as draft-gg-udt-03 section 3.5 states; libudt
//!    has disabled this and waits for the sender's expiration timer.
//! 2. A sender retransmits the first unacknowledged packet if it is not acknowledged within two round trips
//!    (for receivers that do not repeat their reports).
//! 3. The mean time between packets is the control's period. In libudt the second packet of a pair takes no
//!    time, so libudt sends at 16/15 of the rate.
//! 4. Rendezvous connections are not supported.
//!
//! `received.rs` processes the peer's packets, `timers.rs` runs the timers.

mod received;
mod timers;

use std::collections::VecDeque;

use units::{Instant, Time};

use crate::{
    pacing::Pacing,
    udt::{
        arrivals::Arrivals,
        config::{Config, MAX_WINDOW, MIN_MSS, SocketType},
        rate_control::{PathState, RateControl, SYN},
        receive_half::ReceiveHalf,
        send_half::{Next, SendHalf},
        wire::{self, Control, ControlHeader, Handshake, Packet, Request},
    },
};

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This end closed it, after all data was acknowledged.
    #[error("closed")]
    Local,
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Peer,
    /// No packet has arrived from the peer for too long.
    #[error("the peer does not reply")]
    Timeout,
    /// The peer rejected the connection.
    #[error("the peer rejected the connection")]
    Rejected,
    /// The peer sent an invalid packet.
    #[error("the peer violated the protocol")]
    Violation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting {
        cookie: Option<u32>,
        next_request: Instant,
        deadline: Instant,
    },
    Established,
    /// The application closed; data is still being sent.
    Draining,
    Closed(CloseReason),
}

/// Counts of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Payload bytes sent, retransmissions included.
    pub sent_bytes: u64,
    /// Data packets retransmitted.
    pub retransmitted_packets: u64,
    /// Data packets received, duplicates included.
    pub received_packets: u64,
    /// Data packets received that were duplicates, did not fit into the buffer, or had an invalid length.
    pub useless_packets: u64,
    /// Acknowledgements received.
    pub acks: u64,
    /// Loss reports received.
    pub naks: u64,
    /// Packets that the peer reported lost.
    pub lost_packets: u64,
    /// Expirations without any packet from the peer.
    pub expirations: u64,
}

/// Timeout of a connection attempt of a client (libudt: 3 s; here long enough for paths of some seconds).
const CONNECT_TIMEOUT: Time = Time::from_secs(10);
/// Time between two connection requests (libudt).
const REQUEST_INTERVAL: Time = Time::from_millis(250);
/// Initial round-trip time (libudt: 10 SYN).
const INITIAL_RTT: Time = Time::from_millis(100);
/// The time between packets in slow start (libudt).
const SLOW_START_PERIOD: Time = Time::from_micros(1);
/// Maximum number of control packets that wait to be sent. Further ones are dropped, as the network may drop
/// any packet.
const MAX_PENDING: usize = 1024;

/// One end of a connection.
///
/// Call [`Connection::handle_datagram`] for each datagram of the peer, [`Connection::handle_timeout`] at
/// [`Connection::next_timeout`], and [`Connection::poll_transmit`] after both and after writes, until it
/// returns false.
pub struct Connection {
    config: Config,
    state: State,
    peer_id: u32,
    start: Instant,
    send: SendHalf,
    receive: ReceiveHalf,
    rate: Box<dyn RateControl>,
    arrivals: Arrivals,
    pending: VecDeque<Control>,
    /// The protocol's estimate, which begins with [`INITIAL_RTT`].
    rtt: Time,
    rtt_var: Time,
    /// Smoothed round-trip time that this end measured, and its mean deviation.
    measured_rtt: Option<(Time, Time)>,
    /// The smallest round-trip time that this end measured.
    min_rtt: Option<Time>,
    /// Receive rate and path capacity, packets/s: the smoothed reports of the peer.
    receive_rate: u32,
    capacity: u32,
    pacing: Pacing,
    is_pair: bool,
    ack: AckState,
    last_ack_reply: Option<(Instant, u32)>,
    expirations: u32,
    last_response: Instant,
    peer_failed: bool,
    statistics: Statistics,
    peer_ip: [u32; 4],
}

/// The acknowledgements that the receiving half has sent.
#[derive(Debug)]
struct AckState {
    number: u32,
    /// The last acknowledged index.
    sent: u64,
    /// The last index whose acknowledgement the sender has acknowledged.
    confirmed: u64,
    last_full: Instant,
    next_due: Instant,
    packets: u64,
    light: u64,
    /// Number, index and time of acknowledgements.
    window: VecDeque<(u32, u64, Instant)>,
}

impl Connection {
    /// A client. `peer_ip` is the server's address as handshakes carry it: see
    /// [`ip_words`](crate::udt::ip_words).
    pub fn connect(now: Instant, config: Config, peer_ip: [u32; 4], rate: Box<dyn RateControl>) -> Self {
        let config = config.checked();
        let mut connection = Connection::new(now, config, rate);
        connection.peer_ip = peer_ip;
        connection.state =
            State::Connecting { cookie: None, next_request: now, deadline: now + CONNECT_TIMEOUT };
        connection
    }

    /// A server's end of a connection that its [`Listener`](crate::udt::Listener) has accepted.
    pub(crate) fn accept(
        now: Instant,
        config: Config,
        request: &Handshake,
        peer_ip: [u32; 4],
        rate: Box<dyn RateControl>,
    ) -> Self {
        let config = Config { initial: request.initial, ..config.checked() };
        let mut connection = Connection::new(now, config, rate);
        connection.peer_ip = peer_ip;
        connection.establish(now, request);
        let reply = connection.handshake(Request::Response, 0);
        connection.queue(Control::Handshake(reply));
        connection
    }

    fn new(now: Instant, config: Config, rate: Box<dyn RateControl>) -> Self {
        Connection {
            config,
            state: State::Established,
            peer_id: 0,
            start: now,
            send: SendHalf::new(config.initial, config.payload_bytes(), config.send_packets as usize, 0),
            receive: ReceiveHalf::new(0, u64::from(config.receive_packets)),
            rate,
            arrivals: Arrivals::new(now),
            pending: VecDeque::new(),
            rtt: INITIAL_RTT,
            rtt_var: INITIAL_RTT / 2,
            measured_rtt: None,
            min_rtt: None,
            receive_rate: 16,
            capacity: 1,
            pacing: Pacing::new(now),
            is_pair: false,
            ack: AckState {
                number: 0,
                sent: 0,
                confirmed: 0,
                last_full: Instant::ZERO,
                next_due: now + SYN,
                packets: 0,
                light: 1,
                window: VecDeque::new(),
            },
            last_ack_reply: None,
            expirations: 1,
            last_response: now,
            peer_failed: false,
            statistics: Statistics::default(),
            peer_ip: [0; 4],
        }
    }

    /// Applies the values of the handshake.
    fn establish(&mut self, now: Instant, peer: &Handshake) {
        self.config.mss = self.config.mss.min(peer.mss).max(MIN_MSS);
        self.peer_id = peer.socket_id;
        let window = peer.flight_window.clamp(2, MAX_WINDOW);
        let send_packets = self.config.send_packets as usize;
        self.send =
            SendHalf::new(self.config.initial, self.config.payload_bytes(), send_packets, u64::from(window));
        self.receive = ReceiveHalf::new(peer.initial, u64::from(self.config.receive_packets));
        self.state = State::Established;
        self.last_response = now;
        self.pacing = Pacing::new(now);
        self.ack.next_due = now + SYN;
        self.arrivals = Arrivals::new(now);
    }

    fn handshake(&self, request: Request, cookie: u32) -> Handshake {
        Handshake {
            version: wire::VERSION,
            socket_type: self.config.socket_type.code(),
            initial: self.config.initial,
            mss: self.config.mss,
            flight_window: self.config.receive_packets,
            request,
            socket_id: self.config.socket_id,
            cookie,
            peer_ip: self.peer_ip,
        }
    }

    /// Whether data can be sent and received.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established | State::Draining)
    }

    /// Why the connection has ended, if it has. Data that has arrived can still be read.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Whether the peer's application reported that it failed, for example to write a file.
    pub fn peer_failed(&self) -> bool {
        self.peer_failed
    }

    /// This end's socket ID.
    pub fn socket_id(&self) -> u32 {
        self.config.socket_id
    }

    /// The peer's socket ID; 0 before the connection is established.
    pub fn peer_id(&self) -> u32 {
        self.peer_id
    }

    /// Bytes of a full packet's payload.
    pub fn payload_bytes(&self) -> usize {
        self.config.payload_bytes()
    }

    /// Counts so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// The path to the peer, as measured so far.
    pub fn path(&self) -> PathState {
        PathState {
            rtt: self.rtt,
            receive_rate: self.receive_rate,
            capacity: self.capacity,
            mss: self.config.mss,
            max_window: u32::try_from(self.send.peer_space).unwrap_or(u32::MAX),
            next_index: self.send.next,
        }
    }

    /// Number of packets in the send buffer: not yet sent, or not yet acknowledged.
    pub fn unacknowledged_packets(&self) -> usize {
        self.send.len()
    }

    /// Number of packets in the send buffer that were not yet sent.
    pub fn unsent_packets(&self) -> usize {
        self.send.len() - self.in_flight_packets() as usize
    }

    /// Number of packets sent and not yet acknowledged.
    pub fn in_flight_packets(&self) -> u64 {
        self.send.next - self.send.acked
    }

    /// Number of packets that have been acknowledged.
    pub fn acknowledged_packets(&self) -> u64 {
        self.send.acked
    }

    /// Number of packets that are known to be lost and not yet retransmitted.
    pub fn waiting_lost_packets(&self) -> u64 {
        self.send.lost.len()
    }

    /// The congestion window, packets; infinite for a fixed rate.
    pub fn congestion_window(&self) -> f64 {
        self.rate.window()
    }

    /// The rate that the rate control allows, bit/s of payload; `None` while only the window limits it.
    pub fn sending_rate_bps(&self) -> Option<u64> {
        let period = self.rate.period();
        (period > SLOW_START_PERIOD)
            .then(|| (self.payload_bytes() as f64 * 8.0 / period.as_secs_f64()) as u64)
    }

    /// Smoothed round-trip time that this end measured and its mean deviation. A measurement lasts from an
    /// acknowledgement to the sender's reply to it, so only receivers have one. Unlike the `rtt` of
    /// [`Connection::path`], it does not begin with an assumed round-trip time.
    pub fn measured_rtt(&self) -> Option<(Time, Time)> {
        self.measured_rtt
    }

    /// The smallest round-trip time that this end measured; only receivers have it.
    pub fn min_rtt(&self) -> Option<Time> {
        self.min_rtt
    }

    /// Whether every byte written has been acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.send.is_empty()
    }

    /// Adds bytes to a stream; returns how many fit into the send buffer, 0 before the handshake and after
    /// `close`.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match self.state {
            State::Established if self.config.socket_type == SocketType::Stream => self.send.write(bytes),
            _ => 0,
        }
    }

    /// Adds a message. It is dropped instead of retransmitted after `lifetime` ([`Time::MAX`]: never).
    /// False if it does not fit now or is empty, or if this is not an established connection for messages.
    pub fn send_message(&mut self, now: Instant, message: &[u8], in_order: bool, lifetime: Time) -> bool {
        let is_possible = self.state == State::Established && self.config.socket_type == SocketType::Messages;
        is_possible && !message.is_empty() && self.send.write_message(message, in_order, now + lifetime)
    }

    /// Reads bytes of a stream; 0 if there are none.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        match self.config.socket_type {
            SocketType::Stream => self.receive.read(buffer),
            SocketType::Messages => 0,
        }
    }

    /// Whether [`Connection::read`] has data.
    pub fn has_data(&self) -> bool {
        self.receive.has_data()
    }

    /// Takes a message that has arrived.
    pub fn receive_message(&mut self) -> Option<Vec<u8>> {
        match self.config.socket_type {
            SocketType::Stream => None,
            SocketType::Messages => self.receive.take_message(),
        }
    }

    /// Ends the connection when all data is acknowledged.
    pub fn close(&mut self) {
        match self.state {
            State::Established => self.state = State::Draining,
            State::Connecting { .. } => self.state = State::Closed(CloseReason::Local),
            State::Draining | State::Closed(_) => {}
        }
        self.finish_drain();
    }

    /// Ends the connection now; data that is not acknowledged is lost.
    pub fn abort(&mut self) {
        if self.is_established() {
            self.queue(Control::Shutdown);
        }
        if self.close_reason().is_none() {
            self.state = State::Closed(CloseReason::Local);
        }
    }

    fn finish_drain(&mut self) {
        if self.state == State::Draining && self.send.is_empty() {
            self.abort();
        }
    }

    fn fail(&mut self, reason: CloseReason) {
        if self.close_reason().is_none() {
            self.state = State::Closed(reason);
        }
    }

    fn queue(&mut self, control: Control) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push_back(control);
        }
    }

    /// Appends the next datagram for the peer to `out`; false if nothing is to be sent now.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some(control) = self.pending.pop_front() {
            self.encode(now, control, out);
            return true;
        }
        if !self.is_established() {
            return false;
        }
        let window = self.rate.window();
        if !self.send.can_send(window) {
            // Idle time accumulates no credit for a burst.
            self.pacing.idle_until(now);
            return false;
        }
        if now < self.pacing.due() && !self.is_pair {
            return false;
        }
        let new_before = self.send.next;
        let next = self.send.take_next(now, window, std::mem::take(&mut self.is_pair));
        match next {
            Some(Next::Packet(index)) => {
                self.pacing.sent(now, self.rate.period());
                self.is_pair = index == new_before && self.send.begins_pair(index);
                self.statistics.sent_packets += 1;
                self.statistics.retransmitted_packets += u64::from(index < new_before);
                let (stamp_us, destination) = (self.stamp_us(now), self.peer_id);
                let Some((header, payload)) = self.send.packet(index, now) else { return false };
                self.statistics.sent_bytes += payload.len() as u64;
                Packet::Data(wire::DataHeader { stamp_us, destination, ..header }, payload).encode(out);
                true
            }
            Some(Next::Drop(message, first, last)) => {
                let numbering = self.send.numbering;
                let (first, last) = (numbering.sequence(first), numbering.sequence(last));
                self.encode(now, Control::MessageDrop { message, first, last }, out);
                true
            }
            None => false,
        }
    }

    fn encode(&self, now: Instant, control: Control, out: &mut Vec<u8>) {
        let is_request = matches!(self.state, State::Connecting { .. });
        let destination = if is_request { 0 } else { self.peer_id };
        Packet::Control(ControlHeader { stamp_us: self.stamp_us(now), destination }, control).encode(out);
    }

    fn stamp_us(&self, now: Instant) -> u32 {
        now.saturating_since(self.start).as_micros() as u32
    }
}
