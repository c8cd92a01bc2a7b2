//! The eBPF build: one relocatable object with BTF, with the compiler and options for user's files at run
//! time.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::clang;

pub fn find() -> PathBuf {
    clang::find().unwrap_or_else(|found| {
        panic!(
            "longfat's congestion controls need clang {} or newer, but {found}: apt install clang-16, or `make setup`; \
             LONGFAT_CLANG selects another one",
            clang::OLDEST
        )
    })
}

pub fn compile(clang: &Path, crate_root: &Path, source: &Path, object: &Path) -> Result<(), String> {
    let output = Command::new(clang)
        .args(clang::OPTIONS)
        .arg("-Werror")
        // Verifier messages have the file's path in the repository, wherever it was built.
        .arg(format!("-ffile-prefix-map={}/=", crate_root.display()))
        .arg("-I")
        .arg(crate_root.join("shim"))
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("cannot start {}: {e}", clang.display()))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
