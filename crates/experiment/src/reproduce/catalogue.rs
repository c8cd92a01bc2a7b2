//! The published results, in the order of their sources, with a description of each. For results that no run
//! compares: why, and where they are shown.

/// A published result.
pub struct CatalogueEntry {
    /// Its id.
    pub id: &'static str,
    /// A short description.
    pub what: &'static str,
    /// Why no run is compared with it; `None` if a scenario has its figures.
    pub not_run: Option<NotRun>,
}

/// Why no run is compared with a published result, and the scenarios, commands and pages that show it
/// instead.
pub struct NotRun {
    /// The reason, as in `definition`.
    pub reason: &'static str,
    /// Names of built-in scenarios.
    pub scenarios: &'static [&'static str],
    /// Commands, as in `longfat bdp`.
    pub commands: &'static [&'static str],
    /// Pages below `docs/`.
    pub pages: &'static [&'static str],
}

impl NotRun {
    /// The evidence of the result, in words; empty if there is none.
    pub fn shown_by(&self) -> String {
        let scenarios = self.scenarios.iter().map(|name| format!("scenario {name}"));
        let pages = self.pages.iter().map(|name| format!("docs/{name}"));
        let commands = self.commands.iter().map(ToString::to_string);
        scenarios.chain(commands).chain(pages).collect::<Vec<_>>().join(", ")
    }
}

const fn figure(id: &'static str, what: &'static str) -> CatalogueEntry {
    CatalogueEntry { id, what, not_run: None }
}

const fn fact(
    id: &'static str,
    what: &'static str,
    reason: &'static str,
    scenarios: &'static [&'static str],
    commands: &'static [&'static str],
    pages: &'static [&'static str],
) -> CatalogueEntry {
    CatalogueEntry { id, what, not_run: Some(NotRun { reason, scenarios, commands, pages }) }
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
    figure("L8-linux2", "socket buffers of twice the bandwidth-delay product"),
    figure("L8-bbr4", "four times that for BBR with losses"),
    figure("L8-hol", "one lost segment with a receive buffer of one bandwidth-delay product"),
    figure("L8-wscale", "the largest window that window scaling allows"),
    figure("L8-zero", "zero window of a full receive buffer"),
    fact(
        "L8-topo",
        "h1 - s1 - s2 - h2, 10 Gb/s and 20 ms",
        "set-up of L8-ping, L8-default and L8-tuned",
        &["lab8", "lab8-ping"],
        &[],
        &[],
    ),
    figure("L8-ping", "echoes over 20 ms, the first with ARP"),
    figure("L8-default", "buffers of 16 MiB at 10 Gb/s and 20 ms"),
    figure("L8-check", "the same and the tuned case, measured on Linux 6.1"),
    figure("L8-tuned", "buffers of 50 MiB"),
    fact(
        "L13-topo",
        "as L8-topo with 1 % of loss and no delay",
        "set-up of L13-1500 and L13-9000",
        &["lab13"],
        &[],
        &[],
    ),
    figure("L13-1500", "MTU 1500 with netem's loss"),
    figure("L13-9000", "MTU 9000 with netem's loss"),
    figure("L13-why", "the same path where 1 % of segments are lost"),
    figure("L13-jumbo", "fewer headers, recovery in proportion to the MTU"),
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
        "set-up of the pairs of flows",
        &["g-rttfair", "g-mtufair"],
        &[],
        &[],
    ),
    figure("G-model", "increments that make two round-trip times even"),
    figure("G-multi", "one Grid DT stream instead of several"),
    figure("G-mtu", "several MTUs over 117 ms"),
    figure("G-mtufair", "Reno with MTU 3000 beside 9000"),
    figure("G-rttfair", "Reno at 181 ms beside 117 ms"),
    figure("G-griddt-rtt", "Grid DT at 181 ms beside 117 ms"),
    figure("G-griddt-mtu", "Grid DT with MTU 3000 beside 9000"),
    figure("G-areas", "a device queue of 100 jumbo packets"),
    figure("G-endbuf", "a device queue of one bandwidth-delay product"),
    fact(
        "G-griddt",
        "the patch: ssthresh, increments and back-off",
        "definition of the algorithm",
        &[],
        &["longfat cc show griddt"],
        &[],
    ),
    figure("G-fair", "Jain's index, plain and weighted by MTU and round-trip time"),
    fact(
        "G-context",
        "LHC experiments store 100 to 1500 MB/s",
        "sizing: nothing was measured",
        &[],
        &["longfat bdp"],
        &[],
    ),
    figure("G-auto", "increments from the MTU and the round-trip time"),
    fact(
        "G-concl",
        "how to get throughput",
        "summary of other ids (G-endbuf, G-griddt, G-mtu)",
        &[],
        &[],
        &[],
    ),
    fact(
        "U-setup",
        "two hosts back to back, iperf's buffers swept",
        "set-up of U-plateau and U-runs",
        &["u-buffers", "u-runs"],
        &["longfat sweep"],
        &[],
    ),
    fact(
        "U-double",
        "the kernel allocates twice the requested buffer",
        "definition: the kernel doubles it in each run",
        &[],
        &["longfat bdp"],
        &[],
    ),
    figure("U-bdp", "bandwidth-delay product of 1 Gb/s and 150 us"),
    figure("U-plateau", "throughput against the client's buffer"),
    figure("U-runs", "some of the swept buffers"),
    figure("U-dips", "glitches at 8k, 30k and 35k, changes at 110k and 115k"),
    fact(
        "U-receiver",
        "can the receiver find out whether the buffer is optimal?",
        "open question of the source",
        &[],
        &["longfat serve"],
        &["receiver.md"],
    ),
    figure("U-autotune", "autotuned buffers beside sizes set by the program"),
    fact(
        "U-next",
        "udpmon, a longer path, duplicate ACKs",
        "future work",
        &[],
        &["longfat probe udpmon"],
        &["probe.md"],
    ),
    figure("U-web100", "TCP's variables every 10 ms, too coarse for 150 us"),
    figure("H-100m", "gigabit sender, 100 Mb/s hop, 200 ms"),
    figure("H-900", "900 Mb/s available, 200 ms"),
    fact("H-purpose", "what such measurements are for", "purpose: nothing to compute", &[], &[], &[]),
    figure("H-udp957", "UDP on gigabit Ethernet"),
    figure("H-tcp941", "TCP on gigabit Ethernet"),
    fact(
        "H-knobs",
        "settings of the hosts",
        "definition of the hosts of H-100m, H-900 and H-lab",
        &["h-100m"],
        &[],
        &[],
    ),
    figure("H-transpac", "HighSpeed TCP from Tokyo to Indianapolis, an hour"),
    figure("H-lab", "800 Mb/s and 88 ms: four congestion controls, two queues"),
    figure("H-buf", "a small queue and a large one"),
    figure("H-pathbuff", "a bottleneck's buffer from a packet train's delay"),
    fact(
        "H-evlbi",
        "the map of slide 19: sites, links, kinds of server",
        "map without a measurement",
        &["e-vlbi"],
        &[],
        &[],
    ),
    fact(
        "H-directory",
        "a directory of points to which measurements are permitted",
        "needs hosts of other operators",
        &[],
        &["longfat agent directory"],
        &["agent.md"],
    ),
    fact(
        "H-tools",
        "iperf, web100, tcpplot and others",
        "list of tools",
        &[],
        &["longfat test", "longfat watch", "longfat plot", "longfat probe"],
        &[],
    ),
    figure("H-burst", "a bottleneck that moves during the run"),
    fact(
        "H-future",
        "measurements together with applications",
        "future work",
        &[],
        &["longfat advise"],
        &["planning.md"],
    ),
];

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    #[test]
    fn the_catalogue_has_the_ids_of_the_published_results() {
        let listed: BTreeSet<&str> = include_str!("../../tests/published_ids.txt").lines().collect();
        let ours: BTreeSet<&str> = CATALOGUE.iter().map(|entry| entry.id).collect();
        assert_eq!(ours, listed);
        assert_eq!(ours.len(), CATALOGUE.len(), "an id is listed twice");
    }

    /// The list of published results beside the project, where it is present.
    #[test]
    fn the_list_of_ids_is_that_of_the_documents() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let candidates = ["../shared/published.md", "../../shared/published.md"];
        let read = |path: &&str| std::fs::read_to_string(project.join(path)).ok();
        let Some(text) = candidates.iter().find_map(read) else { return };
        let first_cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let documented: BTreeSet<&str> = first_cells
            .filter(|cell| ["L8-", "L13-", "G-", "U-", "H-"].iter().any(|p| cell.starts_with(p)))
            .collect();
        let listed: BTreeSet<&str> = include_str!("../../tests/published_ids.txt").lines().collect();
        assert_eq!(documented, listed);
    }

    #[test]
    fn the_named_scenarios_and_pages_exist() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        for entry in CATALOGUE {
            let Some(not_run) = &entry.not_run else { continue };
            assert!(!not_run.reason.is_empty(), "{}", entry.id);
            for name in not_run.scenarios {
                assert!(
                    crate::built_in::BUILT_IN.iter().any(|one| one.name == *name),
                    "{}: {name}",
                    entry.id
                );
            }
            for page in not_run.pages {
                assert!(docs.join(page).exists(), "{}: {page}", entry.id);
            }
        }
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
