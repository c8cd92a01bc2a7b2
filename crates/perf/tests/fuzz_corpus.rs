//! Every file of the fuzzers' corpus, replayed: what was found once is never found again.

use perf::{iperf3::wire, iperf3_json, stamp};
use testing::replay_corpus;

#[test]
fn iperf3_json() {
    replay_corpus("iperf3_json", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            iperf3_json::fuzz(text);
        }
    });
}

#[test]
fn iperf3_wire() {
    replay_corpus("iperf3_wire", wire::fuzz);
}

#[test]
fn stamp_packets() {
    replay_corpus("stamp", stamp::wire::fuzz);
}

#[test]
fn datagrams() {
    replay_corpus("datagrams", perf::udp::fuzz);
}
