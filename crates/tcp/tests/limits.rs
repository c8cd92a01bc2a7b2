//! Configured limits: the pacing rate, and the initial size of buffers.

use crate::pair;
use pair::{Pair, Path, reference};
use tcp::{Config, Flags, Profile, Segment};

const SECOND: u64 = 1_000_000_000;

/// TCP's own pacing counts payload, not headers (`tcp_update_skb_after_send`, net/ipv4/tcp_output.c).
#[test]
fn pacing_counts_payload() {
    let config = Config { max_pacing_rate: Some(1_250_000), ..reference(1500, 6_291_456) };
    let mut pair = Pair::new(config, Path::new(100_000_000, 20_000_000, 1000), None);
    pair.run(SECOND);
    let start = pair.read;
    pair.run(6 * SECOND);
    let mbps = (pair.read - start) as f64 * 8e-6 / 5.0;
    assert!((mbps / 10.0 - 1.0).abs() < 0.01, "{mbps} Mb/s of payload");
    assert_eq!(pair.dropped, 0);
}

/// The initial send buffer holds two initial windows of 10 packets (`tcp_sndbuf_expand`). On Linux 6.18
/// without tunnels, a packet takes 2048 bytes (1460 of payload, 256 of headers and 320 of `skb_shared_info`,
/// rounded up) and 256 bytes of `sk_buff`.
#[test]
fn the_initial_send_buffer_is_two_initial_windows() {
    let config = Config { profile: Profile::Linux6 { kernel: (6, 18) }, ..reference(1500, 6_291_456) };
    let mut pair = Pair::new(config, Path::new(100_000_000, 20_000_000, 1000), Some(1));
    pair.run(30_000_000);
    assert_eq!(pair.sender.sk().sk_sndbuf, 2 * 10 * (2048 + 256));
}

/// If the window is smaller than a segment, the sender fills it with segments of at most half the window
/// (`tcp_bound_to_half_wnd`, also in Linux 2.4). It needs no window probes.
#[test]
fn segments_are_at_most_half_the_peers_largest_window() {
    let rtt = 20_000_000;
    let kernels = [
        Config { profile: Profile::Linux6 { kernel: (6, 1) }, ..reference(9000, 6_291_456) },
        Config { profile: Profile::Linux6 { kernel: (6, 18) }, ..reference(9000, 6_291_456) },
        Config { mtu: 9000, ..Config::linux24() },
    ];
    for config in kernels {
        let profile = config.profile;
        let config = Config { rcvbuf: Some(8192), ..config };
        let mut pair = Pair::new(config, Path::new(1_000_000_000, rtt, 1000), None);
        pair.run(SECOND);
        let start = pair.read;
        pair.run(6 * SECOND);
        let window = pair.sender.sk().max_window;
        assert!((4000..20_000).contains(&window), "{profile:?}: {window}");
        assert!(
            pair.largest <= window / 2 && pair.largest > window / 3,
            "{profile:?}: {} of {window}",
            pair.largest
        );
        assert_eq!(pair.sender.sk().mss_cache, pair.largest, "{profile:?}");
        let windows = (pair.read - start) as f64 / f64::from(window);
        let round_trips = 5.0 * SECOND as f64 / rtt as f64;
        assert!((0.8..1.05).contains(&(windows / round_trips)), "{profile:?}: {windows} in {round_trips}");
    }
}

/// The MSS follows the peer's largest window while the receive buffer grows.
#[test]
fn the_mss_grows_with_the_peers_largest_window() {
    let mut pair = Pair::new(reference(65_520, 6_291_456), Path::new(1_000_000_000, 20_000_000, 1000), None);
    pair.run(30_000_000);
    let first = pair.sender.sk();
    assert_eq!(first.mss_cache, first.max_window / 2);
    pair.run(3 * SECOND);
    let last = pair.sender.sk();
    assert!(last.max_window > 131_072, "{}", last.max_window);
    assert_eq!(last.mss_cache, u32::from(last.advmss));
}

/// RFC 9293 section 3.10.7.4: a segment outside the window triggers an ACK and is otherwise ignored.
#[test]
fn an_acknowledgement_outside_the_window_is_ignored() {
    let mut pair = Pair::new(reference(1500, 6_291_456), Path::new(100_000_000, 20_000_000, 1000), None);
    pair.run(SECOND);
    let (una, next, expected) =
        (pair.sender.sk().snd_una, pair.sender.sk().snd_nxt, pair.sender.sk().rcv_nxt);
    assert_ne!(una, next);
    let segment =
        |seq: u32| Segment { seq, ack: next, window: 1000, flags: Flags::ACK, ..Segment::default() };
    pair.sender.on_segment(pair.now, segment(expected.wrapping_add(100_000_000)));
    assert_eq!(pair.sender.sk().snd_una, una);
    pair.sender.on_segment(pair.now, segment(expected));
    assert_eq!(pair.sender.sk().snd_una, next);
}
