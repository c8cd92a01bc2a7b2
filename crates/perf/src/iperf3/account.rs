//! From one end's tally to the results it tells the other, and from both ends' to the report.

use std::{
    fs,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use socket2::Socket;

use crate::{
    error::Attempted,
    iperf3::{
        Error,
        running::Running,
        socket,
        stream::{Look, Stream},
        tally::Tally,
        wire::{Cookie, Results, StreamResult},
    },
    report::{
        Account, Connection, Cpu, Datagrams, Direction, End, Protocol, Role, ServerOutput, Start, StreamEnd,
        TcpSummary, TestSpec,
    },
    sys,
};

/// MSS where the kernel tells none (iperf3's default for Ethernet and IPv4 without options), bytes.
const MSS: u32 = 1460;

/// What this end knows when the data is over.
pub(crate) struct Local {
    pub(crate) congestion: Option<String>,
    /// Of each stream.
    pub(crate) accounts: Vec<(Account, Option<TcpSummary>)>,
    pub(crate) tally: Tally,
    pub(crate) cpu: Cpu,
    /// See [`Running::busy`].
    pub(crate) busy: Option<f64>,
}

impl Local {
    /// Of threads that have ended, with one look for each stream at `end`, the time since the data began; the conducting
    /// thread had used `before` when it began.
    ///
    /// A sender's last block may have gone after `end`, and a server takes what had come when the client ended the test: both
    /// count. What a client receives until the server has stopped does not, for it comes in no time that is counted.
    pub(crate) fn of(
        role: Role,
        running: &Running,
        mut tally: Tally,
        before: (Duration, Duration),
        end: Duration,
        mut looks: Vec<Look>,
    ) -> Local {
        for (look, stream) in looks.iter_mut().zip(running.streams()) {
            if stream.sends || role == Role::Server {
                *look = Look { tcp: look.tcp.take(), ..stream.look() };
            }
        }
        let used = sys::thread_time();
        Local {
            congestion: running.streams().first().and_then(|stream| socket::congestion(&stream.socket)),
            accounts: tally.end(end.as_secs_f64(), &looks),
            cpu: running.cpu((used.0 - before.0, used.1 - before.1), end),
            busy: running.busy(end),
            tally,
        }
    }
}

/// Program and version, as the other end is told.
pub(crate) fn version() -> String {
    format!("longfat {}", env!("CARGO_PKG_VERSION"))
}

/// Streams of a test, both directions together.
pub(crate) fn stream_count(spec: &TestSpec) -> u32 {
    spec.streams * if spec.direction == Direction::Both { 2 } else { 1 }
}

/// Whether the stream that was made as the `number`th, from 0, carries data from client to server.
pub(crate) fn is_forward(spec: &TestSpec, number: u32) -> bool {
    match spec.direction {
        Direction::Forward => true,
        Direction::Reverse => false,
        Direction::Both => number < spec.streams,
    }
}

/// Whether `role` sends on it.
pub(crate) fn sends(spec: &TestSpec, role: Role, number: u32) -> bool {
    is_forward(spec, number) == (role == Role::Client)
}

/// What this end tells the other.
pub(crate) fn results(local: &Local, streams: &[Stream]) -> Results {
    let stream = |(index, stream): (usize, &Stream)| {
        let (account, tcp) = local.accounts.get(index).copied().unwrap_or_default();
        let (udp, omitted) = (account.udp.unwrap_or_default(), local.tally.omitted(index));
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        StreamResult {
            id: u64::from(stream.id),
            bytes: account.bytes,
            retransmits: tcp.and_then(|tcp| tcp.retransmits).map_or(-1, count),
            jitter: udp.jitter_s,
            // Counted from the data's begin; what was omitted comes beside.
            errors: udp.lost + omitted.lost,
            omitted_errors: Some(omitted.lost),
            packets: count(udp.packets + omitted.packets),
            omitted_packets: Some(count(omitted.packets)),
            start_time: Some(account.start_s),
            end_time: Some(account.end_s),
        }
    };
    let knows = |(_, tcp): &(Account, Option<TcpSummary>)| tcp.is_some_and(|tcp| tcp.retransmits.is_some());
    let has_retransmits = match streams.iter().any(|stream| stream.sends) {
        false => -1,
        true => i64::from(local.accounts.iter().any(knows)),
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

/// Both ends' results as one.
pub(crate) fn end(
    role: Role,
    spec: &TestSpec,
    local: &Local,
    streams: &[Stream],
    remote: Results,
) -> Result<End, Error> {
    let mut ends = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let told = remote.stream(stream.id).ok_or(Error::MissingStream(stream.id))?;
        let (own, tcp) = local.accounts.get(index).copied().unwrap_or_default();
        let other = account(spec, told, own.end_s);
        let (sent, received) = if stream.sends { (own, other) } else { (other, own) };
        let told_retransmits = u64::try_from(told.retransmits).ok().filter(|_| !stream.sends);
        let tcp = tcp.or(told_retransmits
            .filter(|_| spec.protocol == Protocol::Tcp)
            .map(|n| TcpSummary { retransmits: Some(n), ..TcpSummary::default() }));
        let forward = stream.sends == (role == Role::Client);
        ends.push(StreamEnd { id: stream.id, forward, sent, received, tcp });
    }
    let (here, there) = (local.congestion.clone(), remote.congestion_used);
    let we_send = streams.first().is_some_and(|stream| stream.sends);
    let (sender_congestion, receiver_congestion) = if we_send { (here, there) } else { (there, here) };
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

/// The other end's account of a stream. Ends before iperf 3.2 tell no time: then ours is taken.
fn account(spec: &TestSpec, told: &StreamResult, own_end_s: f64) -> Account {
    let lost = told.errors - told.omitted_errors.unwrap_or(0);
    let packets = told.packets - told.omitted_packets.unwrap_or(0);
    Account {
        start_s: told.start_time.unwrap_or(0.0),
        end_s: told.end_time.unwrap_or(own_end_s),
        bytes: told.bytes,
        udp: (spec.protocol == Protocol::Udp).then(|| Datagrams {
            packets: u64::try_from(packets).unwrap_or(0),
            lost,
            out_of_order: 0,
            jitter_s: told.jitter,
        }),
    }
}

/// What is known when the data begins.
pub(crate) fn start(
    role: Role,
    peer: SocketAddr,
    port: u16,
    cookie: &Cookie,
    mss: Option<u32>,
    spec: &TestSpec,
    running: &Running,
) -> Result<Start, Error> {
    let streams = running.streams();
    let connections = streams.iter().map(connection).collect::<Result<Vec<_>, _>>()?;
    let (sndbuf_actual, rcvbuf_actual) =
        streams.first().map(|stream| socket::sizes(&stream.socket)).transpose()?.unwrap_or_default();
    Ok(Start {
        role,
        peer: peer.ip().to_canonical(),
        port,
        peer_name: peer.ip().to_canonical().to_string(),
        version: version(),
        system_info: system_info(),
        time: SystemTime::now(),
        cookie: cookie.as_str().into(),
        mss: spec.mss.or(mss).unwrap_or(MSS),
        sndbuf_actual,
        rcvbuf_actual,
        spec: spec.clone(),
        connections,
    })
}

fn connection(stream: &Stream) -> Result<Connection, Error> {
    let address = |of: std::io::Result<socket2::SockAddr>| {
        let address =
            of.and_then(|a| a.as_socket().ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()));
        address.attempted(|| format!("cannot read the addresses of stream {}", stream.id))
    };
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let socket: &Socket = &stream.socket;
    Ok(Connection {
        id: stream.id,
        sender: stream.sends,
        local: canonical(address(socket.local_addr())?),
        remote: canonical(address(socket.peer_addr())?),
    })
}

/// What `uname -a` says, or as much of it as this system tells.
fn system_info() -> String {
    let part = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let parts = ["ostype", "hostname", "osrelease", "version"].map(part);
    let words: Vec<&str> = parts.iter().map(|p| p.trim()).chain([std::env::consts::ARCH]).collect();
    words.join(" ")
}
