//! `longfat lab shell` at a terminal: editing, Ctrl-C, programs with job control; and its commands.

use crate::common;
use std::path::Path;

use common::{
    SMALL, TestDir,
    lab::{Lab, have},
    lab_slots::acquire_lab_slot,
    terminal::Terminal,
};

/// The end of the prompt, including one that shows a late emulator.
const PROMPT: &str = "> ";

/// The shell of a lab at a terminal, with its history in `state`.
fn shell_at_terminal(test_dir: &TestDir, lab: &Lab<'_>, state: &Path) -> Terminal {
    let mut command = test_dir.longfat(&["lab", "shell", "--lab", &lab.name]);
    command.env("XDG_STATE_HOME", state);
    let mut terminal = Terminal::start(command);
    terminal.expect("exit to quit");
    terminal.expect(PROMPT);
    terminal
}

#[test]
fn programs_on_hosts_run_in_the_terminals_foreground() {
    if !have(&["ping", "bash"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let mut terminal = shell_at_terminal(&test_dir, &lab, &test_dir.path("state"));
    // Ctrl-C ends the program, not the shell.
    terminal.press("h1 ping h2\r");
    terminal.expect("bytes from");
    terminal.press("\x03");
    terminal.expect("rtt min");
    terminal.expect(PROMPT);
    // bash and its programs use job control.
    terminal.press("h1 bash --norc\r");
    terminal.expect("bash-");
    terminal.press("echo on $LONGFAT_HOST$((40 + 2))\r");
    terminal.expect("on h142");
    terminal.press("ping h2\r");
    terminal.expect("bytes from");
    terminal.press("\x03");
    terminal.expect("rtt min");
    terminal.press("exit\r");
    terminal.expect(PROMPT);
    // Ctrl-Z stops neither the shell nor the program.
    terminal.press("h1 sh -c 'echo ready; read line; echo got $line'\r");
    terminal.expect("\nready");
    terminal.press("\x1a");
    terminal.press("this\r");
    terminal.expect("got this");
    terminal.expect(PROMPT);
    // The raw mode of a killed program is reset.
    terminal.press("h1 sh -c 'stty -icanon -echo; kill -KILL $$'\r");
    terminal.expect(PROMPT);
    terminal.press("nodes\r");
    terminal.expect("switch s1");
    terminal.expect(PROMPT);
    terminal.press("exit\r");
    assert_eq!(terminal.code(), Some(0), "{}", terminal.screen());
}

#[test]
fn completion_and_history_work() {
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let state = test_dir.path("state");
    let mut terminal = shell_at_terminal(&test_dir, &lab, &state);
    terminal.press("nod\t\r");
    terminal.expect("host   h1");
    terminal.expect(PROMPT);
    terminal.press("h1 echo h\t\t");
    terminal.expect("h1");
    terminal.expect("h2");
    terminal.press("2 done\r");
    terminal.expect("\nh2 done");
    terminal.expect(PROMPT);
    terminal.press("\x04");
    assert_eq!(terminal.code(), Some(0));
    // Arrow up shows the last line of the previous session.
    let mut second_session = shell_at_terminal(&test_dir, &lab, &state);
    second_session.press("\x1b[A\r");
    second_session.expect("\nh2 done");
    second_session.press("exit\r");
    assert_eq!(second_session.code(), Some(0));
    // Without a history: the state directory is a file.
    std::fs::write(test_dir.path("file"), "").unwrap();
    let mut no_history = shell_at_terminal(&test_dir, &lab, &test_dir.path("file"));
    no_history.press("h1 echo fine\r");
    no_history.expect("\nfine");
    no_history.expect(PROMPT);
    no_history.press("\x03");
    no_history.expect(PROMPT);
    // Pasted lines are executed one by one, and an `exit` among them ends the shell.
    no_history.press("\x1b[200~h1 echo one\nh1 echo two\nexit\x1b[201~\r");
    no_history.expect("\none");
    no_history.expect("\ntwo");
    assert_eq!(no_history.code(), Some(0));
}

#[test]
fn commands_of_mininet_work_or_name_an_alternative() {
    if !have(&["ping", "iperf3", "sysctl"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let lab = Lab::up(&test_dir, &[]);
    let typed = lab.type_into_shell(
        "net\ndump\nintfs\npingallfull\npingpair\niperf h1 h2 -t 1\niperfudp 1M h1 h2 -t 1\ntime nodes\n",
    );
    assert_eq!(typed.code, 0, "{typed:?}");
    for line in [
        "h1 h1-eth0:s1-eth1",
        "s1 s1-eth1:h1-eth0 s1-eth2:h2-eth0",
        "<Host h1: h1-eth0:10.0.0.1/24>",
        "<Switch s1: s1-eth1,s1-eth2>",
        "s1: s1-eth1,s1-eth2",
        "*** Results: 0% dropped (2/2 received)",
    ] {
        assert!(typed.stdout.lines().any(|l| l == line), "{line}: {typed:?}");
    }
    for part in ["h1->h2: 1/1, rtt ", "receiver", "Jitter", "*** Elapsed time: "] {
        assert!(typed.stdout.contains(part), "{part}: {typed:?}");
    }
    for (line, named) in [
        ("sysctl net.ipv4.tcp_rmem", "h1 sysctl net.ipv4.tcp_rmem"),
        ("py h1.IP()", "dump"),
        ("dpctl dump-flows", "tc -s qdisc"),
        ("switch s1 stop", "link s1-s2 down"),
        ("iperf h1 h9", "hosts are h1, h2"),
        ("iperfudp h1 h2", "iperfudp 10M h1 h2"),
        ("xterm h9", "hosts are h1, h2"),
        ("source nosuchfile", "nosuchfile"),
        ("h1", "h1 ping"),
    ] {
        let typed = lab.type_into_shell(&format!("{line}\n"));
        assert!(typed.code == 1 && typed.stderr.contains(named), "{line}: {typed:?}");
    }
    let mut command = test_dir.longfat(&["lab", "shell", "--lab", &lab.name, "-c", "xterm h1"]);
    let refused = common::CommandOutput::from(command.env_remove("DISPLAY").output().unwrap());
    assert!(refused.stderr.contains("DISPLAY") && refused.stderr.contains("lab exec"), "{refused:?}");
    let mut command = test_dir.longfat(&["lab", "shell", "--lab", &lab.name, "-c", "xterm h1"]);
    // Neither an xterm nor a display: one of them is named, with the alternative.
    let display = test_dir.path("no-display");
    let refused = common::CommandOutput::from(command.env("DISPLAY", display).output().unwrap());
    assert!(refused.code == 1 && refused.stderr.contains("lab exec"), "{refused:?}");
    std::fs::write(test_dir.path("lines"), "# a comment\nnodes\nexit\nnosuch\n").unwrap();
    let sourced = lab.shell(&["source lines"]);
    assert!(sourced.code == 0 && sourced.stdout.contains("host   h2"), "{sourced:?}");
}

/// Uses a separate journal: other labs of this user may be up.
#[test]
fn the_lab_that_was_brought_up_last_is_the_default() {
    if common::is_root() && !have(&["unshare", "mount"]) {
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = TestDir::new(SMALL);
    let script = "set -e
        longfat lab up s.toml --lab first >up
        longfat lab up s.toml --lab second >>up
        longfat lab shell -c status >shell
        longfat lab shell --lab first -c status >named
        longfat lab status --lab first >status
        ! longfat lab exec --lab nosuch h1 -- true 2>wrong
        longfat lab down >down
        longfat lab down --lab first >last";
    let script = script.replace("longfat", common::binary());
    let script = match common::is_root() {
        true => format!("mount -t tmpfs tmpfs /run; {script}"),
        false => script,
    };
    let mut command = std::process::Command::new(if common::is_root() { "unshare" } else { "env" });
    if common::is_root() {
        command.args(["--mount", "--"]);
    }
    command
        .args(["sh", "-c", &script])
        .current_dir(test_dir.dir.path())
        .env("XDG_RUNTIME_DIR", test_dir.dir.path());
    let ran = common::CommandOutput::from(command.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    for (file, expected) in [
        ("shell", "second: small"),
        ("named", "first: small"),
        ("status", "first: small"),
        ("wrong", "choose one with --lab NAME: first, second"),
        ("down", "second is down; still up: first (--lab NAME)"),
        ("last", "first is down"),
    ] {
        let text = std::fs::read_to_string(test_dir.path(file)).unwrap();
        assert!(text.contains(expected), "{file}: {text}");
    }
}

/// Rates are not asserted: the machine may be busy.
#[test]
fn guides_check_each_step() {
    if !have(&["ping", "iperf3", "ip", "sysctl"]) {
        return;
    }
    let _slot = common::lab_slots::acquire_all_lab_slots();
    let test_dir = TestDir::new(SMALL);
    for (sheet, steps) in [("lab8", 6), ("lab13", 5)] {
        let ran = test_dir.run(&["lab", "guide", sheet, "--auto", "--seconds", "1"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(
            ran.stdout.lines().filter(|l| l.starts_with("ok: ") || l.starts_with("inconclusive: ")).count(),
            steps,
            "{ran:?}"
        );
        assert!(ran.stdout.contains(&format!("All {steps} steps are done")), "{ran:?}");
        assert!(ran.stdout.contains("the sheet: about"), "{ran:?}");
        let status = test_dir.run(&["lab", "status"]).stdout;
        let name = ran.stdout.split("as lab ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        // Another lab of this user may have the sheet's name.
        assert!(name.starts_with(sheet), "{ran:?}");
        assert!(ran.stdout.contains(&format!("longfat lab exec --lab {name} h1 -- ")), "{ran:?}");
        assert!(status.lines().all(|line| !line.starts_with(&format!("{name}: "))), "{status}");
    }
    // A step that is missing or wrong does not pass.
    std::fs::write(
        test_dir.path("typed"),
        "next\nsudo tc qdisc add dev s1-eth2 root handle 1: netem delay 2ms\nnext\n\
         tc qdisc change dev s1-eth2 root handle 1: netem delay 20ms\nnext\nnext\nexit\n",
    )
    .unwrap();
    let mut command = test_dir.longfat(&["lab", "guide", "lab8"]);
    command.stdin(std::fs::File::open(test_dir.path("typed")).unwrap());
    let ran = common::CommandOutput::from(command.output().unwrap());
    let verdicts: Vec<&str> =
        ran.stdout.lines().filter(|l| l.starts_with("ok: ") || l.starts_with("not yet: ")).collect();
    let [first, second, third, fourth] = verdicts[..] else { panic!("{ran:?}") };
    assert!(first.contains("round trip takes") && second.contains("round trip takes"), "{ran:?}");
    assert!(third.starts_with("ok: ping") && fourth.contains("rate"), "{ran:?}");
    let unknown = test_dir.run(&["lab", "guide", "lab9"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("there are lab8, lab13"), "{unknown:?}");
}
