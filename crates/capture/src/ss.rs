//! The log of `ss -tin` (iproute2) in a loop, as in `while sleep 0.1; do date +%s.%N; ss -tinm; done`.
//!
//! A look begins with a line that has a time in it (seconds since 1970, or hours, minutes and seconds as in what `date` prints), with
//! ss's heading, or where a socket comes again. Where no line tells the time, looks are as far apart as the caller says.

use std::{collections::BTreeMap, net::SocketAddr};

use schema::FlowSample;

use crate::Error;

/// Seconds since 1970 are larger than any other number that stands alone in a line.
const EPOCH_LEAST: f64 = 1e8;
const DAY_US: i64 = 86_400_000_000;

/// One socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// `10.0.0.1:40000-10.0.0.2:5201`, this end first.
    pub name: String,
    /// This end, as ss tells it.
    pub local: String,
    /// The other.
    pub peer: String,
    /// The congestion control.
    pub cc: Option<String>,
}

/// A log as rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Log {
    /// In the order in which they first came.
    pub sockets: Vec<Socket>,
    /// In order of time.
    pub rows: Vec<FlowSample>,
    /// The first look, seconds since 1970, where the log tells it.
    pub began_s: Option<f64>,
}

/// Reads a log; `every_us`: between two looks where it tells no times, microseconds.
pub fn parse(text: &str, every_us: i64) -> Result<Log, Error> {
    let mut reader = Reader { every_us, ..Reader::default() };
    for line in text.lines() {
        reader.line(line);
    }
    if reader.log.rows.is_empty() {
        return Err(Error::NoSs);
    }
    let first = reader.log.rows[0].time_us;
    for row in &mut reader.log.rows {
        row.time_us -= first;
    }
    reader.log.rows.sort_by_key(|row| row.time_us);
    goodputs(&mut reader.log.rows);
    Ok(reader.log)
}

#[derive(Debug, Default)]
struct Reader {
    log: Log,
    every_us: i64,
    /// Of the look under way, microseconds.
    now_us: i64,
    has_times: bool,
    /// Number of the socket by its name.
    known: BTreeMap<String, usize>,
    /// When each was last looked at.
    looked_us: BTreeMap<usize, i64>,
    /// The socket whose details come next, with its queues.
    open: Option<(usize, [Option<i64>; 2])>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some((at, local, peer)) = addresses(&words) {
            let queue = |back: usize| at.checked_sub(back).and_then(|i| words[i].parse().ok());
            let socket = self.socket(local, peer);
            self.open = Some((socket, [queue(2), queue(1)]));
            self.details(&words[at + 2..]);
            return;
        }
        if words.iter().any(|word| word.starts_with("rtt:")) {
            return self.details(&words);
        }
        if let Some(time_us) = time(&words) {
            self.time(time_us);
        } else if words.first() == Some(&"State") && !self.has_times && !self.looked_us.is_empty() {
            self.next_look();
        }
    }

    fn time(&mut self, mut time_us: i64) {
        if !self.has_times && time_us >= (EPOCH_LEAST * 1e6) as i64 {
            self.log.began_s.get_or_insert(time_us as f64 * 1e-6);
        }
        // A clock without a date begins anew at midnight.
        while self.has_times && self.now_us - time_us > DAY_US / 2 && time_us < i64::MAX - DAY_US {
            time_us += DAY_US;
        }
        self.has_times = true;
        self.now_us = self.now_us.max(time_us);
        self.looked_us.clear();
    }

    fn next_look(&mut self) {
        self.now_us = self.now_us.saturating_add(self.every_us);
        self.looked_us.clear();
    }

    fn socket(&mut self, local: &str, peer: &str) -> usize {
        let name = format!("{local}-{peer}");
        if let Some(index) = self.known.get(&name) {
            return *index;
        }
        let index = self.log.sockets.len();
        self.log.sockets.push(Socket {
            name: name.clone(),
            local: local.into(),
            peer: peer.into(),
            cc: None,
        });
        self.known.insert(name, index);
        index
    }

    /// What ss tells of a socket, in the line of its addresses (`-O`) or the next.
    fn details(&mut self, words: &[&str]) {
        let has_rtt = words.iter().any(|word| word.starts_with("rtt:"));
        let Some((index, queues)) = self.open.filter(|_| has_rtt) else { return };
        self.open = None;
        if self.looked_us.contains_key(&index) && !self.has_times {
            self.next_look();
        }
        self.looked_us.insert(index, self.now_us);
        let socket = &mut self.log.sockets[index];
        let mut row = FlowSample { time_us: self.now_us, flow: socket.name.clone(), ..FlowSample::default() };
        row.rcv_queue_bytes = queues[0];
        for (place, word) in words.iter().enumerate() {
            let next = words.get(place + 1).copied().unwrap_or_default();
            // The congestion control stands before the scales, with nothing to tell what it is.
            if word.starts_with("wscale:") || word.starts_with("rto:") {
                let before = place.checked_sub(1).map(|i| words[i]);
                if let Some(cc) = before.filter(|w| is_name(w) && !FLAGS.contains(w)) {
                    socket.cc.get_or_insert_with(|| cc.into());
                }
            }
            detail(word, next, &mut row);
        }
        self.log.rows.push(row);
    }
}

/// Words that may stand before the congestion control.
const FLAGS: [&str; 5] = ["ts", "sack", "ecn", "ecnseen", "fastopen"];

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// One word of details, and the next for those whose value stands there.
fn detail(word: &str, next: &str, row: &mut FlowSample) {
    if let Some(memory) = word.strip_prefix("skmem:(") {
        return socket_memory(memory.trim_end_matches(')'), row);
    }
    match word {
        "pacing_rate" => return row.pacing_rate_bps = rate(next),
        "delivery_rate" => return row.delivery_rate_bps = rate(next),
        "app_limited" => return row.delivery_rate_app_limited = Some(1),
        _ => {}
    }
    let Some((key, value)) = word.split_once(':') else { return };
    let (first, second) = value.split_once('/').map_or((value, None), |(a, b)| (a, Some(b)));
    let count = || first.parse::<i64>().ok();
    match key {
        "rtt" => (row.srtt_us, row.rttvar_us) = (milliseconds(first), second.and_then(milliseconds)),
        "minrtt" => row.min_rtt_us = milliseconds(first),
        "rcv_rtt" => row.rcv_rtt_us = milliseconds(first),
        "rto" => row.rto_us = milliseconds(first),
        "mss" => row.snd_mss_bytes = count(),
        "cwnd" => row.snd_cwnd_segs = count(),
        "ssthresh" => row.snd_ssthresh_segs = count(),
        "snd_wnd" => row.snd_wnd_bytes = count(),
        "rcv_wnd" => row.rcv_wnd_bytes = count(),
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
        "busy" => row.busy_time_us = milliseconds(first),
        "rwnd_limited" => row.rwnd_limited_us = milliseconds(first),
        "sndbuf_limited" => row.sndbuf_limited_us = milliseconds(first),
        _ => {}
    }
}

/// `r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0`.
fn socket_memory(text: &str, row: &mut FlowSample) {
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

/// `0.05`, `44ms` or `44ms(1.2%)`, in microseconds.
fn milliseconds(text: &str) -> Option<i64> {
    let number = text.split("ms").next()?;
    let us = number.parse::<f64>().ok()? * 1e3;
    (0.0..1e18).contains(&us).then(|| us.round() as i64)
}

/// `27009144bps`, `9.41Gbps`.
fn rate(text: &str) -> Option<i64> {
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

/// Where the first of two addresses stands in a line, and both.
fn addresses<'a>(words: &[&'a str]) -> Option<(usize, &'a str, &'a str)> {
    let at = words.windows(2).position(|pair| is_address(pair[0]) && is_address(pair[1]))?;
    Some((at, words[at], words[at + 1]))
}

/// `10.0.0.1:80`, `[::1]:80`, `10.0.0.1%eth0:80`.
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

/// The time that a line tells, microseconds.
fn time(words: &[&str]) -> Option<i64> {
    if let [word] = words
        && let Ok(seconds) = word.parse::<f64>()
    {
        return (EPOCH_LEAST..1e11).contains(&seconds).then(|| (seconds * 1e6).round() as i64);
    }
    words.iter().find_map(|word| clock(word))
}

/// `22:51:57`, `22:51:57.25`, `2026-11-21T22:51:57Z`.
fn clock(word: &str) -> Option<i64> {
    let time = word.rsplit_once('T').map_or(word, |(_, time)| time);
    let time = time.split(['Z', '+', '-', ',']).next()?;
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    let fits = parts.next().is_none() && (0..24).contains(&hours) && (0..60).contains(&minutes);
    (fits && (0.0..61.0).contains(&seconds))
        .then(|| (hours * 3600 + minutes * 60) * 1_000_000 + (seconds * 1e6) as i64)
}

/// Goodput from what was acknowledged between two looks.
fn goodputs(rows: &mut [FlowSample]) {
    let mut last: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    for row in rows {
        let Some(acked) = row.bytes_acked else { continue };
        let before = last.insert(row.flow.clone(), (row.time_us, acked));
        if let Some((at, before)) = before.filter(|(at, _)| row.time_us > *at) {
            let seconds = (row.time_us - at) as f64 * 1e-6;
            row.goodput_bps = Some(((acked - before) as f64 * 8.0 / seconds) as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LOOK: &str = "State Recv-Q Send-Q Local Address:Port  Peer Address:PortProcess
ESTAB 7      1448        10.0.0.1:53066    10.0.0.2:5777 users:((\"iperf3\",pid=7,fd=5))
\t skmem:(r0,rb131072,t0,tb4194304,f0,w99,o0,bl0,d0) ts sack cubic wscale:10,7 rto:208 rtt:5.405/10.754 mss:1448 cwnd:14 \
ssthresh:9 bytes_sent:134518 bytes_retrans:34518 bytes_acked:100001 segs_out:6 send 986677521bps lastsnd:740 pacing_rate 2.5Gbps \
delivery_rate 27009144bps delivered:5 app_limited busy:44ms rwnd_limited:12ms(27.3%) retrans:0/1 minrtt:0.022 snd_wnd:28672\n";

    #[test]
    fn a_look_is_a_row() {
        let log = parse(LOOK, 1000).unwrap();
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
    fn looks_are_told_apart_by_times_or_headings_or_repetition() {
        let times =
            |log: &str| parse(log, 250_000).unwrap().rows.iter().map(|r| r.time_us).collect::<Vec<_>>();
        assert_eq!(times(&[LOOK, LOOK, LOOK].concat()), [0, 250_000, 500_000]);
        let line = "ESTAB 0 0 [::1]:1 [fe80::1%eth0]:2 cubic rto:1 rtt:1/1 cwnd:10\n";
        assert_eq!(times(&line.repeat(2)), [0, 250_000], "without a heading (-O -H)");
        let stamped = ["1700000000.5\n", LOOK, "1700000002\n", LOOK].concat();
        assert_eq!(times(&stamped), [0, 1_500_000]);
        assert_eq!(parse(&stamped, 1).unwrap().began_s, Some(1_700_000_000.5));
        let dated = ["Sat Nov 21 23:59:59 UTC 2026\n", LOOK, "Sun Nov 22 00:00:01 UTC 2026\n", LOOK].concat();
        assert_eq!(times(&dated), [0, 2_000_000], "over midnight");
    }

    #[test]
    fn goodput_is_what_was_acknowledged_between_looks() {
        let later = LOOK.replace("bytes_acked:100001", "bytes_acked:225001");
        let rows = parse(&["10:00:00\n", LOOK, "10:00:01\n", &later].concat(), 1).unwrap().rows;
        assert_eq!((rows[0].goodput_bps, rows[1].goodput_bps), (None, Some(1_000_000)));
    }

    #[test]
    fn what_is_no_log_is_an_error() {
        assert_eq!(parse("", 1), Err(Error::NoSs));
        assert_eq!(parse("rtt:1/2 cwnd:3\n", 1), Err(Error::NoSs), "of no socket");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([ -~]|\n|\t|rtt:|10.0.0.1:1 |cwnd:|[0-9]{1,12}:){0,60}") {
            let _ = parse(&text, 1000);
        }
    }
}
