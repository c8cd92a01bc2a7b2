//! The options of a client: the server, the connection to it, and the test.

use std::{
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs},
    sync::atomic::AtomicBool,
    time::Duration,
};

use crate::{
    Credentials, Error, IpVersion,
    connect::connect_to_any,
    control,
    reverse::{self, LISTEN},
    spec::{Protocol, TestSpec},
    token::Token,
    wire::Cookie,
};

/// The options of a client.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The server's name or address, or [`LISTEN`]: the server connects to this machine.
    pub host: String,
    /// The server's port, or this machine's for [`LISTEN`].
    pub port: u16,
    /// IPv4 or IPv6 only.
    pub ip: Option<IpVersion>,
    /// The local address.
    pub bind: Option<IpAddr>,
    /// The local device.
    pub device: Option<String>,
    /// The local port of the first stream; further streams use the next ones.
    pub client_port: Option<u16>,
    /// Timeout of a connection.
    pub connect_timeout: Duration,
    /// Maximum wait in the server's queue.
    pub queue_timeout: Duration,
    /// Timeout of each step of the control connection.
    pub phase_timeout: Duration,
    /// The test fails if no data is transferred for this time.
    pub idle_timeout: Option<Duration>,
    /// Measure the round-trip time of small datagrams during a TCP test, if the server is longfat.
    pub latency: bool,
    /// For servers that require a user name and a password.
    pub credentials: Option<Credentials>,
    /// For a longfat server that requires a token.
    pub token: Option<Token>,
    /// The kernel's name of the congestion control here, if it differs from `spec.congestion`.
    pub congestion: Option<String>,
    /// Use the block size that fits the path, instead of that of `spec`.
    pub fit_block: bool,
    /// The test ends if data is not acknowledged for this time (TCP_USER_TIMEOUT); `None`: the system's
    /// default.
    pub send_timeout: Option<Duration>,
    /// Processors to which stream threads are pinned, in turn; empty: not pinned.
    pub pin: Vec<usize>,
    /// Request information about the other end's host, see
    /// [`TestOutcome::peer_host`](crate::TestOutcome::peer_host).
    pub request_host_info: bool,
    /// The session with the server's [`Service`](crate::service::Service) to which the test belongs: it then
    /// does not wait in the queue.
    pub session: Option<Cookie>,
    /// The test.
    pub spec: TestSpec,
}

impl ClientOptions {
    /// A test with `host` with iperf3's defaults.
    pub fn new(host: &str, spec: TestSpec) -> ClientOptions {
        ClientOptions {
            host: host.into(),
            port: 5201,
            ip: None,
            bind: None,
            device: None,
            client_port: None,
            connect_timeout: Duration::from_secs(10),
            queue_timeout: Duration::from_secs(600),
            phase_timeout: Duration::from_secs(30),
            idle_timeout: Some(Duration::from_secs(120)),
            latency: false,
            credentials: None,
            token: None,
            congestion: None,
            fit_block: false,
            send_timeout: None,
            pin: Vec::new(),
            request_host_info: false,
            session: None,
            spec,
        }
    }
}

/// Connects to the first of the host's addresses that accepts the connection.
pub(crate) fn connect(options: &ClientOptions, stop: &AtomicBool) -> Result<TcpStream, Error> {
    if options.host == LISTEN {
        return Ok(reverse::listener(options.port)?.open(false, options.connect_timeout, stop)?.into());
    }
    let no_address = |reason: String| Error::NoAddress { host: options.host.clone(), reason };
    let found =
        (options.host.as_str(), options.port).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let has_version = |address: &SocketAddr| match options.ip {
        Some(IpVersion::V4) => address.is_ipv4(),
        Some(IpVersion::V6) => address.is_ipv6(),
        None => options.bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4()),
    };
    let addresses: Vec<SocketAddr> = found.filter(has_version).collect();
    if addresses.is_empty() {
        return Err(no_address("no address of the requested IP version".into()));
    }
    let from = options.bind.map(|ip| SocketAddr::new(ip, 0));
    let open = |to| control::new_socket(to, from, options.device.as_deref(), Protocol::Tcp);
    Ok(connect_to_any(&addresses, options.connect_timeout, stop, open)?.into())
}
