//! The peer's role in a test: it runs a server for the lead of this one test, on a port that is open only
//! during the test.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use iperf3::{
    Observer, Server, ServerObserver, ServerOptions, TIME_SKEW, Token, TokenGate,
    report::{Report, ServerOutput},
};
use measurement::unattended::SamplingObserver;
use probe_transport::{ProbeSecret, ProbeService};
use serde::{Deserialize, Serialize};
use stamp::{Key, Reflector};
use transfer::stream::StreamService;
use units::BitRate;

use super::{Kind, TestParameters};

/// Bytes of a test's secret.
const SECRET_BYTES: usize = 16;
/// Timeout of each step of a test before and after its data.
const PHASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time until a stop of a test without a server takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Time over which the rate is averaged for its limit.
const RATE_TIME: Duration = Duration::from_secs(5);
/// Maximum number of simultaneous clients of a diagnosis, which runs several tests.
const DIAGNOSIS_CLIENTS: usize = 4;

/// The port of a test's server, and the secret that is valid for this test only.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Endpoint {
    /// TCP and UDP port.
    pub port: u16,
    /// The secret of iperf3's token, or the key of STAMP; empty for a server outside the mesh.
    pub secret: String,
}

impl Endpoint {
    /// The secret, if there is one.
    pub fn secret(&self) -> Option<&[u8]> {
        Some(self.secret.as_bytes()).filter(|secret| !secret.is_empty())
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", self.port)
    }
}

/// A test that another point leads.
#[derive(Debug)]
pub(crate) struct PeerJob {
    /// The address to listen at; `None`: all.
    pub bind: Option<IpAddr>,
    /// The ports to choose from.
    pub ports: RangeInclusive<u16>,
    /// The parameters of the test.
    pub parameters: TestParameters,
    /// Set when the test is over.
    pub stop: Arc<AtomicBool>,
}

/// Serves the test until it is over. `on_ready` receives the port and the secret.
pub(crate) fn serve(job: &PeerJob, on_ready: impl FnOnce(Endpoint)) -> Result<(), String> {
    let secret =
        os::random_hex(SECRET_BYTES).map_err(|error| format!("cannot draw a random number: {error}"))?;
    match job.parameters.kind {
        Kind::Latency => {
            let bind = job.bind.unwrap_or(IpAddr::from([0u16; 8]));
            let reflector = first_port(job, |port| {
                Reflector::bind(bind, port, Some(Key::new(secret.as_bytes())))
                    .map_err(|error| error.to_string())
            })?;
            let port = reflector.port().ok_or("the reflector has no port")?;
            on_ready(Endpoint { port, secret });
            reflector.run(&job.stop).map_err(|error| error.to_string())
        }
        Kind::Transfer | Kind::Trace => {
            // An application opens its own ports, and a trace needs none. The lead begins when it gets this
            // reply.
            on_ready(Endpoint { port: 0, secret });
            while !job.stop.load(Ordering::Acquire) {
                thread::sleep(STOP_CHECK_INTERVAL);
            }
            Ok(())
        }
        Kind::Throughput | Kind::Diagnose | Kind::Probe | Kind::Stream => {
            let server = first_port(job, |port| {
                Server::bind(options(job, port, &secret)).map_err(|error| error.to_string())
            })?;
            let server = match job.parameters.kind {
                Kind::Probe => {
                    let secret = ProbeSecret::new(&secret).ok_or("the secret has too few characters")?;
                    server.with_service(Box::new(ProbeService { secret: Some(secret) }))
                }
                Kind::Stream => server.with_service(Box::new(StreamService {
                    max_rate: job.parameters.rate,
                    max_duration: Some(job.parameters.duration.to_duration()),
                })),
                _ => server,
            };
            on_ready(Endpoint { port: server.address().port(), secret });
            server.run(&job.stop, &LoggingObserver).map_err(|error| error.to_string())
        }
    }
}

fn options(job: &PeerJob, port: u16, secret: &str) -> ServerOptions {
    let is_diagnosis = job.parameters.kind == Kind::Diagnose;
    ServerOptions {
        bind: job.bind,
        port,
        clients: if is_diagnosis { DIAGNOSIS_CLIENTS } else { 1 },
        phase_timeout: PHASE_TIMEOUT,
        data_timeout: PHASE_TIMEOUT,
        // The lead was admitted with this rate and this duration.
        rate_limit: job.parameters.rate.map(|rate| (BitRate(rate.0.saturating_add(rate.0 / 20)), RATE_TIME)),
        max_duration: Some(job.parameters.duration.to_duration()),
        gate: Some(Arc::new(TokenGate::new(Token::new(secret.as_bytes()), TIME_SKEW))),
        ..ServerOptions::default()
    }
}

/// Tries the ports in order: some may be in use by other tests.
fn first_port<T>(job: &PeerJob, bind: impl Fn(u16) -> Result<T, String>) -> Result<T, String> {
    let mut last = String::new();
    for port in job.ports.clone() {
        match bind(port) {
            Ok(bound) => return Ok(bound),
            Err(error) => last = error,
        }
        if job.stop.load(Ordering::Acquire) {
            break;
        }
    }
    let (first, end) = (job.ports.start(), job.ports.end());
    Err(format!("no port of {first} to {end} can be opened: {last}"))
}

/// Logs what the server reports.
struct LoggingObserver;

impl ServerObserver for LoggingObserver {
    fn note(&self, text: &str) {
        tracing::debug!("{text}");
    }

    fn begin(&self, _: SocketAddr) -> Box<dyn Observer + '_> {
        Box::new(SamplingObserver)
    }

    fn end(&self, peer: SocketAddr, _: &Report, error: Option<&iperf3::Error>) {
        if let Some(error) = error {
            tracing::info!("test port: {peer}: {error}");
        }
    }

    fn output(&self, report: &Report) -> ServerOutput {
        ServerOutput::Json(iperf3::document::to_json(report))
    }
}
