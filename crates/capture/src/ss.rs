//! Parses the log of `ss -tin` (iproute2) in a loop, as in `while sleep 0.1; do date +%s.%N; ss -tinm; done`.
//!
//! A line that contains a time (seconds since 1970, or a 24-hour time of day) begins a sample of all sockets.
//! In a log without times, ss's heading or a repeated socket begins a sample, and the caller gives the
//! interval.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use schema::FlowSample;

use crate::Error;

/// Smallest number that counts as seconds since 1970. Other numbers that are alone on a line are smaller.
const MIN_EPOCH_S: f64 = 1e8;
const DAY_US: i64 = 86_400_000_000;

/// A socket in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsSocket {
    /// `10.0.0.1:40000-10.0.0.2:5201`, the local address first.
    pub name: String,
    /// Local address, as ss prints it.
    pub local: String,
    /// Peer address, as ss prints it.
    pub peer: String,
    /// Name of the congestion control, if the log has it.
    pub cc: Option<String>,
}

/// A parsed log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SsLog {
    /// Sockets, in the order of their first samples.
    pub sockets: Vec<SsSocket>,
    /// Samples of the sockets, ordered by time.
    pub rows: Vec<FlowSample>,
    /// Time of the first sample, seconds since 1970, if the log contains it.
    pub start_s: Option<f64>,
}

/// Parses a log. `interval_us` is the time between two samples if the log contains no times, microseconds.
///
/// # Errors
/// If the log contains no sample of a socket.
pub fn parse(text: &str, interval_us: i64) -> Result<SsLog, Error> {
    let mut parser = LogParser { interval_us, ..LogParser::default() };
    for line in text.lines() {
        parser.add_line(line);
    }
    if parser.log.rows.is_empty() {
        return Err(Error::NotAnSsLog);
    }
    let first = parser.log.rows[0].time_us;
    for row in &mut parser.log.rows {
        row.time_us -= first;
    }
    parser.log.rows.sort_by_key(|row| row.time_us);
    set_goodputs(&mut parser.log.rows);
    Ok(parser.log)
}

#[derive(Debug, Default)]
struct LogParser {
    log: SsLog,
    interval_us: i64,
    /// Time of the current sample, microseconds.
    now_us: i64,
    has_times: bool,
    /// Index of each socket, by its name.
    indices: BTreeMap<String, usize>,
    /// Sockets that the current sample contains already.
    sampled: BTreeSet<usize>,
    /// The socket whose details follow, with the lengths of its receive and send queue, bytes.
    open: Option<(usize, [Option<i64>; 2])>,
}

impl LogParser {
    fn add_line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((index, local, peer)) = find_addresses(&words) {
            let queue = |back: usize| index.checked_sub(back).and_then(|i| words[i].parse().ok());
            let socket = self.find_or_add_socket(local, peer);
            self.open = Some((socket, [queue(2), queue(1)]));
            self.add_details(&words[index + 2..]);
            return;
        }
        if words.iter().any(|word| word.starts_with("rtt:")) {
            return self.add_details(&words);
        }
        if let Some(time_us) = find_time(&words) {
            self.begin_sample_at(time_us);
        } else if words.first() == Some(&"State") && !self.has_times && !self.sampled.is_empty() {
            self.begin_next_sample();
        }
    }

    fn begin_sample_at(&mut self, mut time_us: i64) {
        if !self.has_times && time_us >= (MIN_EPOCH_S * 1e6) as i64 {
            self.log.start_s.get_or_insert(time_us as f64 * 1e-6);
        }
        // A time of day without a date restarts at midnight.
        while self.has_times && self.now_us - time_us > DAY_US / 2 && time_us < i64::MAX - DAY_US {
            time_us += DAY_US;
        }
        self.has_times = true;
        self.now_us = self.now_us.max(time_us);
        self.sampled.clear();
    }

    fn begin_next_sample(&mut self) {
        self.now_us = self.now_us.saturating_add(self.interval_us);
        self.sampled.clear();
    }

    fn find_or_add_socket(&mut self, local: &str, peer: &str) -> usize {
        let name = format!("{local}-{peer}");
        if let Some(index) = self.indices.get(&name) {
            return *index;
        }
        let index = self.log.sockets.len();
        self.log.sockets.push(SsSocket {
            name: name.clone(),
            local: local.into(),
            peer: peer.into(),
            cc: None,
        });
        self.indices.insert(name, index);
        index
    }

    /// Parses the details of a socket, in the line of its addresses (`-O`) or the next.
    fn add_details(&mut self, words: &[&str]) {
        let has_rtt = words.iter().any(|word| word.starts_with("rtt:"));
        let Some((index, queues)) = self.open.filter(|_| has_rtt) else { return };
        self.open = None;
        if self.sampled.contains(&index) && !self.has_times {
            self.begin_next_sample();
        }
        self.sampled.insert(index);
        let socket = &mut self.log.sockets[index];
        let mut row = FlowSample { time_us: self.now_us, flow: socket.name.clone(), ..FlowSample::default() };
        row.rcv_queue_bytes = queues[0];
        for (index, word) in words.iter().enumerate() {
            let next = words.get(index + 1).copied().unwrap_or_default();
            // The name of the congestion control has no key; it precedes the window scales or the RTO.
            if word.starts_with("wscale:") || word.starts_with("rto:") {
                let before = index.checked_sub(1).map(|i| words[i]);
                if let Some(cc) = before.filter(|w| is_name(w) && !FLAGS.contains(w)) {
                    socket.cc.get_or_insert_with(|| cc.into());
                }
            }
            parse_detail(word, next, &mut row);
        }
        self.log.rows.push(row);
    }
}

/// Words that may precede the congestion control.
const FLAGS: [&str; 5] = ["ts", "sack", "ecn", "ecnseen", "fastopen"];

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Parses a word of the details; `next` is the following word, which has the value of some keys.
fn parse_detail(word: &str, next: &str, row: &mut FlowSample) {
    if let Some(memory) = word.strip_prefix("skmem:(") {
        return parse_skmem(memory.trim_end_matches(')'), row);
    }
    match word {
        "pacing_rate" => return row.pacing_rate_bps = parse_rate(next),
        "delivery_rate" => return row.delivery_rate_bps = parse_rate(next),
        "app_limited" => return row.delivery_rate_app_limited = Some(1),
        _ => {}
    }
    let Some((key, value)) = word.split_once(':') else { return };
    let (first, second) = value.split_once('/').map_or((value, None), |(a, b)| (a, Some(b)));
    let count = || first.parse::<i64>().ok();
    match key {
        "rtt" => {
            (row.srtt_us, row.rttvar_us) = (parse_milliseconds(first), second.and_then(parse_milliseconds))
        }
        "minrtt" => row.min_rtt_us = parse_milliseconds(first),
        "rcv_rtt" => row.rcv_rtt_us = parse_milliseconds(first),
        "rto" => row.rto_us = parse_milliseconds(first),
        "mss" => row.snd_mss_bytes = count(),
        "cwnd" => row.snd_cwnd_segs = count(),
        "ssthresh" => row.snd_ssthresh_segs = count(),
        "snd_wnd" => row.snd_wnd_bytes = count(),
        "rcv_wnd" => row.rcv_wnd_bytes = count(),
        "rcv_ooopack" => row.rcv_ooopack_segs = count(),
        "rcv_space" => row.rcv_space_bytes = count(),
        "rcv_ssthresh" => row.rcv_ssthresh_bytes = count(),
        "bytes_sent" => row.bytes_sent = count(),
        "bytes_retrans" => row.bytes_retrans = count(),
        "bytes_acked" => row.bytes_acked = count(),
        "bytes_received" => row.bytes_received = count(),
        "segs_out" => row.segs_out = count(),
        "data_segs_out" => row.data_segs_out_segs = count(),
        "delivered" => row.delivered_segs = count(),
        "delivered_ce" => row.delivered_ce_segs = count(),
        "unacked" => row.unacked_segs = count(),
        "sacked" => row.sacked_segs = count(),
        "lost" => row.lost_segs = count(),
        "notsent" => row.notsent_bytes = count(),
        "retrans" => {
            (row.retrans_segs, row.total_retrans_segs) = (count(), second.and_then(|n| n.parse().ok()));
        }
        "busy" => row.busy_time_us = parse_milliseconds(first),
        "rwnd_limited" => row.rwnd_limited_us = parse_milliseconds(first),
        "sndbuf_limited" => row.sndbuf_limited_us = parse_milliseconds(first),
        _ => {}
    }
}

/// Parses `r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0`.
fn parse_skmem(text: &str, row: &mut FlowSample) {
    for part in text.split(',') {
        let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
        let (key, value) = part.split_at(digits);
        let value = value.parse().ok();
        match key {
            "r" => row.rmem_alloc_bytes = value,
            "rb" => row.rcvbuf_bytes = value,
            "tb" => row.sndbuf_bytes = value,
            "w" => row.wmem_queued_bytes = value,
            _ => {}
        }
    }
}

/// Parses `0.05`, `44ms` or `44ms(1.2%)`; returns microseconds.
fn parse_milliseconds(text: &str) -> Option<i64> {
    let number = text.split("ms").next()?;
    let us = number.parse::<f64>().ok()? * 1e3;
    (0.0..1e18).contains(&us).then(|| us.round() as i64)
}

/// Parses `27009144bps` or `9.41Gbps`; returns bit/s.
fn parse_rate(text: &str) -> Option<i64> {
    let number = text.strip_suffix("bps")?;
    let (number, scale) = match number.chars().last()? {
        'K' => (&number[..number.len() - 1], 1e3),
        'M' => (&number[..number.len() - 1], 1e6),
        'G' => (&number[..number.len() - 1], 1e9),
        'T' => (&number[..number.len() - 1], 1e12),
        _ => (number, 1.0),
    };
    let bps = number.parse::<f64>().ok()? * scale;
    (0.0..9e18).contains(&bps).then(|| bps.round() as i64)
}

/// Finds two consecutive addresses in a line; returns the index of the first, and both.
fn find_addresses<'a>(words: &[&'a str]) -> Option<(usize, &'a str, &'a str)> {
    let index = words.windows(2).position(|pair| is_address(pair[0]) && is_address(pair[1]))?;
    Some((index, words[index], words[index + 1]))
}

/// Whether a word is an address such as `10.0.0.1:80`, `[::1]:80` or `10.0.0.1%eth0:80`.
fn is_address(word: &str) -> bool {
    if word.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let without_device = |(address, rest): (&str, &str)| {
        let port = rest.rsplit_once(':')?.1;
        let bracket = if address.starts_with('[') { "]" } else { "" };
        format!("{address}{bracket}:{port}").parse::<SocketAddr>().ok()
    };
    word.split_once('%').and_then(without_device).is_some()
}

/// Finds the time in a line, microseconds.
fn find_time(words: &[&str]) -> Option<i64> {
    if let [word] = words
        && let Ok(seconds) = word.parse::<f64>()
    {
        return (MIN_EPOCH_S..1e11).contains(&seconds).then(|| (seconds * 1e6).round() as i64);
    }
    words.iter().find_map(|word| parse_time_of_day(word))
}

/// Parses `22:51:57`, `22:51:57.25` or `2026-11-21T22:51:57Z`; returns microseconds since midnight.
fn parse_time_of_day(word: &str) -> Option<i64> {
    let time = word.rsplit_once('T').map_or(word, |(_, time)| time);
    let time = time.split(['Z', '+', '-', ',']).next()?;
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    let is_valid = parts.next().is_none() && (0..24).contains(&hours) && (0..60).contains(&minutes);
    (is_valid && (0.0..61.0).contains(&seconds))
        .then(|| (hours * 3600 + minutes * 60) * 1_000_000 + (seconds * 1e6) as i64)
}

/// Sets each row's goodput, from the bytes acknowledged since the previous sample.
fn set_goodputs(rows: &mut [FlowSample]) {
    let mut previous: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for row in rows {
        let Some(acked) = row.bytes_acked else { continue };
        let before = previous.insert(row.flow.clone(), (row.time_us, acked));
        if let Some((time_us, before)) = before.filter(|(time_us, _)| row.time_us > *time_us) {
            let seconds = (row.time_us - time_us) as f64 * 1e-6;
            row.goodput_bps = Some(((acked - before) as f64 * 8.0 / seconds) as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAMPLE: &str = "State Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
ESTAB 7      1448        10.0.0.1:53066    10.0.0.2:5777 users:((\"iperf3\",pid=7,fd=5))
\t skmem:(r0,rb131072,t0,tb4194304,f0,w99,o0,bl0,d0) ts sack cubic wscale:10,7 rto:208 rtt:5.405/10.754 mss:1448 cwnd:14 \
ssthresh:9 bytes_sent:134518 bytes_retrans:34518 bytes_acked:100001 segs_out:6 send 986677521bps lastsnd:740 pacing_rate 2.5Gbps \
delivery_rate 27009144bps delivered:5 app_limited busy:44ms rwnd_limited:12ms(27.3%) retrans:0/1 minrtt:0.022 snd_wnd:28672\n";

    #[test]
    fn a_sample_of_a_socket_becomes_a_row() {
        let log = parse(SAMPLE, 1000).unwrap();
        let socket = &log.sockets[0];
        assert_eq!(
            (socket.name.as_str(), socket.cc.as_deref()),
            ("10.0.0.1:53066-10.0.0.2:5777", Some("cubic"))
        );
        let expected = FlowSample {
            flow: socket.name.clone(),
            rcv_queue_bytes: Some(7),
            rmem_alloc_bytes: Some(0),
            rcvbuf_bytes: Some(131_072),
            sndbuf_bytes: Some(4_194_304),
            wmem_queued_bytes: Some(99),
            rto_us: Some(208_000),
            srtt_us: Some(5_405),
            rttvar_us: Some(10_754),
            snd_mss_bytes: Some(1448),
            snd_cwnd_segs: Some(14),
            snd_ssthresh_segs: Some(9),
            bytes_sent: Some(134_518),
            bytes_retrans: Some(34_518),
            bytes_acked: Some(100_001),
            segs_out: Some(6),
            pacing_rate_bps: Some(2_500_000_000),
            delivery_rate_bps: Some(27_009_144),
            delivery_rate_app_limited: Some(1),
            delivered_segs: Some(5),
            busy_time_us: Some(44_000),
            rwnd_limited_us: Some(12_000),
            retrans_segs: Some(0),
            total_retrans_segs: Some(1),
            min_rtt_us: Some(22),
            snd_wnd_bytes: Some(28_672),
            ..FlowSample::default()
        };
        assert_eq!(log.rows, [expected]);
    }

    #[test]
    fn samples_are_separated_by_times_headings_or_repetition() {
        let times =
            |log: &str| parse(log, 250_000).unwrap().rows.iter().map(|r| r.time_us).collect::<Vec<_>>();
        assert_eq!(times(&[SAMPLE, SAMPLE, SAMPLE].concat()), [0, 250_000, 500_000]);
        let line = "ESTAB 0 0 [::1]:1 [fe80::1%eth0]:2 cubic rto:1 rtt:1/1 cwnd:10\n";
        assert_eq!(times(&line.repeat(2)), [0, 250_000], "without a heading (-O -H)");
        let stamped = ["1700000000.5\n", SAMPLE, "1700000002\n", SAMPLE].concat();
        assert_eq!(times(&stamped), [0, 1_500_000]);
        assert_eq!(parse(&stamped, 1).unwrap().start_s, Some(1_700_000_000.5));
        let dated =
            ["Sat Nov 21 23:59:59 UTC 2026\n", SAMPLE, "Sun Nov 22 00:00:01 UTC 2026\n", SAMPLE].concat();
        assert_eq!(times(&dated), [0, 2_000_000], "across midnight");
    }

    #[test]
    fn goodput_is_computed_from_acknowledged_bytes() {
        let later = SAMPLE.replace("bytes_acked:100001", "bytes_acked:225001");
        let rows = parse(&["10:00:00\n", SAMPLE, "10:00:01\n", &later].concat(), 1).unwrap().rows;
        assert_eq!((rows[0].goodput_bps, rows[1].goodput_bps), (None, Some(1_000_000)));
    }

    #[test]
    fn a_text_without_samples_is_an_error() {
        assert_eq!(parse("", 1), Err(Error::NotAnSsLog));
        assert_eq!(parse("rtt:1/2 cwnd:3\n", 1), Err(Error::NotAnSsLog), "details without a socket");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "([ -~]|\n|\t|rtt:|10.0.0.1:1 |cwnd:|[0-9]{1,12}:){0,60}") {
            let _ = parse(&text, 1000);
        }
    }
}
