//! Snapshots of all texts that users see, for review: the help of every command, the messages of bad input,
//! the tables, and a report. `INSTA_UPDATE=always cargo test -p longfat --test all user_texts` rewrites them.

use std::fmt::Write;

use insta::assert_snapshot;

use crate::common::{SMALL, TestDir, binary};

/// The help of a command and of all commands below it.
fn help(test_dir: &TestDir, command: &[&str], texts: &mut String) {
    let ran = test_dir.run(&[command, &["--help"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let name = [&["longfat"], command].concat().join(" ");
    writeln!(texts, "=== {name}\n{}", ran.stdout).unwrap();
    let commands = ran.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in commands.take_while(|line| !line.is_empty()) {
        // Continuation lines of descriptions are indented further.
        let Some(word) = line.strip_prefix("  ").and_then(|line| line.split(' ').next()) else { continue };
        if !word.is_empty() && word != "help" {
            help(test_dir, &[command, &[word]].concat(), texts);
        }
    }
}

#[test]
fn help_of_every_command() {
    let test_dir = TestDir::new(SMALL);
    let mut texts = String::new();
    help(&test_dir, &[], &mut texts);
    assert!(texts.contains("=== longfat lab shell"), "subcommands are found: {texts}");
    assert_snapshot!(texts);
}

#[test]
fn messages_of_bad_input() {
    /// A change of the scenario, and the command line.
    const CASES: [(&str, &str, &[&str]); 22] = [
        ("delay = \"10ms\"", "dealy = \"10ms\"", &["run", "s.toml"]),
        ("to = \"h2\"", "to = \"h3\"", &["run", "s.toml"]),
        ("100mbit", "-100mbit", &["run", "s.toml"]),
        ("100mbit", "10g", &["run", "s.toml"]),
        ("250kB", "0B", &["run", "s.toml"]),
        ("10.0.0.2/24", "10.0.0.1/24", &["run", "s.toml"]),
        ("10.0.0.2/24", "10.0.1.2/24", &["run", "s.toml"]),
        ("cc = \"cubic\"", "cc = \"cubik\"", &["run", "s.toml", "--engine", "sim"]),
        ("duration = \"1s\"", "duration = \"0s\"", &["run", "s.toml"]),
        ("[[flows]]", "[[flow]]", &["run", "s.toml"]),
        ("title", "title", &["run", "nothing.toml"]),
        ("title", "title", &["run", "s.toml", "--engine", "magic"]),
        ("title", "title", &["run", "s.toml", "--variant", "far"]),
        ("title", "title", &["run", "s.toml", "--set", "duration"]),
        ("title", "title", &["run", "s.toml", "--engine", "sim", "--set", "links.h1-s1.forward.rat=1gbit"]),
        ("title", "title", &["run", "s.toml", "--engine", "model", "--report", "missing/report.html"]),
        ("title", "title", &["show", "nothing"]),
        ("title", "title", &["compare", "one", "two"]),
        ("title", "title", &["bdp", "10", "50ms"]),
        ("title", "title", &["test", "host.invalid"]),
        ("title", "title", &["tune", "--device", "nodevice0", "--rate", "1gbit", "--rtt", "10ms"]),
        ("title", "title", &["watch", "porto", "5201"]),
    ];
    let mut texts = String::new();
    for (from, to, args) in CASES {
        assert!(SMALL.contains(from), "{from:?} is not in the scenario");
        let test_dir = TestDir::new(&SMALL.replacen(from, to, 1));
        let ran = test_dir.run(args);
        assert_eq!(ran.stdout, "", "errors go to standard error: {ran:?}");
        let change = if from == to { String::new() } else { format!(" with {to} instead of {from}") };
        // The host's devices and the resolver's message depend on the machine.
        let message: Vec<&str> =
            ran.stderr.lines().map(|line| line.split("; there are ").next().unwrap_or(line)).collect();
        let message = message.join("\n");
        writeln!(texts, "=== longfat {}{change}: exit code {}\n{message}\n", args.join(" "), ran.code)
            .unwrap();
    }
    assert_snapshot!(texts);
}

/// A flow with a small send buffer, a variant with a larger one, and a published figure. The buffers do not
/// depend on this machine.
fn compared() -> String {
    format!(
        "{}\n{}",
        SMALL.replacen("duration = \"1s\"", "duration = \"4s\"", 1),
        r#"send_buffer = "64KiB"
receive_buffer = "4MiB"
[[variants]]
name = "tuned"
flows.bulk.send_buffer = "4MiB"
[[published]]
id = "example"
metric = "flows.bulk.steady_goodput"
variant = "tuned"
value = "90mbit"
tolerance = "10%"
"#
    )
}

#[test]
fn tables_of_runs() {
    let test_dir = TestDir::new(&compared());
    let mut texts = String::new();
    for args in [
        &["bdp", "10gbit", "50ms", "--kernel", "6.12"][..],
        &["run", "s.toml", "--engine", "model,sim", "--kernel", "6.12", "--report", "report.html"],
        &[
            "sweep",
            "s.toml",
            "--engine",
            "sim",
            "--kernel",
            "6.12",
            "--over",
            "links.h1-s1.forward.queue=20kB,200kB",
        ],
    ] {
        let ran = test_dir.run(args);
        assert!(ran.code == 0, "{ran:?}");
        // The names of records contain the time of the run.
        let lines =
            ran.stdout.lines().map(|line| if line.starts_with("record: ") { "record: ..." } else { line });
        writeln!(texts, "=== longfat {}\n{}\n", args.join(" "), lines.collect::<Vec<_>>().join("\n"))
            .unwrap();
    }
    assert_snapshot!(texts);
    assert_snapshot!("report", visible(&std::fs::read_to_string(test_dir.path("report.html")).unwrap()));
}

/// The sentences of a page: without tags, styles, scripts, drawings, and texts that depend on the machine;
/// the program's path is "longfat".
fn visible(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        text.push_str(&rest[..start]);
        let tag = &rest[start..];
        let skipped = ["style", "script", "svg"]
            .iter()
            .find(|name| tag[1..].starts_with(**name))
            .and_then(|name| Some(tag.find(&format!("</{name}>"))? + name.len() + 3));
        let Some(end) = skipped.or_else(|| Some(tag.find('>')? + 1)) else { break };
        text.push('\n');
        rest = &tag[end..];
    }
    let is_of_this_machine = |line: &&str| {
        let is_instant = line.starts_with("20") && line.contains('T') && line.contains('Z');
        is_instant
            || (line.starts_with("Linux ") && line.contains(" CPU"))
            || ["The runs took", "report of "].iter().any(|start| line.starts_with(start))
            || line.contains("runs/")
    };
    // Replaced first, because the program's directory may have the same name as a directory of runs.
    let text = text.replace(binary(), "longfat");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_of_this_machine(line));
    lines.collect::<Vec<_>>().join("\n")
}
