//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use iperf3::{document, wire};
use testing::replay_corpus;

#[test]
fn iperf3_json() {
    replay_corpus("iperf3_json", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            document::fuzz(text);
        }
    });
}

#[test]
fn iperf3_wire() {
    replay_corpus("iperf3_wire", wire::fuzz);
}
