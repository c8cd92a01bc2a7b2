//! The sending host's own transmit queue in the lab: every command that judges a flow names it, and its
//! remedies work.

use std::{path::Path, process::Stdio};

use serde_json::Value;

use crate::common::{
    CommandOutput, TestDir, binary, bundled_scenario, eventually, lab::Lab, lab_slots::acquire_lab_slot,
};

/// Maximum number of repeats of a lab run on a busy machine.
const TRIES: u32 = 4;

/// A flow of `scenarios/faults/own-queue.toml` in the lab, with a change of the scenario.
fn flow(test_dir: &TestDir, change: &str) -> Value {
    let set = ["--set", "duration=6s", "--set", change];
    let ran = test_dir.run(&[&["run", "s.toml", "--engine", "lab", "--json"], set.as_slice()].concat());
    ran.parsed()["runs"][0]["flows"][0].clone()
}

#[test]
fn a_lab_run_names_the_local_queue_and_its_remedies_work() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(&bundled_scenario("faults/own-queue.toml"));
    let limited = flow(&test_dir, "title=short");
    assert_eq!(limited["verdict"], "local_queue", "{limited}");
    let evidence = limited["evidence"].to_string();
    assert!(evidence.contains("the device of h1 or its queueing discipline dropped about"), "{evidence}");
    let remedy = limited["remedy"].as_str().unwrap();
    // 100 Mb/s x 100 ms / (1514 x 8 bit) = 825.6 packets; 97 % of 95.64 Mb/s are 92.8.
    assert!(remedy.contains("hosts.h1.nic.tx_queue=826") && remedy.contains("pacing=92mbit"), "{remedy}");
    let goodput = |flow: &Value| flow["goodput_bps"].as_f64().unwrap();
    for remedy in ["hosts.h1.nic.tx_queue=826", "flows.bulk.pacing=92mbit"] {
        // When the machine delays a lab, waiting packets are sent at once, which can fill any queue; the run
        // is then repeated.
        let is_remedied =
            |flow: &Value| flow["verdict"] != "local_queue" && goodput(flow) > 2.0 * goodput(&limited);
        let mut remedied = flow(&test_dir, remedy);
        for _ in 1..TRIES {
            if !is_remedied(&remedied) {
                remedied = flow(&test_dir, remedy);
            }
        }
        assert!(is_remedied(&remedied), "{remedy}: {remedied} after {limited}");
    }
}

#[test]
fn test_and_watch_name_the_local_queue_too() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new("");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/faults/own-queue.toml");
    let lab = Lab::of(&test_dir, &file, &[]);
    lab.serve_iperf3("h2");
    // The watcher starts before the connection: it attributes only the losses that it has counted itself to
    // the device.
    let watch = ["watch", "--host", "h1", "--lab", &lab.name, "--record", "--json", "--duration", "8s"];
    let mut watching = test_dir.longfat(&[watch.as_slice(), &["peer", "port", "5201"]].concat());
    let watching = watching.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| test_dir.path("runs/watch").is_dir()), "the watcher has not started");
    let test = ["lab", "exec", "--lab", &lab.name, "h1", "--", binary(), "test", "h2", "-t", "9"];
    let testing = test_dir.longfat(&test).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watched = CommandOutput::from(watching.wait_with_output().unwrap()).json();
    let verdicts: Vec<&Value> =
        watched["connections"].as_array().unwrap().iter().map(|c| &c["verdict"]).collect();
    assert!(verdicts.contains(&&Value::from("local_queue")), "{verdicts:?}: {watched}");
    let record = Path::new(watched["record"].as_str().unwrap());
    let summary =
        std::fs::read_to_string(test_dir.path(record.to_str().unwrap()).join("summary.json")).unwrap();
    assert!(summary.contains("\"verdict\": \"local_queue\""), "{summary}");
    let tested = CommandOutput::from(testing.wait_with_output().unwrap());
    assert!(tested.stdout.contains("local queue") && tested.stdout.contains("txqueuelen"), "{tested:?}");
}
