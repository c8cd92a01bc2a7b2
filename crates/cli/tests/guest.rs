//! `--engine kernel`: scenarios in a guest kernel in virtual time. The kernel is the newest in this user's
//! cache, or else the one that `machines.rs` finds; without either the tests are skipped. No result of these
//! tests depends on the load of the machine.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

use serde_json::Value;
use testing::Missing;

use crate::{
    common::{CommandOutput, SMALL, TestDir, copy_binary, iperf3::Running},
    machines,
};

/// Timeout for a guest to start or to end.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A directory for LONGFAT_KERNELS, and whether longfat built its newest kernel: others may take random
/// numbers from the machine.
struct Kernels {
    directory: PathBuf,
    are_ours: bool,
}

fn kernels() -> Option<&'static Kernels> {
    static KERNELS: OnceLock<Option<Kernels>> = OnceLock::new();
    KERNELS.get_or_init(|| find_kernels().filter(boots)).as_ref()
}

fn find_kernels() -> Option<Kernels> {
    let test_dir = TestDir::new(SMALL);
    let listed = test_dir.run(&["--json", "kernel", "list"]).json();
    if let Some(newest) = listed["kernels"].as_array().and_then(|kernels| kernels.last()) {
        let are_ours = newest["from"]["kind"] != "file";
        return Some(Kernels { directory: listed["directory"].as_str()?.into(), are_ours });
    }
    let kernel = machines::kernel()?;
    // Shared by all tests of this process. An existing file of this name is the same kernel.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
    let mut build = test_dir.longfat(&["kernel", "build", "--name", "tests", "--image"]);
    let built = CommandOutput::from(build.arg(kernel).env("LONGFAT_KERNELS", &directory).output().unwrap());
    assert_eq!(built.code, 0, "{built:?}");
    Some(Kernels { directory, are_ours: false })
}

/// Whether a guest boots on this machine's processor: imported kernels may fail on processors with AMX
/// (docs/kernels.md).
fn boots(kernels: &Kernels) -> bool {
    let ran = run(&TestDir::new(SMALL), kernels, &["--set", "duration=100ms"]);
    let has_too_small_buffer = ran.stderr.contains("set fp regs failed");
    if has_too_small_buffer {
        println!("{}", ran.stderr);
    }
    !has_too_small_buffer
}

/// The kernels; without one the test is skipped.
macro_rules! kernels_or_skip {
    () => {
        match kernels() {
            Some(kernels) => kernels,
            None => {
                testing::skip(Missing::Feature, "no kernel that boots as a guest (longfat kernel build)");
                return;
            }
        }
    };
}

fn run(test_dir: &TestDir, kernels: &Kernels, args: &[&str]) -> CommandOutput {
    let args = [&["--json", "run", "s.toml", "--engine", "kernel"], args].concat();
    CommandOutput::from(test_dir.longfat(&args).env("LONGFAT_KERNELS", &kernels.directory).output().unwrap())
}

/// The directories of all records in a test directory.
fn records(test_dir: &TestDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(test_dir.path("runs/s")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn flow(summary: &Value) -> &Value {
    &summary["runs"][0]["flows"][0]
}

#[test]
fn guest_runs_are_byte_identical() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(SMALL);
    let cc = if kernels.are_ours { "flows.bulk.cc=bbr" } else { "flows.bulk.cc=cubic" };
    let first = run(&test_dir, kernels, &["--set", cc]).json();
    run(&test_dir, kernels, &["--set", cc]).json();
    let [one, other] = records(&test_dir).try_into().unwrap();
    for file in ["flows.parquet", "links.parquet", "events.parquet", "scenario.toml"] {
        assert!(fs::read(one.join(file)).unwrap() == fs::read(other.join(file)).unwrap(), "{file} differs");
    }
    assert!(!one.join("guest").exists(), "the directory shared with the guest is removed");
    let run = &first["runs"][0];
    assert_eq!(
        (run["engine"].as_str(), run["quality"]["ok"].as_bool()),
        (Some("kernel"), Some(true)),
        "{run}"
    );
    assert!(run["kernel"].as_str().is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit())));
    let steady = flow(&first)["steady_goodput_bps"].as_f64().unwrap();
    // Data after a gap counts when the gap is filled, which may be after slow start.
    assert!((80e6..100e6).contains(&steady), "{steady}");
}

#[test]
fn different_seeds_give_different_runs() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(SMALL);
    for seed in ["1", "2"] {
        let seed = format!("seed={seed}");
        run(
            &test_dir,
            kernels,
            &["--set", "flows.bulk.cc=bbr", "--set", "links.h1-s1.forward.loss=0.1%", "--set", &seed],
        )
        .json();
    }
    let [one, other] = records(&test_dir).try_into().unwrap();
    assert!(fs::read(one.join("flows.parquet")).unwrap() != fs::read(other.join("flows.parquet")).unwrap());
}

#[test]
fn echoes_and_datagrams_are_exact_in_virtual_time() {
    let kernels = kernels_or_skip!();
    let flows = "[[flows]]\nname = \"bulk\"\nfrom = \"h1\"\nto = \"h2\"\ncc = \"cubic\"\n";
    let text = SMALL.replace(
        flows,
        "[[flows]]\nname = \"ping\"\nkind = \"ping\"\nfrom = \"h1\"\nto = \"h2\"\ninterval = \"100ms\"\n\
         [[flows]]\nname = \"udp\"\nkind = \"udp\"\nfrom = \"h2\"\nto = \"h1\"\nrate = \"8mbit\"\npacket = \"1000B\"\n",
    );
    assert_ne!(text, SMALL);
    let test_dir = TestDir::new(&text);
    let summary = run(&test_dir, kernels, &[]).json();
    let flows = summary["runs"][0]["flows"].as_array().unwrap();
    // 98 bytes at 100 Mb/s and 10 ms forward, an ideal link back, and the time that a stock kernel's clock
    // takes.
    let rtt = flows[0]["median_rtt_us"].as_f64().unwrap();
    assert!((10_007.0..10_020.0).contains(&rtt), "{rtt}");
    let goodput = flows[1]["goodput_bps"].as_f64().unwrap();
    assert!((7.9e6..8.1e6).contains(&goodput), "{goodput}");
    assert_eq!(flows[1]["datagrams_lost"].as_i64().unwrap_or(0), 0);
}

#[test]
fn unprivileged_users_run_variants_in_parallel() {
    let kernels = kernels_or_skip!();
    let variants = "[[variants]]\nname = \"slow\"\nlinks.h1-s1.forward.rate = \"10mbit\"\n\
                    [[variants]]\nname = \"fast\"\nlinks.h1-s1.forward.rate = \"90mbit\"\n";
    let test_dir = TestDir::new(&format!("{SMALL}{variants}"));
    fs::set_permissions(test_dir.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = test_dir.path("longfat");
    copy_binary(&program);
    let copied = test_dir.path("kernels");
    let copy = Command::new("cp").arg("-R").arg(&kernels.directory).arg(&copied).status();
    assert!(copy.unwrap().success());
    let chmod = Command::new("chmod").args(["-R", "a+rX"]).arg(&copied).status();
    assert!(chmod.unwrap().success());
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    command.args(["--json", "run", "s.toml", "--engine", "kernel"]).current_dir(test_dir.dir.path());
    let ran = CommandOutput::from(
        command.env("LONGFAT_KERNELS", &copied).env("HOME", test_dir.dir.path()).output().unwrap(),
    );
    let summary = ran.json();
    let goodputs: Vec<f64> = summary["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["flows"][0]["goodput_bps"].as_f64().unwrap())
        .collect();
    assert!((7e6..9.6e6).contains(&goodputs[0]) && (50e6..87e6).contains(&goodputs[1]), "{goodputs:?}");
}

#[test]
fn captures_in_a_guest_are_in_the_record() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(&SMALL.replace("duration = ", "capture = [\"h1\"]\nduration = "));
    let ran = run(&test_dir, kernels, &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let [record] = records(&test_dir).try_into().unwrap();
    let captures = fs::read_dir(&record).unwrap().flatten();
    let sizes: Vec<u64> = captures
        .filter(|file| file.file_name().to_string_lossy().ends_with(".pcapng"))
        .map(|file| file.metadata().unwrap().len())
        .collect();
    assert!(sizes.len() == 1 && sizes[0] > 100_000, "{sizes:?}");
}

#[test]
fn runs_that_a_guest_cannot_execute_are_refused() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(SMALL);
    let refused = |args: &[&str], code: i32, says: &str| {
        let ran = run(&test_dir, kernels, args);
        assert!(ran.code == code && ran.stderr.contains(says), "{args:?}: {ran:?}");
    };
    refused(&["--set", "flows.bulk.cc={ name = \"cubic\", beta = 700 }"], 4, "struct_ops");
    let no_time =
        SMALL.replace("forward = { rate = \"100mbit\", delay = \"10ms\", queue = \"250kB\" }\n", "");
    fs::write(test_dir.path("s.toml"), no_time).unwrap();
    refused(&[], 2, "give a link a rate");
    fs::write(test_dir.path("s.toml"), SMALL).unwrap();
    let ran = test_dir.run(&["run", "s.toml", "--engine", "kernel:1.0"]);
    assert!(ran.code == 4 && ran.stderr.contains("longfat kernel build 1.0"), "{ran:?}");
    assert!(records(&test_dir).is_empty());
}

/// Processes that work in a directory below `dir`, as a guest's kernel and its helpers do.
fn processes_in(dir: &Path) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let places = entries.filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok());
    places.filter(|test_dir| test_dir.starts_with(dir.join("runs"))).count()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run of an hour, after its guest has started.
fn long_run(test_dir: &TestDir, kernels: &Kernels) -> Running {
    let mut command = test_dir.longfat(&["run", "s.toml", "--engine", "kernel", "--set", "duration=1h"]);
    let running = Running::start(command.env("LONGFAT_KERNELS", &kernels.directory));
    let parts = || {
        let dirs = fs::read_dir(test_dir.path("runs/s")).into_iter().flatten().flatten();
        dirs.map(|dir| dir.path().join("guest/runs/run")).any(|runs| runs.is_dir())
    };
    wait_until("the guest did not start", parts);
    running
}

#[test]
fn a_killed_run_leaves_no_process() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(SMALL);
    let running = long_run(&test_dir, kernels);
    assert!(processes_in(test_dir.dir.path()) > 0);
    // SIGKILL: the program cannot clean up.
    drop(running);
    wait_until("the guest outlives its program", || processes_in(test_dir.dir.path()) == 0);
}

#[test]
fn interrupted_runs_keep_their_samples() {
    let kernels = kernels_or_skip!();
    let test_dir = TestDir::new(SMALL);
    let running = long_run(&test_dir, kernels);
    let progress = || {
        let dirs = fs::read_dir(test_dir.path("runs/s")).into_iter().flatten().flatten();
        dirs.filter_map(|dir| fs::read_to_string(dir.path().join("guest/progress.json")).ok())
            .any(|text| text.contains("bytes_received"))
    };
    wait_until("the flow did not start", progress);
    running.interrupt();
    let output = running.output();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let [record] = records(&test_dir).try_into().unwrap();
    let summary: Value = serde_json::from_slice(&fs::read(record.join("summary.json")).unwrap()).unwrap();
    let run = &summary["runs"][0];
    assert_eq!(run["partial"].as_bool(), Some(true), "{run}");
    assert!(run["flows"][0]["bytes"].as_u64().unwrap() > 0, "{run}");
}
