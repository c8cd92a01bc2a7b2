//! The options of a connection, and quinn's configurations that follow from them.

use std::{net::IpAddr, sync::Arc};

use bulk::{flow::QUIC_WINDOW_BYTES, quic::Congestion};
use quinn_proto::{
    ClientConfig, EndpointConfig, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use units::BitRate;

use crate::{Error, Identity, error::tls_failed, header_bytes};

/// The largest packet with IP and UDP headers, bytes.
const MAX_PACKET_BYTES: u32 = 9_000;
/// The smallest UDP payload of QUIC (RFC 9000, section 14), bytes.
const MIN_PAYLOAD_BYTES: u32 = 1_200;

/// The options of a connection.
#[derive(Debug, Clone)]
pub struct QuicOptions {
    /// This end's certificate.
    pub identity: Identity,
    /// The peer's certificate (DER). A listener without one accepts any client; a client needs one.
    pub peer_certificate: Option<Vec<u8>>,
    /// The application protocol, which both ends must agree on (ALPN).
    pub protocol: Vec<u8>,
    /// Largest packet with IP and UDP headers, bytes; 1248 to 9000.
    pub packet_bytes: u32,
    /// The congestion control of this end's data.
    pub congestion: cc::Source,
    /// The maximum rate; `None`: only the congestion control limits it.
    pub rate: Option<BitRate>,
}

impl QuicOptions {
    /// Smallest and largest [`packet_bytes`](QuicOptions::packet_bytes): QUIC's minimum over IPv6, and jumbo
    /// frames.
    pub const PACKET_BYTES: std::ops::RangeInclusive<u32> = MIN_PAYLOAD_BYTES + 48..=MAX_PACKET_BYTES;

    fn transport(&self, ip: IpAddr, congestion: &Congestion) -> TransportConfig {
        let mut transport = TransportConfig::default();
        let payload_bytes = self.packet_bytes.saturating_sub(header_bytes(ip));
        transport
            .initial_mtu(u16::try_from(payload_bytes).unwrap_or(u16::MAX))
            .mtu_discovery_config(None)
            .stream_receive_window(VarInt::from_u32(QUIC_WINDOW_BYTES))
            .receive_window(VarInt::from_u32(QUIC_WINDOW_BYTES))
            .max_concurrent_bidi_streams(VarInt::from_u32(1))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            // An end may hash or store a file for minutes without serving the connection.
            .max_idle_timeout(None)
            .congestion_controller_factory(congestion.factory());
        transport
    }

    pub(crate) fn endpoint() -> EndpointConfig {
        let mut config = EndpointConfig::default();
        // The value is within the bounds of RFC 9000.
        let _ = config.max_udp_payload_size(MAX_PACKET_BYTES as u16);
        config
    }

    pub(crate) fn client(&self, server: IpAddr, congestion: &Congestion) -> Result<ClientConfig, Error> {
        let expected = self.peer_certificate.as_deref().unwrap_or_default();
        let tls = self.identity.client(expected, &self.protocol)?;
        let crypto = QuicClientConfig::try_from(tls).map_err(tls_failed("use TLS for QUIC"))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(self.transport(server, congestion)));
        Ok(config)
    }

    pub(crate) fn server(&self, local: IpAddr, congestion: &Congestion) -> Result<ServerConfig, Error> {
        let tls = self.identity.server(self.peer_certificate.as_deref(), &self.protocol)?;
        let crypto = QuicServerConfig::try_from(tls).map_err(tls_failed("use TLS for QUIC"))?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(Arc::new(self.transport(local, congestion))).migration(false);
        Ok(config)
    }
}
