//! No text makes the parser panic, and every error can be displayed.

use proptest::prelude::*;
use scenario::ScenarioFile;

const LAB8: &str = include_str!("../../../scenarios/lab8.toml");

/// Fragments of scenarios that edits insert anywhere.
const WORDS: [&str; 69] = [
    "\"h1\"",
    "\"s1\"",
    "\"s1-s2\"",
    "h1",
    "h2",
    "\"*\"",
    "flows",
    "bulk",
    "links",
    "forward",
    "both",
    "sysctl",
    "10",
    "-1",
    "\"20ms\"",
    "\"0B\"",
    "\"1p\"",
    "\"1%\"",
    "[]",
    "{}",
    "name",
    "\"ping\"",
    "\"udp\"",
    "\"xcp\"",
    "\"udt\"",
    "\"tsunami\"",
    "\"stream\"",
    "\"quic\"",
    "deadline",
    "tolerate_loss",
    "block",
    "\"10.0.0.2/8\"",
    "kind",
    "trace",
    "\"x.trace\"",
    "{ mahimahi = [1, 2] }",
    "[[0, \"1mbit\"]]",
    "trace_period",
    "jitter",
    "distribution",
    "\"normal\"",
    "loss",
    "{ every = 3 }",
    "{ at = \"1s\" }",
    "{ to_bad = 0.1 }",
    "unit",
    "qdisc",
    "\"red\"",
    "\"codel\"",
    "{ kind = \"fq\" }",
    "ecn",
    "true",
    "false",
    "down",
    "reorder",
    "changes",
    "[{ at = \"1s\", both = { delay = \"5ms\" } }]",
    "routers",
    "names",
    "\"r1\"",
    "r1",
    "interfaces",
    "{ eth1 = \"10.3.0.1/24\" }",
    "gateway",
    "\"10.0.0.254\"",
    "routes",
    "ports",
    "nic",
    "capture",
];

/// LAB8 with most other keys of a scenario.
const NETWORK: &str = r#"
capture = ["h1", "trunk"]
duration = "20s"
[hosts.h1]
address = ["10.0.1.1/24", "fd01::1/64"]
interfaces = { eth1 = "10.9.0.1/24" }
gateway = "10.0.1.254"
hz = 300
nic = { tx_queue = 100, gso = "16kB", gso_segs = 4, segmentation = "software", gro = 8 }
[hosts.h2]
address = ["10.0.2.1/24", "fd02::1/64"]
tso = false
[routers]
names = ["r1", "r2"]
[routers.r2]
ports = { r1 = "10.5.0.2/30" }
routes = [{ to = "10.0.1.0/24", via = "10.5.0.1" }]
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
forward = { rate = "1gbit", qdisc = "red", ecn = true }
[[links]]
ends = ["s1", "r1"]
both = { loss = { at = ["1s"], count = 2, unit = "super-packet" } }
[[links]]
name = "trunk"
ends = ["r1", "r2"]
forward = { trace = [[0, "10mbit"], ["5s", "2mbit"]], trace_period = "10s", queue = "30p" }
backward = { jitter = "2ms", distribution = "normal", delay = "10ms", loss = { every = 7 } }
changes = [{ at = "5s", both = { rate = "5mbit" } }, { at = "3s", forward = { delay = "9ms" } }]
[[links]]
ends = ["r2", "h2"]
[[links]]
ends = ["h1", "r2"]
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
reader_stops = "5s"
"#;

/// Parses, resolves and displays a text; it must not panic.
fn exercise(text: &str) {
    match ScenarioFile::parse("fuzz.toml", text) {
        Ok(file) => {
            let variants: Vec<String> = file.variants().map(str::to_owned).collect();
            for variant in variants.iter().map(|v| Some(v.as_str())).chain([None]) {
                let scenario = file.resolve(variant, &[]).expect("parse has checked every variant");
                let again =
                    ScenarioFile::parse("fuzz.toml", &scenario.to_toml()).expect("its TOML parses again");
                assert_eq!(again.resolve(None, &[]).expect("its TOML resolves"), scenario);
            }
        }
        Err(error) => {
            assert!(!error.mistakes().is_empty());
            let handler =
                miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor());
            let mut shown = String::new();
            for mistake in error.mistakes() {
                assert!(error.to_string().contains(&mistake.line()));
                handler.render_report(&mut shown, mistake).expect("every mistake can be shown");
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Replace(usize, u8),
    Insert(usize, u8),
    Remove(usize, usize),
    Repeat(usize, usize, usize),
    /// Replaces a word by another.
    Swap(usize, usize),
}

/// The words and quoted strings of a text, as ranges of it.
fn words(text: &str) -> Vec<std::ops::Range<usize>> {
    let pieces = text.split_inclusive([' ', '\n', ',', '[', ']', '.', '=']);
    let mut start = 0;
    let mut words = Vec::new();
    for piece in pieces {
        let word = piece.trim_end_matches([' ', '\n', ',', '[', ']', '.', '=']);
        if !word.is_empty() {
            words.push(start..start + word.len());
        }
        start += piece.len();
    }
    words
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = 0..LAB8.len().max(NETWORK.len());
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(a, b)| Edit::Replace(a, b)),
        (at.clone(), prop::sample::select(b"[]{}=.,\"'#*0-1p%\n x\\".to_vec()))
            .prop_map(|(a, b)| Edit::Replace(a, b)),
        (at.clone(), any::<u8>()).prop_map(|(a, b)| Edit::Insert(a, b)),
        (at.clone(), 1usize..40).prop_map(|(a, n)| Edit::Remove(a, n)),
        (any::<usize>(), any::<usize>()).prop_map(|(to, from)| Edit::Swap(to, from)),
        (any::<usize>(), any::<usize>()).prop_map(|(to, from)| Edit::Swap(to, from)),
        (at.clone(), 1usize..200, at).prop_map(|(a, n, to)| Edit::Repeat(a, n, to)),
    ]
}

fn edited(text: &str, edits: &[Edit]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for edit in edits {
        let len = bytes.len();
        match *edit {
            Edit::Replace(at, byte) if at < len => bytes[at] = byte,
            Edit::Insert(at, byte) if at < len => bytes.insert(at, byte),
            Edit::Remove(at, n) if at < len => drop(bytes.drain(at..(at + n).min(len))),
            Edit::Repeat(at, n, to) if at < len && to < len => {
                let piece = bytes[at..(at + n).min(len)].to_vec();
                bytes.splice(to..to, piece);
            }
            Edit::Swap(to, from) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let words = words(&text);
                let word = WORDS[from % WORDS.len()];
                if !words.is_empty() {
                    bytes = text.into_bytes();
                    bytes.splice(words[to % words.len()].clone(), word.bytes());
                }
            }
            _ => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn edited_lab8(edits in prop::collection::vec(edit(), 1..4)) {
        exercise(&edited(LAB8, &edits));
    }

    #[test]
    fn edited_network(edits in prop::collection::vec(edit(), 1..4)) {
        exercise(&edited(NETWORK, &edits));
    }

    #[test]
    fn any_text(text in ".*") {
        exercise(&text);
    }

    #[test]
    fn any_setting(path in "[a-z0-9.\"*-]{0,30}", value in ".{0,20}") {
        let file = ScenarioFile::parse("lab8.toml", LAB8).unwrap();
        if let Err(error) = file.resolve(Some("tuned"), &[(path, value)]) {
            prop_assert!(error.to_string().contains("--set"), "{}", error);
        }
    }

    #[test]
    fn any_value_of_a_setting(
        path in prop::sample::select(vec![
            "duration", "sample", "seed", "repeat", "hosts.h1.mtu", "hosts.*.address", "hosts.h1.sysctl",
            "links.s1-s2.forward.rate", "links.s1-s2.both", "links.s1-s2.forward.queue", "links.s1-s2.forward.loss",
            "flows.bulk", "flows.bulk.kind", "flows.bulk.start", "flows.bulk.mss", "flows", "links", "hosts",
        ]),
        value in prop_oneof!["[0-9]{1,25}[a-zA-Z%/]{0,5}", ".{0,20}", "[\\[\\]{}=0-9a-z\", .-]{0,30}"],
    ) {
        let file = ScenarioFile::parse("lab8.toml", LAB8).unwrap();
        if let Ok(scenario) = file.resolve(None, &[(path.into(), value)]) {
            let again = ScenarioFile::parse("lab8.toml", &scenario.to_toml()).expect("its TOML parses again");
            prop_assert_eq!(again.resolve(None, &[]).expect("its TOML resolves"), scenario);
        }
    }

    #[test]
    fn any_value_of_a_setting_of_the_network(
        path in prop::sample::select(vec![
            "capture", "hosts.h1.address", "hosts.h1.interfaces", "hosts.h1.interfaces.eth1", "hosts.*.gateway",
            "hosts.h1.routes", "hosts.h2.nic.gro", "hosts.h1.tx_queue", "hosts.*.tso", "routers.r2.ports",
            "routers.r1.interfaces.eth1", "routers.r2.routes", "links.trunk.changes", "links.trunk.forward.trace",
            "links.trunk.both.loss", "links.trunk.backward.loss.every", "links.trunk.both.qdisc", "links.trunk.both.ecn",
            "links.h1-s1.forward.qdisc.max", "links.trunk.backward.reorder", "links.trunk.forward.trace_period",
            "links.trunk.both.down", "links.trunk.forward.rate", "flows.bulk.reader_resumes", "links.s1-r1.forward.loss.unit",
        ]),
        value in prop_oneof![
            prop::sample::select(WORDS.to_vec()).prop_map(str::to_owned),
            "[0-9]{1,25}[a-zA-Z%/]{0,5}", ".{0,20}", "[\\[\\]{}=0-9a-z\", .-]{0,30}",
        ],
    ) {
        let file = ScenarioFile::parse("net.toml", NETWORK).unwrap();
        if let Ok(scenario) = file.resolve(None, &[(path.into(), value)]) {
            let again = ScenarioFile::parse("net.toml", &scenario.to_toml()).expect("its TOML parses again");
            prop_assert_eq!(again.resolve(None, &[]).expect("its TOML resolves"), scenario);
        }
    }
}
