//! Executes the commands of docs/tutorials, and of the blocks `sh run` of other pages, as a reader would.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use testing::Missing;

use crate::common::{CommandOutput, TestDir, lab::lab_name, lab_slots::acquire_lab_slot};

fn file_of_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The lines of a page's blocks that begin with three backticks and `language`.
fn lines_of_blocks(page: &Path, language: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let examples = blocks.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'));
    examples.flat_map(str::lines).map(Into::into).collect()
}

/// The lines of a tutorial's shell examples.
fn commands(tutorial: &str) -> Vec<String> {
    lines_of_blocks(&file_of_repository("docs/tutorials").join(tutorial), "sh")
}

/// Executes a line of shell in the test directory; `longfat` is the program under test.
fn execute(dir: &TestDir, line: &str) -> CommandOutput {
    CommandOutput::from(dir.with_longfat("sh").args(["-c", line]).output().unwrap())
}

/// Executes commands that need no lab, and returns what they printed.
fn all_succeed(dir: &TestDir, commands: &[String]) -> String {
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
    let commands = commands("first-ten-minutes.md");
    assert!(commands.len() >= 3, "{commands:?}");
    let printed = all_succeed(&dir, &commands);
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
    let commands = commands("labs-in-class.md");
    assert!(commands.len() >= 3, "{commands:?}");
    let printed = all_succeed(&dir, &commands);
    assert!(printed.contains("knee at receive_buffer"), "{printed}");
    assert!(dir.path("lab8.html").exists() && dir.path("buffers.svg").exists());
}

/// Examples that need no other host and no lab, and only these files: the repository's scenarios, two simple
/// paths, and a record of lab8.
#[test]
fn the_examples_of_other_pages_work() {
    let docs = std::fs::read_dir(file_of_repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let mut executed = Vec::new();
    for page in pages.chain([file_of_repository("README.md")]) {
        let examples = lines_of_blocks(&page, "sh run");
        if examples.is_empty() {
            continue;
        }
        let dir = TestDir::new("");
        std::fs::remove_file(dir.path("s.toml")).unwrap();
        std::os::unix::fs::symlink(file_of_repository("scenarios"), dir.path("scenarios")).unwrap();
        let files = [
            "longfat scenario new s.toml --rate 10mbit --rtt 20ms --duration 2s",
            "longfat scenario new back-to-back.toml --rate 1gbit --rtt 200us --duration 500ms",
            "longfat run lab8 --variant tuned --engine sim --set duration=1s --trace bulk",
        ];
        all_succeed(&dir, &files.map(String::from));
        all_succeed(&dir, &examples);
        // Their output files.
        for word in examples.iter().flat_map(|line| line.split_whitespace()) {
            if [".svg", ".html", ".parquet", ".xpl"].iter().any(|end| word.ends_with(end)) {
                assert!(dir.path(word).exists(), "{}: {word}", page.display());
            }
        }
        executed.extend(examples);
    }
    assert!(executed.len() >= 20, "{executed:?}");
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
