//! How other processes of the user talk to a standing lab: one request and one answer, each a line of JSON, over its socket.
//!
//! The answer to [`Request::Enter`] is preceded by one byte that carries the namespaces' descriptors (none where the
//! answer is an error): user (only of a lab without root), mount, process and network namespace.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::isolate::receive_fds;
use crate::{Error, error::Attempted};

/// Longest line that is read.
const LINE_MAX: u64 = 1 << 20;
/// A lab that has not answered after so long is not well.
const PATIENCE: Duration = Duration::from_secs(10);
/// Descriptors that lead onto a host: mounts, processes and network, and the user namespace of a lab without root.
const ENTRANCES: std::ops::RangeInclusive<usize> = 3..=4;

/// What may be asked of a standing lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Request {
    /// A command about links, ports or captures: `link`, `tc`, `ifconfig`, `ip link set`, `pcap`.
    Words {
        /// The words, the command's name first. File names must be absolute.
        words: Vec<String>,
    },
    /// The namespaces of a host.
    Enter {
        /// The host.
        host: String,
    },
    /// How the lab is.
    Status,
    /// End the lab. Answered before it ends.
    Down,
}

/// What a standing lab answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Answer {
    /// Done; a text for people, often empty.
    Text {
        /// The text.
        text: String,
    },
    /// Not done.
    Refused {
        /// Why.
        why: String,
    },
    /// How the lab is.
    Status(Box<Status>),
}

/// A standing lab.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `longfat.lab/1`.
    pub schema: String,
    /// The lab's name.
    pub name: String,
    /// The scenario's title.
    pub title: String,
    /// The process that keeps it.
    pub pid: u32,
    /// How long it is up, in seconds.
    pub up_s: f64,
    /// Its hosts, switches and routers.
    pub nodes: Vec<NodeStatus>,
    /// Its links, by direction.
    pub links: Vec<LinkStatus>,
    /// How late packets were delivered since the lab is up, 99th percentile, in microseconds.
    pub emulator_late_p99_us: f64,
    /// How often the emulator stalled since the lab is up, because the machine was busy.
    #[serde(default)]
    pub stalls: u64,
    /// All stalls together, in microseconds.
    #[serde(default)]
    pub stalled_total_us: f64,
    /// The longest, in microseconds.
    #[serde(default)]
    pub stalled_max_us: f64,
    /// Files that packets are written to.
    pub captures: Vec<String>,
    /// What this lab lacks because of how it is run.
    pub remarks: Vec<String>,
    /// What is to be run on hosts before the lab goes down.
    pub stop_commands: Vec<StopCommand>,
}

/// A command for a lab's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopCommand {
    /// The host.
    pub host: String,
    /// A line of shell.
    pub line: String,
}

/// A host, switch or router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// `host`, `switch` or `router`.
    pub kind: String,
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
    /// What it does, in the words of the scenario file.
    pub state: String,
    /// Packets sent since the lab is up.
    pub sent_packets: u64,
    /// Packets dropped at its queue.
    pub dropped_queue: u64,
    /// Packets lost on the wire.
    pub dropped_loss: u64,
    /// Bytes in its queue now.
    pub queue_bytes: u64,
}

/// Asks the lab behind `socket`.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, Error> {
    let talk = || -> io::Result<Answer> {
        let stream = send(socket, request)?;
        read_line(&stream, PATIENCE)
    };
    talk().attempted(|| format!("talk to the lab at {}", socket.display()))
}

/// Asks for a host's namespaces: the descriptors, or why not.
pub(crate) fn ask_to_enter(socket: &Path, host: &str) -> Result<Result<Vec<OwnedFd>, String>, Error> {
    let talk = || -> io::Result<Result<Vec<OwnedFd>, String>> {
        let stream = send(socket, &Request::Enter { host: host.into() })?;
        let fds = receive_fds(&stream).map_err(silent)?;
        match read_line(&stream, PATIENCE)? {
            Answer::Refused { why } => Ok(Err(why)),
            // Without them the program would run on this machine instead of the host.
            _ if !ENTRANCES.contains(&fds.len()) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "it did not say where the host is"))
            }
            _ => Ok(Ok(fds)),
        }
    };
    talk().attempted(|| format!("talk to the lab at {}", socket.display()))
}

fn send(socket: &Path, request: &Request) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write_line(&mut stream, request)?;
    Ok(stream)
}

pub(crate) fn write_line(mut stream: impl Write, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(document).map_err(io::Error::from)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Reads one line, which must be whole within `patience`.
pub(crate) fn read_line<T: for<'a> Deserialize<'a>>(
    stream: &UnixStream,
    patience: Duration,
) -> io::Result<T> {
    let mut line = String::new();
    let until = Until { stream, end: Instant::now() + patience };
    BufReader::new(until.take(LINE_MAX)).read_line(&mut line).map_err(silent)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it said nothing"));
    }
    serde_json::from_str(&line).map_err(io::Error::from)
}

/// A time-out in words.
fn silent(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "it does not answer")
        }
        _ => error,
    }
}

/// A socket that is read until a certain time, however slowly the other side speaks.
struct Until<'a> {
    stream: &'a UnixStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_speaks_slowly_is_left_in_time() {
        let (mut a, b) = UnixStream::pair().unwrap();
        let talker = std::thread::spawn(move || {
            while a.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let error = read_line::<Request>(&b, Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(b);
        talker.join().unwrap();
    }

    #[test]
    fn garbage_and_halves_are_errors() {
        for text in ["", "\n", "{", "\u{0}\n", "{\"do\":\"fly\"}\n", "{\"do\":\"words\"}\n"] {
            let (mut a, b) = UnixStream::pair().unwrap();
            a.write_all(text.as_bytes()).unwrap();
            drop(a);
            assert!(read_line::<Request>(&b, Duration::from_secs(1)).is_err(), "{text:?}");
        }
    }

    /// Whoever answers so would have programs run outside of any host.
    #[test]
    fn an_answer_without_namespaces_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let lab = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            read_line::<Request>(&stream, PATIENCE).unwrap();
            stream.write_all(&[0]).unwrap();
            write_line(&stream, &Answer::Text { text: String::new() }).unwrap();
        });
        let error = ask_to_enter(&socket, "h1").unwrap_err();
        assert!(error.to_string().contains("where the host is"), "{error}");
        lab.join().unwrap();
    }
}
