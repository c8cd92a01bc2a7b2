//! No text makes the parser panic, and every error of it can be shown.

use proptest::prelude::*;
use scenario::ScenarioFile;

const LAB8: &str = include_str!("../../../scenarios/lab8.toml");

/// What stands somewhere in a scenario and may be put anywhere.
const WORDS: [&str; 24] = [
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
    "\"10.0.0.2/8\"",
    "kind",
];

/// Parses, resolves and shows; only panics matter.
fn exercise(text: &str) {
    match ScenarioFile::parse("fuzz.toml", text) {
        Ok(file) => {
            let variants: Vec<String> = file.variants().map(str::to_owned).collect();
            for variant in &variants {
                let scenario = file.resolve(Some(variant), &[]).expect("parse has checked every variant");
                let again =
                    ScenarioFile::parse("fuzz.toml", &scenario.to_toml()).expect("what is printed parses");
                assert_eq!(again.resolve(None, &[]).expect("and resolves"), scenario);
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
    /// Puts a word in another's place.
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
    let at = 0..LAB8.len();
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

fn edited(edits: &[Edit]) -> String {
    let mut bytes = LAB8.as_bytes().to_vec();
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
        exercise(&edited(&edits));
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
            let again = ScenarioFile::parse("lab8.toml", &scenario.to_toml()).expect("what is printed parses");
            prop_assert_eq!(again.resolve(None, &[]).expect("and resolves"), scenario);
        }
    }
}
