//! Accuracy of each method on random paths in virtual time, whose true values are known: sixty paths, or the
//! number in LONGFAT_PATHS (docs/probe.md has a thousand), or a range (`LONGFAT_PATHS=17-17`).

use std::sync::Arc;

use crate::virtual_path::{self, CrossTraffic, PacketSizes, VirtualPath};
use net::{PipeSpec, QueueLimit, Rate, RateTrace};
use probe::{
    AvailableBandwidth, AvailableBandwidthResult, BottleneckBuffer, BufferResult, Capacity, Chirps, Method,
    ProbeLimits,
};
use units::{BitRate, Bytes, Time};
use virtual_path::random::{RandomPath, Score};

/// Minimum share of valid results whose interval contains the true value.
const MIN_COVERAGE: f64 = 0.9;

/// Seeds of the paths of a test.
fn paths() -> std::ops::Range<u64> {
    let requested = std::env::var("LONGFAT_PATHS").unwrap_or_default();
    match requested.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse::<u64>().ok()?))) {
        Some((from, to)) => from..to + 1,
        None => 0..requested.parse().unwrap_or(60),
    }
}

#[test]
fn capacity_is_within_three_per_cent() {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let mut network = path.open();
        let limits = path.limits(&mut network);
        let result = network.run(&mut Capacity::new(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = result.capacity_bps;
        let error = score.add(&path, value, path.capacity_bps(), result.validity.valid);
        if error.abs() > 0.03 {
            println!("{seed}: {:+.1} % {path:?}\n   {result:?}", error * 100.0);
        }
    }
    score.print("capacity", 0.1);
    assert!(score.median() < 0.03);
    assert_eq!(score.wrong_valid_results(0.1), 0);
    assert!(score.coverage() >= MIN_COVERAGE, "{}", score.coverage());
}

/// A link that alternates between 100 and 40 Mb/s has no single capacity: the result is invalid, or its
/// interval contains both.
#[test]
fn a_changing_rate_is_not_reported_as_a_constant_one() {
    for (seed, period) in [40, 200, 700, 2_000, 5_000].into_iter().enumerate() {
        let steps =
            vec![(Time::ZERO, BitRate(100_000_000)), (Time::from_millis(period / 2), BitRate(40_000_000))];
        let link = PipeSpec {
            rate: Rate::Trace(Arc::new(RateTrace::Steps { steps, end: Time::from_millis(period) })),
            queue: QueueLimit::Bytes(Bytes(500_000)),
            delay: Time::from_millis(10),
            overhead: 14,
            ..PipeSpec::default()
        };
        let idle = CrossTraffic { load: 0.0, sizes: PacketSizes::One, burst: 1.0 };
        let rate = BitRate(1_000_000_000);
        let mut network = VirtualPath::new(link, rate, idle, rate, seed as u64);
        let limits = ProbeLimits { max_bytes_per_second: rate.0 / 8, mtu: 1500, resolution_ns: 100.0 };
        let result = network.run(&mut Capacity::new(limits));
        assert!(result.bucket_bytes.is_none_or(|bytes| bytes >= 3000.0), "{period} ms: {result:?}");
        let contains = |bps: f64| {
            result.capacity_bps.is_some_and(|interval| interval.low <= bps && bps <= interval.high)
        };
        assert!(!result.validity.valid || (contains(99.1e6) && contains(39.6e6)), "{period} ms: {result:?}");
    }
}

#[test]
fn the_buffer_is_within_five_per_cent() {
    let mut score = Score::default();
    let mut kinds = 0;
    let mut all = 0;
    for seed in paths() {
        let path = RandomPath::new(seed);
        let mut network = path.open();
        let limits = path.limits(&mut network);
        let result = network.run(&mut BottleneckBuffer::new(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = result.buffer_bytes;
        let (true_value, kind) = path.buffer();
        let is_kind_right = result.kind == kind;
        let error = score.add(&path, value, true_value, result.validity.valid && is_kind_right);
        all += 1;
        kinds += usize::from(is_kind_right);
        if error.abs() > 0.05 || !is_kind_right {
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                BufferResult { plot: Vec::new(), ..result }
            );
        }
    }
    score.print("buffer", 0.15);
    println!("{kinds} of {all} kinds of queues are right");
    assert!(score.median() < 0.05 && kinds * 10 >= all * 8);
    assert_eq!(score.wrong_valid_results(0.15), 0);
    assert!(score.coverage() >= MIN_COVERAGE, "{}", score.coverage());
}

/// Scores a method of available bandwidth; prints errors of more than a tenth.
fn score_available_bandwidth<M: Method<Output = AvailableBandwidthResult>>(
    method: impl Fn(ProbeLimits) -> M,
) -> Score {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let mut network = path.open();
        let limits = path.limits(&mut network);
        let result = network.run(&mut method(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = result.available_bps;
        let error = score.add(&path, value, path.available_bps(), result.validity.valid);
        if error.abs() > 0.1 {
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                AvailableBandwidthResult { capacity: None, ..result }
            );
        }
    }
    score
}

#[test]
fn available_bandwidth_is_within_ten_per_cent() {
    let score = score_available_bandwidth(AvailableBandwidth::new);
    score.print("available", 0.2);
    assert!(score.median() < 0.1);
    assert_eq!(score.wrong_valid_results(0.2), 0);
    assert!(score.coverage() >= MIN_COVERAGE, "{}", score.coverage());
}

#[test]
fn chirps_are_within_ten_per_cent_at_the_median() {
    let score = score_available_bandwidth(Chirps::new);
    score.print("chirps", 0.3);
    assert!(score.median() < 0.1);
    assert_eq!(score.wrong_valid_results(0.3), 0);
    assert!(score.coverage() >= MIN_COVERAGE, "{}", score.coverage());
}
