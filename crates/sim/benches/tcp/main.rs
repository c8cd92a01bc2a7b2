//! Measures the processor time of simulations, and prints it beside targets. Results vary between runs.
//!
//! `cargo bench -p longfat-sim` prints the table. With `-- instructions` it counts instructions per packet
//! instead and fails if they differ from the committed counts (`-- instructions write` replaces these).
//! `memory`, `long-runs` and `case NAME` print a part of the table.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads clocks and arguments")]

mod cases;
mod instructions;
mod machine;
mod meter;
#[path = "../../tests/support/mod.rs"]
mod support;

use cases::Case;
use machine::peak_bytes;
use meter::Meter;
use sim::{HostDefaults, Outcome, Segmentation};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["counted", name, ms] => instructions::run_counted(name, ms.parse().expect("milliseconds")),
        ["instructions"] => std::process::exit(i32::from(!instructions::check(false))),
        ["instructions", "write"] => std::process::exit(i32::from(!instructions::check(true))),
        ["case", name] => {
            let meter = run(name);
            for (state, cost) in [("all", meter.all), ("open", meter.open), ("recovery", meter.recovery)] {
                print!("{state}_packets {} {state}_cpu_s {:.6} ", cost.packets, cost.cpu_s);
            }
            println!("window_packets {} recovery_ms {:?}", meter.window, meter.recovery_ms);
        }
        ["memory"] => memory_table(),
        ["long-runs"] => long_runs(),
        _ => table(),
    }
}

fn line(what: &str, value: String, target: &str) {
    println!("{what:58} {value:>12}   {target}");
}

fn run(name: &str) -> Meter {
    meter::run(&Case::named(name).expect("no such case"), 20).1
}

fn table() {
    line("simulator, one cubic flow, full stack", "measured".into(), "target");
    let million = |meter: f64| format!("{meter:.2}");
    let jumbo = run("loss-free");
    line(
        "Mpackets/CPU s, loss-free, 1 Gb/s, 117 ms, MSS 8960",
        million(jumbo.all.millions()),
        ">= 3 (aim 10)",
    );
    let single = run("loss-free-single");
    line("  the same without super-packets", million(single.all.millions()), ">= 2");
    let [whole, single] = ["recovery", "recovery-single"].map(run);
    line(
        "Mpackets/CPU s in recovery from the overshoot, MSS 1460",
        million(whole.recovery.millions()),
        ">= 1",
    );
    line("  the same without super-packets", million(single.recovery.millions()), ">= 1");
    let cost = |short: meter::Cost, long: meter::Cost| {
        format!("{:.0}/{:.0}={:.2}", long.ns(), short.ns(), long.ns() / short.ns())
    };
    let [short, long] = ["window-1600", "window-200000"].map(run);
    line("ns a packet, window 200,000 against 1,600, loss-free", cost(short.open, long.open), "<= 1.5");
    let [short, long] = ["recovery-1600", "recovery-200000"].map(run);
    line("  the same in recovery", cost(short.recovery, long.recovery), "<= 1.5");
    memory_table();
    long_runs();
}

fn memory_table() {
    memory("window-1600", "bytes a packet in flight, window 1,600, single segments");
    memory("window-200000", "  window 200,000, single segments");
    memory("window-200000-super", "  window 200,000, super-packets");
}

fn long_runs() {
    for (name, _) in LONG_RUNS {
        let start = machine::cpu_s();
        let outcome = long_run(name, &[]);
        let cpu = machine::cpu_s() - start;
        let (seconds, packets) =
            (outcome.duration.as_nanos() as f64 * 1e-9, outcome.data_segments as f64 * 1e-6);
        line(
            &format!("CPU s of {name}.toml, {seconds:.0} s, {packets:.1} M packets"),
            format!("{cpu:.1}"),
            "<= 40",
        );
    }
}

/// Memory per packet in flight: the peak of a run minus the peak of the same run with a window of a few
/// packets.
fn memory(name: &str, what: &str) {
    let case = Case::named(name).expect("no such case").lasting(8_000);
    let peak = |case: Case| {
        // Sampled each ms: at 10 Gb/s 16,000 packets pass in 20 ms, and the window's peak would be missed.
        let ((_, meter), bytes) = peak_bytes(|| meter::run(&case, 1));
        (bytes as f64, meter.window as f64)
    };
    let (small, large) = (peak(case.with_buffer(65_536)), peak(case));
    let each = (large.0 - small.0) / (large.1 - small.1);
    line(what, format!("{each:.0}"), &format!("<= 100 ({:.0} in flight)", large.1));
}

/// Experiments of 6000 and 7000 s.
const LONG_RUNS: [(&str, &str); 3] = [
    ("g-rttfair", include_str!("../../../../scenarios/g-rttfair.toml")),
    ("g-mtufair", include_str!("../../../../scenarios/g-mtufair.toml")),
    ("g-multi", include_str!("../../../../scenarios/g-multi.toml")),
];

/// Runs one of [`LONG_RUNS`] with reno and these `--set` values.
fn long_run(name: &str, sets: &[(String, String)]) -> Outcome {
    let (_, text) = LONG_RUNS.iter().find(|run| run.0 == name).expect("no such case");
    let file = scenario::ScenarioFile::parse(name, text).expect(name);
    let scenario = file.resolve(Some("reno"), sets).expect(name);
    let defaults = HostDefaults { segmentation: Segmentation::Whole, ..HostDefaults::default() };
    sim::run(&scenario, &defaults, &mut support::Native::default(), &mut ()).expect(name)
}
