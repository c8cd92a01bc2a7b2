//! MiniEdit topologies as real labs: every pair of hosts can communicate, and no faster than the links
//! between them.

use crate::common;
use std::path::{Path, PathBuf};

use common::{
    SMALL, TestDir,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

/// The topologies, their hosts, and whether links lose packets.
const TOPOLOGIES: [(&str, usize, Wire); 8] = [
    ("dumbbell", 4, Wire::Lossy),
    ("lab8", 2, Wire::Clean),
    ("linear4", 4, Wire::Clean),
    ("minimal", 2, Wire::Clean),
    ("router", 2, Wire::Clean),
    ("single3", 3, Wire::Clean),
    ("tree2", 4, Wire::Clean),
    ("version1", 2, Wire::Clean),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Wire {
    Clean,
    Lossy,
}

/// The minimum `bw` of the links between two hosts in the file, Mb/s.
fn bandwidth(topology: &str, from: &str, to: &str) -> Option<f64> {
    let ends = [from, to];
    match topology {
        "dumbbell" if ends.iter().filter(|e| ["h1", "h2"].contains(e)).count() == 1 => Some(10.0),
        "dumbbell" if ends.contains(&"h1") => Some(100.0),
        "router" => Some(50.0),
        "version1" => Some(10.0),
        _ => None,
    }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../scenario/tests/mn/{name}.mn"))
}

fn assert_every_pair_connects(name: &str, hosts: usize, wire: Wire) {
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::of(&test_dir, &file(name), &[]);
    let controllers = lab.up_result.stderr.matches("1 controller not imported").count();
    assert_eq!(controllers, 1, "each note is printed once: {:?}", lab.up_result);
    let hosts: Vec<String> = (1..=hosts).map(|i| format!("h{i}")).collect();
    hosts.iter().for_each(|host| lab.serve_iperf3(host));
    for from in &hosts {
        for to in hosts.iter().filter(|to| *to != from) {
            let ping = lab.exec(from, &["ping", "-c", "3", "-i", "0.1", "-W", "3", to]);
            let whole = ping.stdout.contains(" 3 received");
            assert!(ping.code == 0 && (whole || wire == Wire::Lossy), "{name}: {ping:?}");
            let goodput = lab.iperf3_bps(from, to);
            assert!(goodput > 0.0, "{name}: nothing from {from} to {to}");
            if let Some(limit) = bandwidth(name, from, to) {
                assert!(goodput <= 1.02 * limit * 1e6, "{name}: {goodput} b/s from {from} to {to}");
            }
        }
    }
    let down = lab.down();
    assert_eq!((down.code, down.stderr.as_str()), (0, ""), "{name}: {down:?}");
}

#[test]
fn every_pair_of_hosts_of_every_topology_connects() {
    if !have(&["ping", "iperf3"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    for (name, hosts, wire) in TOPOLOGIES {
        assert_every_pair_connects(name, hosts, wire);
    }
}

#[test]
fn the_list_of_this_test_has_every_topology() {
    let entries = std::fs::read_dir(file("x").parent().unwrap()).unwrap().flatten();
    let mut found: Vec<String> =
        entries.map(|e| e.path().file_stem().unwrap().to_string_lossy().into_owned()).collect();
    found.sort();
    assert_eq!(found, TOPOLOGIES.map(|(name, ..)| name));
}

#[test]
fn imported_scenarios_come_up() {
    let _slot = acquire_lab_slot();
    for (name, hosts, wire) in TOPOLOGIES {
        let test_dir = TestDir::new(SMALL);
        let path = file(name);
        let plain = test_dir.run(&["scenario", "import", path.to_str().unwrap()]);
        assert_eq!(plain.code, 0, "{name}: {plain:?}");
        let json = test_dir.run(&["scenario", "import", path.to_str().unwrap(), "--json"]).json();
        assert!(json["notes"].to_string().contains("1 controller not imported"), "{name}: {json}");
        assert_eq!(json["toml"].as_str().unwrap().trim(), plain.stdout.trim(), "{name}");
        std::fs::write(test_dir.path("imported.toml"), json["toml"].as_str().unwrap()).unwrap();
        let lab = Lab::of(&test_dir, Path::new("imported.toml"), &[]);
        let pairs = hosts * (hosts - 1);
        let all = lab.shell(&["pingall"]);
        let whole = all.stdout.contains(&format!("0% dropped ({pairs}/{pairs} received)"));
        assert!(whole || wire == Wire::Lossy, "{name}: {all:?}");
    }
}

#[test]
fn start_and_stop_commands_run_with_the_option_only() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let mark = test_dir.path("stopped");
    let stop = format!("\"stopCommand\": \"ip -o addr > {}\"", mark.display());
    let text = std::fs::read_to_string(file("dumbbell")).unwrap();
    assert!(text.contains("\"stopCommand\": \"true\""));
    std::fs::write(test_dir.path("d.mn"), text.replace("\"stopCommand\": \"true\"", &stop)).unwrap();
    let control = |lab: &Lab, host: &str| {
        lab.exec(host, &["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]).stdout.trim().to_owned()
    };

    let lab = Lab::of(&test_dir, Path::new("d.mn"), &[]);
    assert_eq!(control(&lab, "h1"), control(&lab, "h2"), "no command runs without the option");
    assert_eq!(lab.down().code, 0);
    assert!(!mark.exists(), "no command runs without the option");

    let lab = Lab::of(&test_dir, Path::new("d.mn"), &["--run-commands"]);
    assert_eq!(lab.up_result.stderr.matches("1 controller not imported").count(), 1, "{:?}", lab.up_result);
    assert_eq!(control(&lab, "h1"), "reno");
    assert_ne!(control(&lab, "h2"), "reno");
    assert!(!mark.exists());
    assert_eq!(lab.down().code, 0);
    let addresses = std::fs::read_to_string(&mark).unwrap();
    assert!(addresses.contains("192.168.0.4/24"), "on h4 and nowhere else: {addresses}");
}
