//! A resolved scenario printed as TOML resolves to itself.

#![allow(clippy::disallowed_methods)] // a test may read the files it is about

use net::{LossModel, QueueLimit, Rate};
use proptest::prelude::*;
use scenario::{Kind, Scenario, ScenarioFile};
use units::{BitRate, Bytes, Time};

fn reparsed(scenario: &Scenario) -> Scenario {
    let text = scenario.to_toml();
    let file = ScenarioFile::parse(&format!("{}.toml", scenario.name), &text)
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.resolve(None, &[]).unwrap()
}

#[test]
fn every_shipped_variant() {
    for name in ["lab8", "lab8-ping", "verdicts"] {
        let path = format!("{}/../../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let file = ScenarioFile::parse(&path, &std::fs::read_to_string(&path).unwrap()).unwrap();
        for variant in std::iter::once(None).chain(file.variants().map(Some)) {
            let scenario = file.resolve(variant, &[]).unwrap();
            assert_eq!(reparsed(&scenario), scenario);
        }
    }
}

/// A scenario that uses every key once.
const EVERYTHING: &str = r#"
    title = "x"
    duration = "1h"
    sample = "1ms"
    seed = 18446744073709551615
    repeat = 3
    [hosts."*"]
    mtu = 9000
    [hosts.zeta]
    address = "fd00::1/64"
    sysctl.net.ipv4.tcp_sack = 0
    [hosts.alpha]
    address = "fd00::2/64"
    [switches]
    names = ["s1"]
    [[links]]
    ends = ["zeta", "s1"]
    name = "up"
    both = { rate = "1gbit", delay = "1ms", queue = "10MB", loss = 0.25, burst = "1MB", overhead = 38 }
    [[links]]
    ends = ["s1", "alpha"]
    backward = { overhead = 0 }
    [[flows]]
    name = "bulk"
    from = "zeta"
    to = "alpha"
    cc = "reno"
    start = "1s"
    stop = "1min"
    size = "1GB"
    mss = 1000
    send_buffer = "1MB"
    receive_buffer = "2MB"
    pacing = "1gbit"
    read_rate = "2gbit"
    write_rate = "3gbit"
    [[flows]]
    name = "echo"
    kind = "ping"
    from = "alpha"
    to = "zeta"
    interval = "1s"
    count = 9
    payload = "1000B"
"#;

fn everything() -> Scenario {
    ScenarioFile::parse("everything.toml", EVERYTHING)
        .unwrap_or_else(|e| panic!("{e}"))
        .resolve(None, &[])
        .unwrap()
}

#[test]
fn every_key() {
    let scenario = everything();
    let hosts: Vec<&str> = scenario.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(hosts, ["zeta", "alpha"], "in the order of the file");
    assert_eq!(scenario.hosts[0].sysctl["net.ipv4.tcp_sack"], "0");
    assert_eq!(reparsed(&scenario), scenario);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exact_values(
        title in ".*",
        sysctl in "[ -~é\t]*",
        rate in 1u64..=1_000_000_000_000,
        delay in 0u64..=1_000_000_000_000_000,
        queue in 9038u64..,
        packets in 1u64..,
        loss in prop_oneof![Just(0.0), Just(1.0), Just(1e-9), 0.0f64..=1.0],
        size in 1u64..,
        duration in 2_000_000_000u64..=2_000_000_000_000_000,
    ) {
        let mut scenario = everything();
        scenario.title = title;
        scenario.duration = Time(duration);
        scenario.hosts[1].sysctl.insert("net.core.x".into(), sysctl);
        let forward = &mut scenario.links[0].forward;
        (forward.rate, forward.delay) = (Rate::Constant(BitRate(rate)), Time(delay));
        forward.loss = LossModel::Independent(loss);
        forward.queue = QueueLimit::Bytes(Bytes(queue));
        scenario.links[0].backward.queue = QueueLimit::Packets(packets);
        let Kind::Tcp(tcp) = &mut scenario.flows[0].kind else { unreachable!() };
        tcp.size = Some(Bytes(size));
        prop_assert_eq!(reparsed(&scenario), scenario);
    }
}
