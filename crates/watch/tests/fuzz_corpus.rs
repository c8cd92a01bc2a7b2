//! Every file of the fuzzers' corpus, replayed: what was found once is never found again.

use std::{fs, path::Path};

#[test]
fn watch() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/watch");
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|f| f.path()).collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    for file in files {
        // The name of the last one is what to look at where it panics.
        println!("{}", file.display());
        let bytes = fs::read(&file).unwrap();
        watch::fuzzing::sock_diag(&bytes);
        if let Ok(text) = std::str::from_utf8(&bytes) {
            watch::fuzzing::filter(text);
        }
    }
}
