//! `longfat cc`: lists, checks, loads, unloads and builds congestion controls, and its errors.
//!
//! Tests that load need root and a kernel with BTF; otherwise they report that they are skipped. Each test
//! pins in its own mount namespace, so that the machine is not changed.

use crate::common;
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use common::{CommandOutput, TestDir, binary, is_root};

/// A user's congestion control with `init` as the body of its init function.
fn user_file(init: &str) -> String {
    format!(
        r#"#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
char _license[] SEC("license") = "GPL";
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
/* Share of the window after a loss. */
const volatile __u32 beta = 512;
const volatile __u32 beta_scale = 1024;
SEC("struct_ops") void BPF_PROG(my_init, struct sock *sk)
{{
	{init}
}}
SEC("struct_ops") __u32 BPF_PROG(my_ssthresh, struct sock *sk)
{{
	__u32 kept = tcp_sk(sk)->snd_cwnd * beta / beta_scale;
	return kept > 2 ? kept : 2;
}}
SEC("struct_ops") void BPF_PROG(my_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{{
	tcp_reno_cong_avoid(sk, ack, acked);
}}
SEC("struct_ops") __u32 BPF_PROG(my_undo_cwnd, struct sock *sk) {{ return tcp_reno_undo_cwnd(sk); }}
SEC(".struct_ops") struct tcp_congestion_ops my = {{
	.init = (void *)my_init,
	.ssthresh = (void *)my_ssthresh,
	.cong_avoid = (void *)my_cong_avoid,
	.undo_cwnd = (void *)my_undo_cwnd,
	.name = "my",
}};
"#
    )
}

/// A test directory with `my.bpf.c`.
fn test_dir(init: &str) -> TestDir {
    let test_dir = TestDir::new("");
    std::fs::write(test_dir.path("my.bpf.c"), user_file(init)).unwrap();
    test_dir
}

fn able() -> bool {
    let missing = TestDir::new("").run(&["cc", "list", "--json"]).json()["missing"].clone();
    if !missing.is_null() {
        testing::skip(testing::Missing::Feature, &missing);
    }
    missing.is_null()
}

/// Runs the shell commands `prepare` and `script` in a new mount namespace; $L is the program.
fn alone(test_dir: &TestDir, prepare: &str, script: &str) -> CommandOutput {
    let script = format!("set -e\nmount --make-rprivate /\n{prepare}\n{script}");
    let mut command = Command::new("unshare");
    command
        .args(["-m", "sh", "-c", &script])
        .current_dir(test_dir.dir.path())
        .env("L", binary())
        .env("NO_COLOR", "1");
    CommandOutput::from(command.output().unwrap())
}

/// Hides the machine's BPF file system and /run.
const NO_BPFFS: &str =
    "mount -t tmpfs none /run; if [ -d /sys/fs/bpf ]; then mount -t tmpfs none /sys/fs/bpf; fi";
/// Mounts a BPF file system where systemd does.
const BPFFS: &str = "mount -t tmpfs none /run; mount -t bpf none /sys/fs/bpf";

fn default_congestion() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap()
}

#[test]
fn the_list_has_the_algorithms_of_the_kernel_and_of_longfat() {
    let test_dir = TestDir::new("");
    let list = test_dir.run(&["cc", "list", "--json"]).json();
    assert_eq!(list["schema"], "longfat.cc/1");
    assert_eq!(list["default"], default_congestion().trim());
    let of = |part: &str, name: &str| {
        list[part]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["name"] == name)
            .unwrap_or_else(|| panic!("{list}"))
            .clone()
    };
    assert_eq!(of("kernel", "reno")["unprivileged"], true, "every kernel has Reno, for all users");
    let own = of("own", "reno");
    assert_eq!(own["simulator"], true);
    assert!(own["summary"].as_str().unwrap().starts_with("Reno"));
    let text = test_dir.run(&["cc", "list"]);
    assert!(text.stdout.contains("unprivileged") && text.stdout.contains("\n  reno "), "{text:?}");
}

#[test]
fn loaded_algorithms_stay_until_unload() {
    if !able() {
        return;
    }
    let test_dir = test_dir("");
    let before = default_congestion();
    let name = format!("t{}", std::process::id());
    for prepare in [NO_BPFFS, BPFFS] {
        let script = format!(
            "$L cc load my.bpf.c beta=0.8 --as {name}\n\
             $L cc list | grep '{name} .*longfat cc load'\n\
             $L cc load reno --as {name}2 >/dev/null\n\
             $L lab clean | grep 'skipped: congestion control {name}2;'\n\
             if $L cc load reno --as {name}; then exit 9; fi\n\
             $L cc unload {name}\n\
             $L cc list | grep -c '{name} ' || true\n\
             $L cc unload --all\n\
             if [ -e /run/longfat/bpf ] || [ -e /sys/fs/bpf/longfat ]; then exit 8; fi\n\
             $L cc unload --all"
        );
        let ran = alone(&test_dir, prepare, &script);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains(&format!("loaded {name}:")), "{ran:?}");
        assert!(ran.stdout.contains(&format!("unloaded {name};")) && ran.stdout.contains("\n0\n"), "{ran:?}");
        assert!(ran.stdout.ends_with("nothing to unload\n"), "{ran:?}");
        assert!(
            ran.stderr.contains(&format!("already has a congestion control named {name}; give it another")),
            "{ran:?}"
        );
        assert_eq!(default_congestion(), before);
    }
}

#[test]
fn unload_removes_only_longfats_algorithms() {
    if !able() {
        return;
    }
    let test_dir = TestDir::new("");
    let ran = test_dir.run(&["cc", "unload", "reno"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("longfat has loaded no congestion control named reno"), "{ran:?}");
    let others =
        cc::kernel::load(&cc::Source::built_in("reno").unwrap(), &cc::ParameterValues::new(), None).unwrap();
    let ran = test_dir.run(&["cc", "unload", others.name()]);
    assert!(
        ran.code == 2 && ran.stderr.contains(&format!("belongs to process {}", std::process::id())),
        "{ran:?}"
    );
}

#[test]
fn check_runs_both_builds() {
    if !able() {
        return;
    }
    let test_dir = test_dir("");
    let ran = test_dir.run(&["cc", "check", "my.bpf.c", "beta=0.7", "--json"]);
    let check = ran.json();
    assert_eq!((&check["ok"], &check["name"]), (&true.into(), &"my".into()));
    let step = |name: &str| {
        check["steps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["step"] == name)
            .unwrap_or_else(|| panic!("{check}"))
            .clone()
    };
    assert!(step("verifier")["details"][0]["verified_instructions"].as_u64().unwrap() > 0);
    let programs = step("run in kernel")["details"]["programs"].as_array().unwrap().clone();
    let avoid =
        programs.iter().find(|p| p["program"] == "my_cong_avoid").unwrap_or_else(|| panic!("{check}"));
    assert!(avoid["calls"].as_u64().unwrap() > 100 && avoid["ns_a_call"].as_f64().unwrap() > 0.0, "{check}");
    assert_eq!(step("native build")["state"], "ok");
    let native = &step("run natively")["details"];
    assert!(native["found"].is_null(), "the error is printed once: {check}");
    assert!(
        native["cwnd_segs"].as_u64().unwrap() > 1 && native["lost_segs"].as_u64().unwrap() > 0,
        "{check}"
    );
}

#[test]
fn verifier_errors_name_the_line() {
    if !able() {
        return;
    }
    // 64-bit loads beyond a structure compile in both builds, but the verifier rejects them.
    let test_dir = test_dir("(void)*(volatile char *)((char *)sk + 1000000000);");
    let ran = test_dir.run(&["cc", "check", "my.bpf.c"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("my.bpf.c:13: in my_init: "), "{ran:?}");
    assert!(ran.stdout.contains("the trial run crashed (signal 11)"), "{ran:?}");
    assert!(ran.stdout.lines().count() < 12, "not the verifier's whole log: {ran:?}");
    let ran = test_dir.run(&["cc", "load", "my.bpf.c"]);
    assert!(ran.code == 2 && ran.stderr.contains("my.bpf.c:13"), "{ran:?}");
}

#[test]
fn build_writes_both_files_and_reports_errors_with_lines() {
    let test_dir = test_dir("");
    let ran = test_dir.run(&["cc", "build", "my.bpf.c", "-o", "out"]);
    if ran.code == 4 {
        testing::skip(testing::Missing::Feature, ran.stderr);
        return;
    }
    assert_eq!(ran.code, 0, "{ran:?}");
    for form in ["out/my.o", "out/my.so"] {
        assert!(std::fs::read(test_dir.path(form)).unwrap().starts_with(b"\x7fELF"), "{form}");
    }
    std::fs::write(test_dir.path("my.bpf.c"), user_file("nonsense;")).unwrap();
    let ran = test_dir.run(&["cc", "build", "my.bpf.c"]);
    assert!(ran.code == 2 && ran.stderr.matches("my.bpf.c:13:").count() >= 2, "{ran:?}");
    assert!(!test_dir.path("my.o").exists());
}

#[test]
fn bad_input_exits_with_code_2() {
    let test_dir = test_dir("");
    let refused = |args: &[&str], why: &str| {
        let ran = test_dir.run(args);
        assert!(ran.code == 2 && ran.stderr.contains(why), "{args:?}: {ran:?}");
    };
    refused(&["cc", "load", "nothing"], "neither one of longfat's congestion controls");
    refused(&["cc", "check", "nothing.bpf.c"], "nothing.bpf.c");
    refused(&["cc", "load", "reno", "--as", "sixteen_letters_"], "16 characters");
    refused(&["cc", "load", "reno", "a"], "PARAMETER=VALUE");
    refused(&["cc", "unload"], "--all");
    // The error is reported once, and not as an error of the verifier.
    refused(&["cc", "check", "reno", "z=1"], "longfat: reno has no parameter z");
    refused(&["cc", "check", "griddt", "a=-1"], "longfat: a = -1: must be from 0 to");
    if able() {
        refused(&["cc", "load", "my.bpf.c", "alpha=1"], "beta");
        refused(&["cc", "load", "my.bpf.c", "beta=-1"], "beta");
    }
}

#[test]
fn missing_privilege_or_btf_exits_with_4_and_suggests_the_simulator() {
    if !is_root() || !common::lab::have(&["setpriv", "unshare"]) {
        return;
    }
    let test_dir = TestDir::new("");
    std::fs::set_permissions(test_dir.dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let as_unprivileged_user = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", binary()]).args(args);
        CommandOutput::from(command.current_dir(test_dir.dir.path()).output().unwrap())
    };
    let ran = as_unprivileged_user(&["cc", "load", "reno"]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("CAP_BPF") && ran.stderr.contains("the simulator still works"), "{ran:?}");
    let ran = as_unprivileged_user(&["cc", "check", "reno"]);
    assert!(ran.code == 4 && ran.stdout.contains("native build"), "the possible steps run: {ran:?}");
    let list = as_unprivileged_user(&["cc", "list", "--json"]).json();
    assert!(
        list["missing"].as_str().unwrap().contains("CAP_BPF") && list["own"][0]["lab"] == false,
        "{list}"
    );

    let ran = alone(&test_dir, "mount -t tmpfs none /sys/kernel/btf", "$L cc load reno");
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(
        ran.stderr.contains("/sys/kernel/btf/vmlinux") && ran.stderr.contains("the simulator still works"),
        "{ran:?}"
    );
    let ran = alone(&test_dir, "", "unshare -U -r $L cc load reno");
    assert!(ran.code == 4 && ran.stderr.contains("user namespace"), "{ran:?}");
    let ran = alone(&test_dir, "", "LONGFAT_CLANG=/bin/false $L cc build ./my.bpf.c");
    assert!(ran.code == 2, "the file must not exist: {ran:?}");
    std::fs::write(test_dir.path("my.bpf.c"), user_file("")).unwrap();
    let ran = alone(&test_dir, "", "LONGFAT_CLANG=/bin/false $L cc build ./my.bpf.c");
    assert!(ran.code == 4 && ran.stderr.contains("clang-16"), "{ran:?}");
    assert!(test_dir.path("my.so").exists(), "the simulator's build needs any compiler");
}

#[test]
fn read_only_bpffs_is_not_used() {
    if !able() {
        return;
    }
    let test_dir = TestDir::new("");
    let name = format!("ro{}", std::process::id());
    let prepare = format!("{BPFFS}; mount -o remount,ro,bind /sys/fs/bpf");
    let script = format!(
        "$L cc load reno --as {name}\n[ -e /run/longfat/bpf/longfat/{name} ]\n$L cc unload {name}\n[ ! -e /run/longfat/bpf ]"
    );
    let ran = alone(&test_dir, &prepare, &script);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn too_few_descriptors_are_not_reported_as_a_verifier_error() {
    if !able() {
        return;
    }
    let test_dir = TestDir::new("");
    // The required number depends on the descriptors that the test inherits.
    for descriptors in [6, 8, 10, 12, 14] {
        let script = format!("ulimit -n {descriptors}\n$L cc load reno --as few{}", std::process::id());
        let ran = alone(&test_dir, NO_BPFFS, &script);
        assert!(ran.code == 1 || (descriptors > 8 && ran.code == 0), "{descriptors}: {ran:?}");
        assert!(!ran.stderr.contains("the kernel refuses"), "{descriptors}: {ran:?}");
    }
}

/// The child processes of a process.
fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether the process exists and is not a zombie.
fn runs(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|s| !s.contains(") Z "))
}

#[test]
fn endless_trial_runs_end_with_the_check() {
    let test_dir = test_dir("for (volatile int i = 0;; i = i + 1) { }");
    if test_dir.run(&["cc", "build", "my.bpf.c"]).code != 0 {
        testing::skip(testing::Missing::Tool, "no compiler");
        return;
    }
    let mut check = test_dir.longfat(&["cc", "check", "my.bpf.c"]);
    let mut check = check.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let until = |what: &mut dyn FnMut() -> bool| {
        while !what() {
            assert!(begun.elapsed() < Duration::from_secs(60), "not within a minute");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut trial = None;
    let is_trial = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|words| words.windows(6).any(|w| w == b"trial\0"))
    };
    until(&mut || {
        trial = children(check.id()).into_iter().find(is_trial);
        trial.is_some()
    });
    let trial = trial.unwrap();
    check.kill().unwrap();
    check.wait().unwrap();
    until(&mut || !runs(trial));
}

#[test]
fn native_failures_skip_the_kernel_run() {
    if !able() {
        return;
    }
    // In eBPF a division by zero gives 0, so this test is harmless. In functions of the kernel it would not
    // be.
    let test_dir = test_dir("volatile __u32 none = 0;\n\ttcp_sk(sk)->snd_cwnd += 10 / none;");
    let ran = test_dir.run(&["cc", "check", "my.bpf.c"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("the trial run crashed (signal 8)"), "{ran:?}");
    assert!(ran.stdout.contains("skipped: an error in the native build could stop this machine"), "{ran:?}");
    assert!(ran.stdout.contains("instructions followed"), "the verifier ran: {ran:?}");
    // A constructor is in a section that libbpf skips; its message about that must not reach the user.
    let constructor = "__attribute__((constructor)) static void first(void) { }\n";
    std::fs::write(test_dir.path("my.bpf.c"), user_file("") + constructor).unwrap();
    let ran = test_dir.run(&["cc", "check", "my.bpf.c"]);
    assert!(ran.code == 0 && !ran.stderr.contains("libbpf"), "{ran:?}");
}
