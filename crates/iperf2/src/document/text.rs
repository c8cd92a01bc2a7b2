//! The text that iperf 2 prints. Lines that are not results, and the sums of `-P`, are skipped.

use std::{
    net::{IpAddr, SocketAddr},
    time::SystemTime,
};

use iperf3::report::{Datagrams, Role};

use super::{
    ImportedStream,
    interval_lines::{IntervalLine, span},
};

/// The version is not in the output.
const VERSION: &str = "iperf 2 (text)";

/// A connection of the output.
struct Connection {
    id: String,
    local: SocketAddr,
    remote: SocketAddr,
    is_reverse: bool,
    batch: u32,
}

/// The streams of the whole text; `began` is when they began, which the text does not have.
pub(super) fn streams(text: &str, began: SystemTime) -> Vec<ImportedStream> {
    let mut role = Role::Client;
    let mut connections: Vec<Connection> = Vec::new();
    let mut streams: Vec<(usize, bool, ImportedStream)> = Vec::new();
    let mut reported_by_server: Option<String> = None;
    let (mut batch, mut had_results) = (0, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("Client connecting to") {
            role = Role::Client;
        } else if trimmed.starts_with("Server listening on") {
            role = Role::Server;
        }
        let Some((id, rest)) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
            continue;
        };
        let (id, is_starred) = match id.trim().strip_prefix('*') {
            Some(id) => (id.trim(), true),
            None => (id.trim(), false),
        };
        let rest = rest.trim();
        if let Some((local, remote)) = connected(rest) {
            // Connections after results belong to another test.
            (batch, had_results) = (batch + u32::from(had_results), false);
            let is_reverse = rest.contains("(reverse)");
            connections.push(Connection { id: id.into(), local, remote, is_reverse, batch });
        } else if rest == "Server Report:" {
            reported_by_server = Some(id.into());
        } else if let Some(result) = result(rest) {
            had_results = true;
            let Some(at) = connections.iter().rposition(|connection| connection.id == id) else { continue };
            let connection = &connections[at];
            if reported_by_server.as_deref() == Some(id) {
                reported_by_server = None;
                if let Some((_, _, stream)) = streams.iter_mut().rev().find(|(of, ..)| *of == at) {
                    stream.server = Some(result);
                }
                continue;
            }
            // The mark * denotes the direction from the server to the client.
            let is_reverse = is_starred || connection.is_reverse;
            match streams.iter_mut().find(|(of, reverse, _)| (*of, *reverse) == (at, is_reverse)) {
                Some((_, _, stream)) => stream.lines.push(result),
                None => {
                    let stream = ImportedStream {
                        local: connection.local,
                        remote: connection.remote,
                        role,
                        sends: (role == Role::Client) != is_reverse,
                        began,
                        batch: connection.batch,
                        lines: vec![result],
                        server: None,
                        version: VERSION.into(),
                    };
                    streams.push((at, is_reverse, stream));
                }
            }
        }
    }
    streams.into_iter().map(|(_, _, stream)| stream).collect()
}

/// Parses `local 10.0.0.1 port 4711 connected with 10.0.0.2 port 5001 ...`.
fn connected(text: &str) -> Option<(SocketAddr, SocketAddr)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let address = |ip: &str, port: &str| {
        // The device follows a percent sign.
        let ip: IpAddr = ip.split('%').next()?.parse().ok()?;
        Some(SocketAddr::new(ip, port.parse().ok()?))
    };
    match words[..] {
        ["local", local, "port", local_port, "connected", "with" | "to", remote, "port", remote_port, ..] => {
            Some((address(local, local_port)?, address(remote, remote_port)?))
        }
        _ => None,
    }
}

/// Parses `0.0-1.0 sec  1.08 GBytes  9.25 Gbits/sec`, with `0.002 ms 0/447 (0%)` for datagrams.
fn result(text: &str) -> Option<IntervalLine> {
    let (interval, rest) = text.split_once("sec")?;
    let (start_s, end_s) = span(interval)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let bytes = amount(words.first()?, words.get(1)?)?;
    let udp = datagrams(&words);
    Some(IntervalLine { start_s, end_s, bytes, udp, is_udp: udp.is_some() })
}

/// Parses `1.08 GBytes`: prefixes of bytes are powers of 1024, those of bits powers of 1000.
fn amount(number: &str, unit: &str) -> Option<u64> {
    let number: f64 = number.parse().ok()?;
    let (base, per_byte, prefix) = match (unit.strip_suffix("Bytes"), unit.strip_suffix("bits")) {
        (Some(prefix), _) => (1024f64, 1.0, prefix),
        (_, Some(prefix)) => (1000.0, 8.0, prefix),
        _ => return None,
    };
    let power = match prefix {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    (number >= 0.0).then(|| (number * base.powi(power) / per_byte).round() as u64)
}

/// Finds `0.002 ms 0/447 (0%)`, also with spaces as in `0/ 447`.
fn datagrams(words: &[&str]) -> Option<Datagrams> {
    let at = words.iter().position(|word| *word == "ms")?;
    let jitter_ms: f64 = words.get(at.checked_sub(1)?)?.parse().ok()?;
    let counts = words.get(at + 1..)?.join(" ");
    let (lost, rest) = counts.split_once('/')?;
    let all = rest.split_whitespace().next()?;
    Some(Datagrams {
        packets: all.parse().ok()?,
        lost: lost.trim().parse().ok()?,
        out_of_order: 0,
        jitter_s: jitter_ms * 1e-3,
    })
}

#[cfg(test)]
mod tests {
    use iperf3::report::Direction;

    use super::*;
    use crate::document::reports;

    fn read(text: &str) -> Vec<iperf3::report::Report> {
        reports(text, SystemTime::UNIX_EPOCH).unwrap()
    }

    /// Output of iperf 2.1.8 with `-P 2 -i 1`.
    #[test]
    fn parallel_streams_are_one_test() {
        let found = read(
            "[  2] local 127.0.0.1 port 51602 connected with 127.0.0.1 port 5701 (icwnd/mss/irtt=319/32741/18)
[  1] local 127.0.0.1 port 51616 connected with 127.0.0.1 port 5701 (icwnd/mss/irtt=319/32741/4)
------------------------------------------------------------
Client connecting to 127.0.0.1, TCP port 5701
[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-1.0000 sec  1.00 GBytes  9.25 Gbits/sec
[  2] 0.0000-1.0000 sec   889 MBytes  7.46 Gbits/sec
[SUM] 0.0000-1.0000 sec  1.94 GBytes  16.7 Gbits/sec
[  1] 1.0000-2.0000 sec  1016 MBytes  8.53 Gbits/sec
[  2] 1.0000-2.0000 sec   749 MBytes  6.29 Gbits/sec
[  1] 0.0000-2.0058 sec  2.00 GBytes  8.86 Gbits/sec
[  2] 0.0000-2.0368 sec  1.60 GBytes  6.75 Gbits/sec
",
        );
        let [report] = &found[..] else { panic!("{found:?}") };
        let end = report.end.as_ref().unwrap();
        assert_eq!((end.streams.len(), report.intervals.len()), (2, 2));
        assert_eq!(end.streams[0].received.bytes, 2 << 30);
        assert!(end.streams[0].forward);
    }

    #[test]
    fn a_clients_text_contains_the_servers_report() {
        let found = read(
            "Client connecting to 127.0.0.1, UDP port 5702
[  1] local 127.0.0.1 port 42154 connected with 127.0.0.1 port 5702
[  1] 0.0000-2.0031 sec  1.25 MBytes  5.25 Mbits/sec
[  1] Sent 896 datagrams
[  1] Server Report:
[ ID] Interval       Transfer     Bandwidth        Jitter   Lost/Total Datagrams
[  1] 0.0000-2.0031 sec  1.20 MBytes  5.25 Mbits/sec   0.002 ms 5/895 (0.56%)
",
        );
        let stream = &found[0].end.as_ref().unwrap().streams[0];
        let udp = stream.received.udp.unwrap();
        assert_eq!((udp.lost, udp.packets), (5, 895));
        assert!(stream.sent.bytes > stream.received.bytes);
    }

    #[test]
    fn a_servers_log_has_a_test_per_connection_and_direction() {
        let found = read(
            "Server listening on TCP port 5001
[  4] local 10.0.0.2%eth0 port 5001 connected with 10.0.0.1 port 53444 (full-duplex)
[ *4] 0.0000-1.0002 sec  1.65 GBytes  14.1 Gbits/sec
[  4]  0.0- 1.0 sec   508 MBytes  4.17 Gbits/sec
[  5] local 10.0.0.2 port 5001 connected with 10.0.0.1 port 53446 (reverse)
[  5]  0.0- 1.0 sec   100 MBytes  800 Mbits/sec
",
        );
        let directions: Vec<Direction> =
            found.iter().map(|report| report.start.as_ref().unwrap().spec.direction).collect();
        assert_eq!(directions, [Direction::Reverse, Direction::Forward, Direction::Reverse]);
        assert_eq!(found[1].start.as_ref().unwrap().connections[0].local.to_string(), "10.0.0.2:5001");
        assert!(found[0].start.as_ref().unwrap().connections[0].sender, "the server sends");
        assert!(reports("nothing of iperf\n", SystemTime::UNIX_EPOCH).is_err());
    }
}
