//! Replays the fuzzers' corpus, as a regression test.

#![allow(clippy::disallowed_methods, reason = "this test writes the corpus")]

use testing::replay_corpus;

use crate::common::{self, MS, Tcp};

#[test]
fn the_corpus_of_captures_passes() {
    replay_corpus("capture", capture::fuzz);
}

#[test]
fn the_corpus_of_ss_logs_passes() {
    replay_corpus("ss_log", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            drop(capture::ss::parse(text, 1000));
        }
    });
}

/// Rewrites the captures of the corpus: `cargo test -p longfat-capture --test all write_the_corpus --
/// --ignored`.
#[test]
#[ignore = "it writes fuzz/corpus/capture"]
fn write_the_corpus() {
    let frame = |tcp: Tcp| common::ethernet(&tcp.ip());
    let frames = vec![
        (0, frame(Tcp::client(99, 0, 0).syn(7, false))),
        (10 * MS, frame(Tcp::server(499, 100, 0).syn(9, true))),
        (10 * MS, frame(Tcp::client(100, 500, 0))),
        (11 * MS, frame(Tcp::client(100, 500, 64).timestamps(5, 0))),
        (12 * MS, frame(Tcp::client(164, 500, 64).timestamps(6, 0))),
        (21 * MS, frame(Tcp::server(500, 100, 0).sack(164, 228))),
        (32 * MS, frame(Tcp::client(100, 500, 64).fin())),
    ];
    let order = u32::to_be_bytes;
    let words = |all: &[u32]| all.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut pcapng =
        common::block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX]), order);
    pcapng.extend(common::block(1, words(&[1 << 16, 0]), order));
    for (time_ns, bytes) in &frames {
        let us = (common::START_NS + time_ns) / 1000;
        let header = [0, (us >> 32) as u32, us as u32, bytes.len() as u32, bytes.len() as u32];
        pcapng.extend(common::block(6, [words(&header), bytes.clone()].concat(), order));
    }
    let complete = common::pcap(&frames, 65_535);
    let truncated = complete[..complete.len() - 9].to_vec();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/capture");
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in [
        ("connection", complete),
        ("headers-only", common::pcap(&frames, 60)),
        ("cut", truncated),
        ("blocks", pcapng),
    ] {
        assert!(capture::Packets::new(&bytes).is_ok(), "{name}");
        std::fs::write(format!("{folder}/{name}"), bytes).unwrap();
    }
}
