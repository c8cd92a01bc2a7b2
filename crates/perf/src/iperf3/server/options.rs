//! What a server allows, and who hears of it.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use units::BitRate;

use crate::{
    iperf3::{Authority, Error, IpVersion, Observer, TokenGate},
    report::{Report, ServerOutput},
};

/// Where a server listens and what it allows.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address to listen at; all of them where it is not given.
    pub bind: Option<IpAddr>,
    /// The device to listen at.
    pub device: Option<String>,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// IPv4 or IPv6 alone.
    pub ip: Option<IpVersion>,
    /// Tests at once. Those of two clients disturb each other, so it is one unless asked.
    pub clients: usize,
    /// Clients that may wait for their turn.
    pub queue: usize,
    /// How long they may wait.
    pub queue_timeout: Duration,
    /// How long each step of a test may take, its data left out.
    pub phase_timeout: Duration,
    /// A test ends when no data has moved for so long.
    pub data_timeout: Duration,
    /// Ends after the first client's test.
    pub one_off: bool,
    /// With `one_off`: how long to wait for the client.
    pub idle_timeout: Option<Duration>,
    /// The most that all streams of a test may make together, averaged over a time.
    pub rate_limit: Option<(BitRate, Duration)>,
    /// The longest test, its omitted beginning counted in.
    pub max_duration: Option<Duration>,
    /// Who may test; everybody where it is not given.
    pub authority: Option<Authority>,
    /// Serves only those who know its token; everybody where it is not given.
    pub gate: Option<Arc<TokenGate>>,
    /// Between two reports.
    pub interval: Duration,
    /// Data that a client has not acknowledged for so long ends its test (TCP_USER_TIMEOUT); `None`: as the system has it.
    pub send_timeout: Option<Duration>,
    /// Processors that stream threads are pinned to, in turn.
    pub pin: Vec<usize>,
    /// TCP tests in one direction write what they receive here, or send it ([`TestSpec::file`](crate::report::TestSpec::file)).
    pub file: Option<PathBuf>,
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
        }
    }
}

/// Hears of a server's tests, on the threads that do them.
pub trait ServerObserver: Sync {
    /// Something that the operator should know.
    fn note(&self, text: &str);

    /// A test of `peer` begins: who is told how it goes.
    fn begin(&self, peer: SocketAddr) -> Box<dyn Observer + '_>;

    /// It ended.
    fn end(&self, peer: SocketAddr, report: &Report, error: Option<&Error>);

    /// The report as the client wants to see it (`--get-server-output`).
    fn output(&self, report: &Report) -> ServerOutput;

    /// What clients that ask are told of this host, a JSON object; `None`: nothing.
    fn host(&self) -> Option<serde_json::Value> {
        None
    }
}
