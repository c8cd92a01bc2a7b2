//! Timeouts: of a SYN, of a peer that is silent, and of one that has closed its window.

use crate::pair::{Pair, Path, Reno, reference};
use tcp::{Config, Endpoint, Flags, Profile, Segment, SynOptions, TcpState};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const HOUR: u64 = 3600 * SECOND;

fn linux(major: u8, minor: u8) -> Config {
    Config { profile: Profile::Linux6 { kernel: (major, minor) }, ..reference(1500, 6_291_456) }
}

/// The data segments that leave now.
fn data(sender: &mut Endpoint, now: u64) -> Vec<Segment> {
    std::iter::from_fn(|| sender.transmit(now)).filter(|segment| segment.len > 0).collect()
}

/// The SYN-ACK in reply to a SYN.
fn syn_ack(syn: &Segment, timestamps: bool) -> Segment {
    let options = SynOptions { mss: 1460, window_scale: Some(0), sack_ok: true, timestamps };
    Segment {
        ack: syn.seq.wrapping_add(1),
        window: 65_160,
        flags: Flags::SYN.with(Flags::ACK),
        tsval: u32::from(timestamps),
        tsecr: if timestamps { syn.tsval } else { 0 },
        syn: Some(Box::new(options)),
        ..Segment::default()
    }
}

/// A connection over a round-trip time of `rtt`, ns, established at that time, and the first sequence number
/// of its data.
fn connected(config: Config, rtt: u64) -> (Endpoint, u32) {
    let mut sender = Endpoint::connect(config, Box::new(Reno), 0);
    let syn = sender.transmit(0).expect("a SYN");
    sender.on_segment(rtt, syn_ack(&syn, true));
    assert_eq!(sender.state(), TcpState::Established);
    assert!(data(&mut sender, rtt).is_empty());
    (sender, syn.seq.wrapping_add(1))
}

/// An ACK with this window, bytes.
fn ack(ack: u32, window: u16, now: u64) -> Segment {
    Segment { seq: 1, ack, window, flags: Flags::ACK, tsval: (now / MS) as u32, ..Segment::default() }
}

/// Handles timers until `end`, ns; the peer replies to data with an ACK of `window` bytes for `una`, if there
/// is one.
fn run(sender: &mut Endpoint, end: u64, reply: Option<(u32, u16)>) {
    while let Some(now) = sender.next_timer().filter(|at| *at <= end) {
        sender.on_timer(now);
        if let Some((una, window)) = reply.filter(|_| !data(sender, now).is_empty()) {
            sender.on_segment(now + 20 * MS, ack(una, window, now + 20 * MS));
        }
    }
}

/// RFC 9293 section 3.8.6.1: a receiver that acknowledges probes may keep its window closed indefinitely,
/// also if it closed the window while data was in flight.
#[test]
fn a_peer_with_a_closed_window_keeps_the_connection() {
    let (mut sender, first) = connected(linux(6, 18), 20 * MS);
    assert_eq!(sender.write(20 * MS, 14_480), 14_480);
    assert!(!data(&mut sender, 20 * MS).is_empty());
    sender.on_segment(40 * MS, ack(first, 0, 40 * MS));
    run(&mut sender, 3 * HOUR, Some((first, 0)));
    assert_eq!(sender.state(), TcpState::Established);
    let now = 3 * HOUR + SECOND;
    sender.on_segment(now, ack(first.wrapping_add(1448), 60_000, now));
    assert!(!data(&mut sender, now).is_empty(), "the window is open");
    // The peer is silent from here on.
    let (mut sender, first) = connected(linux(6, 18), 20 * MS);
    sender.write(20 * MS, 14_480);
    sender.on_segment(40 * MS, ack(first, 0, 40 * MS));
    run(&mut sender, 200 * SECOND, None);
    assert_eq!(sender.state(), TcpState::Established);
    run(&mut sender, HOUR, None);
    assert_eq!(sender.state(), TcpState::Closed);
}

/// The times at which a SYN without a reply is retransmitted, and the time at which the connection ends, s.
fn syn_times(config: Config) -> (Vec<f64>, f64) {
    let mut sender = Endpoint::connect(config, Box::new(Reno), 0);
    assert!(sender.transmit(0).is_some());
    let (mut times, mut now) = (Vec::new(), 0);
    while sender.state() == TcpState::SynSent {
        now = sender.next_timer().expect("a timer runs");
        sender.on_timer(now);
        times.extend(std::iter::from_fn(|| sender.transmit(now)).map(|_| now as f64 / 1e9));
    }
    (times, now as f64 / 1e9)
}

/// `tcp_syn_retries` 6; since 6.5 four more without back-off (`tcp_syn_linear_timeouts`). Timers of more than
/// 16 s end up to 2 s late.
#[test]
fn a_syn_is_retransmitted_as_often_as_by_the_kernel() {
    let cases = [
        (linux(6, 1), vec![1.0, 3.0, 7.0, 15.0, 31.0, 63.0], 127.0),
        (linux(6, 18), vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0, 67.0], 131.0),
        (Config::linux24(), vec![3.0, 9.0, 21.0, 45.0, 93.0], 189.0),
    ];
    for (config, expected, end) in cases {
        let (times, ended) = syn_times(config);
        let is_near = |(time, expected): (&f64, &f64)| (time / expected - 1.0).abs() < 0.05;
        assert!(times.len() == expected.len() && times.iter().zip(&expected).all(is_near), "{times:?}");
        assert!(is_near((&ended, &end)), "{ended}");
    }
}

/// RFC 6298 section 5.7.
#[test]
fn a_retransmitted_syn_without_a_round_trip_time_sets_the_timeout_to_3_s() {
    for (timestamps, rto_us) in [(false, 3_000_000), (true, 300_000)] {
        let config = Config { timestamps, ..linux(6, 18) };
        let mut sender = Endpoint::connect(config, Box::new(Reno), 0);
        assert!(sender.transmit(0).is_some());
        let now = sender.next_timer().unwrap();
        sender.on_timer(now);
        let syn = sender.transmit(now).expect("the SYN again");
        sender.on_segment(now + 20 * MS, syn_ack(&syn, timestamps));
        let info = sender.info(now + 20 * MS);
        assert!(info.rto_us <= rto_us && info.rto_us > rto_us / 2, "{timestamps}: {}", info.rto_us);
    }
}

/// `retransmits_timed_out`: the time counts, not the number of retransmissions: 924.6 s after the first one
/// with `tcp_retries2` 15.
#[test]
fn a_silent_peer_ends_the_connection_after_15_minutes_whatever_the_round_trip_time() {
    for rtt in [20 * MS, 2 * SECOND] {
        let (mut sender, _) = connected(linux(6, 18), rtt);
        sender.write(rtt, 14_480);
        run(&mut sender, 900 * SECOND, None);
        assert_eq!(sender.state(), TcpState::Established, "{rtt}");
        run(&mut sender, 1150 * SECOND, None);
        assert_eq!(sender.state(), TcpState::Closed, "{rtt}");
    }
}

/// A loss probe is sent with TCP_NAGLE_OFF (`tcp_send_loss_probe`).
#[test]
fn a_loss_probe_takes_a_small_segment_that_nagles_algorithm_holds_back() {
    let (mut sender, first) = connected(linux(6, 18), 20 * MS);
    sender.write(20 * MS, 100);
    sender.write(20 * MS, 100);
    assert_eq!(data(&mut sender, 20 * MS).len(), 1);
    let now = sender.next_timer().unwrap();
    assert!(now < SECOND, "{now}");
    sender.on_timer(now);
    let probes: Vec<_> = data(&mut sender, now).iter().map(|s| (s.seq.wrapping_sub(first), s.len)).collect();
    assert_eq!(probes, [(100, 100)]);
}

/// `tcp_notsent_lowat`: a packet is started only with fewer unsent bytes.
#[test]
fn a_low_water_mark_limits_the_unsent_data() {
    let largest = |notsent_lowat: u32| {
        let config = Config { notsent_lowat, ..reference(1500, 6_291_456) };
        let mut pair = Pair::new(config, Path::new(100_000_000, 20_000_000, 1000), None);
        let mut largest = 0;
        while pair.step(2 * SECOND) {
            largest = largest.max(pair.sender.info(pair.now).notsent_bytes);
        }
        (largest, pair.read as f64 * 8e-6 / 2.0)
    };
    let (unlimited, _) = largest(u32::MAX);
    let (limited, mbps) = largest(32_768);
    assert!(unlimited > 500_000, "{unlimited}");
    assert!(limited < 32_768 + 65_536, "{limited}");
    assert!(mbps > 60.0, "{mbps} Mb/s");
}
