//! Whatever `apply` or `revert` was at when it was killed, `revert` leaves every setting and every file as it was: on a
//! directory that looks like a host for everybody, and on the kernel's own settings in a network namespace for root.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tune::{Error, HostFacts, Journal, Roots, Wanted, apply, check, revert};

const SIGKILL: i32 = 9;
const SETTINGS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_rmem", "4096 131072 50331648"),
    ("net.ipv4.tcp_wmem", "4096 16384 50331648"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];
/// More steps than there are: who gets here never ends.
const STEPS_MAX: usize = 100;

/// Settings of the loopback device, which each new namespace has: only there.
const OF_DEVICE: [(&str, &str); 3] = [("lo txqueuelen", "4321"), ("lo tso", "off"), ("lo gro", "off")];

fn wanted(proc_sys: &Path) -> Wanted {
    let of_device = if is_kernel(proc_sys) { &OF_DEVICE[..] } else { &[] };
    let settings =
        SETTINGS.iter().chain(of_device).map(|(name, value)| (name.to_string(), value.to_string()));
    Wanted { purpose: "a test".into(), settings: settings.collect(), ..Wanted::default() }
}

/// The settings are a network namespace's, not files of the test.
fn is_kernel(proc_sys: &Path) -> bool {
    proc_sys == Path::new("/proc/sys")
}

/// Settings of the loopback device, by the program of others.
fn of_device() -> Vec<String> {
    let run = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).output().unwrap();
        assert!(out.status.success(), "{program}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let link = run("ip", &["-o", "link", "show", "lo"]);
    let words: Vec<&str> = link.split_whitespace().collect();
    let length = words.iter().position(|word| *word == "qlen").map(|at| words[at + 1].to_string());
    let features = run("ethtool", &["-k", "lo"]);
    let of = |name: &str| features.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    vec![length.unwrap(), of("tcp-segmentation-offload:"), of("generic-receive-offload:")]
}

fn roots(directory: &Path, proc_sys: &Path) -> Roots {
    Roots {
        proc_sys: proc_sys.into(),
        file: Some(directory.join("etc/sysctl.d/90-longfat.conf")),
        state: directory.join("var/lib/longfat-tune"),
        journal: "tune.json".into(),
    }
}

/// Files and directories: modes and texts, by path.
type Tree = BTreeMap<PathBuf, (u32, Option<String>)>;

/// What is below a directory.
fn tree(directory: &Path) -> Tree {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let mode = entry.metadata().unwrap().permissions().mode();
        if entry.metadata().unwrap().is_dir() {
            found.extend(tree(&entry.path()));
        }
        found.insert(entry.path(), (mode, fs::read_to_string(entry.path()).ok()));
    }
    found
}

/// Everything that may not be different afterwards.
fn state(directory: &Path, proc_sys: &Path) -> (Tree, Vec<String>) {
    let setting =
        |(name, _): &(&str, &str)| fs::read_to_string(proc_sys.join(name.replace('.', "/"))).unwrap();
    let mut settings: Vec<String> = SETTINGS.iter().map(setting).collect();
    if is_kernel(proc_sys) {
        settings.extend(of_device());
    }
    (tree(directory), settings)
}

/// A host's directories: without /etc/sysctl.d, with it, and with a file of our name that somebody else wrote.
fn directories(kind: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir_all(directory.path().join("var/lib")).unwrap();
    fs::create_dir_all(directory.path().join("etc")).unwrap();
    let sysctl_d = directory.path().join("etc/sysctl.d");
    if kind > 0 {
        fs::create_dir(&sysctl_d).unwrap();
        fs::write(sysctl_d.join("99-sysctl.conf"), "net.ipv4.tcp_sack = 1\n").unwrap();
    }
    if kind > 1 {
        let own = sysctl_d.join("90-longfat.conf");
        fs::write(&own, "# by hand\nnet.ipv4.tcp_rmem = 1 2 3\n").unwrap();
        fs::set_permissions(own, PermissionsExt::from_mode(0o600)).unwrap();
    }
    directory
}

/// Runs `what` in a child that is killed before step `step`; false where it came to its end.
fn kill_at(what: &str, step: usize, directory: &Path, proc_sys: &Path) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--ignored", "--quiet"])
        .env("TUNE_TEST", format!("{what} {step} {} {}", directory.display(), proc_sys.display()))
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(SIGKILL), "{what} {step}: {status}");
    !status.success()
}

/// Not a test: what [`kill_at`] runs.
#[test]
#[ignore = "it is the child of the other tests"]
fn child() {
    let Ok(order) = std::env::var("TUNE_TEST") else { return };
    let words: Vec<&str> = order.split(' ').collect();
    let (what, last, roots) =
        (words[0], words[1].parse::<usize>().unwrap(), roots(words[2].as_ref(), words[3].as_ref()));
    let mut steps = 0;
    let step = |_: &str| {
        if steps == last {
            let pid = std::process::id().to_string();
            Command::new("kill").args(["-KILL", &pid]).status().unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
        steps += 1;
    };
    match what {
        "apply" => drop(apply(&roots, &wanted(&roots.proc_sys), step).unwrap()),
        _ => drop(revert(&roots, step).unwrap()),
    }
}

/// Kills at each step, and says how many there were.
fn kill_at_each(what: &str, prepare: impl Fn(usize) -> (tempfile::TempDir, PathBuf)) -> usize {
    let mut steps = 0;
    for kind in 0..3 {
        for step in 0..STEPS_MAX {
            let (directory, proc_sys) = prepare(kind);
            let roots = roots(directory.path(), &proc_sys);
            let before = state(directory.path(), &proc_sys);
            if what == "revert" {
                apply(&roots, &wanted(&proc_sys), |_| {}).unwrap();
                assert_ne!(state(directory.path(), &proc_sys), before);
                assert_eq!(check(&roots, &HostFacts::default()).unwrap(), Some(Vec::new()));
            }
            let killed = kill_at(what, step, directory.path(), &proc_sys);
            if Journal::read(&roots).unwrap().is_some_and(|journal| !journal.complete) {
                assert!(
                    !check(&roots, &HostFacts::default()).unwrap().unwrap().is_empty(),
                    "what was cut short differs"
                );
            }
            revert(&roots, |_| {}).unwrap();
            assert_eq!(
                state(directory.path(), &proc_sys),
                before,
                "{what} killed at step {step}, host {kind}"
            );
            assert_eq!(revert(&roots, |_| {}).unwrap(), None, "nothing is left to put back");
            if !killed {
                steps = steps.max(step);
                break;
            }
        }
    }
    steps
}

/// A host of files.
fn host_of_files(kind: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = directories(kind);
    let proc_sys = directory.path().join("proc");
    fs::create_dir_all(proc_sys.join("net/ipv4")).unwrap();
    for (name, value) in [
        ("tcp_rmem", "4096\t131072\t33554432\n"),
        ("tcp_wmem", "4096\t16384\t4194304\n"),
        ("tcp_no_metrics_save", "0\n"),
    ] {
        fs::write(proc_sys.join("net/ipv4").join(name), value).unwrap();
    }
    (directory, proc_sys)
}

/// The kernel writes blanks its own way; files keep what was written.
fn normal(host: fn(usize) -> (tempfile::TempDir, PathBuf)) -> impl Fn(usize) -> (tempfile::TempDir, PathBuf) {
    move |kind| {
        let (directory, proc_sys) = host(kind);
        for (name, _) in SETTINGS {
            let path = proc_sys.join(name.replace('.', "/"));
            let text = fs::read_to_string(&path).unwrap();
            if proc_sys.starts_with(directory.path()) {
                fs::write(&path, text.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap();
            }
        }
        (directory, proc_sys)
    }
}

#[test]
fn a_killed_apply_is_put_back() {
    let steps = kill_at_each("apply", normal(host_of_files));
    assert!(steps >= 7, "journal's directory, journal, directory, file, three settings, end: {steps}");
}

#[test]
fn a_killed_revert_is_finished_by_the_next() {
    let steps = kill_at_each("revert", normal(host_of_files));
    assert!(steps >= 5, "three settings, file, journal: {steps}");
}

/// The kernel's own settings: those of a network namespace that this test is started again in.
#[test]
fn the_kernels_settings_are_put_back_as_well() {
    let exe = std::env::current_exe().unwrap();
    let inner = ["--exact", "killed::in_a_namespace", "--ignored", "--quiet"];
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        testing::skip(testing::Missing::Privilege, "only root may make a network namespace");
        return;
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("ethtool") || !has("ip") {
        testing::skip(testing::Missing::Tool, "ethtool and ip look whether a device is as it was");
        return;
    }
    assert!(
        Command::new("unshare")
            .arg("-n")
            .arg(exe)
            .args(inner)
            .env("TUNE_INNER", "1")
            .status()
            .unwrap()
            .success()
    );
}

/// Not a test by itself: what the one above runs in a namespace.
#[test]
#[ignore = "it changes the settings of the network namespace that it is in"]
fn in_a_namespace() {
    if std::env::var("TUNE_INNER").is_err() {
        return;
    }
    let host = |kind| (directories(kind), PathBuf::from("/proc/sys"));
    assert!(kill_at_each("apply", host) >= 10);
    assert!(kill_at_each("revert", host) >= 8);
    what_a_device_refuses_is_left_out();
}

/// The loopback device has no rings.
fn what_a_device_refuses_is_left_out() {
    let (directory, proc_sys) = (directories(1), PathBuf::from("/proc/sys"));
    let roots = roots(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    let mut more = wanted(&proc_sys);
    more.settings.insert(0, ("lo rx ring".into(), "4096".into()));
    more.settings.push(("lo txqueuelen".into(), "-1".into()));
    let applied = apply(&roots, &more, |_| {}).unwrap();
    let refused: Vec<&str> = applied.refused.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(refused, ["lo rx ring", "lo txqueuelen"], "{applied:?}");
    assert!(applied.refused.iter().all(|one| !one.why.is_empty()));
    let set = |name: &str| applied.journal.settings.iter().any(|change| change.name == name);
    assert!(set("lo tso") && set(SETTINGS[0].0) && !set("lo rx ring"), "the rest is set: {applied:?}");
    revert(&roots, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn a_value_that_is_refused_puts_everything_back() {
    let (directory, proc_sys) = normal(host_of_files)(1);
    let roots = roots(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    let mut unknown = wanted(&proc_sys);
    unknown.settings.push(("net.ipv4.no_such_setting".into(), "1".into()));
    assert!(
        matches!(apply(&roots, &unknown, |_| {}), Err(Error::System { .. })),
        "it is read before anything is written"
    );
    assert_eq!(state(directory.path(), &proc_sys), before);
    // A setting that vanishes while the others are being set.
    let name = SETTINGS[2].0.replace('.', "/");
    let failed = apply(&roots, &wanted(&proc_sys), |step| {
        if step == SETTINGS[2].0 {
            fs::remove_file(proc_sys.join(&name)).unwrap();
            fs::create_dir(proc_sys.join(&name)).unwrap();
        }
    });
    assert!(
        matches!(failed, Err(Error::NotPutBack { .. })),
        "the same setting cannot be put back: {failed:?}"
    );
    fs::remove_dir(proc_sys.join(&name)).unwrap();
    fs::write(proc_sys.join(&name), "0").unwrap();
    revert(&roots, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn applying_twice_goes_back_to_before_the_first() {
    let (directory, proc_sys) = normal(host_of_files)(2);
    let roots = roots(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    apply(&roots, &wanted(&proc_sys), |_| {}).unwrap();
    let more = Wanted {
        purpose: "more".into(),
        settings: vec![(SETTINGS[0].0.into(), "4096 131072 99999999".into())],
        ..Wanted::default()
    };
    apply(&roots, &more, |_| {}).unwrap();
    let file = fs::read_to_string(roots.file.as_ref().unwrap()).unwrap();
    assert!(file.contains("99999999") && file.contains("tcp_no_metrics_save = 1"), "{file}");
    assert_eq!(check(&roots, &HostFacts::default()).unwrap(), Some(Vec::new()));
    fs::write(proc_sys.join("net/ipv4/tcp_no_metrics_save"), "0").unwrap();
    let differences = check(&roots, &HostFacts::default()).unwrap().unwrap();
    assert_eq!((differences.len(), differences[0].name.as_str()), (1, SETTINGS[2].0));
    fs::write(proc_sys.join("net/ipv4/tcp_wmem"), "7 7 7").unwrap();
    let reverted = revert(&roots, |_| {}).unwrap().unwrap();
    assert_eq!(reverted.changed_since, [(SETTINGS[1].0.to_string(), "7 7 7".to_string())]);
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn lines_that_others_added_to_the_file_are_told_when_it_goes() {
    let (directory, proc_sys) = normal(host_of_files)(2);
    let roots = roots(directory.path(), &proc_sys);
    apply(&roots, &wanted(&proc_sys), |_| {}).unwrap();
    let path = roots.file.clone().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n# mine\nnet.core.somaxconn = 4096\n")).unwrap();
    let reverted = revert(&roots, |_| {}).unwrap().unwrap();
    assert_eq!(reverted.file_lines, ["# mine", "net.core.somaxconn = 4096"]);
}

#[test]
fn what_a_kill_left_half_written_is_removed() {
    let (directory, proc_sys) = normal(host_of_files)(1);
    let roots = roots(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    fs::create_dir(&roots.state).unwrap();
    fs::write(roots.state.join(".tune.json.longfat-new"), "{").unwrap();
    assert_eq!(revert(&roots, |_| {}).unwrap(), None);
    assert_eq!(state(directory.path(), &proc_sys), before);
    apply(&roots, &wanted(&proc_sys), |_| {}).unwrap();
    fs::write(directory.path().join("etc/sysctl.d/.90-longfat.conf.longfat-new"), "net.").unwrap();
    revert(&roots, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}
