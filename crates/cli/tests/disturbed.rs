//! Lab runs on a machine that stalls: the run is repeated, the published row is marked unreliable, and the
//! command succeeds.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use crate::common;
use common::{CommandOutput, TestDir, lab::signal, lab_slots::acquire_all_lab_slots};
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

/// Length and interval of the artificial stalls.
const STALL: Duration = Duration::from_millis(60);
const EVERY: Duration = Duration::from_millis(600);

/// Runs `args` and stops the process for [`STALL`] every [`EVERY`].
fn run_stalled(test_dir: &TestDir, args: &[&str]) -> CommandOutput {
    let mut command = test_dir.longfat(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(120), "the run did not end");
        std::thread::sleep(EVERY);
        // The child has not been reaped, so its process id is still valid.
        signal("-STOP", child.id());
        std::thread::sleep(STALL);
        signal("-CONT", child.id());
    }
    CommandOutput::from(child.wait_with_output().unwrap())
}

#[test]
fn stalled_runs_are_repeated_and_marked_unreliable() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(PING);
    let ran = run_stalled(&test_dir, &["run", "s.toml", "--json"]);
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
    assert_eq!(discarded.len(), 2, "three attempts: {run}");
    assert!(discarded.iter().all(|d| !d["faults"].as_array().unwrap().is_empty()), "{run}");
    assert!(ran.stderr.contains("the machine disturbed try 1 of 3"), "{ran:?}");
    let records: Vec<_> = std::fs::read_dir(test_dir.path("runs/s")).unwrap().collect();
    assert_eq!(records.len(), 1, "discarded attempts have no records: {records:?}");

    // The event has the stall's time, and warning, table and verdict agree on its length.
    let id = run["id"].as_str().unwrap();
    let csv = test_dir.run(&["export", "csv", id, "--table", "events"]).stdout;
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
fn undisturbed_runs_are_not_repeated() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(PING);
    for _ in 0..3 {
        let ran = test_dir.run(&["run", "s.toml", "--json"]);
        if ran.code == 4 {
            testing::skip(testing::Missing::Privilege, "a lab needs namespaces");
            return;
        }
        assert_eq!(ran.code, 0, "disturbed figures are not counted as missed: {ran:?}");
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
fn unreliable_runs_print_one_line_of_reasons() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(PING);
    let ran = run_stalled(&test_dir, &["run", "s.toml"]);
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
