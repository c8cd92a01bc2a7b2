//! UDT, Tsunami and QUIC from end to end, alone and beside TCP.

use schema::EventKind;
use sim::Outcome;

use crate::support::Path;

/// A path of 100 Mb/s and 40 ms with a queue of one bandwidth-delay product; `loss` is a share.
fn path(loss: f64, top: &str, flows: &[&str]) -> Outcome {
    let forward = format!("rate = \"100mbit\", delay = \"20ms\", queue = \"500kB\", loss = {loss:?}");
    let top = format!("duration = \"20s\"\nfixed_neighbours = true\n{top}");
    Path { top: &top, forward: &forward, backward: "delay = \"20ms\"", flows, ..Path::default() }.run()
}

/// A flow's goodput in Mb/s over its whole duration.
fn goodput(outcome: &Outcome, flow: usize) -> f64 {
    let totals = &outcome.flow_totals[flow];
    let (Some(from), Some(to)) = (totals.started, totals.ended) else { panic!("{totals:?}") };
    totals.bytes as f64 * 8.0 / to.saturating_since(from).as_secs_f64() / 1e6
}

fn count(outcome: &Outcome, kind: EventKind) -> i64 {
    outcome.events.iter().filter(|event| event.kind == kind).map(|event| event.value).sum()
}

#[test]
fn tsunami_reaches_its_target_rate() {
    let outcome = path(0.0, "", &["kind = \"tsunami\"\nrate = \"80mbit\""]);
    let got = goodput(&outcome, 0);
    assert!((70.0..=80.1).contains(&got), "{got}");
    let row = outcome.flows.last().unwrap();
    assert_eq!(row.total_retrans_segs, Some(0), "{row:?}");
    // Blocks fill the MTU: 1500 - 20 - 8 - 6.
    assert_eq!(row.snd_mss_bytes, Some(1466));
    assert!((40_000..45_000).contains(&row.min_rtt_us.unwrap()), "{row:?}");
}

#[test]
fn tsunami_tolerates_losses_below_its_threshold_and_repairs_all() {
    let flow = "kind = \"tsunami\"\nrate = \"80mbit\"\nsize = \"100MB\"";
    let outcome = path(0.01, "", &[flow]);
    assert_eq!(outcome.flow_totals[0].bytes, 100_000_000);
    let got = goodput(&outcome, 0);
    assert!(got > 65.0, "{got}");
    let lost = count(&outcome, EventKind::DropLoss);
    let retransmitted = count(&outcome, EventKind::Retransmit);
    assert!(lost > 500 && retransmitted >= lost, "{lost} {retransmitted}");
    assert!(count(&outcome, EventKind::Nak) >= lost);
    assert!(outcome.flow_totals[0].ended.unwrap() < units::Instant::from_secs(16));
}

#[test]
fn udt_fills_a_clean_path_and_slows_down_for_random_losses() {
    let clean = path(0.0, "", &["kind = \"udt\""]);
    let got = goodput(&clean, 0);
    assert!(got > 70.0, "{got}");
    let row = clean.flows.last().unwrap();
    assert_eq!(row.snd_mss_bytes, Some(1456));
    assert!((40_000..45_000).contains(&row.min_rtt_us.unwrap()), "{row:?}");
    assert!(row.srtt_us.unwrap() >= 40_000 && row.pacing_rate_bps.is_some(), "{row:?}");
    let lossy = path(0.003, "", &["kind = \"udt\""]);
    assert!(goodput(&lossy, 0) < 0.6 * got, "{}", goodput(&lossy, 0));
    assert!(count(&lossy, EventKind::Nak) > 0 && count(&lossy, EventKind::Lost) > 0);
    let tolerant = path(0.003, "", &["kind = \"udt\"\ntolerate_loss = \"1%\""]);
    assert!(goodput(&tolerant, 0) > 80.0, "{}", goodput(&tolerant, 0));
    let fixed = path(0.003, "", &["kind = \"udt\"\nrate = \"60mbit\"\nsize = \"50MB\""]);
    assert_eq!(fixed.flow_totals[0].bytes, 50_000_000);
    // 1456 of 1500 bytes are payload.
    assert!((55.0..58.3).contains(&goodput(&fixed, 0)), "{}", goodput(&fixed, 0));
}

#[test]
fn the_round_trip_times_of_udt_are_measured_ones() {
    let forward = "rate = \"100mbit\", delay = \"1ms\", queue = \"500kB\"";
    let flows = &["kind = \"udt\"\nrate = \"20mbit\""][..];
    let top = "duration = \"2s\"\nfixed_neighbours = true\n";
    let outcome = Path { top, forward, backward: "delay = \"1ms\"", flows, ..Path::default() }.run();
    let times: Vec<i64> = outcome.flows.iter().filter_map(|row| row.srtt_us).collect();
    assert!(!times.is_empty());
    // UDT itself begins with 100 ms.
    assert!(times.iter().all(|time| (2_000..4_000).contains(time)), "{times:?}");
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    let flows =
        ["kind = \"udt\"", "kind = \"tsunami\"\nrate = \"30mbit\"", "cc = \"cubic\"", "kind = \"quic\""];
    let short = |seed: &str| path(0.001, seed, &flows);
    let (one, same, other) = (short("seed = 7"), short("seed = 7"), short("seed = 8"));
    assert!(one == same);
    assert!(one.flows != other.flows);
    for (index, flow) in flows.iter().enumerate() {
        assert!(goodput(&one, index) > 1.0, "{flow}: {}", goodput(&one, index));
    }
}

#[test]
fn large_datagrams_are_fragmented_for_a_smaller_mtu() {
    for flow in [
        "kind = \"udt\"",
        "kind = \"tsunami\"\nrate = \"20mbit\"",
        "kind = \"tsunami\"\nrate = \"20mbit\"\nblock = \"4000B\"",
    ] {
        let text = format!(
            r#"
            duration = "10s"
            [hosts."*"]
            mtu = 3000
            [hosts.h1]
            address = "10.0.1.1/24"
            gateway = "10.0.1.9"
            [hosts.h2]
            address = "10.0.2.2/24"
            gateway = "10.0.2.9"
            [routers.r1]
            interfaces = {{ eth0 = "10.0.1.9/24", eth1 = "10.0.2.9/24" }}
            [[links]]
            ends = ["h1", "r1"]
            both = {{ rate = "100mbit" }}
            [[links]]
            ends = ["r1", "h2"]
            both = {{ rate = "40mbit", delay = "10ms", queue = "200kB", mtu = 1500 }}
            [[flows]]
            name = "f1"
            from = "h1"
            to = "h2"
            size = "8MB"
            {flow}
            "#
        );
        let outcome = crate::support::run(&text, &sim::HostDefaults::default());
        assert_eq!(outcome.flow_totals[0].bytes, 8_000_000, "{flow}");
    }
}

#[test]
fn sabul_uses_a_path_without_losses_and_stalls_after_each_loss() {
    let got = |loss: f64| goodput(&path(loss, "", &["kind = \"udt\"\ncontrol = \"sabul\""]), 0);
    let (clean, lossy) = (got(0.0), got(0.003));
    assert!(clean > 60.0, "{clean}");
    assert!(lossy < 0.8 * clean, "{lossy} of {clean}");
}

#[test]
fn quic_fills_a_clean_path_and_retransmits_the_data_of_lost_packets() {
    let clean = path(0.0, "", &["kind = \"quic\""]);
    let got = goodput(&clean, 0);
    // 1435 of 1500 bytes are data: 95.7 Mb/s.
    assert!((85.0..95.8).contains(&got), "{got}");
    let row = clean.flows.last().unwrap();
    assert_eq!(row.snd_mss_bytes, Some(1435));
    assert!((40_000..45_000).contains(&row.min_rtt_us.unwrap()), "{row:?}");
    assert!(row.srtt_us.unwrap() >= 40_000 && row.snd_cwnd_segs.unwrap() > 300, "{row:?}");
    let sized = path(0.003, "", &["kind = \"quic\"\nsize = \"5MB\""]);
    assert_eq!(sized.flow_totals[0].bytes, 5_000_000);
    let (lost, dropped) = (count(&sized, EventKind::Lost), count(&sized, EventKind::DropLoss));
    assert!(lost >= 5 && dropped >= 5, "{lost} {dropped}");
}

#[test]
fn quic_has_the_congestion_control_of_its_flow() {
    let got = |cc: &str| goodput(&path(0.003, "", &[&format!("kind = \"quic\"\ncc = \"{cc}\"")]), 0);
    let (cubic, bbr) = (got("cubic"), got("bbr"));
    assert!(cubic < 20.0 && bbr > 3.0 * cubic, "{cubic} {bbr}");
}

#[test]
fn a_small_flow_control_window_limits_quic() {
    let outcome = path(0.0, "", &["kind = \"quic\"\nreceive_buffer = \"100kB\""]);
    // 100 kB in 40 ms are 20 Mb/s.
    let got = goodput(&outcome, 0);
    assert!((14.0..20.1).contains(&got), "{got}");
}

/// On 1 kb/s the last acknowledgement is that of the handshake for more than a minute after data was sent.
#[test]
fn a_slow_path_does_not_use_the_flow_control_window_of_quic() {
    let forward = "rate = \"1kbit\", delay = \"10ms\"";
    let top = "duration = \"60s\"\nfixed_neighbours = true\nsample = \"1s\"";
    let flows = ["kind = \"quic\""];
    let outcome = Path { top, forward, backward: forward, flows: &flows, ..Path::default() }.run();
    let sent: Vec<_> = outcome.flows.iter().filter(|row| row.unacked_segs > Some(5)).collect();
    assert!(!sent.is_empty(), "{:?}", outcome.flows.last());
    assert!(sent.iter().all(|row| row.snd_wnd_bytes > Some(60_000_000)), "{:?}", sent[0]);
}

/// Runs a stream of 60 Mb/s. Returns the play-out counts of its receiver.
fn stream(loss: f64, keys: &str) -> bulk::stream::PlayoutCounts {
    let outcome = path(loss, "", &[&format!("kind = \"stream\"\nrate = \"60mbit\"\n{keys}")]);
    let counts = outcome.flow_totals[0].playout.unwrap();
    assert!(counts.due > 90_000, "{counts:?}");
    counts
}

#[test]
fn a_stream_arrives_in_time_unless_packets_are_lost_or_the_path_is_full() {
    let clean = stream(0.0, "");
    assert_eq!((clean.in_time, clean.longest_gap), (clean.due, 0));
    let lossy = stream(0.01, "");
    let missing = 1.0 - lossy.in_time as f64 / lossy.due as f64;
    assert!((0.008..0.012).contains(&missing) && lossy.gaps[0] > 500, "{lossy:?}");
    let repaired = stream(0.01, "repair = true");
    assert!(repaired.due - repaired.in_time < repaired.due / 10_000, "{repaired:?}");
    // A retransmission takes a round trip of 40 ms.
    let too_late = stream(0.01, "repair = true\ndeadline = \"20ms\"");
    assert!(too_late.due - too_late.in_time > too_late.due / 200, "{too_late:?}");
    let outcome = path(0.0, "", &["kind = \"stream\"\nrate = \"120mbit\"\ndeadline = \"200ms\""]);
    let full = outcome.flow_totals[0].playout.unwrap();
    let share = full.in_time as f64 / full.due as f64;
    assert!((0.7..0.9).contains(&share), "{full:?}");
}
