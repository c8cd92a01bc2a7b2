//! A session of QUIC without encryption, in place of TLS: for simulations, which need no secrets and must be
//! reproducible.
//!
//! The packets have the sizes of an encrypted connection: each ends with a tag of [`TAG_BYTES`] zeros, and
//! the messages of the handshake have about the sizes of TLS 1.3's if both ends present a certificate, as
//! `longfat send` does.
//!
//! Differences from TLS (RFC 9001): 1. Packets are neither encrypted nor authenticated, and headers are not
//! protected. 2. Keys are never updated. 3. No 0-RTT data, no Retry packets, no tokens for later connections.

use std::{any::Any, sync::Arc};

use bytes::BytesMut;
use hmac::{Hmac, Mac};
use quinn_proto::{
    ConnectError, ConnectionId, Side, TransportError, TransportErrorCode,
    crypto::{
        AeadKey, ClientConfig, CryptoError, ExportKeyingMaterialError, HandshakeTokenKey, HeaderKey, HmacKey,
        KeyPair, Keys, PacketKey, ServerConfig, Session, UnsupportedVersion,
    },
    transport_parameters::TransportParameters,
};
use sha2::Sha256;

/// Bytes of a packet's tag, as with the AEAD algorithms of TLS 1.3.
pub const TAG_BYTES: usize = 16;
/// Bytes of a packet that protect its header (RFC 9001, section 5.4.2).
const SAMPLE_BYTES: usize = 16;
/// Type and length before each message, as in TLS.
const MESSAGE_HEADER_BYTES: usize = 4;
/// Sizes of the messages, without their headers: ClientHello; ServerHello; the server's extensions, request
/// for a certificate, certificate, signature and Finished; the client's certificate, signature and Finished.
/// An ECDSA certificate has about 370 bytes.
const CLIENT_HELLO_BYTES: usize = 280;
const SERVER_HELLO_BYTES: usize = 86;
const SERVER_FLIGHT_BYTES: usize = 760;
const CLIENT_FLIGHT_BYTES: usize = 500;

/// The configuration of either end.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainCrypto;

impl ClientConfig for PlainCrypto {
    fn start_session(
        self: Arc<Self>,
        _version: u32,
        _server_name: &str,
        parameters: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        Ok(Box::new(PlainSession::new(Side::Client, parameters)))
    }
}

impl ServerConfig for PlainCrypto {
    fn initial_keys(&self, _version: u32, _id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        Ok(keys())
    }

    fn retry_tag(&self, _version: u32, _id: &ConnectionId, _packet: &[u8]) -> [u8; 16] {
        [0; 16]
    }

    fn start_session(self: Arc<Self>, _version: u32, parameters: &TransportParameters) -> Box<dyn Session> {
        Box::new(PlainSession::new(Side::Server, parameters))
    }
}

/// The next step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Write the first message of this end.
    WriteHello,
    /// The client waits for the server's first message.
    AwaitServerHello,
    /// The client has it: the keys of the handshake are due.
    TakeHandshakeKeys,
    /// The peer's last message of the handshake is missing.
    AwaitFlight,
    /// Write this end's last message; the keys of the connection are due.
    WriteFlight,
    /// The server waits for the client's first message.
    AwaitClientHello,
    /// The handshake is complete.
    Done,
}

/// One end of a handshake.
struct PlainSession {
    side: Side,
    step: Step,
    /// This end's transport parameters, encoded.
    parameters: Vec<u8>,
    /// The peer's.
    peer: Option<TransportParameters>,
    /// Bytes of an incomplete message.
    incoming: Vec<u8>,
}

impl PlainSession {
    fn new(side: Side, parameters: &TransportParameters) -> Self {
        let mut encoded = Vec::new();
        parameters.write(&mut encoded);
        let step = if side.is_client() { Step::WriteHello } else { Step::AwaitClientHello };
        PlainSession { side, step, parameters: encoded, peer: None, incoming: Vec::new() }
    }

    /// The body of the next complete message.
    fn next_message(&mut self) -> Option<Vec<u8>> {
        let header: [u8; MESSAGE_HEADER_BYTES] = *self.incoming.first_chunk()?;
        let end = MESSAGE_HEADER_BYTES + u32::from_be_bytes(header) as usize;
        if self.incoming.len() < end {
            return None;
        }
        let rest = self.incoming.split_off(end);
        let message = std::mem::replace(&mut self.incoming, rest);
        Some(message[MESSAGE_HEADER_BYTES..].to_vec())
    }

    fn read_parameters(&mut self, message: &[u8]) -> Result<(), TransportError> {
        let mut encoded = message
            .split_first_chunk()
            .and_then(|(length, rest)| rest.get(..usize::from(u16::from_be_bytes(*length))))
            .ok_or_else(|| failed("the peer's message has no transport parameters"))?;
        let parameters = TransportParameters::read(self.side, &mut encoded)?;
        self.peer = Some(parameters);
        Ok(())
    }

    /// The transport parameters with their length.
    fn own_parameters(&self) -> Vec<u8> {
        let length = u16::try_from(self.parameters.len()).unwrap_or(u16::MAX);
        [&length.to_be_bytes(), self.parameters.as_slice()].concat()
    }
}

fn failed(reason: &str) -> TransportError {
    TransportError { code: TransportErrorCode::PROTOCOL_VIOLATION, frame: None, reason: reason.into() }
}

/// Appends a message of at least `bytes` bytes that begins with `content`.
fn write_message(content: &[u8], bytes: usize, out: &mut Vec<u8>) {
    let length = content.len().max(bytes);
    out.extend_from_slice(&(length as u32).to_be_bytes());
    out.extend_from_slice(content);
    out.resize(out.len() + length - content.len(), 0);
}

impl Session for PlainSession {
    fn initial_keys(&self, _id: &ConnectionId, _side: Side) -> Keys {
        keys()
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.step != Step::Done
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        self.incoming.extend_from_slice(bytes);
        while let Some(message) = self.next_message() {
            self.step = match self.step {
                Step::AwaitClientHello => {
                    self.read_parameters(&message)?;
                    Step::WriteHello
                }
                Step::AwaitServerHello => Step::TakeHandshakeKeys,
                Step::AwaitFlight if self.side.is_client() => {
                    self.read_parameters(&message)?;
                    Step::WriteFlight
                }
                Step::AwaitFlight => Step::Done,
                _ => return Err(failed("an unexpected message of the handshake")),
            };
        }
        Ok(false)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        Ok(self.peer)
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let is_client = self.side.is_client();
        let (step, keys) = match self.step {
            Step::WriteHello if is_client => {
                write_message(&self.own_parameters(), CLIENT_HELLO_BYTES, out);
                (Step::AwaitServerHello, None)
            }
            Step::WriteHello => {
                write_message(&[], SERVER_HELLO_BYTES, out);
                (Step::WriteFlight, Some(keys()))
            }
            Step::TakeHandshakeKeys => (Step::AwaitFlight, Some(keys())),
            Step::WriteFlight if is_client => {
                write_message(&[], CLIENT_FLIGHT_BYTES, out);
                (Step::Done, Some(keys()))
            }
            Step::WriteFlight => {
                write_message(&self.own_parameters(), SERVER_FLIGHT_BYTES, out);
                (Step::AwaitFlight, Some(keys()))
            }
            other => (other, None),
        };
        self.step = step;
        keys
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        Some(keys().packet)
    }

    fn is_valid_retry(&self, _id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        // There are no secrets.
        Err(ExportKeyingMaterialError)
    }
}

/// Appends a tag of zeros in place of encryption.
struct PlainPacket;

impl PacketKey for PlainPacket {
    fn encrypt(&self, _packet: u64, buffer: &mut [u8], _header_bytes: usize) {
        let end = buffer.len().saturating_sub(TAG_BYTES);
        buffer[end..].fill(0);
    }

    fn decrypt(&self, _packet: u64, _header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        match payload.split_last_chunk::<TAG_BYTES>() {
            Some((data, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])) => {
                let length = data.len();
                payload.truncate(length);
                Ok(())
            }
            _ => Err(CryptoError),
        }
    }

    fn tag_len(&self) -> usize {
        TAG_BYTES
    }

    fn confidentiality_limit(&self) -> u64 {
        u64::MAX
    }

    fn integrity_limit(&self) -> u64 {
        u64::MAX
    }
}

/// Does not change headers.
struct PlainHeader;

impl HeaderKey for PlainHeader {
    fn decrypt(&self, _at: usize, _packet: &mut [u8]) {}

    fn encrypt(&self, _at: usize, _packet: &mut [u8]) {}

    fn sample_size(&self) -> usize {
        SAMPLE_BYTES
    }
}

fn keys() -> Keys {
    Keys {
        header: KeyPair { local: Box::new(PlainHeader), remote: Box::new(PlainHeader) },
        packet: KeyPair { local: Box::new(PlainPacket), remote: Box::new(PlainPacket) },
    }
}

/// The key of an endpoint's tokens for stateless resets, which must differ from the tags of packets.
#[derive(Debug, Clone, Copy)]
pub struct PlainKey(pub u64);

impl PlainKey {
    fn mac(&self, data: &[u8]) -> Hmac<Sha256> {
        let key = self.0.to_be_bytes();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key of any length is valid");
        mac.update(data);
        mac
    }
}

impl HmacKey for PlainKey {
    fn sign(&self, data: &[u8], signature: &mut [u8]) {
        signature.copy_from_slice(&self.mac(data).finalize().into_bytes());
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        self.mac(data).verify_slice(signature).map_err(|_| CryptoError)
    }
}

impl HandshakeTokenKey for PlainKey {
    fn aead_from_hkdf(&self, _random: &[u8]) -> Box<dyn AeadKey> {
        Box::new(NoTokens)
    }
}

/// No tokens are issued, and none is valid.
struct NoTokens;

impl AeadKey for NoTokens {
    fn seal(&self, _data: &mut Vec<u8>, _additional: &[u8]) -> Result<(), CryptoError> {
        Err(CryptoError)
    }

    fn open<'a>(&self, _data: &'a mut [u8], _additional: &[u8]) -> Result<&'a mut [u8], CryptoError> {
        Err(CryptoError)
    }
}
