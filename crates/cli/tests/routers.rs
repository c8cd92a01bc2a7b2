//! Paths over routers and loops of switches, probed with common tools: ping, traceroute, mtr, iperf3.

use crate::common;
use common::{
    CommandOutput, SMALL, TestDir, bundled_scenario,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

/// The MTU of the link between r2 and r3.
const NARROW: u32 = 1400;

fn chain() -> TestDir {
    TestDir::new(&bundled_scenario("gallery/chain.toml"))
}

/// The routers' addresses of one family, in the order of the routers and of their interfaces.
fn addresses(lab: &Lab, node: &str, family: char) -> Vec<String> {
    let status = lab.status();
    let nodes = status["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|n| n["name"] == node).unwrap();
    let all = node["addresses"].as_array().unwrap().iter().map(|a| a.as_str().unwrap());
    all.filter(|a| a.contains(family)).map(|a| a.split('/').next().unwrap().to_owned()).collect()
}

/// The hops from near to far: a router replies from the interface that received the packet, which is its
/// first here.
fn hops(lab: &Lab, family: char) -> Vec<String> {
    let routers = ["r1", "r2", "r3"].iter().map(|r| addresses(lab, r, family)[0].clone());
    routers.chain(addresses(lab, "far", family)).collect()
}

/// The address of each line of `traceroute -n`.
fn traced(ran: &CommandOutput) -> Vec<String> {
    let lines = ran.stdout.lines().skip(1);
    lines.map(|l| l.split_whitespace().nth(1).unwrap_or("").to_owned()).collect()
}

#[test]
fn ipv4_and_ipv6_cross_three_routers_with_the_expected_delay() {
    let _slot = acquire_lab_slot();
    let test_dir = chain();
    let lab = Lab::up(&test_dir, &[]);
    for far in ["10.0.2.2", "fd00:2::2"] {
        let rtt = lab.rtt_ms("near", far);
        assert!((30.0..33.0).contains(&rtt), "{far}: {rtt} ms");
        // Larger than the narrow link's MTU: the router fragments IPv4 packets, the host IPv6 packets.
        let large = lab.exec("near", &["ping", "-c", "4", "-i", "0.2", "-s", "3000", far]);
        assert!(large.code == 0, "fragments must arrive: {large:?}");
    }
}

#[test]
fn traceroute_and_mtr_name_the_routers_in_order() {
    if !have(&["traceroute", "mtr"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = chain();
    let lab = Lab::up(&test_dir, &[]);
    let trace = |options: &[&str]| lab.exec("near", &[&["traceroute", "-n", "-q", "1"], options].concat());

    let hops_v4 = hops(&lab, '.');
    let v4 = trace(&["10.0.2.2"]);
    assert_eq!(traced(&v4), hops_v4, "{v4:?}");
    let mut v6: Vec<String> = ["r1", "r2", "r3"].iter().map(|r| addresses(&lab, r, ':')[0].clone()).collect();
    v6.push("fd00:2::2".into());
    let ran = trace(&["-6", "fd00:2::2"]);
    assert_eq!(traced(&ran), hops(&lab, ':'), "{ran:?}");
    let icmp = trace(&["-I", "10.0.2.2"]);
    assert_eq!(traced(&icmp), hops_v4, "{icmp:?}");
    let tcp = trace(&["-T", "-p", "9", "10.0.2.2"]);
    assert_eq!(traced(&tcp), hops_v4, "{tcp:?}");
    let router = trace(&[&hops_v4[2]]);
    assert_eq!(traced(&router), hops_v4[..3], "to a router: {router:?}");

    let report = lab.exec("near", &["mtr", "-r", "-n", "-c", "2", "-i", "0.2", "10.0.2.2"]);
    let hosts: Vec<&str> = report
        .stdout
        .lines()
        .filter(|l| l.contains("|--"))
        .filter_map(|l| l.split_whitespace().nth(1))
        .collect();
    assert_eq!(hosts, hops_v4, "{report:?}");
}

#[test]
fn the_path_mtu_is_found() {
    if !have(&["iperf3"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = chain();
    let lab = Lab::up(&test_dir, &[]);
    let probe = lab.sh("near", "ping -M do -s 1472 -c 2 -i 0.3 -W 1 10.0.2.2 2>&1");
    assert!(probe.stdout.contains("From 100.64.0.2"), "r2 has the narrow link: {probe:?}");
    assert!(probe.stdout.to_lowercase().contains(&format!("mtu = {NARROW}")), "{probe:?}");
    let known = |to: &str| lab.exec("near", &["ip", "route", "get", to]).stdout;
    assert!(known("10.0.2.2").contains(&format!("mtu {NARROW}")), "{}", known("10.0.2.2"));
    let fits = lab.exec("near", &["ping", "-M", "do", "-s", "1372", "-c", "1", "10.0.2.2"]);
    assert_eq!(fits.code, 0, "{fits:?}");
    let over = lab.exec("near", &["ping", "-M", "do", "-s", "1373", "-c", "1", "-W", "1", "10.0.2.2"]);
    assert_ne!(over.code, 0, "{over:?}");
    let probe6 = lab.sh("near", "ping -M do -s 1452 -c 2 -i 0.3 -W 1 fd00:2::2 2>&1");
    let printed = probe6.stdout.to_lowercase();
    assert!(printed.contains("too big") && printed.contains(&format!("mtu={NARROW}")), "{probe6:?}");
    lab.serve_iperf3("far");
    for far in ["10.0.2.2", "fd00:2::2"] {
        let goodput = lab.iperf3_bps("near", far);
        // The narrow link carries 100 Mb/s. The lower bound is wide, because the second includes slow start.
        assert!((10e6..100e6).contains(&goodput), "{far}: {goodput} b/s");
    }
}

#[test]
fn undeliverable_packets_get_icmp_errors() {
    let _slot = acquire_lab_slot();
    let test_dir = chain();
    let lab = Lab::up(&test_dir, &[]);
    for (to, router) in
        [("10.0.2.2", "100.64.0.2".to_owned()), ("fd00:2::2", addresses(&lab, "r2", ':')[0].clone())]
    {
        let short = lab.sh("near", &format!("ping -n -t 2 -c 1 -W 2 {to} 2>&1"));
        let printed = short.stdout.to_lowercase();
        assert!(short.code != 0 && printed.contains(&format!("from {router}")), "{short:?}");
        assert!(printed.contains("time to live exceeded") || printed.contains("hop limit"), "{short:?}");
    }
    // The last two addresses are in the subnet of far, but do not exist: routers have all addresses in a
    // table, so the first router sends the error.
    for nowhere in ["10.9.9.9", "fd00:9::9", "10.0.2.77", "fd00:2::77"] {
        let ran = lab.sh("near", &format!("ping -n -c 1 -W 2 {nowhere} 2>&1"));
        assert!(ran.code != 0 && ran.stdout.contains("nreachable"), "{ran:?}");
    }
}

/// h1 - r1 - r2 - r4 - h2, and from r1 to r4 also over r3 and r5.
const TWO_WAYS: &str = r#"title = "two ways"
duration = "1s"
[hosts.h1]
address = "10.0.1.1/24"
[hosts.h2]
address = "10.0.2.1/24"
[routers]
names = ["r1", "r2", "r3", "r4", "r5"]
[[links]]
ends = ["h1", "r1"]
[[links]]
ends = ["r1", "r2"]
forward = { delay = "5ms" }
[[links]]
ends = ["r2", "r4"]
[[links]]
ends = ["r1", "r3"]
forward = { delay = "20ms" }
[[links]]
ends = ["r3", "r5"]
[[links]]
ends = ["r5", "r4"]
[[links]]
ends = ["r4", "h2"]
"#;

#[test]
fn a_static_route_overrides_the_shortest_path() {
    if !have(&["traceroute"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    // r3's address on its link to r1 is 100.64.0.10: addresses are assigned in the order of links.
    let route = "[routers.r1]\nroutes = [{ to = \"10.0.2.0/24\", via = \"100.64.0.10\" }]\n";
    for (text, hops, rtt) in [
        (TWO_WAYS.to_owned(), vec!["10.0.1.254", "100.64.0.2", "100.64.0.6", "10.0.2.1"], 5.0),
        (format!("{TWO_WAYS}{route}"), vec!["10.0.1.254", "100.64.0.10", "100.64.0.14"], 20.0),
    ] {
        let test_dir = TestDir::new(&text);
        let lab = Lab::up(&test_dir, &[]);
        let ran = lab.exec("h1", &["traceroute", "-n", "-q", "1", "h2"]);
        let traced = traced(&ran);
        assert_eq!(traced[..hops.len()], hops[..], "{ran:?}");
        assert_eq!(traced.last().map(String::as_str), Some("10.0.2.1"), "{ran:?}");
        let measured = lab.rtt_ms("h1", "h2");
        assert!((rtt..rtt + 3.0).contains(&measured), "the backward path is the shortest: {measured} ms");
    }
}

#[test]
fn a_loop_of_switches_causes_no_broadcast_storm() {
    let _slot = acquire_lab_slot();
    let mut text =
        String::from("title = \"loop\"\nduration = \"1s\"\n[switches]\nnames = [\"s1\", \"s2\", \"s3\"]\n");
    for i in 1..=3 {
        text += &format!("[hosts.h{i}]\naddress = \"10.0.0.{i}/24\"\n");
    }
    for (a, b) in [("h1", "s1"), ("h2", "s2"), ("h3", "s3"), ("s1", "s2"), ("s2", "s3"), ("s3", "s1")] {
        let direction = "{ rate = \"100mbit\", queue = \"250kB\" }";
        text += &format!("[[links]]\nends = [{a:?}, {b:?}]\nforward = {direction}\nbackward = {direction}\n");
    }
    let test_dir = TestDir::new(&text);
    let lab = Lab::up(&test_dir, &[]);
    let all = lab.shell(&["pingall"]);
    assert!(all.stdout.contains("0% dropped (6/6 received)"), "{all:?}");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let status = lab.status();
    let sent: u64 =
        status["links"].as_array().unwrap().iter().map(|l| l["sent_packets"].as_u64().unwrap()).sum();
    // Six pings with their replies over at most four links, ARP flooded over six links, and the hosts'
    // neighbour discovery. A storm would be thousands of packets in this time.
    assert!((12..600).contains(&sent), "{sent} packets: {status}");
    let again = lab.status();
    assert!(again["links"][3]["sent_packets"].as_u64().unwrap() < 200, "{again}");
}

#[test]
fn consecutive_switches_are_one_subnet() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    if have(&["traceroute"]) {
        let ran = lab.exec("h1", &["traceroute", "-n", "-q", "1", "h2"]);
        assert_eq!(traced(&ran), ["10.0.0.2"], "a switch is not a hop: {ran:?}");
    }
}
