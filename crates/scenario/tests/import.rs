//! MiniEdit files become scenarios that resolve, with notes about everything that is not imported.

#![allow(clippy::disallowed_methods)] // a test may read the files it is about

use net::{LossModel, QueueLimit, Rate};
use proptest::prelude::*;
use scenario::{Imported, Scenario, ScenarioFile, import_mn};
use units::{BitRate, Time};

fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/mn/{name}.mn", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn imported(name: &str) -> (Scenario, Vec<String>) {
    let Imported { toml, notes } = import_mn(&text(name), name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let file = ScenarioFile::parse(&format!("{name}.toml"), &toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    assert!(file.check_runnable().unwrap_err().to_string().contains("has no flows"));
    (file.resolve(None, &[]).unwrap(), notes)
}

fn addresses(scenario: &Scenario) -> Vec<String> {
    scenario.hosts.iter().map(|h| h.cidr().to_string()).collect()
}

const CONTROLLER: &str = "1 controller not imported: switches learn by themselves";

#[test]
fn minimal() {
    let (scenario, notes) = imported("minimal");
    assert_eq!(addresses(&scenario), ["10.0.0.1/8", "10.0.0.2/8"]);
    assert_eq!(scenario.switches, ["s1"]);
    assert_eq!(notes, [CONTROLLER]);
    assert_eq!(scenario.path("h1", "h2").unwrap().len(), 2);
    assert!(scenario.links.iter().all(|l| l.forward.is_ideal() && l.forward.mtu == Some(1500)));
}

#[test]
fn single_linear_and_tree() {
    for (name, hosts, switches, links, hops) in
        [("single3", 3, 1, 3, 2), ("linear4", 4, 4, 7, 5), ("tree2", 4, 3, 6, 4)]
    {
        let (scenario, notes) = imported(name);
        let counted = (scenario.hosts.len(), scenario.switches.len(), scenario.links.len());
        assert_eq!((counted, notes), ((hosts, switches, links), vec![CONTROLLER.to_owned()]), "{name}");
        let last = format!("h{hosts}");
        assert_eq!(scenario.path("h1", &last).unwrap().len(), hops, "{name}");
    }
}

#[test]
fn a_dumbbell_keeps_its_limits_in_both_directions() {
    let (scenario, notes) = imported("dumbbell");
    let trunk = &scenario.links[2];
    for direction in [&trunk.forward, &trunk.backward] {
        assert_eq!(direction.rate, Rate::Constant(BitRate(10_000_000)));
        assert_eq!(direction.delay, Time::from_millis(25));
        assert_eq!(direction.queue, QueueLimit::Packets(50));
        assert_eq!(direction.loss, LossModel::Independent(0.01));
        let jitter = direction.jitter.unwrap();
        assert_eq!((jitter.spread, jitter.reorders), (Time::from_millis(2), true));
    }
    assert_eq!(scenario.links[1].forward.rate, Rate::Constant(BitRate(2_000_000_000)));
    assert_eq!(scenario.links[3].forward.delay, Time::from_micros(500), "a bare number is in microseconds");
    assert_eq!(scenario.hosts[0].start.as_deref(), Some("sysctl -w net.ipv4.tcp_congestion_control=reno"));
    assert_eq!(scenario.hosts[3].stop.as_deref(), Some("true"));
    assert_eq!(
        notes,
        [
            "processor limits not imported: h2",
            "private directories not imported: h3",
            "external interfaces not imported: h4",
            "sFlow not imported: s1",
            "bandwidths above 1000 Mbit/s are applied here; Mininet ignores them",
            "s2-h3: speedup is not imported",
            "s2-h4: jitter without a delay is not imported; Mininet ignores it",
            "s2-h4: a queue without a bandwidth is not imported; it would never fill",
            CONTROLLER,
        ]
    );
}

#[test]
fn version_1() {
    let (scenario, notes) = imported("version1");
    assert_eq!(addresses(&scenario), ["10.0.0.1/8", "10.0.0.2/8"]);
    assert_eq!(scenario.links[0].backward.rate, Rate::Constant(BitRate(10_000_000)));
    assert_eq!(notes, [CONTROLLER]);
}

#[test]
fn a_legacy_router_joins_two_networks() {
    let (scenario, notes) = imported("router");
    assert_eq!(scenario.switches, ["s1", "s2"]);
    let router = &scenario.routers[0];
    let addresses: Vec<String> = router.interfaces.iter().map(|i| i.addresses[0].to_string()).collect();
    assert_eq!(
        (router.name.as_str(), addresses),
        ("r1", vec!["10.0.1.1/24".to_owned(), "10.0.2.1/24".into()])
    );
    assert_eq!(scenario.hosts[1].routes[0].via.to_string(), "10.0.2.1");
    assert_eq!(scenario.path("h1", "h2").unwrap().len(), 4);
    assert_eq!(notes, [CONTROLLER, "r1: the start command `iptables -F` is not imported"]);
}

#[test]
fn the_lab_topology_and_an_mtu_that_one_end_raises() {
    let (scenario, _) = imported("lab8");
    let names: Vec<&str> = scenario.links.iter().map(|l| l.name.as_str()).collect();
    assert_eq!(names, ["h1-s1", "s1-s2", "s2-h2"]);
    // The other end of the veth pair still has 1500.
    assert_eq!(scenario.links[0].forward.mtu, Some(1500));
    let both = text("lab8").replacen(
        "\"hostname\": \"h1\"",
        "\"hostname\": \"h1\", \"startCommand\": \"ip link set dev h1-eth0 mtu 9000\"",
        1,
    );
    let toml = import_mn(&both, "lab8").unwrap().toml;
    let scenario = ScenarioFile::parse("x.toml", &toml).unwrap().resolve(None, &[]).unwrap();
    assert_eq!((scenario.hosts[0].mtu, scenario.links[0].forward.mtu), (9000, Some(9000)));
    assert_eq!((scenario.hosts[1].mtu, scenario.links[1].forward.mtu), (1500, Some(1500)));
}

#[test]
fn invalid_names_are_changed_with_a_note() {
    let text = text("minimal").replace("\"h2\"", "\"the second host\"");
    let Imported { toml, notes } = import_mn(&text, "x").unwrap();
    assert!(toml.contains("[hosts.the_second]"), "{toml}");
    assert_eq!(notes[0], "\"the second host\" is called the_second here; its commands are not changed");
    ScenarioFile::parse("x.toml", &toml).unwrap();
}

#[test]
fn mistakes_of_the_result_are_notes() {
    // The hosts on both sides of the router are in one network: only the user can correct that.
    let text = text("router").replace("10.0.2.10/24", "10.0.1.11/24");
    let notes = import_mn(&text, "x").unwrap().notes;
    assert!(notes.iter().any(|n| n.starts_with("to be corrected by hand: x.toml:")), "{notes:?}");
    let text = self::text("minimal")
        .replace("\"src\": \"s1\"", "\"src\": \"h1\"")
        .replace("\"dest\": \"h2\"", "\"dest\": \"s1\"");
    let Imported { toml, notes } = import_mn(&text, "x").unwrap();
    assert!(notes.contains(&"h2 has no link and is not imported".to_owned()), "{notes:?}");
    assert!(toml.contains("name = \"h1-s1-2\""), "{toml}");
    ScenarioFile::parse("x.toml", &toml).unwrap();
}

#[test]
fn errors_have_a_path() {
    for (find, replace, expected) in [
        (
            "\"hostname\": \"h2\"",
            "\"hostname\": 7",
            "hosts[1].opts.hostname: a string is expected, not a number",
        ),
        ("\"hosts\"", "\"guests\"", "\"hosts\" is missing"),
        ("\"links\"", "\"lines\"", "\"links\" is missing"),
        ("\"src\": \"s1\"", "\"src\": \"s9\"", "links[1].src: no host or switch is called \"s9\""),
        ("\"src\": \"s1\"", "\"src\": \"h2\"", "links[1]: the link joins h2 with itself"),
        ("\"dest\": \"s1\"", "\"dest\": null", "links[0]: \"dest\" is missing"),
        ("\"opts\": {}", "\"opts\": {\"bw\": \"fast\"}", "links[0].opts.bw: \"fast\" is not a number"),
        (
            "\"opts\": {}",
            "\"opts\": {\"bw\": -1}",
            "links[0].opts: a bandwidth of -1 Mbit/s is not between 0 and 1000000",
        ),
        (
            "\"opts\": {}",
            "\"opts\": {\"loss\": 101}",
            "links[0].opts: a loss of 101 % is not between 0 and 100",
        ),
        (
            "\"opts\": {}",
            "\"opts\": {\"delay\": \"5min\"}",
            "links[0].opts.delay: \"5min\" is not a time; write for example \"5ms\"",
        ),
        ("\"opts\": {}", "\"opts\": []", "links[0].opts: an object is expected, not a list"),
        (
            "\"nodeNum\": 2",
            "\"ip\": \"10.0.0\", \"nodeNum\": 2",
            "hosts[1].opts.ip: \"10.0.0\" is not an IP address",
        ),
        ("\"hostname\": \"h2\"", "\"hostname\": \"h1\"", "hosts[1]: two nodes are called \"h1\""),
        ("10.0.0.0/8", "ten", "application: ipBase: \"ten\" is not an IPv4 network such as \"10.0.0.0/8\""),
        (
            "\"version\": \"2\"",
            "\"version\": \"3\"",
            "version: unknown version \"3\"; MiniEdit writes \"1\" or \"2\"",
        ),
        ("{", "[", "this is not JSON"),
    ] {
        let good = text("minimal");
        assert!(good.contains(find), "{find}");
        let error = import_mn(&good.replacen(find, replace, 1), "x").unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
    for (garbage, expected) in [("", "this is not JSON"), ("7", "an object is expected, not a number")] {
        assert!(import_mn(garbage, "x").unwrap_err().to_string().starts_with(expected));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_rejected_or_imported(text in ".*") {
        let _ = import_mn(&text, "x");
    }

    #[test]
    fn an_edited_file_is_rejected_or_imported(
        name in prop::sample::select(vec!["minimal", "dumbbell", "router", "version1"]),
        edits in prop::collection::vec((any::<usize>(), prop::sample::select(vec![
            "0", "-1", "\"\"", "\"h1\"", "{}", "[]", "null", "true", "1e300", "\"5ms\"", "\"10.0.0.0/8\"",
            "\"legacyRouter\"", "\"ip addr add 1.2.3.4/33 dev r1-eth9\"", "\"é\"", "99999999999",
        ])), 1..4),
    ) {
        let mut pieces: Vec<String> = text(name).split_inclusive([':', ',']).map(str::to_owned).collect();
        for (at, word) in edits {
            let at = at % pieces.len();
            let end = if pieces[at].ends_with(',') { "," } else { "" };
            // Values end with a comma; keys are not edited.
            if !end.is_empty() {
                pieces[at] = format!(" {word}{end}");
            }
        }
        if let Ok(imported) = import_mn(&pieces.concat(), "x") {
            let parsed = ScenarioFile::parse("x.toml", &imported.toml);
            let printed = imported.notes.iter().any(|n| n.starts_with("to be corrected by hand"));
            prop_assert_eq!(parsed.is_err(), printed, "{}", imported.toml);
        }
    }
}
