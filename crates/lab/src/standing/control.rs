//! The control protocol of a standing lab: one request and one reply, each a line of JSON, over a Unix
//! socket.
//!
//! Before its reply to [`Request::Enter`], the lab sends one byte with the namespaces' descriptors attached
//! (none if the reply is an error): user (only for a lab without root), mount, PID and network namespace.

use std::{
    fmt,
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::isolate::receive_fds;
use crate::{Error, error::Attempted, stalls::LATE_NS};

/// Maximum length of a line: the status of a lab takes about 600 bytes per host.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Maximum time in which a lab replies.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of descriptors of a host's namespaces: mount, PID and network, and user for a lab without root.
const NAMESPACE_FDS: std::ops::RangeInclusive<usize> = 3..=4;

/// A request to a standing lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// A command about links, ports or captures: `link`, `tc`, `ifconfig`, `ip link set`, `pcap`.
    #[serde(rename = "words")]
    Command {
        /// The command's name and arguments. File names must be absolute.
        #[serde(rename = "words")]
        command: Vec<String>,
    },
    /// Send the namespaces of a host.
    Enter {
        /// The host.
        host: String,
    },
    /// Report the state of the lab.
    Status,
    /// End the lab. The lab replies before it ends.
    Down,
}

/// A reply of a standing lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Reply {
    /// Success; the command's output, often empty.
    Text {
        /// The text.
        text: String,
    },
    /// Failure.
    Refused {
        /// Why.
        why: String,
    },
    /// The state of the lab.
    Status(Box<Status>),
}

/// State of a standing lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `longfat.lab/1`.
    pub schema: String,
    /// The lab's name.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// Process id of its keeper.
    pub pid: u32,
    /// Time for which it has been up, in seconds.
    pub up_s: f64,
    /// Its hosts, switches and routers.
    pub nodes: Vec<NodeStatus>,
    /// Its links, by direction.
    pub links: Vec<LinkStatus>,
    /// Lateness of deliveries since the lab came up, 99th percentile, in microseconds.
    pub emulator_late_p99_us: f64,
    /// Number of times that the emulator has stalled since the lab came up, because the machine was busy.
    #[serde(default)]
    pub stalls: u64,
    /// Total length of stalls, in microseconds.
    #[serde(default)]
    pub stalled_total_us: f64,
    /// The longest stall, in microseconds.
    #[serde(default)]
    pub stalled_max_us: f64,
    /// Files of active captures.
    pub captures: Vec<String>,
    /// Limits of this lab because of missing privileges or devices.
    pub remarks: Vec<String>,
    /// Commands to run on hosts before the lab goes down.
    pub stop_commands: Vec<StopCommand>,
}

impl Status {
    /// The emulator is so late that a measurement is unreliable, by the criteria of a run's quality.
    pub fn is_late(&self) -> bool {
        self.emulator_late_p99_us > LATE_NS as f64 / 1000.0
    }

    /// How late the emulator was since `before`, in ms: the total length of new stalls, or the 99th
    /// percentile of the lateness since the lab came up if it is larger.
    pub fn late_since_ms(&self, before: &Status) -> f64 {
        let stalled_us =
            if self.stalls > before.stalls { self.stalled_total_us - before.stalled_total_us } else { 0.0 };
        self.emulator_late_p99_us.max(stalled_us) / 1000.0
    }
}

/// A command to run before a lab goes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopCommand {
    /// The host.
    pub host: String,
    /// A shell command line.
    pub line: String,
}

/// The kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeKind {
    /// Runs programs.
    Host,
    /// Forwards by link-layer address.
    Switch,
    /// Forwards by IP address.
    Router,
}

impl NodeKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            NodeKind::Host => "host",
            NodeKind::Switch => "switch",
            NodeKind::Router => "router",
        }
    }
}

impl fmt::Display for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A host, switch or router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: NodeKind,
    /// Its addresses with their prefix lengths.
    pub addresses: Vec<String>,
}

/// One direction of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The link's name.
    pub name: String,
    /// `forward` or `backward`.
    pub direction: String,
    /// The port that sends in this direction, such as `s1-eth2`.
    #[serde(default)]
    pub from_port: String,
    /// The port that receives.
    #[serde(default)]
    pub to_port: String,
    /// Its parameters, in the syntax of the scenario file.
    pub state: String,
    /// Packets sent since the lab came up.
    pub sent_packets: u64,
    /// Packets dropped at its queue.
    pub dropped_queue: u64,
    /// Packets lost on the wire.
    pub dropped_loss: u64,
    /// Bytes in its queue now.
    pub queue_bytes: u64,
}

/// Sends a request to the lab with this control `socket` and returns its reply.
///
/// # Errors
/// [`Error::System`] if the lab cannot be reached or does not reply in time.
pub fn send_request(socket: &Path, request: &Request) -> Result<Reply, Error> {
    let exchange = || -> io::Result<Reply> {
        let stream = send(socket, request)?;
        read_line(&stream, REPLY_TIMEOUT)
    };
    exchange().attempted(|| format!("send a request to the lab at {}", socket.display()))
}

/// Requests a host's namespaces: returns their descriptors, or the reason why the lab refused.
pub(crate) fn request_namespaces(socket: &Path, host: &str) -> Result<Result<Vec<OwnedFd>, String>, Error> {
    let exchange = || -> io::Result<Result<Vec<OwnedFd>, String>> {
        let stream = send(socket, &Request::Enter { host: host.into() })?;
        let fds = receive_fds(&stream).map_err(describe_timeout)?;
        match read_line(&stream, REPLY_TIMEOUT)? {
            Reply::Refused { why } => Ok(Err(why)),
            // Without the descriptors the program would run on this machine instead of the host.
            _ if !NAMESPACE_FDS.contains(&fds.len()) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "the lab did not send the host's namespaces"))
            }
            _ => Ok(Ok(fds)),
        }
    };
    exchange().attempted(|| format!("send a request to the lab at {}", socket.display()))
}

fn send(socket: &Path, request: &Request) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    write_line(&mut stream, request)?;
    Ok(stream)
}

pub(crate) fn write_line(mut stream: impl Write, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(document).map_err(io::Error::from)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Reads one line, which must be complete within `timeout`.
pub(crate) fn read_line<T: for<'a> Deserialize<'a>>(stream: &UnixStream, timeout: Duration) -> io::Result<T> {
    let mut line = String::new();
    let reader = DeadlineReader { stream, deadline: Instant::now() + timeout };
    BufReader::new(reader.take(MAX_LINE_BYTES)).read_line(&mut line).map_err(describe_timeout)?;
    if line.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection was closed without a reply",
        ));
    }
    serde_json::from_str(&line).map_err(io::Error::from)
}

/// Adds a message to timeouts; returns other errors unchanged.
fn describe_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "the lab does not reply")
        }
        _ => error,
    }
}

/// Reads from a socket until a deadline, however slowly the peer sends.
struct DeadlineReader<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Read for DeadlineReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(remaining))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_peer_is_dropped_at_the_deadline() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let sender = std::thread::spawn(move || {
            while a.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let error = read_line::<Request>(&b, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(b);
        sender.join().unwrap();
    }

    #[test]
    fn malformed_and_incomplete_requests_are_errors() {
        for text in ["", "\n", "{", "\u{0}\n", "{\"do\":\"fly\"}\n", "{\"do\":\"words\"}\n"] {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(text.as_bytes()).unwrap();
            drop(a);
            assert!(read_line::<Request>(&b, Duration::from_secs(1)).is_err(), "{text:?}");
        }
    }

    /// `exec` and `down` request the status first, so a lab with a longer one could not be taken down.
    #[test]
    fn the_status_of_a_lab_with_thousands_of_hosts_is_read() {
        let (a, b) = UnixStream::pair().unwrap();
        let reply = Reply::Text { text: "h".repeat(5000 * 600) };
        let sent = reply.clone();
        let lab = std::thread::spawn(move || write_line(&a, &sent));
        assert_eq!(read_line::<Reply>(&b, REPLY_TIMEOUT).unwrap(), reply);
        lab.join().unwrap().unwrap();
    }

    /// If it were accepted, the program would run outside any host.
    #[test]
    fn a_reply_without_namespaces_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let lab = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_line::<Request>(&stream, REPLY_TIMEOUT).unwrap();
            stream.write_all(&[0]).unwrap();
            write_line(&stream, &Reply::Text { text: String::new() }).unwrap();
        });
        let error = request_namespaces(&socket, "h1").unwrap_err();
        assert!(error.to_string().contains("did not send the host's namespaces"), "{error}");
        lab.join().unwrap();
    }
}
