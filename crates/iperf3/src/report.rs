//! The report of a test's results, as plain data. The client and the server
//! produce it; `document` writes it as iperf3's JSON and text, `measurement` as a record. Times are seconds
//! since the data began, as in iperf3's JSON.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime},
};

pub use crate::spec::{Amount, Direction, Protocol, Role, TestSpec};

/// One stream's socket at the reporting end.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// iperf3's number of the stream: 1, 3, 4, 5, ...
    pub id: u32,
    /// This end sends on it.
    pub sender: bool,
    /// This end's address.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
}

/// The part of a report that is known when the data begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// The reporting end.
    pub role: Role,
    /// The other end's address.
    pub peer: IpAddr,
    /// The server's port of the control connection.
    pub port: u16,
    /// The name of the other end, as given by the user.
    pub peer_name: String,
    /// Program and version.
    pub version: String,
    /// `uname -a`.
    pub system_info: String,
    /// When the test began.
    pub time: SystemTime,
    /// The cookie, 36 characters.
    pub cookie: String,
    /// MSS of the control connection (or the requested one).
    pub mss: u32,
    /// SO_SNDBUF of the first stream as the kernel returns it (twice the requested value).
    pub sndbuf_actual: u64,
    /// SO_RCVBUF of the first stream as the kernel returns it.
    pub rcvbuf_actual: u64,
    /// The requested test.
    pub spec: TestSpec,
    /// The streams.
    pub connections: Vec<Connection>,
}

/// The sender's TCP_INFO of a stream at the end of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Segments retransmitted in the interval.
    pub retransmits: u64,
    /// Congestion window, bytes.
    pub snd_cwnd_bytes: u64,
    /// The peer's window, bytes.
    pub snd_wnd_bytes: u64,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u64,
    /// Its variation, microseconds.
    pub rttvar_us: u64,
    /// Path MTU, bytes.
    pub pmtu_bytes: u64,
    /// Reordering events seen.
    pub reorder: u64,
}

/// Datagrams of a stream in an interval, or in total.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Datagrams {
    /// Sent datagrams, or (at a receiver) received and lost ones together.
    pub packets: u64,
    /// Datagrams that did not arrive. 0 at a sender.
    pub lost: i64,
    /// Datagrams that arrived after a later one.
    pub out_of_order: u64,
    /// RFC 3550 interarrival jitter at the end, seconds.
    pub jitter_s: f64,
}

/// One stream in one interval, as measured by one end.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInterval {
    /// iperf3's number.
    pub id: u32,
    /// This end sends on it.
    pub sender: bool,
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Payload sent or received.
    pub bytes: u64,
    /// The interval belongs to the omitted beginning.
    pub omitted: bool,
    /// At the sender of a TCP stream.
    pub tcp: Option<TcpState>,
    /// Datagram counts of a UDP stream.
    pub udp: Option<Datagrams>,
}

/// One interval of all streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Each stream on which this end sends or receives.
    pub streams: Vec<StreamInterval>,
}

impl Interval {
    /// The goodput of all streams together, bit/s; `None` for an interval without a length.
    pub fn goodput_bps(&self) -> Option<f64> {
        let bytes = self.streams.iter().map(|stream| stream.bytes).sum();
        goodput_bps(bytes, self.end_s - self.start_s)
    }
}

fn goodput_bps(bytes: u64, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| bytes as f64 * 8.0 / seconds)
}

/// One end's totals of a stream, without the omitted beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StreamTotals {
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Payload sent or received.
    pub bytes: u64,
    /// Datagram counts of a UDP stream.
    pub udp: Option<Datagrams>,
}

impl StreamTotals {
    /// The goodput, bit/s; `None` without a length.
    pub fn goodput_bps(&self) -> Option<f64> {
        goodput_bps(self.bytes, self.end_s - self.start_s)
    }
}

/// A TCP sender's TCP_INFO over all intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpSummary {
    /// Segments retransmitted; `None` if the kernel does not count them.
    pub retransmits: Option<u64>,
    /// Reordering events seen.
    pub reorder: u64,
    /// Largest congestion window, bytes.
    pub max_snd_cwnd_bytes: u64,
    /// Largest window of the peer, bytes.
    pub max_snd_wnd_bytes: u64,
    /// Maximum of the round-trip time, microseconds.
    pub max_rtt_us: u64,
    /// Its minimum.
    pub min_rtt_us: u64,
    /// Its mean.
    pub mean_rtt_us: u64,
}

/// The results of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEnd {
    /// iperf3's number.
    pub id: u32,
    /// From client to server.
    pub forward: bool,
    /// Its sender's totals.
    pub sent: StreamTotals,
    /// Its receiver's totals.
    pub received: StreamTotals,
    /// The sender's TCP_INFO: complete if this end sent, otherwise only what the other end has sent.
    pub tcp: Option<TcpSummary>,
}

/// Processor time over wall time, per cent; several threads can exceed 100.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// User and system.
    pub total: f64,
    /// User time.
    pub user: f64,
    /// System time.
    pub system: f64,
}

/// The other end's own report.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerOutput {
    /// Its text output.
    Text(String),
    /// Its JSON.
    Json(serde_json::Value),
}

/// The part of a report that is known when a test has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The streams, in the order of their numbers.
    pub streams: Vec<StreamEnd>,
    /// This end's processor time.
    pub cpu_local: Cpu,
    /// The other end's.
    pub cpu_remote: Cpu,
    /// Congestion control of the senders.
    pub sender_congestion: Option<String>,
    /// Congestion control of the receivers' sockets.
    pub receiver_congestion: Option<String>,
    /// Final size of this end's file, bytes, if there is one.
    pub file_bytes: Option<u64>,
    /// The other end's report, if requested.
    pub server_output: Option<ServerOutput>,
}

/// Round-trip times of small datagrams before and during the data phase.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency(pub Vec<LatencyProbe>);

/// One of these datagrams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyProbe {
    /// When it was sent, seconds since the data began; negative before.
    pub at_s: f64,
    /// `None`: lost.
    pub rtt: Option<Duration>,
}

impl Latency {
    /// Probes that were sent before the data.
    pub fn idle(&self) -> impl Iterator<Item = &LatencyProbe> {
        self.0.iter().filter(|probe| probe.at_s < 0.0)
    }

    /// Probes that were sent during the data phase.
    pub fn loaded(&self) -> impl Iterator<Item = &LatencyProbe> {
        self.0.iter().filter(|probe| probe.at_s >= 0.0)
    }
}

/// One end's report of a test. A failed test has the parts that it reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Set when the data began.
    pub start: Option<Start>,
    /// The intervals, in order.
    pub intervals: Vec<Interval>,
    /// Set when both ends had exchanged their results.
    pub end: Option<End>,
    /// Set if the client requested it and the server replied.
    pub latency: Option<Latency>,
    /// Why it failed, in a sentence.
    pub error: Option<String>,
}
