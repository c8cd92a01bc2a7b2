//! Exact departures in virtual time, for both kinds of pipes.

use std::sync::Arc;

use super::*;
use crate::{LossModel, RateTrace};

const MS: u64 = 1_000_000;

#[test]
fn a_rate_of_one_gigabit_is_exact_over_ten_seconds_at_every_packet_size() {
    for make in [TestPipe::new, TestPipe::event_driven] {
        for wire in [64u32, 128, 256, 512, 1024, 1500, 4096, 9000] {
            let rate = 1_000_000_000;
            let mut pipe = make(&at_rate(rate, QueueLimit::Unlimited), 1);
            let trains = 10 * rate / 8 / u64::from(wire) / 40;
            (0..trains).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::train(40 * i, 40, wire - 14)));
            pipe.run(END);
            let last = pipe.delivered.last().unwrap().0.last;
            let expected = Instant::ZERO + transmission_time(rate, trains * 40 * u64::from(wire));
            assert!(expected > Instant::from_millis(9_900));
            assert!(
                last.abs_diff(expected) <= Time::from_nanos(1000),
                "{wire} B: {last}, {expected} expected"
            );
        }
    }
}

#[test]
fn one_percent_of_loss_is_within_its_confidence_interval() {
    for make in [TestPipe::new, TestPipe::event_driven] {
        let mut pipe = make(
            &PipeSpec {
                loss: LossModel::Independent(0.01),
                delay: Time::from_nanos(1),
                ..PipeSpec::default()
            },
            5,
        );
        (0..10_000).for_each(|i| pipe.offer(Instant::from_nanos(i), TestSegments::train(40 * i, 40, 1486)));
        pipe.run(END);
        let lost = pipe.dropped(DropCause::Loss).len() as f64;
        assert!((lost - 4000.0).abs() < 2.576 * (400_000.0f64 * 0.01 * 0.99).sqrt(), "{lost}");
    }
}

#[test]
fn a_queue_drops_exactly_the_packet_that_does_not_fit() {
    for make in [TestPipe::new, TestPipe::event_driven] {
        let mut pipe = make(&at_rate(8_000_000, QueueLimit::Bytes(Bytes(3000))), 1);
        // Each packet has 1000 B on the wire; the fifth has one byte more than the free space.
        (0..4).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 986)));
        pipe.offer(Instant::from_millis(1), TestSegments::single(4, 987));
        pipe.offer(Instant::from_millis(1), TestSegments::single(5, 986));
        pipe.run(END);
        assert_eq!(pipe.dropped(DropCause::Queue), [3, 4]);
        assert_eq!(pipe.counters().max_queue_bytes, 3000);
    }
}

/// Two packets of 1000 B arrive at once at 8 Mb/s: the first is in the queue for 1 ms, the second for 2 ms.
#[test]
fn the_queue_integral_counts_the_time_of_each_packet() {
    let mut pipe = TestPipe::event_driven(&at_rate(8_000_000, QueueLimit::Unlimited), 1);
    (0..2).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 986)));
    pipe.run(END);
    assert!((pipe.counters().queue_byte_seconds - 3.0).abs() < 1e-6);
}

fn traced(trace: RateTrace) -> PipeSpec {
    PipeSpec { rate: Rate::Trace(Arc::new(trace)), ..PipeSpec::default() }
}

#[test]
fn a_rate_trace_applies_its_steps_and_repeats() {
    let steps = vec![
        (Time::ZERO, BitRate(8_000_000)),
        (Time::from_millis(2), BitRate(0)),
        (Time::from_millis(4), BitRate(16_000_000)),
    ];
    let mut pipe = TestPipe::new(&traced(RateTrace::Steps { steps, end: Time::from_millis(5) }), 1);
    (0..6).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 986)));
    pipe.offer(Instant::ZERO, TestSegments::single(6, 1486));
    pipe.run(END);
    let ends: Vec<u64> = pipe.delivered.iter().map(|d| d.0.last.as_nanos()).collect();
    // Two packets leave in the first 2 ms, two in the fifth ms, two from 5 ms on; the last one has 1500 B,
    // which take 0.75 ms at 16 Mb/s from 9 ms on.
    assert_eq!(ends, [MS, 2 * MS, 9 * MS / 2, 5 * MS, 6 * MS, 7 * MS, 9 * MS + 3 * MS / 4]);
}

#[test]
fn a_transmission_may_take_many_periods_of_the_trace() {
    let steps = vec![(Time::ZERO, BitRate(8_000)), (Time::from_nanos(1000), BitRate(0))];
    let mut pipe = TestPipe::new(&traced(RateTrace::Steps { steps, end: Time::from_millis(1) }), 1);
    // 8 kb/s for a microsecond in each millisecond is 1 B/s.
    pipe.offer(Instant::ZERO, TestSegments::single(0, 86));
    pipe.run(END);
    let end = pipe.delivered[0].0.last;
    assert!(end.abs_diff(Instant::from_millis(100_000)) <= Time::from_millis(2), "{end}");
}

#[test]
fn opportunities_carry_1504_bytes_each() {
    let mut pipe = TestPipe::new(&traced(RateTrace::Opportunities(vec![1, 2, 5])), 1);
    let ends = |pipe: &TestPipe| pipe.delivered.iter().map(|d| d.0.last.as_millis()).collect::<Vec<_>>();
    // Two packets of 752 B share one opportunity, 3000 B take two, and unused opportunities are lost.
    pipe.offer(Instant::ZERO, TestSegments::single(0, 738));
    pipe.offer(Instant::ZERO, TestSegments::single(1, 738));
    pipe.offer(Instant::ZERO, TestSegments::single(2, 2986));
    pipe.run(Instant::from_millis(20));
    assert_eq!(ends(&pipe), [1, 1, 5]);
    pipe.offer(Instant::from_nanos(20 * MS + 1), TestSegments::single(3, 1490));
    pipe.offer(Instant::from_nanos(20 * MS + 1), TestSegments::single(4, 1490));
    pipe.run(END);
    // Periods begin at 0, 5, 10, 15, 20 ms.
    assert_eq!(ends(&pipe)[3..], [21, 22]);
}

#[test]
fn a_long_trace_has_its_mean_rate() {
    for trace in [
        RateTrace::Opportunities(vec![0, 0, 3, 7, 7, 8]),
        RateTrace::Steps {
            steps: vec![(Time::ZERO, BitRate(3_000_000)), (Time::from_nanos(333), BitRate(77_777_777))],
            end: Time::from_nanos(1001),
        },
    ] {
        let mean = trace.mean().0;
        let mut pipe = TestPipe::new(&traced(trace), 1);
        (0..20_000).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 286 + (i % 1000) as u32)));
        pipe.run(END);
        let bytes: u64 = pipe.delivered.iter().map(|d| u64::from(d.1.bytes + 14)).sum();
        let rate = bytes as f64 * 8.0 / pipe.delivered.last().unwrap().0.last.as_secs_f64();
        assert!((rate / mean as f64 - 1.0).abs() < 1e-3, "{rate}, {mean} expected");
    }
}

/// At 1 Mb/s a byte takes 8 us: the tokens for 500 B take 4 ms, the whole bucket 12 ms.
#[test]
fn a_token_bucket_has_the_expected_departures() {
    let spec = PipeSpec { burst: Some(Bytes(1500)), ..at_rate(1_000_000, QueueLimit::Unlimited) };
    // (arrival in ms, bytes on the wire, departure in ms)
    let table = [
        (0, 500, 0),
        (0, 500, 0),
        (0, 500, 0),
        (0, 500, 4),
        (0, 500, 8),
        (0, 1500, 20),
        // After 10 ms there are tokens for 1250 B.
        (30, 1000, 30),
        (30, 500, 32),
        // The bucket is full, and does not overflow.
        (100, 1500, 100),
        (100, 1500, 112),
        (113, 250, 114),
    ];
    for make in [TestPipe::new, TestPipe::event_driven] {
        let mut pipe = make(&spec, 1);
        for (number, (arrives, bytes, _)) in table.into_iter().enumerate() {
            pipe.offer(Instant::from_millis(arrives), TestSegments::single(number as u64, bytes - 14));
        }
        pipe.run(END);
        let ends: Vec<u64> = pipe.delivered.iter().map(|d| d.0.last.as_millis()).collect();
        assert_eq!(ends, table.map(|row| row.2));
        // Departures are exact except for rounding up.
        assert!(
            pipe.delivered
                .iter()
                .all(|d| d.0.last.since_origin() % Time::from_millis(1) <= Time::from_nanos(4))
        );
    }
}

#[test]
fn a_trace_with_almost_no_capacity_does_not_overflow() {
    // 1 bit/s for a nanosecond in three years.
    let steps = vec![(Time::ZERO, BitRate(1)), (Time::from_nanos(1), BitRate(0))];
    let trace = RateTrace::Steps { steps, end: Time::from_nanos(100_000_000_000_000_000) };
    let mut pipe = TestPipe::new(&traced(trace), 1);
    (0..3).for_each(|i| pipe.offer(Instant::from_nanos(i), TestSegments::single(i, 65_535)));
    pipe.run(END);
    assert!(pipe.delivered.is_empty());
    assert_eq!(pipe.inner.sample(END).queue_packets, 3);
}
