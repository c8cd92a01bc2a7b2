//! Part of `make bench`: cost of a call of each congestion control in the kernel, in the lab at 10 Gb/s x 20
//! ms.
//!
//! The kernel measures it (run_time_ns / run_cnt of each BPF program); the target is under 200 ns. Needs
//! root. Names on the command line select congestion controls: `cargo bench -p longfat --bench cc -- cubic`.

use std::process::Command;

use cc::{
    Algorithm, ParameterValues, Source,
    kernel::{self, CallMeasurement},
};

const LAB: &str = r#"
title = "bench"
duration = "4s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
hosts."*".sysctl = { "net.ipv4.tcp_rmem" = "10240 87380 104857600", "net.ipv4.tcp_wmem" = "10240 87380 104857600", "net.ipv4.tcp_ecn" = "1" }
[[links]]
ends = ["h1", "h2"]
forward = { rate = "10gbit", delay = "20ms", queue = "10MB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "NAME"
"#;
/// Minimum number of calls for a meaningful mean; excludes init, release and the like.
const MIN_CALLS: u64 = 200;

fn main() {
    if let Some(missing) = kernel::missing_requirement() {
        println!("skipped: {missing}");
        return;
    }
    let requested: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let _measuring = CallMeasurement::begin().unwrap_or_else(|e| panic!("{e}"));
    println!("{:<10}  {:>8}  {:>10}  {:>8}  {:>26}", "", "Gb/s", "calls", "ns each", "most expensive");
    for algorithm in
        Algorithm::all().iter().filter(|a| requested.is_empty() || requested.iter().any(|w| w == a.name))
    {
        let loaded = kernel::load(&Source::BuiltIn(algorithm), &ParameterValues::new(), None)
            .unwrap_or_else(|e| panic!("{e}"));
        let scenario = directory.path().join("bench.toml");
        std::fs::write(&scenario, LAB.replace("NAME", loaded.name())).expect("the scenario can be written");
        let mut run = Command::new(env!("CARGO_BIN_EXE_longfat"));
        run.arg("--runs")
            .arg(directory.path().join("runs"))
            .arg("run")
            .arg(&scenario)
            .args(["--engine", "lab", "--json"]);
        let output = run.output().expect("longfat runs");
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
        let goodput = summary["runs"][0]["flows"][0]["goodput_bps"].as_f64().unwrap_or(0.0);
        let calls = loaded.calls().unwrap_or_else(|e| panic!("{e}"));
        let (count, time) = calls.iter().fold((0, 0), |(n, t), c| (n + c.calls, t + c.time_ns));
        let often = calls.iter().filter(|c| c.calls >= MIN_CALLS);
        let most_expensive =
            often.max_by(|a, b| a.ns_per_call().unwrap_or(0.0).total_cmp(&b.ns_per_call().unwrap_or(0.0)));
        let most_expensive = most_expensive
            .map_or(String::new(), |c| format!("{} {:.0} ns", c.program, c.ns_per_call().unwrap_or(0.0)));
        let each = time as f64 / count.max(1) as f64;
        println!(
            "{:<10}  {:>8.2}  {count:>10}  {each:>8.0}  {most_expensive:>26}",
            algorithm.name,
            goodput / 1e9
        );
    }
}
