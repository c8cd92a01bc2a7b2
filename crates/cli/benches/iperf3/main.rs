//! Part of `make bench`: longfat against iperf3 in the same run, over a veth pair between two network
//! namespaces. Compare the ratios; absolute figures depend on the machine and its load.
//!
//! - `tcp`: goodput, and bits per second of processor time of both ends: one stream, zero copy, eight streams
//! - `sampling`: processor time of longfat's stream, with and without samples 1,000 times a second
//! - `flood`: UDP datagrams of 1448 bytes received per second of processor time of both ends, unpaced
//! - `spacing`: spacing error of paced datagrams, from the kernel's timestamps at the receiving device
//!
//! Each end is a separate process, so that getrusage reports its processor time. longfat's UDP ends are this
//! program with other arguments.

mod ends;
mod process;
mod sampling;
mod spacing;
mod tcp;

use lab::baseline::VethPair;

/// Payload of a datagram, bytes.
const BLOCK: u32 = 1448;
/// Duration of one measurement.
const SECONDS: u32 = 4;
/// Number of measurements of each program, alternately; the median is reported.
const ROUNDS: usize = 3;
/// Rates of payload, Mb/s.
const PACED_RATES_MBPS: [u32; 3] = [10, 100, 400];

/// Packets and processor time of an unpaced run.
#[derive(Debug, Clone, Copy, Default)]
struct Flood {
    sent: f64,
    received: f64,
    sender_cpu_s: f64,
    receiver_cpu_s: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if ends::run_as_child(&arguments) {
        return;
    }
    lab::acquire_privilege().unwrap_or_else(|e| panic!("{e}"));
    if !process::is_installed("iperf3") {
        println!("skipped: iperf3 is not installed");
        return;
    }
    let pair = VethPair::new(1500).unwrap_or_else(|e| panic!("{e}"));
    let is_selected = |name: &str| arguments.is_empty() || arguments.iter().any(|a| a == name);
    if is_selected("tcp") {
        tcp::compare(&pair);
    }
    if is_selected("sampling") {
        sampling::cost(&pair);
    }
    if is_selected("flood") {
        compare_floods(&pair);
    }
    if is_selected("spacing") {
        compare_spacing(&pair);
    }
}

/// Compares unpaced UDP; the programs run alternately.
fn compare_floods(pair: &VethPair) {
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
    let medians = rounds.map(|runs| {
        let of = |value: fn(&Flood) -> f64| median(runs.iter().map(value).collect());
        let received_per_cpu_s = of(|f| f.received / (f.sender_cpu_s + f.receiver_cpu_s));
        let sent_per_cpu_s = of(|f| f.sent / f.sender_cpu_s);
        (
            received_per_cpu_s,
            sent_per_cpu_s,
            of(|f| f.sent),
            of(|f| f.received),
            of(|f| f.sender_cpu_s),
            of(|f| f.receiver_cpu_s),
        )
    });
    let seconds = f64::from(SECONDS);
    for (name, (per_cpu_s, _, sent, received, sender, receiver)) in ["iperf3", "longfat"].iter().zip(&medians)
    {
        println!(
            "{name:>9}  {:>11.0}  {:>11.0}  {:>8.2}%  {sender:>9.2} s  {receiver:>9.2} s  {per_cpu_s:>16.0}",
            sent / seconds,
            received / seconds,
            (1.0 - received / sent) * 100.0,
        );
    }
    println!(
        "  ratio to iperf3, packets per CPU second: {:.1} for both ends, {:.1} for the sender (target 3)",
        medians[1].0 / medians[0].0,
        medians[1].1 / medians[0].1
    );
}

/// Compares the spacing of paced UDP at each rate; the programs run alternately.
fn compare_spacing(pair: &VethPair) {
    if !process::is_installed("tshark") {
        println!("spacing skipped: tshark is not installed");
        return;
    }
    println!(
        "\nPaced, {BLOCK} B, {SECONDS} s: gaps at the receiving device; \
         error: root mean square deviation from the ideal gap"
    );
    println!(
        "{:>9}  {:>8}  {:>9}  {:>10}  {:>12}  {:>12}  {:>10}  {:>10}",
        "Mb/s", "", "mean us", "error us", "median error", "within 2 %", "longest us", "sender CPU"
    );
    for rate in PACED_RATES_MBPS {
        let ideal_us = f64::from(BLOCK) * 8.0 / f64::from(rate);
        let iperf3 = spacing::capture(pair, || ends::iperf3_paced(pair, rate));
        let longfat = spacing::capture(pair, || ends::longfat_paced(pair, rate));
        for (name, (gaps, cpu_s)) in [("iperf3", &iperf3), ("longfat", &longfat)] {
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
        let ratio = longfat.0.error_us(ideal_us) / iperf3.0.error_us(ideal_us);
        println!("  ratio: {ratio:.3} of iperf3's spacing error (target 0.2)");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
