//! `make bench`, tests between hosts: against iperf3, in one run, over a veth pair between two namespaces. Ratios count; single
//! figures depend on the machine's mood.
//!
//! - TCP goodput, and for each second of processor time that both ends take: one stream, one without copying, eight
//! - packets received for each second of processor time that both ends take, unpaced, datagrams of 1448 bytes
//! - looks at our own stream 1,000 times a second: processor time with them less that without
//! - how exactly datagrams are spaced when paced, by the kernel's time stamps at the receiving device
//!
//! Each end is a process of its own, so that getrusage tells what it took; ours are this program again.

mod ends;
mod process;
mod sampling;
mod spacing;
mod tcp;

use lab::baseline::VethPair;

/// Payload of a datagram.
const BLOCK: u32 = 1448;
const SECONDS: u32 = 4;
/// Each is measured so often, in turn; medians count.
const ROUNDS: usize = 3;
/// Megabits of payload a second.
const PACED: [u32; 3] = [10, 100, 400];

/// What a run without pacing took.
#[derive(Debug, Clone, Copy, Default)]
struct Flood {
    sent: f64,
    received: f64,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if ends::run_as_child(&words) {
        return;
    }
    lab::acquire_privilege().unwrap_or_else(|e| panic!("{e}"));
    if !process::have("iperf3") {
        println!("skipped: iperf3 is not installed");
        return;
    }
    let pair = VethPair::new(1500).unwrap_or_else(|e| panic!("{e}"));
    let asked = |word: &str| words.is_empty() || words.iter().any(|w| w == word);
    if asked("tcp") {
        tcp::compare(&pair);
    }
    if asked("sampling") {
        sampling::cost(&pair);
    }
    if asked("flood") {
        floods(&pair);
    }
    if asked("spacing") {
        spacings(&pair);
    }
}

/// Unpaced, both in turn.
fn floods(pair: &VethPair) {
    println!("\nUnpaced, {BLOCK} B over veth at MTU 1500, {SECONDS} s, median of {ROUNDS}:");
    println!(
        "{:>9}  {:>11}  {:>11}  {:>9}  {:>11}  {:>11}  {:>16}",
        "", "sent/s", "received/s", "lost", "sender CPU", "recv. CPU", "packets/CPU s"
    );
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        rounds[0].push(ends::iperf3_flood(pair));
        rounds[1].push(ends::longfat_flood(pair));
    }
    let per_cpu = rounds.map(|runs| {
        let of = |value: fn(&Flood) -> f64| median(runs.iter().map(value).collect());
        let each = of(|f| f.received / (f.sender_cpu_s + f.receiver_cpu_s));
        let sent = of(|f| f.sent / f.sender_cpu_s);
        (each, sent, of(|f| f.sent), of(|f| f.received), of(|f| f.sender_cpu_s), of(|f| f.receiver_cpu_s))
    });
    let seconds = f64::from(SECONDS);
    for (name, (each, _, sent, received, sender, receiver)) in ["iperf3", "longfat"].iter().zip(&per_cpu) {
        println!(
            "{name:>9}  {:>11.0}  {:>11.0}  {:>8.2}%  {sender:>9.2} s  {receiver:>9.2} s  {each:>16.0}",
            sent / seconds,
            received / seconds,
            (1.0 - received / sent) * 100.0,
        );
    }
    println!(
        "  ratio: {:.1} times the packets of a CPU second, both ends; {:.1} times the sender alone (target 3)",
        per_cpu[1].0 / per_cpu[0].0,
        per_cpu[1].1 / per_cpu[0].1
    );
}

/// Paced, both in turn at each rate.
fn spacings(pair: &VethPair) {
    if !process::have("tshark") {
        println!("spacing skipped: tshark is not installed");
        return;
    }
    println!(
        "\nPaced, {BLOCK} B: gaps at the receiving device, {SECONDS} s; the error is the root mean square against the ideal"
    );
    println!(
        "{:>9}  {:>8}  {:>9}  {:>10}  {:>12}  {:>12}  {:>10}  {:>10}",
        "Mb/s", "", "mean us", "error us", "median error", "within 2 %", "longest us", "sender CPU"
    );
    for rate in PACED {
        let ideal_us = f64::from(BLOCK) * 8.0 / f64::from(rate);
        let theirs = spacing::capture(pair, || ends::iperf3_paced(pair, rate));
        let ours = spacing::capture(pair, || ends::longfat_paced(pair, rate));
        for (name, (gaps, cpu_s)) in [("iperf3", &theirs), ("longfat", &ours)] {
            println!(
                "{rate:>9}  {name:>8}  {:>9.2}  {:>10.2}  {:>12.2}  {:>11.1}%  {:>10.0}  {:>9.2}s",
                gaps.mean_us(),
                gaps.error_us(ideal_us),
                gaps.median_error_us(ideal_us),
                gaps.within(ideal_us, 0.02) * 100.0,
                gaps.longest_us(),
                cpu_s
            );
        }
        let ratio = ours.0.error_us(ideal_us) / theirs.0.error_us(ideal_us);
        println!("  ratio: {ratio:.3} of iperf3's spacing error (target 0.2)");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
