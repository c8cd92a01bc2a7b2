//! Runs of the real kernel (Linux 6.1.192, HZ 250), each flow alone on its path, and the same runs in the
//! simulator.
//!
//! `tests/reference/` has the kernel's results: `runs.csv` the means of whole runs, `slow-start.csv` how slow
//! start ended (from traces of 10 ms), `traces.csv` window and round-trip time each 100 ms for 5 s and then
//! each second.

use schema::FlowSample;
use sim::{HostDefaults, Outcome, Segmentation};
use tcp::PacketMemory;

const RUNS: &str = include_str!("../reference/runs.csv");
const SLOW_START: &str = include_str!("../reference/slow-start.csv");
const TRACES: &str = include_str!("../reference/traces.csv");

/// A row of `runs.csv`.
#[derive(Debug, Clone)]
pub struct Reference {
    pub case: String,
    pub cc: String,
    pub duration_s: f64,
    pub loss: f64,
    pub figures: Figures,
    rate_mbps: f64,
    rtt_ms: f64,
    queue_pkts: u64,
    mtu: u32,
    pub mss: i64,
    buffer_max: u64,
}

/// The compared quantities; `2nd` is the second half of the run.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    pub goodput_mbps: f64,
    pub goodput_2nd_mbps: f64,
    pub cwnd_2nd_segs: f64,
    pub srtt_2nd_ms: f64,
    pub drops: f64,
    pub retrans_segs: f64,
    pub max_cwnd_segs: f64,
}

/// How slow start ended.
#[derive(Debug, Clone, Copy)]
pub struct SlowStart {
    pub end_s: f64,
    pub ssthresh_segs: f64,
    /// True if it ended before any retransmission, so by HyStart.
    pub by_hystart: bool,
}

/// One instant of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    pub time_s: f64,
    pub cwnd_segs: i64,
    pub srtt_us: i64,
}

/// Rows of a table with a header line; each maps a column's name to its field.
fn table(text: &'static str) -> impl Iterator<Item = impl Fn(&str) -> &'static str> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    lines.map(move |line| {
        let (names, fields) = (names.clone(), line.split(',').collect::<Vec<_>>());
        move |name: &str| fields[names.iter().position(|known| *known == name).unwrap()]
    })
}

/// All runs.
pub fn references() -> Vec<Reference> {
    let one = |of: &dyn Fn(&str) -> &'static str| {
        let number = |name: &str| of(name).parse::<f64>().unwrap();
        Reference {
            case: of("case").into(),
            cc: of("cc").into(),
            duration_s: number("duration_s"),
            loss: number("loss"),
            rate_mbps: number("rate_mbps"),
            rtt_ms: number("rtt_ms"),
            queue_pkts: number("queue_pkts") as u64,
            mtu: number("mtu") as u32,
            mss: number("mss") as i64,
            buffer_max: number("rmem_wmem_max") as u64,
            figures: Figures {
                goodput_mbps: number("goodput_mbps"),
                goodput_2nd_mbps: number("goodput_2nd_mbps"),
                cwnd_2nd_segs: number("mean_cwnd_2nd"),
                srtt_2nd_ms: number("mean_srtt_ms_2nd"),
                drops: number("queue_drops_case"),
                retrans_segs: number("retrans_segs"),
                max_cwnd_segs: number("max_cwnd"),
            },
        }
    };
    table(RUNS).map(|row| one(&row)).collect()
}

/// How slow start ended in the kernel.
pub fn slow_start(case: &str) -> Option<SlowStart> {
    let row = table(SLOW_START).find(|row| row("case") == case)?;
    Some(SlowStart {
        end_s: row("time_s").parse().ok()?,
        ssthresh_segs: row("ssthresh_segs").parse().ok()?,
        by_hystart: row("retrans_segs") == "0",
    })
}

/// The kernel's window and round-trip time over time.
pub fn trace(case: &str) -> Vec<Point> {
    let rows = table(TRACES).filter(|row| row("case") == case);
    let point = |row: &dyn Fn(&str) -> &'static str| Point {
        time_s: row("time_s").parse().unwrap(),
        cwnd_segs: row("cwnd_segs").parse().unwrap(),
        srtt_us: row("srtt_us").parse().unwrap(),
    };
    rows.map(|row| point(&row)).collect()
}

/// Repeats the reference's run in the simulator, sampled each 10 ms.
pub fn simulate(reference: &Reference, seed: u64) -> Outcome {
    let Reference { cc, rate_mbps, rtt_ms, queue_pkts, mtu, duration_s, buffer_max, loss, .. } = reference;
    // The reference's clock starts after address resolution and handshake.
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
    let defaults = HostDefaults {
        kernel: (6, 1),
        hz: 250,
        segmentation: Segmentation::Host,
        packet_memory: PacketMemory::Veth,
        ..HostDefaults::default()
    };
    super::run(&text, &defaults)
}

/// The simulation's rows with their time in seconds since the connection was established, as in the
/// reference.
pub fn rows<'a>(outcome: &'a Outcome, reference: &Reference) -> Vec<(f64, &'a FlowSample)> {
    let start_s = outcome.flow_totals[0].started.unwrap().as_nanos() as f64 * 1e-9;
    let timed = outcome.flows.iter().map(|row| (row.time_us as f64 * 1e-6 - start_s, row));
    timed.filter(|(time_s, _)| *time_s <= reference.duration_s).collect()
}

/// The simulation's figures.
pub fn figures(outcome: &Outcome, reference: &Reference) -> Figures {
    let rows = rows(outcome, reference);
    let acked = |row: &FlowSample| row.bytes_acked.unwrap_or(0) as f64;
    let (last_s, last) = *rows.last().unwrap();
    let half = rows.iter().position(|(time_s, _)| *time_s >= reference.duration_s / 2.0).unwrap();
    let (half_s, half_row) = rows[half];
    // Use one row each 100 ms, as the reference does.
    let second: Vec<_> = rows[half..].iter().filter(|(_, row)| row.time_us % 100_000 == 0).collect();
    let mean = |of: fn(&FlowSample) -> Option<i64>| {
        second.iter().filter_map(|(_, row)| of(row)).sum::<i64>() as f64 / second.len() as f64
    };
    Figures {
        goodput_mbps: acked(last) * 8e-6 / last_s,
        goodput_2nd_mbps: (acked(last) - acked(half_row)) * 8e-6 / (last_s - half_s),
        cwnd_2nd_segs: mean(|row| row.snd_cwnd_segs),
        srtt_2nd_ms: mean(|row| row.srtt_us) * 1e-3,
        drops: outcome.link_totals.iter().map(|link| link.counters.dropped_queue).sum::<u64>() as f64,
        retrans_segs: last.total_retrans_segs.unwrap_or(0) as f64,
        max_cwnd_segs: rows.iter().filter_map(|(_, row)| row.snd_cwnd_segs).max().unwrap_or(0) as f64,
    }
}

/// How slow start ended in the simulator.
pub fn simulated_slow_start(outcome: &Outcome, reference: &Reference) -> Option<SlowStart> {
    let rows = rows(outcome, reference);
    let (end_s, row) = rows.into_iter().find(|(_, row)| row.snd_ssthresh_segs.is_some())?;
    let by_hystart = row.total_retrans_segs.unwrap_or(0) == 0;
    Some(SlowStart { end_s, ssthresh_segs: row.snd_ssthresh_segs? as f64, by_hystart })
}
