//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use iperf2::{document, wire};
use testing::replay_corpus;

#[test]
fn iperf2_wire() {
    replay_corpus("iperf2_wire", wire::fuzz);
}

#[test]
fn iperf2_document() {
    replay_corpus("iperf2_document", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            document::fuzz(text);
        }
    });
}
