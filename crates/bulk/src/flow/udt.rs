//! The ends of a UDT flow.

use units::Instant;

use super::{End, Plan, ReceiverCounts, SenderCounts};
use crate::udt::{Arrival, CloseReason, Config, Connection, Listener, RateChoice, wire};

/// The data of a flow is zeros, written in blocks of this size.
const ZEROS: [u8; 16_384] = [0; 16_384];
/// The send buffer is filled up to this number of packets that were not yet sent, so that it holds little
/// more than the data in flight.
const UNSENT_PACKETS: usize = 64;
/// Bits of a sequence number.
const SEQUENCE_BITS: u32 = 31;
/// IPv4's header, which UDT's packet size includes whatever the IP version.
const IPV4_HEADER: u32 = 20;
/// Socket IDs of the ends.
const SENDER_ID: u32 = 1;
const RECEIVER_ID: u32 = 2;

fn config(plan: &Plan, socket_id: u32, receive_packets: Option<u32>) -> Config {
    let default = Config::default();
    // Uniform: Fibonacci hashing of the seed.
    let initial = (plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SEQUENCE_BITS)) as u32;
    Config {
        mss: plan.mtu.saturating_sub(plan.ip_header.saturating_sub(IPV4_HEADER)),
        receive_packets: receive_packets.unwrap_or(default.receive_packets),
        // No more than the receiver's window is ever in flight.
        send_packets: u32::MAX,
        socket_id,
        initial,
        ..default
    }
}

/// The sending end: a client.
pub(super) struct UdtSender {
    connection: Connection,
    /// Bytes to write.
    remaining: u64,
}

impl UdtSender {
    pub(super) fn new(plan: &Plan, rate: RateChoice, now: Instant) -> Self {
        let config = config(plan, SENDER_ID, None);
        let control = rate.control(plan.seed, config.mss);
        let connection = Connection::connect(now, config, [0; 4], control);
        UdtSender { connection, remaining: plan.bytes.unwrap_or(u64::MAX) }
    }

    /// Writes data while the connection takes it, and closes it after the last byte.
    fn write(&mut self) {
        while self.connection.is_established()
            && self.remaining > 0
            && self.connection.unsent_packets() < UNSENT_PACKETS
        {
            let length = self.remaining.min(ZEROS.len() as u64) as usize;
            let written = self.connection.write(&ZEROS[..length]);
            self.remaining -= written as u64;
            if written < length {
                return;
            }
        }
        if self.remaining == 0 && self.connection.is_established() {
            self.connection.close();
        }
    }

    pub(super) fn counts(&self) -> SenderCounts {
        SenderCounts::of_udt(&self.connection)
    }
}

impl End for UdtSender {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.connection.handle_datagram(now, bytes);
        self.write();
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.connection.next_timeout()
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.write();
        self.connection.poll_transmit(now, out)
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        failure(self.connection.close_reason()?)
    }
}

/// Why a connection failed; `None` for a regular end.
fn failure(reason: CloseReason) -> Option<String> {
    let is_regular = matches!(reason, CloseReason::Local | CloseReason::Peer);
    (!is_regular).then(|| reason.to_string())
}

/// The receiving end: a server with one connection.
pub(super) struct UdtReceiver {
    listener: Listener,
    /// Replies to requests before the connection.
    reply: Option<Vec<u8>>,
    connection: Option<Connection>,
    seed: u64,
    bytes: Option<u64>,
    received: u64,
    buffer: Vec<u8>,
}

impl UdtReceiver {
    pub(super) fn new(plan: &Plan, receive_packets: Option<u32>) -> Self {
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&plan.seed.to_be_bytes());
        UdtReceiver {
            listener: Listener::new(config(plan, RECEIVER_ID, receive_packets), secret),
            reply: None,
            connection: None,
            seed: plan.seed,
            bytes: plan.bytes,
            received: 0,
            buffer: vec![0; ZEROS.len()],
        }
    }

    pub(super) fn counts(&self) -> ReceiverCounts {
        let statistics = self.connection.as_ref().map(Connection::statistics).unwrap_or_default();
        ReceiverCounts {
            is_complete: self.bytes.is_some_and(|bytes| self.received >= bytes),
            received_bytes: self.received,
            duplicate_packets: statistics.useless_packets,
            rtt: self.connection.as_ref().and_then(Connection::measured_rtt),
            min_rtt: self.connection.as_ref().and_then(Connection::min_rtt),
            playout: None,
        }
    }
}

impl End for UdtReceiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Some(connection) = &mut self.connection else {
            match self.listener.handle_datagram(now, b"sender", bytes) {
                Arrival::Ignored => {}
                Arrival::Reply(reply) => self.reply = Some(reply),
                Arrival::Request(incoming) => {
                    // This end sends no data.
                    let control = RateChoice::Automatic.control(self.seed, wire::IP_UDP_BYTES as u32);
                    self.connection =
                        Some(self.listener.accept(now, &incoming, RECEIVER_ID, [0; 4], control));
                }
            }
            return;
        };
        connection.handle_datagram(now, bytes);
        loop {
            match connection.read(&mut self.buffer) {
                0 => break,
                count => self.received += count as u64,
            }
        }
    }
    fn handle_control(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.connection.as_ref().map_or(Instant::NEVER, Connection::next_timeout)
    }
    fn handle_timeout(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some(reply) = self.reply.take() {
            out.extend_from_slice(&reply);
            return true;
        }
        self.connection.as_mut().is_some_and(|connection| connection.poll_transmit(now, out))
    }
    fn take_control(&mut self) -> Vec<u8> {
        Vec::new()
    }
    fn failure(&self) -> Option<String> {
        failure(self.connection.as_ref()?.close_reason()?)
    }
}
