//! Which keys of a scenario each engine models, in one table, so that no engine ignores a key silently.
//!
//! A run's notes name the keys of its scenario that its engine does not model. A test compares the table with
//! the keys that the decoders read.

use net::{Discipline, LossModel, PipeSpec};
use units::Time;

use crate::{
    host_cost::HostCost,
    types::{FlowKind, FlowSpec, Host, Link, Scenario, TcpSpec},
};

/// An engine that runs scenarios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineKind {
    /// The model: closed forms.
    Model,
    /// The simulator.
    Sim,
    /// The emulated network with real kernels.
    Lab,
    /// Real hosts, and the path between them.
    Hosts,
}

impl EngineKind {
    fn name(self) -> &'static str {
        match self {
            EngineKind::Model => "the model",
            EngineKind::Sim => "the simulator",
            EngineKind::Lab => "the lab",
            EngineKind::Hosts => "engine hosts",
        }
    }
}

/// How an engine treats a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// The key has the documented effect.
    Full,
    /// The key has no effect, or a different one, as the text states.
    Not(&'static str),
}

use Handling::{Full, Not};

/// The paths in a scenario that use a key.
type UsedPaths = fn(&Scenario) -> Vec<String>;

/// A key of the scenario file, and its support by each engine.
#[derive(Debug, Clone, Copy)]
pub struct Feature {
    /// The table that has it, as in error messages.
    pub table: &'static str,
    /// The key; `*` is every key of the table.
    pub key: &'static str,
    /// How the model, the simulator and the lab treat the key, in this order.
    pub handling: [Handling; 3],
    /// The paths in a scenario that use it.
    used: UsedPaths,
}

/// A key that every engine models, or that does not affect the network.
const fn full(table: &'static str, key: &'static str) -> Feature {
    Feature { table, key, handling: [Full, Full, Full], used: |_| Vec::new() }
}

/// A key that only the model ignores.
const fn not_by_model(table: &'static str, key: &'static str, why: &'static str, used: UsedPaths) -> Feature {
    Feature { table, key, handling: [Not(why), Full, Full], used }
}

const HOST: &str = "a host";
const NIC: &str = "a nic";
const DIRECTION: &str = "a link's direction";
const FLOW: &str = "a flow";
const COMMANDS: &str = "commands run only with longfat lab up --run-commands";
const NO_CAPTURE: &str = "packets are captured in the lab only";
const ALWAYS_LOCAL_CONGESTION: &str =
    "Linux reduces the window whenever the host's own device drops a packet, and has no setting for it";
const OWN_TIME: &str = "hosts have the processing times of this machine";
const HARDWARE_TIME: &str = "each host has the processing times of its hardware";
const NO_TIMERS: &str = "closed forms have no timers";
const NO_CLOSED_FORM: &str = "there is no closed form for it";
const NO_NIC: &str = "hosts send single packets (no super-packets)";

/// All keys except sysctls: [`Scenario::not_modelled`] takes which of them an engine applies as an argument.
pub const FEATURES: &[Feature] = &[
    full("a scenario", "title"),
    full("a scenario", "duration"),
    full("a scenario", "sample"),
    full("a scenario", "seed"),
    full("a scenario", "repeat"),
    full("a scenario", "sysctl"),
    full("a scenario", "fixed_neighbours"),
    full("a scenario", "hosts"),
    full("a scenario", "switches"),
    full("a scenario", "routers"),
    full("a scenario", "links"),
    full("a scenario", "flows"),
    full("a scenario", "variants"),
    full("a scenario", "published"),
    full("a scenario", "sweeps"),
    Feature {
        table: "a scenario",
        key: "capture",
        handling: [Not(NO_CAPTURE), Not(NO_CAPTURE), Full],
        used: |s| if s.captures.is_empty() { Vec::new() } else { vec!["capture".into()] },
    },
    full("switches", "*"),
    full("a variant or --set", "*"),
    full("a published figure", "*"),
    full("holds_for", "*"),
    full("a text per engine", "*"),
    full("a sweep", "*"),
    full("a router", "*"),
    full("a route", "*"),
    full(HOST, "address"),
    full(HOST, "interfaces"),
    full(HOST, "gateway"),
    full(HOST, "routes"),
    full(HOST, "mtu"),
    Feature {
        table: HOST,
        key: "kernel",
        handling: [Full, Full, Not("every host has the kernel that runs the lab")],
        used: |s| hosts(s, "kernel", |host| host.kernel.is_some()),
    },
    Feature {
        table: HOST,
        key: "hz",
        handling: [Not(NO_TIMERS), Full, Not("every host has the kernel that runs the lab")],
        used: |s| hosts(s, "hz", |host| host.hz.is_some()),
    },
    Feature {
        table: HOST,
        key: "local_congestion",
        handling: [Full, Full, Not(ALWAYS_LOCAL_CONGESTION)],
        used: |s| hosts(s, "local_congestion", |host| !host.local_congestion),
    },
    Feature {
        table: HOST,
        key: "turnaround",
        handling: [Full, Full, Not(OWN_TIME)],
        used: |s| hosts(s, "turnaround", |host| host.turnaround > Time::ZERO),
    },
    Feature {
        table: HOST,
        key: "receive_jitter",
        handling: [Not("closed forms have no random delays"), Full, Not(OWN_TIME)],
        used: |s| hosts(s, "receive_jitter", |host| host.receive_jitter.is_some()),
    },
    Feature {
        table: HOST,
        key: "cost",
        handling: [Full, Full, Not(OWN_TIME)],
        used: |s| hosts(s, "cost", |host| host.cost != HostCost::default()),
    },
    not_by_model("a cost", "rx_queue", "packets wait for the processor without limit", |s| {
        hosts(s, "cost.rx_queue", |host| host.cost.rx_queue.is_some())
    }),
    full("a cost", "*"),
    // Each engine decides which sysctls it applies.
    full(HOST, "sysctl"),
    full(HOST, "nic"),
    full(HOST, "tx_queue"),
    // For runs between real hosts.
    full(HOST, "at"),
    // Short forms of the keys of `nic`.
    full(HOST, "tso"),
    full(HOST, "gso"),
    full(HOST, "gso_segs"),
    full(HOST, "segmentation"),
    full(HOST, "gro"),
    Feature {
        table: HOST,
        key: "start",
        handling: [Not(COMMANDS), Not(COMMANDS), Not(COMMANDS)],
        used: |s| hosts(s, "start", |host| host.start.is_some()),
    },
    Feature {
        table: HOST,
        key: "stop",
        handling: [Not(COMMANDS), Not(COMMANDS), Not(COMMANDS)],
        used: |s| hosts(s, "stop", |host| host.stop.is_some()),
    },
    // Reported once: `tx_queue` of the host is the same setting.
    full(NIC, "tx_queue"),
    full(NIC, "tso"),
    not_by_model(NIC, "gso", NO_NIC, |s| hosts(s, "nic.gso", |host| host.nic.gso.is_some())),
    not_by_model(NIC, "gso_segs", NO_NIC, |s| hosts(s, "nic.gso_segs", |host| host.nic.gso_segs.is_some())),
    not_by_model(NIC, "segmentation", NO_NIC, |s| hosts(s, "nic.segmentation", |host| host.nic.software_gso)),
    not_by_model(NIC, "gro", NO_NIC, |s| hosts(s, "nic.gro", |host| host.nic.gro.is_some())),
    full("a link", "name"),
    full("a link", "ends"),
    full("a link", "forward"),
    full("a link", "backward"),
    full("a link", "both"),
    not_by_model("a link", "changes", "links stay as they are at the start", |s| {
        links(s, "changes", |link| !link.changes.is_empty())
    }),
    full("a change of a link", "*"),
    full(DIRECTION, "rate"),
    full(DIRECTION, "delay"),
    full(DIRECTION, "queue"),
    not_by_model(DIRECTION, "loss", "losses occur singly, at their mean rate", |s| {
        directions(s, "loss", |d| !matches!(d.loss, LossModel::None | LossModel::Independent(_)))
    }),
    full("a loss", "*"),
    not_by_model(DIRECTION, "burst", "packets leave at the link's rate", |s| {
        directions(s, "burst", |d| d.burst.is_some())
    }),
    full(DIRECTION, "overhead"),
    full(DIRECTION, "mtu"),
    full(DIRECTION, "down"),
    not_by_model(DIRECTION, "trace", "the rate is the trace's mean", |s| {
        directions(s, "trace", |d| matches!(d.rate, net::Rate::Trace(_)))
    }),
    full(DIRECTION, "trace_format"),
    full(DIRECTION, "trace_period"),
    full("a trace", "*"),
    not_by_model(DIRECTION, "jitter", "the delay is its mean", |s| {
        directions(s, "jitter", |d| d.jitter.is_some())
    }),
    full(DIRECTION, "distribution"),
    full(DIRECTION, "jitter_reorders"),
    not_by_model(DIRECTION, "duplicate", "no packet arrives twice", |s| {
        directions(s, "duplicate", |d| d.duplicate > 0.0)
    }),
    full(DIRECTION, "corrupt"),
    not_by_model(DIRECTION, "reorder", "packets keep their order", |s| {
        directions(s, "reorder", |d| d.reorder.is_some())
    }),
    full(DIRECTION, "reorder_gap"),
    not_by_model(DIRECTION, "qdisc", "queues are drop-tail", |s| {
        directions(s, "qdisc", |d| {
            !matches!(d.discipline, Discipline::Xcp(_)) && d.discipline != Discipline::default()
        })
    }),
    // Decoded into `qdisc`.
    full(DIRECTION, "ecn"),
    full("the qdisc droptail", "*"),
    full("the qdisc drophead", "*"),
    full("the qdisc red", "*"),
    full("the qdisc codel", "*"),
    full("the qdisc fq_codel", "*"),
    full("the qdisc fq", "*"),
    full("the qdisc dualpi2", "*"),
    full("the qdisc xcp", "*"),
    full(FLOW, "name"),
    full(FLOW, "from"),
    full(FLOW, "to"),
    // An engine rejects kinds that it does not have.
    full(FLOW, "kind"),
    full(FLOW, "start"),
    full(FLOW, "stop"),
    full(FLOW, "cc"),
    full(FLOW, "size"),
    full(FLOW, "mss"),
    full(FLOW, "send_buffer"),
    full(FLOW, "receive_buffer"),
    full(FLOW, "pacing"),
    full(FLOW, "read_rate"),
    full(FLOW, "write_rate"),
    not_by_model(FLOW, "write_size", "the sender always has data", |s| {
        tcp_flows(s, "write_size", |tcp| tcp.write_size.is_some())
    }),
    not_by_model(FLOW, "reader_stops", "the receiver reads all the time", |s| {
        tcp_flows(s, "reader_stops", |tcp| tcp.reader_stops.is_some())
    }),
    full(FLOW, "reader_resumes"),
    full(FLOW, "streams"),
    full("a ping flow", "*"),
    full("a udp flow", "*"),
    full("an xcp flow", "*"),
    not_by_model("a udt flow", "*", NO_CLOSED_FORM, |s| flows_of(s, |kind| matches!(kind, FlowKind::Udt(_)))),
    not_by_model("a tsunami flow", "*", NO_CLOSED_FORM, |s| {
        flows_of(s, |kind| matches!(kind, FlowKind::Tsunami(_)))
    }),
    not_by_model("a stream flow", "*", NO_CLOSED_FORM, |s| {
        flows_of(s, |kind| matches!(kind, FlowKind::Stream(_)))
    }),
    not_by_model("a quic flow", "*", NO_CLOSED_FORM, |s| {
        flows_of(s, |kind| matches!(kind, FlowKind::Quic(_)))
    }),
];

/// Features that runs between real hosts lack, and the paths of a scenario that request them. The links
/// describe the expected path.
const NOT_BY_HOSTS: &[(&str, UsedPaths)] = &[
    ("packets are captured in the lab only", |s| {
        if s.captures.is_empty() { Vec::new() } else { vec!["capture".into()] }
    }),
    ("each host has its own kernel and device", |s| hosts(s, "kernel", |host| host.kernel.is_some())),
    (ALWAYS_LOCAL_CONGESTION, |s| hosts(s, "local_congestion", |host| !host.local_congestion)),
    (HARDWARE_TIME, |s| hosts(s, "turnaround", |host| host.turnaround > Time::ZERO)),
    (HARDWARE_TIME, |s| hosts(s, "receive_jitter", |host| host.receive_jitter.is_some())),
    (HARDWARE_TIME, |s| hosts(s, "cost", |host| host.cost != HostCost::default())),
    ("a real device merges up to its own limit, or not at all", |s| {
        let merges = |host: &Host| host.nic.gso.is_some() && !host.nic.has_no_super_packets(host.mtu);
        hosts(s, "nic.gso", merges)
    }),
    ("a real device merges up to its own limit, or not at all", |s| {
        hosts(s, "nic.gso_segs", |host| host.nic.gso_segs.is_some_and(|segments| segments > 1))
    }),
    ("each host segments as its device does", |s| hosts(s, "nic.segmentation", |host| host.nic.software_gso)),
    ("each host has its own kernel and device", |s| hosts(s, "hz", |host| host.hz.is_some())),
    ("a real device merges up to its own limit, or not at all", |s| {
        hosts(s, "nic.gro", |host| host.nic.gro.is_some_and(|segments| segments > 1))
    }),
    (COMMANDS, |s| hosts(s, "start", |host| host.start.is_some())),
    (COMMANDS, |s| hosts(s, "stop", |host| host.stop.is_some())),
    ("longfat cannot change a real path", |s| links(s, "changes", |link| !link.changes.is_empty())),
];

/// Sysctls without effect on a run in any engine: no run has metrics of earlier connections, and hosts never
/// forward.
const SYSCTLS_WITHOUT_EFFECT: [&str; 3] =
    ["net.ipv4.tcp_no_metrics_save", "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];

/// Maximum number of paths that one note names.
const MAX_PATHS_PER_NOTE: usize = 3;

impl Scenario {
    /// The keys of this scenario that `engine` does not model, a sentence each. `applies` is true if the
    /// engine applies a sysctl of a host.
    pub fn not_modelled(&self, engine: EngineKind, applies: impl Fn(&Host, &str) -> bool) -> Vec<String> {
        let sentence = |paths: &[String], why: &str| {
            let named = paths[..paths.len().min(MAX_PATHS_PER_NOTE)].join(", ");
            let more = match paths.len().saturating_sub(MAX_PATHS_PER_NOTE) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{} ignores {named}{more}: {why}", engine.name())
        };
        let ignored: Vec<(&str, Vec<String>)> = match engine {
            EngineKind::Hosts => NOT_BY_HOSTS.iter().map(|(why, used)| (*why, used(self))).collect(),
            EngineKind::Model | EngineKind::Sim | EngineKind::Lab => FEATURES
                .iter()
                .filter_map(|feature| match feature.handling[engine as usize] {
                    Full => None,
                    Not(why) => Some((why, (feature.used)(self))),
                })
                .collect(),
        };
        let used = ignored.iter().filter(|(_, paths)| !paths.is_empty());
        let mut sentences: Vec<String> = used.map(|(why, paths)| sentence(paths, why)).collect();
        let mut paths = Vec::new();
        for host in &self.hosts {
            let ignored =
                |name: &&String| !SYSCTLS_WITHOUT_EFFECT.contains(&name.as_str()) && !applies(host, name);
            paths.extend(
                host.sysctl
                    .keys()
                    .filter(ignored)
                    .map(|name| format!("hosts.{}.sysctl.\"{name}\"", host.name)),
            );
        }
        if !paths.is_empty() {
            sentences.push(sentence(&paths, "the setting has no effect"));
        }
        sentences
    }
}

fn hosts(scenario: &Scenario, key: &str, uses: impl Fn(&Host) -> bool) -> Vec<String> {
    let used = scenario.hosts.iter().filter(|host| uses(host));
    used.map(|host| format!("hosts.{}.{key}", host.name)).collect()
}

fn links(scenario: &Scenario, key: &str, uses: impl Fn(&Link) -> bool) -> Vec<String> {
    let used = scenario.links.iter().filter(|link| uses(link));
    used.map(|link| format!("links.{}.{key}", link.name)).collect()
}

fn directions(scenario: &Scenario, key: &str, uses: impl Fn(&PipeSpec) -> bool) -> Vec<String> {
    let mut paths = Vec::new();
    for link in &scenario.links {
        for (name, direction) in [("forward", &link.forward), ("backward", &link.backward)] {
            if uses(direction) {
                paths.push(format!("links.{}.{name}.{key}", link.name));
            }
        }
    }
    paths
}

fn tcp_flows(scenario: &Scenario, key: &str, uses: impl Fn(&TcpSpec) -> bool) -> Vec<String> {
    let is_used = |flow: &&FlowSpec| matches!(&flow.kind, FlowKind::Tcp(tcp) if uses(tcp));
    scenario.flows.iter().filter(is_used).map(|flow| format!("flows.{}.{key}", flow.name)).collect()
}

fn flows_of(scenario: &Scenario, is_of_kind: impl Fn(&FlowKind) -> bool) -> Vec<String> {
    let of_kind = scenario.flows.iter().filter(|flow| is_of_kind(&flow.kind));
    of_kind.map(|flow| format!("flows.{}", flow.name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Keys;

    /// The keys of every table that the decoders read.
    fn all_keys() -> Vec<&'static Keys> {
        let mut all = vec![
            &crate::decode_scenario::TOP,
            &crate::decode_scenario::SWITCHES,
            &crate::decode_hosts::HOST,
            &crate::decode_nic::NIC,
            &crate::decode_cost::COST,
            &crate::decode_interfaces::ROUTE,
            &crate::decode_routers::ROUTER,
            &crate::decode_links::LINK,
            &crate::decode_links::CHANGE,
            &crate::decode_direction::DIRECTION,
            &crate::decode_loss::LOSS,
            &crate::decode_trace::INLINE,
            &crate::decode_flows::TCP,
            &crate::decode_flows::PING,
            &crate::decode_flows::UDP,
            &crate::decode_flows::XCP,
            &crate::decode_bulk::UDT,
            &crate::decode_bulk::TSUNAMI,
            &crate::decode_bulk::STREAM,
            &crate::decode_bulk::QUIC,
            &crate::layer::LAYER,
            &crate::published::PUBLISHED,
            &crate::published::HOLDS_FOR,
            &crate::published::PER_ENGINE,
            &crate::sweep::SWEEP,
        ];
        all.extend(crate::decode_qdisc::KINDS.iter().map(|(_, keys)| keys));
        all
    }

    #[test]
    fn every_key_is_in_the_table() {
        for keys in all_keys() {
            let whole = FEATURES.iter().any(|f| f.table == keys.what && f.key == "*");
            for key in keys.known {
                let own = FEATURES.iter().any(|f| f.table == keys.what && f.key == *key);
                assert!(
                    own || whole,
                    "{:?} of {} is not in modelled.rs: which engines model it?",
                    key,
                    keys.what
                );
            }
        }
        for feature in FEATURES {
            let keys = all_keys().into_iter().find(|keys| keys.what == feature.table);
            let keys = keys.unwrap_or_else(|| panic!("no decoder reads {}", feature.table));
            assert!(
                feature.key == "*" || keys.known.contains(&feature.key),
                "{} of {}",
                feature.key,
                feature.table
            );
        }
    }

    /// Detects a table of keys that `all_keys` does not list.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test reads this crate's own sources")]
    fn every_table_of_keys_is_listed() {
        let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut written = 0;
        for entry in std::fs::read_dir(sources).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("modelled.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                written += text.matches("known: &[").count() + text.matches("known: KNOWN").count();
            }
        }
        assert_eq!(written, all_keys().len());
    }

    /// docs/scenario.md has the same table, line by line.
    #[test]
    fn the_documentation_has_the_table() {
        let text = include_str!("../../../docs/scenario.md");
        let cell = |handling: &Handling| match handling {
            Full => "yes",
            Not(why) => why,
        };
        for feature in FEATURES.iter().filter(|f| f.handling.iter().any(|h| *h != Full)) {
            let [model, sim, lab] = feature.handling.each_ref().map(cell);
            let line = format!("| `{}` of {} | {model} | {sim} | {lab} |", feature.key, feature.table);
            assert!(text.contains(&line), "docs/scenario.md lacks this line: {line}");
        }
    }

    #[test]
    fn notes_list_the_keys_that_an_engine_ignores() {
        let text = r#"
            duration = "1s"
            capture = ["h1"]
            hosts.h1.address = "10.0.0.1/24"
            hosts.h1.start = "true"
            hosts.h1.sysctl = { "net.ipv4.tcp_sack" = "0", "net.ipv4.tcp_fastopen" = "3" }
            hosts.h2.address = "10.0.0.2/24"
            hosts.h2.kernel = "6.1"
            hosts.h1.turnaround = "9us"
            hosts.h2.cost = { preset = "server-10g", rx_queue = 300 }
            [[links]]
            ends = ["h1", "h2"]
            both = { rate = "1gbit", jitter = "1ms", qdisc = "codel" }
        "#;
        let scenario = crate::ScenarioFile::parse("s", text).unwrap().resolve(None, &[]).unwrap();
        let of = |engine| scenario.not_modelled(engine, |_, name| name == "net.ipv4.tcp_sack");
        let model = of(EngineKind::Model).join("\n");
        for part in
            ["capture", "links.h1-h2.forward.jitter, links.h1-h2.backward.jitter", "qdisc", "tcp_fastopen"]
        {
            assert!(model.contains(part), "{part}: {model}");
        }
        assert!(!model.contains("tcp_sack") && !model.contains("kernel"), "{model}");
        let lab = of(EngineKind::Lab).join("\n");
        assert!(
            lab.contains("ignores hosts.h1.turnaround:") && lab.contains("ignores hosts.h2.cost:"),
            "{lab}"
        );
        assert!(model.contains("hosts.h2.cost.rx_queue") && !model.contains("turnaround"), "{model}");
        let sim = of(EngineKind::Sim).join("\n");
        assert!(sim.contains("hosts.h1.start") && !sim.contains("jitter"), "{sim}");
        let lab = of(EngineKind::Lab).join("\n");
        assert!(lab.contains("hosts.h2.kernel") && !lab.contains("capture"), "{lab}");
    }
}
