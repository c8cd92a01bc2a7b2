//! The eBPF half: one relocatable object with BTF, by clang 16 or newer.

use std::path::Path;
use std::process::Command;

pub fn compile(here: &Path, source: &Path, object: &Path) -> Result<(), String> {
    let shim = here.join("shim");
    let clang = std::env::var_os("LONGFAT_CLANG").unwrap_or_else(|| "clang-16".into());
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-std=gnu11", "-O2", "-g", "-Wall", "-Werror", "-c"])
        .arg("-I")
        .arg(&shim)
        .arg(source)
        .arg("-o")
        .arg(object)
        .output()
        .map_err(|e| format!("starting {}: {e}; install the package clang-16", clang.display()))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
