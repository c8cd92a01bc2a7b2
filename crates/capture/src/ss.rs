//! Parses the log of `ss -tin` (iproute2) in a loop, as in `while sleep 0.1; do date +%s.%N; ss -tinm; done`.
//!
//! A line that contains a time (since 1970, or a time of day) begins a sample of all sockets. In a log
//! without times, ss's heading or a repeated socket begins a sample, and the caller gives the interval.
//!
//! A socket is the sender of one flow and the receiver of another: its columns are split accordingly. A flow
//! whose two ends are both in the log has the columns of both. A direction without data is not a flow, unless
//! the connection is idle.

mod details;
mod flows;
mod times;

use std::collections::{BTreeMap, BTreeSet};

use schema::FlowSample;

pub use self::flows::SsFlow;
use self::{
    details::{find_addresses, parse_details},
    flows::{Socket, SocketSample, split_into_flows},
    times::{DAY_US, find_time, is_since_1970},
};
use crate::Error;

/// A parsed log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SsLog {
    /// Flows, in the order of their first samples.
    pub flows: Vec<SsFlow>,
    /// Samples of the flows, ordered by time.
    pub rows: Vec<FlowSample>,
    /// Time of the first sample, seconds since 1970, if the log contains it.
    pub start_s: Option<f64>,
    /// Whether the log contains times.
    pub has_times: bool,
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
    if parser.samples.is_empty() {
        return Err(Error::NotAnSsLog);
    }
    let (flows, rows) = split_into_flows(parser.samples, &parser.sockets);
    Ok(SsLog { flows, rows, start_s: parser.start_s, has_times: parser.has_times })
}

#[derive(Debug, Default)]
struct LogParser {
    sockets: Vec<Socket>,
    samples: Vec<SocketSample>,
    start_s: Option<f64>,
    interval_us: i64,
    /// Time and number of the current sample.
    now_us: i64,
    number: usize,
    has_times: bool,
    /// Index of each socket, by its local address and its peer's.
    indices: BTreeMap<(String, String), usize>,
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
        if !self.has_times && is_since_1970(time_us) {
            self.start_s.get_or_insert(time_us as f64 * 1e-6);
        }
        // A time of day without a date restarts at midnight.
        while self.has_times && self.now_us - time_us > DAY_US / 2 && time_us < i64::MAX - DAY_US {
            time_us += DAY_US;
        }
        self.has_times = true;
        self.now_us = self.now_us.max(time_us);
        self.begin_sample();
    }

    fn begin_next_sample(&mut self) {
        // Several samples may have the same printed time.
        if !self.has_times {
            self.now_us = self.now_us.saturating_add(self.interval_us);
        }
        self.begin_sample();
    }

    fn begin_sample(&mut self) {
        self.number += 1;
        self.sampled.clear();
    }

    fn find_or_add_socket(&mut self, local: &str, peer: &str) -> usize {
        let (local, peer) = (local.to_owned(), peer.to_owned());
        *self.indices.entry((local.clone(), peer.clone())).or_insert_with(|| {
            self.sockets.push(Socket { local, peer, ..Socket::default() });
            self.sockets.len() - 1
        })
    }

    /// Parses the details of a socket, in the line of its addresses (`-O`) or the next.
    fn add_details(&mut self, words: &[&str]) {
        let has_rtt = words.iter().any(|word| word.starts_with("rtt:"));
        let Some((index, [receive_queue, send_queue])) = self.open.filter(|_| has_rtt) else { return };
        self.open = None;
        if self.sampled.contains(&index) {
            self.begin_next_sample();
        }
        self.sampled.insert(index);
        let mut row = FlowSample { time_us: self.now_us, ..FlowSample::default() };
        row.rcv_queue_bytes = receive_queue;
        parse_details(words, &mut row, &mut self.sockets[index].cc);
        self.samples.push(SocketSample {
            socket: index,
            number: self.number,
            send_queue_bytes: send_queue,
            row,
        });
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
        let flow = &log.flows[0];
        assert_eq!((flow.name.as_str(), flow.cc.as_deref()), ("10.0.0.1:53066-10.0.0.2:5777", Some("cubic")));
        // The receive buffer and the receive queue belong to the other direction.
        let expected = FlowSample {
            flow: flow.name.clone(),
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
            sndbuf_limited_us: Some(0),
            retrans_segs: Some(0),
            total_retrans_segs: Some(1),
            min_rtt_us: Some(22),
            snd_wnd_bytes: Some(28_672),
            ..FlowSample::default()
        };
        assert_eq!(log.rows, [expected]);
    }

    #[test]
    fn samples_are_separated_by_times_headings_or_repeated_sockets() {
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
    fn times_since_1970_may_have_any_unit() {
        let first = 1_700_000_000_123_456_789_i64;
        for digits in [10, 13, 16, 19] {
            let time = |add_s: i64| (first + add_s * 1_000_000_000).to_string()[..digits].to_owned() + "\n";
            let log = parse(&[&time(0), SAMPLE, &time(3), SAMPLE].concat(), 1).unwrap();
            let times: Vec<i64> = log.rows.iter().map(|row| row.time_us).collect();
            assert!(times == [0, 3_000_000] && log.has_times, "{digits} digits: {times:?}");
            assert!((log.start_s.unwrap() - 1_700_000_000.0).abs() < 1.0, "{digits} digits");
        }
        let comma = parse(&["1700000000,5\n", SAMPLE, "1700000001,75\n", SAMPLE].concat(), 1).unwrap();
        assert_eq!(comma.rows[1].time_us, 1_250_000, "a decimal comma");
        assert!(!parse(&["1\n", SAMPLE, "2\n", SAMPLE].concat(), 1).unwrap().has_times, "not a time");
        let clock = |time: &str| format!("Thu Nov 26 {time} UTC 2026\n");
        let noon =
            [&clock("11:59:59 AM"), SAMPLE, &clock("12:00:00 PM"), SAMPLE, &clock("01:00:00 PM"), SAMPLE];
        let times: Vec<i64> = parse(&noon.concat(), 1).unwrap().rows.iter().map(|row| row.time_us).collect();
        assert_eq!(times, [0, 1_000_000, 3_601_000_000], "a 12-hour clock");
    }

    /// [`SAMPLE`] with these counts of bytes, in the order of the times.
    fn log_of(counts: &[(i64, i64)]) -> SsLog {
        let line = |(acked, received): &(i64, i64)| {
            SAMPLE.replace(
                "bytes_acked:100001",
                &format!("bytes_acked:{acked} bytes_received:{received} rcv_wnd:9000"),
            )
        };
        parse(&counts.iter().map(line).collect::<String>(), 1_000_000).unwrap()
    }

    const SENT: &str = "10.0.0.1:53066-10.0.0.2:5777";
    const RECEIVED: &str = "10.0.0.2:5777-10.0.0.1:53066";

    #[test]
    fn a_sending_socket_has_no_receiver_columns() {
        let log = log_of(&[(100_001, 100), (225_001, 100)]);
        assert_eq!(log.flows.iter().map(|flow| flow.name.as_str()).collect::<Vec<_>>(), [SENT]);
        let last = &log.rows[1];
        assert_eq!((last.bytes_acked, last.goodput_bps), (Some(225_001), Some(1_000_000)));
        assert_eq!((last.snd_wnd_bytes, last.sndbuf_bytes), (Some(28_672), Some(4_194_304)));
        let receiver = (last.bytes_received, last.rcv_wnd_bytes, last.rcv_queue_bytes, last.rcvbuf_bytes);
        assert_eq!(receiver, (None, None, None, None));
    }

    #[test]
    fn a_receiving_socket_is_the_receiver_of_the_reverse_flow() {
        let log = log_of(&[(1, 100), (1, 250_100)]);
        assert_eq!(
            log.flows,
            [SsFlow {
                name: RECEIVED.into(),
                from: "10.0.0.2:5777".into(),
                to: "10.0.0.1:53066".into(),
                cc: None
            }]
        );
        let last = &log.rows[1];
        assert_eq!((last.bytes_received, last.goodput_bps), (Some(250_100), Some(2_000_000)));
        assert_eq!((last.rcv_queue_bytes, last.rcvbuf_bytes), (Some(7), Some(131_072)));
        assert_eq!((last.rcv_wnd_bytes, last.bytes_acked, last.srtt_us), (Some(9000), None, None));
        // Data in both directions.
        let both = log_of(&[(1, 100), (125_001, 250_100)]);
        assert_eq!((both.flows.len(), both.rows.len()), (2, 4));
        let goodput = |name: &str| both.rows.iter().rfind(|row| row.flow == name).unwrap().goodput_bps;
        assert_eq!((goodput(SENT), goodput(RECEIVED)), (Some(1_000_000), Some(2_000_000)));
    }

    #[test]
    fn a_flow_with_both_sockets_in_the_log_has_both_ends_columns() {
        let sample = |acked: i64, received: i64| {
            format!(
                "10:00:0{acked}\n\
                 ESTAB 0 0 127.0.0.1:1 127.0.0.1:2 cubic rto:1 rtt:1/1 cwnd:10 bytes_acked:{acked}\n\
                 ESTAB 5 0 127.0.0.1:2 127.0.0.1:1 reno rto:1 rtt:2/1 cwnd:10 bytes_received:{received}\n"
            )
        };
        let log = parse(&[sample(1, 1000), sample(2, 3000)].concat(), 1).unwrap();
        let flow = &log.flows[0];
        assert_eq!((log.flows.len(), flow.name.as_str()), (1, "127.0.0.1:1-127.0.0.1:2"));
        assert_eq!(flow.cc.as_deref(), Some("cubic"));
        let last = log.rows.last().unwrap();
        assert_eq!((log.rows.len(), last.srtt_us, last.rcv_queue_bytes), (2, Some(1000), Some(5)));
        assert_eq!(last.goodput_bps, Some(16_000), "by the receiver");
    }

    #[test]
    fn omitted_zeros_are_added_to_columns_that_the_log_has() {
        let log = |first: &str, second: &str| {
            let line = |details: &str| {
                format!("ESTAB 0 7240 10.0.0.1:1 10.0.0.2:2 cubic rto:1 rtt:1/1 mss:1448 {details}\n")
            };
            parse(&(line(first) + &line(second)), 1_000_000).unwrap()
        };
        // A passively opened socket begins without acknowledged bytes.
        let passive = log("cwnd:10", "cwnd:10 bytes_acked:125000 unacked:5 retrans:1/2 delivered:90");
        let first = &passive.rows[0];
        assert_eq!(
            (first.bytes_acked, first.unacked_segs, first.delivered_segs),
            (Some(0), Some(0), Some(0))
        );
        assert_eq!((first.retrans_segs, first.total_retrans_segs), (Some(0), Some(0)));
        assert_eq!((first.lost_segs, first.snd_wnd_bytes), (None, None), "this ss may not print them");
        assert_eq!(passive.rows[1].goodput_bps, Some(1_000_000));
        // The send queue is 5 segments.
        assert_eq!((first.notsent_bytes, passive.rows[1].notsent_bytes), (Some(7240), Some(0)));
        let stated = log("unacked:5 notsent:9", "unacked:2");
        assert_eq!((stated.rows[0].notsent_bytes, stated.rows[1].notsent_bytes), (Some(9), Some(0)));
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
