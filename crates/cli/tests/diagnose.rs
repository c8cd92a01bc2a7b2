//! `longfat diagnose` in standing labs: each of ten faults is named first, and the healthy path is reported
//! as healthy.

use crate::common;
use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Child,
    time::Duration,
};

use common::{
    TestDir, eventually, is_root,
    lab::{Lab, have},
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};
use serde_json::Value;

/// A running program; killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `longfat serve` on h2, after `before`.
fn serve(lab: &Lab, before: &[&str]) -> Running {
    let serve = [common::binary(), "serve", "-i", "0"];
    let args = [&["lab", "exec", "--lab", &lab.name, "h2", "--"], before, &serve].concat();
    let child = lab
        .test_dir
        .longfat(&args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn();
    let running = Running(child.unwrap());
    // Port 5201 in the tables of /proc/net.
    assert!(
        eventually(|| lab.sh("h2", "cat /proc/net/tcp /proc/net/tcp6").stdout.contains(":1451 ")),
        "no server listens"
    );
    running
}

/// Maximum number of attempts until the lab is undisturbed.
const MAX_ATTEMPTS: u32 = 3;

/// The diagnosis of a scenario of `scenarios/faults`, and whether the emulator stalled long enough to falsify
/// it.
fn diagnosis(name: &str, before_serve: &[&str]) -> (Value, bool) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/faults/{name}.toml"));
    let test_dir = TestDir::new("");
    let lab = Lab::of(&test_dir, &file, &[]);
    let _server = serve(&lab, before_serve);
    let command = [common::binary(), "diagnose", "h2", "--rate", "100mbit", "-t", "4", "--json"];
    let document = lab.exec("h1", &command).json();
    let records = document["records"].as_array().unwrap();
    assert!(
        records.iter().all(|record| test_dir.path(record.as_str().unwrap()).join("summary.json").is_file()),
        "{records:?}"
    );
    // After a stall the delayed packets arrive as a burst, which overflows the shortest queue of these
    // scenarios (2.4 ms).
    (document, lab.status()["stalled_max_us"].as_f64().unwrap() >= 2000.0)
}

/// Kind and host of the first limit, a text for the assertion, and whether the lab was disturbed.
fn first(name: &str, before_serve: &[&str]) -> (String, Value, String, bool) {
    let (document, disturbed) = diagnosis(name, before_serve);
    let limits = &document["limits"];
    let printed = format!("{name}: {limits:#}\n{:#}", document["flow"]["limited"]);
    let healthy = limits[0]["kind"] == "path_rate";
    assert_eq!(document["healthy"], healthy, "{printed}");
    (limits[0]["kind"].as_str().unwrap_or_default().into(), limits[0]["host"].clone(), printed, disturbed)
}

/// Fails unless the first limit is of this kind, and on this host if given. Wrong results of a disturbed lab
/// are ignored.
fn assert_named_first(name: &str, expected: &str, on: Option<&str>) {
    let _slot = acquire_lab_slot();
    for _ in 0..MAX_ATTEMPTS {
        let (kind, host, printed, disturbed) = first(name, &[]);
        if (kind.as_str(), host.as_str()) == (expected, on) {
            return;
        }
        assert!(disturbed, "{printed}");
    }
    testing::skip(testing::Missing::QuietMachine, format_args!("{name}: the emulator stalled each time"));
}

#[test]
fn the_healthy_path_is_reported_as_healthy() {
    assert_named_first("healthy", "path_rate", None);
}

#[test]
fn a_small_receive_buffer_is_named_first() {
    assert_named_first("small-rmem", "receive_buffer", Some("h2"));
}

#[test]
fn a_small_send_buffer_is_named_first() {
    assert_named_first("small-wmem", "send_buffer", Some("this host"));
}

#[test]
fn a_window_without_scaling_is_named_first() {
    assert_named_first("window-scaling-off", "window_scaling", Some("h2"));
}

#[test]
fn a_lossy_link_is_named_first() {
    assert_named_first("lossy-link", "loss", None);
}

#[test]
fn a_short_queue_is_named_first() {
    assert_named_first("small-switch-buffer", "short_queue", None);
}

#[test]
fn a_slow_hop_is_named_first() {
    assert_named_first("half-speed-hop", "slow_hop", None);
}

#[test]
fn an_mtu_black_hole_is_named_first() {
    assert_named_first("mtu-black-hole", "mtu_black_hole", None);
}

#[test]
fn a_policer_is_named_first() {
    assert_named_first("policer", "policer", None);
}

#[test]
fn early_marks_are_named_first() {
    assert_named_first("ecn-marks", "ecn_marks", None);
}

#[test]
fn a_short_transmit_queue_of_the_sender_is_named_first() {
    assert_named_first("own-queue", "local_queue", Some("this host"));
}

/// Reduces the rate of the healthy path to a fifth in the middle of the test.
#[test]
fn a_rate_drop_during_the_test_is_named_first() {
    let _slot = acquire_lab_slot();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/faults/healthy.toml");
    for _ in 0..MAX_ATTEMPTS {
        let test_dir = TestDir::new("");
        let lab = Lab::of(&test_dir, &file, &[]);
        let _server = serve(&lab, &[]);
        let command = [common::binary(), "diagnose", "h2", "--rate", "100mbit", "-t", "10", "--json"];
        let args = [&["lab", "exec", "--lab", &lab.name, "h1", "--"], &command[..]].concat();
        let mut diagnosing = test_dir
            .longfat(&args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(diagnosing.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("testing TCP for 10 s")), "the test never began");
        std::thread::sleep(Duration::from_secs(5));
        let fell = lab.shell(&["link s1-s2 forward rate 20mbit"]);
        assert_eq!(fell.code, 0, "{fell:?}");
        lines.for_each(drop);
        let out = diagnosing.wait_with_output().unwrap();
        let document: Value = serde_json::from_slice(&out.stdout).unwrap();
        let limit = &document["limits"][0];
        let evidence = limit["evidence"][0].as_str().unwrap_or_default();
        if limit["kind"] == "path_changed" && evidence.contains("fell from") {
            assert_eq!(document["healthy"], false);
            return;
        }
        let disturbed = lab.status()["stalled_max_us"].as_f64().unwrap() >= 2000.0;
        assert!(disturbed, "{document:#}");
    }
    testing::skip(testing::Missing::QuietMachine, "the emulator stalled each time");
}

/// The reader shares a processor with an endless loop, which has 50 times its CPU weight.
#[test]
fn a_receiver_without_cpu_is_named_first() {
    if !have(&["taskset", "nice"]) {
        return;
    }
    let _slot = acquire_all_lab_slots();
    let cpu = if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) { "1" } else { "0" };
    let restless = ["-c", cpu, "sh", "-c", "while :; do :; done"];
    let _restless = Running(std::process::Command::new("taskset").args(restless).spawn().unwrap());
    // The emulator needs a processor too, so on a busy machine the path itself is slow at times.
    for _ in 0..3 {
        let (kind, host, ..) = first("cpu-bound-receiver", &["nice", "-n", "17", "taskset", "-c", cpu]);
        if (kind.as_str(), host) == ("receiver_cpu", "h2".into()) {
            return;
        }
    }
    testing::skip(testing::Missing::QuietMachine, "none of three diagnoses named the receiver's CPU first");
}

#[test]
fn tuning_is_shown_and_can_be_reverted() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "only root can change settings");
        return;
    }
    let _slot = acquire_lab_slot();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/faults/small-wmem.toml");
    let test_dir = TestDir::new("");
    let lab = Lab::of(&test_dir, &file, &[]);
    let _server = serve(&lab, &[]);
    let setting = || lab.sh("h1", "cat /proc/sys/net/ipv4/tcp_wmem").stdout;
    let before = setting();
    let command = [common::binary(), "diagnose", "h2", "--rate", "100mbit", "-t", "4", "--apply", "--json"];
    let document = lab.exec("h1", &command).json();
    // On a busy machine other traffic may be suspected first.
    let mut limits = document["limits"].as_array().into_iter().flatten();
    assert!(limits.any(|limit| limit["kind"] == "send_buffer"), "{document:#}");
    let after = &document["after"];
    assert_ne!(after["limits"][0]["kind"], "send_buffer", "{after:#}");
    assert_eq!(after["applied"]["file"], Value::Null, "a lab's host has no settings files");
    assert_ne!(setting(), before);
    assert_eq!(lab.exec("h1", &[common::binary(), "tune", "--revert"]).code, 0);
    assert_eq!(setting(), before);
}

/// On a busy machine other traffic may be suspected first.
#[test]
fn a_limit_at_the_other_host_is_named_with_its_command() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "only root can change settings");
        return;
    }
    let _slot = acquire_lab_slot();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/faults/small-rmem.toml");
    for _ in 0..MAX_ATTEMPTS {
        let test_dir = TestDir::new("");
        let lab = Lab::of(&test_dir, &file, &[]);
        let _server = serve(&lab, &[]);
        let ran = lab.exec(
            "h1",
            &[common::binary(), "diagnose", "h2", "--rate", "100mbit", "-t", "3", "--apply", "--yes"],
        );
        assert_eq!(ran.code, 0, "{ran:?}");
        let expected = "The limit is at the other host: the receive buffer of h2. --apply changes this host only.\n\
                        to fix it, on h2:\n  longfat tune --rate ";
        if ran.stdout.contains(expected) {
            assert!(ran.stdout.contains("--apply\n(it sets net.ipv4.tcp_rmem"), "{ran:?}");
            return;
        }
        let disturbed = lab.status()["stalled_max_us"].as_f64().unwrap() >= 2000.0;
        assert!(disturbed, "{ran:?}");
    }
    testing::skip(testing::Missing::QuietMachine, "the emulator stalled each time");
}

#[test]
fn an_unreachable_host_is_reported_quickly() {
    let test_dir = TestDir::new("");
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ran = test_dir.run(&["diagnose", "127.0.0.1", "--port", &port, "--json"]);
    assert!(ran.code == 1 && ran.stderr.contains("127.0.0.1"), "{ran:?}");
    let zero = test_dir.run(&["diagnose", "127.0.0.1", "--max-rate", "0mbit"]);
    assert!(zero.code == 2 && zero.stderr.contains("above zero"), "{zero:?}");
    let unknown = test_dir.run(&["diagnose", "no-such-host.invalid"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no-such-host.invalid"), "{unknown:?}");
}
