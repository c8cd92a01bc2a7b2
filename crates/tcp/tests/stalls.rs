//! Applications that do not read, write little, or pause.

use crate::pair;
use pair::{Pair, Path, reference};

const SECOND: u64 = 1_000_000_000;

fn path() -> Path {
    Path::new(100_000_000, 20_000_000, 1000)
}

/// A pair at 2 s, whose reader has not read since 1 s.
fn pause(path: Path) -> Pair {
    let mut pair = Pair::new(reference(1500, 2_000_000), path, None);
    pair.run(SECOND);
    pair.reads = false;
    pair.run(2 * SECOND);
    pair
}

#[test]
fn a_reader_that_pauses_closes_the_window() {
    let mut pair = pause(path());
    let early = pair.sender.info(pair.now);
    assert_eq!((early.snd_wnd_bytes, early.unacked_segs), (0, 0));
    pair.run(6 * SECOND);
    let info = pair.sender.info(pair.now);
    let waits = (info.rwnd_limited_us - early.rwnd_limited_us) as f64 / 1e6;
    assert!((waits - 4.0).abs() < 0.01, "limited by the peer's window for {waits} of 4 s");
    let memory = pair.receiver.info(pair.now);
    assert!(memory.rmem_alloc_bytes <= memory.rcvbuf_bytes + 1448 + 1280, "{memory:?}");
    assert!(pair.acks > 0 && info.total_rto == 0);

    let before = pair.read;
    pair.reads = true;
    pair.read_all();
    pair.run(7 * SECOND);
    let mbps = (pair.read - before) as f64 * 8e-6;
    assert!(mbps > 85.0, "{mbps} Mb/s in the second after the pause");
}

#[test]
fn a_lost_window_update_is_probed_for() {
    let mut pair = pause(path());
    pair.run(6 * SECOND);
    let lost = pair.acks;
    pair.path.loses_ack = Box::new(move |number| number == lost);
    pair.reads = true;
    pair.read_all();
    let before = pair.read;
    // The intervals of probes double; the last one was at most 1.6 s before.
    pair.run(10 * SECOND);
    assert!(pair.acks > lost + 1 && pair.read > before + 10_000_000, "{} bytes", pair.read - before);
}

#[test]
fn an_idle_sender_restarts_with_the_initial_window() {
    let mut pair = Pair::new(reference(1500, 6_000_000), path(), Some(u64::MAX));
    pair.run(2 * SECOND);
    pair.to_write = Some(0);
    pair.run(3 * SECOND);
    assert_eq!(pair.sender.info(pair.now).unacked_segs, 0);
    let grown = pair.sender.sk().snd_cwnd;
    assert!(grown > 100, "{grown}");
    pair.run(13 * SECOND);
    pair.to_write = Some(14_480);
    pair.run(13 * SECOND + 1_000_000);
    assert_eq!(pair.sender.sk().snd_cwnd, 10);
    assert_eq!(
        pair.sender.info(pair.now).unacked_segs,
        11,
        "ten, and FIN, which the congestion window does not limit"
    );
}

#[test]
fn an_unused_window_does_not_grow() {
    let mut pair = Pair::new(reference(1500, 6_000_000), path(), Some(0));
    pair.run(SECOND / 10);
    for i in 1..=200u64 {
        pair.to_write = Some(5 * 1448);
        pair.run(SECOND / 10 + i * 20_500_000);
    }
    let cwnd = pair.sender.sk().snd_cwnd;
    assert!((10..=20).contains(&cwnd), "{cwnd} packets for 5 in use");
}

/// Request and reply of 100 bytes: the reply carries the ACK, and neither end waits for a delayed ACK.
#[test]
fn requests_and_replies_take_one_round_trip_each() {
    let mut pair = Pair::new(reference(1500, 6_000_000), path(), Some(0));
    pair.run(SECOND / 10);
    let (start, segments) = (pair.now, pair.acks);
    for i in 1..=100u64 {
        assert_eq!(pair.sender.write(pair.now, 100), 100);
        while pair.read < i * 100 {
            assert!(pair.step(10 * SECOND), "request {i} does not arrive");
        }
        assert_eq!(pair.receiver.write(pair.now, 100), 100);
        pair.settle();
        assert_eq!(pair.sender.read(pair.now, 100), 100, "reply {i}");
    }
    let each = (pair.now - start) as f64 / 100.0 / 1e6;
    assert!((20.0..20.1).contains(&each), "{each} ms for request and reply");
    let sent = pair.acks - segments;
    assert!((100..=120).contains(&sent), "{sent} segments for 100 replies");
}
