//! The machine's C compiler and its options for a native congestion control; used by the build script as
//! well.

use std::path::PathBuf;

/// Message if no compiler is found.
pub const MISSING: &str = "no C compiler found (clang, gcc or cc); install the package clang-16 or gcc";

/// Options of every native build.
///
/// Optimised; with debugging information, from which parameters, maps and operations are read; symbols bound
/// inside the object, so that two copies in one process never share a variable; undefined functions are
/// errors.
pub const OPTIONS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-g",
    "-gdwarf-4",
    "-fPIC",
    "-shared",
    "-fno-semantic-interposition",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fno-common",
    "-Wall",
    "-Werror=implicit-function-declaration",
    "-Wno-unused-function",
    "-Wno-unused-variable",
    "-Wl,-Bsymbolic",
    "-Wl,-z,defs",
];

/// `LONGFAT_CC`, else the first of clang, clang-22 to clang-16, gcc and cc that PATH has.
pub fn find() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("LONGFAT_CC") {
        return Some(path.into());
    }
    let path = std::env::var_os("PATH")?;
    let names = [
        "clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "gcc",
        "cc",
    ];
    names
        .iter()
        .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
        .find(|p| p.is_file())
}
