//! Lab runs on a machine that stalls: the run is repeated, the published row says that it is unreliable, and nothing fails.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use crate::common;
use common::{Place, Ran, lab::signal, turn::the_only_lab};
use serde_json::Value;

/// A ping over 20 ms: its largest round trip and its median.
const PING: &str = r#"title = "ping"
duration = "2s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { delay = "20ms" }
[[flows]]
name = "ping"
kind = "ping"
from = "h1"
to = "h2"
interval = "20ms"
[[published]]
id = "T-max"
metric = "flows.ping.max_rtt"
value = "41ms"
tolerance = "10%"
[[published]]
id = "T-first"
metric = "flows.ping.first_rtt"
value = "41ms"
tolerance = "10%"
"#;

/// Length of the stalls made here, and time from one to the next.
const STALL: Duration = Duration::from_millis(60);
const EVERY: Duration = Duration::from_millis(600);

/// Runs `args` and stops the whole process for [`STALL`] now and then.
fn run_stalled(place: &Place, args: &[&str]) -> Ran {
    let mut command = place.longfat(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "it never ended");
        std::thread::sleep(EVERY);
        // It is not waited for yet, so the number is still its own.
        signal("-STOP", child.id());
        std::thread::sleep(STALL);
        signal("-CONT", child.id());
    }
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_run_on_a_machine_that_stalls_is_repeated_and_unreliable_but_no_failure() {
    let _turn = the_only_lab();
    let place = Place::new(PING);
    let ran = run_stalled(&place, &["run", "s.toml", "--json"]);
    if ran.code == 4 {
        testing::skip(testing::Missing::Privilege, "a lab needs namespaces");
        return;
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    let json = ran.parsed();
    let run = &json["runs"][0];
    let max = &json["published"][0];
    assert_eq!((max["id"].as_str(), max["verdict"].as_str()), (Some("T-max"), Some("unreliable")), "{json}");
    assert!(max["faults"][0].as_str().unwrap().contains("stalled"), "{max}");
    let discarded = run["discarded"].as_array().unwrap();
    assert_eq!(discarded.len(), 2, "three tries: {run}");
    assert!(discarded.iter().all(|d| !d["faults"].as_array().unwrap().is_empty()), "{run}");
    assert!(ran.stderr.contains("the machine disturbed try 1 of 3"), "{ran:?}");
    let records: Vec<_> = std::fs::read_dir(place.path("runs/s")).unwrap().collect();
    assert_eq!(records.len(), 1, "discarded tries are no records: {records:?}");

    // The stall is in its place on the time axis, and one definition gives remark, table and verdict.
    let id = run["id"].as_str().unwrap();
    let csv = place.run(&["export", "csv", id, "--table", "events"]).stdout;
    let stalls_us: Vec<i64> = csv
        .lines()
        .filter(|line| line.contains(",emulator,stall,"))
        .map(|line| line.rsplit(',').next().unwrap().parse().unwrap())
        .collect();
    let longest_us = *stalls_us.iter().max().unwrap_or_else(|| panic!("no stall: {csv}"));
    assert!(longest_us >= 50_000, "{stalls_us:?}");
    let quality = &run["quality"];
    let figure = |name: &str| quality[name].as_f64().unwrap();
    assert_eq!(figure("stalled_max_us") as i64, longest_us, "{quality}");
    assert!(figure("emulator_late_max_us") >= figure("stalled_max_us"), "{quality}");
    assert_eq!(figure("stalls") as usize, stalls_us.len(), "{quality}");
    let notes: Vec<&str> = quality["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let extent = format!("stalled for up to {:.0} ms", longest_us as f64 / 1000.0);
    assert!(notes.iter().any(|note| note.contains(&extent)), "{extent}: {notes:?}");
}

#[test]
fn a_quiet_run_is_made_once_and_reliable() {
    let _turn = the_only_lab();
    let place = Place::new(PING);
    for _ in 0..3 {
        let ran = place.run(&["run", "s.toml", "--json"]);
        if ran.code == 4 {
            testing::skip(testing::Missing::Privilege, "a lab needs namespaces");
            return;
        }
        assert_eq!(ran.code, 0, "what is not within was disturbed, and is not missed: {ran:?}");
        let json = ran.parsed();
        let verdicts: Vec<_> = json["published"].as_array().unwrap().iter().map(|p| &p["verdict"]).collect();
        assert!(verdicts.iter().all(|verdict| *verdict == "within" || *verdict == "unreliable"), "{json}");
        if json["runs"][0]["discarded"].is_null() && verdicts.iter().all(|verdict| *verdict == "within") {
            assert!(json["published"][0]["faults"].is_null() && json["runs"][0]["quality"]["ok"] == true);
            return;
        }
    }
    testing::skip(testing::Missing::QuietMachine, "each of three runs was disturbed");
}

#[test]
fn an_unreliable_run_has_one_line_with_its_reasons() {
    let _turn = the_only_lab();
    let place = Place::new(PING);
    let ran = run_stalled(&place, &["run", "s.toml"]);
    if ran.code == 4 {
        testing::skip(testing::Missing::Privilege, "a lab needs namespaces");
        return;
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("unreliable (machine busy)"), "{}", ran.stdout);
    let lines = |what: &str| ran.stdout.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(lines("lab: unreliable measurement: the emulator stalled for up to "), 1, "{}", ran.stdout);
    assert!(lines("lab: note: ") >= 1 && !ran.stdout.contains("TRUST"), "{}", ran.stdout);
}
