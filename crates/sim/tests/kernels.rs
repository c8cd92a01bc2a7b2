//! Hosts with kernels of their own, and transmit queues: what 2003's stack makes of them, and today's.

use crate::support;
use sim::{Machine, Outcome};

/// Two hosts, 100 Mb/s and 50 ms: 413 packets of 1500 bytes are a bandwidth-delay product. `hosts` is what is said of both,
/// `flow` of the flow; echoes run beside it.
fn run(seconds: u32, hosts: &str, flow: &str) -> Outcome {
    let text = format!(
        r#"
duration = "{seconds}s"
sample = "100ms"
[hosts."*"]
{hosts}
[hosts.h1]
address = "10.0.0.1/8"
[hosts.h2]
address = "10.0.0.2/8"
[[links]]
ends = ["h1", "h2"]
forward = {{ rate = "100mbit", delay = "25ms" }}
backward = {{ delay = "25ms" }}
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
send_buffer = "4MB"
{flow}
[[flows]]
name = "echo"
kind = "ping"
from = "h1"
to = "h2"
"#
    );
    support::run(&text, &Machine::default())
}

/// Goodput in Mb/s and the echoes' mean round-trip time in ms over the last ten seconds.
fn last_seconds(outcome: &Outcome) -> (f64, f64) {
    let from = outcome.flows.last().unwrap().time_us - 10_000_000;
    let mean = |flow: &str, of: fn(&schema::FlowSample) -> Option<i64>| {
        let rows = outcome.flows.iter().filter(|row| row.flow == flow && row.time_us > from);
        let values: Vec<i64> = rows.filter_map(of).collect();
        values.iter().sum::<i64>() as f64 / values.len() as f64
    };
    (mean("bulk", |row| row.goodput_bps) * 1e-6, mean("echo", |row| row.srtt_us) * 1e-3)
}

fn retransmitted(outcome: &Outcome) -> i64 {
    let rows = outcome.flows.iter().filter(|row| row.flow == "bulk");
    rows.filter_map(|row| row.total_retrans_segs).max().unwrap()
}

/// What the link carries of payload with timestamps, Mb/s.
const FULL: f64 = 100.0 * 1448.0 / 1514.0;

/// G-areas: below the bandwidth-delay product throughput is window / RTT and the round-trip time is constant; above it
/// throughput is the bandwidth and the round-trip time is window / bandwidth.
#[test]
fn the_window_decides_on_throughput_or_on_delay() {
    let hosts = "kernel = \"2.4\"\ntx_queue = 100";
    for (window, area) in [(200.0, 1), (300.0, 1), (450.0, 2), (490.0, 2)] {
        // Three quarters of twice what is asked for.
        let asked = window * 1448.0 / 1.5;
        let outcome = run(60, hosts, &format!("cc = \"reno\"\nreceive_buffer = \"{asked:.0}B\""));
        let (mbps, rtt_ms) = last_seconds(&outcome);
        let by_window = window * 1448.0 * 8e-6 / 0.05;
        let queued_ms = window * 1514.0 * 8.0 / 100e6 * 1e3;
        let expected = if area == 1 { (by_window, 50.0) } else { (FULL, queued_ms) };
        assert!((mbps / expected.0 - 1.0).abs() < 0.03, "{window}: {mbps} Mb/s, not {}", expected.0);
        assert!((rtt_ms / expected.1 - 1.0).abs() < 0.03, "{window}: {rtt_ms} ms, not {}", expected.1);
        assert_eq!(retransmitted(&outcome), 0, "a full queue at home loses nothing");
    }
}

/// G-endbuf: the queue holds a bandwidth-delay product, buffers twice that: the link is never idle.
#[test]
fn a_queue_of_one_bdp_at_home_keeps_the_link_busy() {
    let flow = "cc = \"reno\"\nreceive_buffer = \"4MB\"";
    let outcome = run(60, "kernel = \"2.4\"\ntx_queue = 413", flow);
    let (mbps, rtt_ms) = last_seconds(&outcome);
    assert!(mbps > 0.99 * FULL, "{mbps} Mb/s");
    assert!((52.0..101.0).contains(&rtt_ms), "{rtt_ms} ms");
    assert_eq!(retransmitted(&outcome), 0);
    // A short queue reduces the window again and again.
    let short = run(60, "kernel = \"2.4\"\ntx_queue = 20", flow);
    let bytes = |outcome: &Outcome| outcome.flow_ends[0].bytes as f64 * 8e-6 / 60.0;
    assert!(bytes(&short) < 0.92 * bytes(&outcome), "{} and {} Mb/s", bytes(&short), bytes(&outcome));
}

/// Linux 6 leaves its data in the socket: the queue stays short, whatever the window.
#[test]
fn small_queues_keep_the_delay_short() {
    let outcome = run(20, "tx_queue = 100", "cc = \"reno\"\nreceive_buffer = \"4MB\"");
    let (mbps, rtt_ms) = last_seconds(&outcome);
    assert!(mbps > 0.99 * FULL, "{mbps} Mb/s");
    let cwnd = outcome.flows.iter().filter_map(|row| row.snd_cwnd_segs).max().unwrap();
    assert!(cwnd > 800, "a window of {cwnd}");
    // A millisecond of the pacing rate and a super-packet being sent.
    assert!((50.0..65.0).contains(&rtt_ms), "{rtt_ms} ms");
    assert_eq!(retransmitted(&outcome), 0);
}

/// Grid DT grows by A segments a round trip, under Linux 2.4 by half of that, since ACKs are counted and delayed.
#[test]
fn controllers_are_told_of_acks_not_of_segments() {
    let growth = |kernel: &str, cc: &str| {
        let flow =
            format!("cc = {{ name = \"griddt\", initial_ssthresh = 100, {cc} }}\nreceive_buffer = \"4MB\"");
        let outcome = run(12, &format!("kernel = \"{kernel}\""), &flow);
        let rows = outcome.flows.iter().filter(|row| row.flow == "bulk");
        let cwnd: Vec<i64> = rows.filter_map(|row| row.snd_cwnd_segs).collect();
        // From 2 s to 11 s, in round trips of 50 ms; the link is not full.
        (cwnd[110] - cwnd[20]) as f64 / (9.0 / 0.05)
    };
    for (kernel, per_segment) in [("2.4", 0.5), ("6.1", 1.0)] {
        let (one, more) = (growth(kernel, "a = 1"), growth(kernel, "a = 1.5"));
        assert!((one / per_segment - 1.0).abs() < 0.04, "{kernel}: {one} segments a round trip");
        assert!((more / one - 1.5).abs() < 0.06, "{kernel}: {more} to {one}");
    }
}

/// A sender of 2003 and a receiver of today: the receiver's window opens as today's does.
#[test]
fn kernels_may_differ_between_the_ends() {
    let text = r#"
duration = "20s"
sample = "100ms"
[hosts.h1]
address = "10.0.0.1/8"
kernel = "2.4"
[hosts.h2]
address = "10.0.0.2/8"
kernel = "6.18"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "100mbit", delay = "10ms" }
backward = { delay = "10ms" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
send_buffer = "2MB"
"#;
    let outcome = support::run(text, &Machine::default());
    let rows = || outcome.flows.iter().filter(|row| row.flow == "bulk");
    let window = rows().filter_map(|row| row.snd_wnd_bytes).max().unwrap();
    assert!(window > 1_000_000, "{window}");
    let other = support::run(&text.replace("\"6.18\"", "\"2.4\""), &Machine::default());
    let window = other.flows.iter().filter_map(|row| row.snd_wnd_bytes).max().unwrap();
    assert!((60_000..65_536).contains(&window), "{window}");
}

/// What was selectively acknowledged shares memory, so that a recovery does not fill the send buffer: 6.18's buffer, which
/// is the smaller one where each segment is a packet, carries what 6.1's does.
#[test]
fn a_recovery_does_not_starve_the_sender() {
    let goodput = |kernel: &str| {
        let text = format!(
            r#"
duration = "60s"
[hosts."*"]
kernel = "{kernel}"
tso = false
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 72000000", "net.ipv4.tcp_wmem" = "4096 16384 72000000" }}
[hosts.h1]
address = "10.0.0.1/8"
[hosts.h2]
address = "10.0.0.2/8"
[[links]]
ends = ["h1", "h2"]
forward = {{ rate = "100mbit", delay = "100ms", queue = "83p" }}
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
"#
        );
        support::run(&text, &Machine::default()).flow_ends[0].bytes as f64 * 8e-6 / 60.0
    };
    let (old, new) = (goodput("6.1"), goodput("6.18"));
    assert!(old > 70.0 && new > 0.9 * old, "{old} and {new} Mb/s");
}
