//! Invariants of all pipes: packets are conserved, limits hold, flows stay in order, and a train behaves as
//! its segments.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    Codel, Discipline, Distribution, DualPi2, Fq, FqCodel, Jitter, LossModel, LossUnit, RateTrace, Red, Xcp,
};

/// (gap before in ns, segments, bytes, last bytes, flow, ecn)
type Send = (u64, u32, u32, u32, u32, u8);

fn sends() -> impl Strategy<Value = Vec<Send>> {
    let send = (0u64..200_000, 1u32..45, 60u32..9000, 60u32..9000, 0u32..5, 0u8..3);
    proptest::collection::vec(send, 1..60)
}

pub(super) fn discipline() -> impl Strategy<Value = Discipline> {
    let fast = Codel { target: Time::from_nanos(50_000), interval: Time::from_nanos(500_000), ecn: true };
    let (min, max) = (Bytes(20_000), Bytes(80_000));
    prop_oneof![
        Just(Discipline::DropTail { mark_above: None }),
        Just(Discipline::DropTail { mark_above: Some(QueueLimit::Packets(8)) }),
        Just(Discipline::DropHead),
        any::<bool>().prop_map(move |ecn| {
            Discipline::Red(Red { min, max, max_probability: 0.1, weight: 0.05, gentle: true, ecn })
        }),
        any::<bool>().prop_map(move |ecn| Discipline::Codel(Codel { ecn, ..fast })),
        any::<bool>().prop_map(move |ecn| {
            Discipline::FqCodel(FqCodel { codel: Codel { ecn, ..fast }, ..FqCodel::default() })
        }),
        Just(Discipline::Fq(Fq::default())),
        Just(Discipline::DualPi2(DualPi2 {
            target: Time::from_nanos(100_000),
            update: Time::from_nanos(100_000),
            ..DualPi2::default()
        })),
        Just(Discipline::Xcp(Xcp::default())),
    ]
}

fn specs() -> impl Strategy<Value = PipeSpec> {
    let steps = vec![
        (Time::ZERO, BitRate(50_000_000)),
        (Time::from_nanos(700_000), BitRate(0)),
        (Time::from_nanos(900_000), BitRate(1 << 31)),
    ];
    let rate = prop_oneof![
        1 => Just(Rate::Unlimited),
        6 => (1_000_000u64..40_000_000_000).prop_map(|rate| Rate::Constant(BitRate(rate))),
        1 => Just(Rate::Trace(Arc::new(RateTrace::Steps { steps, end: Time::from_nanos(1_500_000) }))),
        1 => Just(Rate::Trace(Arc::new(RateTrace::Opportunities(vec![0, 1, 1, 3])))),
    ];
    let queue = prop_oneof![
        Just(QueueLimit::Unlimited),
        (9100u64..400_000).prop_map(|b| QueueLimit::Bytes(Bytes(b))),
        (1u64..100).prop_map(QueueLimit::Packets)
    ];
    let wire = (prop_oneof![Just(0.0), 0.0..0.3f64], prop_oneof![Just(0.0), 0.0..0.2f64], any::<bool>());
    let burst = proptest::option::weighted(0.2, 1u64..200_000);
    let jitter = proptest::option::of((1u64..1_000_000, any::<bool>()));
    (rate, 0u64..5_000_000, queue, wire, burst, jitter, discipline()).prop_map(
        |(rate, delay, queue, (loss, harm, whole), burst, jitter, discipline)| PipeSpec {
            rate,
            delay: Time::from_nanos(delay),
            queue,
            discipline,
            loss: LossModel::Independent(loss),
            loss_unit: if whole { LossUnit::SuperPacket } else { LossUnit::Segment },
            burst: burst.map(Bytes),
            duplicate: harm,
            corrupt: harm,
            jitter: jitter.map(|(spread, reorders)| Jitter {
                spread: Time::from_nanos(spread),
                distribution: Distribution::Normal,
                reorders,
            }),
            ..PipeSpec::default()
        },
    )
}

fn packet(number: u64, send: &Send) -> TestSegments {
    let (_, segments, bytes, last, flow, ecn) = *send;
    let last_bytes = last.min(bytes);
    let bytes = if segments == 1 { last_bytes } else { bytes };
    let ecn = [Ecn::NotCapable, Ecn::Ect0, Ecn::Ect1][usize::from(ecn)];
    // All packets of a flow have the same ECN codepoint.
    TestSegments { last_bytes, ..TestSegments::train(number, segments, bytes) }
        .of(flow * 3 + u32::from(ecn as u8))
        .with(ecn)
}

fn play(pipe: &mut TestPipe, sends: &[Send]) -> u64 {
    let (mut now, mut number) = (0, 0);
    for send in sends {
        now += send.0;
        pipe.offer(Instant::from_nanos(now), packet(number, send));
        number += u64::from(send.1);
    }
    pipe.run(END);
    number
}

proptest! {
    #[test]
    fn segments_are_conserved(spec in specs(), sends in sends(), seed in any::<u64>()) {
        let mut pipe = TestPipe::event_driven(&spec, seed);
        let sent = play(&mut pipe, &sends);
        let counters = pipe.counters();
        let mut all = pipe.numbers();
        all.extend(pipe.dropped.iter().flat_map(|d| d.2.numbers()));
        prop_assert_eq!(all.len() as u64, sent + counters.duplicated);
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all, (0..sent).collect::<Vec<_>>());
        prop_assert_eq!((counters.queue_packets, counters.queue_bytes), (0, 0));
        let count = |cause| pipe.dropped(cause).len() as u64;
        prop_assert_eq!(counters.dropped_queue, count(DropCause::Queue));
        prop_assert_eq!(counters.dropped_aqm, count(DropCause::Aqm));
        prop_assert_eq!(counters.dropped_loss, count(DropCause::Loss));
        prop_assert_eq!(counters.sent_packets, sent - counters.dropped_queue - counters.dropped_aqm);
        let flipped: u64 = pipe.delivered.iter().map(|d| u64::from(d.1.flipped)).sum();
        prop_assert!(flipped >= counters.corrupted && flipped <= counters.corrupted * 2);
    }

    #[test]
    fn the_limit_is_never_exceeded(spec in specs(), sends in sends()) {
        prop_assume!(spec.rate != Rate::Unlimited);
        let mut pipe = TestPipe::event_driven(&spec, 1);
        play(&mut pipe, &sends);
        match spec.queue {
            QueueLimit::Bytes(limit) => prop_assert!(pipe.counters().max_queue_bytes <= limit.0),
            QueueLimit::Packets(limit) => prop_assert!(pipe.counters().max_queue_bytes <= limit * 9014),
            QueueLimit::Unlimited => prop_assert_eq!(pipe.counters().dropped_queue, 0),
        }
    }

    #[test]
    fn each_flow_stays_in_order(mut spec in specs(), sends in sends()) {
        spec.jitter = spec.jitter.map(|jitter| Jitter { reorders: false, ..jitter });
        let mut pipe = TestPipe::event_driven(&spec, 1);
        play(&mut pipe, &sends);
        prop_assert!(pipe.delivered.windows(2).all(|w| w[0].0.last <= w[1].0.last));
        for flow in pipe.delivered.iter().map(|d| d.1.flow).collect::<std::collections::BTreeSet<_>>() {
            // A duplicate arrives before or together with its original.
            let packets: Vec<_> = pipe.delivered.iter().filter(|d| d.1.flow == flow).collect();
            prop_assert!(packets.windows(2).all(|w| w[0].1.first <= w[1].1.first));
        }
    }

    /// The FIFO pipe computes departures in advance; the event-driven pipe must have the same ones.
    #[test]
    fn both_kinds_of_pipes_give_the_same_results(spec in specs(), sends in sends(), seed in any::<u64>()) {
        let spec = PipeSpec {
            rate: Rate::Constant(spec.rate.mean().unwrap_or(BitRate(1_000_000_000))),
            discipline: Discipline::default(),
            loss_unit: LossUnit::Segment,
            jitter: None,
            duplicate: 0.0,
            corrupt: 0.0,
            ..spec
        };
        let (mut simple, mut event_driven) = (TestPipe::new(&spec, seed), TestPipe::event_driven(&spec, seed));
        play(&mut simple, &sends);
        play(&mut event_driven, &sends);
        prop_assert_eq!(simple.numbers(), event_driven.numbers());
        // They may split trains differently. Where both have the end of a packet, it arrives at the same
        // time.
        let end = |d: &(TrainTimes, TestSegments)| (d.1.numbers().end, d.0.last);
        let ends: std::collections::BTreeMap<u64, Instant> = event_driven.delivered.iter().map(end).collect();
        let mut both = 0;
        for (number, at) in simple.delivered.iter().map(end) {
            if let Some(other) = ends.get(&number) {
                prop_assert_eq!(at, *other);
                both += 1;
            }
        }
        prop_assert!(both > 0 || simple.delivered.is_empty());
        prop_assert_eq!(simple.dropped(DropCause::Queue), event_driven.dropped(DropCause::Queue));
        prop_assert_eq!(simple.dropped(DropCause::Loss), event_driven.dropped(DropCause::Loss));
        let (a, b) = (simple.counters(), event_driven.counters());
        prop_assert_eq!(a.sent_bytes, b.sent_bytes);
        // Packets that a bucket sends at once are in the FIFO pipe's queue for no time at all.
        prop_assert!(spec.burst.is_some() || a.max_queue_bytes == b.max_queue_bytes);
    }

    /// A train of n segments behaves as n packets that arrive at the same instant.
    #[test]
    fn a_train_behaves_as_its_segments(spec in specs(), sends in sends(), seed in any::<u64>()) {
        // A loss decision for a whole train and jitter for each packet differ by design.
        let spec = PipeSpec { loss_unit: LossUnit::Segment, jitter: None, ..spec };
        // These packets have no XCP header, so that an XCP queue behaves as a FIFO.
        let (mut trains, mut segments) = (TestPipe::event_driven(&spec, seed), TestPipe::event_driven(&spec, seed));
        play(&mut trains, &sends);
        let mut single = Vec::new();
        for send in &sends {
            for i in 0..send.1 {
                let bytes = if i + 1 == send.1 { send.3.min(send.2) } else { send.2 };
                single.push((if i == 0 { send.0 } else { 0 }, 1, bytes, bytes, send.4, send.5));
            }
        }
        play(&mut segments, &single);
        prop_assert_eq!(trains.dropped(DropCause::Queue), segments.dropped(DropCause::Queue));
        let sorted = |pipe: &TestPipe, cause| {
            let mut numbers = pipe.dropped(cause);
            numbers.sort_unstable();
            numbers
        };
        prop_assert_eq!(sorted(&trains, DropCause::Aqm), sorted(&segments, DropCause::Aqm));
        let marked = |pipe: &TestPipe| pipe.pipe_marked();
        prop_assert_eq!(marked(&trains), marked(&segments));
        // A train is delivered when its last segment is.
        if spec.duplicate == 0.0 && spec.loss == LossModel::Independent(0.0) {
            for (train, packet) in &trains.delivered {
                let last = packet.first + u64::from(packet.segments) - 1;
                let single = segments.delivered.iter().find(|d| d.1.first == last).unwrap();
                prop_assert_eq!(train.last, single.0.last);
            }
        }
    }
}

impl TestPipe {
    pub(super) fn pipe_marked(&self) -> Vec<u64> {
        let marked = self.delivered.iter().filter(|d| d.1.ecn == Ecn::CongestionExperienced);
        let mut numbers: Vec<u64> = marked.flat_map(|d| d.1.numbers()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
