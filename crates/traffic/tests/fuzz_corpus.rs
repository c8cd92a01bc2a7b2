//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use testing::replay_corpus;

#[test]
fn datagrams() {
    replay_corpus("datagrams", traffic::udp::fuzz);
}
