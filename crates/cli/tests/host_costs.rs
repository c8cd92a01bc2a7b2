//! Hosts with a processing time per packet, as stated by a user: model and simulator agree, and name the
//! host as the limit.

use crate::common;
use common::TestDir;
use serde_json::Value;

const GIGABIT: &str = r#"
duration = "4s"
sysctl = "6.18"
[hosts."*"]
kernel = "2.4"
sysctl = { "net.ipv4.tcp_rmem" = "4096 4000000 67108864", "net.ipv4.tcp_wmem" = "4096 4000000 67108864" }
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
both = { rate = "1gbit", delay = "1ms", overhead = 38, queue = "10000p" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "reno"
[[variants]]
name = "no-power"
hosts."*".cost = "server-2003"
[[variants]]
name = "moderated"
hosts."*".cost = { preset = "server-2003", rx_delay = "64us", tx_delay = "64us" }
[[variants]]
name = "jumbo"
hosts."*".cost = "server-2003"
hosts."*".mtu = 9000
[[variants]]
name = "bus"
hosts.h1.cost.bus = "600mbit"
"#;

/// The steady goodput of the flow of a variant's run with this engine, Mb/s, and the run.
fn steady<'a>(runs: &'a Value, engine: &str, variant: &str) -> (f64, &'a Value) {
    let run = runs["runs"].as_array().unwrap().iter();
    let run = run.clone().find(|run| run["engine"] == engine && run["variant"] == variant).unwrap();
    (run["flows"][0]["steady_goodput_bps"].as_f64().unwrap() * 1e-6, run)
}

#[test]
fn a_server_of_2003_reaches_a_gigabit_with_large_frames_or_moderated_interrupts() {
    let test_dir = TestDir::new(GIGABIT);
    let runs = test_dir.run(&["run", "s.toml", "--engine", "model,sim", "--json"]).json();
    let limit = |variant| {
        let ((model, modelled), (sim, simulated)) =
            (steady(&runs, "model", variant), steady(&runs, "sim", variant));
        assert!((sim / model - 1.0).abs() < 0.02, "{variant}: {sim} simulated, {model} by the closed form");
        let verdict = &simulated["flows"][0]["verdict"];
        assert_eq!(*verdict, modelled["flows"][0]["verdict"], "{variant}");
        (sim, verdict.as_str().unwrap().to_owned(), simulated)
    };
    let (mbps, verdict, run) = limit("no-power");
    assert!((600.0..700.0).contains(&mbps) && verdict == "host_cpu", "{mbps} {verdict}");
    let flow = &run["flows"][0];
    assert!(flow["evidence"][0].as_str().unwrap().contains("the processor of h"), "{flow}");
    assert!(flow["remedy"].as_str().unwrap().contains("larger frames (mtu)"), "{flow}");
    assert_eq!(run["quality"]["ok"], true, "stated costs are not a disturbance: {run}");
    let hosts = run["hosts"].as_array().unwrap();
    let busy = |name: &str| {
        let host = hosts.iter().find(|host| host["name"] == name).unwrap();
        assert!(host["interrupts"].as_u64().unwrap() > 100_000 && host["dropped_packets"] == 0, "{host}");
        host["processor_busy"].as_f64().unwrap()
    };
    assert!(busy("h2") > 0.9 && busy("h1") > 0.5, "{hosts:?}");
    let (mbps, verdict, _) = limit("moderated");
    assert!((935.0..942.0).contains(&mbps) && verdict == "path_rate", "{mbps} {verdict}");
    let (mbps, verdict, _) = limit("jumbo");
    assert!(mbps > 985.0 && verdict == "path_rate", "{mbps} {verdict}");
    let (mbps, verdict, run) = limit("bus");
    let remedy = run["flows"][0]["remedy"].as_str().unwrap();
    assert!(remedy.contains("a faster bus"), "{remedy}");
    assert!((560.0..580.0).contains(&mbps) && verdict == "host_cpu", "{mbps} {verdict}");
}

/// The presets' ceilings that docs/scenario.md prints, computed by the model on a link without a rate.
#[test]
fn the_documentation_has_the_maximum_rates_of_the_presets() {
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.md")).unwrap();
    let mut table = String::new();
    for preset in ["server-2003", "server-10g", "server-100g"] {
        let mut cells = Vec::new();
        for (mtu, single) in [(1500, true), (1500, false), (9000, true), (9000, false)] {
            let scenario = GIGABIT.replace("rate = \"1gbit\"", "rate = \"1Tbit\"").replace(
                "kernel = \"2.4\"",
                &format!(
                    "kernel = \"{}\"\nmtu = {mtu}\ncost = \"{preset}\"",
                    if single { "2.4" } else { "6.18" }
                ),
            );
            let scenario =
                scenario.split("[[variants]]").next().unwrap().replace("delay = \"1ms\"", "delay = \"1us\"");
            let test_dir = TestDir::new(&scenario);
            let run = test_dir.run(&["run", "s.toml", "--engine", "model", "--json"]).json();
            let flow = &run["runs"][0]["flows"][0];
            assert_eq!(flow["verdict"], "host_cpu", "{flow}");
            cells.push(format!("{:.0}", flow["steady_goodput_bps"].as_f64().unwrap() * 1e-6));
        }
        table.push_str(&format!("| `{preset}` | {} |\n", cells.join(" | ")));
    }
    assert!(text.contains(&table), "docs/scenario.md lacks these lines:\n{table}");
}
