//! XCP from end to end: two flows with 50 and 200 ms over 10 Gb/s, and flows over paths without XCP routers.

use crate::support;
use schema::{EventKind, FlowSample};
use sim::{HostDefaults, Outcome};
use support::Path;

/// `scenarios/xcp.toml` with this MTU and duration.
fn shared(mtu: u32, seconds: u32) -> Outcome {
    let text = include_str!("../../../scenarios/xcp.toml");
    let file = scenario::ScenarioFile::parse("xcp.toml", text).unwrap();
    let set = |key: &str, value: String| (key.to_owned(), value);
    let sets = [set("hosts.*.mtu", mtu.to_string()), set("duration", format!("{seconds}s"))];
    let scenario = file.resolve(None, &sets).unwrap();
    sim::run(&scenario, &HostDefaults::default(), &mut support::Native::default(), &mut ()).unwrap()
}

/// Application bytes of a flow between two instants.
fn bytes(outcome: &Outcome, flow: &str, from_us: i64, to_us: i64) -> f64 {
    let at = |us: i64| {
        let row = outcome.flows.iter().find(|row| row.flow == flow && row.time_us >= us);
        row.and_then(|row| row.bytes_received).unwrap() as f64
    };
    at(to_us) - at(from_us)
}

/// Checks utilization, queue and fairness of the run's second half.
fn check_shares(outcome: &Outcome, mtu: u32, seconds: u32) {
    let (from, to) = (i64::from(seconds) * 500_000, i64::from(seconds) * 1_000_000);
    let shares = ["near", "far"].map(|flow| bytes(outcome, flow, from, to));
    let jain = model::jain_index(&shares).unwrap();
    let rows: Vec<_> = outcome
        .links
        .iter()
        .filter(|row| row.link == "bottleneck" && row.direction == schema::LinkDirection::Forward)
        .collect();
    let sent = |us: i64| rows.iter().find(|row| row.time_us >= us).and_then(|row| row.sent_bytes).unwrap();
    let utilization = (sent(to) - sent(from)) as f64 * 8.0 / (10e9 * f64::from(seconds) / 2.0);
    let queues: Vec<f64> =
        rows.iter().filter(|row| row.time_us > from).map(|row| row.queue_bytes.unwrap() as f64).collect();
    let mean_queue = queues.iter().sum::<f64>() / queues.len() as f64;
    // The smaller BDP, of the flow with 50 ms.
    let bdp = 10e9 / 8.0 * 0.05;
    eprintln!(
        "MTU {mtu}, {seconds} s: utilization {utilization:.4}, mean queue {mean_queue:.0} B = {:.2} % of a BDP, Jain {jain:.5}, drops {:?}",
        mean_queue / bdp * 100.0,
        rows.last().and_then(|row| row.dropped_queue_packets)
    );
    assert!(utilization >= 0.98, "{utilization}");
    assert!(mean_queue < 0.05 * bdp, "{mean_queue}");
    assert!(jain >= 0.99, "{jain}");
}

#[test]
fn flows_of_50_and_200_ms_share_10_gigabits() {
    check_shares(&shared(9000, 40), 9000, 40);
}

#[test]
fn flows_with_small_packets_share_10_gigabits_too() {
    check_shares(&shared(1500, 40), 1500, 40);
}

/// An XCP and a TCP flow over 100 Mb/s and 20 ms with this queue discipline.
fn beside_tcp(qdisc: &str) -> Outcome {
    let forward = format!("rate = \"100mbit\", delay = \"20ms\", queue = \"170p\", qdisc = \"{qdisc}\"");
    let flows = &["kind = \"xcp\"", "cc = \"reno\"\nstart = \"1s\""];
    Path { top: "duration = \"30s\"\nsample = \"100ms\"", forward: &forward, flows, ..Path::default() }.run()
}

/// Without XCP routers an XCP flow shares as TCP does. In an XCP queue TCP fills the queue and XCP yields
/// (the paper separates them by queues, section 6), but does not starve.
#[test]
fn an_xcp_flow_beside_tcp_does_not_starve() {
    for (qdisc, min) in [("droptail", 30e6), ("xcp", 0.5e6)] {
        let outcome = beside_tcp(qdisc);
        let shares = ["f1", "f2"].map(|flow| bytes(&outcome, flow, 10_000_000, 30_000_000) * 8.0 / 20.0);
        eprintln!("{qdisc}: {shares:?}");
        assert!(shares[0] + shares[1] > 90e6, "{qdisc}: {shares:?}");
        assert!(shares.iter().all(|share| *share > min), "{qdisc}: {shares:?}");
    }
}

#[test]
fn without_xcp_routers_it_behaves_as_tcp() {
    let forward = "rate = \"100mbit\", delay = \"20ms\", queue = \"170p\"";
    let top = "duration = \"20s\"\nsample = \"20ms\"";
    let outcome = Path { top, forward, flows: &["kind = \"xcp\""], ..Path::default() }.run();
    let cwnd = |row: &FlowSample| row.snd_cwnd_segs.unwrap();
    // Slow start doubles the window each round trip.
    let at = |us: i64| outcome.flows.iter().find(|row| row.time_us == us).map(cwnd).unwrap();
    assert!(at(140_000) >= 3 * at(100_000), "{} then {}", at(100_000), at(140_000));
    let goodput = bytes(&outcome, "f1", 5_000_000, 20_000_000) * 8.0 / 15.0;
    assert!(goodput > 90e6, "{goodput}");
    let halved = outcome.events.iter().filter(|event| event.kind == EventKind::Reduction).count();
    assert!((1..=20).contains(&halved), "{halved} times");
}

#[test]
fn all_bytes_arrive_despite_losses() {
    let forward = "rate = \"100mbit\", delay = \"10ms\", qdisc = \"xcp\", loss = \"2%\"";
    let flow = "kind = \"xcp\"\nsize = \"5000001B\"";
    let top = "duration = \"60s\"";
    let backward = "loss = \"2%\"";
    let outcome = Path { top, forward, backward, flows: &[flow], ..Path::default() }.run();
    assert_eq!(outcome.flow_totals[0].bytes, 5_000_001);
    assert!(outcome.duration.as_secs_f64() < 30.0, "{}", outcome.duration);
    let retransmitted = outcome.flows.last().unwrap().total_retrans_segs.unwrap();
    assert!((60..=300).contains(&retransmitted), "{retransmitted} of 3,450 packets");
}
