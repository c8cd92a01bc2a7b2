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
fn scenario_files() {
    replay("scenario", scenario::fuzzing::scenario);
}

#[test]
fn topologies() {
    replay("import_mn", |data| {
        if let Ok(text) = std::str::from_utf8(data) {
            drop(scenario::import_mn(text, "fuzz"));
        }
    });
}

#[test]
fn traces() {
    replay("traces", |data| {
        if let Ok(text) = std::str::from_utf8(data) {
            drop((net::RateTrace::mahimahi(text), net::RateTrace::csv(text)));
        }
    });
}
