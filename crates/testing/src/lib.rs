//! Helpers for the tests of several crates: to report that a test was skipped, to replay a fuzzer's corpus,
//! to compare the page's types with documents, to run a PostgreSQL server or an object store, to read HTTP
//! requests and those of remote write, and to watch an iperf3 server.
//!
//! libtest counts a test that returns early as passed. [`skip`] writes the test's name and the cause to the
//! file named by `LONGFAT_SKIPPED`, so that `scripts/test.sh` counts it as skipped, and fails in CI if CI
//! should have provided the missing feature.

pub mod http;
#[cfg(feature = "iperf3")]
pub mod iperf3_server;
pub mod page_types;
pub mod postgres;
pub mod remote_write;
pub mod s3;

use std::{fmt::Display, fs, io::Write, path::PathBuf};

/// Why a test cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A privilege of root. CI runs as root, so there it is a failure.
    Privilege,
    /// A program that `scripts/setup.sh tests` installs. In CI it is a failure.
    Tool,
    /// A feature of the kernel or of this machine.
    Feature,
    /// A quiet machine: the test was repeated several times and disturbed each time.
    QuietMachine,
}

impl Missing {
    /// Its name in the file of skipped tests.
    fn name(self) -> &'static str {
        match self {
            Missing::Privilege => "privilege",
            Missing::Tool => "tool",
            Missing::Feature => "feature",
            Missing::QuietMachine => "quiet-machine",
        }
    }
}

/// Reports that the running test is skipped; the test should then return. Must be called on the test's main
/// thread, which has the test's name.
pub fn skip(missing: Missing, why: impl Display) {
    let thread = std::thread::current();
    let why = why.to_string().trim_end().replace('\n', " ");
    let line = format!("{}\t{}\t{why}\n", missing.name(), thread.name().unwrap_or("unknown test"));
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os("LONGFAT_SKIPPED") else { return };
    let file = std::fs::File::options().append(true).create(true).open(path);
    // One write per line, because test programs share the file.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("LONGFAT_SKIPPED names a file that can be written");
}

/// Calls a fuzz target's function with every file of its corpus, as a regression test.
///
/// # Panics
/// If there is no corpus.
pub fn replay_corpus(target: &str, fuzz: impl Fn(&[u8])) {
    let dir = fuzz_directory().join("corpus").join(target);
    let files = fs::read_dir(&dir).unwrap_or_else(|e| panic!("cannot read {}: {e}", dir.display()));
    let files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    for file in files {
        // If the function panics, this line names the file.
        println!("{}", file.display());
        fuzz(&fs::read(&file).expect("the corpus can be read"));
    }
}

fn fuzz_directory() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "fuzz"].iter().collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The text of every test program below `crates`.
    fn sources(dir: &Path, found: &mut String) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                *found += &fs::read_to_string(&path).unwrap();
            }
        }
    }

    #[test]
    fn every_fuzz_target_has_a_corpus_that_a_test_replays() {
        let manifest = fs::read_to_string(fuzz_directory().join("Cargo.toml")).unwrap();
        let targets: Vec<&str> = manifest
            .lines()
            .skip_while(|line| *line != "[[bin]]")
            .filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
            .collect();
        assert!(targets.len() >= 12, "{targets:?}");
        let mut tests = String::new();
        for member in fs::read_dir(fuzz_directory().join("../crates")).unwrap().flatten() {
            let folder = member.path().join("tests");
            if folder.is_dir() {
                sources(&folder, &mut tests);
            }
        }
        for target in &targets {
            let corpus = fuzz_directory().join("corpus").join(target);
            let files = fs::read_dir(&corpus).map_or(0, |files| files.flatten().count());
            assert!(files > 0, "the fuzz target {target} has no corpus");
            assert!(
                tests.contains(&format!("replay_corpus(\"{target}\"")),
                "no test replays the corpus of the fuzz target {target}"
            );
        }
        for corpus in fs::read_dir(fuzz_directory().join("corpus")).unwrap().flatten() {
            let name = corpus.file_name().into_string().unwrap();
            assert!(targets.contains(&name.as_str()), "fuzz/corpus/{name} belongs to no fuzz target");
        }
    }
}
