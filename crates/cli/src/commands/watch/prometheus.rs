//! Aggregates in Prometheus's text format (version 0.0.4) over HTTP/1.0. The response to any request is the
//! metrics.

use std::{
    fmt::Write as _,
    io::{Read, Write},
    net::{IpAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use measurement::watched::{Aggregates, Trails};
use schema::Cause;
use watch::Watcher;

/// Timeout of a client's request and of sending the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes read of a request.
const MAX_REQUEST_BYTES: usize = 8192;
/// Maximum number of clients that are served at the same time; more are disconnected.
const MAX_CLIENTS: usize = 16;
/// Pause after an error of accept(2), as when no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves clients on a dedicated thread each until the process ends, so that a client that sends nothing does
/// not delay the others.
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
                // Each client's thread has a reference.
                let clients = Arc::new(());
                for stream in listener.incoming() {
                    let Ok(stream) = stream else {
                        std::thread::sleep(ACCEPT_PAUSE);
                        continue;
                    };
                    if Arc::strong_count(&clients) > MAX_CLIENTS {
                        continue;
                    }
                    let text = shared.lock().unwrap_or_else(|e| e.into_inner()).clone();
                    let client = Arc::clone(&clients);
                    let serve = move || {
                        let _client = client;
                        // Errors of a client that disconnects early are ignored.
                        let _ = respond(stream, &text);
                    };
                    // Without a thread the client is disconnected.
                    let _ = std::thread::Builder::new().name("prometheus client".into()).spawn(serve);
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
    let sums = Aggregates::of(watcher, trails);
    let by_state: Vec<_> =
        sums.connections.iter().map(|(state, count)| (format!("{{state=\"{state}\"}}"), *count)).collect();
    family("connections", "gauge", "Watched TCP connections", &by_state);
    let one = |value: f64| [(String::new(), value)];
    family("sent_bits_per_second", "gauge", "Payload acknowledged by peers", &one(sums.sent_bps));
    family("received_bits_per_second", "gauge", "Payload received", &one(sums.received_bps));
    family("in_flight_segments", "gauge", "Segments in the network", &one(sums.in_flight_segs));
    // Closed connections are removed from the sums after a while, so these are gauges and not counters.
    let per_exported = [
        ("bytes_acked", "Payload acknowledged by peers, per exported connection", sums.bytes_acked),
        ("bytes_received", "Payload received, per exported connection", sums.bytes_received),
        (
            "retransmitted_segments",
            "Retransmitted segments, per exported connection",
            sums.retransmitted_segs,
        ),
    ];
    for (name, help, value) in per_exported {
        family(name, "gauge", help, &one(value as f64));
    }
    let by_cause: Vec<_> = Cause::ALL
        .into_iter()
        .map(|cause| {
            (format!("{{by=\"{}\"}}", cause.name()), sums.limited.get(&cause).copied().unwrap_or(0.0))
        })
        .collect();
    family("limited_connections", "gauge", "Connections by limiting factor", &by_cause);
    text
}
