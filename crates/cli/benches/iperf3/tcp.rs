//! Compares TCP streams of both programs.

use lab::baseline::VethPair;

use crate::{ROUNDS, SECONDS, ends, ends::Program, median};

/// The cases: a name, flags of both clients, and the compared figure.
const CASES: [(&str, &[&str], Target); 3] = [
    ("one stream", &[], Target::PerCpu),
    ("-Z", &["-Z"], Target::PerCpu),
    ("-P 8", &["-P", "8"], Target::Goodput),
];

#[derive(Debug, Clone, Copy)]
enum Target {
    /// Bits per second of processor time of both ends.
    PerCpu,
    /// Bits per second.
    Goodput,
}

/// Goodput in Gb/s, and Gb per second of processor time.
struct Throughput {
    goodput: f64,
    per_cpu: f64,
}

/// Runs both programs alternately, case by case.
pub fn compare(pair: &VethPair) {
    println!("TCP over veth at MTU 1500, {SECONDS} s, median of {ROUNDS}:");
    println!("{:>10}  {:>8}  {:>8}  {:>17}", "", "", "Gb/s", "Gb/CPU s, 2 ends");
    for (name, flags, target) in CASES {
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            rounds[0].push(test(pair, Program::Iperf3, flags));
            rounds[1].push(test(pair, Program::Longfat, flags));
        }
        let medians = rounds.map(|runs| Throughput {
            goodput: median(runs.iter().map(|run| run.goodput).collect()),
            per_cpu: median(runs.iter().map(|run| run.per_cpu).collect()),
        });
        for (program, throughput) in ["iperf3", "longfat"].iter().zip(&medians) {
            println!("{name:>10}  {program:>8}  {:>8.2}  {:>17.2}", throughput.goodput, throughput.per_cpu);
        }
        let [theirs, ours] = medians;
        match target {
            Target::PerCpu => println!(
                "  ratio: {:.2} times iperf3's goodput per CPU second (target 1)",
                ours.per_cpu / theirs.per_cpu
            ),
            Target::Goodput => {
                println!("  ratio: {:.2} times iperf3's goodput (target 1)", ours.goodput / theirs.goodput);
            }
        }
    }
}

fn test(pair: &VethPair, program: Program, flags: &[&str]) -> Throughput {
    let (client, server) = ends::client_and_server(pair, program, flags);
    let json: serde_json::Value = serde_json::from_str(&client.stdout).expect("both write iperf3's JSON");
    let figure = |name: &str| {
        json["end"]["sum_received"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {json}"))
    };
    let gigabits = figure("bytes") * 8e-9;
    Throughput { goodput: gigabits / figure("seconds"), per_cpu: gigabits / (client.cpu_s + server.cpu_s) }
}
