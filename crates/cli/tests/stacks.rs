//! The network stack of a simulated host: the effect of its sysctls and of its device queue.

use serde_json::Value;

use crate::common::{SMALL, TestDir};

/// The first run of `longfat run s.toml` with these arguments.
fn run(test_dir: &TestDir, args: &[&str]) -> Value {
    let all = [&["run", "s.toml", "--engine", "sim", "--json", "--no-record"], args].concat();
    test_dir.run(&all).json()["runs"][0].clone()
}

fn mbps(run: &Value) -> f64 {
    run["flows"][0]["goodput_bps"].as_f64().unwrap() / 1e6
}

/// 1 Gb/s and 50 ms: the product is 6.25 MB.
fn long_fat() -> String {
    SMALL
        .replace("100mbit", "1gbit")
        .replace("10ms", "50ms")
        .replace("250kB", "25MB")
        .replace("\"1s\"", "\"8s\"")
}

#[test]
fn a_simulated_kernel_has_its_own_default_buffers() {
    let test_dir = TestDir::new(&long_fat());
    let of = |kernel: &str| run(&test_dir, &["--kernel", kernel]);
    let (old, new) = (of("6.1"), of("6.18"));
    assert_eq!(old["sysctl_defaults"], "Linux 6.1's defaults");
    assert_eq!(new["sysctl_defaults"], "Linux 6.18's defaults");
    let window = |run: &Value| run["flows"][0]["max_rcv_wnd_bytes"].as_u64().unwrap();
    assert!(window(&old) <= 6_291_456 / 2, "half of the buffer: {}", window(&old));
    assert!(window(&new) > 2 * window(&old), "since 6.16 the buffer reaches 32 MiB: {}", window(&new));
    let refused = test_dir.run(&["run", "s.toml", "--engine", "sim", "--kernel", "2.4-web100"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("a patched kernel is a host's"), "{refused:?}");
    let linux_2_4 = of("2.4");
    assert_eq!(linux_2_4["sysctl_defaults"], "Linux 2.4's defaults");
    assert!(mbps(&linux_2_4) < 10.5, "65,535 bytes in 50 ms are 10.5 Mb/s: {}", mbps(&linux_2_4));
}

#[test]
fn a_scenario_can_name_the_stack_whose_defaults_apply() {
    let named = TestDir::new(&format!("sysctl = \"6.1\"\n{}", long_fat()));
    let stated = run(&named, &[]);
    assert_eq!(stated["sysctl_defaults"], "Linux 6.1's defaults");
    // The buffers are those of 6.1, whichever kernel this machine runs.
    let fix = stated["flows"][0]["evidence"].to_string() + &stated["flows"][0]["remedy"].to_string();
    assert!(fix.contains("4096 131072") || fix.contains("4096 16384"), "{fix}");
    let machine = run(&named, &["--set", "sysctl=machine", "--kernel", "6.1"]);
    assert_eq!(machine["sysctl_defaults"], "this machine's");
    let unstated = run(&TestDir::new(SMALL), &[]);
    assert_eq!(unstated["sysctl_defaults"], "this machine's");
}

/// Hirabaru's a-2 on a tenth of its delay: the sender's own link is the slowest.
const OWN_LINK: &str = r#"duration = "40s"
[hosts."*"]
kernel = "2.4-web100"
sysctl = { "net.ipv4.tcp_rmem" = "4096 8000000 8000000", "net.ipv4.tcp_wmem" = "4096 8000000 8000000" }
[hosts.h1]
address = "10.0.0.1/24"
tx_queue = "20p"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "100mbit", delay = "25ms", queue = "1000p", overhead = 38 }
backward = { rate = "100mbit", delay = "25ms", queue = "1000p", overhead = 38 }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
"#;

#[test]
fn the_local_queue_is_named_and_both_remedies_work() {
    let test_dir = TestDir::new(OWN_LINK);
    let first = run(&test_dir, &[]);
    let flow = &first["flows"][0];
    assert_eq!(
        (flow["verdict"].as_str(), flow["retransmitted_segs"].as_u64()),
        (Some("local_queue"), Some(0))
    );
    assert!(
        flow["evidence"].to_string().contains("the transmit queue of h1's device holds 20 packets"),
        "{flow}"
    );
    let remedy = flow["remedy"].as_str().unwrap();
    // 100 Mb/s x 50 ms / (1538 x 8 bit) = 406.4 packets.
    assert!(
        remedy.contains("hosts.h1.nic.tx_queue=407") && remedy.contains("local_congestion=false"),
        "{remedy}"
    );
    for remedy in ["hosts.h1.nic.tx_queue=407", "hosts.h1.local_congestion=false"] {
        let remedied = run(&test_dir, &["--set", remedy]);
        assert_ne!(remedied["flows"][0]["verdict"], "local_queue", "{remedy}");
        assert!(
            mbps(&remedied) > 1.15 * mbps(&first),
            "{remedy}: {} after {} Mb/s",
            mbps(&remedied),
            mbps(&first)
        );
    }
    let model = test_dir.run(&["run", "s.toml", "--engine", "model", "--json", "--no-record"]).json();
    assert_eq!(model["runs"][0]["flows"][0]["verdict"], "local_queue");
}

/// The settings that a remedy names, as in `hosts.h1.nic.tx_queue=407`.
fn settings(remedy: &str) -> Vec<&str> {
    let names = remedy.split("--set ").skip(1);
    names.filter_map(|rest| rest.split([' ', ';', ')']).next()).collect()
}

/// Ravot's host as shipped, for a minute of its 20: slow start fills the device queue in the first second.
#[test]
fn the_local_queue_limits_ravots_host_and_each_remedy_removes_it() {
    let test_dir = TestDir::new(&crate::common::bundled_scenario("g-endbuf.toml"));
    let flow = |engine: &str, setting: &str| {
        let of_file = ["run", "s.toml", "--variant", "queue-100p", "--json", "--no-record"];
        let changes = ["--engine", engine, "--set", "duration=60s", "--set", setting];
        test_dir.run(&[of_file.as_slice(), &changes].concat()).json()["runs"][0]["flows"][0].clone()
    };
    let share = |flow: &Value| flow["limited_steady"]["local_queue"].as_f64().unwrap();
    let goodput = |flow: &Value| flow["goodput_bps"].as_f64().unwrap();
    let as_shipped = ["model", "sim"].map(|engine| (engine, flow(engine, "title=short")));
    for (engine, limited) in &as_shipped {
        assert_eq!(limited["verdict"], "local_queue", "{engine}: {limited}");
        assert!(share(limited) > 0.9, "{engine}: {limited}");
    }
    let simulated = &as_shipped[1].1;
    assert_eq!(
        simulated["retransmitted_segs"], 0,
        "the device queue delays packets and loses none: {simulated}"
    );
    let remedies = settings(simulated["remedy"].as_str().unwrap());
    // 1 Gb/s x 117 ms / (9014 x 8 bit) = 1622.5 packets.
    assert_eq!(
        remedies,
        ["hosts.cern.nic.tx_queue=1623", "hosts.cern.local_congestion=false"],
        "{simulated}"
    );
    for remedy in remedies {
        for (engine, limited) in &as_shipped {
            let remedied = flow(engine, remedy);
            assert_eq!(remedied["verdict"], "path_rate", "{engine} {remedy}: {remedied}");
            assert!(share(&remedied) == 0.0, "{engine} {remedy}: {remedied}");
            assert!(
                goodput(&remedied) > 1.2 * goodput(limited),
                "{engine} {remedy}: {} after {} bit/s",
                goodput(&remedied),
                goodput(limited)
            );
        }
    }
}

#[test]
fn the_published_bound_holds_behind_a_switch_of_100_packets() {
    // H-100m a-1, as shipped: below 20 Mb/s; a-2 with a device queue that is not congestion uses the path.
    let test_dir = TestDir::new(&crate::common::bundled_scenario("h-100m.toml"));
    let all = test_dir.run(&["run", "s.toml", "--engine", "sim", "--json", "--no-record"]).json();
    let of = |variant: &str| {
        let runs = all["runs"].as_array().unwrap();
        runs.iter().find(|run| run["variant"] == variant).unwrap_or_else(|| panic!("no {variant}")).clone()
    };
    assert!((15.0..20.0).contains(&mbps(&of("queue-100p"))), "{}", mbps(&of("queue-100p")));
    assert!(mbps(&of("both-ends")) > 85.0 && mbps(&of("both-ends-long-tx-queue")) > 85.0);
    let signalled = of("both-ends-wad-ifq-0");
    assert_eq!(signalled["flows"][0]["verdict"], "local_queue");
    assert!(mbps(&signalled) < 20.0, "{}", mbps(&signalled));
}
