//! Changes of the specification during a run: their effect on packets in the queue, in service and on the
//! wire.

use proptest::prelude::*;

use super::*;
use crate::{Discipline, DropCause, LossModel};

const MS: u64 = 1_000_000;
const RATE: u64 = 12_000_000;

fn ends(pipe: &TestPipe) -> Vec<u64> {
    pipe.delivered.iter().map(|d| d.0.last.as_nanos()).collect()
}

/// 1500 B on the wire take 1 ms at 12 Mb/s; the rate doubles in the middle of the second packet.
#[test]
fn the_packet_in_service_continues_at_the_new_rate() {
    for make in [TestPipe::new, TestPipe::event_driven] {
        let spec = at_rate(RATE, QueueLimit::Unlimited);
        let mut pipe = make(&spec, 1);
        (0..4).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
        pipe.change(Instant::from_nanos(3 * MS / 2), &at_rate(2 * RATE, QueueLimit::Unlimited));
        pipe.run(END);
        // Half of the second packet takes a quarter of a millisecond, each later one half a millisecond.
        for (end, expected) in ends(&pipe).iter().zip([MS, 7 * MS / 4, 9 * MS / 4, 11 * MS / 4]) {
            assert!(end.abs_diff(expected) < 700, "{end}, {expected} expected");
        }
        assert_eq!(pipe.counters().sent_packets, 4);
    }
}

/// Half of the first packet has left after half a millisecond. A link that is down drops packets, so none
/// waits.
#[test]
fn the_time_to_drain_is_the_same_for_each_kind_of_pipe() {
    for make in [TestPipe::new, TestPipe::event_driven] {
        let spec = at_rate(RATE, QueueLimit::Unlimited);
        let mut pipe = make(&spec, 1);
        assert_eq!(pipe.inner.drain_time(Instant::ZERO), Time::ZERO);
        (0..2).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
        let drain_time = pipe.inner.drain_time(Instant::from_nanos(MS / 2)).as_nanos();
        assert!(drain_time.abs_diff(3 * MS / 2) < 10, "{drain_time}");
        pipe.change(Instant::from_nanos(MS / 2), &PipeSpec { down: true, ..spec });
        assert_eq!(pipe.inner.drain_time(Instant::from_nanos(MS / 2)), Time::ZERO);
    }
}

#[test]
fn packets_on_the_wire_keep_their_arrival_time_and_order() {
    let spec = PipeSpec { delay: Time::from_millis(100), ..PipeSpec::default() };
    let mut pipe = TestPipe::new(&spec, 1);
    pipe.offer(Instant::ZERO, TestSegments::single(0, 1486));
    pipe.change(Instant::from_millis(10), &PipeSpec { delay: Time::from_millis(20), ..PipeSpec::default() });
    pipe.offer(Instant::from_millis(20), TestSegments::single(1, 1486));
    pipe.offer(Instant::from_millis(90), TestSegments::single(2, 1486));
    pipe.run(END);
    assert_eq!(ends(&pipe), [100 * MS, 100 * MS, 110 * MS]);
}

#[test]
fn a_smaller_limit_drops_no_queued_packets() {
    let mut pipe = TestPipe::new(&at_rate(RATE, QueueLimit::Packets(10)), 1);
    (0..10).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
    pipe.change(Instant::from_nanos(1), &at_rate(RATE, QueueLimit::Packets(3)));
    pipe.offer(Instant::from_nanos(2), TestSegments::single(10, 1486));
    pipe.run(END);
    assert_eq!(pipe.numbers(), (0..10).collect::<Vec<_>>());
    assert_eq!(pipe.dropped(DropCause::Queue), [10]);
}

#[test]
fn a_link_that_is_down_drops_arrivals_and_keeps_queued_packets() {
    let spec = PipeSpec { delay: Time::from_millis(5), ..at_rate(RATE, QueueLimit::Unlimited) };
    let down = PipeSpec { down: true, ..spec.clone() };
    let mut pipe = TestPipe::new(&spec, 1);
    (0..3).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
    pipe.change(Instant::from_nanos(3 * MS / 2), &down);
    pipe.offer(Instant::from_millis(2), TestSegments::train(3, 4, 1486));
    pipe.run(Instant::from_millis(99));
    assert_eq!(pipe.numbers(), [0], "only packet 0 was on the wire");
    pipe.change(Instant::from_millis(100), &spec);
    pipe.run(END);
    assert_eq!(pipe.dropped(DropCause::Down), [3, 4, 5, 6]);
    for (end, expected) in ends(&pipe).iter().zip([6 * MS, 105 * MS + MS / 2, 106 * MS + MS / 2]) {
        assert!(end.abs_diff(expected) < 700, "{end}, {expected} expected");
    }
    assert_eq!((pipe.counters().dropped_down, pipe.counters().sent_packets), (4, 3));
}

#[test]
fn an_unlimited_rate_empties_the_queue_at_once() {
    let mut pipe = TestPipe::new(&at_rate(RATE, QueueLimit::Unlimited), 1);
    (0..10).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
    pipe.change(Instant::from_nanos(3 * MS / 2), &PipeSpec::default());
    pipe.run(END);
    assert_eq!(ends(&pipe).iter().filter(|end| **end == 3 * MS / 2).count(), 9);
}

proptest! {
    /// Under any changes every packet is delivered or dropped, and flows stay in order.
    #[test]
    fn changes_conserve_packets(
        disciplines in proptest::collection::vec(super::invariants::discipline(), 1..6),
        rates in proptest::collection::vec(proptest::option::of(1_000_000u64..10_000_000_000), 6),
        gaps in proptest::collection::vec((0u64..400_000, 1u32..20, 0u8..4), 1..80),
        burst in proptest::option::of(1000u64..50_000), loss in 0.0..0.2f64,
    ) {
        let specs: Vec<PipeSpec> = disciplines.into_iter().zip(&rates).map(|(discipline, rate)| PipeSpec {
            rate: rate.map_or(Rate::Unlimited, |rate| Rate::Constant(BitRate(rate))),
            burst: burst.map(Bytes).filter(|_| rate.is_some_and(|rate| rate % 2 == 0)),
            discipline,
            queue: QueueLimit::Packets(60),
            loss: LossModel::Independent(loss),
            delay: Time::from_nanos(rate.unwrap_or(7) % MS),
            ..PipeSpec::default()
        }).collect();
        let first = PipeSpec { discipline: Discipline::default(), ..specs[0].clone() };
        let mut pipe = TestPipe::new(&first, 1);
        let (mut now, mut number) = (0, 0);
        for (i, (gap, segments, kind)) in gaps.iter().enumerate() {
            now += gap;
            if *kind == 0 {
                let spec = &specs[i % specs.len()];
                pipe.change(Instant::from_nanos(now), &PipeSpec { down: i % 3 == 0, ..spec.clone() });
            } else {
                pipe.offer(Instant::from_nanos(now), TestSegments::train(number, *segments, 1000));
                number += u64::from(*segments);
            }
        }
        pipe.change(Instant::from_nanos(now + 1), &first);
        pipe.run(END);
        let mut all = pipe.numbers();
        prop_assert!(all.windows(2).all(|w| w[0] < w[1]), "one flow stays in order");
        all.extend(pipe.dropped.iter().flat_map(|d| d.2.numbers()));
        all.sort_unstable();
        prop_assert_eq!(all, (0..number).collect::<Vec<_>>());
        let counters = pipe.counters();
        prop_assert_eq!((counters.queue_packets, counters.queue_bytes), (0, 0));
    }
}
