//! UDP flows: exact rates, and the receiver's counters when the path is too slow, reorders, duplicates or
//! loses.

use crate::support;
use schema::FlowSample;
use sim::{HostDefaults, Outcome, TransmitQueueDrops};
use support::Path;
use units::{Instant, Time};

/// 10 s with samples each 100 ms; `forward` and `flow` are keys of the path and of the flow.
fn run(forward: &str, flow: &str) -> Outcome {
    let flow = format!("kind = \"udp\"\n{flow}");
    Path { top: "duration = \"10s\"\nsample = \"100ms\"", forward, flows: &[&flow], ..Path::default() }.run()
}

fn last(outcome: &Outcome) -> &FlowSample {
    outcome.flows.last().unwrap()
}

/// Share of the datagrams that were lost.
fn loss(row: &FlowSample) -> f64 {
    let (lost, received) = (row.datagrams_lost.unwrap() as f64, row.datagrams_received.unwrap() as f64);
    lost / (lost + received)
}

/// Payload rate of the run's second half, bit/s.
fn second_half_bps(outcome: &Outcome) -> f64 {
    let half = outcome.flows.iter().find(|row| row.time_us == 5_000_000).unwrap();
    (last(outcome).bytes_received.unwrap() - half.bytes_received.unwrap()) as f64 * 8.0 / 5.0
}

#[test]
fn a_gigabit_carries_957_megabits_of_payload() {
    // 1472 of 1538 bytes on the wire.
    let (forward, limit) = ("rate = \"1gbit\", delay = \"10ms\", overhead = 38", 1472.0 / 1538.0 * 1e9);
    // The datagrams that waited for address resolution form a queue, which shrinks by the link's spare rate;
    // only 92 may wait.
    for rate_mbps in [950.0, 957.0] {
        let below = run(forward, &format!("rate = \"{rate_mbps}mbit\""));
        let goodput = second_half_bps(&below) / 1e6;
        assert!(goodput > rate_mbps * 0.99999 && goodput < rate_mbps * 1.0001, "{goodput} of {rate_mbps}");
        assert_eq!(last(&below).datagrams_lost, Some(below.unresolved[0].queue_full as i64));
    }
    let above = run(forward, "rate = \"1gbit\"");
    assert!((second_half_bps(&above) / limit - 1.0).abs() < 1e-5, "{}", second_half_bps(&above));
    assert!((limit / 957e6 - 1.0).abs() < 1e-3);
}

#[test]
fn excess_datagrams_are_lost() {
    let forward = "rate = \"100mbit\", delay = \"5ms\", queue = \"50p\", overhead = 38";
    for rate_mbps in [120.0, 200.0, 1000.0] {
        let outcome = run(forward, &format!("rate = \"{rate_mbps}mbit\""));
        let expected = 1.0 - 100.0 * (1472.0 / 1538.0) / rate_mbps;
        let row = last(&outcome);
        assert!((loss(row) - expected).abs() < 1e-3, "{rate_mbps} Mb/s: {} for {expected}", loss(row));
        // The queue is full with 50 packets, one of which is being sent.
        let (packet_us, owd) = (1538.0 * 8.0 / 100.0, row.owd_us.unwrap() as f64);
        assert!((owd - 5_000.0 - 49.5 * packet_us).abs() <= packet_us, "{owd}");
    }
}

#[test]
fn the_transmit_queue_counts_the_datagrams_that_it_drops() {
    let of = |queue: &str| {
        let text = format!(
            "duration = \"10s\"\n[hosts.h1]\naddress = \"10.0.0.1/24\"\n{queue}\n[hosts.h2]\naddress = \"10.0.0.2/24\"\n\
             [[links]]\nends = [\"h1\", \"h2\"]\nboth = {{ rate = \"10mbit\", delay = \"1ms\" }}\n[[flows]]\nname = \"f\"\n\
             from = \"h1\"\nto = \"h2\"\nkind = \"udp\"\nrate = \"20mbit\"\npacket = \"1250B\"\nsize = \"500kB\"\n"
        );
        support::run(&text, &HostDefaults::default())
    };
    let outcome = of("nic = { tx_queue = 10 }");
    let row = last(&outcome);
    let missing = row.datagrams_sent.unwrap() - row.datagrams_received.unwrap();
    // Half of the 400 datagrams, except the queue's content.
    assert!((180..=200).contains(&missing), "{missing}");
    let dropped = TransmitQueueDrops { host: "h1".into(), packets: missing as u64 };
    assert_eq!((outcome.transmit_queue_drops, outcome.unresolved), (vec![dropped], vec![]));
    assert_eq!(of("").transmit_queue_drops, []);
}

#[test]
fn counts_loss_duplication_and_reordering_separately() {
    let of = |forward: &str| run(forward, "rate = \"8mbit\"\npacket = \"1000B\"");
    let clean = of("delay = \"20ms\"");
    let row = last(&clean);
    assert_eq!((row.min_owd_us, row.max_owd_us, row.jitter_us), (Some(20_000), Some(40_000), Some(0)));
    assert_eq!(
        clean.flows[2].owd_us,
        Some(20_000),
        "only the first datagrams waited for address resolution: {:?}",
        clean.flows[0].owd_us
    );
    let lossy = of("delay = \"20ms\", loss = \"2%\"");
    assert!((loss(last(&lossy)) - 0.02).abs() < 0.005, "{}", loss(last(&lossy)));
    let doubled = of("delay = \"20ms\", duplicate = \"5%\"");
    let duplicated = last(&doubled).datagrams_duplicated.unwrap();
    assert!((400..=600).contains(&duplicated), "{duplicated} of 10,000");
    assert_eq!(last(&doubled).datagrams_lost, Some(0));
    let mixed = of("delay = \"20ms\", jitter = \"4ms\", jitter_reorders = true");
    let row = last(&mixed);
    assert!(row.datagrams_reordered.unwrap() > 1_000 && row.datagrams_duplicated == Some(0), "{row:?}");
    // The mean difference of two uniform delays over 8 ms is a third of that.
    assert!((row.jitter_us.unwrap() as f64 / 2_667.0 - 1.0).abs() < 0.4, "{:?}", row.jitter_us);
}

#[test]
fn a_flow_with_a_size_ends_with_its_last_datagram() {
    let outcome = run("delay = \"20ms\"", "rate = \"8mbit\"\npacket = \"1000B\"\nsize = \"100500B\"");
    let end = &outcome.flow_totals[0];
    assert_eq!((end.bytes, end.started), (100_500, Some(Instant::ZERO)));
    assert_eq!(end.ended, Some(Instant::from_millis(120)), "the 101st is sent after 100 ms and takes 20 ms");
    let lossy = run("loss = \"5%\"", "rate = \"8mbit\"\npacket = \"1000B\"\nsize = \"1MB\"");
    assert!(
        lossy.flow_totals[0].bytes < 1_000_000 && lossy.duration < Time::from_nanos(1_100_000_000),
        "{lossy:?}"
    );
}

#[test]
fn bursts_have_the_rate_and_nothing_is_sent_in_pauses() {
    let outcome = run("delay = \"1ms\"", "rate = \"80mbit\"\non = \"200ms\"\noff = \"300ms\"");
    let rates: Vec<i64> = outcome.flows.iter().filter_map(|row| row.goodput_bps).collect();
    let silent = rates.iter().filter(|rate| **rate == 0).count();
    // Two of five samples: the last datagram of a burst arrives a millisecond into the third.
    assert!((39..=41).contains(&silent), "{silent} of {}", rates.len());
    assert!((second_half_bps(&outcome) / 32e6 - 1.0).abs() < 0.001, "{}", second_half_bps(&outcome));
    let random = |seed: u64| {
        let flow = "kind = \"udp\"\nrate = \"80mbit\"\non = \"20ms\"\noff = \"30ms\"\nrandom = true";
        let top = format!("duration = \"10s\"\nsample = \"100ms\"\nseed = {seed}");
        Path { top: &top, flows: &[flow], ..Path::default() }.run()
    };
    assert_eq!(random(1), random(1));
    assert_ne!(random(1).flows, random(2).flows);
    assert!((second_half_bps(&random(1)) / 32e6 - 1.0).abs() < 0.25, "{}", second_half_bps(&random(1)));
}

#[test]
fn a_large_datagram_is_lost_with_any_of_its_fragments() {
    let whole = run("delay = \"1ms\"", "rate = \"100mbit\"\npacket = \"8000B\"");
    assert_eq!(last(&whole).datagrams_lost, Some(0));
    let lossy = run("delay = \"1ms\", loss = \"1%\"", "rate = \"100mbit\"\npacket = \"8000B\"");
    // Six fragments each.
    assert!((loss(last(&lossy)) - (1.0 - 0.99f64.powi(6))).abs() < 0.01, "{}", loss(last(&lossy)));
}
