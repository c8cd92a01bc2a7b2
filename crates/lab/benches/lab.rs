//! `make bench`: the lab's goodput against a plain veth pair and against the payload limit at 10 Gb/s,
//! for MTU 1500 and 9000, all in one run. Ratios count; single figures depend on the machine's mood.

use std::{sync::atomic::AtomicBool, time::Duration};

use scenario::{Scenario, ScenarioFile};

const SPAN: Duration = Duration::from_secs(5);
const LAB: &str = r#"
duration = "8s"
hosts.h1.address = "10.0.0.1/24"
hosts.h2.address = "10.0.0.2/24"
hosts."*".sysctl = { "net.ipv4.tcp_rmem" = "10240 87380 104857600", "net.ipv4.tcp_wmem" = "10240 87380 104857600" }
[[links]]
ends = ["h1", "h2"]
LINK
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
"#;

struct Quiet;

impl lab::Observer for Quiet {
    fn rows(
        &mut self,
        _: &[schema::FlowSample],
        _: &[schema::LinkSample],
        _: &[schema::Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
    fn progress(&mut self, _: &lab::Progress) {}
}

/// Goodput of the last `SPAN`, bit/s, and whether the run can be trusted.
fn lab(mtu: u32, link: &str, options: &lab::Options<'_>) -> (f64, schema::Quality) {
    let scenario = scenario(mtu, link);
    let outcome = lab::run(&scenario, options, &mut Quiet).unwrap_or_else(|e| panic!("{e}"));
    let end = outcome.flows.last().map_or(0, |row| row.time_us);
    let from = end - SPAN.as_micros() as i64;
    let mut bits = 0.0;
    for pair in outcome.flows.windows(2).filter(|pair| pair[0].time_us >= from) {
        bits += pair[1].goodput_bps.unwrap_or(0) as f64 * (pair[1].time_us - pair[0].time_us) as f64 * 1e-6;
    }
    (bits / SPAN.as_secs_f64(), outcome.quality)
}

fn scenario(mtu: u32, link: &str) -> Scenario {
    let file =
        ScenarioFile::parse("bench.toml", &LAB.replace("LINK", link)).unwrap_or_else(|e| panic!("{e}"));
    let sets = [("hosts.*.mtu".to_string(), mtu.to_string())];
    file.resolve(None, &sets).unwrap_or_else(|e| panic!("{e}"))
}

fn main() {
    let journal = lab::Journal::of_this_user();
    let privilege = lab::acquire().unwrap_or_else(|e| panic!("{e}"));
    let stop = AtomicBool::new(false);
    let backend = lab::Backend::for_this_machine();
    let options = lab::Options { privilege, backend, journal: &journal, capture_dir: None, stop: &stop };
    println!("Goodput of one cubic flow over {} s, Gb/s", SPAN.as_secs());
    println!(
        "{:>5}  {:>9}  {:>9}  {:>9}  {:>15}  {:>14}  {:>8}",
        "MTU", "veth pair", "lab, free", "free/veth", "lab 10G x 20 ms", "payload limit", "share"
    );
    for mtu in [1500u32, 9000] {
        let veth = lab::baseline::veth_goodput(mtu, "cubic", SPAN).unwrap_or_else(|e| panic!("{e}"));
        let (free, _) = lab(mtu, "", &options);
        let shaped = "forward = { rate = \"10gbit\", delay = \"20ms\", queue = \"50MB\" }";
        let (limited, quality) = lab(mtu, shaped, &options);
        let limit = 10e9 * f64::from(mtu - 52) / f64::from(mtu + 14);
        println!(
            "{mtu:>5}  {:>9.2}  {:>9.2}  {:>9.2}  {:>15.2}  {:>14.2}  {:>7.1}%",
            veth * 1e-9,
            free * 1e-9,
            free / veth,
            limited * 1e-9,
            limit * 1e-9,
            limited / limit * 100.0
        );
        println!(
            "       emulator late p50 {:.0} us, p99 {:.0} us; least idle {:.0} %{}",
            quality.emulator_late_p50_us.unwrap_or(f64::NAN),
            quality.emulator_late_p99_us.unwrap_or(f64::NAN),
            quality.cpu_idle_min.unwrap_or(f64::NAN) * 100.0,
            if quality.ok { "" } else { "; not to be trusted" }
        );
        quality.notes.iter().for_each(|note| println!("       {note}"));
    }
}
