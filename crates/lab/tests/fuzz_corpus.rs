//! Replays every file of the fuzzers' corpus, as a regression test.

use testing::replay_corpus;

#[test]
fn the_corpus_of_frames_passes() {
    replay_corpus("frames", lab::fuzzing::frames);
}

#[test]
fn the_corpus_of_frames_at_routers_passes() {
    replay_corpus("frames_at_routers", lab::fuzzing::frames_at_routers);
}
