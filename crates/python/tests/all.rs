//! Runs the tests of the Python package, `python/tests`, with the module and the program that cargo has built
//! beside this test.

use std::{path::Path, process::Command};

use testing::{Missing, skip};

#[test]
fn the_package_passes_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let this = std::env::current_exe().unwrap();
    let folder = this.parent().unwrap();
    let target = folder.parent().and_then(Path::parent).unwrap();
    // This file is written when all packages of the environment are installed.
    let environment = target.join("python/venv/lists");
    if !environment.exists() {
        let why = format!("{} does not exist; scripts/setup.sh tests makes it", environment.display());
        return skip(Missing::Tool, why);
    }
    let module = folder.join("liblongfat_python.so");
    assert!(module.exists(), "cargo has not built {}", module.display());
    let mut tests = Command::new(root.join("scripts/test-python.sh"));
    tests.arg("built").env("LONGFAT_MODULE", module);
    // `cargo test -p longfat-python` does not build the program. The tests that need it are skipped then.
    let program = folder.parent().unwrap().join("longfat");
    tests.env("LONGFAT", if program.exists() { program.as_path() } else { Path::new("") });
    let output = tests.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "{text}");
}
