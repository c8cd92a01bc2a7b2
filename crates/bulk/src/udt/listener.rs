//! The server's side of connection set-up. Before a client has shown that it receives at its address, the
//! server keeps no state for it and replies with no more bytes than the request has.

use std::net::IpAddr;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use units::{Instant, Time};

use crate::udt::{
    Connection, RateControl,
    config::{Config, MIN_MSS},
    wire::{self, Control, ControlHeader, Handshake, Packet, Request},
};

/// libudt's code of a rejected request.
const REJECTED: u32 = 1002;
/// Cookies change every minute; those of the previous minute are valid too (libudt).
const COOKIE_PERIOD: Time = Time::from_secs(60);

/// Replies to connection requests of one port.
pub struct Listener {
    config: Config,
    secret: [u8; 32],
}

/// A datagram without a connection, classified.
#[derive(Debug)]
pub enum Arrival {
    /// Not a connection request, or one with a wrong cookie.
    Ignored,
    /// A request, and the datagram to reply with.
    Reply(Vec<u8>),
    /// A request of a client that received its cookie.
    Request(Incoming),
}

/// A valid connection request.
#[derive(Debug)]
pub struct Incoming {
    handshake: Handshake,
}

impl Incoming {
    /// The client's socket ID: with its address it identifies the connection, whose request may arrive again.
    pub fn peer_id(&self) -> u32 {
        self.handshake.socket_id
    }
}

impl Listener {
    /// A listener with random bytes that no client can guess.
    pub fn new(config: Config, secret: [u8; 32]) -> Self {
        Listener { config, secret }
    }

    /// Processes a datagram for no connection. `peer` identifies the sender's address and port.
    pub fn handle_datagram(&self, now: Instant, peer: &[u8], bytes: &[u8]) -> Arrival {
        let Ok(Packet::Control(ControlHeader { destination: 0, .. }, Control::Handshake(handshake))) =
            Packet::decode(bytes)
        else {
            return Arrival::Ignored;
        };
        let minute = now.since_origin() / COOKIE_PERIOD;
        match handshake.request {
            Request::Connect => {
                let cookie = self.cookie(peer, minute);
                Arrival::Reply(reply(Handshake { cookie, ..handshake }))
            }
            Request::Response => {
                let minutes = [Some(minute), minute.checked_sub(1)];
                if !minutes.into_iter().flatten().any(|minute| self.cookie(peer, minute) == handshake.cookie)
                {
                    return Arrival::Ignored;
                }
                let is_possible = handshake.version == wire::VERSION
                    && handshake.socket_type == self.config.socket_type.code()
                    && handshake.mss >= MIN_MSS
                    && handshake.socket_id != 0;
                let incoming = Incoming { handshake };
                if is_possible { Arrival::Request(incoming) } else { Arrival::Reply(self.reject(&incoming)) }
            }
            _ => Arrival::Ignored,
        }
    }

    /// Begins the connection, with a socket ID that no other connection of the port has.
    pub fn accept(
        &self,
        now: Instant,
        incoming: &Incoming,
        socket_id: u32,
        peer_ip: [u32; 4],
        rate: Box<dyn RateControl>,
    ) -> Connection {
        let config = Config { socket_id, ..self.config };
        Connection::accept(now, config, &incoming.handshake, peer_ip, rate)
    }

    /// The datagram that rejects a request.
    pub fn reject(&self, incoming: &Incoming) -> Vec<u8> {
        reply(Handshake { request: Request::Reject(REJECTED), ..incoming.handshake })
    }

    fn cookie(&self, peer: &[u8], minute: u64) -> u32 {
        // HMAC takes keys of any length (RFC 2104 section 2).
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).expect("a key of any length is valid");
        mac.update(&minute.to_be_bytes());
        mac.update(peer);
        let code = mac.finalize().into_bytes();
        u32::from_be_bytes([code[0], code[1], code[2], code[3]])
    }
}

fn reply(handshake: Handshake) -> Vec<u8> {
    let header = ControlHeader { stamp_us: 0, destination: handshake.socket_id };
    let mut bytes = Vec::new();
    Packet::Control(header, Control::Handshake(handshake)).encode(&mut bytes);
    bytes
}

/// An address as handshakes carry it: libudt reads each word of the address, which is in network byte order,
/// as a number in its machine's byte order, which is little-endian.
pub fn ip_words(address: IpAddr) -> [u32; 4] {
    match address {
        IpAddr::V4(address) => [u32::from_le_bytes(address.octets()), 0, 0, 0],
        IpAddr::V6(address) => {
            let octets = address.octets();
            [0, 4, 8, 12]
                .map(|i| u32::from_le_bytes([octets[i], octets[i + 1], octets[i + 2], octets[i + 3]]))
        }
    }
}
