//! Runs the commands of docs/write-your-own-cc.md as a user would.

use crate::common;

use common::{CommandOutput, TestDir, is_root, lab_slots::acquire_lab_slot};

const GUIDE: &str = include_str!("../../../docs/write-your-own-cc.md");

/// The fenced code blocks: the text after the opening fence, and the content.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = GUIDE.split("\n```").skip(1).step_by(2);
    fenced.filter_map(|block| block.split_once('\n')).collect()
}

fn block(info: &str) -> &'static str {
    blocks().iter().find(|(found, _)| *found == info).map(|(_, text)| *text).unwrap()
}

fn commands() -> Vec<&'static str> {
    blocks().iter().filter(|(info, _)| *info == "sh").flat_map(|(_, text)| text.lines()).collect()
}

/// Runs one line of shell in the test directory; `longfat` is the program under test.
fn run_line(test_dir: &TestDir, line: &str) -> CommandOutput {
    CommandOutput::from(test_dir.with_longfat("sh").args(["-c", line]).output().unwrap())
}

fn with_files() -> TestDir {
    let test_dir = TestDir::new("");
    for name in ["my.bpf.c", "my.toml"] {
        let language = name.rsplit('.').next().unwrap();
        std::fs::write(test_dir.path(name), block(&format!("{language} {name}"))).unwrap();
    }
    test_dir
}

#[test]
fn every_command_of_the_guide_works() {
    if !is_root() || cc::kernel::missing_requirement().is_some() {
        testing::skip(testing::Missing::Feature, "congestion controls cannot be loaded here");
        return;
    }
    let _slot = acquire_lab_slot();
    let test_dir = with_files();
    let all = commands();
    assert!(all.len() >= 9 && all.iter().all(|c| c.starts_with("longfat ")), "{all:?}");
    // Unloads the algorithm also if the test fails.
    struct Unload<'a>(&'a TestDir);
    impl Drop for Unload<'_> {
        fn drop(&mut self) {
            run_line(self.0, "longfat cc unload my");
        }
    }
    let _unload = Unload(&test_dir);
    let default = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let before = default();
    for line in all {
        let ran = run_line(&test_dir, line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        if line.starts_with("longfat run my.toml --report") {
            assert!(ran.stdout.contains("mine") && ran.stdout.contains("my kept=0.8"), "{ran:?}");
        }
        if line == "longfat cc list" {
            assert!(ran.stdout.contains("my"), "{ran:?}");
        }
    }
    let picture = std::fs::read_to_string(test_dir.path("my.svg")).unwrap();
    assert!(picture.contains("<svg") && picture.contains("mine"));
    assert!(std::fs::read_to_string(test_dir.path("my.html")).unwrap().contains("my kept=0.8"));
    assert_eq!(default(), before);
}

/// Needs no privilege: the model engine reads the scenario, and parameters are checked before a run.
#[test]
fn the_guides_parameters_are_checked_against_the_c_file() {
    let test_dir = with_files();
    let ran = run_line(&test_dir, "longfat run my.toml --engine model");
    assert_eq!(ran.code, 0, "{ran:?}");
    let wrong = run_line(&test_dir, "longfat run my.toml --engine model --set flows.bulk.cc.set.keep=0.5");
    assert_eq!(wrong.code, 2, "{wrong:?}");
}
