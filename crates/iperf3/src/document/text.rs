//! A test as iperf3's text: the connections, then a line for each stream and interval.

mod end;

use std::fmt::Write;

pub use self::end::end_text;
pub use super::units_text::RateUnit;
use super::{
    directions::{Group, groups},
    json_interval::IntervalSum,
    json_start::http_date,
    object::{self, percent},
    units_text::{amount, rate, two_digits},
};
use crate::report::{Amount, Direction, Interval, Protocol, Report, Role, Start, StreamInterval};

const SEPARATOR: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -\n";

/// The format of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextFormat {
    /// The unit of rates (`-f`).
    pub unit: RateUnit,
    /// Whether the text also has the cookie, the MSS, processor time and congestion controls (`-V`).
    pub verbose: bool,
}

/// The complete report as iperf3's text.
pub fn to_text(report: &Report, format: TextFormat) -> String {
    let mut text = String::new();
    if let Some(start) = &report.start {
        text.push_str(&start_text(start, format));
        for interval in &report.intervals {
            text.push_str(&interval_text(start, interval, format));
        }
        if let Some(end) = &report.end {
            text.push_str(&end_text(start, end, format));
        }
    }
    if let Some(error) = &report.error {
        text.push_str(&format!("longfat: error - {error}\n"));
    }
    text
}

/// The lines before the first interval.
pub fn start_text(start: &Start, format: TextFormat) -> String {
    let mut out = String::new();
    let spec = &start.spec;
    if format.verbose {
        let _ = writeln!(out, "{}\n{}", start.version, start.system_info);
        let _ = writeln!(out, "Time: {}", http_date(start.time));
    }
    let (peer, port) = (&start.peer_name, start.port);
    let _ = match start.role {
        Role::Client => writeln!(out, "Connecting to host {peer}, port {port}"),
        Role::Server => writeln!(out, "Accepted connection from {peer}, port {port}"),
    };
    if start.role == Role::Client && spec.direction == Direction::Reverse {
        let _ = writeln!(out, "Reverse mode, remote host {peer} is sending");
    }
    if format.verbose {
        let _ = writeln!(out, "      Cookie: {}", start.cookie);
        let _ = match (spec.protocol, spec.mss) {
            (Protocol::Udp, _) => Ok(()),
            (Protocol::Tcp, Some(mss)) => writeln!(out, "      TCP MSS: {mss}"),
            (Protocol::Tcp, None) => writeln!(out, "      TCP MSS: {} (default)", start.mss),
        };
        if let Some(rate) = spec.rate {
            let _ = writeln!(out, "      Target Bitrate: {}", rate.0);
        }
    }
    for connection in &start.connections {
        let (local, remote) = (connection.local, connection.remote);
        let _ = writeln!(
            out,
            "[{:3}] local {} port {} connected to {} port {}",
            connection.id,
            local.ip().to_canonical(),
            local.port(),
            remote.ip().to_canonical(),
            remote.port()
        );
    }
    if format.verbose {
        let amount = match spec.amount {
            Amount::Time(time) => format!("{} second test", time.as_secs_f64()),
            Amount::Bytes(bytes) => format!("{} bytes to send", bytes.0),
            Amount::Blocks(blocks) => format!("{blocks} blocks to send"),
        };
        let _ = writeln!(
            out,
            "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, {amount}, tos {}",
            match spec.protocol {
                Protocol::Tcp => "TCP",
                Protocol::Udp => "UDP",
            },
            spec.streams,
            spec.block.0,
            spec.omit.as_secs_f64(),
            spec.tos
        );
    }
    with_title(start, out)
}

/// The lines of one interval; the first has a header.
pub fn interval_text(start: &Start, interval: &Interval, format: TextFormat) -> String {
    let mut out = String::new();
    let is_omitted = interval.streams.first().is_some_and(|stream| stream.omitted);
    // Times restart when the omitted beginning is over.
    if interval.start_s == 0.0 && (is_omitted || start.spec.omit.is_zero()) {
        out.push_str(&header(start));
    } else if start.spec.streams > 1 {
        out.push_str(SEPARATOR);
    }
    for group in groups(start) {
        let own: Vec<&StreamInterval> =
            interval.streams.iter().filter(|stream| stream.sender == group.sender).collect();
        for stream in &own {
            let name = format!("{:3}", stream.id);
            let sum = IntervalSum::of(&[stream]);
            let figures =
                Figures { sum: &sum, omitted: stream.omitted, cwnd: stream.tcp.map(|t| t.snd_cwnd_bytes) };
            out.push_str(&line(start, group, &name, (stream.start_s, stream.end_s), &figures, format));
        }
        if own.len() > 1 {
            let omitted = own.first().is_some_and(|stream| stream.omitted);
            let figures = Figures { sum: &IntervalSum::of(&own), omitted, cwnd: None };
            out.push_str(&line(start, group, "SUM", (interval.start_s, interval.end_s), &figures, format));
        }
    }
    with_title(start, out)
}

/// The values of an interval's line.
struct Figures<'a> {
    sum: &'a IntervalSum,
    omitted: bool,
    cwnd: Option<u64>,
}

fn line(
    start: &Start,
    group: Group,
    name: &str,
    span_s: (f64, f64),
    figures: &Figures<'_>,
    format: TextFormat,
) -> String {
    let sum = figures.sum;
    let mut line = span(name, &group.tag(start), span_s, sum.bytes, format);
    let omitted = if figures.omitted { "(omitted)" } else { "" };
    let rest = match (start.spec.protocol, group.sender, figures.cwnd) {
        (Protocol::Tcp, true, Some(cwnd)) => {
            format!("{:3}   {}       {omitted}", sum.retransmits, amount(cwnd))
        }
        (Protocol::Tcp, true, None) => format!("{:3}             {omitted}", sum.retransmits),
        (Protocol::Tcp, false, _) => format!("                {omitted}"),
        (Protocol::Udp, true, _) if start.spec.direction == Direction::Both => {
            format!("          {}  {omitted}", sum.packets)
        }
        (Protocol::Udp, true, _) => format!("{}  {omitted}", sum.packets),
        (Protocol::Udp, false, _) => {
            format!("{}  {omitted}", losses(sum.jitter_s, sum.lost, sum.packets))
        }
    };
    line.push_str(rest.trim_end());
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

/// The beginning of all lines: `[  1]   0.00-1.00   sec  1.10 GBytes  9.43 Gbits/sec  `.
fn span(name: &str, tag: &str, span_s: (f64, f64), bytes: u64, format: TextFormat) -> String {
    let (from, to) = span_s;
    let speed = rate(object::rate(bytes, to - from), format.unit);
    format!("[{name}]{tag} {from:6.2}-{to:<6.2} sec  {}  {speed}  ", amount(bytes))
}

/// Jitter, lost datagrams and their total.
fn losses(jitter_s: f64, lost: i64, packets: u64) -> String {
    format!("{:5.3} ms  {lost}/{packets} ({}%)", jitter_s * 1e3, two_digits(percent(lost, packets)))
}

fn header(start: &Start) -> String {
    let both = start.spec.direction == Direction::Both;
    let sends = groups(start).iter().any(|group| group.sender);
    let columns = match (start.spec.protocol, sends) {
        (Protocol::Tcp, true) => "Retr  Cwnd",
        (Protocol::Tcp, false) => "",
        (Protocol::Udp, true) if !both => "Total Datagrams",
        (Protocol::Udp, _) => "Jitter    Lost/Total Datagrams",
    };
    header_with(start, columns)
}

/// A header with the common columns, then `columns`.
fn header_with(start: &Start, columns: &str) -> String {
    let role = if start.spec.direction == Direction::Both { "[Role]" } else { "" };
    let line = format!("[ ID]{role} Interval           Transfer     Bitrate         {columns}");
    format!("{}\n", line.trim_end())
}

/// Prints the title before each line.
fn with_title(start: &Start, text: String) -> String {
    match &start.spec.title {
        Some(title) => text.lines().map(|line| format!("{title}:  {line}\n")).collect(),
        None => text,
    }
}
