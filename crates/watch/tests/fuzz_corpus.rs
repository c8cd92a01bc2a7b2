//! Replays the fuzzers' corpus, as a regression test.

#[test]
fn watch() {
    testing::replay_corpus("watch", |bytes| {
        watch::fuzzing::sock_diag(bytes);
        if let Ok(text) = std::str::from_utf8(bytes) {
            watch::fuzzing::filter(text);
        }
    });
}
