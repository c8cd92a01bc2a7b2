//! Replays every file of the fuzzers' corpus, so that inputs that once failed stay covered.

use testing::replay_corpus;

#[test]
fn frames() {
    replay_corpus("agent_frames", agent::fuzzing::frames);
}

#[test]
fn tokens() {
    replay_corpus("agent_token", agent::fuzzing::token);
}

#[test]
fn configurations() {
    replay_corpus("agent_config", agent::fuzzing::config);
}
