//! A server's options, and the interface that reports its tests.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use units::BitRate;

use crate::{
    Authority, Error, IpVersion, Observer, TokenGate,
    report::{Report, ServerOutput},
    reverse::ReverseTarget,
};

/// Address, port and limits of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen at; `None`: all addresses.
    pub bind: Option<IpAddr>,
    /// The device to listen at.
    pub device: Option<String>,
    /// The port; 0 selects a free one.
    pub port: u16,
    /// IPv4 or IPv6 only.
    pub ip: Option<IpVersion>,
    /// Maximum number of simultaneous tests. The default is 1, because tests of two clients disturb each
    /// other.
    pub clients: usize,
    /// Maximum number of queued clients.
    pub queue: usize,
    /// Maximum time in the queue.
    pub queue_timeout: Duration,
    /// Timeout of each step of a test, except the data phase.
    pub phase_timeout: Duration,
    /// A test ends if no data is transferred for this time.
    pub data_timeout: Duration,
    /// End after the first client's test.
    pub one_off: bool,
    /// With `one_off`: how long to wait for the client.
    pub idle_timeout: Option<Duration>,
    /// Maximum rate of all streams of a test together, averaged over a time.
    pub rate_limit: Option<(BitRate, Duration)>,
    /// Maximum duration of a test, including its omitted beginning.
    pub max_duration: Option<Duration>,
    /// The users who may test; `None`: no authentication.
    pub authority: Option<Authority>,
    /// The token that clients must have; `None`: no token.
    pub gate: Option<Arc<TokenGate>>,
    /// Report interval.
    pub interval: Duration,
    /// A test ends if a client does not acknowledge data for this time (TCP_USER_TIMEOUT); `None`: the
    /// system's default.
    pub send_timeout: Option<Duration>,
    /// Processors to which stream threads are pinned, in turn.
    pub pin: Vec<usize>,
    /// The file to which TCP tests in one direction write received data, or which they send
    /// ([`TestSpec::file`](crate::report::TestSpec::file)).
    pub file: Option<PathBuf>,
    /// Clients that cannot connect to this server, so it connects to them.
    pub reverse: Vec<ReverseTarget>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        ServerOptions {
            bind: None,
            device: None,
            port: 5201,
            ip: None,
            clients: 1,
            queue: 256,
            queue_timeout: Duration::from_secs(60),
            phase_timeout: Duration::from_secs(10),
            data_timeout: Duration::from_secs(120),
            one_off: false,
            idle_timeout: None,
            rate_limit: None,
            max_duration: None,
            authority: None,
            gate: None,
            interval: Duration::from_secs(1),
            send_timeout: None,
            pin: Vec::new(),
            file: None,
            reverse: Vec::new(),
        }
    }
}

/// Receives the events of a server's tests, on the threads that run them.
pub trait ServerObserver: Sync {
    /// A message for the operator.
    fn note(&self, text: &str);

    /// A test of `peer` begins: returns the observer of its progress.
    fn begin(&self, peer: SocketAddr) -> Box<dyn Observer + '_>;

    /// A test has ended, and the observer of its progress has been dropped.
    fn end(&self, peer: SocketAddr, report: &Report, error: Option<&Error>);

    /// The report as sent to a client on request (`--get-server-output`).
    fn output(&self, report: &Report) -> ServerOutput;

    /// Information about this host that is sent to clients on request, a JSON object.
    fn host(&self) -> Option<serde_json::Value> {
        None
    }
}
