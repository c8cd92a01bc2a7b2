//! The published results, in the order of their sources, with a description of each. For results without a figure: where
//! they are shown.

/// A published result.
pub struct CatalogueEntry {
    /// Its id.
    pub id: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Where a result without a figure in a scenario is shown; else empty.
    pub shown: &'static str,
}

const fn figure(id: &'static str, what: &'static str) -> CatalogueEntry {
    CatalogueEntry { id, what, shown: "" }
}

const fn fact(id: &'static str, what: &'static str, shown: &'static str) -> CatalogueEntry {
    CatalogueEntry { id, what, shown }
}

impl CatalogueEntry {
    /// The citation of the source, which the first part of the id names.
    pub fn source(&self) -> &'static str {
        let prefix = self.id.split_once('-').map_or(self.id, |(prefix, _)| prefix);
        SOURCES.iter().find(|(known, _)| *known == prefix).map_or("", |(_, citation)| citation)
    }
}

/// The sources: the first part of an id, and the citation.
const SOURCES: [(&str, &str); 5] = [
    ("L8", "University of South Carolina, \"Network Tools and Protocols\", Lab 8, 2019"),
    ("L13", "University of South Carolina, \"Network Tools and Protocols\", Lab 13, 2019"),
    ("G", "S. Ravot, \"TCP transfers over high latency/bandwidth networks - Grid DT\", PFLDnet 2003"),
    ("U", "Y.-T. Li, \"Socket buffer tests\", UCL 2002"),
    (
        "H",
        "M. Hirabaru, \"Performance measurement on large bandwidth-delay product networks\", e-VLBI workshop 2004",
    ),
];

/// All published results. [`CatalogueEntry::source`] has the citations.
pub const CATALOGUE: &[CatalogueEntry] = &[
    figure("L8-bdp", "bandwidth-delay product of 10 Gb/s and 50 ms"),
    figure("L8-util", "1 MiB in flight on that path"),
    figure("L8-linux2", "socket buffers of twice the product"),
    figure("L8-bbr4", "four times that for BBR with losses"),
    figure("L8-hol", "one lost segment with a receive buffer of one product"),
    figure("L8-wscale", "the largest window that window scaling allows"),
    fact("L8-zero", "a full receive buffer is announced as a zero window", "scenarios/zero-window.toml"),
    fact("L8-topo", "h1 - s1 - s2 - h2, 10 Gb/s and 20 ms", "scenarios/lab8.toml, lab8-ping.toml"),
    figure("L8-ping", "echoes over 20 ms, the first with ARP"),
    figure("L8-default", "buffers of 16 MiB at 10 Gb/s and 20 ms"),
    figure("L8-check", "the same and the tuned case, measured on Linux 6.1"),
    figure("L8-tuned", "buffers of 50 MiB"),
    fact("L13-topo", "as L8-topo with 1 % of loss and no delay", "scenarios/lab13.toml"),
    figure("L13-1500", "MTU 1500 with netem's loss"),
    figure("L13-9000", "MTU 9000 with netem's loss"),
    figure("L13-why", "the same path where 1 % of segments are lost"),
    fact(
        "L13-jumbo",
        "fewer headers, recovery in proportion to the MTU",
        "scenarios/lab13.toml, g-mtu.toml; longfat bdp --mtu 9000",
    ),
    figure("G-r1", "responsiveness: 10 Mb/s, 2 to 20 ms"),
    figure("G-r2", "responsiveness: 1 Gb/s, 2 ms"),
    figure("G-r3", "responsiveness: 10 Gb/s, 2 ms"),
    figure("G-r4", "responsiveness: 1 Gb/s, 120 ms"),
    figure("G-r5", "responsiveness: 1 Gb/s, 180 ms"),
    figure("G-r6", "responsiveness: 1 Gb/s, 300 ms"),
    figure("G-r7", "responsiveness: 2.5 Gb/s, 180 ms"),
    figure("G-r8", "responsiveness: 10 Gb/s, 120 ms"),
    figure("G-r9", "responsiveness: 10 Gb/s, 120 ms, jumbo frames"),
    figure("G-recover", "regaining 120 Mb/s after one loss"),
    fact(
        "G-topo",
        "CERN, Chicago and Sunnyvale behind one gigabit switch",
        "scenarios/g-rttfair.toml, g-mtufair.toml",
    ),
    figure("G-model", "increments that make two round-trip times even"),
    figure("G-multi", "one Grid DT stream instead of several"),
    figure("G-mtu", "several MTUs over 117 ms"),
    figure("G-mtufair", "Reno with MTU 3000 beside 9000"),
    figure("G-rttfair", "Reno at 181 ms beside 117 ms"),
    figure("G-griddt-rtt", "Grid DT at 181 ms beside 117 ms"),
    figure("G-griddt-mtu", "Grid DT with MTU 3000 beside 9000"),
    figure("G-areas", "a device queue of 100 jumbo packets"),
    figure("G-endbuf", "a device queue of one product"),
    fact(
        "G-griddt",
        "the patch: ssthresh, increments and back-off",
        "crates/cc/algorithms/griddt.bpf.c; longfat cc list",
    ),
    figure("G-auto", "increments from the MTU and the round-trip time"),
    fact(
        "G-concl",
        "how to get throughput",
        "g-endbuf.toml (limit the window), h-100m.toml (pacing), g-rttfair.toml (increments), g-mtu.toml (larger packets)",
    ),
    fact("U-setup", "two hosts back to back, iperf's buffers swept", "scenarios/u-buffers.toml, u-runs.toml"),
    fact(
        "U-double",
        "the kernel allocates twice the requested buffer",
        "flows.parquet: sndbuf_bytes, rcvbuf_bytes; longfat bdp --buffer",
    ),
    figure("U-bdp", "bandwidth-delay product of 1 Gb/s and 150 us"),
    figure("U-plateau", "throughput against the client's buffer"),
    figure("U-runs", "some of the swept buffers"),
    fact(
        "U-web100",
        "TCP's variables every 10 ms, too coarse for 150 us",
        "any run with sample = \"1ms\": flows.parquet, longfat plot",
    ),
    figure("H-100m", "gigabit sender, 100 Mb/s hop, 200 ms"),
    figure("H-900", "900 Mb/s available, 200 ms"),
    fact("H-purpose", "what such measurements are for", "the program as a whole: nothing to compute"),
    figure("H-udp957", "UDP on gigabit Ethernet"),
    figure("H-tcp941", "TCP on gigabit Ethernet"),
    fact(
        "H-knobs",
        "settings of the hosts",
        "scenarios/h-100m.toml: buffers and metrics by sysctl; nic.tx_queue; no autotuning under kernel = \"2.4\"",
    ),
    figure("H-transpac", "HighSpeed TCP from Tokyo to Indianapolis, an hour"),
    figure("H-lab", "800 Mb/s and 88 ms: four congestion controls, two queues"),
    figure("H-buf", "a small queue and a large one"),
    fact(
        "H-pathbuff",
        "a bottleneck's buffer from a packet train's delay",
        "a scenario sets the queue, and links.*.max_queue shows it; measuring it from outside takes a probe",
    ),
    fact("H-evlbi", "telescopes in Japan, America and Europe", "scenarios/gallery/e-vlbi.toml"),
    fact("H-tools", "iperf, web100, tcpplot and others", "longfat run, plot, lab exec h1 -- iperf3"),
    fact(
        "H-burst",
        "bursts, delayed notice of an overflow, moving bottlenecks",
        "scenarios/h-100m.toml; links.changes and traces in docs/scenario.md",
    ),
    fact("H-future", "measurements together with applications", "an outlook: nothing to compute"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_catalogue_has_the_ids_of_the_published_results() {
        let listed: BTreeSet<&str> = include_str!("../../tests/published_ids.txt").lines().collect();
        let ours: BTreeSet<&str> = CATALOGUE.iter().map(|entry| entry.id).collect();
        assert_eq!(ours, listed);
        assert_eq!(ours.len(), CATALOGUE.len(), "an id is listed twice");
    }

    #[test]
    fn every_result_has_a_source() {
        for entry in CATALOGUE {
            assert!(!entry.source().is_empty(), "{}", entry.id);
        }
        let lab_13 = CATALOGUE.iter().find(|entry| entry.id == "L13-why").unwrap();
        assert!(lab_13.source().contains("Lab 13"), "{}", lab_13.source());
    }
}
