//! The eBPF half: one relocatable object with BTF, with the compiler and options that a user's files get at run time.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::clang;

pub fn find() -> PathBuf {
    clang::find().unwrap_or_else(|found| {
        panic!(
            "longfat's congestion controls need clang {} or newer, and {found}: apt install clang-16, or `make setup`; \
             LONGFAT_CLANG names another one",
            clang::OLDEST
        )
    })
}

pub fn compile(clang: &Path, here: &Path, source: &Path, object: &Path) -> Result<(), String> {
    let output = Command::new(clang)
        .args(clang::OPTIONS)
        .arg("-Werror")
        // Verifier messages name the file as the repository does, wherever it was built.
        .arg(format!("-ffile-prefix-map={}/=", here.display()))
        .arg("-I")
        .arg(here.join("shim"))
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("starting {}: {e}", clang.display()))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
