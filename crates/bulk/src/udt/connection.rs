//! One UDT connection, without I/O: datagrams and the time go in, datagrams and timers come out.
//!
//! Departures from libudt 4.11:
//! 1. Missing packets are reported again after a round trip, as draft-gg-udt-03 section 3.5 says; libudt has
//!    this switched off and waits for the sender's expiration timer.
//! 2. A sender retransmits the first unacknowledged packet if it is not acknowledged within two round trips
//!    (for receivers without 1).
//! 3. The mean time between packets is the control's period. In libudt the second packet of a pair takes no
//!    time, so it sends 16/15 of the rate.
//! 4. Rendezvous connections are not supported.

use std::collections::VecDeque;

use units::Time;

use crate::udt::{
    arrivals::Arrivals,
    rate_control::{PathState, RateControl, SYN},
    receive_half::ReceiveHalf,
    send_half::{Next, SendHalf},
    wire::{self, Ack, Control, ControlHeader, Handshake, Packet, Request},
};

/// What both ends of a connection choose.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// A byte stream or messages.
    pub socket_type: SocketType,
    /// Largest packet with IP and UDP headers, bytes: 76 to 65,535.
    pub mss: u32,
    /// Packets that the receive buffer takes; also the largest window of the peer.
    pub receive_packets: u32,
    /// Packets that the send buffer takes.
    pub send_packets: u32,
    /// This end's socket ID, unlike that of every other connection on its port, and not 0.
    pub socket_id: u32,
    /// Initial sequence number of a client; the server takes the client's.
    pub initial: u32,
}

impl Default for Config {
    /// libudt's segment size and flight window; a receive buffer as large as the window.
    fn default() -> Self {
        Config {
            socket_type: SocketType::Stream,
            mss: 1500,
            receive_packets: 25_600,
            send_packets: 25_600,
            socket_id: 1,
            initial: 0,
        }
    }
}

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketType {
    /// A byte stream.
    Stream,
    /// Messages.
    Messages,
}

impl SocketType {
    pub(crate) fn code(self) -> u32 {
        match self {
            SocketType::Stream => 1,
            SocketType::Messages => 2,
        }
    }
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This end closed it, after all data was acknowledged.
    #[error("closed")]
    Local,
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Peer,
    /// Nothing arrives from the peer.
    #[error("the peer does not answer")]
    Timeout,
    /// The peer rejected the connection.
    #[error("the peer rejected the connection")]
    Rejected,
    /// The peer sent what no correct peer sends.
    #[error("the peer violated the protocol")]
    Violation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Connecting {
        cookie: Option<u32>,
        next_request: Time,
        deadline: Time,
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
    /// Data packets retransmitted.
    pub retransmitted_packets: u64,
    /// Data packets received, duplicates included.
    pub received_packets: u64,
    /// Data packets received twice or beyond the buffer.
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

/// How long a client tries to connect (libudt: 3 s; here long enough for paths of some seconds).
const CONNECT_TIMEOUT: Time = Time::from_secs(10);
/// Between two connection requests (libudt).
const REQUEST_INTERVAL: Time = Time::from_millis(250);
/// Light acknowledgements: one per so many packets (libudt).
const LIGHT_ACK_PACKETS: u64 = 64;
/// Smallest expiration interval (libudt).
const MIN_EXPIRATION: Time = Time::from_millis(300);
/// Expirations after which the peer is given up (libudt).
const MAX_EXPIRATIONS: u32 = 16;
/// The peer is not given up earlier (libudt).
const MIN_BROKEN: Time = Time::from_secs(5);
/// Acknowledgements that wait for their reply (libudt: 1024).
const ACK_WINDOW: usize = 1024;
/// Initial round-trip time (libudt: 10 SYN).
const INITIAL_RTT: Time = Time::from_millis(100);
/// A sender that was late by up to this sends the missed packets at once.
const MAX_CATCH_UP: Time = Time::from_millis(2);
/// Ranges in one loss report; all fit into 1500 B.
const RANGES_PER_NAK: usize = 160;
/// Control packets that wait to be sent; more are dropped, as the network may do.
const MAX_PENDING: usize = 1024;
/// Smallest segment size: a payload of 32 B.
pub(crate) const MIN_MSS: u32 = (wire::IP_UDP_BYTES + wire::HEADER_BYTES + 32) as u32;
/// Largest window that a peer can ask for.
const MAX_WINDOW: u32 = 1 << 22;

/// One end of a connection.
///
/// Call [`Connection::handle_datagram`] for each datagram of the peer, [`Connection::handle_timeout`] at
/// [`Connection::next_timeout`], and [`Connection::poll_transmit`] after both and after writes, until it
/// returns false.
pub struct Connection {
    config: Config,
    state: State,
    peer_id: u32,
    start: Time,
    send: SendHalf,
    receive: ReceiveHalf,
    rate: Box<dyn RateControl>,
    arrivals: Arrivals,
    pending: VecDeque<Control>,
    rtt: Time,
    rtt_var: Time,
    /// Smoothed, as the peer reports them.
    receive_rate: u32,
    capacity: u32,
    next_send: Time,
    is_pair: bool,
    ack: AckState,
    last_ack_reply: Option<(Time, u32)>,
    expirations: u32,
    last_response: Time,
    peer_failed: bool,
    statistics: Statistics,
    peer_ip: [u32; 4],
}

/// What the receiving half has acknowledged.
#[derive(Debug)]
struct AckState {
    number: u32,
    /// The last acknowledged index.
    sent: u64,
    /// The last index whose acknowledgement the sender has acknowledged.
    confirmed: u64,
    last_full: Time,
    next_due: Time,
    packets: u64,
    light: u64,
    /// Number, index and time of acknowledgements.
    window: VecDeque<(u32, u64, Time)>,
}

impl Connection {
    /// A client. `peer_ip` is the server's address as handshakes carry it: see [`ip_words`].
    pub fn connect(now: Time, config: Config, peer_ip: [u32; 4], rate: Box<dyn RateControl>) -> Self {
        let config = config.checked();
        let mut connection = Connection::new(now, config, rate);
        connection.peer_ip = peer_ip;
        connection.state =
            State::Connecting { cookie: None, next_request: now, deadline: now + CONNECT_TIMEOUT };
        connection
    }

    /// A server's end of a connection that its [`Listener`](crate::udt::Listener) has accepted.
    pub(crate) fn accept(
        now: Time,
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

    fn new(now: Time, config: Config, rate: Box<dyn RateControl>) -> Self {
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
            rtt_var: Time(INITIAL_RTT.0 / 2),
            receive_rate: 16,
            capacity: 1,
            next_send: now,
            is_pair: false,
            ack: AckState {
                number: 0,
                sent: 0,
                confirmed: 0,
                last_full: Time::ZERO,
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

    /// Takes over what the handshake agreed on.
    fn establish(&mut self, now: Time, peer: &Handshake) {
        self.config.mss = self.config.mss.min(peer.mss).max(MIN_MSS);
        self.peer_id = peer.socket_id;
        let window = peer.flight_window.clamp(2, MAX_WINDOW);
        let send_packets = self.config.send_packets as usize;
        self.send =
            SendHalf::new(self.config.initial, self.config.payload_bytes(), send_packets, u64::from(window));
        self.receive = ReceiveHalf::new(peer.initial, u64::from(self.config.receive_packets));
        self.state = State::Established;
        self.last_response = now;
        self.next_send = now;
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

    /// What is known about the path to the peer.
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

    /// Whether every byte written has been acknowledged.
    pub fn is_flushed(&self) -> bool {
        self.send.is_empty()
    }

    /// Adds bytes to a stream; returns how many fit into the send buffer, 0 after an end.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match self.state {
            State::Established if self.config.socket_type == SocketType::Stream => self.send.write(bytes),
            _ => 0,
        }
    }

    /// Adds a message. It is dropped instead of retransmitted after `lifetime` ([`Time::NEVER`]: never).
    /// False if it does not fit now, is empty, or the connection has no messages.
    pub fn send_message(&mut self, now: Time, message: &[u8], in_order: bool, lifetime: Time) -> bool {
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

    /// Processes a datagram of the peer. Anything that is not for this connection is ignored.
    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8]) {
        let Ok(packet) = Packet::decode(bytes) else { return };
        let destination = match &packet {
            Packet::Data(header, _) => header.destination,
            Packet::Control(header, _) => header.destination,
        };
        if let Packet::Control(_, Control::Handshake(handshake)) = &packet
            && (destination == self.config.socket_id || destination == 0)
        {
            return self.handle_handshake(now, handshake);
        }
        if destination != self.config.socket_id || matches!(self.state, State::Connecting { .. }) {
            return;
        }
        if let State::Closed(reason) = self.state {
            // The peer has missed the shutdown.
            if reason == CloseReason::Local && !matches!(packet, Packet::Control(_, Control::Shutdown)) {
                self.pending.clear();
                self.queue(Control::Shutdown);
            }
            return;
        }
        self.expirations = 1;
        self.last_response = now;
        match packet {
            Packet::Data(header, payload) => self.handle_data(now, header, payload),
            Packet::Control(_, control) => self.handle_control(now, control),
        }
        self.finish_drain();
    }

    fn handle_handshake(&mut self, now: Time, handshake: &Handshake) {
        let State::Connecting { cookie, deadline, .. } = self.state else {
            // The client has not received the response.
            if handshake.request == Request::Response
                && handshake.socket_id == self.peer_id
                && self.is_established()
            {
                let reply = self.handshake(Request::Response, 0);
                self.queue(Control::Handshake(reply));
            }
            return;
        };
        match handshake.request {
            Request::Connect if cookie.is_none() => {
                self.state =
                    State::Connecting { cookie: Some(handshake.cookie), next_request: now, deadline };
            }
            Request::Response if cookie.is_some() => {
                let is_valid = handshake.initial == self.config.initial & wire::SEQUENCE_MASK
                    && handshake.mss >= MIN_MSS
                    && handshake.mss <= self.config.mss
                    && handshake.socket_id != 0;
                if is_valid {
                    self.establish(now, handshake);
                } else {
                    self.fail(CloseReason::Violation);
                }
            }
            Request::Reject(_) => self.fail(CloseReason::Rejected),
            _ => {}
        }
    }

    fn handle_data(&mut self, now: Time, header: wire::DataHeader, payload: &[u8]) {
        self.statistics.received_packets += 1;
        self.ack.packets += 1;
        self.arrivals.record(now, header.sequence);
        if payload.is_empty() || payload.len() > self.config.payload_bytes() {
            self.statistics.useless_packets += 1;
            return;
        }
        match self.receive.insert(header, payload) {
            Ok(None) => {}
            Ok(Some((first, last))) => {
                self.receive.reported(first, last, now + self.report_interval());
                self.queue_nak(&[(first, last)]);
            }
            Err(()) => {
                self.statistics.useless_packets += 1;
                return;
            }
        }
        // A short packet is usually the end of a message: acknowledged at once (libudt).
        if payload.len() != self.config.payload_bytes() {
            self.ack.next_due = now;
        }
        if self.ack.packets >= LIGHT_ACK_PACKETS * self.ack.light {
            self.ack.light += 1;
            if self.receive.next != self.ack.confirmed {
                let next = self.receive.numbering.sequence(self.receive.next);
                self.queue(Control::Ack(Ack::Light { next }));
            }
        }
    }

    /// After which time a missing packet is reported again.
    fn report_interval(&self) -> Time {
        self.rtt + Time(self.rtt_var.0.saturating_mul(4)) + SYN
    }

    fn queue_nak(&mut self, ranges: &[(u64, u64)]) {
        let numbering = self.receive.numbering;
        let ranges =
            ranges.iter().map(|(first, last)| (numbering.sequence(*first), numbering.sequence(*last)));
        self.queue(Control::Nak(ranges.collect()));
    }

    fn queue(&mut self, control: Control) {
        if self.pending.len() < MAX_PENDING {
            self.pending.push_back(control);
        }
    }

    fn handle_control(&mut self, now: Time, control: Control) {
        match control {
            Control::Ack(Ack::Light { next }) => {
                if let Some(index) = self.send.numbering.index(next, self.send.acked)
                    && !self.send.acknowledge(index, None)
                {
                    self.fail(CloseReason::Violation);
                }
            }
            Control::Ack(Ack::Full { number, next, rtt_us, space, rates, .. }) => {
                self.reply_to_ack(now, number);
                let Some(index) = self.send.numbering.index(next, self.send.acked) else { return };
                if !self.send.acknowledge(index, Some(u64::from(space.min(MAX_WINDOW)))) {
                    return self.fail(CloseReason::Violation);
                }
                self.statistics.acks += 1;
                self.update_rtt(Time::from_micros(u64::from(rtt_us)));
                if let Some((receive_rate, capacity)) = rates {
                    self.receive_rate = smooth(self.receive_rate, receive_rate);
                    self.capacity = smooth(self.capacity, capacity);
                }
                let path = self.path();
                self.rate.on_ack(now, index, &path);
            }
            Control::AckOfAck(number) => {
                let Some(at) = self.ack.window.iter().position(|(sent, ..)| *sent == number) else { return };
                let acknowledged = self.ack.window.drain(..=at).next_back();
                if let Some((_, index, sent)) = acknowledged {
                    self.update_rtt(now.saturating_sub(sent));
                    self.ack.confirmed = self.ack.confirmed.max(index);
                }
            }
            Control::Nak(ranges) => self.handle_nak(now, &ranges),
            Control::MessageDrop { first, last, .. } if self.config.socket_type == SocketType::Messages => {
                self.receive.skip(first, last);
            }
            Control::Shutdown => self.fail(CloseReason::Peer),
            Control::PeerError(_) => self.peer_failed = true,
            Control::DelayWarning
            | Control::KeepAlive
            | Control::Handshake(_)
            | Control::MessageDrop { .. } => {}
        }
    }

    /// At most one reply per SYN, and one to each repeated acknowledgement.
    fn reply_to_ack(&mut self, now: Time, number: u32) {
        let is_due =
            self.last_ack_reply.is_none_or(|(at, last)| now.saturating_sub(at) >= SYN || last == number);
        if is_due {
            self.queue(Control::AckOfAck(number));
            self.last_ack_reply = Some((now, number));
        }
    }

    fn handle_nak(&mut self, now: Time, ranges: &[(u32, u32)]) {
        self.statistics.naks += 1;
        let (mut first_lost, mut count) = (None, 0);
        for (first, last) in ranges {
            let numbering = self.send.numbering;
            let near = self.send.acked;
            let Some(last) = numbering.index(*last, near) else { continue };
            let first = numbering.index(*first, near).unwrap_or(0);
            match self.send.mark_lost(first, last) {
                Some(packets) => count += packets,
                None => return self.fail(CloseReason::Violation),
            }
            first_lost = first_lost.or(Some(first));
        }
        self.statistics.lost_packets += count;
        if let Some(first) = first_lost {
            let path = self.path();
            self.rate.on_loss(now, first, count, &path);
        }
    }

    /// Smooths the round-trip time (draft-gg-udt-03 section 3.3).
    fn update_rtt(&mut self, sample: Time) {
        // A peer's report may be any number.
        let sample = sample.min(Time::from_secs(60));
        self.rtt_var = Time((self.rtt_var.0 * 3 + sample.abs_diff(self.rtt).0) / 4);
        self.rtt = Time((self.rtt.0 * 7 + sample.0) / 8);
    }

    /// When [`Connection::handle_timeout`] is due; [`Time::NEVER`] after the end.
    pub fn next_timeout(&self) -> Time {
        match self.state {
            State::Closed(_) => return Time::NEVER,
            State::Connecting { next_request, deadline, .. } => return next_request.min(deadline),
            State::Established | State::Draining => {}
        }
        let mut due = self.expiration().min(self.receive.next_report());
        if self.receive.next != self.ack.confirmed {
            due = due.min(self.ack.next_due);
        }
        if let Some(sent) = self.send.head_sent_at() {
            due = due.min(sent + self.head_timeout());
        }
        if self.send.can_send(self.rate.window()) {
            due = due.min(self.next_send);
        }
        due
    }

    /// When the peer has been silent for too long.
    fn expiration(&self) -> Time {
        let count = u64::from(self.expirations);
        let interval = Time((self.rtt.0 + 4 * self.rtt_var.0).saturating_mul(count)) + SYN;
        self.last_response + interval.max(Time(MIN_EXPIRATION.0 * count))
    }

    /// After which time the first unacknowledged packet is retransmitted.
    fn head_timeout(&self) -> Time {
        let margin = Time(self.rtt_var.0.saturating_mul(4)) + SYN;
        self.rtt + self.rtt + margin + SYN
    }

    /// Runs the timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        match self.state {
            State::Closed(_) => return,
            State::Connecting { cookie, next_request, deadline } => {
                if now >= deadline {
                    self.fail(CloseReason::Timeout);
                } else if now >= next_request {
                    let request = if cookie.is_some() { Request::Response } else { Request::Connect };
                    let handshake = self.handshake(request, cookie.unwrap_or(0));
                    self.queue(Control::Handshake(handshake));
                    self.state = State::Connecting { cookie, next_request: now + REQUEST_INTERVAL, deadline };
                }
                return;
            }
            State::Established | State::Draining => {}
        }
        if now >= self.ack.next_due && self.receive.next != self.ack.confirmed {
            self.send_full_ack(now);
        }
        if now >= self.receive.next_report() {
            let interval = self.report_interval();
            let due = self.receive.take_due(now, interval, RANGES_PER_NAK / 2);
            for ranges in due.chunks(RANGES_PER_NAK) {
                self.queue_nak(ranges);
            }
        }
        if self.send.head_sent_at().is_some_and(|sent| now >= sent + self.head_timeout()) {
            let head = self.send.acked;
            self.send.mark_lost(head, head);
        }
        if now >= self.expiration() {
            self.expire(now);
        }
    }

    fn send_full_ack(&mut self, now: Time) {
        self.ack.next_due = now + SYN;
        self.ack.packets = 0;
        self.ack.light = 1;
        let next = self.receive.next;
        let since_full = now.saturating_sub(self.ack.last_full);
        if next == self.ack.sent && since_full < self.rtt + Time(4 * self.rtt_var.0) {
            return;
        }
        self.ack.sent = next;
        self.ack.number = (self.ack.number + 1) & wire::SEQUENCE_MASK;
        let rates = (since_full >= SYN).then(|| (self.arrivals.receive_rate(), self.arrivals.capacity()));
        if rates.is_some() {
            self.ack.last_full = now;
        }
        let ack = Ack::Full {
            number: self.ack.number,
            next: self.receive.numbering.sequence(next),
            rtt_us: micros(self.rtt),
            rtt_var_us: micros(self.rtt_var),
            // At least 2, or a full buffer could never empty (libudt).
            space: self.receive.space().max(2) as u32,
            rates,
        };
        self.queue(Control::Ack(ack));
        self.ack.window.push_back((self.ack.number, next, now));
        if self.ack.window.len() > ACK_WINDOW {
            self.ack.window.pop_front();
        }
    }

    fn expire(&mut self, now: Time) {
        if self.expirations > MAX_EXPIRATIONS && now.saturating_sub(self.last_response) >= MIN_BROKEN {
            return self.fail(CloseReason::Timeout);
        }
        self.statistics.expirations += 1;
        if self.send.is_empty() {
            self.queue(Control::KeepAlive);
        } else {
            self.send.mark_all_lost();
            let path = self.path();
            self.rate.on_timeout(now, &path);
        }
        self.expirations += 1;
        self.last_response = now;
    }

    /// Appends the next datagram for the peer to `out`; false if nothing is to be sent now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if let Some(control) = self.pending.pop_front() {
            self.encode(now, control, out);
            return true;
        }
        if !self.is_established() {
            return false;
        }
        let window = self.rate.window();
        if !self.send.can_send(window) {
            // The time in which there was nothing to send is not caught up.
            self.next_send = self.next_send.max(now);
            return false;
        }
        if now < self.next_send && !self.is_pair {
            return false;
        }
        let new_before = self.send.next;
        let next = self.send.take_next(now, window, std::mem::take(&mut self.is_pair));
        match next {
            Some(Next::Packet(index)) => {
                self.next_send = self.next_send.max(now.saturating_sub(MAX_CATCH_UP)) + self.rate.period();
                self.is_pair = index == new_before && self.send.begins_pair(index);
                self.statistics.sent_packets += 1;
                self.statistics.retransmitted_packets += u64::from(index < new_before);
                let (stamp_us, destination) = (self.stamp_us(now), self.peer_id);
                let Some((header, payload)) = self.send.packet(index, now) else { return false };
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

    fn encode(&self, now: Time, control: Control, out: &mut Vec<u8>) {
        let is_request = matches!(self.state, State::Connecting { .. });
        let destination = if is_request { 0 } else { self.peer_id };
        Packet::Control(ControlHeader { stamp_us: self.stamp_us(now), destination }, control).encode(out);
    }

    fn stamp_us(&self, now: Time) -> u32 {
        now.saturating_sub(self.start).as_micros() as u32
    }
}

impl Config {
    /// The values that the protocol can carry.
    fn checked(self) -> Self {
        Config {
            mss: self.mss.clamp(MIN_MSS, 65_535),
            receive_packets: self.receive_packets.clamp(16, MAX_WINDOW),
            send_packets: self.send_packets.clamp(1, MAX_WINDOW),
            socket_id: self.socket_id.max(1),
            initial: self.initial & wire::SEQUENCE_MASK,
            ..self
        }
    }

    fn payload_bytes(&self) -> usize {
        (self.mss as usize).saturating_sub(wire::IP_UDP_BYTES + wire::HEADER_BYTES)
    }
}

/// Moving average with a weight of 1/8; 0 is no report.
fn smooth(average: u32, report: u32) -> u32 {
    let report = report.min(i32::MAX as u32);
    if report == 0 { average } else { ((u64::from(average) * 7 + u64::from(report)) / 8) as u32 }
}

fn micros(time: Time) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
