//! The clang for BPF builds, and its options; used by the build script as well.
//!
//! Version 16 or newer: clang 14 puts constant arrays into a section that libbpf ignores (.rodata.cst32).

use std::{path::PathBuf, process::Command};

/// Oldest supported version.
pub const OLDEST: u32 = 16;
/// Newest version that is searched for by its number.
const NEWEST: u32 = 22;

/// Options of every BPF build, before `-I` and the file. The debugging information is the source of BTF.
pub const OPTIONS: &[&str] =
    &["-target", "bpf", "-mcpu=v3", "-std=gnu11", "-O2", "-g", "-fno-stack-protector", "-Wall", "-c"];

/// Finds `LONGFAT_CLANG`, else the first of clang, clang-16, clang-17, ... that is new enough.
///
/// # Errors
/// A sentence that states what was found instead.
pub fn find() -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os("LONGFAT_CLANG") {
        let given = PathBuf::from(given);
        return match version(&given) {
            Some(version) if version >= OLDEST => Ok(given),
            Some(version) => Err(format!("LONGFAT_CLANG={} is version {version}", given.display())),
            None => Err(format!("LONGFAT_CLANG={} is not clang", given.display())),
        };
    }
    let numbered = (OLDEST..=NEWEST).map(|n| PathBuf::from(format!("clang-{n}")));
    let mut too_old = None;
    for candidate in std::iter::once(PathBuf::from("clang")).chain(numbered) {
        match version(&candidate) {
            Some(version) if version >= OLDEST => return Ok(candidate),
            Some(version) => too_old = Some(version),
            None => {}
        }
    }
    Err(match too_old {
        Some(version) => format!("clang is version {version}"),
        None => "clang is not installed".into(),
    })
}

fn version(clang: &PathBuf) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    major(&String::from_utf8_lossy(&output.stdout))
}

/// The major version in "Debian clang version 16.0.6 (15~deb12u1)".
fn major(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("clang version ")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
