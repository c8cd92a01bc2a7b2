//! Replays every file of the fuzzers' corpus, as a regression test.

use testing::replay_corpus;

#[test]
fn frames() {
    replay_corpus("frames", lab::fuzzing::frames);
}

#[test]
fn frames_at_routers() {
    replay_corpus("frames_at_routers", lab::fuzzing::frames_at_routers);
}
