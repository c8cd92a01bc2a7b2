//! Checks for the programs that a build needs; the error names all missing ones.

use std::{env, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::{Error, Result, children::Runner};

/// Programs, and the Debian packages that contain them.
const TOOLS: [(&str, &str); 10] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("strip", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("m4", "m4"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];
/// The C library's headers and their package.
const HEADERS: (&str, &str) = ("the C library's headers", "libc6-dev");
/// The source of a program that includes a header of the C library and a header of the kernel; the package
/// contains both.
const PROBE: &str = "#include <sys/ptrace.h>\n#include <linux/types.h>\n";

/// Checks whether this machine can build kernels.
///
/// # Errors
/// If programs are missing, or User-Mode Linux does not support the processor.
pub(crate) fn check(runner: &mut Runner<'_>, temporary: &std::path::Path) -> Result<()> {
    if env::consts::ARCH != "x86_64" {
        return Err(Error::Processor(env::consts::ARCH));
    }
    let mut missing: Vec<(&str, &str)> = TOOLS.into_iter().filter(|(tool, _)| find(tool).is_none()).collect();
    let probe = temporary.join("headers.c");
    if find("gcc").is_some() && std::fs::write(&probe, PROBE).is_ok() {
        let mut command = runner.program("gcc");
        command.arg("-fsyntax-only").arg(&probe);
        match runner.run("checking for headers", command) {
            Err(Error::Failed { .. }) => missing.push(HEADERS),
            other => other?,
        }
    } else {
        missing.push(HEADERS);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    Err(Error::MissingTools { tools: missing.iter().map(|(tool, _)| *tool).collect(), packages })
}

/// The path of a program, searched for as by execvp(3).
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| {
        file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    })
}
