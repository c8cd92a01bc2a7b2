//! Reports from the output of iperf 2: CSV (`-y C`) and text, of a client or a server.
//!
//! Each connection of the output is a test with one stream, because iperf 2 prints neither a beginning nor an
//! end of a test; the streams of `-P` have the same time and hosts, and become one test with several streams.

mod csv;
mod interval_lines;
mod text;

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use iperf3::report::{
    Amount, Connection, Datagrams, Direction, Interval, Protocol, Report, Role, Start, StreamEnd,
    StreamInterval, StreamTotals, TestSpec,
};
use units::Bytes;

use self::interval_lines::{IntervalLine, is_total};
use crate::udp_totals;

/// Why a text is not output of iperf 2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// A line that is not a line of iperf 2's CSV.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// No report in the text.
    #[error("no report of iperf 2 (CSV of -y C, or text)")]
    Empty,
}

/// Streams that began at most this far apart ran in parallel: CSV has whole seconds.
const SAME_TIME: Duration = Duration::from_secs(1);

/// The tests in the output of iperf 2. `written` is when the text was written; it replaces times that the
/// text lacks.
///
/// # Errors
/// The text is neither its CSV nor its text.
pub fn reports(text: &str, written: SystemTime) -> Result<Vec<Report>, DocumentError> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let streams = match csv::is_csv(first) {
        true => csv::streams(text)?,
        false => text::streams(text, written),
    };
    let reports: Vec<Report> = grouped(streams).into_iter().filter_map(|group| report(&group)).collect();
    match reports.is_empty() {
        true => Err(DocumentError::Empty),
        false => Ok(reports),
    }
}

/// Parses arbitrary text, for the fuzzer; must not panic.
pub fn fuzz(text: &str) {
    let _ = reports(text, SystemTime::UNIX_EPOCH);
}

/// One connection's lines.
#[derive(Debug, Clone)]
struct ImportedStream {
    local: SocketAddr,
    remote: SocketAddr,
    /// Whether the reporting end requested the test, if known.
    role: Role,
    /// The reporting end sends.
    sends: bool,
    began: SystemTime,
    /// Counts the tests of a text without times.
    batch: u32,
    lines: Vec<IntervalLine>,
    /// The server's report, if this end sent datagrams.
    server: Option<IntervalLine>,
    version: String,
}

/// Streams that ran at the same time between the same hosts are one test.
fn grouped(streams: Vec<ImportedStream>) -> Vec<Vec<ImportedStream>> {
    let mut groups: Vec<Vec<ImportedStream>> = Vec::new();
    for stream in streams.into_iter().filter(|stream| !stream.lines.is_empty()) {
        let is_same = |group: &&mut Vec<ImportedStream>| {
            let first = &group[0];
            let earlier = first.began.min(stream.began);
            let apart = first.began.max(stream.began).duration_since(earlier).unwrap_or_default();
            (first.local.ip(), first.remote.ip(), first.batch)
                == (stream.local.ip(), stream.remote.ip(), stream.batch)
                && apart <= SAME_TIME
                && first.sends == stream.sends
                && first.is_udp() == stream.is_udp()
                && group.iter().all(|other| (other.local, other.remote) != (stream.local, stream.remote))
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(stream),
            None => groups.push(vec![stream]),
        }
    }
    groups
}

impl ImportedStream {
    fn is_udp(&self) -> bool {
        self.server.is_some() || self.lines.iter().any(|line| line.udp.is_some() || line.is_udp)
    }

    /// The total: the printed one, or the sum of the intervals.
    fn total(&self) -> Option<IntervalLine> {
        let last = self.lines.last()?;
        if is_total(&self.lines) {
            return Some(*last);
        }
        let sum = |of: fn(&Datagrams) -> u64| {
            let counts = self.lines.iter().filter_map(|l| l.udp.as_ref()).map(of);
            counts.fold(0, u64::saturating_add)
        };
        Some(IntervalLine {
            start_s: self.lines.first()?.start_s,
            bytes: self.lines.iter().map(|line| line.bytes).fold(0, u64::saturating_add),
            udp: last.udp.map(|udp| Datagrams {
                packets: sum(|udp| udp.packets),
                lost: self
                    .lines
                    .iter()
                    .filter_map(|l| l.udp)
                    .map(|udp| udp.lost)
                    .fold(0, i64::saturating_add),
                out_of_order: sum(|udp| udp.out_of_order),
                jitter_s: udp.jitter_s,
            }),
            ..*last
        })
    }

    fn intervals(&self) -> &[IntervalLine] {
        match is_total(&self.lines) && self.lines.len() > 1 {
            true => &self.lines[..self.lines.len() - 1],
            false => &self.lines,
        }
    }
}

fn report(streams: &[ImportedStream]) -> Option<Report> {
    let first = streams.first()?;
    let protocol = if first.is_udp() { Protocol::Udp } else { Protocol::Tcp };
    let total = first.total()?;
    let forward = first.sends == (first.role == Role::Client);
    let spec = TestSpec {
        direction: if forward { Direction::Forward } else { Direction::Reverse },
        streams: u32::try_from(streams.len()).ok()?,
        ..TestSpec::new(protocol, Amount::Time(Duration::try_from_secs_f64(total.end_s).ok()?))
    };
    let numbered = || (0u32..).map(|n| if n == 0 { 1 } else { n + 2 }).zip(streams);
    let start = Start {
        role: first.role,
        peer: first.remote.ip(),
        port: if first.role == Role::Client { first.remote.port() } else { first.local.port() },
        peer_name: first.remote.ip().to_string(),
        version: first.version.clone(),
        system_info: String::new(),
        time: first.began,
        cookie: String::new(),
        mss: 0,
        sndbuf_actual: 0,
        rcvbuf_actual: 0,
        spec: TestSpec { block: Bytes(if protocol == Protocol::Udp { 1470 } else { 128 << 10 }), ..spec },
        connections: numbered()
            .map(|(id, stream)| Connection {
                id,
                sender: stream.sends,
                local: stream.local,
                remote: stream.remote,
            })
            .collect(),
    };
    let max_count = streams.iter().map(|stream| stream.intervals().len()).max()?;
    let intervals = (0..max_count).filter_map(|index| {
        let lines: Vec<StreamInterval> = numbered()
            .filter_map(|(id, stream)| Some(stream_interval(id, stream, stream.intervals().get(index)?)))
            .collect();
        let (start_s, end_s) = lines.first().map(|line| (line.start_s, line.end_s))?;
        Some(Interval { start_s, end_s, streams: lines })
    });
    let intervals = intervals.collect();
    let ends: Vec<StreamEnd> = numbered().filter_map(|(id, stream)| end(id, stream, forward)).collect();
    Some(Report { start: Some(start), intervals, end: Some(udp_totals::end(ends)), ..Report::default() })
}

fn stream_interval(id: u32, stream: &ImportedStream, line: &IntervalLine) -> StreamInterval {
    StreamInterval {
        id,
        sender: stream.sends,
        start_s: line.start_s,
        end_s: line.end_s,
        bytes: line.bytes,
        omitted: false,
        tcp: None,
        udp: line.udp,
    }
}

fn end(id: u32, stream: &ImportedStream, forward: bool) -> Option<StreamEnd> {
    let totals = |line: IntervalLine| StreamTotals {
        start_s: line.start_s,
        end_s: line.end_s,
        bytes: line.bytes,
        udp: line.udp,
    };
    let own = totals(stream.total()?);
    let received = stream.server.map_or(own, totals);
    Some(StreamEnd { id, forward, sent: own, received, tcp: None })
}
