//! Standing labs: programs on hosts, changes of links while the lab is up, and clean-up.

use crate::common;
use std::process::Command;

use common::{
    SMALL, TestDir, eventually, is_root,
    lab::{Lab, is_alive},
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};

#[test]
fn programs_on_hosts_resolve_host_names() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let ping = lab.exec("h1", &["ping", "-c", "2", "h2"]);
    assert!(ping.stdout.contains(" 0% packet loss"), "{ping:?}");
    let devices = lab.exec("h2", &["cat", "/proc/net/dev"]);
    assert!(devices.stdout.contains("h2-eth0:") && !devices.stdout.contains("h1-eth0:"), "{devices:?}");
    assert_eq!(lab.exec("h1", &["sh", "-c", "exit 7"]).code, 7, "the exit code is that of the program");
    assert_eq!(lab.exec("h1", &["sh", "-c", "kill -TERM $$"]).code, 128 + 15);
    let unknown = lab.exec("h9", &["true"]);
    assert_eq!((unknown.code, unknown.stderr.contains("h1, h2")), (2, true), "{unknown:?}");
    let missing = lab.exec("h1", &["no-such-program-anywhere"]);
    assert_eq!((missing.code, missing.stderr.contains("no-such-program")), (2, true), "{missing:?}");
    let again = test_dir.run(&["lab", "up", "s.toml", "--name", &lab.name]);
    assert!(again.code != 0 && again.stderr.contains("is up already"), "{again:?}");
    let all = lab.shell(&["pingall"]);
    assert!(all.stdout.contains("0% dropped (2/2 received)"), "{all:?}");
    let typo = lab.shell(&["h1 true", "hh1 true"]);
    assert!(typo.code == 1 && typo.stderr.contains("unknown command hh1"), "{typo:?}");
}

#[test]
fn links_change_while_the_lab_runs() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    assert!((10.0..13.0).contains(&lab.rtt_ms("h1", "h2")));
    assert_eq!(lab.shell(&["link s1-h2 delay 15ms"]).code, 0);
    assert!((40.0..43.0).contains(&lab.rtt_ms("h1", "h2")), "10 + 15 + 15 ms");
    // netem works on a switch's port, as in the lab sheet, and on a host's device.
    assert_eq!(
        lab.exec("s1", &["tc", "qdisc", "add", "dev", "s1-eth2", "root", "netem", "delay", "5ms"]).code,
        0
    );
    assert!((30.0..33.0).contains(&lab.rtt_ms("h1", "h2")), "10 + 5 + 15 ms");
    let on_host =
        lab.exec("h2", &["tc", "qdisc", "replace", "dev", "h2-eth0", "root", "netem", "delay", "1ms"]);
    assert_eq!(on_host.code, 0, "{on_host:?}");
    assert!((16.0..19.0).contains(&lab.rtt_ms("h1", "h2")), "10 + 5 + 1 ms");
    let shown = lab.exec("h2", &["tc", "qdisc", "show", "dev", "h2-eth0"]);
    assert!(shown.stdout.contains("netem") && shown.stdout.contains("delay 1ms"), "{shown:?}");
    let twice = lab.exec("s1", &["tc", "qdisc", "add", "dev", "s1-eth2", "root", "netem", "delay", "9ms"]);
    assert!(twice.code == 2 && twice.stderr.contains("File exists"), "{twice:?}");
    assert!(twice.stderr.contains("netem 8001:") && twice.stderr.contains("tc qdisc change"), "{twice:?}");
    let other = lab.shell(&["tc qdisc add dev s1-eth2 root tbf rate 1mbit burst 10kb limit 20kb"]);
    assert!(other.code == 1 && other.stderr.contains("tc qdisc replace"), "{other:?}");
    let refused = lab.shell(&["tc qdisc add dev s1-eth2 root cake"]);
    assert!(refused.code == 1 && refused.stderr.contains("cake"), "{refused:?}");

    assert_eq!(lab.shell(&["link s1-h2 down"]).code, 0);
    assert_ne!(lab.exec("h1", &["ping", "-c", "1", "-W", "1", "h2"]).code, 0);
    assert_eq!(lab.shell(&["link s1-h2 up"]).code, 0);
    assert_eq!(lab.exec("h1", &["ping", "-c", "1", "-W", "2", "h2"]).code, 0);
}

#[test]
fn mtus_are_set_with_ifconfig_and_ip_link() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &["--set", "hosts.*.mtu=9000"]);
    let jumbo =
        |lab: &Lab| lab.exec("h1", &["ping", "-M", "do", "-s", "8000", "-c", "2", "-W", "1", "h2"]).code == 0;
    assert!(jumbo(&lab), "a link without an MTU carries packets of any size");
    assert_eq!(lab.exec("s1", &["ifconfig", "s1-eth1", "mtu", "1500"]).code, 0);
    assert!(!jumbo(&lab));
    assert_eq!(lab.exec("s1", &["ip", "link", "set", "dev", "s1-eth1", "mtu", "9000"]).code, 0);
    assert!(jumbo(&lab));
}

#[test]
fn packets_are_captured_while_the_lab_runs() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    assert_eq!(lab.shell(&["pcap h1 h1.pcapng", "pcap s1-h2 forward link.pcapng"]).code, 0);
    assert_eq!(lab.exec("h1", &["ping", "-c", "3", "-i", "0.2", "h2"]).code, 0);
    let stopped = lab.shell(&["pcap stop h1.pcapng", "pcap stop link.pcapng"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    // At h1: 2 ARP packets, 3 echo requests and 3 echo replies. On the link, in one direction only: the ARP
    // request and the 3 echo requests.
    assert!(stopped.stdout.contains("8 packets in"), "{stopped:?}");
    assert!(stopped.stdout.contains("4 packets in"), "{stopped:?}");
    let file = std::fs::read(test_dir.path("h1.pcapng")).unwrap();
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a], "a section header block");
    let unknown = lab.shell(&["pcap h9 x.pcapng"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("h9"), "{unknown:?}");
}

#[test]
fn a_killed_lab_ends_its_programs() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let keeper = lab.keeper();
    let seconds = format!("86{keeper}");
    assert_eq!(lab.exec("h1", &["sh", "-c", &format!("sleep {seconds} >/dev/null 2>&1 &")]).code, 0);
    let sleeps = || Command::new("pgrep").args(["-f", &format!("^sleep {seconds}")]).output().unwrap().stdout;
    assert!(eventually(|| !sleeps().is_empty()));
    assert!(Command::new("kill").args(["-KILL", &keeper.to_string()]).status().unwrap().success());
    assert!(eventually(|| !is_alive(keeper)));
    assert!(eventually(|| sleeps().is_empty()), "the programs must end with the lab");
    assert_eq!(test_dir.run(&["lab", "clean"]).code, 0);
    assert_eq!(test_dir.run(&["lab", "status", &lab.name]).code, 2);
}

#[test]
fn several_labs_can_be_up() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let (a, b) = (Lab::up(&test_dir, &[]), Lab::up(&test_dir, &[]));
    assert_eq!(a.exec("h1", &["ping", "-c", "1", "h2"]).code, 0);
    drop(a);
    assert_eq!(b.exec("h1", &["ping", "-c", "1", "h2"]).code, 0);
}

#[test]
fn unprivileged_users_can_keep_labs_up() {
    if !is_root() {
        testing::skip(
            testing::Missing::Privilege,
            "only root can become an unprivileged user; the other tests already ran as one",
        );
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let open = |mode: &str, path: &std::path::Path| {
        assert!(Command::new("chmod").args([mode]).arg(path).status().unwrap().success());
    };
    open("755", test_dir.dir.path());
    let program = test_dir.path("longfat");
    common::copy_binary(&program);
    open("644", &test_dir.path("s.toml"));
    let home = test_dir.path("home");
    std::fs::create_dir(&home).unwrap();
    open("777", &home);
    let run = |args: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .arg(&program)
            .args(args)
            .current_dir(test_dir.dir.path())
            .env("XDG_RUNTIME_DIR", &home)
            .output()
            .unwrap();
        common::CommandOutput::from(output)
    };
    let up = run(&["lab", "up", "s.toml"]);
    if up.code == 4 {
        testing::skip(
            testing::Missing::Feature,
            format_args!("this machine does not allow users to create namespaces: {}", up.stderr),
        );
        return;
    }
    assert_eq!(up.code, 0, "{up:?}");
    let ping = run(&["lab", "exec", "h1", "--", "ping", "-c", "2", "h2"]);
    let down = run(&["lab", "down"]);
    assert!(ping.stdout.contains(" 0% packet loss"), "{ping:?}");
    assert_eq!(down.code, 0, "{down:?}");
    assert_eq!(std::fs::read_dir(home.join("longfat")).unwrap().count(), 0, "nothing remains");
}
