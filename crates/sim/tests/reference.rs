//! The simulator against runs of the real kernel: each flow without random loss by itself, flows with random
//! loss by their means.
//!
//! The whole table is printed: `cargo test -p longfat-sim --release --test all reference -- --nocapture`.

use crate::support;
use support::reference::{
    Figures, Reference, figures, references, simulate, simulated_slow_start, slow_start,
};

/// A compared quantity: name, tolerance, value.
type Quantity = (&'static str, f64, fn(&Figures) -> f64);

const QUANTITIES: [Quantity; 7] = [
    ("Mb/s", 0.02, |f| f.goodput_mbps),
    ("Mb/s 2nd", 0.02, |f| f.goodput_2nd_mbps),
    ("cwnd", 0.05, |f| f.cwnd_2nd_segs),
    ("srtt ms", 0.05, |f| f.srtt_2nd_ms),
    ("drops", 0.15, |f| f.drops),
    ("retrans", 0.15, |f| f.retrans_segs),
    ("max cwnd", 0.05, |f| f.max_cwnd_segs),
];

/// Counts of drops and retransmissions may differ by this much even if that exceeds the tolerance.
const COUNT_SLACK: f64 = 3.0;

/// Formats a comparison, and adds it to `missed` if the difference exceeds the tolerance.
fn compare(
    missed: &mut Vec<String>,
    reference: &Reference,
    name: &str,
    (our, their): (f64, f64),
    tolerance: f64,
) -> String {
    let error = if our == their { 0.0 } else { our / their - 1.0 };
    let is_count = matches!(name, "drops" | "retrans");
    let is_missed = error.abs() > tolerance && !(is_count && (our - their).abs() <= COUNT_SLACK);
    if is_missed {
        missed.push(format!("{} {name}: {our:.2}, not {their:.2}", reference.case));
    }
    let mark = if is_missed { "!" } else { "" };
    format!("  {name} {our:.2}/{their:.2} {:+.1}%{mark}", error * 100.0)
}

#[test]
fn single_flows_agree_with_the_kernel() {
    let mut missed = Vec::new();
    for reference in references().into_iter().filter(|reference| reference.loss == 0.0) {
        let outcome = simulate(&reference, 1);
        let ours = figures(&outcome, &reference);
        let mut line = format!("{:14}", reference.case);
        for (name, tolerance, of) in QUANTITIES {
            let pair = (of(&ours), of(&reference.figures));
            line.push_str(&compare(&mut missed, &reference, name, pair, tolerance));
        }
        let their = slow_start(&reference.case).expect("slow start ended");
        let our = simulated_slow_start(&outcome, &reference).expect("slow start ends");
        let pair = (our.ssthresh_segs, their.ssthresh_segs);
        line.push_str(&compare(&mut missed, &reference, "ssthresh", pair, 0.05));
        if reference.cc == "cubic" {
            let ended_by = |hystart| if hystart { "HyStart" } else { "loss" };
            line.push_str(&format!("  {} {:.2} s/", ended_by(our.by_hystart), our.end_s));
            line.push_str(&format!("{} {:.2} s", ended_by(their.by_hystart), their.end_s));
            // The kernel's traces have steps of 10 ms.
            let is_off = (our.end_s - their.end_s).abs() > 0.05 * their.end_s + 0.01;
            if is_off || our.by_hystart != their.by_hystart {
                missed.push(format!("{} slow start: {our:?}, not {their:?}", reference.case));
            }
        }
        eprintln!("{line}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Mean and standard deviation of a sample.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (n - 1.0)).sqrt())
}

/// The mean goodput of sixteen seeds is within one standard deviation of the mean of the kernel's eight
/// repeats.
#[test]
fn flows_with_random_loss_agree_within_one_standard_deviation() {
    let all: Vec<_> = references().into_iter().filter(|reference| reference.loss > 0.0).collect();
    for cc in ["reno", "cubic"] {
        let theirs: Vec<&Reference> = all.iter().filter(|reference| reference.cc == cc).collect();
        let goodputs: Vec<f64> = theirs.iter().map(|reference| reference.figures.goodput_mbps).collect();
        let (their, spread) = mean_and_deviation(&goodputs);
        let one = |seed: u64| figures(&simulate(theirs[0], seed), theirs[0]).goodput_mbps;
        let ours: Vec<f64> = (1..=2 * theirs.len() as u64).map(one).collect();
        let (our, deviation) = mean_and_deviation(&ours);
        eprintln!("{cc}: {our:.1} +- {deviation:.1}, the kernel {their:.1} +- {spread:.1} Mb/s");
        assert!((our - their).abs() <= spread, "{cc}: {our} for {their} +- {spread}");
    }
}
