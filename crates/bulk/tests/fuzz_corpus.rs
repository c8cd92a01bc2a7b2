//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use testing::replay_corpus;

#[test]
fn udt_packets() {
    replay_corpus("udt", bulk::udt::wire::fuzz);
}

#[test]
fn tsunami_dialogues() {
    replay_corpus("tsunami", bulk::tsunami::fuzz);
}

#[test]
fn stream_datagrams() {
    replay_corpus("stream", bulk::stream::fuzz);
}
