//! Every file of the fuzzer's corpus, replayed: what was found once is never found again.

use std::{fs, path::Path};

use perf::iperf3_json;

#[test]
fn iperf3_json() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/iperf3_json");
    let files: Vec<_> = fs::read_dir(&dir).unwrap().flatten().map(|f| f.path()).collect();
    assert!(!files.is_empty(), "{} is empty", dir.display());
    for file in files {
        // The name of the last one is what to look at where it panics.
        println!("{}", file.display());
        if let Ok(text) = String::from_utf8(fs::read(&file).unwrap()) {
            iperf3_json::fuzz(&text);
        }
    }
}
