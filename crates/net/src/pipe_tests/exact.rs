//! Exactness in virtual time, of the simple and the managed pipe alike.

use std::sync::Arc;

use super::*;
use crate::{LossModel, RateTrace};

const MS: u64 = 1_000_000;

#[test]
fn a_gigabit_is_held_over_ten_seconds_at_every_packet_size() {
    for make in [Bench::new, Bench::managed] {
        for wire in [64u32, 128, 256, 512, 1024, 1500, 4096, 9000] {
            let rate = 1_000_000_000;
            let mut bench = make(&at_rate(rate, QueueLimit::Unlimited), 1);
            let trains = 10 * rate / 8 / u64::from(wire) / 40;
            (0..trains).for_each(|i| bench.offer(Time(0), Probe::train(40 * i, 40, wire - 14)));
            bench.run(END);
            let last = bench.delivered.last().unwrap().0.last;
            let expected = takes(rate, trains * 40 * u64::from(wire));
            assert!(expected.0 > 9_900 * MS);
            assert!(last.0.abs_diff(expected.0) <= 1000, "{wire} B: {last}, {expected} expected");
        }
    }
}

#[test]
fn one_percent_of_loss_is_within_its_confidence_interval() {
    for make in [Bench::new, Bench::managed] {
        let mut bench =
            make(&PipeSpec { loss: LossModel::Independent(0.01), delay: Time(1), ..PipeSpec::default() }, 5);
        (0..10_000).for_each(|i| bench.offer(Time(i), Probe::train(40 * i, 40, 1486)));
        bench.run(END);
        let lost = bench.dropped(DropCause::Loss).len() as f64;
        assert!((lost - 4000.0).abs() < 2.576 * (400_000.0f64 * 0.01 * 0.99).sqrt(), "{lost}");
    }
}

#[test]
fn a_queue_drops_exactly_the_packet_that_does_not_fit() {
    for make in [Bench::new, Bench::managed] {
        let mut bench = make(&at_rate(8_000_000, QueueLimit::Bytes(Bytes(3000))), 1);
        // 1000 B each on the wire, then one of 14 and more.
        (0..4).for_each(|i| bench.offer(Time(0), Probe::single(i, 986)));
        bench.offer(Time(MS), Probe::single(4, 987));
        bench.offer(Time(MS), Probe::single(5, 986));
        bench.run(END);
        assert_eq!(bench.dropped(DropCause::Queue), [3, 4]);
        assert_eq!(bench.counters().max_queue_bytes, 3000);
    }
}

/// Two packets of 1000 B at once at 8 Mb/s: the first is there for 1 ms, the second for 2 ms.
#[test]
fn the_mean_queue_is_the_integral_of_what_waits() {
    let mut bench = Bench::managed(&at_rate(8_000_000, QueueLimit::Unlimited), 1);
    (0..2).for_each(|i| bench.offer(Time(0), Probe::single(i, 986)));
    bench.run(END);
    assert!((bench.counters().queue_byte_seconds - 3.0).abs() < 1e-6);
}

fn traced(trace: RateTrace) -> PipeSpec {
    PipeSpec { rate: Rate::Trace(Arc::new(trace)), ..PipeSpec::default() }
}

#[test]
fn steps_are_followed_and_repeat() {
    let steps =
        vec![(Time(0), BitRate(8_000_000)), (Time(2 * MS), BitRate(0)), (Time(4 * MS), BitRate(16_000_000))];
    let mut bench = Bench::new(&traced(RateTrace::Steps { steps, end: Time(5 * MS) }), 1);
    (0..6).for_each(|i| bench.offer(Time(0), Probe::single(i, 986)));
    bench.offer(Time(0), Probe::single(6, 1486));
    bench.run(END);
    let ends: Vec<u64> = bench.delivered.iter().map(|d| d.0.last.0).collect();
    // Two in the first 2 ms, two in the fifth ms, two from 5 ms on; the last takes 1000 B of the ninth ms... 1500 at 16 Mb/s.
    assert_eq!(ends, [MS, 2 * MS, 9 * MS / 2, 5 * MS, 6 * MS, 7 * MS, 9 * MS + 3 * MS / 4]);
}

#[test]
fn a_packet_may_take_many_periods() {
    let steps = vec![(Time(0), BitRate(8_000)), (Time(1000), BitRate(0))];
    let mut bench = Bench::new(&traced(RateTrace::Steps { steps, end: Time(1_000_000) }), 1);
    // 8 kb/s for a microsecond each millisecond are 1 B a second.
    bench.offer(Time(0), Probe::single(0, 86));
    bench.run(END);
    let end = bench.delivered[0].0.last;
    assert!(end.0.abs_diff(100_000 * MS) <= 2 * MS, "{end}");
}

#[test]
fn opportunities_carry_1504_bytes_each() {
    let mut bench = Bench::new(&traced(RateTrace::Opportunities(vec![1, 2, 5])), 1);
    let ends = |bench: &Bench| bench.delivered.iter().map(|d| d.0.last.0 / MS).collect::<Vec<_>>();
    // Two of 752 B share one, 3000 B take two, and what nobody uses is lost.
    bench.offer(Time(0), Probe::single(0, 738));
    bench.offer(Time(0), Probe::single(1, 738));
    bench.offer(Time(0), Probe::single(2, 2986));
    bench.run(Time(20 * MS));
    assert_eq!(ends(&bench), [1, 1, 5]);
    bench.offer(Time(20 * MS + 1), Probe::single(3, 1490));
    bench.offer(Time(20 * MS + 1), Probe::single(4, 1490));
    bench.run(END);
    // Periods begin at 0, 5, 10, 15, 20 ms.
    assert_eq!(ends(&bench)[3..], [21, 22]);
}

#[test]
fn a_long_trace_has_its_mean_rate() {
    for trace in [
        RateTrace::Opportunities(vec![0, 0, 3, 7, 7, 8]),
        RateTrace::Steps {
            steps: vec![(Time(0), BitRate(3_000_000)), (Time(333), BitRate(77_777_777))],
            end: Time(1001),
        },
    ] {
        let mean = trace.mean().0;
        let mut bench = Bench::new(&traced(trace), 1);
        (0..20_000).for_each(|i| bench.offer(Time(0), Probe::single(i, 286 + (i % 1000) as u32)));
        bench.run(END);
        let bytes: u64 = bench.delivered.iter().map(|d| u64::from(d.1.bytes + 14)).sum();
        let rate = bytes as f64 * 8.0 / bench.delivered.last().unwrap().0.last.as_secs_f64();
        assert!((rate / mean as f64 - 1.0).abs() < 1e-3, "{rate}, {mean} expected");
    }
}

/// 1 Mb/s is 8 us a byte; 500 B take 4 ms to earn, the whole bucket 12 ms.
#[test]
fn a_token_bucket_keeps_its_table_of_departures() {
    let spec = PipeSpec { burst: Some(Bytes(1500)), ..at_rate(1_000_000, QueueLimit::Unlimited) };
    // (arrival in ms, bytes on the wire, departure in ms)
    let table = [
        (0, 500, 0),
        (0, 500, 0),
        (0, 500, 0),
        (0, 500, 4),
        (0, 500, 8),
        (0, 1500, 20),
        // 10 ms later 1250 B have been earned.
        (30, 1000, 30),
        (30, 500, 32),
        // Full again, and not more than full.
        (100, 1500, 100),
        (100, 1500, 112),
        (113, 250, 114),
    ];
    for make in [Bench::new, Bench::managed] {
        let mut bench = make(&spec, 1);
        for (number, (arrives, bytes, _)) in table.into_iter().enumerate() {
            bench.offer(Time(arrives * MS), Probe::single(number as u64, bytes - 14));
        }
        bench.run(END);
        let ends: Vec<u64> = bench.delivered.iter().map(|d| d.0.last.0 / MS).collect();
        assert_eq!(ends, table.map(|row| row.2));
        // Rounding up is all that is inexact.
        assert!(bench.delivered.iter().all(|d| d.0.last.0 % MS <= 4));
    }
}

#[test]
fn a_trace_that_hardly_ever_lets_anything_through_does_not_overflow() {
    // One bit a second for a nanosecond in three years.
    let steps = vec![(Time(0), BitRate(1)), (Time(1), BitRate(0))];
    let trace = RateTrace::Steps { steps, end: Time(100_000_000_000_000_000) };
    let mut bench = Bench::new(&traced(trace), 1);
    (0..3).for_each(|i| bench.offer(Time(i), Probe::single(i, 65_535)));
    bench.run(END);
    assert!(bench.delivered.is_empty());
    assert_eq!(bench.pipe.sample(END).queue_packets, 3);
}
