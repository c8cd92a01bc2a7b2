//! Includes the simulator for browsers in the page's server if `LONGFAT_PLAYGROUND_WASM` names its file,
//! which `scripts/playground.sh` builds.

#![allow(missing_docs)]

use std::{env, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-env-changed=LONGFAT_PLAYGROUND_WASM");
    let module = env::var("LONGFAT_PLAYGROUND_WASM").ok().filter(|path| !path.is_empty());
    let text = match module {
        Some(path) => {
            println!("cargo::rerun-if-changed={path}");
            format!("Some(include_bytes!({path:?}))")
        }
        None => "None".to_owned(),
    };
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&folder).join("playground.rs"), text).expect("OUT_DIR can be written");
}
