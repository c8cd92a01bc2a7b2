//! The wire's impairments, one at a time.

use super::*;
use crate::{Discipline, Distribution, DropCause, Jitter, LossModel, LossUnit, Reorder};

const MS: u64 = 1_000_000;

fn sent(spec: &PipeSpec, n: u64, gap: u64) -> TestPipe {
    let mut pipe = TestPipe::new(spec, 9);
    (0..n).for_each(|i| pipe.offer(Instant::from_nanos(i * gap), TestSegments::single(i, 1000)));
    pipe.run(END);
    pipe
}

fn jittery(distribution: Distribution, reorders: bool) -> PipeSpec {
    let jitter = Some(Jitter { spread: Time::from_millis(1), distribution, reorders });
    PipeSpec { delay: Time::from_millis(10), jitter, ..PipeSpec::default() }
}

#[test]
fn jitter_has_the_delay_as_its_mean() {
    for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Pareto] {
        // The packets are so far apart that none has to wait for the one before.
        let pipe = sent(&jittery(distribution, false), 20_000, 200 * MS);
        let delays: Vec<f64> = pipe
            .delivered
            .iter()
            .map(|d| (d.0.last.since_origin() % Time::from_millis(200)).as_millis_f64())
            .collect();
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean - 10.0).abs() < 0.02, "{distribution:?}: {mean} ms");
        let min = delays.iter().copied().fold(f64::MAX, f64::min);
        match distribution {
            Distribution::Uniform => assert!((9.0..9.01).contains(&min)),
            Distribution::Normal => assert!(min < 7.0),
            // The minimum is (1 - 3/2) / 0.866 standard deviations: no packet is more than 0.577 ms early.
            Distribution::Pareto => assert!((9.42..9.43).contains(&min), "{min}"),
        }
    }
}

#[test]
fn jitter_keeps_the_order_unless_it_may_reorder() {
    let in_order = sent(&jittery(Distribution::Normal, false), 10_000, 1000).numbers();
    assert_eq!(in_order, (0..10_000).collect::<Vec<_>>());
    let mut any_order = sent(&jittery(Distribution::Normal, true), 10_000, 1000).numbers();
    assert!(!any_order.is_sorted());
    any_order.sort_unstable();
    assert_eq!(any_order, in_order);
}

#[test]
fn delays_are_never_negative() {
    let spec = PipeSpec { delay: Time::from_nanos(MS / 2), ..jittery(Distribution::Normal, true) };
    let pipe = sent(&spec, 2000, 100 * MS);
    assert!(pipe.delivered.iter().any(|d| d.0.last.since_origin() % Time::from_millis(100) == Time::ZERO));
    assert_eq!(pipe.delivered.len(), 2000);
}

/// As netem's `reorder 100% gap 5`: every fifth packet skips the delay.
#[test]
fn with_a_gap_of_5_every_fifth_packet_overtakes() {
    let reorder = Some(Reorder { probability: 1.0, gap: 5 });
    let mut pipe = sent(&PipeSpec { delay: Time::from_millis(10), reorder, ..PipeSpec::default() }, 10, MS);
    let ends: Vec<(u64, u64)> = pipe.delivered.iter().map(|d| (d.1.first, d.0.last.as_millis())).collect();
    assert_eq!(ends[..3], [(4, 4), (9, 9), (0, 10)]);
    assert_eq!(pipe.counters().reordered, 2);
}

/// With gap 1 each packet overtakes with the given probability.
#[test]
fn the_share_of_reordered_packets_matches_the_probability() {
    let reorder = Some(Reorder { probability: 0.25, gap: 1 });
    let mut pipe =
        sent(&PipeSpec { delay: Time::from_millis(10), reorder, ..PipeSpec::default() }, 100_000, 1000);
    let share = pipe.counters().reordered as f64 / 1e5;
    assert!((share - 0.25).abs() < 2.576 * (0.25f64 * 0.75 / 1e5).sqrt(), "{share}");
}

#[test]
fn shares_of_duplicates_and_corrupted_segments_match_their_probabilities() {
    let spec =
        PipeSpec { duplicate: 0.02, corrupt: 0.05, delay: Time::from_millis(1), ..PipeSpec::default() };
    let mut pipe = TestPipe::new(&spec, 3);
    (0..5000).for_each(|i| pipe.offer(Instant::from_nanos(i), TestSegments::train(40 * i, 40, 1000)));
    pipe.run(END);
    let counters = pipe.counters();
    for (count, p) in [(counters.duplicated, 0.02f64), (counters.corrupted, 0.05)] {
        let n = 200_000.0;
        assert!((count as f64 - n * p).abs() < 2.576 * (n * p * (1.0 - p)).sqrt(), "{count} of {n}");
    }
    let flipped = pipe.delivered.iter().filter(|d| d.1.flipped > 0);
    assert!(flipped.clone().all(|d| d.1.segments == 1));
    assert!(flipped.count() as u64 >= counters.corrupted);
}

#[test]
fn a_super_packet_is_lost_completely_or_not_at_all() {
    let spec = PipeSpec {
        loss: LossModel::Independent(0.1),
        loss_unit: LossUnit::SuperPacket,
        ..at_rate(1_000_000_000, QueueLimit::Unlimited)
    };
    let mut pipe = TestPipe::new(&spec, 3);
    (0..20_000).for_each(|i| pipe.offer(Instant::from_millis(i), TestSegments::train(40 * i, 40, 1486)));
    pipe.run(END);
    assert!(pipe.delivered.iter().all(|d| d.1.segments == 40));
    let lost = pipe.dropped.iter().filter(|d| d.1 == DropCause::Loss).count() as f64;
    assert!((lost - 2000.0).abs() < 2.576 * (20_000.0f64 * 0.1 * 0.9).sqrt(), "{lost}");
    assert_eq!(pipe.counters().sent_packets, 800_000, "lost packets use capacity");
}

#[test]
fn numbered_losses_are_the_same_packets_in_both_kinds_of_pipe() {
    let loss = LossModel::Packets(vec![2, 3, 7]);
    for discipline in [Discipline::default(), Discipline::DropHead] {
        let spec = PipeSpec { loss: loss.clone(), discipline, ..at_rate(12_000_000, QueueLimit::Unlimited) };
        let mut pipe = TestPipe::new(&spec, 1);
        pipe.offer(Instant::ZERO, TestSegments::train(1, 10, 1486));
        pipe.run(END);
        assert_eq!(pipe.dropped(DropCause::Loss), [2, 3, 7]);
        assert_eq!(pipe.numbers(), [1, 4, 5, 6, 8, 9, 10]);
    }
}

/// A train from a link ten times slower leaves one transmission time after its last segment has arrived.
#[test]
fn a_train_from_a_slower_link_is_not_stored_and_forwarded() {
    for queue in [QueueLimit::Unlimited, QueueLimit::Packets(2)] {
        let spec = PipeSpec { discipline: Discipline::DropHead, ..at_rate(120_000_000, queue) };
        let mut pipe = TestPipe::new(&spec, 1);
        let arrival = TrainTimes { first: Instant::from_millis(1), last: Instant::from_millis(44) };
        pipe.offer_train(arrival, TestSegments::train(0, 44, 1486));
        pipe.run(END);
        assert!(pipe.dropped.is_empty(), "its segments arrive one by one");
        let last = pipe.delivered.last().unwrap().0.last;
        assert!(last.abs_diff(Instant::from_nanos(44 * MS + MS / 10)) < Time::from_nanos(100), "{last}");
    }
}
