//! Executes the commands of docs/tutorials as a reader would.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use testing::Missing;

use crate::common::{CommandOutput, TestDir, lab::lab_name, lab_slots::acquire_lab_slot};

fn file_of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The lines of a tutorial's shell examples.
fn commands(tutorial: &str) -> Vec<String> {
    let text = std::fs::read_to_string(file_of_repository("docs/tutorials").join(tutorial)).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let examples = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    examples.flat_map(str::lines).map(Into::into).collect()
}

/// Executes a line of shell in the test directory; `longfat` is the program under test.
fn execute(dir: &TestDir, line: &str) -> CommandOutput {
    CommandOutput::from(dir.with_longfat("sh").args(["-c", line]).output().unwrap())
}

/// Executes all commands of a tutorial that needs no lab, and returns what they printed.
fn all_succeed(dir: &TestDir, tutorial: &str) -> String {
    let commands = commands(tutorial);
    assert!(commands.len() >= 3, "{commands:?}");
    let succeed = |line: &String| {
        let ran = execute(dir, line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran.stdout
    };
    commands.iter().map(succeed).collect()
}

#[test]
fn the_commands_of_the_first_tutorial_work() {
    let dir = TestDir::new("");
    let printed = all_succeed(&dir, "first-ten-minutes.md");
    assert!(
        printed.contains("168 Mb/s") || printed.contains("167.77 Mb/s"),
        "the goodput of a window of 1 MiB: {printed}"
    );
    assert!(printed.contains("cubic sim") && printed.contains("bbr model"), "{printed}");
    for picture in ["path.svg", "loss.svg"] {
        assert!(std::fs::read_to_string(dir.path(picture)).unwrap().contains("<svg"), "{picture}");
    }
}

#[test]
fn the_commands_of_the_class_tutorial_work_without_a_lab() {
    let dir = TestDir::new("");
    let printed = all_succeed(&dir, "labs-in-class.md");
    assert!(printed.contains("knee at receive_buffer"), "{printed}");
    assert!(dir.path("lab8.html").exists() && dir.path("buffers.svg").exists());
}

/// The goodput in Mb/s of a test's summary line for the receiver.
fn goodput_mbps(tested: &CommandOutput) -> f64 {
    let line = tested.stdout.lines().rfind(|line| line.ends_with("receiver")).unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|word| word.ends_with("bits/sec"));
    unit.map_or(f64::NAN, |unit| words[unit - 1].parse().unwrap())
}

#[test]
fn the_tutorial_on_a_slow_transfer_finds_and_fixes_it() {
    let _slot = acquire_lab_slot();
    // A busy machine can disturb a test of five seconds.
    let mut disturbed = String::new();
    for _ in 0..3 {
        let dir = TestDir::new("");
        let name = lab_name();
        let lines = commands("slow-transfer.md");
        let ran: Vec<CommandOutput> =
            lines.iter().map(|line| execute(&dir, &line.replace(" slow", &format!(" {name}")))).collect();
        let of = |word: &str| -> Vec<&CommandOutput> {
            lines.iter().zip(&ran).filter(|(line, _)| line.contains(word)).map(|(_, ran)| ran).collect()
        };
        let failed = lines.iter().zip(&ran).find(|(_, ran)| ran.code != 0);
        let goodputs: Vec<f64> = of("longfat test").into_iter().map(goodput_mbps).collect();
        let found = of("longfat diagnose")
            .iter()
            .any(|ran| ran.stdout.contains("Limited by the receive buffer of 10.0.0.2"));
        let tuned = of("longfat tune").len() == 1;
        if failed.is_none() && found && tuned && goodputs.len() == 2 && goodputs[1] > 3.0 * goodputs[0] {
            return;
        }
        disturbed = format!("{goodputs:?}, receive buffer named: {found}, failed: {failed:?}");
    }
    panic!("{disturbed}");
}

/// What `scripts/tutorial-script.py` prints.
fn script(argument: &str) -> String {
    let printed =
        Command::new(file_of_repository("scripts/tutorial-script.py")).arg(argument).output().unwrap();
    assert!(printed.status.success(), "{argument}: {printed:?}");
    String::from_utf8(printed.stdout).unwrap()
}

/// `scripts/test-tutorials.sh` executes these scripts in a clean root.
#[test]
fn the_scripts_of_the_tutorials_have_all_commands() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|found| found.status.success()) {
        testing::skip(Missing::Tool, "there is no python3");
        return;
    }
    let dir = TestDir::new("");
    let pages = script("--list");
    let pages: Vec<&str> = pages.lines().collect();
    for tutorial in std::fs::read_dir(file_of_repository("docs/tutorials")).unwrap() {
        let name = tutorial.unwrap().file_name().into_string().unwrap();
        let page = format!("docs/tutorials/{name}");
        assert!(pages.contains(&page.as_str()), "{page} is not below Tutorials in site/mkdocs.yml");
        let script = script(&page);
        for line in commands(&name) {
            assert!(script.lines().any(|found| found == line), "{page}: {line}");
        }
    }
    for page in pages.into_iter().chain(["README.md"]) {
        std::fs::write(dir.path("script"), script(page)).unwrap();
        let checked = CommandOutput::from(dir.with_longfat("bash").args(["-n", "script"]).output().unwrap());
        assert_eq!(checked.code, 0, "{page}: {checked:?}");
    }
}
