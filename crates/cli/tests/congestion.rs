//! Congestion controls of a scenario's flows in the lab: the kernel's own, the program's with parameters, and C files.

use crate::common;
use std::{
    io::BufRead,
    process::{Command, Stdio},
};

use common::{
    Place, SMALL, binary, eventually, is_root, shipped,
    turn::{a_lab_among_others, the_only_lab},
};
use serde_json::Value;

/// Keeps `share` / 1024 of its window after a loss; otherwise Reno, by the kernel's functions.
const FILE: &str = r#"
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
char _license[] SEC("license") = "GPL";
/* What is kept of the window, in 1/1024. */
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

/// Fine where congestion controls can be loaded; says so where not.
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
fn two_flows_have_parameters_of_their_own() {
    if !can_load() {
        return;
    }
    let _turn = a_lab_among_others();
    let second = "[[flows]]\nname = \"second\"\nfrom = \"h1\"\nto = \"h2\"\ncc = { name = \"griddt\", backoff = 0.75 }\n";
    let third = second.replace("second", "third");
    let place = Place::new(&(small("{ name = \"griddt\", a = 4 }") + second + &third));
    let json = place.run(&["run", "s.toml", "--json"]).json();
    let flows = json["runs"][0]["flows"].as_array().unwrap();
    let names: Vec<&str> = flows.iter().map(|f| f["cc_kernel_name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("griddt_") && name.len() <= 15), "{names:?}");
    assert!(names[0] != names[1] && names[1] == names[2], "one for each set of parameters: {names:?}");
    assert!(flows.iter().all(|f| f["cc"] == "griddt" && f["cc_from"] == "longfat"), "{flows:?}");
    assert_eq!((&flows[0]["cc_set"]["a"], &flows[1]["cc_set"]["backoff"]), (&4.into(), &0.75.into()));
    assert!(flows.iter().all(|f| number(f, "mean_cwnd_bytes") > 1000.0), "{flows:?}");
    let left = available();
    assert!(!names.iter().any(|name| left.contains(name)), "{left}");
    let shown = place.run(&["show", "last"]);
    assert!(shown.stdout.contains("griddt a=4") && shown.stdout.contains("fairness (Jain)"), "{shown:?}");
}

#[test]
fn a_bare_name_is_the_kernels_where_it_has_one_and_ours_elsewhere() {
    if !can_load() {
        return;
    }
    let _turn = a_lab_among_others();
    for (cc, from) in [("\"reno\"", "kernel"), ("{ name = \"reno\" }", "longfat"), ("\"griddt\"", "longfat")]
    {
        let place = Place::new(&small(cc));
        let json = place.run(&["run", "s.toml", "--json"]).json();
        let flow = &json["runs"][0]["flows"][0];
        assert_eq!(flow["cc_from"], from, "{cc}");
        assert_eq!(flow["cc_kernel_name"] == flow["cc"], from == "kernel", "{flow}");
    }
}

#[test]
fn a_files_record_runs_again_without_the_file() {
    if !can_load() {
        return;
    }
    let _turn = a_lab_among_others();
    let place = Place::new(&small("{ file = \"f.bpf.c\", set = { share = 819 } }"));
    std::fs::write(place.path("f.bpf.c"), FILE).unwrap();
    let json = place.run(&["run", "s.toml", "--json"]).json();
    let run = &json["runs"][0];
    let flow = &run["flows"][0];
    assert_eq!(
        (&flow["cc"], &flow["cc_from"], &flow["cc_set"]["share"]),
        (&"f".into(), &"f.bpf.c".into(), &819.into())
    );
    std::fs::remove_file(place.path("f.bpf.c")).unwrap();
    let record = place.path("runs").join("s").join(run["id"].as_str().unwrap()).join("scenario.toml");
    let again = place.run(&["run", record.to_str().unwrap(), "--json"]).json();
    assert_eq!(again["runs"][0]["flows"][0]["cc"], "f");
}

#[test]
fn mistakes_show_their_line_before_anything_runs() {
    for (cc, wrong) in [
        ("{ name = \"gridt\" }", "s.toml:18:6: longfat has no congestion control \"gridt\"; it has "),
        ("{ name = \"griddt\", aa = 7 }", "s.toml:18:30: griddt has no parameter \"aa\"; it has a, "),
        ("{ name = \"griddt\", a = -1 }", "s.toml:18:29: a = -1: must be from 0 to"),
        ("{ name = \"griddt\", initial_ssthresh = 0.5 }", "initial_ssthresh takes whole numbers only"),
        ("{ name = \"griddt\", auto_rtt = 2 }", "auto_rtt is true or false"),
        ("{ file = \"bad.bpf.c\" }", "bad.bpf.c:1"),
        ("{ file = \"no.bpf.c\" }", "cannot use \"no.bpf.c\""),
    ] {
        let place = Place::new(&small(cc));
        std::fs::write(place.path("bad.bpf.c"), "int x = ;\n").unwrap();
        let ran = place.run(&["run", "s.toml", "--engine", "model,lab", "--json"]);
        assert_eq!(ran.code, 2, "{cc}: {ran:?}");
        let error = ran.parsed()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(wrong), "{cc}: {error}");
        assert!(!place.path("runs").exists(), "{cc}: something ran");
    }
}

#[test]
fn a_name_that_nobody_has_is_a_mistake_before_anything_runs() {
    let place = Place::new(&small("\"cubci\""));
    let ran = place.run(&["run", "s.toml", "--engine", "model,lab", "--json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let wanted = "s.toml:18:6: unknown congestion control \"cubci\"; did you mean \"cubic\"?";
    assert_eq!(ran.parsed()["error"]["message"], wanted);
    assert!(!place.path("runs").exists(), "something ran");
}

#[test]
fn what_was_loaded_before_is_not_called_the_kernels() {
    if !can_load() {
        return;
    }
    let _turn = the_only_lab();
    let name = format!("w{}", std::process::id());
    let place = Place::new(&small(&format!("\"{name}\"")));
    assert_eq!(place.run(&["cc", "load", "griddt", "a=7", "--as", &name]).code, 0);
    let ran = place.run(&["run", "s.toml", "--json"]);
    assert_eq!(place.run(&["cc", "unload", &name]).code, 0);
    let flow = &ran.json()["runs"][0]["flows"][0];
    assert_eq!((&flow["cc"], &flow["cc_from"]), (&name.as_str().into(), &"longfat cc load".into()));
}

/// A user namespace of one's own has every privilege but that of loading programs into the kernel.
#[test]
fn without_privilege_it_says_what_is_missing_and_ends_with_4() {
    let place = Place::new(&small("{ name = \"griddt\", a = 4 }"));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", binary(), "run", "s.toml"]).current_dir(place.dir.path());
    let ran = common::Ran::of(command.output().unwrap());
    if ran.stderr.contains("unshare") {
        testing::skip(testing::Missing::Feature, "no user namespaces here");
        return;
    }
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("missing") && ran.stderr.contains("the simulator still works"), "{ran:?}");
}

#[test]
fn however_a_run_ends_its_registration_is_gone() {
    if !can_load() {
        return;
    }
    let _turn = the_only_lab();
    // A stem of this process: other tests load congestion controls as well.
    let stem = format!("k{}", std::process::id());
    let place = Place::new(&small(&format!("{{ file = \"{stem}.bpf.c\" }}")));
    std::fs::write(place.path(&format!("{stem}.bpf.c")), FILE).unwrap();
    for signal in ["INT", "TERM", "KILL"] {
        let mut child = place
            .longfat(&["run", "s.toml", "--set", "duration=60s"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(eventually(|| available().contains(&format!("{stem}_"))), "never registered");
        // It runs once progress is told.
        let mut told = String::new();
        std::io::BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut told).unwrap();
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        child.wait().unwrap();
        assert!(eventually(|| !available().contains(&format!("{stem}_"))), "{signal}: {}", available());
    }
}

/// The kernel's own and ours of the same name, with wide bounds.
fn does_what_the_kernels_own_does(name: &str) {
    if !can_load() {
        return;
    }
    let _turn = a_lab_among_others();
    let place = Place::new(&shipped("cc-differential.toml"));
    // Two of five tries must be reliable and different: a disturbance that a run did not notice does not repeat itself.
    let mut different = Vec::new();
    for _ in 0..5 {
        match compare_with_the_kernels_own(&place, name) {
            (_, None) => return,
            (true, Some(what)) => different.push(what),
            (false, Some(_)) => {}
        }
        assert!(different.len() < 2, "{different:?}");
    }
    testing::skip(testing::Missing::QuietMachine, format_args!("{name}: the runs were disturbed"));
}

#[test]
fn our_reno_does_what_the_kernels_does() {
    does_what_the_kernels_own_does("reno");
}

#[test]
fn our_cubic_does_what_the_kernels_does() {
    does_what_the_kernels_own_does("cubic");
}

#[test]
fn our_bbr_does_what_the_kernels_does() {
    does_what_the_kernels_own_does("bbr");
}

/// Whether both runs were reliable, and what is different between kernel and file.
fn compare_with_the_kernels_own(place: &Place, name: &str) -> (bool, Option<String>) {
    let run = |form: &str| {
        let variant = format!("{name}-{form}");
        let args =
            ["run", "s.toml", "--variant", &variant, "--set", "duration=8s", "--set", "repeat=1", "--json"];
        place.run(&args).json()["runs"][0].clone()
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

/// A map of which the simulator knows nothing.
const RING: &str =
    "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(\".maps\");\n";

#[test]
fn what_only_the_kernel_can_do_runs_in_the_lab() {
    if !can_load() {
        return;
    }
    let _turn = a_lab_among_others();
    let place = Place::new(&small("{ file = \"f.bpf.c\" }"));
    std::fs::write(place.path("f.bpf.c"), FILE.to_owned() + RING).unwrap();
    let ran = place.run(&["run", "s.toml", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.json()["runs"][0]["flows"][0]["cc_kernel_name"].as_str().unwrap().starts_with("f_"));
}

#[test]
fn an_algorithm_that_a_file_has_not_is_bad_input() {
    if !can_load() {
        return;
    }
    let place = Place::new(&small("{ file = \"f.bpf.c\", name = \"g\" }"));
    std::fs::write(place.path("f.bpf.c"), FILE).unwrap();
    let ran = place.run(&["run", "s.toml"]);
    assert!(ran.code == 2 && ran.stderr.contains("f.bpf.c has no congestion control named \"g\""), "{ran:?}");
}
