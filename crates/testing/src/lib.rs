//! What the tests of several crates share: how a test reports that it was skipped.
//!
//! libtest counts a test that returns early as passed. [`skip`] writes the test's name and the cause to the file named by
//! `LONGFAT_SKIPPED`, so that `scripts/test.sh` counts it as skipped, and fails in CI where the cause is one that CI removes.

use std::{fmt::Display, io::Write};

/// Why a test cannot run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A privilege that root has. CI is root, so there it is a failure.
    Privilege,
    /// A program that `scripts/setup.sh tests` installs. In CI it is a failure.
    Tool,
    /// A feature of the kernel or of this machine.
    Feature,
    /// A quiet machine: the test tried several times and was disturbed each time.
    QuietMachine,
}

impl Missing {
    /// The word in the file of skipped tests.
    fn name(self) -> &'static str {
        match self {
            Missing::Privilege => "privilege",
            Missing::Tool => "tool",
            Missing::Feature => "feature",
            Missing::QuietMachine => "quiet-machine",
        }
    }
}

/// Reports that the running test is skipped; the test then returns. To be called on the test's own thread, whose name is
/// the test's.
pub fn skip(missing: Missing, why: impl Display) {
    let thread = std::thread::current();
    let why = why.to_string().trim_end().replace('\n', " ");
    let line = format!("{}\t{}\t{why}\n", missing.name(), thread.name().unwrap_or("unknown test"));
    eprint!("skipped: {line}");
    let Some(path) = std::env::var_os("LONGFAT_SKIPPED") else { return };
    let file = std::fs::File::options().append(true).create(true).open(path);
    // One write a line: test programs share the file.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("LONGFAT_SKIPPED names a file that can be written");
}
