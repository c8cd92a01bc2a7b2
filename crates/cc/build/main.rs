//! Compiles every algorithms/*.bpf.c twice, natively and to eBPF, and writes the table of built-in
//! algorithms.
//!
//! The results in OUT_DIR are NAME.so, NAME.bpf.o and algorithms.rs.

#![allow(missing_docs)]

mod bpf;
#[path = "../src/kernel/clang.rs"]
mod clang;
#[path = "../src/compiler.rs"]
mod compiler;
mod native;

use std::path::{Path, PathBuf};

fn main() {
    let crate_root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for folder in ["algorithms", "shim", "build"] {
        println!("cargo::rerun-if-changed={}", crate_root.join(folder).display());
    }
    println!("cargo::rerun-if-env-changed=LONGFAT_CLANG");
    let clang = bpf::find();
    let mut table = String::from("&[\n");
    for source in sources(&crate_root.join("algorithms")) {
        let name = source.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".bpf.c"));
        let name = name.expect("sources() returns only *.bpf.c").to_owned();
        let (object, shared) = (out.join(format!("{name}.bpf.o")), out.join(format!("{name}.so")));
        native::compile(&crate_root, &source, &shared).unwrap_or_else(|why| fail(&source, "natively", &why));
        bpf::compile(&clang, &crate_root, &source, &object)
            .unwrap_or_else(|why| fail(&source, "to eBPF", &why));
        table.push_str(&format!(
            "    Algorithm {{ name: {name:?}, text: include_str!({source:?}), \
             native: include_bytes!({shared:?}), bpf: Aligned(include_bytes!({object:?})) }},\n"
        ));
    }
    table.push(']');
    std::fs::write(out.join("algorithms.rs"), table).expect("OUT_DIR can be written");
}

/// All *.bpf.c of a folder, by name.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.to_str().is_some_and(|p| p.ends_with(".bpf.c")))
        .collect();
    found.sort();
    found
}

fn fail(source: &Path, how: &str, why: &str) -> ! {
    panic!("cannot compile {} {how}: {why}", source.display())
}
