//! `longfat tune`: shows, refuses, changes and restores settings.

use crate::common;
use std::process::Command;

use common::{
    CommandOutput, SMALL, TestDir, is_root,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
};

const PATH: [&str; 4] = ["--rate", "10gbit", "--rtt", "50ms"];

#[test]
fn settings_of_this_host_and_advice_are_shown() {
    let test_dir = TestDir::new("");
    let shown = test_dir.run(&["tune", "--json"]).json();
    assert_eq!(shown["schema"], "longfat.tune/1");
    assert!(shown["host"]["sysctls"]["net.ipv4.tcp_rmem"]["value"].is_string(), "{shown:#}");
    let advice = test_dir.run(&[&["tune", "--json"], PATH.as_slice()].concat()).json();
    assert_eq!(advice["advice"]["bdp_bytes"], 62_500_000);
    let items = advice["advice"]["items"].as_array().unwrap();
    assert!(
        items.iter().all(|item| !item["reason"].as_str().unwrap().is_empty() && item["source"].is_string())
    );
    let text = test_dir.run(&[&["tune"], PATH.as_slice()].concat()).stdout;
    assert!(text.contains("net.ipv4.tcp_rmem") && text.contains("the path holds 62.5 MB"), "{text}");
    for format in ["sysctl", "networkmanager", "ethtool", "ansible"] {
        let ran = test_dir.run(&[&["tune", "--export", format], PATH.as_slice()].concat());
        assert!(ran.code == 0 && ran.stdout.starts_with("# longfat tune: 10 Gb/s x 50 ms"), "{ran:?}");
    }
}

#[test]
fn impossible_paths_are_refused_with_a_reason() {
    let test_dir = TestDir::new("");
    for (args, expected) in [
        (vec!["tune", "--rate", "100gbit", "--rtt", "1s", "--plan"], "RFC 7323"),
        (vec!["tune", "--rate", "10gbit", "--rtt", "20ms", "--streams", "100000", "--plan"], "at most half"),
        (vec!["tune", "--rate", "10gbit"], "--rtt"),
        (vec!["tune", "--rtt", "10ms"], "--rate"),
        (vec!["tune", "--rate", "10gbit", "--rtt", "0ms"], "above zero"),
        (vec!["tune", "--plan"], "--rate"),
        (vec!["tune", "--rate", "1gbit", "--rtt", "1ms", "--device", "no-such-dev"], "no-such-dev"),
        (vec!["tune", "--host", "no-such-host.invalid"], "no-such-host.invalid"),
    ] {
        let ran = test_dir.run(&args);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_check_that_is_impossible_exits_with_unknown() {
    let test_dir = TestDir::new("");
    for args in [
        &["tune", "--check", "--rate", "10gbit"][..],
        &["tune", "--check", "--rate", "fast"],
        &["tune", "--check", "--no-such-option"],
    ] {
        let ran = test_dir.run(args);
        assert!(ran.code == 3 && ran.stdout.starts_with("UNKNOWN: "), "{args:?}: {ran:?}");
        assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
        let json = test_dir.run(&[args, &["--json"]].concat());
        assert_eq!((json.code, &json.parsed()["error"]["exit_code"]), (3, &3.into()), "{json:?}");
    }
}

#[test]
fn a_lab_host_is_tuned_and_restored() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let longfat = |args: &[&str]| lab.exec("h1", &[&[common::binary(), "tune"], args].concat());
    let settings = |host: &str| {
        lab.sh(host, "grep -r . /proc/sys/net/ipv4/tcp_* 2>/dev/null | grep -v tcp_fastopen_key").stdout
    };
    let (before, other) = (settings("h1"), settings("h2"));
    let files = || Command::new("ls").args(["-la", "/etc/sysctl.d", "/var/lib"]).output().unwrap().stdout;
    let files_before = files();
    let unknown = longfat(&["--check"]);
    assert!(unknown.code == 3 && unknown.stdout.starts_with("UNKNOWN: nothing was applied"), "{unknown:?}");
    let plan = longfat(&[&["--plan"], PATH.as_slice()].concat());
    assert!(
        plan.stdout.contains("\n+net.ipv4.tcp_rmem = ") && plan.stdout.contains("no file is written"),
        "{plan:?}"
    );
    assert_eq!(settings("h1"), before, "a plan changes nothing");
    let differs = longfat(&[&["--check"], PATH.as_slice()].concat());
    assert!(
        differs.code == 2 && differs.stdout.starts_with("CRITICAL: ") && differs.stdout.lines().count() == 1,
        "{differs:?}"
    );
    let applied = longfat(&[&["--apply"], PATH.as_slice()].concat());
    assert_eq!(applied.code, 0, "{applied:?}");
    assert!(settings("h1").contains("125829120"), "{}", settings("h1"));
    assert_eq!((settings("h2"), files()), (other, files_before), "only this host, and no file");
    assert_eq!(longfat(&["--check"]).code, 0);
    assert_eq!(lab.sh("h1", "echo 0 > /proc/sys/net/ipv4/tcp_no_metrics_save").code, 0);
    let changed = longfat(&["--check", "--json"]);
    assert_eq!(
        (changed.code, changed.parsed()["differences"][0]["name"].as_str()),
        (1, Some("net.ipv4.tcp_no_metrics_save"))
    );
    assert_eq!(changed.parsed()["state"], "WARNING");
    let elsewhere = lab.exec("h2", &[common::binary(), "tune", "--revert"]);
    assert!(elsewhere.code == 0 && elsewhere.stdout.contains("Nothing to restore"), "{elsewhere:?}");
    assert_eq!(longfat(&["--revert"]).code, 0);
    assert_eq!(settings("h1"), before);
    assert!(longfat(&["--revert"]).stdout.contains("Nothing to restore"));
}

/// Uses private mounts and a private network, as root in a container has.
#[test]
fn a_container_is_tuned_and_restored_with_its_files() {
    if !is_root() || !have(&["unshare", "mount"]) {
        testing::skip(testing::Missing::Privilege, "only root can create these namespaces");
        return;
    }
    let test_dir = TestDir::new("");
    let script = format!(
        r#"set -e
        mount -t tmpfs none /etc/sysctl.d; mount -t tmpfs none /var/lib
        echo 'net.ipv4.tcp_sack = 1' > /etc/sysctl.d/99-own.conf
        look() {{ grep -r . /proc/sys/net/ipv4/tcp_* 2>/dev/null | grep -v fastopen_key; ls -A /etc/sysctl.d /var/lib; cat /etc/sysctl.d/*; }}
        look > {dir}/before
        {longfat} tune {path} --apply >&2
        cp /etc/sysctl.d/90-longfat.conf {dir}/written
        {longfat} tune --check
        ! {longfat} tune {path} --apply --live --streams 1 --lower 2> {dir}/otherwise
        {longfat} tune --revert >&2
        {longfat} tune {path} --apply --live >&2
        ls /etc/sysctl.d > {dir}/live
        {longfat} tune --revert >&2
        look > {dir}/after"#,
        dir = test_dir.dir.path().display(),
        longfat = common::binary(),
        path = PATH.join(" "),
    );
    let ran = CommandOutput::from(
        Command::new("unshare").args(["-m", "-n", "sh", "-c", &script]).output().unwrap(),
    );
    assert_eq!((ran.code, ran.stdout.trim()), (0, "OK: all settings are as applied"), "{ran:?}");
    let file = |name: &str| std::fs::read_to_string(test_dir.path(name)).unwrap();
    assert!(file("written").contains("\nnet.ipv4.tcp_rmem = 4096 "), "{}", file("written"));
    assert!(file("otherwise").contains("with a file"), "{}", file("otherwise"));
    assert_eq!(file("live"), "99-own.conf\n");
    assert_eq!(file("before"), file("after"));
}

/// A container that was restarted: its files have the journal of a network namespace that no longer exists.
/// The same applies to `ip netns exec` on a tuned host.
#[test]
fn another_namespaces_journal_blocks_neither_advice_nor_live_values() {
    if !is_root() || !have(&["unshare", "mount"]) {
        testing::skip(testing::Missing::Privilege, "only root can create these namespaces");
        return;
    }
    let test_dir = TestDir::new("");
    let inner = format!(
        r#"set -e; cd {dir}
        {longfat} tune {path} > advice 2> note
        {longfat} tune --json > settings 2> /dev/null
        ! {longfat} tune {path} --plan > /dev/null 2> plan
        ! {longfat} tune {path} --apply > /dev/null 2> refused
        ! {longfat} tune --revert > /dev/null 2> elsewhere
        {longfat} tune {path} --apply --live >&2
        {longfat} tune --check
        {longfat} tune --revert >&2
        rm /var/lib/longfat-tune/tune.json /etc/sysctl.d/90-longfat.conf
        {longfat} tune {path} --apply >&2
        {longfat} tune --check
        {longfat} tune --revert >&2
        ls -A /etc/sysctl.d /var/lib > after"#,
        dir = test_dir.dir.path().display(),
        longfat = common::binary(),
        path = PATH.join(" "),
    );
    std::fs::write(test_dir.path("inner.sh"), inner).unwrap();
    let script = format!(
        r#"set -e
        mount -t tmpfs none /etc/sysctl.d; mount -t tmpfs none /var/lib
        {longfat} tune {path} --apply >&2
        unshare -n sh {dir}/inner.sh"#,
        dir = test_dir.dir.path().display(),
        longfat = common::binary(),
        path = PATH.join(" "),
    );
    let ran = CommandOutput::from(
        Command::new("unshare").args(["-m", "-n", "sh", "-c", &script]).output().unwrap(),
    );
    let ok = "OK: all settings are as applied";
    assert_eq!((ran.code, ran.stdout.trim()), (0, format!("{ok}\n{ok}").as_str()), "{ran:?}");
    let file = |name: &str| std::fs::read_to_string(test_dir.path(name)).unwrap();
    assert!(file("advice").contains("the path holds 62.5 MB"), "{}", file("advice"));
    let settings: serde_json::Value = serde_json::from_str(&file("settings")).unwrap();
    assert_eq!(
        (&settings["schema"], &settings["applied"]),
        (&"longfat.tune/1".into(), &serde_json::Value::Null)
    );
    for name in ["note", "plan", "refused", "elsewhere"] {
        let words = file(name).split_whitespace().collect::<Vec<_>>().join(" ");
        let remedy = "remove /var/lib/longfat-tune/tune.json and /etc/sysctl.d/90-longfat.conf";
        assert!(words.contains("in another network namespace") && words.contains(remedy), "{name}: {words}");
    }
    assert_eq!(file("after"), "/etc/sysctl.d:\n\n/var/lib:\n");
}
