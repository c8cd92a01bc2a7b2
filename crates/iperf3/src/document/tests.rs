//! Reports round-trip through JSON; documents of other versions can be read; invalid text is rejected.

use std::time::{Duration, SystemTime};

use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};
use units::{BitRate, Bytes};

use super::{Error, RateUnit, TextFormat, event_line, events, from_json, reports, to_json, to_text};
use crate::report::*;

/// The numbers of streams, as in iperf3.
fn id(index: u32) -> u32 {
    if index == 0 { 1 } else { index + 2 }
}

/// Seconds that are exact when converted to milliseconds, and so is the jitter.
fn milliseconds() -> impl Strategy<Value = f64> {
    (0u32..1000).prop_map(|n| f64::from(n) / 1e3).prop_filter("exact", |s| s * 1e3 / 1e3 == *s)
}

fn specs() -> impl Strategy<Value = TestSpec> {
    let directions = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse), Just(Direction::Both)];
    let amounts = prop_oneof![
        (0u64..1_000_000).prop_map(|ms| Amount::Time(Duration::from_millis(ms))),
        (1u64..1 << 50).prop_map(|n| Amount::Bytes(Bytes(n))),
        (1u64..1 << 50).prop_map(Amount::Blocks),
    ];
    let rates = || option::of((1u64..1 << 40).prop_map(BitRate));
    (
        (any::<bool>(), directions, 1u32..4, amounts, 0u64..5_000, 1u64..70_000, 1u64..10_000),
        (rates(), rates(), option::of(1u64..1 << 30), option::of(100u32..9_000), any::<u8>()),
        (option::of("[a-z ]{1,8}"), option::of("\\PC{0,8}")),
    )
        .prop_map(|(what, how, texts)| {
            let (tcp, direction, streams, amount, omit_ms, block, interval_ms) = what;
            let (rate, fq_rate, window, mss, tos) = how;
            let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
            TestSpec {
                direction,
                streams,
                omit: Duration::from_millis(omit_ms),
                block: Bytes(block),
                interval: Duration::from_millis(interval_ms),
                rate,
                fq_rate,
                window: window.map(Bytes),
                mss: mss.filter(|_| tcp),
                tos,
                title: texts.0,
                extra_data: texts.1,
                ..TestSpec::new(protocol, amount)
            }
        })
}

/// A report with only the values that the JSON contains.
fn whole_reports() -> impl Strategy<Value = Report> {
    (specs(), any::<bool>(), 0usize..4, vec((milliseconds(), 0u64..1 << 40, 0i64..1 << 20), 12))
        .prop_map(|(spec, client, intervals, figures)| build(spec, client, intervals, &figures))
}

fn build(spec: TestSpec, client: bool, intervals: usize, figures: &[(f64, u64, i64)]) -> Report {
    let role = if client { Role::Client } else { Role::Server };
    let both = spec.direction == Direction::Both;
    let count = spec.streams * if both { 2 } else { 1 };
    let forward = |index: u32| match spec.direction {
        Direction::Forward => true,
        Direction::Reverse => false,
        Direction::Both => index < spec.streams,
    };
    let sends = |index: u32| forward(index) == client;
    let figure = |n: u32| figures[n as usize % figures.len()];
    let tcp = spec.protocol == Protocol::Tcp;
    // Streams on which the end sends come first.
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|index| !forward(*index));
    let connections = (0..count)
        .map(|index| Connection {
            id: id(index),
            sender: sends(index),
            local: ([10, 0, 0, 1], 40_000 + index as u16).into(),
            remote: ([10, 0, 0, 2], 5201).into(),
        })
        .collect();
    let interval = |n: usize| Interval {
        start_s: n as f64,
        end_s: n as f64 + 1.0,
        streams: order
            .iter()
            .map(|index| {
                let (jitter_s, bytes, lost) = figure(*index + n as u32);
                let sender = sends(*index);
                let datagrams = Datagrams { packets: bytes / 100, ..Datagrams::default() };
                StreamInterval {
                    id: id(*index),
                    sender,
                    start_s: n as f64,
                    end_s: n as f64 + 1.0,
                    bytes,
                    omitted: false,
                    tcp: (tcp && sender).then_some(TcpState {
                        retransmits: lost as u64,
                        snd_cwnd_bytes: bytes / 3,
                        snd_wnd_bytes: bytes / 5,
                        rtt_us: 1 + bytes % 100_000,
                        rttvar_us: bytes % 1000,
                        pmtu_bytes: 1500,
                        reorder: bytes % 3,
                    }),
                    udp: (!tcp).then_some(match sender {
                        true => datagrams,
                        false => Datagrams { lost, jitter_s, ..datagrams },
                    }),
                }
            })
            .collect(),
    };
    let intervals: Vec<Interval> = (0..intervals).map(interval).collect();
    let streams = order
        .iter()
        .map(|index| {
            let (jitter_s, bytes, lost) = figure(*index);
            let packets = bytes / 100 + lost as u64 + 1;
            let datagrams = |jitter_s, lost, out_of_order| {
                (!tcp).then_some(Datagrams { packets, lost, out_of_order, jitter_s })
            };
            let account = |bytes, udp| StreamTotals { start_s: 0.0, end_s: 3.5, bytes, udp };
            let is_receiving_end = !sends(*index) && !intervals.is_empty();
            // The JSON does not contain the values of each of several receivers: they come from the
            // intervals, or from the blocks that were not lost.
            let got = match (tcp || spec.streams == 1, is_receiving_end) {
                (true, _) => bytes,
                (false, false) => (packets - lost as u64) * spec.block.0,
                (false, true) => intervals
                    .iter()
                    .flat_map(|interval| &interval.streams)
                    .filter(|stream| stream.id == id(*index))
                    .map(|stream| stream.bytes)
                    .sum(),
            };
            StreamEnd {
                id: id(*index),
                forward: forward(*index),
                sent: account(bytes + 1000, datagrams(0.0, 0, 0)),
                received: account(got, datagrams(jitter_s, lost, 7)),
                tcp: tcp.then_some(TcpSummary {
                    retransmits: (lost % 2 == 0).then_some(lost as u64),
                    max_snd_cwnd_bytes: bytes,
                    reorder: 2,
                    max_snd_wnd_bytes: bytes / 2,
                    max_rtt_us: 3,
                    min_rtt_us: 1,
                    mean_rtt_us: 2,
                }),
            }
        })
        .collect();
    let cpu = |total| Cpu { total, user: total / 4.0, system: total / 2.0 };
    Report {
        start: Some(Start {
            role,
            peer: [10, 0, 0, 2].into(),
            port: 5201,
            peer_name: "h2".into(),
            version: "longfat 0.1.0".into(),
            system_info: "Linux h1 6.18.0".into(),
            time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_291_227_500),
            cookie: "abcdefghijklmnopqrstuvwxyz2345678901".into(),
            mss: spec.mss.unwrap_or(if tcp { 1448 } else { 0 }),
            sndbuf_actual: 16_384,
            rcvbuf_actual: 131_072,
            spec,
            connections,
        }),
        intervals,
        end: Some(End {
            streams,
            cpu_local: cpu(12.5),
            cpu_remote: cpu(150.0),
            sender_congestion: tcp.then(|| "cubic".into()),
            receiver_congestion: tcp.then(|| "bbr".into()),
            file_bytes: None,
            server_output: None,
        }),
        latency: None,
        error: None,
    }
}

proptest! {
    #[test]
    fn a_report_round_trips_through_json(report in whole_reports()) {
        let text = to_json(&report).to_string();
        prop_assert_eq!(from_json(&text).unwrap(), report);
    }

    #[test]
    fn a_report_round_trips_through_json_stream(mut report in whole_reports()) {
        // A stream of events does not contain them.
        if let Some(start) = &mut report.start {
            (start.spec.title, start.spec.extra_data) = (None, None);
        }
        let lines: Vec<String> = events(&report).into_iter().map(event_line).collect();
        let text = lines.join("\n");
        prop_assert_eq!(&from_json(&text).unwrap(), &report);
        // If the last event is truncated, all others are read.
        let last = lines.last().unwrap().len();
        let cut = from_json(&text[..text.len() - last / 2]).unwrap();
        prop_assert_eq!(cut, Report { end: None, ..report });
    }

    #[test]
    fn text_has_a_line_for_each_stream_and_end(report in whole_reports()) {
        let (start, end) = (report.start.as_ref().unwrap(), report.end.as_ref().unwrap());
        let text = to_text(&report, TextFormat { unit: RateUnit::Adaptive, verbose: true });
        let title = start.spec.title.as_deref().map(|title| format!("{title}:  ")).unwrap_or_default();
        for line in text.lines() {
            prop_assert!(line.starts_with(&title), "{line}");
        }
        // A server reports only its own end of each stream.
        let sides = if start.role == Role::Client { 2 } else { 1 };
        let per_stream = report.intervals.len() + sides;
        for stream in &end.streams {
            let mark = format!("{title}[{:3}]", stream.id);
            let lines = text.lines().filter(|l| l.starts_with(&mark) && l.contains("bits/sec")).count();
            prop_assert_eq!(lines, per_stream, "{} in {}", mark, text);
        }
    }

    #[test]
    fn arbitrary_text_is_read_or_rejected(text in "\\PC*") {
        let _ = reports(&text);
    }

    #[test]
    fn wrong_types_cause_no_panic(report in whole_reports(), at in any::<prop::sample::Index>(), with in 0usize..6) {
        let mut document = to_json(&report);
        let count = leaves(&mut document, &mut |_| {});
        let chosen = at.index(count);
        let wrong = [json!(null), json!("x"), json!(-1e300), json!([]), json!(u64::MAX), json!({})];
        let mut n = 0;
        leaves(&mut document, &mut |leaf| {
            if n == chosen {
                *leaf = wrong[with].clone();
            }
            n += 1;
        });
        if let Ok(read) = from_json(&document.to_string()) {
            let _ = (to_json(&read), to_text(&read, TextFormat::default()));
        }
    }
}

/// Calls `visit` for each value that is neither an object nor a list; returns their number.
fn leaves(value: &mut Value, visit: &mut impl FnMut(&mut Value)) -> usize {
    match value {
        Value::Object(map) => map.values_mut().map(|one| leaves(one, visit)).sum(),
        Value::Array(list) => list.iter_mut().map(|one| leaves(one, visit)).sum(),
        leaf => {
            visit(leaf);
            1
        }
    }
}

#[test]
fn consecutive_documents_are_read() {
    let failed = r#"{"start": {"connected": []}, "intervals": [], "end": {}, "error": "the server is busy"}"#;
    let two = format!("{failed}\n{failed}\n");
    assert_eq!(reports(&two).unwrap().len(), 2);
    assert!(matches!(from_json(&two), Err(Error::Count(2))));
    assert!(matches!(from_json(""), Err(Error::Count(0))));
}

#[test]
fn errors_name_the_path() {
    let cases = [
        ("{}", "the document: no start"),
        ("[]", "the document: not an object"),
        (r#"{"start": 3}"#, "start: not an object"),
        (r#"{"start": {}, "intervals": []}"#, "start.test_start: missing"),
        (
            r#"{"start": {"test_start": {"protocol": "SCTP"}}}"#,
            "start.test_start.protocol: \"SCTP\" is neither",
        ),
        (
            r#"{"start": {"test_start": {"protocol": "TCP"}}, "intervals": [{"streams": [{"socket": 5, "end": 1}]}]}"#,
            "intervals[0].streams[0].start: missing",
        ),
        (
            r#"{"start": {"test_start": {"protocol": "TCP", "omit": -1}}}"#,
            "start.test_start.omit: not a valid duration",
        ),
    ];
    for (text, message) in cases {
        let error = from_json(text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(from_json(r#"{"start": {"connected": ["#).unwrap_err().to_string().contains("EOF"));
}

#[test]
fn documents_of_older_versions_are_read() {
    // iperf3 3.1 has no `sender`; 3.7 has two sums of one name with --bidir; older cJSON prints large numbers
    // as doubles.
    let text = r#"{"start": {"connected": [
        {"socket": 5, "local_host": "::1", "local_port": 4, "remote_host": "fe80::1%eth0", "remote_port": 5201},
        {"socket": 7, "local_host": "::1", "local_port": 5, "remote_host": "fe80::1%eth0", "remote_port": 5201}],
        "version": "iperf 3.1.3", "timestamp": {"timesecs": 1479000000}, "tcp_mss_default": 1428,
        "connecting_to": {"host": "far", "port": 5201},
        "test_start": {"protocol": "TCP", "num_streams": 1, "bidir": 1, "duration": 10, "bytes": 0, "blocks": 0, "reverse": 0}},
      "intervals": [{"streams": [
        {"socket": 5, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 1.178e+10, "retransmits": 0, "snd_cwnd": 14280, "omitted": false},
        {"socket": 7, "start": 0, "end": 1.0, "seconds": 1.0, "bytes": 5, "omitted": false}],
        "sum": {"start": 0, "end": 1.0}, "sum": {"start": 0, "end": 1.0}}],
      "end": {"streams": [
        {"sender": {"socket": 5, "start": 0, "end": 1.0, "bytes": 1.178e+10, "retransmits": -1},
         "receiver": {"socket": 5, "start": 0, "end": 1.0, "bytes": 9}},
        {"sender": {"socket": 7, "start": 0, "end": 1.0, "bytes": 8, "retransmits": 18446744073709551615}, "receiver": {"socket": 7, "start": 0, "end": 1.0, "bytes": 5}}],
        "sum_sent": {}, "sum_sent": {}}}"#;
    let report = from_json(text).unwrap();
    let start = report.start.unwrap();
    assert_eq!((start.peer.to_string().as_str(), start.spec.interval), ("fe80::1", Duration::from_secs(1)));
    assert_eq!(
        start.connections.iter().map(|c| (c.id, c.sender)).collect::<Vec<_>>(),
        [(1, true), (3, false)]
    );
    let streams = &report.intervals[0].streams;
    assert_eq!((streams[0].bytes, streams[0].sender, streams[1].sender), (11_780_000_000, true, false));
    let end = report.end.unwrap();
    let found: Vec<_> = end.streams.iter().map(|s| (s.id, s.forward, s.received.bytes)).collect();
    assert_eq!(found, [(1, true, 9), (3, false, 5)]);
    for stream in &end.streams {
        assert_eq!(
            stream.tcp.unwrap().retransmits,
            None,
            "-1 means unknown, also as an unsigned number of 64 bits"
        );
    }
}
