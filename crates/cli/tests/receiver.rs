//! The verdict of the receiving end alone: `serve` with the original iperf3, `watch`, `test -R`, and a
//! capture at the receiver.

use std::{path::Path, process::Stdio};

use serde_json::Value;

use crate::common::{
    CommandOutput, TestDir, binary, bundled_scenario, eventually,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

#[test]
fn the_receiver_of_a_transfer_finds_its_own_small_buffer() {
    if !have(&["iperf3"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new("");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/faults/small-rmem.toml");
    let lab = Lab::of(&test_dir, &file, &[]);
    let serve = ["lab", "exec", "--lab", &lab.name, "h2", "--", binary(), "serve", "-1", "--json"];
    let server = test_dir.longfat(&serve).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let listens = || lab.sh("h2", "cat /proc/net/tcp /proc/net/tcp6").stdout.contains(":1451 ");
    assert!(eventually(listens), "no server listens");
    let watch =
        ["watch", "--host", "h2", "--lab", &lab.name, "--json", "--duration", "4s", "local", "port", "5201"];
    let watching = test_dir.longfat(&watch).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let sent = lab.exec("h1", &["iperf3", "-c", "h2", "-t", "6"]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let served = CommandOutput::from(server.wait_with_output().unwrap()).json();
    let verdict = &served["longfat_receiver_verdicts"]["stream-1"];
    assert_eq!(verdict["finding"], "receive_buffer", "{verdict}");
    assert!(verdict["evidence"].to_string().contains("filled the advertised window"), "{verdict}");
    let watched = CommandOutput::from(watching.wait_with_output().unwrap()).json();
    let live: Vec<&Value> = watched["connections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["receiver_verdict"]["finding"])
        .collect();
    assert!(live.contains(&&Value::from("receive_buffer")), "{live:?}");

    // In the other direction this end is the client, and an original server reports nothing about its socket.
    lab.serve_iperf3("h1");
    let tested = lab.exec("h2", &[binary(), "test", "-R", "h1", "-t", "4"]);
    assert!(tested.stdout.contains("limited by the receiver's buffer (in "), "{tested:?}");
}

#[test]
fn a_capture_at_the_receiver_gets_the_verdict_of_that_end() {
    let _slot = acquire_lab_slot();
    for (name, finding) in [("small-rmem", "receive_buffer"), ("lossy-link", "network")] {
        let scenario = bundled_scenario(&format!("faults/{name}.toml"));
        let test_dir = TestDir::new(&format!("capture = [\"h1\", \"h2\"]\n{scenario}"));
        let run =
            test_dir.run(&["run", "s.toml", "--engine", "lab", "--set", "duration=5s", "--json"]).json();
        let record = test_dir.path(run["runs"][0]["record"].as_str().unwrap());
        let judged = |file: &str| {
            let path = record.join(file);
            let imported = test_dir.run(&["import", "pcap", path.to_str().unwrap(), "--json"]).json();
            let shown =
                test_dir.run(&["show", imported["records"][0]["record"].as_str().unwrap(), "--json"]).json();
            let flows = shown["runs"][0]["flows"].as_array().unwrap();
            flows.iter().max_by_key(|flow| flow["bytes"].as_u64()).unwrap()["receiver_verdict"].clone()
        };
        assert_eq!(judged("h2.pcapng")["finding"], finding, "{name}");
        assert_eq!(judged("h1.pcapng"), Value::Null, "{name}: a capture at the sender is not the receiver's");
    }
}
