//! Kills `apply` and `revert` at each step: `revert` must then restore every setting and every file. The
//! tests run on a directory that imitates a host, and, as root, also on the kernel's settings in a network
//! namespace.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use tune::{Error, HostFacts, HostPaths, Journal, RequestedSettings, apply, check, revert};

const SIGKILL: i32 = 9;
const SETTINGS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_rmem", "4096 131072 50331648"),
    ("net.ipv4.tcp_wmem", "4096 16384 50331648"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];
/// An upper bound of the number of steps, which ends the loop if `apply` or `revert` never does.
const MAX_STEPS: usize = 100;

/// Settings of the loopback device of a new namespace.
const DEVICE_SETTINGS: [(&str, &str); 3] = [("lo txqueuelen", "4321"), ("lo tso", "off"), ("lo gro", "off")];

fn requested(proc_sys: &Path) -> RequestedSettings {
    let device_settings = if is_kernel(proc_sys) { &DEVICE_SETTINGS[..] } else { &[] };
    let settings =
        SETTINGS.iter().chain(device_settings).map(|(name, value)| (name.to_string(), value.to_string()));
    RequestedSettings {
        purpose: "a test".into(),
        settings: settings.collect(),
        ..RequestedSettings::default()
    }
}

/// Whether the settings are those of a network namespace, and not files of the test.
fn is_kernel(proc_sys: &Path) -> bool {
    proc_sys == Path::new("/proc/sys")
}

/// Settings of the loopback device, read by ip(8) and ethtool(8).
fn read_device_settings() -> Vec<String> {
    let run = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).output().unwrap();
        assert!(out.status.success(), "{program}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let link = run("ip", &["-o", "link", "show", "lo"]);
    let words: Vec<&str> = link.split_whitespace().collect();
    let length = words.iter().position(|word| *word == "qlen").map(|at| words[at + 1].to_string());
    let features = run("ethtool", &["-k", "lo"]);
    let feature = |name: &str| features.lines().find(|line| line.starts_with(name)).unwrap().to_string();
    vec![length.unwrap(), feature("tcp-segmentation-offload:"), feature("generic-receive-offload:")]
}

fn host_paths(directory: &Path, proc_sys: &Path) -> HostPaths {
    HostPaths {
        proc_sys: proc_sys.into(),
        sysctl_file: Some(directory.join("etc/sysctl.d/90-longfat.conf")),
        state_dir: directory.join("var/lib/longfat-tune"),
        journal_name: "tune.json".into(),
    }
}

/// Files and directories: modes and texts, by path.
type Tree = BTreeMap<PathBuf, (u32, Option<String>)>;

/// All files and directories below a directory.
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

/// The state that must be the same afterwards.
fn state(directory: &Path, proc_sys: &Path) -> (Tree, Vec<String>) {
    let setting =
        |(name, _): &(&str, &str)| fs::read_to_string(proc_sys.join(name.replace('.', "/"))).unwrap();
    let mut settings: Vec<String> = SETTINGS.iter().map(setting).collect();
    if is_kernel(proc_sys) {
        settings.extend(read_device_settings());
    }
    (tree(directory), settings)
}

/// A host's directories: without /etc/sysctl.d, with it, and with a file of longfat's name that someone else
/// wrote.
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

/// Runs `what` in a child process that is killed before step `step`; returns false if it finished before.
fn kill_at(what: &str, step: usize, directory: &Path, proc_sys: &Path) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::child", "--ignored", "--quiet"])
        .env("TUNE_TEST", format!("{what} {step} {} {}", directory.display(), proc_sys.display()))
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(SIGKILL), "{what} {step}: {status}");
    !status.success()
}

/// Not a test: the child process of [`kill_at`].
#[test]
#[ignore = "it is the child process of other tests"]
fn child() {
    let Ok(command) = std::env::var("TUNE_TEST") else { return };
    let words: Vec<&str> = command.split(' ').collect();
    let (what, last, paths) =
        (words[0], words[1].parse::<usize>().unwrap(), host_paths(words[2].as_ref(), words[3].as_ref()));
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
        "apply" => drop(apply(&paths, &requested(&paths.proc_sys), step).unwrap()),
        _ => drop(revert(&paths, step).unwrap()),
    }
}

/// Kills at each step; returns the number of steps.
fn kill_at_each(what: &str, prepare: impl Fn(usize) -> (tempfile::TempDir, PathBuf)) -> usize {
    let mut steps = 0;
    for kind in 0..3 {
        for step in 0..MAX_STEPS {
            let (directory, proc_sys) = prepare(kind);
            let paths = host_paths(directory.path(), &proc_sys);
            let before = state(directory.path(), &proc_sys);
            if what == "revert" {
                apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
                assert_ne!(state(directory.path(), &proc_sys), before);
                assert_eq!(check(&paths, &HostFacts::default()).unwrap(), Some(Vec::new()));
            }
            let killed = kill_at(what, step, directory.path(), &proc_sys);
            if Journal::read(&paths).unwrap().is_some_and(|journal| !journal.complete) {
                assert!(
                    !check(&paths, &HostFacts::default()).unwrap().unwrap().is_empty(),
                    "an interrupted change is reported"
                );
            }
            revert(&paths, |_| {}).unwrap();
            assert_eq!(
                state(directory.path(), &proc_sys),
                before,
                "{what} killed at step {step}, host {kind}"
            );
            assert_eq!(revert(&paths, |_| {}).unwrap(), None, "nothing remains to be restored");
            if !killed {
                steps = steps.max(step);
                break;
            }
        }
    }
    steps
}

/// A host whose settings are files.
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

/// Normalizes the white space of the settings of a host of files. The kernel does that itself when a setting
/// is written.
fn normalized(
    host: fn(usize) -> (tempfile::TempDir, PathBuf),
) -> impl Fn(usize) -> (tempfile::TempDir, PathBuf) {
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
fn a_killed_apply_is_reverted() {
    let steps = kill_at_each("apply", normalized(host_of_files));
    assert!(steps >= 7, "journal's directory, journal, directory, file, three settings, end: {steps}");
}

#[test]
fn a_killed_revert_is_completed_by_the_next() {
    let steps = kill_at_each("revert", normalized(host_of_files));
    assert!(steps >= 5, "three settings, file, journal: {steps}");
}

/// The kernel's settings: those of a network namespace in which this test program is started again.
#[test]
fn the_kernels_settings_are_restored_too() {
    let exe = std::env::current_exe().unwrap();
    let inner = ["--exact", "killed::in_a_namespace", "--ignored", "--quiet"];
    if !Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success()) {
        testing::skip(testing::Missing::Privilege, "only root may create a network namespace");
        return;
    }
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("ethtool") || !has("ip") {
        testing::skip(testing::Missing::Tool, "ethtool and ip are needed to verify device settings");
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

/// Not a test by itself: the test above runs it in a namespace.
#[test]
#[ignore = "it changes the settings of its network namespace"]
fn in_a_namespace() {
    if std::env::var("TUNE_INNER").is_err() {
        return;
    }
    let host = |kind| (directories(kind), PathBuf::from("/proc/sys"));
    assert!(kill_at_each("apply", host) >= 10);
    assert!(kill_at_each("revert", host) >= 8);
    settings_that_a_device_rejects_are_skipped();
    settings_that_a_replaced_device_lacks_are_not_restored();
    the_device_towards_a_host_is_that_of_the_route();
    segmentation_that_was_off_stays_off();
}

/// `ethtool -K lo tso on` would turn on all kinds of segmentation.
fn segmentation_that_was_off_stays_off() {
    for feature in ["on", "off"] {
        let out =
            Command::new("ethtool").args(["-K", "lo", "tx-tcp-mangleid-segmentation", feature]).output();
        assert!(out.unwrap().status.success());
        let features = || Command::new("ethtool").args(["-k", "lo"]).output().unwrap().stdout;
        let before = features();
        let directory = directories(1);
        let paths = host_paths(directory.path(), Path::new("/proc/sys"));
        let settings = vec![("lo tso".into(), "off".into())];
        apply(&paths, &RequestedSettings { settings, ..requested(&paths.proc_sys) }, |_| {}).unwrap();
        assert_ne!(features(), before);
        revert(&paths, |_| {}).unwrap();
        assert_eq!(features(), before);
    }
}

/// The address of a host with several paths may be on a device that none of them uses.
fn the_device_towards_a_host_is_that_of_the_route() {
    let script = "ip link add a0 type veth peer name a1; ip link add e0 type veth peer name e1; \
                  for device in lo a0 a1 e0 e1; do ip link set $device up; done; \
                  ip address add 10.9.9.9/32 dev a0 && ip route add 192.0.2.0/24 dev e0 src 10.9.9.9";
    assert!(Command::new("sh").args(["-c", script]).status().unwrap().success());
    assert_eq!(tune::device_towards([192, 0, 2, 1].into()).as_deref(), Some("e0"));
    assert_eq!(tune::device_towards([10, 9, 9, 9].into()), None, "this host");
    assert_eq!(tune::device_towards([198, 51, 100, 1].into()), None, "no route");
}

/// After a reboot another device may have the name. The loopback device has no rings.
fn settings_that_a_replaced_device_lacks_are_not_restored() {
    let directory = directories(1);
    let paths = host_paths(directory.path(), Path::new("/proc/sys"));
    let settings = [DEVICE_SETTINGS[0], SETTINGS[0]].map(|(name, value)| (name.into(), value.into()));
    let requested = RequestedSettings { settings: settings.into(), ..requested(&paths.proc_sys) };
    apply(&paths, &requested, |_| {}).unwrap();
    let journal = fs::read_to_string(paths.journal_path()).unwrap();
    fs::write(paths.journal_path(), journal.replace("lo txqueuelen", "lo rx ring")).unwrap();
    let reverted = revert(&paths, |_| {}).unwrap().unwrap();
    assert_eq!(reverted.settings.len(), 1, "{reverted:?}");
    assert_eq!(reverted.settings[0].name, SETTINGS[0].0);
    assert!(!paths.journal_path().exists());
}

/// The loopback device has no rings and no interrupts.
fn settings_that_a_device_rejects_are_skipped() {
    let (directory, proc_sys) = (directories(1), PathBuf::from("/proc/sys"));
    let paths = host_paths(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    let mut more = requested(&proc_sys);
    more.settings.insert(0, ("lo rx ring".into(), "4096".into()));
    more.settings.insert(1, ("lo rx-usecs".into(), "50".into()));
    more.settings.push(("lo txqueuelen".into(), "-1".into()));
    let applied = apply(&paths, &more, |_| {}).unwrap();
    let rejected: Vec<&str> = applied.rejected.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(rejected, ["lo rx ring", "lo rx-usecs", "lo txqueuelen"], "{applied:?}");
    assert!(applied.rejected.iter().all(|setting| !setting.why.is_empty()));
    let is_set = |name: &str| applied.journal.settings.iter().any(|change| change.name == name);
    assert!(
        is_set("lo tso") && is_set(SETTINGS[0].0) && !is_set("lo rx ring"),
        "the others are set: {applied:?}"
    );
    revert(&paths, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn a_rejected_value_restores_all_settings() {
    let (directory, proc_sys) = normalized(host_of_files)(1);
    let paths = host_paths(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    let mut unknown = requested(&proc_sys);
    unknown.settings.push(("net.ipv4.no_such_setting".into(), "1".into()));
    assert!(
        matches!(apply(&paths, &unknown, |_| {}), Err(Error::System { .. })),
        "settings are read before any is written"
    );
    assert_eq!(state(directory.path(), &proc_sys), before);
    // A setting that disappears while the others are being set.
    let name = SETTINGS[2].0.replace('.', "/");
    let failed = apply(&paths, &requested(&proc_sys), |step| {
        if step == SETTINGS[2].0 {
            fs::remove_file(proc_sys.join(&name)).unwrap();
            fs::create_dir(proc_sys.join(&name)).unwrap();
        }
    });
    assert!(
        matches!(failed, Err(Error::RestoreFailed { .. })),
        "the same setting cannot be restored: {failed:?}"
    );
    fs::remove_dir(proc_sys.join(&name)).unwrap();
    fs::write(proc_sys.join(&name), "0").unwrap();
    revert(&paths, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn settings_that_the_host_no_longer_has_are_skipped() {
    let (directory, proc_sys) = normalized(host_of_files)(1);
    let paths = host_paths(directory.path(), &proc_sys);
    apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
    let gone = proc_sys.join(SETTINGS[1].0.replace('.', "/"));
    fs::remove_file(&gone).unwrap();
    let reverted = revert(&paths, |_| {}).unwrap().unwrap();
    let names: Vec<&str> = reverted.settings.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, [SETTINGS[2].0, SETTINGS[0].0]);
    assert!(!gone.exists() && !paths.journal_path().exists());
    // Without /proc no setting can be read: none is restored.
    apply(
        &paths,
        &RequestedSettings { settings: vec![(SETTINGS[0].0.into(), "1 2 3".into())], ..requested(&proc_sys) },
        |_| {},
    )
    .unwrap();
    fs::rename(&proc_sys, directory.path().join("unmounted")).unwrap();
    assert!(revert(&paths, |_| {}).is_err() && paths.journal_path().exists());
}

#[test]
fn a_setting_that_cannot_be_restored_does_not_leave_the_others_changed() {
    let (directory, proc_sys) = normalized(host_of_files)(1);
    let paths = host_paths(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
    // This setting is the first to be restored.
    let last = proc_sys.join(SETTINGS[2].0.replace('.', "/"));
    let text = fs::read_to_string(&last).unwrap();
    fs::remove_file(&last).unwrap();
    fs::create_dir(&last).unwrap();
    let error = revert(&paths, |_| {}).unwrap_err();
    assert!(error.to_string().contains(SETTINGS[2].0), "{error}");
    let value = |name: &str| fs::read_to_string(proc_sys.join(name.replace('.', "/"))).unwrap();
    assert_eq!([value(SETTINGS[0].0), value(SETTINGS[1].0)], [before.1[0].clone(), before.1[1].clone()]);
    fs::remove_dir(&last).unwrap();
    fs::write(&last, text).unwrap();
    revert(&paths, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn after_applying_twice_revert_restores_the_original_values() {
    let (directory, proc_sys) = normalized(host_of_files)(2);
    let paths = host_paths(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
    let more = RequestedSettings {
        purpose: "more".into(),
        settings: vec![(SETTINGS[0].0.into(), "4096 131072 99999999".into())],
        ..RequestedSettings::default()
    };
    apply(&paths, &more, |_| {}).unwrap();
    let file = fs::read_to_string(paths.sysctl_file.as_ref().unwrap()).unwrap();
    assert!(file.contains("99999999") && file.contains("tcp_no_metrics_save = 1"), "{file}");
    assert_eq!(check(&paths, &HostFacts::default()).unwrap(), Some(Vec::new()));
    fs::write(proc_sys.join("net/ipv4/tcp_no_metrics_save"), "0").unwrap();
    let differences = check(&paths, &HostFacts::default()).unwrap().unwrap();
    assert_eq!((differences.len(), differences[0].name.as_str()), (1, SETTINGS[2].0));
    fs::write(proc_sys.join("net/ipv4/tcp_wmem"), "7 7 7").unwrap();
    let reverted = revert(&paths, |_| {}).unwrap().unwrap();
    assert_eq!(reverted.changed_since, [(SETTINGS[1].0.to_string(), "7 7 7".to_string())]);
    assert_eq!(state(directory.path(), &proc_sys), before);
}

#[test]
fn added_lines_are_reported_when_the_file_is_removed() {
    let (directory, proc_sys) = normalized(host_of_files)(2);
    let paths = host_paths(directory.path(), &proc_sys);
    apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
    let path = paths.sysctl_file.clone().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{text}\n# mine\nnet.core.somaxconn = 4096\n")).unwrap();
    let reverted = revert(&paths, |_| {}).unwrap().unwrap();
    assert_eq!(reverted.file_lines, ["# mine", "net.core.somaxconn = 4096"]);
}

#[test]
fn half_written_files_of_a_killed_process_are_removed() {
    let (directory, proc_sys) = normalized(host_of_files)(1);
    let paths = host_paths(directory.path(), &proc_sys);
    let before = state(directory.path(), &proc_sys);
    fs::create_dir(&paths.state_dir).unwrap();
    fs::write(paths.state_dir.join(".tune.json.longfat-new"), "{").unwrap();
    assert_eq!(revert(&paths, |_| {}).unwrap(), None);
    assert_eq!(state(directory.path(), &proc_sys), before);
    apply(&paths, &requested(&proc_sys), |_| {}).unwrap();
    fs::write(directory.path().join("etc/sysctl.d/.90-longfat.conf.longfat-new"), "net.").unwrap();
    revert(&paths, |_| {}).unwrap();
    assert_eq!(state(directory.path(), &proc_sys), before);
}
