//! Hosts with different kernels, and transmit queues: Linux 2.4's TCP of 2003 and a current kernel's.

use crate::support;
use sim::{HostDefaults, Outcome};

/// Two hosts, 100 Mb/s and 50 ms: a bandwidth-delay product of 413 packets of 1500 bytes. `hosts` has keys of
/// both hosts, `flow` keys of the TCP flow. A ping flow runs at the same time.
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
    support::run(&text, &HostDefaults::default())
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

/// Payload that the link carries with TCP timestamps, Mb/s.
const FULL_MBPS: f64 = 100.0 * 1448.0 / 1514.0;

/// G-areas: below the bandwidth-delay product throughput is window / RTT and the round-trip time is constant;
/// above it throughput is the bandwidth and the round-trip time is window / bandwidth.
#[test]
fn a_small_window_limits_throughput_and_a_large_one_adds_delay() {
    let hosts = "kernel = \"2.4\"\ntx_queue = 100";
    for (window, area) in [(200.0, 1), (300.0, 1), (450.0, 2), (490.0, 2)] {
        // The window is three quarters of the buffer, which is twice the requested size.
        let requested = window * 1448.0 / 1.5;
        let outcome = run(60, hosts, &format!("cc = \"reno\"\nreceive_buffer = \"{requested:.0}B\""));
        let (mbps, rtt_ms) = last_seconds(&outcome);
        let by_window = window * 1448.0 * 8e-6 / 0.05;
        let queued_ms = window * 1514.0 * 8.0 / 100e6 * 1e3;
        let expected = if area == 1 { (by_window, 50.0) } else { (FULL_MBPS, queued_ms) };
        assert!((mbps / expected.0 - 1.0).abs() < 0.03, "{window}: {mbps} Mb/s, not {}", expected.0);
        assert!((rtt_ms / expected.1 - 1.0).abs() < 0.03, "{window}: {rtt_ms} ms, not {}", expected.1);
        assert_eq!(retransmitted(&outcome), 0, "a full transmit queue loses nothing");
    }
}

/// G-endbuf: with a transmit queue of one bandwidth-delay product and buffers of two, the link is never idle.
#[test]
fn a_transmit_queue_of_one_bdp_keeps_the_link_busy() {
    let flow = "cc = \"reno\"\nreceive_buffer = \"4MB\"";
    let outcome = run(60, "kernel = \"2.4\"\ntx_queue = 413", flow);
    let (mbps, rtt_ms) = last_seconds(&outcome);
    assert!(mbps > 0.99 * FULL_MBPS, "{mbps} Mb/s");
    assert!((52.0..101.0).contains(&rtt_ms), "{rtt_ms} ms");
    assert_eq!(retransmitted(&outcome), 0);
    // With a short queue the window is reduced repeatedly.
    let short = run(60, "kernel = \"2.4\"\ntx_queue = 20", flow);
    let bytes = |outcome: &Outcome| outcome.flow_totals[0].bytes as f64 * 8e-6 / 60.0;
    assert!(bytes(&short) < 0.92 * bytes(&outcome), "{} and {} Mb/s", bytes(&short), bytes(&outcome));
}

/// A full device queue reduces the window in Linux 2.4. With `WAD_IFQ=1` of web100 it only delays the data.
#[test]
fn with_wad_ifq_a_full_device_queue_only_delays_data() {
    let flow = "cc = \"reno\"\nreceive_buffer = \"4MB\"";
    let bytes = |hosts: &str| {
        let outcome = run(60, hosts, flow);
        assert_eq!(retransmitted(&outcome), 0, "nothing is lost, with any setting");
        let cwr = outcome.flows.iter().filter(|row| row.ca_state == Some(2)).count();
        (outcome.flow_totals[0].bytes as f64 * 8e-6 / 60.0, cwr)
    };
    let (reduced, in_cwr) = bytes("kernel = \"2.4-web100\"\ntx_queue = 20");
    assert!(in_cwr > 0);
    for hosts in [
        "kernel = \"2.4-web100\"\ntx_queue = 20\nlocal_congestion = false",
        "kernel = \"2.4-web100\"\ntx_queue = 20\nsysctl = { \"net.ipv4.WAD_IFQ\" = 1 }",
    ] {
        let (mbps, in_cwr) = bytes(hosts);
        assert!(
            mbps > 1.08 * reduced && in_cwr == 0,
            "{hosts}: {mbps} after {reduced} Mb/s, {in_cwr} samples in CWR"
        );
    }
    // Only web100 has the sysctl.
    let (unpatched, _) = bytes("kernel = \"2.4\"\ntx_queue = 20\nsysctl = { \"net.ipv4.WAD_IFQ\" = 1 }");
    assert_eq!(unpatched, reduced);
}

/// `web100_rbufmode=1` tunes the receive buffer, which Linux 2.4 leaves at tcp_rmem's middle value.
#[test]
fn web100_tunes_the_receive_buffer() {
    let bytes = |mode: u8| {
        let hosts = format!(
            "kernel = \"2.4-web100\"\nsysctl = {{ \"net.ipv4.web100_rbufmode\" = {mode}, \
             \"net.ipv4.tcp_rmem\" = \"4096 87380 8000000\", \"net.ipv4.tcp_wmem\" = \"4096 16384 8000000\" }}"
        );
        run(30, &hosts, "cc = \"reno\"").flow_totals[0].bytes as f64 * 8e-6 / 30.0
    };
    let (fixed, tuned) = (bytes(0), bytes(1));
    // 65,535 bytes a round trip of 50 ms are 10.5 Mb/s.
    assert!((8.0..10.6).contains(&fixed) && tuned > 5.0 * fixed, "{fixed} and {tuned} Mb/s");
}

/// The profile's device has its queue of 100 packets without a setting in the scenario.
#[test]
fn web100_has_a_device_queue_of_100_packets_by_default() {
    let text = "[hosts.h1]\naddress = \"10.0.0.1/24\"\nkernel = \"2.4-web100\"\n[hosts.h2]\naddress = \"10.0.0.2/24\"\n\
                kernel = \"2.4-web100\"\ntx_queue = 7\n[[links]]\nends = [\"h1\", \"h2\"]\n";
    let scenario = scenario::ScenarioFile::parse("s", text).unwrap().resolve(None, &[]).unwrap();
    let queues: Vec<_> = scenario.hosts.iter().map(|host| host.nic.tx_queue).collect();
    assert_eq!(queues, [Some(100), Some(7)]);
}

/// TCP Small Queues: Linux 6 keeps its data in the socket, so the transmit queue stays short with any window.
#[test]
fn tcp_small_queues_keep_the_delay_short() {
    let outcome = run(20, "tx_queue = 100", "cc = \"reno\"\nreceive_buffer = \"4MB\"");
    let (mbps, rtt_ms) = last_seconds(&outcome);
    assert!(mbps > 0.99 * FULL_MBPS, "{mbps} Mb/s");
    let cwnd = outcome.flows.iter().filter_map(|row| row.snd_cwnd_segs).max().unwrap();
    assert!(cwnd > 800, "a window of {cwnd}");
    // The queue holds a millisecond of the pacing rate, and a super-packet is being sent.
    assert!((50.0..65.0).contains(&rtt_ms), "{rtt_ms} ms");
    assert_eq!(retransmitted(&outcome), 0);
}

/// Grid DT grows by A segments a round trip; under Linux 2.4 by half of that, which counts ACKs, and ACKs are
/// delayed.
#[test]
fn linux_24_counts_acks_and_linux_6_segments() {
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

/// A sender of 2003 and a current receiver: the receive window grows as with current kernels.
#[test]
fn sender_and_receiver_may_have_different_kernels() {
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
    let outcome = support::run(text, &HostDefaults::default());
    let rows = || outcome.flows.iter().filter(|row| row.flow == "bulk");
    let window = rows().filter_map(|row| row.snd_wnd_bytes).max().unwrap();
    assert!(window > 1_000_000, "{window}");
    let other = support::run(&text.replace("\"6.18\"", "\"2.4\""), &HostDefaults::default());
    let window = other.flows.iter().filter_map(|row| row.snd_wnd_bytes).max().unwrap();
    assert!((60_000..65_536).contains(&window), "{window}");
}

/// SACKed segments share memory, so a recovery does not fill the send buffer. 6.18's send buffer is
/// effectively smaller than 6.1's if each segment is a packet, but gives the same goodput.
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
        support::run(&text, &HostDefaults::default()).flow_totals[0].bytes as f64 * 8e-6 / 60.0
    };
    let (old, new) = (goodput("6.1"), goodput("6.18"));
    assert!(old > 70.0 && new > 0.9 * old, "{old} and {new} Mb/s");
}

/// Li's hosts (U-web100): 1 Gb/s back to back, 150 us, iperf's writes of 8 KiB; `requested` KiB of send
/// buffer.
fn back_to_back(seconds: u32, requested: u32, hosts: &str, flow: &str) -> Outcome {
    let text = format!(
        r#"
duration = "{seconds}s"
sample = "100us"
[hosts."*"]
kernel = "2.4-web100"
tx_queue = 356
{hosts}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
both = {{ rate = "1gbit", delay = "75us", overhead = 38 }}
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
send_buffer = "{requested}KiB"
receive_buffer = "8192KiB"
{flow}
"#
    );
    support::run(&text, &HostDefaults::default())
}

/// U-web100: a sender whose buffer is the limit never fills its window, so Linux 2.4 reduces it once per
/// timeout of 210 ms and slow start raises it again: about 5 times a second, and ssthresh remains infinite.
#[test]
fn a_small_send_buffer_keeps_linux_2_4_in_slow_start() {
    for requested in [20, 82] {
        let outcome = back_to_back(2, requested, "", "write_size = \"8KiB\"");
        let cwnds: Vec<i64> = outcome.flows.iter().filter_map(|row| row.snd_cwnd_segs).collect();
        let reductions = cwnds.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((8..=10).contains(&reductions), "{requested}k: {reductions} reductions in 2 s");
        assert!(cwnds.windows(2).any(|pair| pair[1] > pair[0] && pair[0] > 15), "the window grows again");
        assert!(outcome.flows.iter().all(|row| row.snd_ssthresh_segs.is_none()), "slow start never ends");
        assert_eq!(retransmitted(&outcome), 0);
    }
}

/// U-dips: the writer is woken when a third of its buffer is free. Of 11 segments 6 must be acknowledged,
/// which are three ACKs of two segments; of 10 segments 4, which are two. If each segment is acknowledged
/// alone, there is no dip.
#[test]
fn a_larger_send_buffer_may_lower_the_goodput() {
    let bytes = |requested, flow: &str| back_to_back(1, requested, "", flow).flow_totals[0].bytes as f64;
    let ratio = |flow: &str| bytes(9, flow) / bytes(8, flow);
    assert!((0.75..0.9).contains(&ratio("write_size = \"8KiB\"")), "{}", ratio("write_size = \"8KiB\""));
    assert!((0.75..0.9).contains(&ratio("")), "{}", ratio(""));
    assert!(ratio("write_size = \"1448B\"") > 1.05, "{}", ratio("write_size = \"1448B\""));
}

/// Writes that end with a partial segment fill the send buffer beyond its size. Linux 6.12.117 in a guest,
/// 100 Mb/s x 1.5 ms, buffers of 5 to 132 KiB: 66 to 76 Mb/s with a round-trip time of 53 to 61 ms, of a full
/// queue of 1000 packets.
#[test]
fn writes_that_end_with_a_partial_segment_overfill_the_send_buffer() {
    let run = |kernel: &str, requested: u32, write: &str| {
        let text = format!(
            r#"
duration = "3s"
[hosts."*"]
kernel = "{kernel}"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
both = {{ rate = "100mbit", delay = "750us", overhead = 38 }}
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
send_buffer = "{requested}KiB"
receive_buffer = "8MiB"
write_size = "{write}"
"#
        );
        let outcome = support::run(&text, &HostDefaults::default());
        let queued = outcome.flows.iter().filter_map(|row| row.wmem_queued_bytes).max().unwrap_or(0);
        (outcome.flow_totals[0].bytes as f64 * 8e-6 / 3.0, queued)
    };
    for requested in [5, 132] {
        let (goodput, queued) = run("6.12", requested, "8KiB");
        assert!((60.0..85.0).contains(&goodput) && queued > 1_000_000, "{requested}: {goodput}, {queued}");
    }
    // Whole segments, writes of more than the buffer, and Linux 2.4, which fills no packet beyond a segment.
    for (kernel, write) in [("6.12", "7240B"), ("6.12", "64KiB"), ("2.4", "8KiB")] {
        let (_, queued) = run(kernel, 5, write);
        assert!(queued < 80_000, "{kernel}, {write}: {queued}");
    }
}

/// U-autotune: buffer sizes that the program requests end autotuning, in both modes of web100.
#[test]
fn requested_buffers_are_not_autotuned() {
    let tuned = "sysctl = { \"net.ipv4.web100_rbufmode\" = 1, \"net.ipv4.web100_sbufmode\" = 1 }";
    let [off, on] = ["", tuned].map(|hosts| back_to_back(1, 82, hosts, "write_size = \"8KiB\""));
    assert_eq!((off.flow_totals[0].bytes, &off.flows), (on.flow_totals[0].bytes, &on.flows));
    assert!(on.flows.iter().all(|row| row.sndbuf_bytes == Some(2 * 82 * 1024)));
}
