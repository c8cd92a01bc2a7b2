//! Linker options of the WebAssembly module, which side modules extend: they use its memory, its table and
//! its stack.

#![allow(missing_docs)]

fn main() {
    println!("cargo::rerun-if-env-changed=LONGFAT_CC_MODULES");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        for option in ["--export-table", "--growable-table", "--export=__stack_pointer"] {
            println!("cargo::rustc-link-arg-cdylib={option}");
        }
    }
}
