//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use testing::replay_corpus;

#[test]
fn enable_packet_stamps() {
    replay_corpus("stamp", stamp::wire::fuzz);
}

#[test]
fn control_messages() {
    replay_corpus("amp_control", stamp::control::fuzz);
}
