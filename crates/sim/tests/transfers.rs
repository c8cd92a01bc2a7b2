//! TCP flows: applications, start and stop times, determinism.

use crate::support;
use schema::EventKind;
use sim::Outcome;
use support::Path;
use units::{Instant, Time};

/// 100 Mb/s and 10 ms; `flows` are keys of each flow.
fn run(flows: &[&str]) -> Outcome {
    let flows: Vec<String> = flows.iter().map(|keys| format!("cc = \"reno\"\n{keys}")).collect();
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    let top = "duration = \"4s\"\nsample = \"10ms\"";
    let forward = "rate = \"100mbit\", delay = \"10ms\", queue = \"200p\"";
    Path { top, forward, flows: &flows, ..Path::default() }.run()
}

fn seconds(at: Option<Instant>) -> f64 {
    at.unwrap().as_secs_f64()
}

#[test]
fn a_flow_with_a_size_delivers_every_byte_and_ends() {
    let outcome = run(&["size = \"3000001B\"\nstart = \"500ms\""]);
    let totals = &outcome.flow_totals[0];
    assert_eq!(totals.bytes, 3_000_001);
    // Address resolution and handshake, each a round trip.
    assert_eq!(totals.started.map(|t| t.as_nanos() / 100_000), Some(5_200), "{:?}", totals.started);
    let elapsed = seconds(totals.ended) - seconds(totals.started);
    assert!((0.24..0.6).contains(&elapsed), "{elapsed}");
    assert!(outcome.duration < Time::from_nanos(1_500_000_000));
    let kinds: Vec<_> = outcome.events.iter().map(|e| e.kind).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&EventKind::Start), Some(&EventKind::Stop)));
    assert_eq!(totals.cc.as_deref(), Some("reno"));
}

#[test]
fn slow_applications_limit_the_rate() {
    for key in ["read_rate", "write_rate"] {
        let outcome = run(&[&format!("{key} = \"8mbit\"")]);
        let read = outcome.flow_totals[0].bytes;
        assert!((3_500_000..=4_000_000).contains(&read), "{key}: {read}");
    }
}

#[test]
fn a_paused_reader_reads_nothing() {
    let outcome = run(&["reader_stops = \"1s\"\nreader_resumes = \"2s\""]);
    let of = |from: i64, to: i64| {
        let rows = outcome.flows.iter().filter(move |r| r.time_us > from && r.time_us <= to);
        rows.filter_map(|r| r.goodput_bps).map(|bps| bps as f64 * 0.01 / 8.0).sum::<f64>()
    };
    assert!(of(500_000, 1_000_000) > 1e6);
    assert!(of(1_000_000, 1_990_000) < 1.0, "{}", of(1_000_000, 1_990_000));
    assert!(of(1_990_000, 4_000_000) > 10e6);
}

#[test]
fn a_flow_stops_at_its_stop_time_and_others_continue() {
    let outcome = run(&["stop = \"1s\"", "start = \"2s\""]);
    let [f, g] = &outcome.flow_totals[..] else { panic!() };
    assert_eq!((f.ended, g.ended), (Some(Instant::from_secs(1)), Some(Instant::from_secs(4))));
    assert!(seconds(g.started) > 2.0 && f.bytes > 5_000_000 && g.bytes > 15_000_000, "{f:?} {g:?}");
    assert!(outcome.flows.iter().all(|r| (r.flow == "f1") == (r.time_us <= 1_000_000)));
    assert!(outcome.flows.is_sorted_by_key(|r| r.time_us) && outcome.events.is_sorted_by_key(|e| e.time_us));
}

#[test]
fn the_same_run_gives_the_same_rows() {
    let (one, two) = (run(&["", ""]), run(&["", ""]));
    assert_eq!(one, two);
    assert!(one.flow_totals.iter().map(|totals| totals.bytes).sum::<u64>() > 40_000_000);
}
