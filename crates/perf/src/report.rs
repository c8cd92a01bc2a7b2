//! What a test between two ends was asked to do, and what came of it: plain data, made by the client and the server, turned
//! into iperf3's JSON, into text and into a record by others. Times are seconds since the data began, as in iperf3's JSON.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use units::{BitRate, Bytes};

/// What carries the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// One connection a stream.
    Tcp,
    /// Numbered datagrams.
    Udp,
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client.
    Forward,
    /// The server (`-R`).
    Reverse,
    /// Both at once, on streams of their own (`--bidir`).
    Both,
}

/// Which end a report is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It asked for the test.
    Client,
    /// It was asked.
    Server,
}

/// When a test ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// After so much time, that of `omit` not counted.
    Time(Duration),
    /// After so many bytes of all streams together.
    Bytes(Bytes),
    /// After so many blocks (writes, or datagrams) of all streams together.
    Blocks(u64),
}

/// A test as asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct TestSpec {
    /// What carries the data.
    pub protocol: Protocol,
    /// Who sends.
    pub direction: Direction,
    /// Streams each way, 1 to 128.
    pub streams: u32,
    /// When it ends.
    pub amount: Amount,
    /// The beginning that does not count.
    pub omit: Duration,
    /// Bytes of one write or datagram payload.
    pub block: Bytes,
    /// Between two reports.
    pub interval: Duration,
    /// Payload a second and stream; `None`: as fast as it goes.
    pub rate: Option<BitRate>,
    /// Blocks that are sent back to back when there is a rate; 0 is one.
    pub burst: u32,
    /// SO_MAX_PACING_RATE of each stream.
    pub fq_rate: Option<BitRate>,
    /// SO_SNDBUF and SO_RCVBUF at both ends.
    pub window: Option<Bytes>,
    /// TCP_MAXSEG.
    pub mss: Option<u32>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// The sender's congestion control.
    pub congestion: Option<String>,
    /// IP_TOS or IPV6_TCLASS.
    pub tos: u8,
    /// IPv6 flow label.
    pub flow_label: Option<u32>,
    /// The sender does not copy what it sends.
    pub zerocopy: bool,
    /// The receiver does not copy what it drops (MSG_TRUNC).
    pub skip_rx_copy: bool,
    /// This end's file: what it sends is read from there, what it receives is written there, by each stream for itself. Not told to
    /// the other end. Of TCP tests in one direction.
    pub file: Option<PathBuf>,
    /// Datagrams may not be fragmented.
    pub dont_fragment: bool,
    /// What is sent is digits over and over instead of noise.
    pub repeating_payload: bool,
    /// The processor that the server's streams are pinned to.
    pub server_affinity: Option<u32>,
    /// Datagram numbers of 64 bits.
    pub udp_counters_64bit: bool,
    /// This end's datagrams that are later than this are left out; `None`: up to 100 ms are made up for, by a burst. Not told to
    /// the other end.
    pub most_late: Option<Duration>,
    /// The client wants the server's report.
    pub get_server_output: bool,
    /// Before each line of text, and in JSON.
    pub title: Option<String>,
    /// Goes into the JSON as it is.
    pub extra_data: Option<String>,
}

/// One stream's socket at the end that reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Connection {
    /// iperf3's number of the stream: 1, 3, 4, 5, ...
    pub id: u32,
    /// This end sends on it.
    pub sender: bool,
    /// This end's address.
    pub local: SocketAddr,
    /// The other's.
    pub remote: SocketAddr,
}

/// What was known when the data began.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    /// Which end reports.
    pub role: Role,
    /// The other end, as given (client) or as it came (server).
    pub peer: IpAddr,
    /// The port of the control connection at the server.
    pub port: u16,
    /// The name the user gave for the other end.
    pub peer_name: String,
    /// Program and version.
    pub version: String,
    /// `uname -a`.
    pub system_info: String,
    /// When the test began.
    pub time: SystemTime,
    /// 36 characters.
    pub cookie: String,
    /// MSS of the control connection (or the one asked for).
    pub mss: u32,
    /// SO_SNDBUF of the first stream as the kernel tells it (twice what was asked for).
    pub sndbuf_actual: u64,
    /// SO_RCVBUF likewise.
    pub rcvbuf_actual: u64,
    /// What was asked for.
    pub spec: TestSpec,
    /// The streams.
    pub connections: Vec<Connection>,
}

/// What the sender's kernel says of a TCP stream at an interval's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Segments sent again in the interval.
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

/// Datagrams of a stream in an interval, or in all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Datagrams {
    /// Sent, or (at a receiver) received and lost together.
    pub packets: u64,
    /// Numbers that never came. 0 at a sender.
    pub lost: i64,
    /// Those that came after a later number.
    pub out_of_order: u64,
    /// RFC 3550 interarrival jitter at the end, seconds.
    pub jitter_s: f64,
}

/// One stream in one interval, as one end sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamInterval {
    /// iperf3's number.
    pub id: u32,
    /// This end sends on it.
    pub sender: bool,
    /// Begin and end.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// Payload sent or received.
    pub bytes: u64,
    /// Of the beginning that does not count.
    pub omitted: bool,
    /// At the sender of a TCP stream.
    pub tcp: Option<TcpState>,
    /// Of a UDP stream.
    pub udp: Option<Datagrams>,
}

/// One interval of all streams.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Interval {
    /// Begin and end.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// Each stream, senders and receivers of this end.
    pub streams: Vec<StreamInterval>,
}

/// One end's account of a whole stream, the omitted beginning not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Account {
    /// Begin and end.
    pub start_s: f64,
    /// See `start_s`.
    pub end_s: f64,
    /// Payload sent or received.
    pub bytes: u64,
    /// Of a UDP stream.
    pub udp: Option<Datagrams>,
}

/// What a TCP sender's kernel said over all intervals.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TcpSummary {
    /// Segments sent again; `None` where the kernel does not tell.
    pub retransmits: Option<u64>,
    /// Reordering events seen.
    pub reorder: u64,
    /// Largest congestion window, bytes.
    pub max_snd_cwnd_bytes: u64,
    /// Largest window of the peer, bytes.
    pub max_snd_wnd_bytes: u64,
    /// Round-trip times, microseconds.
    pub max_rtt_us: u64,
    /// See `max_rtt_us`.
    pub min_rtt_us: u64,
    /// See `max_rtt_us`.
    pub mean_rtt_us: u64,
}

/// A whole stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamEnd {
    /// iperf3's number.
    pub id: u32,
    /// From client to server.
    pub forward: bool,
    /// As its sender counted.
    pub sent: Account,
    /// As its receiver counted.
    pub received: Account,
    /// Where the sender's kernel told more (always where this end sent).
    pub tcp: Option<TcpSummary>,
}

/// Processor time over wall time, per cent; above 100 with several threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cpu {
    /// User and system.
    pub total: f64,
    /// In the program.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// The other end's own report.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerOutput {
    /// What it printed.
    Text(String),
    /// Its JSON.
    Json(serde_json::Value),
}

/// A test that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct End {
    /// The streams, in the order of their numbers.
    pub streams: Vec<StreamEnd>,
    /// This end's processor time.
    pub cpu_local: Cpu,
    /// The other's.
    pub cpu_remote: Cpu,
    /// Congestion control that the senders used.
    pub sender_congestion: Option<String>,
    /// And that the receivers had.
    pub receiver_congestion: Option<String>,
    /// How long this end's file was in the end, bytes, where there is one.
    pub file_bytes: Option<u64>,
    /// The other end's report, if asked for.
    pub server_output: Option<ServerOutput>,
}

/// Round-trip times of small datagrams before and beside the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency(pub Vec<LatencyProbe>);

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyProbe {
    /// When it was sent, seconds since the data began; negative before.
    pub at_s: f64,
    /// `None`: lost.
    pub rtt: Option<Duration>,
}

impl Latency {
    /// Those that were sent before the data.
    pub fn idle(&self) -> impl Iterator<Item = &LatencyProbe> {
        self.0.iter().filter(|probe| probe.at_s < 0.0)
    }

    /// Those that were sent beside it.
    pub fn loaded(&self) -> impl Iterator<Item = &LatencyProbe> {
        self.0.iter().filter(|probe| probe.at_s >= 0.0)
    }
}

/// All that one end can tell of a test. A test that failed has the parts it came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Set when the data began.
    pub start: Option<Start>,
    /// In order.
    pub intervals: Vec<Interval>,
    /// Set when both ends had told their results.
    pub end: Option<End>,
    /// Where the client asked for it and the server answered.
    pub latency: Option<Latency>,
    /// Why it failed, in a sentence.
    pub error: Option<String>,
}
