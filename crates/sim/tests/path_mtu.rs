//! Links with a smaller MTU than the hosts': routers report it (RFC 1191, RFC 8201), switches do not (RFC
//! 2923).

use crate::support::Native;
use scenario::ScenarioFile;
use schema::EventKind;
use sim::{HostDefaults, Outcome};

/// h1, a switch or router, and h2: 20 Mb/s and 10 ms each way. The second link has an MTU of 1400 bytes.
fn run(middle: &str, hosts: &str, addresses: [&str; 2], flows: &str) -> Outcome {
    let [one, two] = addresses;
    let text = format!(
        r#"
duration = "12s"
{hosts}
[hosts.h1]
address = "{one}"
[hosts.h2]
address = "{two}"
[{middle}]
names = ["m1"]
[[links]]
ends = ["h1", "m1"]
both = {{ rate = "1gbit" }}
[[links]]
ends = ["m1", "h2"]
both = {{ rate = "20mbit", delay = "10ms", queue = "100p" }}
forward = {{ mtu = 1400 }}
{flows}
"#
    );
    let scenario = ScenarioFile::parse("mtu", &text).unwrap().resolve(None, &[]).unwrap();
    sim::run(&scenario, &HostDefaults::default(), &mut Native::default(), &mut ()).unwrap()
}

const V4: [&str; 2] = ["10.0.1.1/24", "10.0.2.1/24"];
const ONE_NET: [&str; 2] = ["10.0.1.1/24", "10.0.1.2/24"];
const BULK: &str = "[[flows]]\nname = \"bulk\"\nfrom = \"h1\"\nto = \"h2\"\ncc = \"cubic\"\n";

fn last_mss(outcome: &Outcome, flow: &str) -> Option<i64> {
    outcome.flows.iter().rev().find(|row| row.flow == flow)?.snd_mss_bytes
}

fn megabits(outcome: &Outcome) -> f64 {
    outcome.flow_totals[0].bytes as f64 * 8.0 / 12e6
}

fn count(outcome: &Outcome, kind: EventKind) -> usize {
    outcome.events.iter().filter(|event| event.kind == kind).count()
}

#[test]
fn the_sender_uses_smaller_segments_after_a_routers_report() {
    for (addresses, mss) in [(V4, 1348), (["fd00:1::1/64", "fd00:2::1/64"], 1328)] {
        let outcome = run("routers", "", addresses, BULK);
        assert_eq!(last_mss(&outcome, "bulk"), Some(mss));
        assert!(megabits(&outcome) > 17.0, "{}", megabits(&outcome));
        assert_eq!(count(&outcome, EventKind::Rto), 0);
    }
}

#[test]
fn later_flows_start_with_the_cached_path_mtu() {
    let later = BULK.replace("bulk", "later") + "start = \"6s\"\nsize = \"100kB\"\n";
    let outcome = run("routers", "hosts.\"*\".mtu = 9000", V4, &format!("{BULK}{later}"));
    let first = outcome.flows.iter().find(|row| row.flow == "later" && row.snd_mss_bytes.is_some());
    assert_eq!(first.and_then(|row| row.snd_mss_bytes), Some(1348));
    assert_eq!(last_mss(&outcome, "bulk"), Some(1348));
}

#[test]
fn behind_a_switch_only_mtu_probing_finds_the_path_mtu() {
    let probing =
        |value: u8| format!("hosts.\"*\".sysctl = {{ \"net.ipv4.tcp_mtu_probing\" = \"{value}\" }}");
    let stuck = run("switches", &probing(0), ONE_NET, BULK);
    assert_eq!(stuck.flow_totals[0].bytes, 0);
    assert!(count(&stuck, EventKind::Rto) >= 4);
    // After three seconds of timeouts (tcp_retries1) segments have tcp_base_mss, and larger ones are probed.
    let detected = run("switches", &probing(1), ONE_NET, BULK);
    assert!((9.0..16.0).contains(&megabits(&detected)), "{}", megabits(&detected));
    // The search ends within tcp_probe_threshold of the path MTU.
    let searched = run("switches", &probing(2), ONE_NET, BULK);
    let mss = last_mss(&searched, "bulk").unwrap();
    assert!((1340..=1348).contains(&mss) && megabits(&searched) > 17.0, "{mss}, {}", megabits(&searched));
    assert_eq!(count(&searched, EventKind::Rto), 0);
}

#[test]
fn a_links_mtu_may_decrease_during_a_run() {
    let text = r#"
duration = "6s"
hosts.h1.address = "10.0.1.1/24"
hosts.h2.address = "10.0.2.1/24"
routers.names = ["r1"]
[[links]]
ends = ["h1", "r1"]
[[links]]
ends = ["r1", "h2"]
both = { rate = "20mbit", delay = "10ms", queue = "100p" }
changes = [{ at = "3s", both = { mtu = 1000 } }]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
"#;
    let scenario = ScenarioFile::parse("mtu", text).unwrap().resolve(None, &[]).unwrap();
    let outcome = sim::run(&scenario, &HostDefaults::default(), &mut Native::default(), &mut ()).unwrap();
    assert_eq!(last_mss(&outcome, "bulk"), Some(948));
    assert!(outcome.flow_totals[0].bytes as f64 * 8.0 / 6e6 > 17.0, "{}", outcome.flow_totals[0].bytes);
}

#[test]
fn datagrams_and_echoes_are_fragmented_to_the_path_mtu() {
    let flows = r#"
[[flows]]
name = "udp"
kind = "udp"
from = "h1"
to = "h2"
rate = "2mbit"
[[flows]]
name = "ping"
kind = "ping"
from = "h1"
to = "h2"
payload = "1472B"
count = 20
[[flows]]
name = "large"
kind = "ping"
from = "h1"
to = "h2"
payload = "4000B"
count = 20
"#;
    let outcome = run("routers", "", V4, flows);
    // Packets of the first round trip are lost; later ones arrive in two fragments each.
    let sent = 2e6 * 12.0 / 8.0;
    let share = outcome.flow_totals[0].bytes as f64 / sent;
    assert!((0.99..1.0).contains(&share), "{share}");
    let replies =
        |flow: &str| outcome.flows.iter().filter(|row| row.flow == flow && row.srtt_us.is_some()).count();
    assert_eq!(replies("ping"), 19);
    // Larger than the host's MTU: fragments without "don't fragment", which the router fragments again.
    assert_eq!(replies("large"), 20);
}
