//! Replays every file of the fuzzers' corpus, as a regression test.

use testing::replay_corpus;

#[test]
fn scenario_files() {
    replay_corpus("scenario", scenario::fuzzing::scenario);
}

#[test]
fn topologies() {
    replay_corpus("import_mn", |data| {
        if let Ok(text) = std::str::from_utf8(data) {
            drop(scenario::import_mn(text, "fuzz"));
        }
    });
}

#[test]
fn traces() {
    replay_corpus("traces", |data| {
        if let Ok(text) = std::str::from_utf8(data) {
            drop((net::RateTrace::parse_mahimahi(text), net::RateTrace::parse_csv(text)));
        }
    });
}
