//! Events of a sender with their times, and traces of each segment.

use crate::support;
use std::error::Error;

use scenario::FlowSpec;
use schema::{Event, EventKind, FlowSample, LinkSample, TraceKind, TraceRow};
use sim::{HostDefaults, Observer, Outcome};
use support::{Native, Path};
use units::Time;

/// 10 Mb/s and 20 ms, samples each 500 ms, one reno flow with SACK.
fn run(path: Path<'_>, flow: &str) -> Outcome {
    let flow = format!("cc = \"reno\"\n{flow}");
    let top = "duration = \"10s\"\nsample = \"500ms\"";
    Path { top, flows: &[&flow], ..path }.run()
}

/// The flow's events of a kind: time in ms and value.
fn of(outcome: &Outcome, kind: EventKind) -> Vec<(i64, i64)> {
    let own = outcome.events.iter().filter(|e| e.kind == kind && e.subject == "f1");
    own.map(|e| (e.time_us / 1000, e.value)).collect()
}

#[test]
fn a_loss_and_its_recovery_have_exact_times() {
    let forward = "rate = \"10mbit\", delay = \"20ms\", queue = \"500p\", loss = { packets = [200] }";
    let outcome = run(Path { forward, ..Path::default() }, "size = \"1MB\"");
    let [(lost_ms, 1)] = of(&outcome, EventKind::Lost)[..] else { panic!("{:?}", outcome.events) };
    let [(entered_ms, ssthresh)] = of(&outcome, EventKind::RecoveryEnter)[..] else { panic!() };
    let [(left_ms, cwnd)] = of(&outcome, EventKind::RecoveryLeave)[..] else { panic!() };
    let [(retransmitted_ms, 1)] = of(&outcome, EventKind::Retransmit)[..] else { panic!() };
    // Events have their own times, independent of the samples each 500 ms.
    assert!(entered_ms == lost_ms && lost_ms % 500 != 0, "{lost_ms}");
    assert!((retransmitted_ms - entered_ms) < 30, "{entered_ms} and {retransmitted_ms}");
    // The retransmission waits in the queue, which delays its acknowledgement.
    assert!(
        left_ms >= retransmitted_ms + 20 && left_ms < retransmitted_ms + 700,
        "{retransmitted_ms} and {left_ms}"
    );
    assert!(ssthresh > 2 && cwnd <= ssthresh + 1, "{ssthresh} and {cwnd}");
    assert!(of(&outcome, EventKind::Rto).is_empty());
    assert!(outcome.events.is_sorted_by_key(|e| e.time_us));
}

#[test]
fn a_tail_loss_is_probed() {
    // The FIN is in the last packet, the 691st of 1448 bytes. The loss takes it and its first
    // retransmissions.
    let forward =
        "rate = \"10mbit\", delay = \"20ms\", queue = \"900p\", loss = { packets = [691, 692, 693, 694] }";
    let outcome = run(Path { forward, ..Path::default() }, "size = \"1MB\"");
    assert!(!of(&outcome, EventKind::Probe).is_empty(), "{:?}", outcome.events);
    assert_eq!(outcome.flow_totals[0].bytes, 1_000_000);
}

#[test]
fn a_delay_spike_causes_a_timeout_that_is_undone() {
    // Packets sent after 2 s arrive 800 ms later, in order.
    let top = "duration = \"10s\"\nsample = \"500ms\"";
    let text = Path { top, forward: "delay = \"20ms\"", flows: &["cc = \"reno\"\nwrite_rate = \"1mbit\""], ..Path::default() }
        .text()
        .replace(
            "[[flows]]",
            "[[links.changes]]\nat = \"2s\"\nforward = { delay = \"820ms\" }\n[[links.changes]]\nat = \"4s\"\nforward = { delay = \"20ms\" }\n[[flows]]",
        );
    let outcome = support::run(&text, &HostDefaults::default());
    let (timeouts, undone) = (of(&outcome, EventKind::Rto), of(&outcome, EventKind::Undo));
    assert!(!timeouts.is_empty() && !undone.is_empty(), "{:?}", outcome.events);
    assert!(
        (2_100..2_900).contains(&timeouts[0].0) && undone[0].0 > timeouts[0].0,
        "{timeouts:?} {undone:?}"
    );
}

#[test]
fn an_ecn_mark_reduces_the_window_without_a_loss() {
    let hosts = "sysctl = { \"net.ipv4.tcp_ecn\" = \"1\" }";
    let forward = "rate = \"10mbit\", delay = \"20ms\", queue = \"500p\", qdisc = \"codel\", ecn = true";
    let outcome = run(Path { hosts, forward, ..Path::default() }, "");
    let reduced = of(&outcome, EventKind::Reduction);
    assert!(!reduced.is_empty(), "{:?}", outcome.events);
    assert!(reduced.iter().all(|(_, ssthresh)| *ssthresh >= 2));
    let marked = outcome.links.iter().filter_map(|row| row.marked_packets).max();
    assert!(marked >= Some(reduced.len() as i64), "{marked:?}");
}

#[test]
fn a_reader_that_stops_closes_the_window() {
    let hosts = "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 131072\" }";
    let path = Path { hosts, forward: "rate = \"10mbit\", delay = \"20ms\"", ..Path::default() };
    let outcome = run(path, "reader_stops = \"2s\"\nreader_resumes = \"5s\"");
    let (closed, opened) = (of(&outcome, EventKind::ZeroWindow), of(&outcome, EventKind::WindowOpen));
    assert_eq!((closed.len(), opened.len()), (1, 1), "{closed:?} {opened:?}");
    // The last bytes that fit are sent as a window probe, a timeout after the others.
    assert!((2_000..2_700).contains(&closed[0].0) && (5_000..5_200).contains(&opened[0].0), "{closed:?}");
    assert!(closed[0].1 > 0 && opened[0].1 > 0);
}

#[test]
fn a_lost_syn_is_retransmitted() {
    // The first packet is the address resolution request, the second the SYN.
    let forward = "rate = \"10mbit\", delay = \"20ms\", loss = { packets = [2] }";
    let outcome = run(Path { forward, ..Path::default() }, "size = \"1MB\"");
    let [(at_ms, 1)] = of(&outcome, EventKind::HandshakeRetry)[..] else { panic!("{:?}", outcome.events) };
    assert!((1_000..1_100).contains(&at_ms), "{at_ms}");
    assert!(of(&outcome, EventKind::Rto).is_empty());
}

/// Collects the trace of the flow of this name, and the largest number of rows in a call.
struct Tracer {
    flow: &'static str,
    rows: Vec<TraceRow>,
    max_rows: usize,
}

impl Observer for Tracer {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
    fn progress(&mut self, _: Time, _: &[FlowSample]) -> bool {
        true
    }
    fn is_traced(&self, flow: &FlowSpec) -> bool {
        flow.name == self.flow
    }
    fn trace_rows(&mut self, rows: &[TraceRow]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.max_rows = self.max_rows.max(rows.len());
        self.rows.extend_from_slice(rows);
        Ok(())
    }
}

fn run_traced(text: &str) -> (Outcome, Tracer) {
    let mut tracer = Tracer { flow: "f1", rows: Vec::new(), max_rows: 0 };
    let scenario = support::scenario(text);
    let outcome = sim::run(&scenario, &HostDefaults::default(), &mut Native::default(), &mut tracer).unwrap();
    (outcome, tracer)
}

#[test]
fn a_trace_has_every_segment_and_every_ack() {
    let forward = "rate = \"10mbit\", delay = \"20ms\", queue = \"500p\", loss = { packets = [200, 300] }";
    let flows = &["cc = \"reno\"\nsize = \"1MB\"", "cc = \"reno\"\nsize = \"1MB\""];
    let top = "duration = \"10s\"\nsample = \"10s\"";
    let text = Path { top, forward, flows, ..Path::default() }.text();
    let (outcome, Tracer { rows, max_rows, .. }) = run_traced(&text);
    assert!(rows.iter().all(|row| row.flow == "f1") && rows.is_sorted_by_key(|row| row.time_us));
    assert!(max_rows < 500 && rows.len() > 750, "{max_rows} of {} in a call", rows.len());
    let bytes =
        |kind: TraceKind| rows.iter().filter(|r| r.kind == kind).map(|r| r.len_bytes.unwrap()).sum::<i64>();
    // New data is sent in order, without gaps, to its end.
    let mut next = 0;
    for row in rows.iter().filter(|row| row.kind == TraceKind::Sent) {
        assert_eq!(row.seq_bytes, Some(next), "{row:?}");
        next += row.len_bytes.unwrap();
    }
    assert_eq!(next, 1_000_000);
    let last = outcome.flows.iter().rfind(|row| row.flow == "f1").unwrap();
    assert_eq!(bytes(TraceKind::Retransmit), last.bytes_retrans.unwrap());
    let acks: Vec<i64> = rows.iter().filter_map(|row| row.ack_bytes).collect();
    assert!(acks.is_sorted() && acks.last() == Some(&1_000_000), "{:?}", acks.last());
    assert!(rows.iter().any(|row| row.kind == TraceKind::Sack && row.sack_blocks >= Some(1)));
    assert!(rows.iter().all(|row| row.inflight_segs.is_some() && row.snd_cwnd_segs.is_some()));
    // Tracing changes nothing.
    assert_eq!(support::run(&text, &HostDefaults::default()), outcome);
}

#[test]
fn offsets_in_traces_do_not_wrap() {
    let forward = "delay = \"1ms\", rate = \"10gbit\", queue = \"100MB\"";
    let hosts = "mtu = 9000";
    let top = "duration = \"6s\"\nsample = \"1s\"";
    let flow = "cc = \"cubic\"\nsize = \"5GB\"";
    let (outcome, Tracer { rows, .. }) =
        run_traced(&Path { top, hosts, forward, flows: &[flow], ..Path::default() }.text());
    assert_eq!(outcome.flow_totals[0].bytes, 5_000_000_000, "{:?}", outcome.flow_totals);
    let ends = rows.iter().filter_map(|row| Some(row.seq_bytes? + row.len_bytes?));
    assert_eq!(ends.max(), Some(5_000_000_000));
    assert_eq!(rows.iter().filter_map(|row| row.ack_bytes).max(), Some(5_000_000_000));
}
