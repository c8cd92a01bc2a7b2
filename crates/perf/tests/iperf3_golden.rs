//! What Debian's iperf3 3.12 printed (tests/iperf3/, made by make.sh), read and written again: every key is there, in its
//! place, with its type and its value.

use std::{fs, path::Path};

use perf::iperf3_json::{RateUnit, TextFormat, from_json, to_json, to_text};
use serde_json::Value;

fn fixtures(ending: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/iperf3");
    let mut found: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no *{ending}");
    found
}

/// A test that never began is known by its error alone; these are of the program that could not begin it.
const NOT_BEGUN: [&str; 2] = [".start.version", ".start.system_info"];

/// What our document may say otherwise, by the end of the path and why.
const OTHERWISE: [(&str, &str); 5] = [
    (".socket", "our numbers of streams, not descriptors"),
    (".receiver.seconds", "the receiver's own"),
    (".end.sum.bits_per_second", "the sum's own bytes over its own seconds"),
    (".end.sum_bidir_reverse.bits_per_second", "the same"),
    ("_tcp_congestion", "of the client's data, with --bidir"),
];

fn compare(path: &str, theirs: &Value, ours: &Value, differences: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let mistaken = mistaken_span(theirs);
            for (key, value) in theirs {
                match ours.get(key) {
                    Some(_)
                        if mistaken && ["start", "seconds", "bits_per_second"].contains(&key.as_str()) => {}
                    Some(own) => compare(&format!("{path}.{key}"), value, own, differences),
                    None => differences.push(format!("{path}.{key} is missing")),
                }
            }
            let common: Vec<&String> = ours.keys().filter(|key| theirs.contains_key(*key)).collect();
            let order: Vec<&String> = theirs.keys().filter(|key| ours.contains_key(*key)).collect();
            if common != order {
                differences.push(format!("{path}: the order {common:?} is not {order:?}"));
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            if theirs.len() != ours.len() {
                differences.push(format!("{path}: {} entries, not {}", ours.len(), theirs.len()));
            }
            for (i, (their, own)) in theirs.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{i}]"), their, own, differences);
            }
        }
        (Value::Number(their), Value::Number(own)) => {
            let (their, own) = (their.as_f64().unwrap(), own.as_f64().unwrap());
            // Times are printed with six places, from which lengths and rates are computed anew.
            let computed = path.ends_with(".seconds") || path.ends_with(".bits_per_second");
            let tolerance = if computed { 2e-4 } else { 1e-9 };
            let near = (own - their).abs() <= tolerance * their.abs().max(1.0).max(own.abs());
            if !near && !otherwise(path) {
                differences.push(format!("{path}: {own}, not {their}"));
            }
        }
        (theirs, ours) if std::mem::discriminant(theirs) != std::mem::discriminant(ours) => {
            differences.push(format!("{path}: {ours} has another type than {theirs}"));
        }
        (theirs, ours) if theirs != ours && !otherwise(path) => {
            differences.push(format!("{path}: {ours}, not {theirs}"));
        }
        _ => {}
    }
}

/// The first interval after an omitted beginning has a begin and a length that do not fit its end.
fn mistaken_span(object: &serde_json::Map<String, Value>) -> bool {
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    let span = || Some((number("end")? - number("start")? - number("seconds")?).abs() > 1e-3);
    span().unwrap_or(false)
}

fn otherwise(path: &str) -> bool {
    OTHERWISE.iter().any(|(end, _)| path.ends_with(end))
}

#[test]
fn every_key_of_iperf3_is_ours() {
    for (name, text) in fixtures(".json") {
        let theirs: Value = serde_json::from_str(&text).unwrap();
        let report = from_json(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut differences = Vec::new();
        compare("", &theirs, &to_json(&report), &mut differences);
        if report.start.is_none() {
            differences.retain(|told| !NOT_BEGUN.iter().any(|key| *told == format!("{key} is missing")));
        }
        assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    }
}

/// Lines without their numbers, names and blanks: what kinds of lines there are, in which order.
fn shape(text: &str) -> Vec<String> {
    let letters = |line: &str| -> String {
        let kept = line.chars().map(|c| if c.is_ascii_digit() { '#' } else { c });
        kept.filter(|c| !c.is_whitespace() && !"#.KMGT".contains(*c)).collect()
    };
    // Of the server's report, the JSON has the JSON.
    let text = text.split("\nServer ").next().unwrap();
    let told_once = |line: &&str| !line.contains("CPU Utilization") && !line.contains("_tcp_congestion");
    // iperf3 tells of the processor only where this end sends, and of both directions twice.
    let both = text.contains("[Role]") || text.contains("Reverse mode");
    // Random letters.
    let lines = text.lines().map(|line| if line.contains("Cookie:") { "Cookie:" } else { line });
    // What it says while it sets itself up is no part of a report.
    let done = |line: &&str| {
        let setting_up = line.starts_with("Control connection MSS") || line.starts_with("Setting UDP block");
        !line.is_empty() && *line != "iperf Done." && !setting_up
    };
    lines.filter(|line| !both || told_once(line)).filter(done).map(letters).collect()
}

#[test]
fn text_has_the_lines_of_iperf3() {
    for (name, theirs) in fixtures(".txt") {
        let json = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/iperf3")
                .join(name.replace(".txt", ".client.json")),
        );
        let report = from_json(&json.unwrap()).unwrap();
        let ours = to_text(&report, TextFormat { unit: RateUnit::Adaptive, verbose: true });
        // Of another run of the same test: the same lines, other figures.
        let (ours, theirs) = (shape(&ours), shape(&theirs));
        let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert!(
            differs.is_none() && ours.len() == theirs.len(),
            "{name}: {differs:?}\n{ours:#?}\n{theirs:#?}"
        );
    }
}
