//! Data packets per second of processor time with the whole stack: one cubic flow at 1 Gb/s and 117 ms with an MSS of 8960
//! bytes, with super-packets and without; recovery from a slow-start overshoot at an MSS of 1460; the cost by window.
//!
//! `cargo bench -p longfat-sim`; with a case's name and seconds of virtual time it runs that case alone, for
//! `valgrind --tool=callgrind`. Single figures depend on the machine's mood.

#![allow(clippy::disallowed_methods, reason = "a bench reads the processor's clock")]

#[path = "../../tests/support/mod.rs"]
mod support;

use sim::{Machine, Segmentation};

/// Name, rate, one-way delay, MTU, queue, super-packets, virtual seconds.
type Case = (&'static str, &'static str, &'static str, u32, &'static str, bool, u32);

const CASES: [Case; 7] = [
    // At most a BDP in flight, and none lost: the buffers limit.
    ("loss-free", "1gbit", "117ms", 9012, "100MB", true, 300),
    ("loss-free-single", "1gbit", "117ms", 9012, "100MB", false, 100),
    ("sawtooth", "1gbit", "117ms", 9012, "4MB", true, 300),
    ("overshoot", "1gbit", "100ms", 1512, "4000p", true, 8),
    ("overshoot-single", "1gbit", "100ms", 1512, "4000p", false, 8),
    ("window-1600", "1gbit", "19.2ms", 1512, "100MB", false, 20),
    ("window-200000", "10gbit", "240ms", 1512, "1GB", false, 20),
];

fn text(&(_, rate, delay, mtu, queue, whole, seconds): &Case) -> String {
    let gso = if whole { "65535B".to_owned() } else { format!("{mtu}B") };
    format!(
        r#"
duration = "{seconds}s"
sample = "1s"
[hosts."*"]
mtu = {mtu}
nic = {{ gso = "{gso}" }}
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 1000000000", "net.ipv4.tcp_wmem" = "4096 16384 1000000000" }}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
[[links]]
ends = ["s1", "h2"]
forward = {{ rate = "{rate}", delay = "{delay}", queue = "{queue}" }}
[[flows]]
name = "f"
from = "h1"
to = "h2"
cc = "cubic"
"#
    )
}

/// Bytes that the process had to take for each packet in flight at most, the peak before left out.
fn bytes_per_packet(before_kib: u64, outcome: &sim::Outcome) -> f64 {
    let most = outcome.flows.iter().filter_map(|row| row.unacked_segs).max().unwrap_or(1);
    (peak_kib() - before_kib) as f64 * 1024.0 / most.max(1) as f64
}

/// Processor time of this thread, seconds. The kernel counts up to the last switch of tasks.
fn cpu_s() -> f64 {
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let (only, seconds) = (words.next(), words.next().and_then(|word| word.parse().ok()));
    println!(
        "{:18} {:>11} {:>8} {:>10} {:>9} {:>11}",
        "case", "packets", "cpu s", "Mpkt/s", "Mbit/s", "B in flight"
    );
    for case in CASES.iter().filter(|case| only.as_ref().is_none_or(|name| name == case.0)) {
        let case = Case::from(*case);
        let case = (case.0, case.1, case.2, case.3, case.4, case.5, seconds.unwrap_or(case.6));
        let (began, before_kib) = (cpu_s(), peak_kib());
        let machine = Machine { segmentation: Segmentation::Whole, ..Machine::default() };
        let outcome = support::run(&text(&case), &machine);
        let (cpu, packets) = (cpu_s() - began, outcome.data_segments as f64);
        let goodput = outcome.flow_ends[0].bytes as f64 * 8e-6 / f64::from(case.6);
        println!(
            "{:18} {:>11} {:>8.3} {:>10.2} {:>9.1} {:>11}",
            case.0,
            outcome.data_segments,
            cpu,
            packets * 1e-6 / cpu,
            goodput,
            bytes_per_packet(before_kib, &outcome) as u64
        );
    }
}
