//! Random scenarios: no panic, no stall, every byte of a sized flow delivered once and in order, no window
//! exceeded.
//!
//! `LONGFAT_RANDOM=10000 cargo test -p longfat-sim --release --test all random` runs 10,000 of them.

#![allow(clippy::disallowed_methods, reason = "reads the number of scenarios from the environment")]

use crate::support;
use sim::{HostDefaults, Segmentation};

/// Random numbers from a seed (SplitMix64, Steele and others 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A scenario of one to three flows over one link, and the size of each flow in bytes.
fn scenario(draws: &mut Draws) -> (String, Vec<u64>) {
    let mtu = draws.one_of(&[576, 1500, 1500, 4352, 9000]);
    let rmem = draws.one_of(&[65_536, 262_144, 6_291_456, 67_108_864]);
    let nic = draws.one_of(&["", "nic = { gro = 1 }", "nic = { gro = 3 }", "nic = { gso = \"16kB\" }"]);
    let rate = draws.one_of(&["512kbit", "10mbit", "100mbit", "1gbit"]);
    let delay_us = draws.one_of(&[0, 100, 5_000, 50_000, 200_000]);
    let queue = draws.one_of(&["3p", "10p", "100p", "1000p", "10MB"]);
    let impairment = draws.one_of(&[
        "",
        "",
        ", loss = \"0.01%\"",
        ", loss = \"1%\"",
        ", loss = \"10%\"",
        ", jitter = \"3ms\", jitter_reorders = true",
        ", reorder = \"1%\"",
        ", duplicate = \"1%\"",
        ", corrupt = 0.001",
        ", qdisc = \"codel\", ecn = true",
        ", qdisc = \"fq_codel\"",
    ]);
    let back =
        draws.one_of(&["", "loss = \"5%\"", "delay = \"30ms\"", "rate = \"256kbit\", queue = \"20p\""]);
    let sysctl = draws.one_of(&[
        "",
        ", \"net.ipv4.tcp_sack\" = \"0\"",
        ", \"net.ipv4.tcp_timestamps\" = \"0\"",
        ", \"net.ipv4.tcp_window_scaling\" = \"0\"",
        ", \"net.ipv4.tcp_ecn\" = \"1\"",
        ", \"net.ipv4.tcp_dsack\" = \"0\"",
        ", \"net.ipv4.tcp_recovery\" = \"0\"",
    ]);
    let mut text = format!(
        r#"
duration = "20s"
sample = "100ms"
[hosts."*"]
mtu = {mtu}
{nic}
sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 {rmem}", "net.ipv4.tcp_wmem" = "4096 16384 {rmem}"{sysctl} }}
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = {{ rate = "{rate}", delay = "{delay_us}us", queue = "{queue}"{impairment} }}
backward = {{ {back} }}
"#
    );
    let mut sizes = Vec::new();
    for flow in 0..=draws.below(3) {
        let max = draws.one_of(&[100, 20_000, 500_000]);
        let size = 1 + draws.below(max);
        let cc = draws.one_of(&["reno", "cubic", "bbr", "westwood", "htcp", "vegas"]);
        let pace = draws.one_of(&[
            "",
            "",
            "",
            "read_rate = \"5mbit\"",
            "write_rate = \"5mbit\"",
            "pacing = \"20mbit\"",
        ]);
        let start_ms = draws.below(300);
        text.push_str(&format!(
            "[[flows]]\nname = \"f{flow}\"\nfrom = \"h1\"\nto = \"h2\"\ncc = \"{cc}\"\nsize = \"{size}B\"\nstart = \"{start_ms}ms\"\n{pace}\n"
        ));
        sizes.push(size);
    }
    (text, sizes)
}

/// Describes the violated property of a run, if any.
fn violation(text: &str, sizes: &[u64], defaults: &HostDefaults) -> Option<String> {
    let outcome = support::run(text, defaults);
    for row in &outcome.flows {
        let of = |value: Option<i64>| value.unwrap_or(0);
        let (out, wnd) =
            (of(row.bytes_sent) - of(row.bytes_retrans) - of(row.bytes_acked), of(row.snd_wnd_bytes));
        // Scaling may shrink a window by less than its unit; a probe of one byte may exceed a zero window.
        if out > wnd.max(1) + 128 * 1024 {
            return Some(format!(
                "{} has {out} B outstanding in a window of {wnd} B at {}",
                row.flow, row.time_us
            ));
        }
        if of(row.snd_cwnd_segs) < 1 || of(row.sacked_segs) > of(row.unacked_segs) {
            return Some(format!("impossible counts at {}: {row:?}", row.time_us));
        }
    }
    // Heavy loss on a slow path may take longer than the run: timeouts double.
    let is_harsh = ["10%", "512kbit", "256kbit", "5%", "3p", "0.001"].iter().any(|key| text.contains(key));
    for (totals, size) in outcome.flow_totals.iter().zip(sizes) {
        if totals.bytes > *size {
            return Some(format!(
                "{} of {} read {} of {size} B",
                totals.name,
                outcome.flow_totals.len(),
                totals.bytes
            ));
        }
        if totals.bytes < *size && !is_harsh {
            return Some(format!(
                "{} stalled: {} of {size} B after {:?}",
                totals.name, totals.bytes, totals.ended
            ));
        }
    }
    None
}

#[test]
fn random_scenarios_deliver_all_bytes() {
    let count = std::env::var("LONGFAT_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut bad = Vec::new();
    for seed in 0..count {
        let mut draws = Draws(seed);
        let (text, sizes) = scenario(&mut draws);
        let kernel = draws.one_of(&[(6, 1), (6, 18)]);
        let segmentation = draws.one_of(&[Segmentation::Whole, Segmentation::Host]);
        let defaults = HostDefaults { kernel, segmentation, ..HostDefaults::default() };
        let run = std::panic::catch_unwind(|| violation(&text, &sizes, &defaults));
        match run {
            Ok(None) => {}
            Ok(Some(why)) => bad.push(format!("seed {seed}, {defaults:?}: {why}\n{text}")),
            Err(_) => bad.push(format!("seed {seed}, {defaults:?}: panicked\n{text}")),
        }
    }
    assert!(bad.is_empty(), "{} of {count}; the first: {}", bad.len(), bad[0]);
}
