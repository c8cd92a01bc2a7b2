//! Runs between real hosts: the hosts of a standing lab, with `longfat serve` on two of them and
//! `longfat run` on a third.

use crate::common;

use std::{process::Stdio, time::Duration};

use common::{
    CommandOutput, TestDir, binary, eventually,
    iperf3::has_iperf3,
    lab::{Lab, Served},
    lab_slots::acquire_lab_slot,
};
use serde_json::Value;

/// The real network: 50 Mb/s and 20 ms between the servers' hosts. Longer queues hold what a stall of the lab
/// delays.
const NETWORK: &str = r#"
title = "Two hosts with servers and one that controls"
duration = "10s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[hosts.c1]
address = "10.0.0.3/24"
[switches]
names = ["s1"]
[[links]]
ends = ["h1", "s1"]
[[links]]
ends = ["s1", "h2"]
forward = { rate = "50mbit", delay = "20ms", queue = "500kB" }
[[links]]
ends = ["c1", "s1"]
"#;

/// The scenario that is run there. The default variant's window carries about 20 Mb/s.
const SCENARIO: &str = r#"
title = "Windows"
duration = "4s"
[hosts.h1]
address = "10.0.0.1/24"
[hosts.h2]
address = "10.0.0.2/24"
[[links]]
ends = ["h1", "h2"]
forward = { rate = "50mbit", delay = "20ms", queue = "500kB" }
[[flows]]
name = "bulk"
from = "h1"
to = "h2"
cc = "cubic"
[[variants]]
name = "small"
hosts."*".sysctl = { "net.ipv4.tcp_rmem" = "4096 16384 32768" }
[[variants]]
name = "large"
hosts."*".sysctl = { "net.ipv4.tcp_rmem" = "4096 131072 4194304" }
"#;

const PLACES: &str = "h1=10.0.0.1,h2=10.0.0.2";
const RMEM: &str = "net.ipv4.tcp_rmem";

/// Kills the processes of a host whose command line contains `words`. The hosts of a lab share the process
/// numbers of the machine, so only those of this network namespace are meant.
fn kill(lab: &Lab<'_>, host: &str, words: &str) {
    // The pattern does not match this shell's own command line.
    let (first, rest) = words.split_at(1);
    let line = format!(
        "own=$(readlink /proc/self/ns/net); for p in $(pgrep -f '[{first}]{rest}'); do \
         [ \"$(readlink /proc/$p/ns/net)\" = \"$own\" ] && kill -KILL $p; done; true"
    );
    assert_eq!(lab.sh(host, &line).code, 0);
}

/// A directory with the network, the scenario, and a token.
fn test_dir() -> TestDir {
    let test_dir = TestDir::new(NETWORK);
    std::fs::write(test_dir.path("run.toml"), SCENARIO).unwrap();
    let without_settings = SCENARIO.split("[[variants]]").next().unwrap();
    std::fs::write(test_dir.path("plain.toml"), without_settings).unwrap();
    std::fs::write(test_dir.path("token"), "a secret of all these hosts\n").unwrap();
    std::fs::write(test_dir.path("other"), "another secret that is wrong\n").unwrap();
    test_dir
}

/// Runs a scenario from a host of the lab.
fn run(lab: &Lab<'_>, from: &str, file: &str, options: &[&str]) -> CommandOutput {
    let command = [&[binary(), "run", file, "--engine", "hosts", "--json"][..], options].concat();
    lab.exec(from, &command)
}

fn setting(lab: &Lab<'_>, host: &str) -> String {
    let text = lab.exec(host, &["cat", "/proc/sys/net/ipv4/tcp_rmem"]).stdout;
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn mbps(run: &Value) -> f64 {
    run["flows"][0]["goodput_bps"].as_f64().unwrap_or(0.0) / 1e6
}

#[test]
fn a_third_host_runs_the_variants_between_two_others() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = (setting(&lab, "h1"), setting(&lab, "h2"));
    let secret = ["--token", "token", "--allow-tune"];
    let _servers = (Served::on(&lab, "h1", &secret), Served::on(&lab, "h2", &secret));
    let ran = run(&lab, "c1", "run.toml", &["--at", PLACES, "--token", "token"]).json();
    let [small, large] = [&ran["runs"][0], &ran["runs"][1]];
    assert_eq!((&small["engine"], &small["variant"]), (&"hosts".into(), &"small".into()));
    assert!((5.0..30.0).contains(&mbps(small)), "{small}");
    assert_eq!(small["flows"][0]["verdict"], "receive_window", "{small}");
    assert!(mbps(large) > mbps(small) * 1.3 && mbps(large) < 48.0, "{large}");
    let rtt = |run: &Value| {
        let all = run["path"].as_array().unwrap();
        all.iter().find(|one| one["quantity"] == "rtt").unwrap().clone()
    };
    assert!((rtt(small)["expected"].as_f64().unwrap() - 20_000.0).abs() < 1.0, "{small}");
    assert!((20_000.0..60_000.0).contains(&rtt(small)["measured"].as_f64().unwrap()), "{small}");
    assert_eq!((setting(&lab, "h1"), setting(&lab, "h2")), before, "the settings are restored");
}

#[test]
fn requests_that_a_server_does_not_permit_are_refused_before_any_change() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = setting(&lab, "h2");
    let refused = |file: &str, options: &[&str], reason: &str| {
        let ran = run(&lab, "c1", file, options);
        assert!(ran.code != 0 && ran.stdout.contains(reason), "{reason}: {ran:?}");
        assert_eq!(setting(&lab, "h2"), before);
    };
    {
        let _servers = (Served::on(&lab, "h1", &[]), Served::on(&lab, "h2", &[]));
        refused("run.toml", &["--at", PLACES], "--allow-tune");
        refused("plain.toml", &["--at", PLACES], "--token FILE");
        refused("plain.toml", &["--at", "h1=10.0.0.1,h9=10.0.0.2"], "the scenario has no host \\\"h9\\\"");
        refused("plain.toml", &["--at", "h1=10.0.0.1:9"], "Connection refused");
        refused("plain.toml", &[], "would both be this machine");
    }
    let secret = ["--token", "token", "--allow-tune"];
    let _servers = (Served::on(&lab, "h1", &secret), Served::on(&lab, "h2", &secret));
    refused("run.toml", &["--at", PLACES], "no token");
    refused("run.toml", &["--at", PLACES, "--token", "other"], "a different token");
}

#[test]
fn settings_are_restored_when_either_end_is_killed() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = setting(&lab, "h2");
    let secret = ["--token", "token", "--allow-tune"];
    let changed = || setting(&lab, "h1") != before && setting(&lab, "h2") != before;
    let restored = || setting(&lab, "h1") == before && setting(&lab, "h2") == before;
    let start = || {
        let run = ["lab", "exec", "--lab", &lab.name, "c1", "--", binary(), "run", "run.toml"];
        let options = [
            "--engine",
            "hosts",
            "--at",
            PLACES,
            "--token",
            "token",
            "--variant",
            "small",
            "--set",
            "duration=60s",
        ];
        let mut command = test_dir.longfat(&[&run[..], &options[..]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let _first = Served::on(&lab, "h1", &secret);
    let second = Served::on(&lab, "h2", &secret);

    let mut controlling = start();
    assert!(eventually(changed), "the settings of the variant are applied");
    kill(&lab, "c1", "run run.toml");
    assert!(eventually(restored), "after the end of the controlling program");
    let _ = controlling.wait();

    let mut controlling = start();
    assert!(eventually(changed));
    kill(&lab, "h2", "serve --token");
    assert!(eventually(restored), "after the end of a server");
    let ended = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        controlling.try_wait().unwrap().is_some()
    });
    assert!(ended, "the run ends when a server has disappeared");
    assert!(!controlling.wait().unwrap().success());
    drop(second);
    // The rows until then are kept.
    let listed = test_dir.run(&["ls", "--json"]).json();
    assert!(listed.to_string().contains("hosts"), "{listed}");
}

/// Kills the process that would restore the settings of the server on h2, and then the server, as when a
/// container is killed. Stopping the first process is not sufficient: when the server dies, the kernel
/// continues it, as the stopped process of an orphaned process group (setpgid(2)).
fn kill_guard_and_server(lab: &Lab<'_>) {
    let line = "own=$(readlink /proc/self/ns/net); of() { for p in $(pgrep -f \"$1\"); do \
                [ \"$(readlink /proc/$p/ns/net)\" = \"$own\" ] && echo $p; done; }; \
                guard=$(of '[g]uard-settings'); server=$(of '[l]ongfat serve'); [ -n \"$guard\" ] && [ -n \"$server\" ] && \
                kill -KILL $guard $server";
    let killed = lab.sh("h2", line);
    assert_eq!(killed.code, 0, "{killed:?}");
}

#[test]
fn settings_are_restored_after_a_server_and_its_guard_were_killed() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = setting(&lab, "h2");
    let restored = || setting(&lab, "h2") == before;
    let receiver_only = SCENARIO.replace("hosts.\"*\"", "hosts.h2");
    std::fs::write(test_dir.path("receiver.toml"), receiver_only).unwrap();
    let change_and_kill = || {
        let server = Served::on(&lab, "h2", &["--allow-tune"]);
        let run = ["lab", "exec", "--lab", &lab.name, "h1", "--", binary(), "run", "receiver.toml"];
        let options =
            ["--engine", "hosts", "--at", "h2=10.0.0.2", "--variant", "small", "--set", "duration=60s"];
        let mut command = test_dir.longfat(&[&run[..], &options[..]].concat());
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert!(eventually(|| !restored()), "the settings of the variant are applied");
        kill_guard_and_server(&lab);
        drop(server);
        assert!(!running.wait().unwrap().success(), "the run ends");
        assert!(!restored(), "nobody is left who restores them");
    };

    change_and_kill();
    let revert = [binary(), "tune", "--revert", "--json"];
    let reverted = lab.exec("h2", &revert).json();
    assert!(restored(), "{reverted}");
    assert_eq!(reverted["reverted_run"]["settings"][0]["name"], RMEM, "{reverted}");
    let again = lab.exec("h2", &revert).json();
    assert!(again["reverted_run"].is_null() && again["reverted"].is_null(), "{again}");

    change_and_kill();
    let _server = Served::on(&lab, "h2", &[]);
    assert!(eventually(restored), "by the next server");
}

/// This machine is neither end of the flow: whichever of the three hosts is cut off, the run ends, keeps its
/// rows, and restores the settings of the hosts that it can reach.
#[test]
fn a_third_party_run_ends_when_an_end_is_cut_off() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = setting(&lab, "h1");
    let secret = ["--token", "token", "--allow-tune"];
    let _servers = (Served::on(&lab, "h1", &secret), Served::on(&lab, "h2", &secret));
    for (link, reachable) in [("h1-s1", "h2"), ("s1-h2", "h1")] {
        let command =
            ["lab", "exec", "--lab", &lab.name, "c1", "--", binary(), "run", "run.toml", "--engine", "hosts"];
        let options =
            ["--at", PLACES, "--token", "token", "--variant", "small", "--set", "duration=20s", "--json"];
        let mut running = test_dir.longfat(&[&command[..], &options[..]].concat());
        let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let changed_or_ended = || setting(&lab, reachable) != before || running.try_wait().unwrap().is_some();
        assert!(eventually(changed_or_ended), "the settings of the variant are applied");
        if let Some(status) = running.try_wait().unwrap() {
            panic!(
                "{link}: ended early, {status}: {:?}",
                CommandOutput::from(running.wait_with_output().unwrap())
            );
        }
        std::thread::sleep(Duration::from_secs(3));
        for direction in ["forward", "backward"] {
            assert_eq!(lab.shell(&[&format!("link {link} {direction} loss 100%")]).code, 0);
        }
        let from = std::time::Instant::now();
        let output = CommandOutput::from(running.wait_with_output().unwrap());
        assert!(from.elapsed() < Duration::from_secs(120), "{link}: {:?}", from.elapsed());
        assert_ne!(output.code, 0, "{link}");
        let run = &output.parsed()["runs"][0];
        assert_eq!(run["partial"], true, "{link}: {output:?}");
        assert!(mbps(run) > 0.1, "the rows until then: {run}");
        assert!(eventually(|| setting(&lab, reachable) == before), "{reachable} is restored");
        for direction in ["forward", "backward"] {
            assert_eq!(lab.shell(&[&format!("link {link} {direction} loss 0%")]).code, 0);
        }
        let restored = || setting(&lab, "h1") == before && setting(&lab, "h2") == before;
        assert!(eventually(restored), "the server that was cut off restores its settings itself");
    }
}

/// Length of the device queue and the state of GRO of a host's device.
fn device(lab: &Lab<'_>, host: &str) -> (String, bool) {
    let link = lab.exec(host, &["ip", "-o", "link", "show", &format!("{host}-eth0")]).stdout;
    let queue = link
        .split_whitespace()
        .skip_while(|word| *word != "qlen")
        .nth(1)
        .unwrap_or_default()
        .trim_end_matches('\\')
        .to_owned();
    let features = lab.sh(host, &format!("ethtool -k {host}-eth0")).stdout;
    (queue, features.contains("generic-receive-offload: on"))
}

#[test]
fn a_scenario_states_the_locations_of_hosts_and_device_settings() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let stated = SCENARIO
        .split("[[variants]]")
        .next()
        .unwrap()
        .replace("[hosts.h1]", "[hosts.h1]\nat = \"here\"\ngro = 1")
        .replace("[hosts.h2]", "[hosts.h2]\nat = \"10.0.0.2:5201\"\ntx_queue = 77");
    std::fs::write(test_dir.path("stated.toml"), stated).unwrap();
    let lab = Lab::up(&test_dir, &[]);
    let before = (device(&lab, "h1"), device(&lab, "h2"));
    assert!(before.0.1 && before.1.0 != "77", "{before:?}");
    let server = Served::on(&lab, "h2", &[]);
    let refused = run(&lab, "h1", "stated.toml", &["--allow-tune"]);
    assert!(refused.stdout.contains("h2-eth0 txqueuelen = 77 (now "), "{refused:?}");
    drop(server);
    let _server = Served::on(&lab, "h2", &["--allow-tune"]);
    let command =
        ["lab", "exec", "--lab", &lab.name, "h1", "--", binary(), "run", "stated.toml", "--engine", "hosts"];
    let mut running = test_dir.longfat(&[&command[..], &["--allow-tune"]].concat());
    let mut running = running.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let changed = || !device(&lab, "h1").1 && device(&lab, "h2").0 == "77";
    assert!(eventually(changed), "{:?}", (device(&lab, "h1"), device(&lab, "h2")));
    assert!(running.wait().unwrap().success());
    assert_eq!((device(&lab, "h1"), device(&lab, "h2")), before, "the devices are restored");
}

#[test]
fn a_lost_flow_is_continued_in_the_same_record() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let first = Served::on(&lab, "h2", &[]);
    let command =
        ["lab", "exec", "--lab", &lab.name, "h1", "--", binary(), "run", "plain.toml", "--engine", "hosts"];
    let options = ["--at", "h2=10.0.0.2", "--set", "duration=40s", "--reconnect", "5min", "--json"];
    let mut running = test_dir.longfat(&[&command[..], &options[..]].concat());
    let running = running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let has_rows = || {
        let runs = std::fs::read_dir(test_dir.path("runs/plain")).into_iter().flatten().flatten();
        runs.map(|run| run.path().join("flows.part-0003.parquet")).any(|part| part.exists())
    };
    assert!(eventually(has_rows), "the rows are in the record while it runs");
    kill(&lab, "h2", "longfat serve");
    drop(first);
    let _second = Served::on(&lab, "h2", &[]);
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let ran: Value = serde_json::from_slice(&output.stdout).unwrap();
    let flows = ran["runs"][0]["flows"].as_array().unwrap();
    let names: Vec<_> = flows.iter().map(|flow| flow["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bulk", "bulk-2"], "{ran}");
    let [lost, continued] = [&flows[0], &flows[1]].map(|flow| flow["goodput_bps"].as_f64().unwrap());
    assert!(lost > 5e6 && continued > 5e6, "{ran}");
    let quality = &ran["runs"][0]["quality"];
    assert!(quality["notes"].to_string().contains("continued as bulk-2"), "{quality}");
    let ended = ran["runs"][0]["duration_s"].as_f64().unwrap();
    assert!((39.0..60.0).contains(&ended) && ran["runs"][0]["partial"] == false, "{ended}: {ran}");
    let csv = test_dir.run(&["export", "csv", "last"]).stdout;
    assert!(["bulk", "bulk-2"].iter().all(|name| csv.contains(&format!(",{name},"))), "both parts");
}

#[test]
fn a_run_reports_that_it_waits_in_a_busy_servers_queue() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let _server = Served::on(&lab, "h2", &[]);
    let test = ["lab", "exec", "--lab", &lab.name, "c1", "--", binary(), "test", "10.0.0.2", "-t", "8"];
    let mut other = test_dir.longfat(&test).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // Its control connection and its stream.
    let connections = || lab.exec("h2", &["ss", "-Htn", "sport", "=", ":5201"]).stdout.lines().count();
    assert!(eventually(|| connections() >= 2));
    let ran = run(&lab, "h1", "plain.toml", &["--at", "h2=10.0.0.2"]);
    assert!(ran.stderr.contains("host h2: waiting in the server's queue: 1 test ahead, about "), "{ran:?}");
    assert!(mbps(&ran.json()["runs"][0]) > 5.0);
    assert!(other.wait().unwrap().success());
}

#[test]
fn published_figures_are_judged_between_hosts_whose_path_is_as_described() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    std::fs::create_dir(test_dir.path("published")).unwrap();
    let published = "[[published]]\nid = \"L8-default\"\nmetric = \"flows.bulk.goodput\"\nvalue = \"40mbit\"\ntolerance = \"60%\"\n";
    let without_settings = SCENARIO.split("[[variants]]").next().unwrap().to_owned() + published;
    let longer = without_settings.replace("20ms", "200ms");
    let elsewhere = without_settings.replace("h1", "a1").replace("h2", "a2");
    for (name, text) in [("same", &without_settings), ("longer", &longer), ("elsewhere", &elsewhere)] {
        std::fs::write(test_dir.path(&format!("published/{name}.toml")), text).unwrap();
    }
    let lab = Lab::up(&test_dir, &[]);
    let _server = Served::on(&lab, "h2", &[]);
    let command = [binary(), "reproduce", "L8-default", "--engine", "hosts", "--dir", "published", "--json"];
    let ran = lab.exec("h1", &[&command[..], &["--at", "h2=10.0.0.2"]].concat());
    let document = ran.json();
    let figures = document["results"][0]["figures"].as_array().unwrap();
    let of = |scenario: &str| figures.iter().find(|one| one["scenario"] == scenario);
    let same = &of("same").unwrap_or_else(|| panic!("{document}"))["judged"][0];
    assert_eq!((&same["engine"], &same["verdict"]), (&"hosts".into(), &"within".into()), "{document}");
    let other = &of("longer").unwrap()["judged"][0];
    assert_eq!(other["verdict"], "does_not_apply", "{document}");
    assert!(other["why"].as_str().unwrap().contains("round-trip time"), "{document}");
    assert!(of("elsewhere").is_none() && document.to_string().contains("no host"), "{document}");
}

#[test]
fn an_iperf3_server_suffices_for_a_flow_from_or_to_this_host() {
    if !has_iperf3() {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    lab.serve_iperf3("h2");
    let at = ["--at", "h2=10.0.0.2"];
    let forward = run(&lab, "h1", "plain.toml", &at).json();
    assert!((15.0..48.0).contains(&mbps(&forward["runs"][0])), "{forward}");
    assert!(forward["runs"][0]["quality"]["notes"].to_string().contains("iperf3 server"), "{forward}");
    let back = ["--set", "flows.bulk.from=h2", "--set", "flows.bulk.to=h1"];
    let reverse = run(&lab, "h1", "plain.toml", &[&at[..], &back[..]].concat()).json();
    assert!(mbps(&reverse["runs"][0]) > 15.0, "{reverse}");
    let stated = run(&lab, "h1", "run.toml", &[&at[..], &["--allow-tune"]].concat());
    assert!(stated.code == 4 && stated.stdout.contains(RMEM), "{stated:?}");
}

#[test]
fn flows_of_all_kinds_overlap_as_scheduled() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let flows = r#"
        [[flows]]
        name = "early"
        from = "h1"
        to = "h2"
        stop = "3s"
        [[flows]]
        name = "late"
        from = "h1"
        to = "h2"
        start = "2s"
        [[flows]]
        name = "back"
        from = "h2"
        to = "h1"
        size = "1MB"
        [[flows]]
        name = "voice"
        kind = "udp"
        from = "h1"
        to = "h2"
        rate = "1mbit"
        [[flows]]
        name = "echo"
        kind = "ping"
        from = "h1"
        to = "h2"
    "#;
    let base: String = SCENARIO.split("[[flows]]").next().unwrap().into();
    std::fs::write(test_dir.path("run.toml"), base + flows).unwrap();
    let lab = Lab::up(&test_dir, &[]);
    let _server = Served::on(&lab, "h2", &[]);
    let ran = run(&lab, "h1", "run.toml", &["--at", "h2=10.0.0.2"]).json();
    let flow = |name: &str| {
        let all = ran["runs"][0]["flows"].as_array().unwrap();
        all.iter().find(|flow| flow["name"] == name).unwrap_or_else(|| panic!("{name}: {ran}")).clone()
    };
    for name in ["early", "late", "back"] {
        assert!(flow(name)["goodput_bps"].as_f64().unwrap() > 1e6, "{}", flow(name));
    }
    assert_eq!(flow("back")["bytes"], 1_000_000);
    assert!((0.8e6..1.1e6).contains(&flow("voice")["goodput_bps"].as_f64().unwrap()), "{}", flow("voice"));
    assert!((20_000.0..40_000.0).contains(&flow("echo")["min_rtt_us"].as_f64().unwrap()), "{}", flow("echo"));
    // Both ends' samples and all flows have one time axis.
    let csv = test_dir.run(&["export", "csv", "last"]).stdout;
    let first = |name: &str| {
        let mut flow_rows = csv.lines().filter(|line| line.split(',').nth(1) == Some(name));
        flow_rows
            .next()
            .and_then(|line| line.split(',').next()?.parse::<f64>().ok())
            .unwrap_or_else(|| panic!("{csv}"))
    };
    assert!(
        first("early") < 0.5e6 && (1.9e6..3.0e6).contains(&first("late")),
        "{} {}",
        first("early"),
        first("late")
    );
}

#[test]
fn a_server_that_cannot_be_reached_connects_to_this_machine() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let _server = Served::on(&lab, "h2", &["--allow-tune", "--reverse-connect", "10.0.0.1:5301"]);
    let ran = run(&lab, "h1", "run.toml", &["--at", "h2=listen:5301", "--allow-tune"]).json();
    let [small, large] = [0, 1].map(|index| mbps(&ran["runs"][index]));
    assert!(large > small && small > 2.0, "{ran}");
    // Data in the other direction.
    let back = SCENARIO
        .replace("from = \"h1\"", "from = \"x\"")
        .replace("to = \"h2\"", "to = \"h1\"")
        .replace("\"x\"", "\"h2\"");
    std::fs::write(test_dir.path("back.toml"), back.split("[[variants]]").next().unwrap()).unwrap();
    let ran = run(&lab, "h1", "back.toml", &["--at", "h2=listen:5301"]).json();
    assert!(mbps(&ran["runs"][0]) > 2.0, "{ran}");
    // A third host cannot send to it.
    let _sender = Served::on(&lab, "c1", &[]);
    let refused = run(&lab, "h1", "plain.toml", &["--at", "h1=10.0.0.3,h2=listen:5301"]);
    assert!(refused.code != 0 && refused.stdout.contains("cannot reach it"), "{refused:?}");
}

/// The second of two runs would measure with the settings of the first, which it would restore too early.
#[test]
fn two_runs_do_not_change_one_host_at_the_same_time() {
    let _slot = acquire_lab_slot();
    let test_dir = test_dir();
    let lab = Lab::up(&test_dir, &[]);
    let before = setting(&lab, "h2");
    let _servers = (Served::on(&lab, "h1", &[]), Served::on(&lab, "h2", &["--allow-tune", "--clients", "2"]));
    let start = |variant: &str, duration: &str| {
        let run = ["lab", "exec", "--lab", &lab.name, "h1", "--", binary(), "run", "receiver.toml", "--json"];
        let options = ["--engine", "hosts", "--at", "h2=10.0.0.2", "--variant", variant, "--set", duration];
        test_dir.longfat(&[&run[..], &options[..]].concat())
    };
    let receiver_only = SCENARIO.replace("hosts.\"*\"", "hosts.h2");
    std::fs::write(test_dir.path("receiver.toml"), receiver_only).unwrap();
    let mut first =
        start("small", "duration=20s").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(eventually(|| setting(&lab, "h2") != before));
    let changed = setting(&lab, "h2");
    let second = CommandOutput::from(start("large", "duration=1s").output().unwrap());
    assert!(second.code != 0 && second.stdout.contains("another run has changed settings"), "{second:?}");
    assert_eq!(setting(&lab, "h2"), changed, "the first run keeps its settings");
    assert!(first.wait().unwrap().success());
    assert_eq!(setting(&lab, "h2"), before);
}
