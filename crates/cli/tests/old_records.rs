//! Records of earlier versions can be opened: tests/records-0.1 has runs of version 0.1.0 by three engines.

use crate::common::{CommandOutput, TestDir};

const RUNS: [&str; 3] =
    ["20261125T214948Z-model-reno", "20261125T214948Z-sim-cubic", "20261125T214949Z-lab-reno"];

/// Runs `longfat` on the records of version 0.1.0.
fn on_old_records(dir: &TestDir, arguments: &[&str]) -> CommandOutput {
    let records = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records-0.1");
    let ran = dir.run(&[&["--runs", records], arguments].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    ran
}

#[test]
fn records_of_version_0_1_open_in_every_command() {
    let dir = TestDir::new("");
    let listed = on_old_records(&dir, &["ls"]).stdout;
    let [_, sim, lab] = RUNS;
    for run in RUNS {
        assert!(listed.contains(run), "{listed}");
        let shown = on_old_records(&dir, &["show", run]).stdout;
        assert!(shown.contains("bulk") && shown.contains("Mb/s"), "{shown}");
    }
    let compared = on_old_records(&dir, &["compare", sim, lab, "--json"]).json();
    assert_eq!(compared["schema"], "longfat.compare/1");
    on_old_records(&dir, &["plot", sim, lab, "--metric", "goodput,cwnd,rtt,queue", "-o", "old.svg"]);
    assert!(std::fs::read_to_string(dir.path("old.svg")).unwrap().contains("<svg"));
    on_old_records(&dir, &["report", sim, lab, "-o", "old.html"]);
    assert!(std::fs::read_to_string(dir.path("old.html")).unwrap().contains("A record of version 0.1"));
    for format in ["csv", "iperf3"] {
        on_old_records(&dir, &["export", format, lab, "-o", format]);
    }
    on_old_records(&dir, &["export", "table", "small/", "-o", "runs.parquet"]);
}

/// The scenario that the record contains runs again, with the same result.
#[test]
fn a_scenario_of_version_0_1_runs_again() {
    let dir = TestDir::new("");
    let [_, sim, _] = RUNS;
    let old = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/records-0.1/small")).join(sim);
    std::fs::copy(old.join("scenario.toml"), dir.path("again.toml")).unwrap();
    let again = dir.run(&["run", "again.toml", "--engine", "sim", "--json"]).json();
    let old: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(old.join("summary.json")).unwrap()).unwrap();
    let goodput =
        |summary: &serde_json::Value| summary["runs"][0]["flows"][0]["goodput_bps"].as_f64().unwrap();
    let ratio = goodput(&again) / goodput(&old);
    // The simulator may have become more exact, and this machine may have another kernel.
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}
