//! Hosts whose packets take time: turnaround, and costs against their closed form.

use crate::support::{self, Path};
use model::{HostCost, HostLimit, HostRole, InterruptModeration, PacketStream};
use sim::{HostDefaults, Outcome};
use units::{BitRate, Time};

/// Two hosts and a link of 1 Gb/s and 2 ms (or other keys of the link); `h1` and `h2` have keys of the hosts,
/// `flow` of the flow.
fn run(seconds: u32, link: &str, [h1, h2]: [&str; 2], flow: &str) -> Outcome {
    let text = format!(
        r#"
duration = "{seconds}s"
sample = "20ms"
[hosts."*"]
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 4000000 16000000", "net.ipv4.tcp_wmem" = "4096 4000000 16000000" }}
[hosts.h1]
address = "10.0.0.1/8"
{h1}
[hosts.h2]
address = "10.0.0.2/8"
{h2}
[[links]]
ends = ["h1", "h2"]
both = {{ {link} }}
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
{flow}
"#
    );
    support::run(&text, &HostDefaults::default())
}

/// Goodput over the second half, bit/s.
fn steady_bps(outcome: &Outcome) -> f64 {
    let half = outcome.duration.as_nanos() as i64 / 2000;
    let rows: Vec<_> = outcome.flows.iter().filter(|row| row.time_us > half).collect();
    rows.iter().filter_map(|row| row.goodput_bps).sum::<i64>() as f64 / rows.len() as f64
}

/// The share of the second half in which a host's processor was busy.
fn processor_busy(outcome: &Outcome, host: &str) -> f64 {
    let load = outcome.hosts.iter().find(|load| load.host == host).unwrap();
    let (middle, last) = (load.samples[load.samples.len() / 2], *load.samples.last().unwrap());
    (last.processor.0 - middle.processor.0) as f64 / 1e3 / last.time.since(middle.time).as_nanos() as f64
}

const GIGABIT: &str = "rate = \"1gbit\", delay = \"1ms\", overhead = 38, queue = \"10000p\"";
/// Linux 2.4: single segments, an ACK for two.
const SINGLE: PacketStream =
    PacketStream { frames: 1, received_as: 1, payload: 1448, frame_bytes: 1500, acks: 0.5, ack_bytes: 52 };
const OF_2003: HostCost = HostCost {
    per_packet: 4e-6,
    per_frame: 0.0,
    per_byte: 3e-9,
    per_interrupt: 5e-6,
    rx: InterruptModeration { delay: 0.0, frames: None },
    tx: InterruptModeration { delay: 0.0, frames: None },
    bus: Some(BitRate(4_200_000_000)),
};

#[test]
fn a_turnaround_delays_each_echo_at_both_hosts() {
    let echo = |turnaround: &str| {
        let host = format!("turnaround = \"{turnaround}\"");
        let outcome = run(2, "delay = \"1ms\"", [&host, &host], "kind = \"ping\"");
        let rtts: Vec<i64> = outcome.flows.iter().filter_map(|row| row.srtt_us).collect();
        (*rtts.iter().min().unwrap(), rtts[0])
    };
    assert_eq!(echo("0s"), (2000, 4000));
    // The first echo waits for an address resolution, which the hosts handle too.
    assert_eq!(echo("300us"), (2600, 5200));
}

#[test]
fn a_turnaround_of_one_host_is_in_the_round_trip_time_of_tcp() {
    let min_rtt = |hosts| {
        let outcome = run(2, GIGABIT, hosts, "");
        outcome.flows.iter().filter_map(|row| row.min_rtt_us).min().unwrap()
    };
    let (none, one) = (min_rtt(["", ""]), min_rtt(["", "turnaround = \"500us\""]));
    assert!((450..=550).contains(&(one - none)), "{none} {one}");
}

/// The independent reference is the closed form, whose own tests verify its algebra.
#[test]
fn the_slower_host_limits_a_flow_as_the_closed_form_predicts() {
    let moderated = InterruptModeration { delay: 64e-6, frames: None };
    let four = InterruptModeration { delay: 640e-6, frames: Some(4) };
    let cases = [
        ("cost = \"server-2003\"", OF_2003),
        (
            "cost = { preset = \"server-2003\", per_byte = \"5ns\", rx_delay = \"64us\", tx_delay = \"64us\" }",
            HostCost { per_byte: 5e-9, rx: moderated, tx: moderated, ..OF_2003 },
        ),
        (
            "cost = { preset = \"server-2003\", per_byte = \"5ns\", rx_delay = \"640us\", rx_frames = 4 }",
            HostCost { per_byte: 5e-9, rx: four, ..OF_2003 },
        ),
        (
            "cost = { per_packet = \"2us\", bus = \"600mbit\" }",
            HostCost { per_packet: 2e-6, bus: Some(BitRate(600_000_000)), ..HostCost::default() },
        ),
    ];
    for (key, cost) in cases {
        let costly = format!("kernel = \"2.4\"\n{key}");
        let free = "kernel = \"2.4\"";
        for (role, hosts) in
            [(HostRole::Receiver, [free, costly.as_str()]), (HostRole::Sender, [costly.as_str(), free])]
        {
            let outcome = run(6, GIGABIT, hosts, "cc = \"reno\"");
            let (expected, limit) = cost.ceiling_bps(role, &SINGLE).unwrap();
            let ratio = steady_bps(&outcome) / expected;
            assert!((ratio - 1.0).abs() < 0.02, "{key}, {role:?}: {ratio} of {expected}");
            if limit == HostLimit::Processor {
                let host = if role == HostRole::Sender { "h1" } else { "h2" };
                assert!(processor_busy(&outcome, host) > 0.99, "{key}, {role:?}");
            }
        }
    }
}

/// Super-packets share the cost of a packet among their segments.
#[test]
fn super_packets_and_large_frames_cost_less() {
    let link = "rate = \"100gbit\", delay = \"50us\", queue = \"100000p\"";
    let cost = HostCost { per_packet: 2.5e-6, per_frame: 50e-9, per_byte: 0.2e-9, ..HostCost::default() };
    let keys = "cost = { per_packet = \"2500ns\", per_frame = \"50ns\", per_byte = \"0.2ns\" }";
    let stream =
        |frames, payload, acks| PacketStream { frames, payload, frame_bytes: payload + 52, acks, ..SINGLE };
    let cases = [
        ("", stream(45, 1448, 1.0)),
        ("mtu = 9000", stream(7, 8948, 1.0)),
        ("tso = false\ngro = 1", stream(1, 1448, 0.5)),
    ];
    let mut rates = Vec::new();
    for (extra, stream) in cases {
        let costly = format!("{keys}\n{extra}");
        for (role, hosts) in
            [(HostRole::Receiver, [extra, costly.as_str()]), (HostRole::Sender, [costly.as_str(), extra])]
        {
            let outcome = run(1, link, hosts, "cc = \"reno\"");
            let (expected, _) = cost.ceiling_bps(role, &stream).unwrap();
            let ratio = steady_bps(&outcome) / expected;
            assert!((ratio - 1.0).abs() < 0.05, "{extra}, {role:?}: {ratio} of {expected}");
            rates.push(steady_bps(&outcome));
        }
    }
    assert!(rates[0] > 6.0 * rates[4] && rates[2] > rates[0], "{rates:?}");
}

/// A sender that its own processor limits keeps its data in the send buffer (small queues): its round-trip
/// time stays short.
#[test]
fn a_current_sender_queues_little_data_before_its_processor() {
    let outcome = run(3, GIGABIT, ["cost = { per_frame = \"30us\" }", ""], "");
    let rtts = || outcome.flows.iter().filter_map(|row| row.srtt_us);
    assert!(rtts().max().unwrap() < 20_000, "{:?}", rtts().max());
    let expected = 1448.0 * 8.0 / (30e-6 + 30e-6 / 45.0);
    assert!((steady_bps(&outcome) / expected - 1.0).abs() < 0.03, "{}", steady_bps(&outcome) / expected);
}

/// A device queue behind the processor loses nothing: Linux 2.4 waits for space.
#[test]
fn the_device_queue_behind_a_processor_loses_nothing() {
    for mtu in [1500, 9000] {
        let hosts = format!(
            "kernel = \"2.4\"\nmtu = {mtu}\ntx_queue = 100\nlocal_congestion = false\ncost = \"server-2003\""
        );
        let link = "rate = \"1gbit\", delay = \"5ms\"";
        let outcome = run(8, link, [&hosts, &hosts], "cc = \"reno\"");
        let retransmitted = outcome.flows.iter().filter_map(|row| row.total_retrans_segs).max().unwrap();
        let mbps = steady_bps(&outcome) * 1e-6;
        assert_eq!(retransmitted, 0, "{mtu}");
        let expected = if mtu == 1500 { 640.9 } else { 1000.0 * 8948.0 / 9014.0 };
        assert!((mbps / expected - 1.0).abs() < 0.02, "{mtu}: {mbps}");
    }
}

#[test]
fn a_full_receive_queue_drops_packets() {
    let dropped = |queue: &str| {
        let cost = format!("kernel = \"2.4\"\ncost = {{ preset = \"server-2003\"{queue} }}");
        let outcome = run(4, GIGABIT, ["kernel = \"2.4\"", &cost], "cc = \"reno\"");
        let retransmitted = outcome.flows.iter().filter_map(|row| row.total_retrans_segs).max().unwrap();
        let host = outcome.hosts.iter().find(|load| load.host == "h2").unwrap();
        (host.samples.last().unwrap().dropped, retransmitted, steady_bps(&outcome))
    };
    let (none, with) = (dropped(""), dropped(", rx_queue = 50"));
    assert_eq!((none.0, none.1), (0, 0));
    assert!(with.0 > 0 && with.1 > 0 && with.2 < none.2, "{with:?} {none:?}");
    // Datagrams above the ceiling: at most 1000 wait.
    let flow = "kind = \"udp\"\nrate = \"900mbit\"";
    let outcome = run(2, GIGABIT, ["", "cost = { per_packet = \"20us\" }"], flow);
    let ratio = steady_bps(&outcome) / (1472.0 * 8.0 / 20e-6);
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    assert!(outcome.hosts[0].samples.last().unwrap().dropped > 10_000);
}

/// The same run twice, and a run whose keys are zero, give the same rows.
#[test]
fn costs_of_zero_change_nothing() {
    let zero = "turnaround = \"0s\"\ncost = { per_packet = \"0s\" }";
    let (plain, zeros) = (run(2, GIGABIT, ["", ""], ""), run(2, GIGABIT, [zero, zero], ""));
    assert!(plain == zeros && plain.hosts.is_empty());
    let costly = || run(2, GIGABIT, ["cost = \"server-2003\"", "turnaround = \"40us\""], "");
    assert!(costly() == costly());
}

/// All rows of the flow's samples.
fn samples(outcome: &Outcome) -> Vec<String> {
    outcome.flows.iter().map(|row| format!("{row:?}")).collect()
}

/// Cubic over a queue of 40 packets, which bursts overflow.
fn run_with_keys(keys: &str, defaults: &HostDefaults) -> Outcome {
    let link = "rate = \"100mbit\", delay = \"10ms\", queue = \"40p\"";
    let path = Path {
        top: "duration = \"5s\"",
        hosts: keys,
        forward: link,
        backward: link,
        flows: &["cc = \"cubic\""],
    };
    path.run_with(defaults)
}

#[test]
fn segmentation_in_software_behaves_as_on_hosts_without_offloads() {
    let defaults = HostDefaults::default();
    let without = HostDefaults { segmentation: sim::Segmentation::Host, ..defaults.clone() };
    let software = samples(&run_with_keys("nic = { segmentation = \"software\" }", &defaults));
    assert_eq!(software, samples(&run_with_keys("", &without)));
    assert_ne!(software, samples(&run_with_keys("", &defaults)));
}

#[test]
fn super_packets_are_limited_by_segments() {
    let defaults = HostDefaults::default();
    let single = samples(&run_with_keys("nic = { gso_segs = 1 }", &defaults));
    assert_eq!(single, samples(&run_with_keys("tso = false", &defaults)));
    assert_ne!(single, samples(&run_with_keys("nic = { gso_segs = 4 }", &defaults)));
}

#[test]
fn a_host_has_its_own_ticks() {
    let defaults = HostDefaults::default();
    let fast = HostDefaults { hz: 1000, ..defaults.clone() };
    let keys = "nic = { gro = 1 }\n";
    let own = samples(&run_with_keys(&format!("hz = 1000\n{keys}"), &defaults));
    assert_eq!(own, samples(&run_with_keys(keys, &fast)));
}

/// Two flows between different hosts of one switch, without a common link.
#[test]
fn the_jitter_of_a_host_delays_no_other_host() {
    let samples = |jitter: &str| {
        let text = format!(
            r#"
duration = "2s"
hosts."*".receive_jitter = "0s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
hosts.h3.address = "10.0.0.3/24"
hosts.h4 = {{ address = "10.0.0.4/24", receive_jitter = "{jitter}" }}
switches.names = ["s1"]
[[links]]
ends = ["h1", "s1"]
both = {{ rate = "50mbit", delay = "5ms" }}
[[links]]
ends = ["h2", "s1"]
[[links]]
ends = ["h3", "s1"]
both = {{ rate = "20mbit", delay = "2ms" }}
[[links]]
ends = ["h4", "s1"]
[[flows]]
name = "steady"
from = "h1"
to = "h2"
[[flows]]
name = "disturbed"
from = "h3"
to = "h4"
"#
        );
        let outcome = support::run(&text, &HostDefaults::default());
        let of =
            |name: &str| -> Vec<_> { outcome.flows.iter().filter(|row| row.flow == name).cloned().collect() };
        (of("steady"), of("disturbed"))
    };
    let (steady, disturbed) = samples("0s");
    let (with_jitter, jittered) = samples("50ms");
    assert_eq!(steady, with_jitter);
    assert_ne!(disturbed, jittered);
}

#[test]
fn a_host_has_its_own_jitter() {
    let defaults = HostDefaults::default();
    let none = HostDefaults { receive_jitter: Time::ZERO, ..defaults.clone() };
    for processing in ["", "turnaround = \"15us\"\n"] {
        let own = samples(&run_with_keys(&format!("{processing}receive_jitter = \"0s\"\n"), &defaults));
        assert_eq!(own, samples(&run_with_keys(processing, &none)));
        assert_ne!(own, samples(&run_with_keys(processing, &defaults)));
    }
}
