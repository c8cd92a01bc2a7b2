//! `longfat probe` from end to end: over a lab with a known queue, a router with a small MTU, and against
//! other servers.

use crate::common;
use std::path::Path;

use common::{
    TestDir,
    iperf3::{Running, free_port, wait_for_listener},
    lab::Lab,
    lab_slots::acquire_all_lab_slots,
};
use serde_json::Value;

/// 50 Mb/s and 5 ms, with a queue of 80 packets.
const NARROW: &str = r#"title = "narrow"
duration = "1s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "50mbit", delay = "5ms", queue = "80p" }
backward = { delay = "5ms" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
"#;

/// 100 Mb/s forward and 50 Mb/s back, with a queue of 100 packets. The wire adds 38 bytes to each packet.
const WIRE: &str = r#"title = "wire"
duration = "1s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "100mbit", delay = "2ms", queue = "100p", overhead = 38 }
backward = { rate = "50mbit", delay = "2ms", overhead = 38 }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
"#;

/// `longfat serve` on a host, until the lab goes down.
fn serve(lab: &Lab<'_>, host: &str, options: &[&str]) -> Running {
    let exec = ["lab", "exec", "--lab", &lab.name, host, "--", common::binary(), "serve"];
    let running = Running::start(&mut lab.test_dir.longfat(&[&exec[..], options].concat()));
    let listens = || lab.sh(host, "cat /proc/net/tcp /proc/net/tcp6").stdout.contains(":1451 ");
    assert!(common::eventually(listens), "no server listens on {host}");
    running
}

fn probe(lab: &Lab<'_>, host: &str, args: &[&str]) -> Value {
    lab.exec(host, &[&[common::binary(), "probe"], args, &["--json"]].concat()).json()
}

#[test]
fn the_queue_of_a_lab_is_measured_and_drawn() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(NARROW);
    let lab = Lab::up(&test_dir, &[]);
    let _server = serve(&lab, "h2", &[]);
    let plot = test_dir.path("plot.svg");
    let document =
        probe(&lab, "h1", &["buffer", "10.0.0.2", "--max-rate", "50M", "--plot", plot.to_str().unwrap()]);
    assert_eq!((&document["schema"], &document["kind"]), (&"longfat.probe/1".into(), &"buffer".into()));
    let result = &document["answer"];
    // A busy machine disturbs the lab; then the result must be marked inconclusive.
    if result["validity"]["valid"] == true {
        let capacity = result["capacity"]["capacity_bps"]["value"].as_f64().unwrap();
        assert!((45e6..55e6).contains(&capacity), "{result:#}");
        let packets = result["buffer_packets"].as_f64().unwrap();
        assert!((70.0..90.0).contains(&packets), "{result:#}");
    }
    let load = &document["load"];
    assert!(load["highest_second_bps"].as_f64().unwrap() <= 50e6, "{load:#}");
    assert!(load["packets"].as_u64().unwrap() > 500, "{load:#}");
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("Queueing delay"), "{svg}");
}

#[test]
fn hops_mtu_and_delay_of_a_chain_of_routers() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new("");
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gallery/chain.toml");
    let lab = Lab::of(&test_dir, &chain, &[]);
    let _server = serve(&lab, "far", &["--stamp", "--twamp", "--owamp"]);
    let mtu = probe(&lab, "near", &["mtu", "10.0.2.2"]);
    assert_eq!(mtu["answer"]["mtu_bytes"], 1400, "{mtu:#}");
    let delay = probe(&lab, "near", &["delay", "10.0.2.2", "-c", "30", "-i", "10ms"]);
    let min_rtt_ms = delay["answer"]["rtt_ms"][0].as_f64().unwrap();
    // 15 ms each way, and the transmission of small packets.
    assert!((29.9..60.0).contains(&min_rtt_ms), "{delay:#}");
    let twamp = probe(&lab, "near", &["delay", "10.0.2.2", "-c", "30", "-i", "10ms", "--protocol", "twamp"]);
    let min_rtt_ms = twamp["answer"]["rtt_ms"][0].as_f64().unwrap();
    assert!((29.9..60.0).contains(&min_rtt_ms) && twamp["answer"]["lost"] == 0, "{twamp:#}");
    let owamp = probe(&lab, "near", &["delay", "fd00:2::2", "-c", "30", "-i", "10ms", "--protocol", "owamp"]);
    // The sum of both directions' minimum delays.
    let min_rtt_ms = owamp["answer"]["forward"]["delay_ms"]["high"].as_f64().unwrap();
    assert!((29.5..60.0).contains(&min_rtt_ms) && owamp["answer"]["lost"] == 0, "{owamp:#}");
    let large = lab.exec("near", &[common::binary(), "probe", "delay", "10.0.2.2", "-c", "3", "-l", "1400"]);
    assert_eq!(large.code, 1, "{large:?}");
    assert!(
        large.stderr.contains("1428 bytes of IP unfragmented") && large.stderr.contains("takes 1400"),
        "{large:?}"
    );
    let fits = probe(&lab, "near", &["delay", "fd00:2::2", "-c", "3", "-i", "10ms", "-l", "1352"]);
    assert_eq!(fits["answer"]["lost"], 0, "{fits:#}");
    let unanswered =
        lab.exec("near", &[common::binary(), "probe", "delay", "10.0.2.2", "-p", "9", "-c", "3"]);
    assert_eq!(unanswered.code, 1, "{unanswered:?}");
    assert!(unanswered.stderr.contains("serve --stamp"), "{unanswered:?}");
}

/// Whether an interval of a document contains a value; null means no bound.
fn holds(interval: &Value, true_value: f64) -> bool {
    interval["low"].as_f64().is_some_and(|low| low <= true_value)
        && interval["high"].as_f64().is_none_or(|high| high >= true_value)
}

/// Repeats a measurement that this machine disturbed; `wrong` returns the error of a result.
fn measured(measure: impl Fn() -> Value, wrong: impl Fn(&Value) -> Option<String>) {
    let mut last = None;
    for _ in 0..3 {
        let document = measure();
        match wrong(&document) {
            None => return,
            Some(what) => last = Some(format!("{what}: {document:#}")),
        }
    }
    testing::skip(testing::Missing::QuietMachine, last.unwrap_or_default());
}

/// Links of 200 and 100 Mb/s, the second with an MTU of 1400.
#[test]
fn probes_use_the_path_mtu_and_intervals_contain_the_true_rates() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new("");
    let chain = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/gallery/chain.toml");
    let lab = Lab::of(&test_dir, &chain, &[]);
    let _server = serve(&lab, "far", &[]);
    for host in ["10.0.2.2", "fd00:2::2"] {
        measured(
            || probe(&lab, "near", &["capacity", host, "--max-rate", "100M"]),
            |document| {
                assert_eq!(document["path_mtu"]["mtu_bytes"], 1400, "{document:#}");
                assert_eq!(document["answer"]["packet_bytes"], 1400, "{document:#}");
                let is_wrong = document["answer"]["validity"]["valid"] == true
                    && !holds(&document["answer"]["capacity_bps"], 100e6 * 1400.0 / 1414.0);
                is_wrong.then(|| format!("the interval over {host} excludes 99.01 Mb/s"))
            },
        );
    }
    measured(
        || probe(&lab, "near", &["hops", "fd00:2::2"]),
        |document| {
            let result = &document["answer"];
            assert_eq!(result["packet_bytes"], 1400, "{document:#}");
            // The emulated routers quote as much as 1280 bytes hold (RFC 4443).
            assert_eq!(result["hops"][1]["reply_bytes"][1], 1280, "{document:#}");
            let rates = [1e9, 200e6, 100e6, 1e9];
            for (hop, rate) in result["hops"].as_array().unwrap().iter().zip(rates) {
                if !hop["link_bps"].is_null() && !holds(&hop["link_bps"], rate) {
                    return Some(format!("hop {} excludes {rate}", hop["hop"]));
                }
            }
            None
        },
    );
}

#[test]
fn udpmon_finds_the_time_per_byte_of_a_bottleneck() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(WIRE);
    let lab = Lab::up(&test_dir, &[]);
    let _server = serve(&lab, "h2", &[]);
    let dir = test_dir.path("udpmon");
    let args =
        ["udpmon", "10.0.0.2", "--spacings", "0,20us", "-o", dir.to_str().unwrap(), "--max-rate", "50M"];
    let is_within =
        |value: &Value, low: f64, high: f64| value.as_f64().is_some_and(|v| (low..high).contains(&v));
    measured(
        || probe(&lab, "h1", &args),
        |document| {
            assert_eq!(
                (&document["kind"], &document["receive_timestamps"]),
                (&"udpmon".into(), &"software".into())
            );
            let load = &document["load"];
            assert!(load["highest_second_bps"].as_f64().unwrap() <= 50e6, "{load:#}");
            let grid = &document["answer"]["grid"];
            assert_eq!(grid["cells"].as_array().unwrap().len(), 12, "{grid:#}");
            let overflowed = &grid["cells"][5];
            assert!(overflowed["lost"].as_u64().unwrap() > 100, "back to back: {overflowed:#}");
            if grid["validity"]["valid"] != true {
                return Some(format!("disturbed: {}", grid["validity"]));
            }
            // 80 ns a byte, within 2 %.
            if !is_within(&grid["per_byte_ns"]["value"], 78.4, 81.6) {
                return Some(format!("{} ns per byte", grid["per_byte_ns"]));
            }
            if !is_within(&grid["overhead_bytes"], 28.0, 48.0) {
                return Some(format!("{} bytes of overhead", grid["overhead_bytes"]));
            }
            let latency = &document["answer"]["latency"];
            assert_eq!(latency["points"].as_array().unwrap().len(), 14, "{latency:#}");
            let per_byte = &latency["round_trip"]["per_byte_ns"]["value"];
            // 80 ns forward and 160 ns back; few requests on a machine that may be busy.
            (!is_within(per_byte, 200.0, 280.0)).then(|| format!("{per_byte} ns per byte of a round trip"))
        },
    );
    for picture in ["throughput", "loss", "bottleneck", "jitter", "interarrival", "latency"] {
        let svg = std::fs::read_to_string(dir.join(format!("{picture}.svg"))).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("10.0.0.2") && !svg.contains("NaN"),
            "{picture}: {svg}"
        );
    }
    let rows = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap().lines().count();
    // 2 spacings, 6 sizes, 3 rounds of 400 packets; 7 sizes of requests with 2 kinds of replies.
    assert_eq!((rows("cells.csv"), rows("packets.csv"), rows("latency.csv")), (13, 14_401, 15));
    let document: Value = serde_json::from_slice(&std::fs::read(dir.join("udpmon.json")).unwrap()).unwrap();
    assert_eq!(document["schema"], "longfat.probe/1");
}

#[test]
fn mistakes_and_other_servers_are_reported() {
    let test_dir = TestDir::new("");
    for (args, word) in [
        (&["probe", "capacity", "127.0.0.1", "--mtu", "20"][..], "128"),
        (&["probe", "available", "127.0.0.1", "--max-rate", "fast"], "max-rate"),
        (&["probe", "udpmon", "127.0.0.1", "--spacings", "0,20"], "20us"),
        (&["probe", "udpmon", "127.0.0.1", "--rounds", "100"], "4200 trains; at most 400"),
        (&["probe", "delay", "127.0.0.1", "--stamp-key", "/nowhere/key"], "cannot read the key"),
        (&["serve", "--stamp-key", "key"], "--stamp"),
    ] {
        let ran = test_dir.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(word), "{args:?}: {ran:?}");
    }
    let port = free_port().to_string();
    let ran = test_dir.run(&["probe", "capacity", "127.0.0.1", "-p", &port, "--patience", "2"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("the probe of 127.0.0.1 failed"), "{ran:?}");
    let (port, port_number) = (port.as_str(), port.parse().unwrap());
    let server = Running::start(&mut test_dir.longfat(&["serve", "-p", port]));
    wait_for_listener(port_number);
    let ran = test_dir.run(&["probe", "capacity", "127.0.0.1", "-p", port, "--max-rate", "100k"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("--max-rate"), "{ran:?}");
    for (args, word) in [
        (&["--max-bytes", "1MB"][..], "more than --max-bytes"),
        (&["--mtu", "1500", "--sizes", "500,1501"], "exceed the path MTU of 1500"),
        (&["--max-rate", "1M"], "use fewer --packets"),
    ] {
        let ran = test_dir.run(&[&["probe", "udpmon", "127.0.0.1", "-p", port], args].concat());
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(word), "{args:?}: {ran:?}");
    }
    server.interrupt();
    assert_eq!(server.output().status.code(), Some(0));
}
