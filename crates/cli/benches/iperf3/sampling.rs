//! Cost of sampling longfat's own flows 1,000 times a second: the same test with and without samples,
//! alternately.

use lab::baseline::VethPair;

use crate::{ROUNDS, SECONDS, ends, ends::Program, median};

/// Names of the cases, and the flags of the client. With samples, both ends sample their sockets.
const CASES: [(&str, &[&str]); 2] = [("100 Mb/s", &["-b", "100M"]), ("unpaced", &[])];

/// Processor time of both ends, percent of one core.
struct Share {
    client: f64,
    server: f64,
}

/// Processor time of a test without samples and of one with samples.
struct Pair {
    without: Share,
    with: Share,
}

/// Prints the processor time of both ends per second of the test, without and with samples.
pub fn cost(pair: &VethPair) {
    println!(
        "\nSampling one stream at 1 kHz over veth, {SECONDS} s, median of {ROUNDS} pairs, share of one core:"
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

/// Runs one test; returns the processor time of client and server.
fn share(pair: &VethPair, flags: &[&str], every: &str) -> Share {
    let flags: Vec<&str> = flags.iter().copied().chain(["--sample", every]).collect();
    let (client, server) = ends::client_and_server(pair, Program::Longfat, &flags);
    let percent = |cpu_s: f64| cpu_s / f64::from(SECONDS) * 100.0;
    Share { client: percent(client.cpu_s), server: percent(server.cpu_s) }
}
