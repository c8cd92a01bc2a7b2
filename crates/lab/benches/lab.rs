//! The lab's part of `make bench`. Compare ratios, because absolute figures vary from run to run on the same
//! machine.
//!
//! - goodput relative to a plain veth pair and to the payload limit, at 10 Gb/s x 20 ms and 25 Gb/s x 10 ms
//! - error of round-trip times
//! - error of a link's rate, by packet size, and packets per second for small packets
//!
//! Arguments select parts: `goodput`, `fast`, `echoes`, `packets`.

use std::{sync::atomic::AtomicBool, time::Duration};

use scenario::{Scenario, ScenarioFile};
use units::Time;

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

/// A part of the bench.
type Part = fn(&lab::RunOptions<'_>);

/// Goodput of the last `SPAN`, bit/s, and the quality of the run.
fn lab(mtu: u32, link: &str, options: &lab::RunOptions<'_>) -> (f64, schema::Quality) {
    let scenario = scenario(mtu, link);
    let outcome = lab::run(&scenario, options, &mut ()).unwrap_or_else(|e| panic!("{e}"));
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

/// Maximum goodput over a link of `rate`: headers with timestamps take 52 bytes of each packet, Ethernet's 14
/// more.
fn payload_limit(mtu: u32, rate: f64) -> f64 {
    rate * f64::from(mtu - 52) / f64::from(mtu + 14)
}

/// Goodput of one flow at 10 Gb/s and 20 ms, compared with the hosts' maximum.
fn goodput(options: &lab::RunOptions<'_>) {
    println!("Goodput of one cubic flow over {} s, Gb/s", SPAN.as_secs());
    println!(
        "{:>5}  {:>9}  {:>9}  {:>9}  {:>15}  {:>14}  {:>8}",
        "MTU", "veth pair", "lab, free", "free/veth", "lab 10G x 20 ms", "payload limit", "share"
    );
    for mtu in [1500u32, 9000] {
        let veth = lab::baseline::veth_goodput(mtu, "cubic", SPAN).unwrap_or_else(|e| panic!("{e}"));
        let (free, _) = lab(mtu, "", options);
        let shaped = "forward = { rate = \"10gbit\", delay = \"20ms\", queue = \"50MB\" }";
        let (limited, quality) = lab(mtu, shaped, options);
        let limit = payload_limit(mtu, 10e9);
        println!(
            "{mtu:>5}  {:>9.2}  {:>9.2}  {:>9.2}  {:>15.2}  {:>14.2}  {:>7.1}%",
            veth * 1e-9,
            free * 1e-9,
            free / veth,
            limited * 1e-9,
            limit * 1e-9,
            limited / limit * 100.0
        );
        print_quality(&quality);
    }
}

/// Goodput at 25 Gb/s and 10 ms with jumbo packets.
fn fast(options: &lab::RunOptions<'_>) {
    let (mtu, rate) = (9000u32, 25e9);
    let shaped = "forward = { rate = \"25gbit\", delay = \"10ms\", queue = \"60MB\" }";
    let (goodput, quality) = lab(mtu, shaped, options);
    let limit = payload_limit(mtu, rate);
    println!(
        "\n25 Gb/s x 10 ms at MTU 9000: {:.2} Gb/s, {:.1} % of the payload limit",
        goodput * 1e-9,
        goodput / limit * 100.0,
    );
    print_quality(&quality);
}

/// Prints the quality of a run.
fn print_quality(quality: &schema::Quality) {
    println!(
        "       emulator late p50 {:.0} us, p99 {:.0} us; minimum idle {:.0} %{}",
        quality.emulator_late_p50_us.unwrap_or(f64::NAN),
        quality.emulator_late_p99_us.unwrap_or(f64::NAN),
        quality.cpu_idle_min.unwrap_or(f64::NAN) * 100.0,
        if quality.is_reliable() { "" } else { "; unreliable" }
    );
    quality.notes.iter().for_each(|note| println!("       {note}"));
}

/// Echoes over 10 ms each way: their error relative to 20 ms, and the part of it that the hosts themselves
/// cause.
fn round_trips(options: &lab::RunOptions<'_>) {
    let text = r#"
        duration = "11s"
        hosts.h1.address = "10.0.0.1/24"
        hosts.h2.address = "10.0.0.2/24"
        links = [{ ends = ["h1", "h2"], both = { delay = "10ms" } }]
        flows = [{ name = "ping", kind = "ping", from = "h1", to = "h2", interval = "5ms", count = 2000 }]
    "#;
    let scenario = ScenarioFile::parse("ping.toml", text).and_then(|f| f.resolve(None, &[]));
    let outcome = scenario
        .map_err(|e| e.to_string())
        .and_then(|s| lab::run(&s, options, &mut ()).map_err(|e| e.to_string()));
    let outcome = outcome.unwrap_or_else(|e| panic!("{e}"));
    let errors: Vec<i64> = outcome.flows.iter().filter_map(|r| Some(r.srtt_us? - 20_000)).skip(1).collect();
    println!("\nRound-trip time error over {} echoes at 20 ms: {}", errors.len(), quantiles(errors));
    let echoes = lab::baseline::veth_echoes(2000, Time::from_millis(5)).unwrap_or_else(|e| panic!("{e}"));
    let own: Vec<i64> = echoes.iter().skip(1).map(|rtt| rtt.as_micros() as i64).collect();
    println!("of which in the hosts, over a plain veth pair: {}", quantiles(own));
}

fn quantiles(mut us: Vec<i64>) -> String {
    us.sort_unstable();
    let at = |share: f64| us.get((us.len() as f64 * share) as usize).copied().unwrap_or(0);
    format!("p50 {} us, p90 {} us, p99 {} us", at(0.5), at(0.9), at(0.99))
}

/// A flood of UDP packets of each size over 1 Gb/s, and of two sizes over a link without a rate.
fn packets(options: &lab::RunOptions<'_>) {
    println!("\nUDP flood over 1 Gb/s for 10 s (sizes are of the whole frame, as the link counts it)");
    println!(
        "{:>7}  {:>12}  {:>12}  {:>12}  {:>8}",
        "bytes", "sent pkt/s", "link pkt/s", "link Mb/s", "of rate"
    );
    for frame in [64usize, 128, 256, 512, 1024, 1514, 4096, 9014] {
        let link = "forward = { rate = \"1gbit\", queue = \"1MB\" }";
        flood(frame, link, 1e9, Duration::from_secs(10), options);
    }
    println!("and over a link without a rate for 5 s");
    for frame in [64usize, 1514] {
        flood(frame, "forward = { delay = \"1ms\" }", f64::NAN, Duration::from_secs(5), options);
    }
}

fn flood(frame: usize, link: &str, rate: f64, span: Duration, options: &lab::RunOptions<'_>) {
    let scenario = scenario(9000, link);
    let flood = lab::flood::udp_flood(&scenario, options.backend, frame - 14, span);
    let flood = flood.unwrap_or_else(|e| panic!("{e}"));
    let share =
        if rate.is_nan() { String::new() } else { format!("{:.2}%", flood.carried_bps / rate * 100.0) };
    println!(
        "{frame:>7}  {:>12.0}  {:>12.0}  {:>12.1}  {share:>8}",
        flood.sent_pps,
        flood.carried_pps,
        flood.carried_bps * 1e-6
    );
}

fn main() {
    let journal = lab::Journal::of_this_user();
    let privilege = lab::acquire_privilege().unwrap_or_else(|e| panic!("{e}"));
    let stop = AtomicBool::new(false);
    let backend = lab::Backend::for_this_machine();
    let congestion_controls = &std::collections::BTreeMap::from([("bulk".into(), "cubic".into())]);
    let options = lab::RunOptions {
        privilege,
        time: lab::TimeMode::Real,
        backend,
        journal: &journal,
        capture_dir: None,
        congestion_controls,
        own_controls: &Default::default(),
        stop: &stop,
    };
    // Arguments select parts; `--bench` comes from cargo.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let parts: [(&str, Part); 4] =
        [("goodput", goodput), ("fast", fast), ("echoes", round_trips), ("packets", packets)];
    for (name, part) in parts {
        if words.is_empty() || words.iter().any(|word| word == name) {
            part(&options);
        }
    }
}
