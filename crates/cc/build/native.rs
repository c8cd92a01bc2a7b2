//! The native build: a shared object, with the compiler and options for user's files at run time.

use crate::compiler;
use std::path::Path;
use std::process::Command;

pub fn compile(crate_root: &Path, source: &Path, shared: &Path) -> Result<(), String> {
    let shim = crate_root.join("shim");
    let compiler = compiler::find().ok_or(compiler::MISSING)?;
    let output = Command::new(&compiler)
        .args(compiler::OPTIONS)
        .arg(format!("-ffile-prefix-map={}=.", crate_root.display()))
        .arg("-I")
        .arg(&shim)
        .arg(source)
        .args([shim.join("native/runtime.c"), shim.join("native/maps.c")])
        .arg("-o")
        .arg(shared)
        .output()
        .map_err(|e| format!("cannot start {}: {e}", compiler.display()))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
