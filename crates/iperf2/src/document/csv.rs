//! CSV (`-y C`): time, the sender's address and port, the receiver's, the stream's number, the interval,
//! bytes and bit/s; for datagrams also jitter (ms), the numbers lost and in total, the share lost and the
//! number out of order.
//!
//! iperf 2.1 writes the sender first; 2.0's server writes itself first, which cannot be distinguished.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use iperf3::report::{Datagrams, Role};
use jiff::{civil::DateTime, tz::TimeZone};

use super::{
    DocumentError, ImportedStream,
    interval_lines::{IntervalLine, span},
};

/// Columns of a TCP line, and of a UDP line.
const COLUMNS: (usize, usize) = (9, 14);
/// The version is not in the output.
const VERSION: &str = "iperf 2 (CSV)";

/// Whether a line is one of this format.
pub(super) fn is_csv(line: &str) -> bool {
    line.split(',').count() >= COLUMNS.0 && line.bytes().take(8).all(|byte| byte.is_ascii_digit())
}

/// The streams of the whole text.
pub(super) fn streams(text: &str) -> Result<Vec<ImportedStream>, DocumentError> {
    let mut streams: Vec<(String, ImportedStream)> = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |why: &str| DocumentError::Line { line: index + 1, why: why.into() };
        let cells: Vec<&str> = line.trim().split(',').collect();
        if cells.len() < COLUMNS.0 {
            return Err(bad(&format!("{} columns; CSV of iperf 2 has 9 or 14", cells.len())));
        }
        // The sums of -P.
        if cells[5] == "-1" {
            continue;
        }
        let found = parse(&cells).ok_or_else(|| bad("this is not a line of iperf 2's CSV (-y C)"))?;
        let key = [cells[1], cells[2], cells[3], cells[4], cells[5]].join(",");
        match streams.iter_mut().rev().find(|(known, _)| *known == key) {
            Some((_, stream)) => stream.lines.extend(found.lines),
            None => streams.push((key, found)),
        }
    }
    Ok(streams.into_iter().map(|(_, stream)| stream).collect())
}

/// The stream of one line.
fn parse(cells: &[&str]) -> Option<ImportedStream> {
    let address = |at: usize| Some(SocketAddr::new(cells[at].parse().ok()?, cells[at + 1].parse().ok()?));
    let (start_s, end_s) = span(cells[6])?;
    let is_udp = cells.len() >= COLUMNS.1;
    let udp = if is_udp { datagrams(cells)? } else { None };
    let line = IntervalLine { start_s, end_s, bytes: cells[7].parse().ok()?, udp, is_udp };
    let printed = time(cells[0])?;
    Some(ImportedStream {
        local: address(1)?,
        remote: address(3)?,
        role: Role::Client,
        sends: true,
        began: printed.checked_sub(Duration::from_secs(end_s as u64)).unwrap_or(SystemTime::UNIX_EPOCH),
        batch: 0,
        lines: vec![line],
        server: None,
        version: VERSION.into(),
    })
}

/// The counts of datagrams; the total of a client without a report of its server has -1.
#[expect(clippy::option_option, reason = "outside: not a valid line; inside: no counts")]
fn datagrams(cells: &[&str]) -> Option<Option<Datagrams>> {
    let jitter_ms: f64 = cells[9].parse().ok()?;
    let (lost, all): (i64, i64) = (cells[10].parse().ok()?, cells[11].parse().ok()?);
    let out_of_order: i64 = cells[13].parse().ok()?;
    Some(u64::try_from(all).ok().map(|packets| Datagrams {
        packets,
        lost,
        out_of_order: u64::try_from(out_of_order).unwrap_or(0),
        jitter_s: jitter_ms * 1e-3,
    }))
}

/// `20261124022926`, by the machine's clock; newer versions add a fraction or a time zone.
fn time(text: &str) -> Option<SystemTime> {
    let digits = text.get(..14)?;
    let at = DateTime::strptime("%Y%m%d%H%M%S", digits).ok()?;
    at.to_zoned(TimeZone::system()).ok().map(|zoned| SystemTime::from(zoned.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::reports;

    /// Lines of iperf 2.1.8: a client with `-P 2 -t 2 -i 1`.
    const TCP: &str = "\
20261124022926,127.0.0.1,51588,127.0.0.1,5701,2,0.0-1.0,1312686140,10501489120
20261124022926,127.0.0.1,51600,127.0.0.1,5701,1,0.0-1.0,777388092,6219104736
20261124022927,127.0.0.1,51588,127.0.0.1,5701,2,1.0-2.0,1164443648,9315549184
20261124022927,127.0.0.1,51600,127.0.0.1,5701,1,1.0-2.0,1153695744,9229565952
20261124022927,127.0.0.1,51588,127.0.0.1,5701,2,0.0-2.0,2477260860,9834488185
20261124022927,127.0.0.1,51600,127.0.0.1,5701,1,0.0-2.0,1931214908,7664121469
";
    /// Lines of a UDP server with `-i 1`.
    const UDP: &str = "\
20261124022932,127.0.0.1,46959,127.0.0.1,5703,1,0.0-1.0,657090,5256720,0.002,1,447,0.000,0
20261124022933,127.0.0.1,46959,127.0.0.1,5703,1,1.0-2.0,655620,5244960,0.004,2,446,0.000,4
20261124022933,127.0.0.1,46959,127.0.0.1,5703,1,0.0-2.0,1315650,5254405,0.004,3,895,0.000,4
";

    #[test]
    fn parallel_streams_are_one_test() {
        let found = reports(TCP, SystemTime::UNIX_EPOCH).unwrap();
        let [report] = &found[..] else { panic!("{found:?}") };
        let end = report.end.as_ref().unwrap();
        let bytes: Vec<u64> = end.streams.iter().map(|stream| stream.received.bytes).collect();
        assert_eq!(bytes, [2_477_260_860, 1_931_214_908]);
        assert_eq!(report.intervals.len(), 2, "the totals are not intervals");
        assert_eq!(report.intervals[1].streams[1].bytes, 1_153_695_744);
        let start = report.start.as_ref().unwrap();
        assert_eq!((start.spec.streams, start.port), (2, 5701));
    }

    #[test]
    fn datagram_counts_are_parsed() {
        let found = reports(UDP, SystemTime::UNIX_EPOCH).unwrap();
        let received = found[0].end.as_ref().unwrap().streams[0].received;
        let udp = received.udp.unwrap();
        assert_eq!((udp.packets, udp.lost, udp.out_of_order, received.bytes), (895, 3, 4, 1_315_650));
        let sums: String = UDP.lines().take(2).map(|line| format!("{line}\n")).collect();
        let found = reports(&sums, SystemTime::UNIX_EPOCH).unwrap();
        let udp = found[0].end.as_ref().unwrap().streams[0].received.udp.unwrap();
        assert_eq!((udp.packets, udp.lost), (893, 3), "without a total, the sum");
    }

    #[test]
    fn sums_of_extreme_counts_saturate() {
        let line = |from: u32| {
            let many = i64::MAX;
            format!(
                "20261124022932,127.0.0.1,46959,127.0.0.1,5703,1,{from}.0-{}.0,1,8,0.0,0,{many},0.0,{many}\n",
                from + 1
            )
        };
        let found = reports(&(0..3).map(line).collect::<String>(), SystemTime::UNIX_EPOCH).unwrap();
        let udp = found[0].end.as_ref().unwrap().streams[0].received.udp.unwrap();
        assert_eq!((udp.packets, udp.out_of_order), (u64::MAX, u64::MAX));
    }

    #[test]
    fn an_invalid_line_is_named() {
        let broken = TCP.replacen("777388092", "many", 1);
        assert_eq!(
            reports(&broken, SystemTime::UNIX_EPOCH).unwrap_err().to_string(),
            "line 2: this is not a line of iperf 2's CSV (-y C)"
        );
        assert!(reports("20261124022926,1,2,3\n", SystemTime::UNIX_EPOCH).is_err());
    }
}
