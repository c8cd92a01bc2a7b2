//! TCP streams as both programs send and receive them.

use lab::baseline::VethPair;

use crate::{ROUNDS, SECONDS, ends, ends::Program, median};

/// What is compared: a name, flags that both clients take, and which figure the target is about.
const CASES: [(&str, &[&str], Target); 3] = [
    ("one stream", &[], Target::PerCpu),
    ("-Z", &["-Z"], Target::PerCpu),
    ("-P 8", &["-P", "8"], Target::Goodput),
];

#[derive(Debug, Clone, Copy)]
enum Target {
    /// Bits for each second of processor time of both ends.
    PerCpu,
    /// Bits a second.
    Goodput,
}

/// Gb/s, and Gb for each second of processor time.
struct Got {
    goodput: f64,
    per_cpu: f64,
}

/// Both programs in turn, case by case.
pub fn compare(pair: &VethPair) {
    println!("TCP over veth at MTU 1500, {SECONDS} s, median of {ROUNDS}:");
    println!("{:>10}  {:>8}  {:>8}  {:>17}", "", "", "Gb/s", "Gb/CPU s, 2 ends");
    for (name, flags, target) in CASES {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            rounds[0].push(test(pair, Program::Iperf3, flags));
            rounds[1].push(test(pair, Program::Longfat, flags));
        }
        let medians = rounds.map(|runs| Got {
            goodput: median(runs.iter().map(|got| got.goodput).collect()),
            per_cpu: median(runs.iter().map(|got| got.per_cpu).collect()),
        });
        for (program, got) in ["iperf3", "longfat"].iter().zip(&medians) {
            println!("{name:>10}  {program:>8}  {:>8.2}  {:>17.2}", got.goodput, got.per_cpu);
        }
        let [theirs, ours] = medians;
        match target {
            Target::PerCpu => println!(
                "  ratio: {:.2} times iperf3's goodput for a CPU second (target 1)",
                ours.per_cpu / theirs.per_cpu
            ),
            Target::Goodput => {
                println!("  ratio: {:.2} times iperf3's goodput (target 1)", ours.goodput / theirs.goodput);
            }
        }
    }
}

fn test(pair: &VethPair, program: Program, flags: &[&str]) -> Got {
    let (client, server) = ends::both(pair, program, flags);
    let json: serde_json::Value = serde_json::from_str(&client.stdout).expect("both write iperf3's JSON");
    let figure = |name: &str| {
        json["end"]["sum_received"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {json}"))
    };
    let gigabits = figure("bytes") * 8e-9;
    Got { goodput: gigabits / figure("seconds"), per_cpu: gigabits / (client.cpu_s + server.cpu_s) }
}
