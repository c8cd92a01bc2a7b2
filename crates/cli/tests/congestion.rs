//! Congestion controls of flows in the lab: the kernel's, longfat's with parameters, and C files.

use crate::common;
use std::{
    io::BufRead,
    process::{Command, Stdio},
};

use common::{
    SMALL, TestDir, binary, bundled_scenario, eventually, is_root,
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};
use serde_json::Value;

/// Keeps `share` / 1024 of its window after a loss; otherwise Reno, by the kernel's functions.
const FILE: &str = r#"
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
char _license[] SEC("license") = "GPL";
/* Share of the window after a loss, in 1/1024. */
const volatile __u32 share = 512;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
SEC("struct_ops") void BPF_PROG(f_avoid, struct sock *sk, __u32 ack, __u32 acked) { tcp_reno_cong_avoid(sk, ack, acked); }
SEC("struct_ops") __u32 BPF_PROG(f_ssthresh, struct sock *sk) { return max(tcp_sk(sk)->snd_cwnd * share / 1024, 2U); }
SEC("struct_ops") __u32 BPF_PROG(f_undo, struct sock *sk) { return tcp_reno_undo_cwnd(sk); }
SEC(".struct_ops.link") struct tcp_congestion_ops f = {
	.cong_avoid = (void *)f_avoid, .ssthresh = (void *)f_ssthresh, .undo_cwnd = (void *)f_undo, .name = "f",
};
"#;

/// Whether congestion controls can be loaded here; if not, reports the test as skipped.
fn can_load() -> bool {
    let can = is_root() && cc::kernel::missing_requirement().is_none();
    if !can {
        testing::skip(testing::Missing::Feature, "congestion controls cannot be loaded here");
    }
    can
}

fn available() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

/// The small scenario with this congestion control.
fn small(cc: &str) -> String {
    SMALL.replace("cc = \"cubic\"", &format!("cc = {cc}"))
}

fn number(flow: &Value, key: &str) -> f64 {
    flow[key].as_f64().unwrap_or_else(|| panic!("{key} of {flow}"))
}

#[test]
fn each_flow_has_its_own_parameters() {
    if !can_load() {
        return;
    }
    let _slot = acquire_lab_slot();
    let second = "[[flows]]\nname = \"second\"\nfrom = \"h1\"\nto = \"h2\"\ncc = { name = \"griddt\", backoff = 0.75 }\n";
    let third = second.replace("second", "third");
    let test_dir = TestDir::new(&(small("{ name = \"griddt\", a = 4 }") + second + &third));
    let json = test_dir.run(&["run", "s.toml", "--json"]).json();
    let flows = json["runs"][0]["flows"].as_array().unwrap();
    let names: Vec<&str> = flows.iter().map(|f| f["cc_kernel_name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("griddt_") && name.len() <= 15), "{names:?}");
    assert!(names[0] != names[1] && names[1] == names[2], "one for each set of parameters: {names:?}");
    assert!(flows.iter().all(|f| f["cc"] == "griddt" && f["cc_from"] == "longfat"), "{flows:?}");
    assert_eq!((&flows[0]["cc_set"]["a"], &flows[1]["cc_set"]["backoff"]), (&4.into(), &0.75.into()));
    assert!(flows.iter().all(|f| number(f, "mean_cwnd_bytes") > 1000.0), "{flows:?}");
    let left = available();
    assert!(!names.iter().any(|name| left.contains(name)), "{left}");
    let shown = test_dir.run(&["show", "last"]);
    assert!(shown.stdout.contains("griddt a=4") && shown.stdout.contains("fairness (Jain)"), "{shown:?}");
}

#[test]
fn kernel_algorithms_take_precedence_for_bare_names() {
    if !can_load() {
        return;
    }
    let _slot = acquire_lab_slot();
    for (cc, from) in [("\"reno\"", "kernel"), ("{ name = \"reno\" }", "longfat"), ("\"griddt\"", "longfat")]
    {
        let test_dir = TestDir::new(&small(cc));
        let json = test_dir.run(&["run", "s.toml", "--json"]).json();
        let flow = &json["runs"][0]["flows"][0];
        assert_eq!(flow["cc_from"], from, "{cc}");
        assert_eq!(flow["cc_kernel_name"] == flow["cc"], from == "kernel", "{flow}");
    }
}

#[test]
fn records_contain_the_c_file() {
    if !can_load() {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(&small("{ file = \"f.bpf.c\", set = { share = 819 } }"));
    std::fs::write(test_dir.path("f.bpf.c"), FILE).unwrap();
    let json = test_dir.run(&["run", "s.toml", "--json"]).json();
    let run = &json["runs"][0];
    let flow = &run["flows"][0];
    assert_eq!(
        (&flow["cc"], &flow["cc_from"], &flow["cc_set"]["share"]),
        (&"f".into(), &"f.bpf.c".into(), &819.into())
    );
    std::fs::remove_file(test_dir.path("f.bpf.c")).unwrap();
    let record = test_dir.path("runs").join("s").join(run["id"].as_str().unwrap()).join("scenario.toml");
    let again = test_dir.run(&["run", record.to_str().unwrap(), "--json"]).json();
    assert_eq!(again["runs"][0]["flows"][0]["cc"], "f");
}

#[test]
fn mistakes_are_reported_with_positions_before_a_run() {
    for (cc, wrong) in [
        ("{ name = \"gridt\" }", "s.toml:18:6: longfat has no congestion control \"gridt\"; it has "),
        ("{ name = \"griddt\", aa = 7 }", "s.toml:18:30: griddt has no parameter \"aa\"; it has a, "),
        ("{ name = \"griddt\", a = -1 }", "s.toml:18:29: a = -1: must be from 0 to"),
        ("{ name = \"griddt\", initial_ssthresh = 0.5 }", "initial_ssthresh takes whole numbers only"),
        ("{ name = \"griddt\", auto_rtt = 2 }", "auto_rtt is true or false"),
        ("{ file = \"bad.bpf.c\" }", "bad.bpf.c:1"),
        ("{ file = \"no.bpf.c\" }", "cannot use \"no.bpf.c\""),
    ] {
        let test_dir = TestDir::new(&small(cc));
        std::fs::write(test_dir.path("bad.bpf.c"), "int x = ;\n").unwrap();
        let ran = test_dir.run(&["run", "s.toml", "--engine", "model,lab", "--json"]);
        assert_eq!(ran.code, 2, "{cc}: {ran:?}");
        let error = ran.parsed()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(wrong), "{cc}: {error}");
        assert!(!test_dir.path("runs").exists(), "{cc}: no run may start");
    }
}

#[test]
fn unknown_names_are_reported_before_a_run() {
    let test_dir = TestDir::new(&small("\"cubci\""));
    let ran = test_dir.run(&["run", "s.toml", "--engine", "model,lab", "--json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let requested = "s.toml:18:6: unknown congestion control \"cubci\"; did you mean \"cubic\"?";
    assert_eq!(ran.parsed()["error"]["message"], requested);
    assert!(!test_dir.path("runs").exists(), "no run may start");
}

#[test]
fn loaded_algorithms_are_not_listed_as_the_kernels() {
    if !can_load() {
        return;
    }
    let _slot = acquire_all_lab_slots();
    let name = format!("w{}", std::process::id());
    let test_dir = TestDir::new(&small(&format!("\"{name}\"")));
    assert_eq!(test_dir.run(&["cc", "load", "griddt", "a=7", "--as", &name]).code, 0);
    let ran = test_dir.run(&["run", "s.toml", "--json"]);
    assert_eq!(test_dir.run(&["cc", "unload", &name]).code, 0);
    let flow = &ran.json()["runs"][0]["flows"][0];
    assert_eq!((&flow["cc"], &flow["cc_from"]), (&name.as_str().into(), &"longfat cc load".into()));
}

/// In a user namespace a process has all privileges except that of loading programs into the kernel.
#[test]
fn missing_privilege_is_named_and_exits_with_4() {
    let test_dir = TestDir::new(&small("{ name = \"griddt\", a = 4 }"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", binary(), "run", "s.toml"]).current_dir(test_dir.dir.path());
    let ran = common::CommandOutput::from(command.output().unwrap());
    if ran.stderr.contains("unshare") {
        testing::skip(testing::Missing::Feature, "no user namespaces here");
        return;
    }
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("missing") && ran.stderr.contains("the simulator still works"), "{ran:?}");
}

#[test]
fn registrations_end_with_the_run() {
    if !can_load() {
        return;
    }
    let _slot = acquire_all_lab_slots();
    // A unique name: other tests load congestion controls as well.
    let stem = format!("k{}", std::process::id());
    let test_dir = TestDir::new(&small(&format!("{{ file = \"{stem}.bpf.c\" }}")));
    std::fs::write(test_dir.path(&format!("{stem}.bpf.c")), FILE).unwrap();
    for signal in ["INT", "TERM", "KILL"] {
        let mut child = test_dir
            .longfat(&["run", "s.toml", "--set", "duration=60s"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(eventually(|| available().contains(&format!("{stem}_"))), "never registered");
        // The run has started once progress is printed.
        let mut printed = String::new();
        std::io::BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut printed).unwrap();
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        child.wait().unwrap();
        assert!(eventually(|| !available().contains(&format!("{stem}_"))), "{signal}: {}", available());
    }
}

/// Compares longfat's algorithm with the kernel's of the same name, within wide bounds.
fn assert_behaves_like_the_kernels(name: &str) {
    if !can_load() {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(&bundled_scenario("cc-differential.toml"));
    // Fails if two of five reliable attempts differ: a disturbance that a run did not detect is unlikely to
    // occur twice.
    let mut different = Vec::new();
    for _ in 0..5 {
        match compare_with_the_kernels_own(&test_dir, name) {
            (_, None) => return,
            (true, Some(what)) => different.push(what),
            (false, Some(_)) => {}
        }
        assert!(different.len() < 2, "{different:?}");
    }
    testing::skip(testing::Missing::QuietMachine, format_args!("{name}: the runs were disturbed"));
}

#[test]
fn our_reno_behaves_like_the_kernels() {
    assert_behaves_like_the_kernels("reno");
}

#[test]
fn our_cubic_behaves_like_the_kernels() {
    assert_behaves_like_the_kernels("cubic");
}

#[test]
fn our_bbr_behaves_like_the_kernels() {
    assert_behaves_like_the_kernels("bbr");
}

/// Whether both runs were reliable, and a difference between them if there is one.
fn compare_with_the_kernels_own(test_dir: &TestDir, name: &str) -> (bool, Option<String>) {
    let run = |form: &str| {
        let variant = format!("{name}-{form}");
        let args =
            ["run", "s.toml", "--variant", &variant, "--set", "duration=8s", "--set", "repeat=1", "--json"];
        test_dir.run(&args).json()["runs"][0].clone()
    };
    let (kernel_run, file_run) = (run("kernel"), run("file"));
    let (kernel, file) = (&kernel_run["flows"][0], &file_run["flows"][0]);
    assert_eq!((&kernel["cc_from"], &file["cc_from"]), (&"kernel".into(), &"longfat".into()));
    let ok = kernel_run["quality"]["ok"] == true && file_run["quality"]["ok"] == true;
    let window = if name == "bbr" { 0.4 } else { 0.2 };
    let difference =
        [("goodput_bps", 0.1), ("mean_cwnd_bytes", window)].into_iter().find_map(|(key, tolerance)| {
            let ratio = number(file, key) / number(kernel, key);
            ((ratio - 1.0).abs() >= tolerance).then(|| format!("{name}: {key} {ratio:.3} of the kernel's"))
        });
    (ok, difference)
}

/// A map type that the simulator does not support.
const RING: &str =
    "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");\n";

#[test]
fn files_for_the_kernel_only_run_in_the_lab() {
    if !can_load() {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(&small("{ file = \"f.bpf.c\" }"));
    std::fs::write(test_dir.path("f.bpf.c"), FILE.to_owned() + RING).unwrap();
    let ran = test_dir.run(&["run", "s.toml", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.json()["runs"][0]["flows"][0]["cc_kernel_name"].as_str().unwrap().starts_with("f_"));
}

#[test]
fn missing_algorithm_in_a_file_is_bad_input() {
    if !can_load() {
        return;
    }
    let test_dir = TestDir::new(&small("{ file = \"f.bpf.c\", name = \"g\" }"));
    std::fs::write(test_dir.path("f.bpf.c"), FILE).unwrap();
    let ran = test_dir.run(&["run", "s.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains("f.bpf.c has no congestion control named \"g\""), "{ran:?}");
}
