//! Unusual use of standing labs: duplicate names, killed and interrupted programs, closed output.

use crate::common;
use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{
    CommandOutput, SMALL, TestDir, eventually, is_root,
    lab::{Lab, is_alive, lab_name, signal},
    lab_slots::{acquire_all_lab_slots, acquire_lab_slot},
};

/// Starts a program on a host that runs until it is killed.
fn started(lab: &Lab, line: &str) -> Child {
    lab.test_dir
        .longfat(&["lab", "exec", "--lab", &lab.name, "h1", "--", "sh", "-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap()
}

/// A sleep of a unique duration, by which its process is found.
struct Sleep(String);

impl Sleep {
    fn of(lab: &Lab) -> Self {
        Sleep(format!("87{}", lab.keeper()))
    }

    fn runs(&self) -> bool {
        let found = Command::new("pgrep").args(["-f", &format!("^sleep {}", self.0)]).output().unwrap();
        !found.stdout.is_empty()
    }
}

#[test]
fn two_labs_cannot_have_the_same_name() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let name = lab_name();
    let up = || {
        test_dir
            .longfat(&["lab", "up", "s.toml", "--name", &name])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both: Vec<Child> = vec![up(), up()];
    let ran: Vec<CommandOutput> =
        both.into_iter().map(|c| CommandOutput::from(c.wait_with_output().unwrap())).collect();
    let status = test_dir.run(&["lab", "status", &name, "--json"]);
    let ping = test_dir.run(&["lab", "exec", "--lab", &name, "h1", "--", "ping", "-c", "1", "h2"]);
    let down = test_dir.run(&["lab", "down", &name]);
    let (well, ill): (Vec<&CommandOutput>, Vec<&CommandOutput>) = ran.iter().partition(|r| r.code == 0);
    assert_eq!((well.len(), ill.len()), (1, 1), "{ran:?}");
    assert!(ill[0].stderr.contains("is up already"), "{ran:?}");
    assert_eq!((status.code, ping.code, down.code), (0, 0, 0), "{status:?} {ping:?} {down:?}");
    assert_eq!(test_dir.run(&["lab", "status", &name]).code, 2, "one lab, which is down");
}

#[test]
fn a_shell_reports_that_its_lab_is_down() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let keeper = lab.keeper();
    let mut shell = test_dir
        .longfat(&["lab", "shell", "--lab", &lab.name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typing = shell.stdin.take().unwrap();
    let mark = test_dir.path("mark");
    writeln!(typing, "h1 touch {}", mark.display()).unwrap();
    assert!(eventually(|| mark.exists()));
    signal("-KILL", keeper);
    assert!(eventually(|| !is_alive(keeper)));
    writeln!(typing, "h1 true\nlinks\npingall\nexit").unwrap();
    drop(typing);
    let ran = CommandOutput::from(shell.wait_with_output().unwrap());
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("3 of the commands failed"), "{ran:?}");
    assert!(!ran.stderr.contains("panicked"), "{ran:?}");
    let late = test_dir.run(&["lab", "shell", "--lab", &lab.name, "-c", "nodes"]);
    assert!(late.code == 2 && late.stderr.contains("is up"), "{late:?}");
}

#[test]
fn a_program_that_ignores_signals_ends_with_its_lab() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let sleep = Sleep::of(&lab);
    let mut exec = started(&lab, &format!("trap '' TERM INT HUP QUIT; sleep {}; true", sleep.0));
    assert!(eventually(|| sleep.runs()));
    let down = lab.down();
    assert_eq!(down.code, 0, "{down:?}");
    assert!(eventually(|| !sleep.runs()), "it must end with its lab");
    assert_eq!(exec.wait().unwrap().code(), Some(128 + 9), "the program was killed");
}

#[test]
fn signals_to_exec_reach_its_program() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let sleep = Sleep::of(&lab);
    let line = format!("exec sleep {}", sleep.0);

    let mut exec = started(&lab, &line);
    assert!(eventually(|| sleep.runs()));
    signal("-TERM", exec.id());
    exec.wait().unwrap();
    assert!(eventually(|| !sleep.runs()), "the program must end when exec is terminated");

    // Ctrl-C signals all processes of the terminal.
    let mut exec = started(&lab, &line);
    assert!(eventually(|| sleep.runs()));
    let group = format!("-{}", exec.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(exec.wait().unwrap().code(), Some(128 + 2), "exec reports how the program ended");
    assert!(eventually(|| !sleep.runs()));
    assert_eq!(lab.exec("h1", &["true"]).code, 0, "the lab stays");
}

#[test]
fn a_signalled_lab_cleans_up() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(SMALL);
    for name in ["-TERM", "-INT", "-HUP"] {
        let lab = Lab::up(&test_dir, &[]);
        let (keeper, sleep) = (lab.keeper(), Sleep::of(&lab));
        let mut exec = started(&lab, &format!("sleep {}", sleep.0));
        assert!(eventually(|| sleep.runs()));
        signal(name, keeper);
        assert!(eventually(|| !is_alive(keeper)), "{name}");
        exec.wait().unwrap();
        assert!(eventually(|| !sleep.runs()), "{name}: programs remain");
        assert!(eventually(|| test_dir.network_namespaces().is_empty()), "{name}: namespaces remain");
        assert_eq!(test_dir.run(&["lab", "status", &lab.name]).code, 2, "{name}");
        let cleaned = test_dir.run(&["lab", "clean", "--json"]).json();
        let removed = cleaned["removed"].as_array().unwrap();
        assert!(removed.iter().all(|e| e["pid"] != keeper), "{name}: it cleans up itself: {cleaned}");
    }
}

#[test]
fn a_failed_lab_leaves_no_processes_or_files() {
    let _slot = acquire_all_lab_slots();
    let test_dir = TestDir::new(SMALL);
    for (set, named) in [
        ("hosts.h2.sysctl.net.ipv4.no_such_setting=1", "no_such_setting"),
        ("hosts.h2.sysctl.net.ipv4.tcp_congestion_control=nobody", "nobody"),
    ] {
        let name = lab_name();
        let ran = test_dir.run(&["lab", "up", "s.toml", "--name", &name, "--set", set]);
        assert!(ran.code != 0 && ran.stderr.contains(named), "{ran:?}");
        assert_eq!(ran.stdout, "", "{ran:?}");
        assert_eq!(test_dir.run(&["lab", "status", &name]).code, 2);
        assert!(eventually(|| test_dir.network_namespaces().is_empty()), "{set}: namespaces remain");
        let cleaned = test_dir.run(&["lab", "clean", "--json"]).json();
        assert!(!cleaned["alive"].to_string().contains(&name), "{cleaned}");
    }
}

#[test]
fn closed_standard_output_does_not_stop_a_lab() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let name = lab_name();
    let mut child = test_dir
        .longfat(&["lab", "up", "s.toml", "--name", &name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let up = CommandOutput::from(child.wait_with_output().unwrap());
    let ping = test_dir.run(&["lab", "exec", "--lab", &name, "h1", "--", "ping", "-c", "1", "h2"]);
    let down = test_dir.run(&["lab", "down", &name]);
    assert_eq!((up.code, up.stderr.as_str()), (0, ""), "{up:?}");
    assert_eq!((ping.code, down.code), (0, 0), "{ping:?} {down:?}");
}

#[test]
fn up_does_not_hold_a_pipe_open() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let name = lab_name();
    let began = Instant::now();
    // As in `longfat lab up ... 2>&1 | cat`: cat ends when no process has the pipe open for writing.
    let line = format!("'{}' lab up s.toml --name {name} 2>&1 | cat", common::binary());
    let ran = Command::new("timeout")
        .args(["20", "sh", "-c", &line])
        .current_dir(test_dir.dir.path())
        .output()
        .map(CommandOutput::from)
        .unwrap();
    let down = test_dir.run(&["lab", "down", &name]);
    assert!(ran.stdout.contains("is up"), "{ran:?} after {:?}", began.elapsed());
    assert_eq!((ran.code, down.code), (0, 0), "{ran:?} {down:?}");
}

#[test]
fn two_users_can_use_the_same_lab_name() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "only root can become another user");
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let open = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    };
    let program = test_dir.path("longfat");
    common::copy_binary(&program);
    let home = test_dir.path("home");
    std::fs::create_dir(&home).unwrap();
    [test_dir.dir.path(), &program, &home].into_iter().for_each(open);
    let lab = Lab::up(&test_dir, &[]);
    let other = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(test_dir.dir.path()).args(args).env("XDG_RUNTIME_DIR", &home);
        CommandOutput::from(command.uid(65_534).gid(65_534).output().unwrap())
    };
    let seen = other(&["lab", "status", &lab.name]);
    assert_eq!(seen.code, 2, "labs of other users are not listed: {seen:?}");
    let up = other(&["lab", "up", "s.toml", "--name", &lab.name]);
    if up.code == 4 {
        testing::skip(
            testing::Missing::Feature,
            format_args!("this machine does not allow users to create namespaces: {}", up.stderr),
        );
        return;
    }
    assert_eq!(up.code, 0, "{up:?}");
    let both = [
        lab.exec("h1", &["ping", "-c", "1", "h2"]),
        other(&["lab", "exec", "h1", "--", "ping", "-c", "1", "h2"]),
    ];
    let down = lab.down();
    let still = other(&["lab", "exec", "h1", "--", "ping", "-c", "1", "h2"]);
    let last = other(&["lab", "down", &lab.name]);
    assert!(both.iter().all(|r| r.code == 0), "{both:?}");
    assert_eq!((down.code, still.code, last.code), (0, 0, 0), "{down:?} {still:?} {last:?}");
}

#[test]
fn a_capture_on_a_full_disk_is_reported_and_the_lab_continues() {
    if !is_root() {
        testing::skip(testing::Missing::Privilege, "mounting a small file system needs root");
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let disk = test_dir.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(&disk).status();
    assert!(mount.unwrap().success());
    let lab = Lab::up(&test_dir, &[]);
    let file = disk.join("h1.pcapng");
    let begun = lab.shell(&[&format!("pcap h1 {}", file.display())]);
    let pings = lab.exec("h1", &["ping", "-c", "40", "-i", "0.02", "-s", "1400", "h2"]);
    std::thread::sleep(Duration::from_millis(100));
    let stopped = lab.shell(&[&format!("pcap stop {}", file.display())]);
    let still = lab.exec("h1", &["ping", "-c", "1", "h2"]);
    let size = std::fs::metadata(&file).map(|m| m.len());
    let down = lab.down();
    let unmounted = Command::new("umount").arg(&disk).status().unwrap();
    assert_eq!(
        (begun.code, pings.code, still.code, down.code),
        (0, 0, 0, 0),
        "{begun:?} {pings:?} {still:?}"
    );
    let printed = stopped.stdout.clone() + &stopped.stderr;
    assert!(printed.contains("No space left on device"), "{stopped:?}");
    assert!(size.is_ok_and(|s| s <= 16 << 10));
    assert!(unmounted.success(), "the lab must not keep the disk busy");
}
