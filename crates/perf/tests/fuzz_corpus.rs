//! Every file of the fuzzers' corpus, replayed: what was found once is never found again.

use std::{fs, path::Path};

use perf::{iperf3::wire, iperf3_json, stamp};

fn replay(target: &str, fuzz: impl Fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|f| f.path()).collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    for file in files {
        // The name of the last one is what to look at where it panics.
        println!("{}", file.display());
        fuzz(&fs::read(&file).unwrap());
    }
}

#[test]
fn iperf3_json() {
    replay("iperf3_json", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            iperf3_json::fuzz(text);
        }
    });
}

#[test]
fn iperf3_wire() {
    replay("iperf3_wire", wire::fuzz);
}

#[test]
fn stamp_packets() {
    replay("stamp", stamp::wire::fuzz);
}
