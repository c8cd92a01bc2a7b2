//! Every file of the fuzzers' corpus, replayed: what was found once is never found again.

use std::{fs, path::Path};

fn replay(target: &str, function: impl Fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|f| f.path()).collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    for file in files {
        // The name of the last one is what to look at where it panics.
        println!("{}", file.display());
        function(&fs::read(&file).unwrap());
    }
}

#[test]
fn frames() {
    replay("frames", lab::fuzzing::frames);
}

#[test]
fn frames_at_routers() {
    replay("frames", lab::fuzzing::frames_at_routers);
}
