//! What it costs to look at our own flows 1,000 times a second: the same test with and without, in turn.

use lab::baseline::VethPair;

use crate::{ROUNDS, SECONDS, ends, ends::Program, median};

/// Both ends send and receive so; both look where they look at all.
const CASES: [(&str, &[&str]); 2] = [("100 Mb/s", &["-b", "100M"]), ("unpaced", &[])];

/// Of a core, percent.
struct Share {
    client: f64,
    server: f64,
}

/// The same test twice.
struct Pair {
    without: Share,
    with: Share,
}

/// Processor time of both ends for each second of the test, without looks and with them.
pub fn cost(pair: &VethPair) {
    println!(
        "\nLooking at one stream at 1 kHz over veth, {SECONDS} s, median of {ROUNDS} pairs, a share of one core:"
    );
    println!("{:>10}  {:>8}  {:>8}  {:>10}  {:>10}", "", "without", "with", "client", "server");
    for (name, flags) in CASES {
        let mut pairs = Vec::new();
        for _ in 0..ROUNDS {
            pairs.push(Pair { without: share(pair, flags, "0"), with: share(pair, flags, "1ms") });
        }
        let of = |value: fn(&Pair) -> f64| median(pairs.iter().map(value).collect());
        println!(
            "{name:>10}  {:>6.1} %  {:>6.1} %  {:>+8.1} %  {:>+8.1} %",
            of(|pair| pair.without.client + pair.without.server),
            of(|pair| pair.with.client + pair.with.server),
            of(|pair| pair.with.client - pair.without.client),
            of(|pair| pair.with.server - pair.without.server),
        );
    }
}

/// What client and server took.
fn share(pair: &VethPair, flags: &[&str], every: &str) -> Share {
    let flags: Vec<&str> = flags.iter().copied().chain(["--sample", every]).collect();
    let (client, server) = ends::both(pair, Program::Longfat, &flags);
    let percent = |cpu_s: f64| cpu_s / f64::from(SECONDS) * 100.0;
    Share { client: percent(client.cpu_s), server: percent(server.cpu_s) }
}
