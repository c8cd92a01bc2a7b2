//! Aggregates in Prometheus's text format (version 0.0.4) over HTTP/1.0. The response to any request is the metrics.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use measurement::watched::{Trail, Trails};
use schema::Cause;
use watch::{TrackedConnection, Watcher};

/// Timeout of a client's request and of sending the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes read of a request.
const MAX_REQUEST_BYTES: usize = 8192;

/// Serves clients one at a time on a dedicated thread until the process ends.
pub struct Exporter {
    text: Arc<Mutex<String>>,
}

impl Exporter {
    /// Starts listening.
    pub fn open(address: IpAddr, port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, port))
            .with_context(|| format!("cannot listen at {address} port {port}"))?;
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        std::thread::Builder::new()
            .name("prometheus".into())
            .spawn(move || {
                for stream in listener.incoming().flatten() {
                    let text = shared.lock().unwrap_or_else(|e| e.into_inner()).clone();
                    // Errors of a client that disconnects early are ignored.
                    let _ = respond(stream, &text);
                }
            })
            .context("cannot start a thread")?;
        Ok(Exporter { text })
    }

    /// Sets the text that clients receive.
    pub fn publish(&self, text: String) {
        *self.text.lock().unwrap_or_else(|e| e.into_inner()) = text;
    }
}

fn respond(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let mut request = [0; MAX_REQUEST_BYTES];
    let read = stream.read(&mut request)?;
    let (status, body) = match request[..read].starts_with(b"GET ") {
        true => ("200 OK", text),
        false => ("405 Method Not Allowed", ""),
    };
    write!(
        stream,
        "HTTP/1.0 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The metrics of all live connections, and the number of connections by limiting factor.
pub fn text(watcher: &Watcher, trails: &Trails) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(text, "# HELP longfat_{name} {help}\n# TYPE longfat_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(text, "longfat_{name}{labels} {value}");
        }
    };
    let live: Vec<&TrackedConnection> = watcher.connections().filter(|c| c.closed_ns.is_none()).collect();
    let mut states: BTreeMap<&str, f64> = BTreeMap::new();
    for connection in &live {
        *states.entry(connection.sample.state.name()).or_default() += 1.0;
    }
    let by_state: Vec<_> =
        states.into_iter().map(|(state, count)| (format!("{{state=\"{state}\"}}"), count)).collect();
    family("connections", "gauge", "Watched TCP connections", &by_state);
    let total = |value: fn(&TrackedConnection) -> Option<u64>| {
        vec![(String::new(), watcher.connections().filter_map(value).sum::<u64>() as f64)]
    };
    let rates = |which: fn((f64, f64)) -> f64| {
        vec![(String::new(), live.iter().filter_map(|c| c.rates_bps.map(which)).sum::<f64>())]
    };
    family("sent_bits_per_second", "gauge", "Payload acknowledged by peers", &rates(|(sent, _)| sent));
    family("received_bits_per_second", "gauge", "Payload received", &rates(|(_, received)| received));
    family("in_flight_segments", "gauge", "Segments in the network", &{
        vec![(String::new(), live.iter().filter_map(|c| c.sample.info.in_flight()).map(f64::from).sum())]
    });
    // Closed connections are removed from the sum after a while, so this is a gauge and not a counter.
    family(
        "bytes_acked",
        "gauge",
        "Payload acknowledged by peers, per exported connection",
        &total(|c| c.sample.info.bytes_acked()),
    );
    family(
        "bytes_received",
        "gauge",
        "Payload received, per exported connection",
        &total(|c| c.sample.info.bytes_received()),
    );
    family(
        "retransmitted_segments",
        "gauge",
        "Retransmitted segments, per exported connection",
        &total(|c| c.sample.info.total_retrans().map(u64::from)),
    );
    let mut causes: BTreeMap<Cause, f64> = BTreeMap::new();
    for connection in &live {
        if let Some(cause) = trails.get(connection.sample.cookie).and_then(Trail::verdict) {
            *causes.entry(cause).or_default() += 1.0;
        }
    }
    let by_cause: Vec<_> = Cause::ALL
        .into_iter()
        .map(|cause| (format!("{{by=\"{}\"}}", cause.name()), causes.get(&cause).copied().unwrap_or(0.0)))
        .collect();
    family("limited_connections", "gauge", "Connections by limiting factor", &by_cause);
    text
}
