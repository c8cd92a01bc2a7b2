//! A resolved scenario printed as TOML resolves to itself.

#![allow(clippy::disallowed_methods)] // a test may read the files it is about

use net::{LossModel, QueueLimit, Rate};
use proptest::prelude::*;
use scenario::{FlowKind, Scenario, ScenarioFile};
use units::{BitRate, Bytes, Instant, Time};

fn reparsed(scenario: &Scenario) -> Scenario {
    let text = scenario.to_toml();
    let file = ScenarioFile::parse(&format!("{}.toml", scenario.name), &text)
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.resolve(None, &[]).unwrap()
}

#[test]
fn every_bundled_variant() {
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
    sysctl = "machine"
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
    write_size = "8KiB"
    [[flows]]
    name = "echo"
    kind = "ping"
    from = "alpha"
    to = "zeta"
    interval = "1s"
    count = 9
    payload = "1000B"
    [[flows]]
    name = "stream"
    kind = "udp"
    from = "alpha"
    to = "zeta"
    rate = "80mbit"
    packet = "1316B"
    size = "1GB"
    on = "200ms"
    off = "1s"
    random = true
    [[flows]]
    name = "explicit"
    kind = "xcp"
    from = "zeta"
    to = "alpha"
    size = "2GB"
    [[flows]]
    name = "udt"
    kind = "udt"
    from = "alpha"
    to = "zeta"
    size = "3GB"
    tolerate_loss = "1%"
    receive_buffer = "50MB"
    [[flows]]
    name = "quic"
    kind = "quic"
    from = "alpha"
    to = "zeta"
    size = "3GB"
    cc = { name = "griddt", a = 7 }
    receive_buffer = "50MB"
    [[flows]]
    name = "quic-by-default"
    kind = "quic"
    from = "alpha"
    to = "zeta"
    [[flows]]
    name = "sabul"
    kind = "udt"
    from = "alpha"
    to = "zeta"
    control = "sabul"
    [[flows]]
    name = "udt-at-a-rate"
    kind = "udt"
    from = "alpha"
    to = "zeta"
    rate = "900mbit"
    [[flows]]
    name = "tsunami"
    kind = "tsunami"
    from = "alpha"
    to = "zeta"
    size = "4GB"
    rate = "800mbit"
    block = "1024B"
    error_threshold = "5%"
    [[flows]]
    name = "real-time"
    kind = "stream"
    from = "alpha"
    to = "zeta"
    rate = "512mbit"
    packet = "1000B"
    size = "5GB"
    deadline = "300ms"
    repair = true
    tolerate_loss = "2%"
"#;

/// The keys of directions, changes, routers and interfaces that `EVERYTHING` does not have.
const NETWORK: &str = r#"
    capture = ["h1", "trunk"]
    duration = "1min"
    sysctl = "2.4"
    [hosts.h1]
    address = ["10.0.1.1/24", "fd01::1/64"]
    interfaces = { eth1 = ["10.9.0.1/24", "fd09::1/64"] }
    gateway = ["10.0.1.9", "fd01::9"]
    routes = [{ to = "10.77.0.0/16", via = "10.0.1.8" }, { to = "default", via = "10.9.0.8" }]
    nic = { tx_queue = "100p", gro = 8 }
    kernel = "2.4.20"
    tso = false
    turnaround = "15us"
    receive_jitter = "0s"
    at = "[2001:db8::1]:5301"
    cost = { preset = "server-10g", per_byte = "0.35ns", rx_frames = 16, tx_delay = "0s", rx_queue = 300 }
    start = "ping -c1 10.0.2.1 \"x\" \n true"
    stop = "true"
    [hosts.h2]
    address = "10.0.2.1/24"
    hz = 1000
    nic = { gso_segs = 10, segmentation = "software" }
    gso = "16kB"
    tx_queue = 1000
    cost = "server-2003"
    [hosts.h3]
    address = "fd03::1/64"
    kernel = "linux-2.4-web100"
    local_congestion = false
    [routers]
    names = ["r2"]
    [routers.r1]
    interfaces = { eth0 = "10.0.1.9/24", r1-eth1 = ["10.0.5.9/24"] }
    routes = [{ to = "10.8.0.0/24", via = "10.0.2.77" }]
    [routers.r3]
    ports = { s2 = "10.0.2.77/24" }
    [switches]
    names = ["s1", "s2"]
    [[links]]
    ends = ["h1", "s1"]
    forward = { rate = "1gbit", qdisc = "red", ecn = true, queue = "1MB" }
    backward = { rate = "1gbit", qdisc = { kind = "red", min = "9kB", max = "20kB", probability = "5%", weight = 0.5, gentle = false } }
    [[links]]
    ends = ["s1", "r1"]
    forward = { rate = "1gbit", qdisc = { kind = "codel", target = "1ms", interval = "30ms", ecn = true }, loss = { every = 100 } }
    backward = { rate = "1gbit", qdisc = { kind = "fq_codel", flows = 16, quantum = 300 }, ecn = false, loss = { packets = [10, 3] } }
    [[links]]
    ends = ["s1", "r2"]
    forward = { rate = "1gbit", qdisc = { kind = "dualpi2", step = "2ms", alpha = 0.5 }, loss = { at = ["5s", "1s"], count = 3, unit = "super-packet" } }
    backward = { rate = "1gbit", burst = "10kB", qdisc = { kind = "xcp", shuffle = 0.25 }, loss = { rate = "1%", unit = "super-packet" } }
    [[links]]
    name = "trunk"
    ends = ["r1", "r2"]
    forward = { trace = [[0, "10mbit"], ["5s", "0bit"]], trace_period = "10s", queue = "30p", mtu = 1400, down = true }
    backward = { trace = { mahimahi = [0, 1, 1, 7] }, qdisc = { kind = "droptail", mark_above = "20p" } }
    [[links.changes]]
    at = "20s"
    forward = { rate = "5mbit", down = false, jitter = "0s" }
    both = { delay = "7ms", jitter = "1ms" }
    [[links.changes]]
    at = "10s"
    both = { loss = { model = "gilbert-elliott", to_bad = 0.001, to_good = "10%", loss_good = 0.0 }, delay = "3ms" }
    [[links]]
    ends = ["r1", "s2"]
    forward = { jitter = "2ms", distribution = "normal", jitter_reorders = true, reorder = "1%", reorder_gap = 5 }
    backward = { jitter = "2ms", distribution = "pareto", duplicate = 0.5, corrupt = "0.1%", reorder = 0.2 }
    [[links]]
    ends = ["s2", "r2"]
    forward = { rate = "1gbit", qdisc = "drophead" }
    backward = { rate = "1gbit", qdisc = { kind = "fq", flows = 1 } }
    [[links]]
    ends = ["s2", "h2"]
    [[links]]
    ends = ["h1", "r3"]
    [[links]]
    ends = ["r3", "h3"]
    [[links]]
    ends = ["r2", "r3"]
    [[links]]
    ends = ["r3", "s2"]
    [[flows]]
    name = "bulk"
    from = "h1"
    to = "h2"
    reader_stops = "5s"
    reader_resumes = "8s"
"#;

#[test]
fn every_key_of_the_network() {
    let file = ScenarioFile::parse("network.toml", NETWORK).unwrap_or_else(|e| panic!("{e}"));
    let scenario = file.resolve(None, &[]).unwrap();
    assert_eq!(reparsed(&scenario), scenario);
    let h1 = &scenario.hosts[0];
    assert_eq!(h1.kernel, Some((2, 4)));
    assert_eq!((h1.nic.tx_queue, h1.nic.gso, h1.nic.gro), (Some(100), Some(Bytes(1500)), Some(8)));
    assert_eq!(h1.routes.len(), 4, "two gateways and two routes: {:?}", h1.routes);
    let trunk = &scenario.links[3];
    let times: Vec<Instant> = trunk.changes.iter().map(|c| c.at).collect();
    assert_eq!(times, [Instant::from_secs(10), Instant::from_secs(20)]);
    let [first, second] = &trunk.changes[..] else { unreachable!() };
    assert_eq!((first.forward.rate.clone(), first.forward.down), (trunk.forward.rate.clone(), true));
    assert_eq!(
        (second.forward.rate.clone(), second.forward.down),
        (Rate::Constant(BitRate(5_000_000)), false)
    );
    assert_eq!((second.forward.jitter, second.forward.loss.clone()), (None, first.forward.loss.clone()));
    assert_eq!(second.backward.jitter.unwrap().spread, Time::from_millis(1));
    assert_eq!(second.forward.mtu, Some(1400));
    let LossModel::Packets(numbers) = &scenario.links[1].backward.loss else { unreachable!() };
    assert_eq!(*numbers, [3, 10]);
}

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
    assert_eq!(hosts, ["zeta", "alpha"], "hosts have the order of the file");
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
        loss in prop_oneof![Just(f64::MIN_POSITIVE), Just(1.0), Just(1e-9), 0.0f64..=1.0],
        size in 1u64..,
        duration in 2_000_000_000u64..=2_000_000_000_000_000,
    ) {
        let mut scenario = everything();
        scenario.title = title;
        scenario.duration = Time::from_nanos(duration);
        scenario.hosts[1].sysctl.insert("net.core.x".into(), sysctl);
        let forward = &mut scenario.links[0].forward;
        (forward.rate, forward.delay) = (Rate::Constant(BitRate(rate)), Time::from_nanos(delay));
        forward.loss = LossModel::Independent(loss);
        forward.queue = QueueLimit::Bytes(Bytes(queue));
        scenario.links[0].backward.queue = QueueLimit::Packets(packets);
        let FlowKind::Tcp(tcp) = &mut scenario.flows[0].kind else { unreachable!() };
        tcp.size = Some(Bytes(size));
        prop_assert_eq!(reparsed(&scenario), scenario);
    }
}
