//! `longfat agent demo`: six agents on an emulated network, a fault whose cause the page's documents name,
//! and no processes or labs at the end.

use crate::common;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use common::{TestDir, is_root, lab::signal, lab_slots::acquire_all_lab_slots};
use serde_json::Value;

/// A round of tests takes 90 s; a busy machine needs more than one.
const TIMEOUT: Duration = Duration::from_secs(700);

/// Ends the demo in order, also if the test fails: its lab would remain.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            signal("-TERM", self.0.id());
            let _ = self.0.wait();
        }
    }
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    response
        .starts_with("HTTP/1.1 200")
        .then(|| response.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()))?
}

#[test]
fn the_demo_names_its_fault_and_cleans_up() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "reads the namespaces of the lab's processes");
        return;
    }
    let _slots = acquire_all_lab_slots();
    let test_dir = TestDir::new("");
    // The fault appears before most pairs are tested, so one round is sufficient.
    let mut command = test_dir.longfat(&["--json", "agent", "demo", "--fault-after", "0s"]);
    command.env("TMPDIR", test_dir.dir.path());
    let mut demo = Demo(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap());
    let mut reader = BufReader::new(demo.0.stdout.take().unwrap());
    let mut document = String::new();
    while serde_json::from_str::<Value>(&document).is_err() {
        assert!(reader.read_line(&mut document).unwrap() > 0, "{document}");
    }
    let started: Value = serde_json::from_str(&document).unwrap();
    let lab = started["lab"].as_str().unwrap().to_owned();
    let address =
        started["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned();
    assert!(get(&address, "/").unwrap().contains("data-content=\"mesh\""));

    let begin = Instant::now();
    let pairs = loop {
        assert!(
            begin.elapsed() < TIMEOUT,
            "the cause was not named in time: {:?}",
            get(&address, "/api/v1/mesh")
        );
        std::thread::sleep(Duration::from_secs(1));
        let Some(mesh) = get(&address, "/api/v1/mesh") else { continue };
        let mesh: Value = serde_json::from_str(&mesh).unwrap();
        assert_eq!(mesh["points"].as_array().unwrap().len(), 6);
        let pairs = mesh["pairs"].as_array().unwrap().clone();
        let limited = |pair: &&Value| pair["to"] == "washington" && pair["cause"] == "receive_window";
        if pairs.len() == 30 && pairs.iter().filter(limited).count() == 5 {
            break pairs;
        }
    };
    // The pairs are listed worst first, with the cause in words; only pairs with the fault have it.
    assert_eq!(pairs[0]["cause_text"], "receive buffer of washington");
    let elsewhere = |pair: &&Value| pair["to"] != "washington" && pair["cause"] == "receive_window";
    assert_eq!(pairs.iter().find(elsewhere), None);
    let calendar = get(&address, "/api/v1/calendar?point=washington&seconds=600").unwrap();
    let calendar: Value = serde_json::from_str(&calendar).unwrap();
    assert!(!calendar["slots"].as_array().unwrap().is_empty());

    signal("-TERM", demo.0.id());
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
    let labs = test_dir.run(&["--json", "lab", "status"]).json();
    assert!(!labs["labs"].as_array().unwrap().iter().any(|known| known["name"] == lab.as_str()), "{labs}");
    assert_eq!(test_dir.network_namespaces(), BTreeSet::new());
    let left: Vec<_> =
        std::fs::read_dir(test_dir.dir.path()).unwrap().flatten().map(|entry| entry.path()).collect();
    assert_eq!(left, [test_dir.path("s.toml")]);
}
