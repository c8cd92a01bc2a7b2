//! The client of a stream.

use std::{net::SocketAddr, sync::atomic::AtomicBool, time::Duration};

use bulk::{
    flow::{full_stream_payload, full_vdif_payload},
    stream::{Parameters, vdif},
};
use iperf3::{
    ClientOptions, Error as ServerError, IpVersion, Token,
    report::{Amount, Protocol, TestSpec},
    service::{Channel, greet_unless},
    wire::QueueNotice,
};
use socket2::{SockAddr, Socket};
use traffic::{Attempted, path_mtu::mtu_of, udp::bind_bulk};
use units::{BitRate, Time};

use super::{
    message::{COOKIE_PREFIX, Direction, Message, Request},
    session::{Role, StreamSample, run},
};
use crate::Error;

/// Largest packet, bytes of IP: jumbo frames.
const MAX_MTU: u32 = 9000;
/// Bytes of the IP header.
const IPV4_HEADER: u32 = 20;
const IPV6_HEADER: u32 = 40;

/// A server, and how to reach it.
#[derive(Debug, Clone)]
pub struct StreamClient {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// IPv4 or IPv6 only.
    pub ip: Option<IpVersion>,
    /// The secret that it requires.
    pub token: Option<Token>,
}

/// A stream.
#[derive(Debug, Clone, Copy)]
pub struct StreamOptions {
    /// Its direction.
    pub direction: Direction,
    /// Rate of payload.
    pub rate: BitRate,
    /// Its length.
    pub duration: Time,
    /// Delay between the first packet's arrival and its play-out.
    pub deadline: Time,
    /// Missing packets are requested again.
    pub repairs: bool,
    /// Payload of a packet, bytes; `None`: as many as the path to the server carries.
    pub payload_bytes: Option<u32>,
    /// The packets carry VDIF frames.
    pub vdif: bool,
}

impl StreamOptions {
    /// The parameters over a path with this MTU; an error explains why the stream is impossible.
    pub(super) fn parameters(&self, mtu: u32, is_ipv6: bool) -> Result<Parameters, Error> {
        let ip_header = if is_ipv6 { IPV6_HEADER } else { IPV4_HEADER };
        let mtu = mtu.min(MAX_MTU);
        let payload_bytes = match (self.payload_bytes, self.vdif) {
            (Some(bytes), _) => bytes,
            (None, false) => full_stream_payload(mtu, ip_header),
            (None, true) => full_vdif_payload(mtu, ip_header, self.rate).ok_or_else(|| {
                Error::Input(format!(
                    "{} cannot be divided into VDIF frames: a second needs a whole number of them",
                    self.rate
                ))
            })?,
        };
        let bits = u128::from(self.rate.0) * u128::from(self.duration.as_nanos()) / 1_000_000_000;
        let packets = u64::try_from(bits / 8 / u128::from(payload_bytes.max(1))).unwrap_or(u64::MAX).max(1);
        let vdif = self.vdif.then(|| own_frames(self.rate, payload_bytes));
        let parameters = Parameters {
            rate: self.rate,
            payload_bytes,
            deadline: self.deadline,
            repairs: self.repairs,
            packets: Some(packets),
            vdif,
        };
        // The same limits as at the server.
        Request::new(self.direction, &parameters).parameters().map_err(Error::Input)
    }
}

/// Frames of this program: two-bit samples of one channel, from now on.
fn own_frames(rate: BitRate, payload_bytes: u32) -> vdif::Frames {
    vdif::Frames {
        station: *b"Lf",
        thread: 0,
        sample_bits: 2,
        begin: vdif::Second::at_unix(os::realtime_ns() / 1_000_000_000),
        per_second: vdif::frames_per_second(rate, payload_bytes).unwrap_or(0),
    }
}

/// A UDP socket that is connected to `peer`, and the MTU of the route.
pub(super) fn socket_to(peer: SocketAddr) -> Result<(Socket, u32), Error> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("open a UDP socket to {peer}");
    let socket = bind_bulk(any).attempted(what)?;
    socket.connect(&SockAddr::from(peer)).attempted(what)?;
    let mtu = mtu_of(&socket, peer)?;
    Ok((socket, mtu))
}

/// Runs a stream; calls `note` with messages for the user, and `observe` with the counts of both ends.
/// Returns its parameters and the last counts.
///
/// # Errors
/// If the server cannot be reached or refuses, the connection fails, or no packet arrives.
pub fn run_stream(
    client: &StreamClient,
    options: &StreamOptions,
    stop: &AtomicBool,
    mut note: impl FnMut(&str),
    observe: impl FnMut(&StreamSample),
) -> Result<(Parameters, StreamSample), Error> {
    let spec = TestSpec::new(Protocol::Udp, Amount::Time(Duration::ZERO));
    let connection = ClientOptions {
        port: client.port,
        ip: client.ip,
        token: client.token.clone(),
        ..ClientOptions::new(&client.host, spec)
    };
    let timeout = connection.phase_timeout;
    let notice = |notice: QueueNotice| note(&notice.text());
    let channel = Channel::connect(&connection, COOKIE_PREFIX, stop, notice)?;
    let mut channel = channel.ok_or(ServerError::Closed {
        expected: "a server of streams; it may be an iperf3, or an earlier version of longfat",
    })?;
    let (socket, mtu) = socket_to(channel.peer()?)?;
    let parameters = options.parameters(mtu, channel.peer()?.is_ipv6())?;
    channel.send(&Request::new(options.direction, &parameters))?;
    match channel.receive("reply to the request of a stream", timeout)? {
        Message::Ready => {}
        Message::Refused { reason } => return Err(ServerError::Rejected(reason).into()),
        _ => return Err(ServerError::Closed { expected: "reply to the request of a stream" }.into()),
    }
    // The server reports as soon as it has the socket.
    greet_unless(&socket, timeout, || channel.wait(Duration::ZERO))?;
    let role = match options.direction {
        Direction::ToServer => Role::Sends,
        Direction::FromServer => Role::Receives,
    };
    let end = run(role, parameters, socket, &mut channel, stop, observe)?;
    Ok((parameters, end))
}
