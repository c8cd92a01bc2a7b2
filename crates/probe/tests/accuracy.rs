//! Each method on random paths in virtual time, against what the network knows: sixty paths, or as many as
//! LONGFAT_PATHS says (docs/probe.md has a thousand), or those of a range (`LONGFAT_PATHS=17-17`).

use std::sync::Arc;

use crate::virtual_path::{self, Cross, Sizes, VirtualPath};
use net::{PipeSpec, QueueLimit, Rate, RateTrace};
use probe::{Available, AvailableAnswer, Buffer, BufferAnswer, Capacity, Chirps, Limits, Method};
use units::{BitRate, Bytes, Time};
use virtual_path::random::{RandomPath, Score};

/// The least share of the answers without a doubt whose interval holds the truth.
const COVERAGE: f64 = 0.9;

/// Paths of a test.
fn paths() -> std::ops::Range<u64> {
    let asked = std::env::var("LONGFAT_PATHS").unwrap_or_default();
    match asked.split_once('-').and_then(|(a, b)| Some((a.parse().ok()?, b.parse::<u64>().ok()?))) {
        Some((from, to)) => from..to + 1,
        None => 0..asked.parse().unwrap_or(60),
    }
}

#[test]
fn capacity_is_within_three_per_cent() {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let mut network = path.open();
        let limits = path.limits(&mut network);
        let answer = network.run(&mut Capacity::new(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = answer.capacity_bps;
        let error = score.add(&path, value, path.capacity_bps(), answer.validity.valid);
        if error.abs() > 0.03 {
            println!("{seed}: {:+.1} % {path:?}\n   {answer:?}", error * 100.0);
        }
    }
    score.tell("capacity", 0.1);
    assert!(score.median() < 0.03);
    assert_eq!(score.wrong_without_warning(0.1), 0);
    assert!(score.coverage() >= COVERAGE, "{}", score.coverage());
}

/// A link that has 100 Mb/s at times and 40 at others has no one capacity: an answer is in doubt, or holds both.
#[test]
fn a_rate_that_changes_is_not_taken_for_one_rate() {
    for (seed, period) in [40, 200, 700, 2_000, 5_000].into_iter().enumerate() {
        let steps =
            vec![(Time(0), BitRate(100_000_000)), (Time::from_millis(period / 2), BitRate(40_000_000))];
        let link = PipeSpec {
            rate: Rate::Trace(Arc::new(RateTrace::Steps { steps, end: Time::from_millis(period) })),
            queue: QueueLimit::Bytes(Bytes(500_000)),
            delay: Time::from_millis(10),
            overhead: 14,
            ..PipeSpec::default()
        };
        let quiet = Cross { load: 0.0, sizes: Sizes::One, burst: 1.0 };
        let rate = BitRate(1_000_000_000);
        let mut network = VirtualPath::new(link, rate, quiet, rate, seed as u64);
        let limits = Limits { most_bytes: rate.0 / 8, mtu: 1500, resolution_ns: 100.0 };
        let answer = network.run(&mut Capacity::new(limits));
        assert!(answer.bucket_bytes.is_none_or(|bytes| bytes >= 3000.0), "{period} ms: {answer:?}");
        let holds = |bps: f64| answer.capacity_bps.is_some_and(|found| found.low <= bps && bps <= found.high);
        assert!(!answer.validity.valid || (holds(99.1e6) && holds(39.6e6)), "{period} ms: {answer:?}");
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
        let answer = network.run(&mut Buffer::new(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = answer.buffer_bytes;
        let (truth, kind) = path.buffer();
        let named = answer.kind == kind;
        let error = score.add(&path, value, truth, answer.validity.valid && named);
        all += 1;
        kinds += usize::from(named);
        if error.abs() > 0.05 || !named {
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                BufferAnswer { plot: Vec::new(), ..answer }
            );
        }
    }
    score.tell("buffer", 0.15);
    println!("{kinds} of {all} queues named rightly");
    assert!(score.median() < 0.05 && kinds * 10 >= all * 8);
    assert_eq!(score.wrong_without_warning(0.15), 0);
    assert!(score.coverage() >= COVERAGE, "{}", score.coverage());
}

/// Scores a method of available bandwidth; prints what it missed by more than a tenth.
fn available<M: Method<Answer = AvailableAnswer>>(method: impl Fn(Limits) -> M) -> Score {
    let mut score = Score::default();
    for seed in paths() {
        let path = RandomPath::new(seed);
        let mut network = path.open();
        let limits = path.limits(&mut network);
        let answer = network.run(&mut method(limits));
        assert_eq!(network.above_mtu, 0, "{seed}: no probe is above the path MTU");
        let value = answer.available_bps;
        let error = score.add(&path, value, path.available_bps(), answer.validity.valid);
        if error.abs() > 0.1 {
            println!(
                "{seed}: {:+.1} % {path:?}\n   {:?}",
                error * 100.0,
                AvailableAnswer { capacity: None, ..answer }
            );
        }
    }
    score
}

#[test]
fn available_bandwidth_is_within_ten_per_cent() {
    let score = available(Available::new);
    score.tell("available", 0.2);
    assert!(score.median() < 0.1);
    assert_eq!(score.wrong_without_warning(0.2), 0);
    assert!(score.coverage() >= COVERAGE, "{}", score.coverage());
}

#[test]
fn chirps_are_cheap_and_less_exact() {
    let score = available(Chirps::new);
    score.tell("chirps", 0.3);
    assert!(score.median() < 0.1);
    assert_eq!(score.wrong_without_warning(0.3), 0);
    assert!(score.coverage() >= COVERAGE, "{}", score.coverage());
}
