//! The ends of a QUIC flow: quinn's state machine with a session without encryption, and one unidirectional
//! stream of zeros.
//!
//! Differences from `longfat send --protocol quic`: 1. Packets are not encrypted
//! (`crate::quic::PlainCrypto`).
//! 2. The receiver accepts the sender's first packet without a Retry. 3. The receiver only counts the data.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ClientConfig, ConnectionHandle, ConnectionId, ConnectionIdGenerator, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ServerConfig, StreamEvent, StreamId, TransportConfig, ValidationTokenConfig,
    VarInt,
};
use rand_core::Rng;
use rand_pcg::Pcg32;
use tcp::CongestionControl;
use units::{Instant, Time};

use super::{
    End, Plan, QUIC_WINDOW_BYTES, ReceiverCounts, SenderCounts,
    plan::{QUIC_CONNECTION_ID_BYTES, UDP_HEADER},
};
use crate::quic::{Congestion, Pacer, PlainCrypto, PlainKey, run_timers_and_events};

/// The data is written in pieces of this size, which share their memory.
const PIECE_BYTES: usize = 256 << 10;
/// A receiver grants credit when it has read an eighth of its window (quinn), so a sender without credit has
/// nearly the whole window in flight; certainly the window divided by this.
const MIN_FILLED_PART: u64 = 2;
/// The server name that the sender requests; a plain session does not check it.
const NAME: &str = "receiver";

/// An end's role, which gives it random numbers different from the other's.
#[derive(Debug, Clone, Copy)]
enum Role {
    Sender = 1,
    Receiver = 2,
}

impl Role {
    fn random(self, plan: &Plan) -> Pcg32 {
        Pcg32::new(plan.seed, self as u64)
    }

    /// Addresses only distinguish the ends: the caller knows where it sends datagrams.
    fn address(self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self as u16))
    }

    fn peer(self) -> Role {
        match self {
            Role::Sender => Role::Receiver,
            Role::Receiver => Role::Sender,
        }
    }
}

/// Random connection identifiers from a seed.
struct SeededIds(Pcg32);

impl SeededIds {
    fn draw(&mut self) -> ConnectionId {
        let mut bytes = [0; QUIC_CONNECTION_ID_BYTES as usize];
        self.0.fill_bytes(&mut bytes);
        ConnectionId::new(&bytes)
    }
}

impl ConnectionIdGenerator for SeededIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.draw()
    }

    fn cid_len(&self) -> usize {
        QUIC_CONNECTION_ID_BYTES as usize
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The largest UDP payload of a plan.
fn max_payload(plan: &Plan) -> u16 {
    let bytes = plan.mtu.saturating_sub(plan.ip_header + UDP_HEADER);
    u16::try_from(bytes).unwrap_or(u16::MAX).clamp(MIN_PAYLOAD, MAX_PAYLOAD)
}

/// Smallest and largest UDP payload of QUIC (RFC 9000, sections 14 and 18.2).
const MIN_PAYLOAD: u16 = 1_200;
const MAX_PAYLOAD: u16 = 65_527;

fn transport(plan: &Plan, window: Option<u32>, congestion: Option<&Congestion>) -> Arc<TransportConfig> {
    let window = VarInt::from_u32(window.unwrap_or(QUIC_WINDOW_BYTES));
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(max_payload(plan))
        .mtu_discovery_config(None)
        .stream_receive_window(window)
        .receive_window(window)
        // The sender writes whenever flow control allows it.
        .send_window(u64::MAX)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(1))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(None);
    if let Some(congestion) = congestion {
        transport.congestion_controller_factory(congestion.factory());
    }
    Arc::new(transport)
}

/// The state that both ends have in common.
struct QuicEnd {
    /// The instant of time 0.
    base: std::time::Instant,
    role: Role,
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, quinn_proto::Connection)>,
    /// Datagrams that the endpoint itself sends.
    replies: VecDeque<Vec<u8>>,
    scratch: Vec<u8>,
    /// When the connection's next timer is due.
    timer: Instant,
    failure: Option<String>,
}

impl QuicEnd {
    fn new(plan: &Plan, role: Role, server: Option<ServerConfig>) -> Self {
        let mut random = role.random(plan);
        let mut config = EndpointConfig::new(Arc::new(PlainKey(random.next_u64())));
        let ids = random.clone();
        config.cid_generator(move || Box::new(SeededIds(ids.clone())));
        // The payload is within the bounds of the parameter.
        let _ = config.max_udp_payload_size(max_payload(plan));
        let mut seed = [0; 32];
        random.fill_bytes(&mut seed);
        QuicEnd {
            base: base(),
            role,
            endpoint: Endpoint::new(Arc::new(config), server.map(Arc::new), false, Some(seed)),
            connection: None,
            replies: VecDeque::new(),
            scratch: Vec::new(),
            timer: Instant::NEVER,
            failure: None,
        }
    }

    fn std_instant(&self, at: Instant) -> std::time::Instant {
        self.base + at.since_origin().to_duration()
    }

    fn instant(&self, at: std::time::Instant) -> Instant {
        Instant::ZERO + Time::from_duration(at.saturating_duration_since(self.base))
    }

    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let now = self.std_instant(now);
        self.scratch.clear();
        let bytes = BytesMut::from(bytes);
        let peer = self.role.peer().address();
        match self.endpoint.handle(now, peer, None, None, bytes, &mut self.scratch) {
            Some(DatagramEvent::ConnectionEvent(target, event)) => {
                if let Some((handle, connection)) = &mut self.connection
                    && *handle == target
                {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                match self.endpoint.accept(incoming, now, &mut self.scratch, None) {
                    Ok(accepted) => self.connection = Some(accepted),
                    Err(error) => self.failure = Some(error.cause.to_string()),
                }
            }
            Some(DatagramEvent::NewConnection(other)) => self.endpoint.ignore(other),
            Some(DatagramEvent::Response(_)) => self.replies.push_back(std::mem::take(&mut self.scratch)),
            None => {}
        }
    }

    /// Runs the timers that are due, and passes each event of the connection to `on_event`.
    fn run(&mut self, now: Instant, mut on_event: impl FnMut(Event)) {
        let now = self.std_instant(now);
        let Some((handle, connection)) = &mut self.connection else { return };
        run_timers_and_events(&mut self.endpoint, *handle, connection, now);
        while let Some(event) = connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.failure = Some(reason.to_string());
            } else {
                on_event(event);
            }
        }
        self.update_timer();
    }

    fn update_timer(&mut self) {
        let due = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        self.timer = due.map_or(Instant::NEVER, |due| self.instant(due));
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some(reply) = self.replies.pop_front() {
            out.extend_from_slice(&reply);
            return true;
        }
        let now = self.std_instant(now);
        let Some((_, connection)) = &mut self.connection else { return false };
        self.scratch.clear();
        let is_sent = connection.poll_transmit(now, 1, &mut self.scratch).is_some();
        out.extend_from_slice(&self.scratch);
        self.update_timer();
        is_sent
    }
}

/// An instant of the clock. Nothing depends on it: only differences from it are used.
#[allow(clippy::disallowed_methods, reason = "there is no other way to make an Instant")]
fn base() -> std::time::Instant {
    std::time::Instant::now()
}

/// The sending end: a client.
pub(super) struct QuicSender {
    end: QuicEnd,
    /// `None`: quinn's CUBIC.
    congestion: Option<Congestion>,
    pacer: Pacer,
    /// When the pacer allows the next datagram, if one waits for it.
    paced: Option<Instant>,
    stream: Option<StreamId>,
    zeros: Bytes,
    /// Bytes to write.
    remaining: u64,
    is_connected: bool,
    is_complete: bool,
    payload_bytes: u32,
    window_bytes: u32,
}

impl QuicSender {
    pub(super) fn new(
        plan: &Plan,
        receive_window: Option<u32>,
        controller: Option<Box<dyn CongestionControl>>,
        now: Instant,
    ) -> Self {
        let congestion = controller.map(|controller| {
            // A client has one path.
            let mut controller = Some(controller);
            Congestion::new(move |_| controller.take())
        });
        let mut end = QuicEnd::new(plan, Role::Sender, None);
        let mut config = ClientConfig::new(Arc::new(PlainCrypto));
        let ids = Mutex::new(SeededIds(Pcg32::new(plan.seed, 0)));
        config.transport_config(transport(plan, None, congestion.as_ref())).initial_dst_cid_provider(
            Arc::new(move || ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).draw()),
        );
        let start = end.std_instant(now);
        match end.endpoint.connect(start, config, Role::Receiver.address(), NAME) {
            Ok(connection) => end.connection = Some(connection),
            Err(error) => end.failure = Some(error.to_string()),
        }
        end.update_timer();
        QuicSender {
            pacer: Pacer::new(start),
            end,
            congestion,
            paced: None,
            stream: None,
            zeros: Bytes::from(vec![0; PIECE_BYTES]),
            remaining: plan.bytes.unwrap_or(u64::MAX),
            is_connected: false,
            is_complete: false,
            payload_bytes: plan.payload_bytes(),
            window_bytes: receive_window.unwrap_or(QUIC_WINDOW_BYTES),
        }
    }

    /// Runs timers and events, and writes while flow control allows it.
    fn run(&mut self, now: Instant) {
        let (is_connected, is_complete) = (&mut self.is_connected, &mut self.is_complete);
        self.end.run(now, |event| match event {
            Event::Connected => *is_connected = true,
            Event::Stream(StreamEvent::Finished { .. }) => *is_complete = true,
            _ => {}
        });
        if self.is_connected {
            self.write();
        }
    }

    fn write(&mut self) {
        let Some((_, connection)) = &mut self.end.connection else { return };
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        let mut stream = connection.send_stream(id);
        while self.remaining > 0 {
            let length = self.remaining.min(PIECE_BYTES as u64) as usize;
            let written = stream.write_chunks(&mut [self.zeros.slice(..length)]);
            let Ok(written) = written else { return };
            self.remaining -= written.bytes as u64;
            if self.remaining == 0 {
                // The stream is open.
                let _ = stream.finish();
            }
            if written.bytes < length {
                return;
            }
        }
    }

    pub(super) fn counts(&self) -> SenderCounts {
        let payload = u64::from(self.payload_bytes);
        let Some((_, connection)) = &self.end.connection else { return SenderCounts::default() };
        let statistics = connection.stats();
        let path = statistics.path;
        let packets = |bytes: u64| bytes / u64::from(path.current_mtu.max(1));
        let congestion = self.congestion.as_ref().map(Congestion::state);
        let is_window_used = congestion
            .is_some_and(|state| state.is_app_limited && self.is_window_filled(state.in_flight_packets))
            && self.remaining > 0;
        let is_measured = statistics.frame_rx.acks > 0;
        let deviation = congestion.map_or(Time::ZERO, |state| state.rtt_deviation);
        SenderCounts {
            is_connected: self.is_connected,
            is_complete: self.is_complete,
            payload_bytes: self.payload_bytes,
            sent_packets: path.sent_packets,
            // QUIC carries the data of lost packets in new packets.
            retransmitted_packets: path.lost_packets,
            sent_bytes: statistics.udp_tx.bytes,
            unacked_packets: congestion.map(|state| state.in_flight_packets),
            lost_packets: path.lost_packets,
            window_packets: Some(packets(path.cwnd)),
            // The receiver grants credit in steps: while no credit is left, the window is the data in flight.
            peer_window_packets: match congestion {
                Some(state) if is_window_used => Some(state.in_flight_packets),
                _ => Some(u64::from(self.window_bytes) / payload.max(1)),
            },
            rate_bps: self.pacing_rate().map(|bytes| bytes.saturating_mul(8)),
            rtt: is_measured.then(|| (Time::from_duration(path.rtt), deviation)),
            min_rtt: is_measured.then(|| Time::from_duration(path.min_rtt)),
            ..SenderCounts::default()
        }
    }

    /// Whether the data in flight can have used all credit. The last acknowledgement alone does not show it:
    /// on a slow path it is that of the handshake, long after data was sent.
    fn is_window_filled(&self, in_flight_packets: u64) -> bool {
        let in_flight = in_flight_packets * u64::from(self.payload_bytes);
        in_flight >= u64::from(self.window_bytes) / MIN_FILLED_PART
    }

    /// The rate that the congestion control requests, bytes/s.
    fn pacing_rate(&self) -> Option<u64> {
        let (_, connection) = self.end.connection.as_ref()?;
        connection.congestion_state().metrics().pacing_rate.map(|bits| bits / 8)
    }
}

impl End for QuicSender {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.end.handle_datagram(now, bytes);
        self.run(now);
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.paced.map_or(self.end.timer, |paced| paced.min(self.end.timer))
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.run(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let due = self.end.instant(self.pacer.due());
        if due > now {
            self.paced = Some(due);
            return false;
        }
        self.paced = None;
        let begin = out.len();
        if !self.end.poll_transmit(now, out) {
            return false;
        }
        let rate = self.pacing_rate();
        self.pacer.sent(self.end.std_instant(now), out.len() - begin, rate);
        true
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        self.end.failure.clone()
    }
}

/// The receiving end: a server with one connection.
pub(super) struct QuicReceiver {
    end: QuicEnd,
    stream: Option<StreamId>,
    bytes: Option<u64>,
    received: u64,
}

impl QuicReceiver {
    pub(super) fn new(plan: &Plan, receive_window: Option<u32>) -> Self {
        let mut random = Role::Receiver.random(plan);
        let mut config = ServerConfig::new(Arc::new(PlainCrypto), Arc::new(PlainKey(random.next_u64())));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config
            .transport_config(transport(plan, receive_window, None))
            .migration(false)
            .validation_token_config(tokens);
        QuicReceiver {
            end: QuicEnd::new(plan, Role::Receiver, Some(config)),
            stream: None,
            bytes: plan.bytes,
            received: 0,
        }
    }

    fn run(&mut self, now: Instant) {
        self.end.run(now, |_| {});
        self.read();
        // Reading may have raised the limits of flow control.
        self.end.update_timer();
    }

    /// Reads and discards the data that has arrived.
    fn read(&mut self) {
        let Some((_, connection)) = &mut self.end.connection else { return };
        if self.stream.is_none() {
            self.stream = connection.streams().accept(Dir::Uni);
        }
        let Some(id) = self.stream else { return };
        let mut stream = connection.recv_stream(id);
        // After the end of the stream there is nothing to read.
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.received += chunk.bytes.len() as u64;
        }
        // The next datagram sends the new limits of flow control.
        let _ = chunks.finalize();
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        ReceiverCounts {
            is_complete: self.bytes.is_some_and(|bytes| self.received >= bytes),
            received_bytes: self.received,
            ..ReceiverCounts::default()
        }
    }
}

impl End for QuicReceiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.end.handle_datagram(now, bytes);
        self.run(now);
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.end.timer
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.run(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.end.poll_transmit(now, out)
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        self.end.failure.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Protocol;

    const BYTES: u64 = 1_000_000;
    const DELAY: Time = Time::from_millis(5);

    fn plan(seed: u64) -> Plan {
        let protocol = Protocol::Quic { receive_window: None };
        Plan { protocol, bytes: Some(BYTES), mtu: 1500, ip_header: 20, seed }
    }

    /// Exchanges datagrams over a path with a delay of 5 ms each way that drops every `dropped`-th datagram
    /// of the sender, until all data has arrived and is acknowledged. Returns all datagrams in the order of
    /// their transmission, and the sender's counts.
    fn exchange(plan: &Plan, dropped: usize) -> (Vec<Vec<u8>>, SenderCounts) {
        let mut sender = QuicSender::new(plan, None, None, Instant::ZERO);
        let mut receiver = QuicReceiver::new(plan, None);
        let (mut sent, mut on_path) = (Vec::new(), VecDeque::new());
        let (mut now, mut from_sender) = (Instant::ZERO, 0);
        while !sender.counts().is_complete {
            assert!(now < Instant::from_secs(60), "{:?}", sender.counts());
            let ends: [&mut dyn End; 2] = [&mut sender, &mut receiver];
            for (side, end) in ends.into_iter().enumerate() {
                if end.next_timeout() <= now {
                    end.handle_timeout(now);
                }
                let mut datagram = Vec::new();
                while end.poll_transmit(now, &mut datagram) {
                    from_sender += usize::from(side == 0);
                    if side == 1 || from_sender % dropped != 0 {
                        on_path.push_back((now + DELAY, side, datagram.clone()));
                    }
                    sent.push(std::mem::take(&mut datagram));
                }
                assert_eq!(end.failure(), None);
            }
            let timers = [sender.next_timeout(), receiver.next_timeout()];
            let arrival = on_path.front().map(|(at, ..)| *at);
            now = now.max(timers.into_iter().chain(arrival).min().unwrap_or(now));
            while on_path.front().is_some_and(|(at, ..)| *at <= now)
                && let Some((_, side, datagram)) = on_path.pop_front()
            {
                match side {
                    0 => receiver.handle_datagram(now, &datagram),
                    _ => sender.handle_datagram(now, &datagram),
                }
            }
        }
        assert_eq!(receiver.counts().received_bytes, BYTES);
        assert!(receiver.counts().is_complete);
        (sent, sender.counts())
    }

    #[test]
    fn all_data_arrives_although_packets_are_lost() {
        let (sent, counts) = exchange(&plan(1), 29);
        assert!(sent.iter().all(|datagram| datagram.len() <= 1472));
        assert!(counts.lost_packets >= 20, "{counts:?}");
        let (_, counts) = exchange(&plan(1), usize::MAX);
        assert_eq!(counts.lost_packets, 0);
        assert!((DELAY + DELAY..Time::from_millis(11)).contains(&counts.min_rtt.unwrap()), "{counts:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_datagrams_and_another_seed_others() {
        let (one, same, other) =
            (exchange(&plan(7), 29).0, exchange(&plan(7), 29).0, exchange(&plan(8), 29).0);
        assert!(one == same);
        assert!(one[0] != other[0]);
    }

    #[test]
    fn datagrams_have_the_sizes_of_an_encrypted_connection() {
        let (sent, _) = exchange(&plan(1), usize::MAX);
        // RFC 9000, section 14.1: the first datagrams of the handshake are full.
        assert_eq!((sent[0].len(), sent[1].len() >= 1200), (1200, true));
        let full: Vec<&Vec<u8>> = sent.iter().filter(|datagram| datagram.len() == 1472).collect();
        assert!(full.len() as u64 > BYTES / 1472, "{} full datagrams", full.len());
        // Each packet ends with a tag.
        assert!(sent.iter().all(|datagram| datagram.ends_with(&[0; 16])));
    }
}
