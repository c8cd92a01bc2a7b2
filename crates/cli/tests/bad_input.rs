//! Bad input causes a clear error and the documented exit code, and creates no files.

use crate::common;
use common::{SMALL, TestDir};

/// Runs SMALL with `from` replaced by `to`. The exit code must be 2, and the error must contain all of
/// `expected`.
fn assert_change_is_refused(from: &str, to: &str, expected: &[&str]) {
    assert!(SMALL.contains(from), "{from:?} is not in the scenario");
    assert_scenario_is_refused(&SMALL.replacen(from, to, 1), expected);
}

fn assert_scenario_is_refused(scenario: &str, expected: &[&str]) {
    let test_dir = TestDir::new(scenario);
    let ran = test_dir.run(&["run", "s.toml", "--engine", "lab"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert_eq!(ran.stdout, "", "errors go to standard error");
    for text in expected {
        assert!(ran.stderr.contains(text), "{text:?} is not in: {}", ran.stderr);
    }
    assert!(!test_dir.path("runs").exists(), "a refused run must not create records");
}

#[test]
fn options_of_other_engines_are_refused() {
    let test_dir = TestDir::new(SMALL);
    let over = "flows.bulk.cc=cubic,reno";
    for (command, expected) in [
        ("run s.toml --engine lab --kernel 6.1", "only the simulator and the model have --kernel"),
        ("run s.toml --engine model,sim --ports tap", "only the lab has --ports: add --engine lab"),
        ("run s.toml --engine sim --token s.toml", "need --engine hosts"),
        ("sweep s.toml --engine lab --kernel 2.4 --over", "only the simulator and the model have --kernel"),
        ("sweep s.toml --ports packet --over", "only the lab has --ports"),
    ] {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.extend(command.ends_with("--over").then_some(over));
        let ran = test_dir.run(&args);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{command}: {ran:?}");
        assert!(!test_dir.path("runs").exists(), "a refused run must not create records");
    }
}

#[test]
fn an_unknown_key_is_refused() {
    assert_change_is_refused(
        "delay = \"10ms\"",
        "dealy = \"10ms\"",
        &["s.toml:11:", "dealy", "did you mean", "delay"],
    );
}

#[test]
fn an_unknown_host_in_a_flow_is_refused() {
    assert_change_is_refused("to = \"h2\"", "to = \"h3\"", &["s.toml:17:", "h3", "did you mean"]);
}

#[test]
fn a_negative_rate_is_refused() {
    assert_change_is_refused("100mbit", "-100mbit", &["s.toml:11:", "-100mbit"]);
}

#[test]
fn a_rate_with_an_ambiguous_unit_is_refused() {
    assert_change_is_refused("100mbit", "10g", &["s.toml:11:", "10g", "10 Gbit/s", "10 GB/s"]);
}

#[test]
fn a_delay_on_an_unknown_link_is_refused() {
    let variant = "[[variants]]\nname = \"far\"\nlinks.\"s1-s9\".forward.delay = \"50ms\"\n";
    assert_scenario_is_refused(&format!("{SMALL}{variant}"), &["s.toml:21:", "s1-s9", "h1-s1"]);
}

#[test]
fn a_queue_of_zero_bytes_is_refused() {
    assert_change_is_refused("250kB", "0B", &["s.toml:11:", "queue"]);
}

#[test]
fn a_file_that_is_not_toml_is_refused() {
    assert_scenario_is_refused("<html>\n", &["s.toml:1:", "not TOML"]);
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("s.toml"), [0xff, 0xfe, 0x00]).unwrap();
    let ran = test_dir.run(&["run", "s.toml"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("not TOML"), "{ran:?}");
}

#[test]
fn an_unreadable_file_is_reported() {
    let test_dir = TestDir::new(SMALL);
    for (name, reason) in [("missing.toml", "No such file"), (".", "directory")] {
        let ran = test_dir.run(&["run", name]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(name) && ran.stderr.contains(reason), "{ran:?}");
    }
}

#[test]
fn unknown_values_of_options_are_refused() {
    let test_dir = TestDir::new(SMALL);
    for (args, expected) in [
        (["--variant", "tuned"], "tuned"),
        (["--set", "durration=5s"], "duration"),
        (["--set", "duration"], "KEY=VALUE"),
        (["--engine", "ns3"], "ns3"),
    ] {
        let ran = test_dir.run(&[&["run", "s.toml"], args.as_slice()].concat());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(expected), "{expected:?} is not in {ran:?}");
    }
    assert!(!test_dir.path("runs").exists());
}

#[test]
fn an_unknown_congestion_control_is_refused() {
    let test_dir = TestDir::new(&SMALL.replace("cubic", "warpdrive"));
    let ran = test_dir.run(&["run", "s.toml"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("s.toml:18:6")
            && ran.stderr.contains("warpdrive")
            && ran.stderr.contains("longfat cc list"),
        "the error must name the argument and the command that lists the available ones: {ran:?}"
    );
    assert!(!test_dir.path("runs").exists(), "a refused run must not create records");
}

#[test]
fn a_sysctl_that_network_namespaces_lack_is_refused() {
    let sysctl = "[hosts.h2]\nsysctl = { \"net.core.rmem_max\" = 1000000 }\naddress";
    let test_dir = TestDir::new(&SMALL.replace("[hosts.h2]\naddress", sysctl));
    let ran = test_dir.run(&["run", "s.toml"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("h2") && ran.stderr.contains("net.core.rmem_max"), "{ran:?}");
    assert!(!test_dir.path("runs").exists(), "a refused run must not create records");
}

#[test]
fn a_restricted_default_congestion_control_is_refused() {
    let listed = |name: &str| -> Vec<String> {
        let text =
            std::fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control")).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let allowed = listed("allowed");
    let restricted = listed("available").into_iter().find(|name| !allowed.contains(name));
    let unknown = ("warpdrive".to_owned(), "no congestion control of this name");
    // Not every machine has a restricted congestion control.
    let restricted = restricted.map(|name| (name, "tcp_allowed_congestion_control"));
    for (name, expected) in [unknown].into_iter().chain(restricted) {
        let sysctl =
            format!("[hosts.h2]\nsysctl = {{ \"net.ipv4.tcp_congestion_control\" = \"{name}\" }}\naddress");
        let test_dir = TestDir::new(&SMALL.replace("[hosts.h2]\naddress", &sysctl));
        let ran = test_dir.run(&["run", "s.toml"]);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.stderr.contains(expected), "{expected:?} is not in {ran:?}");
        assert!(!test_dir.path("runs").exists(), "a refused run must not create records");
    }
}
