//! Compiles bpf/watch.bpf.c to eBPF with the clang that crates/cc needs too, into OUT_DIR/watch.bpf.o.

#![allow(missing_docs)]

#[path = "../cc/src/kernel/clang.rs"]
mod clang;

use std::{path::PathBuf, process::Command};

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let shim = here.join("../cc/shim");
    for read in [here.join("bpf"), shim.join("bpf"), here.join("../cc/src/kernel/clang.rs")] {
        println!("cargo::rerun-if-changed={}", read.display());
    }
    println!("cargo::rerun-if-env-changed=LONGFAT_CLANG");
    let found = clang::find().unwrap_or_else(|found| {
        panic!("longfat's tracing needs clang {} or newer, and {found}: `make setup`", clang::OLDEST)
    });
    let output = Command::new(&found)
        .args(clang::OPTIONS)
        .args(["-Werror", "-I"])
        .arg(shim)
        .arg(format!("-ffile-prefix-map={}/=", here.display()))
        .arg(here.join("bpf/watch.bpf.c"))
        .arg("-o")
        .arg(out.join("watch.bpf.o"))
        .output()
        .unwrap_or_else(|error| panic!("starting {}: {error}", found.display()));
    assert!(output.status.success(), "bpf/watch.bpf.c: {}", String::from_utf8_lossy(&output.stderr));
}
