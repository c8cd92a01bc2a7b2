//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use testing::replay_corpus;

#[test]
fn messages_and_requests() {
    replay_corpus("transfer", transfer::fuzz);
}
