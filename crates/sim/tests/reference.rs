//! The simulator against runs of the real kernel (Linux 6.1, HZ 250): single flows without random loss one by one, with
//! random loss by their means.
//!
//! The reference runs lie beside the repository (`runs.csv` and traces); without them the test says so and passes. The
//! whole table is printed: `cargo test -p longfat-sim --release --test reference -- --nocapture`.

#![allow(clippy::disallowed_methods, reason = "reads the reference runs")]

mod support;

use std::{path::PathBuf, process::Command};

use sim::{Machine, Outcome, Segmentation};

/// A row of `runs.csv`, as far as it is needed.
#[derive(Debug, Clone)]
struct Reference {
    case: String,
    cc: String,
    rate_mbps: f64,
    rtt_ms: f64,
    queue_pkts: u64,
    mtu: u32,
    duration_s: f64,
    goodput: f64,
    goodput_2nd: f64,
    retrans: f64,
    cwnd_2nd: f64,
    srtt_2nd: f64,
    buffer_max: u64,
    max_cwnd: f64,
    loss: f64,
}

/// The directory of the reference runs: `LONGFAT_REFERENCE`, or `shared/reference` beside the repository.
fn directory() -> Option<PathBuf> {
    let named = std::env::var_os("LONGFAT_REFERENCE").map(PathBuf::from);
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let above = root.ancestors().skip(1).map(|dir| dir.join("shared/reference"));
    named.into_iter().chain(above).find(|dir| dir.join("runs.csv").is_file())
}

fn references(dir: &std::path::Path) -> Vec<Reference> {
    let text = std::fs::read_to_string(dir.join("runs.csv")).unwrap();
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let one = |row: Vec<&str>| {
        let of = |name: &str| row[names.iter().position(|n| *n == name).unwrap()];
        let number = |name: &str| of(name).parse::<f64>().unwrap();
        Reference {
            case: of("case").into(),
            cc: of("cc").into(),
            rate_mbps: number("rate_mbps"),
            rtt_ms: number("rtt_ms"),
            queue_pkts: number("queue_pkts") as u64,
            mtu: number("mtu") as u32,
            duration_s: number("duration_s"),
            goodput: number("goodput_mbps"),
            goodput_2nd: number("goodput_2nd_mbps"),
            retrans: number("retrans_segs"),
            cwnd_2nd: number("mean_cwnd_2nd"),
            srtt_2nd: number("mean_srtt_ms_2nd"),
            buffer_max: number("rmem_wmem_max") as u64,
            max_cwnd: number("max_cwnd"),
            loss: number("loss"),
        }
    };
    rows.map(one).collect()
}

/// The first finite ssthresh of the kernel's trace; none where it cannot be unpacked.
fn traced_ssthresh(dir: &std::path::Path, case: &str) -> Option<f64> {
    let path = dir.join("traces").join(format!("{case}.csv.xz"));
    let text =
        Command::new("xz").arg("-dc").arg(path).output().ok().filter(|out| out.status.success())?.stdout;
    let text = String::from_utf8(text).ok()?;
    text.lines().skip(1).find_map(|line| line.split(',').nth(3)?.parse().ok())
}

fn simulate(reference: &Reference, seed: u64) -> Outcome {
    let Reference { cc, rate_mbps, rtt_ms, queue_pkts, mtu, duration_s, buffer_max, loss, .. } = reference;
    // Address resolution and handshake come before the reference's clock.
    let run_s = duration_s + 1.0;
    let gso = if reference.case.ends_with("-gso1") {
        format!("nic = {{ gso = \"{mtu}B\" }}")
    } else {
        String::new()
    };
    let text = format!(
        r#"
duration = "{run_s}s"
sample = "10ms"
seed = {seed}
[hosts."*"]
mtu = {mtu}
{gso}
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 {buffer_max}", "net.ipv4.tcp_wmem" = "4096 16384 {buffer_max}" }}
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
forward = {{ rate = "{rate_mbps}mbit", delay = "{rtt_ms}ms", queue = "{queue_pkts}p", loss = {loss} }}
[[flows]]
name = "f"
from = "h1"
to = "h2"
cc = "{cc}"
"#
    );
    let machine = Machine { kernel: (6, 1), hz: 250, segmentation: Segmentation::Host, ..Machine::default() };
    support::run(&text, &machine)
}

/// The same figures as the reference's, in its order, and the ssthresh after slow start. The reference's clock begins
/// when the connection is there.
fn figures(outcome: &Outcome, reference: &Reference) -> [f64; 7] {
    let start_us = (outcome.flow_ends[0].started.unwrap().0 / 1000) as i64;
    let (half_us, end_us) = (reference.duration_s * 5e5, reference.duration_s * 1e6);
    let rows: Vec<_> = outcome.flows.iter().filter(|row| row.time_us <= start_us + end_us as i64).collect();
    let acked = |row: &schema::FlowSample| row.bytes_acked.unwrap_or(0) as f64;
    let last = rows.last().unwrap();
    let half = rows.iter().find(|row| row.time_us >= start_us + half_us as i64).unwrap();
    // Traces have a row each 100 ms after the first seconds.
    let second: Vec<_> =
        rows.iter().filter(|row| row.time_us >= half.time_us && row.time_us % 100_000 == 0).collect();
    let mean = |of: fn(&schema::FlowSample) -> Option<i64>| {
        second.iter().filter_map(|row| of(row)).sum::<i64>() as f64 / second.len() as f64
    };
    let span_s = |from: i64| (last.time_us - from) as f64 * 1e-6;
    [
        acked(last) * 8e-6 / span_s(start_us),
        (acked(last) - acked(half)) * 8e-6 / span_s(half.time_us),
        mean(|row| row.snd_cwnd_segs),
        mean(|row| row.srtt_us) * 1e-3,
        last.total_retrans_segs.unwrap_or(0) as f64,
        rows.iter().filter_map(|row| row.snd_cwnd_segs).max().unwrap_or(0) as f64,
        rows.iter().find_map(|row| row.snd_ssthresh_segs).unwrap_or(0) as f64,
    ]
}

/// Names and tolerances of the figures.
const FIGURES: [(&str, f64); 7] = [
    ("Mb/s", 0.02),
    ("Mb/s 2nd", 0.02),
    ("cwnd", 0.05),
    ("srtt ms", 0.05),
    ("retrans", 0.15),
    ("max cwnd", 0.05),
    ("ssthresh", 0.05),
];

#[test]
fn single_flows_are_as_the_kernels() {
    let Some(dir) = directory() else {
        eprintln!("skipped: there are no reference runs here (LONGFAT_REFERENCE names their directory)");
        return;
    };
    let mut missed = Vec::new();
    for reference in references(&dir).into_iter().filter(|reference| reference.loss == 0.0) {
        let outcome = simulate(&reference, 1);
        let ours = figures(&outcome, &reference);
        let ssthresh = traced_ssthresh(&dir, &reference.case).unwrap_or(f64::NAN);
        let Reference { goodput, goodput_2nd, cwnd_2nd, srtt_2nd, retrans, max_cwnd, .. } = reference;
        let theirs = [goodput, goodput_2nd, cwnd_2nd, srtt_2nd, retrans, max_cwnd, ssthresh];
        let mut line = format!("{:14}", reference.case);
        for (((name, tolerance), our), their) in FIGURES.iter().zip(ours).zip(theirs) {
            let off = if our == their { 0.0 } else { our / their - 1.0 };
            let mark = if off.abs() > *tolerance { "!" } else { "" };
            line.push_str(&format!("  {name} {our:.1}/{their:.1} {:+.1}%{mark}", off * 100.0));
            // A flow of a few hundred drops may have some more or less.
            let is_missed = off.abs() > *tolerance && !(*name == "retrans" && (our - their).abs() <= 3.0);
            if is_missed {
                missed.push(format!("{} {name}: {our:.1}, not {their:.1}", reference.case));
            }
        }
        eprintln!("{line}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn random_loss_gives_the_kernels_mean() {
    let Some(dir) = directory() else {
        eprintln!("skipped: there are no reference runs here (LONGFAT_REFERENCE names their directory)");
        return;
    };
    let all: Vec<_> = references(&dir).into_iter().filter(|reference| reference.loss > 0.0).collect();
    for cc in ["reno", "cubic"] {
        let theirs: Vec<&Reference> = all.iter().filter(|reference| reference.cc == cc).collect();
        let mean = |goodputs: Vec<f64>| goodputs.iter().sum::<f64>() / goodputs.len() as f64;
        let their = mean(theirs.iter().map(|reference| reference.goodput).collect());
        let one = |seed: u64| figures(&simulate(theirs[0], seed), theirs[0])[0];
        let our = mean((1..=2 * theirs.len() as u64).map(one).collect());
        let off = our / their - 1.0;
        eprintln!("{cc}: {our:.1}, the kernel {their:.1} Mb/s: {:+.1} %", off * 100.0);
        // The repeats' means are known to some 4 %.
        assert!(off.abs() < 0.1, "{cc}: {our} for {their}");
    }
}
