//! Compiles bpf/*.bpf.c to eBPF, into OUT_DIR/*.bpf.o, with the same clang as crates/cc.

#![allow(missing_docs)]

#[path = "../cc/src/kernel/clang.rs"]
mod clang;

use std::{path::PathBuf, process::Command};

fn main() {
    let crate_dir =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let shim = crate_dir.join("../cc/shim");
    for input in [crate_dir.join("bpf"), shim.join("bpf"), crate_dir.join("../cc/src/kernel/clang.rs")] {
        println!("cargo::rerun-if-changed={}", input.display());
    }
    println!("cargo::rerun-if-env-changed=LONGFAT_CLANG");
    let clang = clang::find().unwrap_or_else(|found| {
        panic!("longfat's tracing needs clang {} or newer, and {found}: `make setup`", clang::OLDEST)
    });
    for program in ["watch", "modify"] {
        let source = crate_dir.join(format!("bpf/{program}.bpf.c"));
        let output = Command::new(&clang)
            .args(clang::OPTIONS)
            .args(["-Werror", "-I"])
            .arg(&shim)
            .arg(format!("-ffile-prefix-map={}/=", crate_dir.display()))
            .arg(&source)
            .arg("-o")
            .arg(out.join(format!("{program}.bpf.o")))
            .output()
            .unwrap_or_else(|error| panic!("starting {}: {error}", clang.display()));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", source.display());
    }
}
