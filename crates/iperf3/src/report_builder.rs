//! Builds the results that one end sends to the other from its counters, and the report from the results of
//! both ends.

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use socket2::Socket;
use traffic::Attempted;

use crate::{
    Error,
    interval_counter::IntervalCounter,
    report::{
        Connection, Cpu, Datagrams, Direction, End, Protocol, Role, ServerOutput, Start, StreamEnd,
        StreamTotals, TcpSummary, TestSpec,
    },
    socket,
    stream::{self, Stream, StreamSnapshot},
    stream_threads::StreamThreads,
    wire::{Cookie, Results, StreamResult},
};

/// MSS to report if the kernel returns none (iperf3's default for Ethernet and IPv4 without options), bytes.
const DEFAULT_MSS: u32 = 1460;

/// The results of this end.
pub(crate) struct LocalResults {
    pub(crate) congestion: Option<String>,
    /// The totals of each stream.
    pub(crate) totals: Vec<(StreamTotals, Option<TcpSummary>)>,
    pub(crate) counter: IntervalCounter,
    pub(crate) cpu: Cpu,
    /// See [`StreamThreads::busy`].
    pub(crate) busy: Option<f64>,
}

impl LocalResults {
    /// After the threads have ended. `snapshots` has one for each stream at `end`, the time since the data
    /// began; `before` is the processor time that the control thread had used before the test.
    ///
    /// A sender's last block may have been sent after `end`, and a server counts all bytes that had
    /// arrived when the client ended the test: both are included. Bytes that a client receives after that,
    /// until the server has stopped, are not included, because that time is not either.
    pub(crate) fn of(
        role: Role,
        running: &StreamThreads,
        mut counter: IntervalCounter,
        before: (Duration, Duration),
        end: Duration,
        mut snapshots: Vec<StreamSnapshot>,
    ) -> LocalResults {
        for (snapshot, stream) in snapshots.iter_mut().zip(running.streams()) {
            if stream.sends || role == Role::Server {
                *snapshot = StreamSnapshot { tcp: snapshot.tcp.take(), ..stream.snapshot() };
            }
        }
        let used = os::thread_usage();
        LocalResults {
            congestion: running.streams().first().and_then(|stream| socket::congestion(&stream.socket)),
            totals: counter.end(end.as_secs_f64(), &snapshots),
            cpu: running.cpu((used.0 - before.0, used.1 - before.1), end),
            busy: running.busy(end),
            counter,
        }
    }
}

/// Program and version, as sent to the other end.
pub(crate) fn version() -> String {
    format!("longfat {}", env!("CARGO_PKG_VERSION"))
}

/// Number of streams of a test, both directions together.
pub(crate) fn stream_count(spec: &TestSpec) -> u32 {
    spec.streams * if spec.direction == Direction::Both { 2 } else { 1 }
}

/// Whether the stream with index `number` in the order of creation carries data from client to server.
pub(crate) fn is_forward(spec: &TestSpec, number: u32) -> bool {
    match spec.direction {
        Direction::Forward => true,
        Direction::Reverse => false,
        Direction::Both => number < spec.streams,
    }
}

/// Whether `role` sends on that stream.
pub(crate) fn sends(spec: &TestSpec, role: Role, number: u32) -> bool {
    is_forward(spec, number) == (role == Role::Client)
}

/// The results to send to the other end.
pub(crate) fn results(local: &LocalResults, streams: &[Stream]) -> Results {
    let stream = |(index, stream): (usize, &Stream)| {
        let (totals, tcp) = local.totals.get(index).copied().unwrap_or_default();
        let (udp, omitted) = (totals.udp.unwrap_or_default(), local.counter.omitted(index));
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        StreamResult {
            id: u64::from(stream.id),
            bytes: totals.bytes,
            retransmits: tcp.and_then(|tcp| tcp.retransmits).map_or(-1, count),
            jitter: udp.jitter_s,
            // iperf3 counts from the beginning of the data, and sends the omitted part separately.
            errors: udp.lost + omitted.lost,
            omitted_errors: Some(omitted.lost),
            packets: count(udp.packets + omitted.packets),
            omitted_packets: Some(count(omitted.packets)),
            start_time: Some(totals.start_s),
            end_time: Some(totals.end_s),
        }
    };
    let has_count =
        |(_, tcp): &(StreamTotals, Option<TcpSummary>)| tcp.is_some_and(|tcp| tcp.retransmits.is_some());
    let has_retransmits = match streams.iter().any(|stream| stream.sends) {
        false => -1,
        true => i64::from(local.totals.iter().any(has_count)),
    };
    Results {
        cpu_util_total: local.cpu.total,
        cpu_util_user: local.cpu.user,
        cpu_util_system: local.cpu.system,
        sender_has_retransmits: has_retransmits,
        congestion_used: local.congestion.clone(),
        streams: streams.iter().enumerate().map(stream).collect(),
        ..Results::default()
    }
}

/// Combines both ends' results.
///
/// # Errors
/// [`Error::MissingStream`] if the other end's results lack a stream.
pub(crate) fn end(
    role: Role,
    spec: &TestSpec,
    local: &LocalResults,
    streams: &[Stream],
    remote: Results,
) -> Result<End, Error> {
    let mut ends = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let result = remote.stream(stream.id).ok_or(Error::MissingStream(stream.id))?;
        let (own, tcp) = local.totals.get(index).copied().unwrap_or_default();
        let other = totals(spec, result, own.end_s);
        let (sent, received) = if stream.sends { (own, other) } else { (other, own) };
        let their_retransmits = u64::try_from(result.retransmits).ok().filter(|_| !stream.sends);
        let tcp = tcp.or(their_retransmits
            .filter(|_| spec.protocol == Protocol::Tcp)
            .map(|n| TcpSummary { retransmits: Some(n), ..TcpSummary::default() }));
        let forward = stream.sends == (role == Role::Client);
        ends.push(StreamEnd { id: stream.id, forward, sent, received, tcp });
    }
    let (local_congestion, remote_congestion) = (local.congestion.clone(), remote.congestion_used);
    let we_send = streams.first().is_some_and(|stream| stream.sends);
    let (sender_congestion, receiver_congestion) =
        if we_send { (local_congestion, remote_congestion) } else { (remote_congestion, local_congestion) };
    let text = remote.server_output_text.map(ServerOutput::Text);
    Ok(End {
        streams: ends,
        cpu_local: local.cpu,
        cpu_remote: Cpu {
            total: remote.cpu_util_total,
            user: remote.cpu_util_user,
            system: remote.cpu_util_system,
        },
        sender_congestion: sender_congestion.filter(|_| spec.protocol == Protocol::Tcp),
        receiver_congestion: receiver_congestion.filter(|_| spec.protocol == Protocol::Tcp),
        file_bytes: spec.file.as_ref().and_then(|path| fs::metadata(path).ok()).map(|file| file.len()),
        server_output: remote.server_output_json.map(ServerOutput::Json).or(text),
    })
}

/// The other end's totals of a stream. iperf before 3.2 sends no times: then this end's time is used.
fn totals(spec: &TestSpec, result: &StreamResult, own_end_s: f64) -> StreamTotals {
    // The other end may send any numbers.
    let lost = result.errors.saturating_sub(result.omitted_errors.unwrap_or(0));
    let packets = result.packets.saturating_sub(result.omitted_packets.unwrap_or(0));
    StreamTotals {
        start_s: result.start_time.unwrap_or(0.0),
        end_s: result.end_time.unwrap_or(own_end_s),
        bytes: result.bytes,
        udp: (spec.protocol == Protocol::Udp).then(|| Datagrams {
            packets: u64::try_from(packets).unwrap_or(0),
            lost,
            out_of_order: 0,
            jitter_s: result.jitter,
        }),
    }
}

/// The part of the report that is known when the data begins.
pub(crate) fn start(
    role: Role,
    peer: SocketAddr,
    port: u16,
    cookie: &Cookie,
    mss: Option<u32>,
    spec: &TestSpec,
    running: &StreamThreads,
) -> Result<Start, Error> {
    let streams: Vec<_> = running.streams().iter().map(|stream| (&stream.socket, stream.sends)).collect();
    let start = start_of(role, peer, port, spec, &streams)?;
    Ok(Start { cookie: cookie.as_str().into(), mss: spec.mss.or(mss).unwrap_or(DEFAULT_MSS), ..start })
}

/// The start of a test on these sockets, without a control connection; true: this end sends on the socket.
///
/// # Errors
/// The kernel does not return a socket's addresses or buffers.
pub fn start_of(
    role: Role,
    peer: SocketAddr,
    port: u16,
    spec: &TestSpec,
    streams: &[(&Socket, bool)],
) -> Result<Start, Error> {
    let numbered = (0..).map(stream::stream_id).zip(streams);
    let connections: Result<Vec<_>, _> =
        numbered.map(|(id, (socket, sends))| connection(id, *sends, socket)).collect();
    let first = streams.first();
    let (sndbuf_actual, rcvbuf_actual) =
        first.map(|(socket, _)| socket::sizes(socket)).transpose()?.unwrap_or_default();
    let mss = first.and_then(|(socket, _)| socket.tcp_mss().ok());
    Ok(Start {
        role,
        peer: peer.ip().to_canonical(),
        port,
        peer_name: peer.ip().to_canonical().to_string(),
        version: version(),
        system_info: system_info(),
        time: SystemTime::now(),
        cookie: String::new(),
        mss: spec.mss.or(mss).unwrap_or(DEFAULT_MSS),
        sndbuf_actual,
        rcvbuf_actual,
        spec: spec.clone(),
        connections: connections?,
    })
}

fn connection(id: u32, sends: bool, socket: &Socket) -> Result<Connection, Error> {
    let address = |of: std::io::Result<socket2::SockAddr>| {
        let address =
            of.and_then(|a| a.as_socket().ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()));
        address.attempted(|| format!("read the addresses of stream {id}"))
    };
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    Ok(Connection {
        id,
        sender: sends,
        local: canonical(address(socket.local_addr())?),
        remote: canonical(address(socket.peer_addr())?),
    })
}

/// The output of `uname -a`, or the parts of it that this system provides.
fn system_info() -> String {
    let part = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let parts = ["ostype", "hostname", "osrelease", "version"].map(part);
    let words: Vec<&str> = parts.iter().map(|p| p.trim()).chain([std::env::consts::ARCH]).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Amount;

    #[test]
    fn arbitrary_numbers_of_the_other_end_cause_no_overflow() {
        let spec = TestSpec::new(Protocol::Udp, Amount::Time(Duration::from_secs(1)));
        let result = StreamResult {
            errors: -9_000_000_000_000_000_000,
            omitted_errors: Some(9_000_000_000_000_000_000),
            packets: 9_000_000_000_000_000_000,
            omitted_packets: Some(-9_000_000_000_000_000_000),
            ..StreamResult::default()
        };
        let datagrams = totals(&spec, &result, 1.0).udp.unwrap();
        assert_eq!((datagrams.lost, datagrams.packets), (i64::MIN, i64::MAX as u64));
    }
}
