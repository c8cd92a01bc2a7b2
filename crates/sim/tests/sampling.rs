//! Sampling at any interval does not change a run, and its cost is proportional to the number of samples.

#![allow(clippy::disallowed_methods, reason = "measures what sampling costs")]

use crate::support;
use sim::Outcome;
use support::Path;

fn run(sample: &str, duration: &str) -> Outcome {
    let top = format!("duration = \"{duration}\"\nsample = \"{sample}\"");
    let forward = "rate = \"100mbit\", delay = \"5ms\", queue = \"100p\"";
    Path { top: &top, forward, flows: &["cc = \"reno\""], ..Path::default() }.run()
}

/// Processor time of this thread, seconds.
fn cpu_s() -> f64 {
    std::thread::yield_now();
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

#[test]
fn the_sample_interval_does_not_change_the_run() {
    let (coarse, fine) = (run("10ms", "200ms"), run("1us", "200ms"));
    assert_eq!(coarse.flow_totals, fine.flow_totals);
    let at = |outcome: &Outcome, us: i64| {
        let row = outcome.flows.iter().find(|row| row.time_us == us).unwrap();
        (row.snd_cwnd_segs, row.bytes_acked, row.srtt_us, row.bytes_received)
    };
    for us in (20_000..=200_000).step_by(10_000) {
        assert_eq!(at(&coarse, us), at(&fine, us), "at {us} us");
    }
    // From the time when the connection is established, after two round trips, each microsecond.
    let times: Vec<i64> = fine.flows.iter().map(|row| row.time_us).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + 1), "a microsecond has no row");
    assert!((180_000..=190_000).contains(&times.len()), "{}", times.len());
}

#[test]
fn the_cost_is_proportional_to_the_samples() {
    let cost = |duration: &str| {
        let before = cpu_s();
        let outcome = run("1us", duration);
        ((cpu_s() - before) / outcome.flows.len() as f64, outcome.flows.len())
    };
    cost("50ms");
    let ((short, few), (long, many)) = (cost("60ms"), cost("480ms"));
    assert!(many > 8 * few);
    // A quadratic cost would be ten times as high.
    assert!(long < 3.0 * short, "{:.0} and {:.0} ns a row", short * 1e9, long * 1e9);
}
