//! Expected behaviour of the disciplines.

use super::*;
use crate::{Codel, Discipline, DualPi2, Fq, FqCodel, Red, Xcp};

const RATE: u64 = 12_000_000;
const MS: u64 = 1_000_000;

fn with(discipline: Discipline) -> PipeSpec {
    PipeSpec { discipline, ..at_rate(RATE, QueueLimit::Unlimited) }
}

/// Offers `count` packets, one every `gap` ns. 1500 B on the wire take 1 ms at 12 Mb/s.
fn load(pipe: &mut TestPipe, gap: u64, count: u64, make: impl Fn(u64) -> TestSegments) {
    (0..count).for_each(|i| pipe.offer(Instant::from_nanos(i * gap), make(i)));
}

/// RFC 8289: with a standing queue the first drop is one interval after the delay exceeded the target, and
/// the n-th is interval / sqrt(n) after the one before.
#[test]
fn codel_drops_at_shrinking_intervals() {
    let mut pipe = TestPipe::new(&with(Discipline::Codel(Codel::default())), 1);
    load(&mut pipe, MS, 300, |i| TestSegments::single(i, 1486));
    (0..200).for_each(|i| pipe.offer(Instant::from_millis(300), TestSegments::single(1000 + i, 1486)));
    load_after(&mut pipe, 301 * MS, MS, 1500);
    let drops: Vec<f64> = pipe.dropped.iter().map(|d| d.0.since_origin().as_millis_f64()).collect();
    assert!(drops.len() > 20, "{}", drops.len());
    // The RFC adds interval / sqrt(count) to the nominal instant of the previous drop, so errors do not
    // accumulate.
    let mut nominal = drops[0];
    for (n, drop) in drops.iter().enumerate().skip(1).take(20) {
        nominal += 100.0 / (n as f64).sqrt();
        assert!((0.0..=1.0).contains(&(drop - nominal)), "drop {n} at {drop}, {nominal} expected");
    }
    // The standing delay is 200 ms, so the first packet that waited 5 ms exceeds the target.
    assert!((drops[0] - 405.0).abs() <= 2.0, "{}", drops[0]);
}

fn load_after(pipe: &mut TestPipe, from: u64, gap: u64, count: u64) {
    (0..count)
        .for_each(|i| pipe.offer(Instant::from_nanos(from + i * gap), TestSegments::single(2000 + i, 1486)));
}

#[test]
fn codel_ignores_a_short_queue_and_marks_instead_of_dropping() {
    let mut pipe = TestPipe::new(&with(Discipline::Codel(Codel::default())), 1);
    load(&mut pipe, MS, 2000, |i| TestSegments::single(i, 1486));
    pipe.run(END);
    assert_eq!(pipe.counters().dropped_aqm, 0);
    let mut pipe = TestPipe::new(&with(Discipline::Codel(Codel { ecn: true, ..Codel::default() })), 1);
    load(&mut pipe, MS / 2, 1000, |i| TestSegments::single(i, 1486).with(Ecn::Ect0));
    pipe.run(END);
    let counters = pipe.counters();
    assert_eq!((counters.dropped_aqm, pipe.pipe_marked().len() as u64), (0, counters.marked));
    assert!(counters.marked > 5, "{}", counters.marked);
}

/// Two flows of different packet sizes send equal bytes, within a quantum and the largest packet.
#[test]
fn fair_queueing_shares_equally_within_a_quantum() {
    for discipline in [Discipline::Fq(Fq::default()), Discipline::FqCodel(FqCodel::default())] {
        let mut pipe = TestPipe::new(&with(discipline), 1);
        for i in 0..400 {
            pipe.offer(Instant::ZERO, TestSegments::single(i, 1486).of(1));
            (0..4)
                .for_each(|k| pipe.offer(Instant::ZERO, TestSegments::single(10_000 + 4 * i + k, 286).of(2)));
        }
        // Ends before a queue has been above its target for an interval.
        pipe.run(Instant::from_millis(90));
        let bytes = |first: bool| -> u64 {
            let of = pipe.delivered.iter().filter(|d| (d.1.first < 10_000) == first);
            of.map(|d| u64::from(d.1.bytes + 14)).sum()
        };
        assert!(bytes(true).abs_diff(bytes(false)) <= 1514 + 1500, "{} and {}", bytes(true), bytes(false));
        assert_eq!(bytes(true) + bytes(false), pipe.counters_at(Instant::from_millis(90)).sent_bytes);
    }
}

#[test]
fn fq_codel_sends_a_sparse_flow_first() {
    let mut pipe = TestPipe::new(&with(Discipline::FqCodel(FqCodel::default())), 1);
    (0..50).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486).of(1)));
    pipe.offer(Instant::from_nanos(10 * MS + MS / 2), TestSegments::single(999, 86).of(2));
    pipe.run(END);
    let sparse = pipe.delivered.iter().find(|d| d.1.first == 999).unwrap().0.last;
    // The service of another packet ends at 11 ms, then the sparse flow sends its 100 B.
    assert_eq!(sparse, Instant::from_nanos(11 * MS + 66_667));
}

#[test]
fn the_longest_queue_drops_when_the_limit_is_reached() {
    for discipline in [Discipline::Fq(Fq::default()), Discipline::FqCodel(FqCodel::default())] {
        let spec = PipeSpec { discipline, ..at_rate(RATE, QueueLimit::Packets(20)) };
        let mut pipe = TestPipe::new(&spec, 1);
        (0..20).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486).of(1)));
        (0..5).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(100 + i, 1486).of(2)));
        pipe.run(END);
        assert_eq!(
            pipe.dropped(DropCause::Queue),
            [1, 2, 3, 4, 5],
            "drops at the head, after the segment in service"
        );
    }
}

/// A constant queue of q bytes: RED's drop share is 2 p_b (uniform gaps of mean 1/(2 p_b), figure 2 of the
/// paper).
#[test]
fn red_drops_the_expected_share_at_a_standing_queue() {
    let red = Red {
        min: Bytes(30_000),
        max: Bytes(90_000),
        max_probability: 0.1,
        weight: 0.002,
        gentle: false,
        ecn: false,
    };
    let mut pipe = TestPipe::new(&with(Discipline::Red(red)), 1);
    // 40 packets wait, and after each departure packets are offered until one is accepted: the queue stays at
    // 60 kB.
    (0..40).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
    let (mut number, mut offered) = (100, 0u32);
    for ms in 1..60_000u64 {
        pipe.run(Instant::from_millis(ms));
        while pipe.counters_at(Instant::from_millis(ms)).queue_packets < 40 {
            pipe.offer(Instant::from_millis(ms), TestSegments::single(number, 1486));
            (number, offered) = (number + 1, offered + 1);
        }
    }
    let share = pipe.dropped.len() as f64 / f64::from(offered);
    // Arrivals find 39 packets, 58,500 B: p_b = 0.0475, so the drop share is 2 p_b.
    assert!((share / (2.0 * 0.0475) - 1.0).abs() < 0.03, "{share}");
}

#[test]
fn step_marking_marks_segments_that_find_the_queue_above_the_step() {
    let discipline = Discipline::DropTail { mark_above: Some(QueueLimit::Packets(3)) };
    let mut pipe = TestPipe::new(&with(discipline), 1);
    pipe.offer(Instant::ZERO, TestSegments::train(0, 6, 1486).with(Ecn::Ect0));
    pipe.offer(Instant::ZERO, TestSegments::single(6, 1486));
    pipe.run(END);
    assert_eq!(pipe.pipe_marked(), [4, 5], "they found four and five packets");
    assert_eq!(pipe.numbers(), (0..7).collect::<Vec<_>>());
}

#[test]
fn drop_head_drops_the_oldest_waiting_packets() {
    let spec = PipeSpec { discipline: Discipline::DropHead, ..at_rate(RATE, QueueLimit::Packets(3)) };
    let mut pipe = TestPipe::new(&spec, 1);
    (0..5).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486)));
    pipe.run(END);
    assert_eq!(pipe.dropped(DropCause::Queue), [1, 2]);
    assert_eq!(pipe.numbers(), [0, 3, 4]);
}

#[test]
fn dual_pi2_serves_the_low_latency_queue_first_and_marks_above_its_step() {
    let dual = DualPi2 { step: Time::from_nanos(3 * MS / 2), ..DualPi2::default() };
    let mut pipe = TestPipe::new(&with(Discipline::DualPi2(dual)), 1);
    (0..20).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486).of(1)));
    (20..24).for_each(|i| pipe.offer(Instant::ZERO, TestSegments::single(i, 1486).of(2).with(Ecn::Ect1)));
    pipe.run(END);
    assert_eq!(pipe.numbers()[..6], [0, 20, 21, 22, 23, 1]);
    // Packet 20 waits 1 ms, which is not above the step.
    assert_eq!(pipe.pipe_marked(), [21, 22, 23]);
}

/// As in section 5 of the XCP paper: full utilization, a nearly empty queue and equal shares, from unequal
/// windows.
#[test]
fn xcp_converges_to_full_utilization_equal_shares_and_an_empty_queue() {
    let rate = 50_000_000;
    let delay = Time::from_millis(40);
    let spec =
        PipeSpec { delay, discipline: Discipline::Xcp(Xcp::default()), ..at_rate(rate, kilobytes(1000)) };
    let mut pipe = TestPipe::new(&spec, 1);
    let mut cwnd = [1500.0f64, 60_000.0, 150_000.0];
    let (mut flight, mut rtt) = ([0.0f64; 3], [80.0 * MS as f64; 3]);
    let mut acks: std::collections::VecDeque<(u64, usize, f64, u64)> = Default::default();
    let (mut delivered, mut last, mut number) = ([0u64; 3], 0, 0u64);
    let mut sent_at = std::collections::BTreeMap::new();
    let (end, measured) = (20_000 * MS, 15_000 * MS);
    let mut now = 0;
    while now < end {
        for flow in 0..3 {
            while flight[flow] + 1500.0 <= cwnd[flow].max(1500.0) {
                let xcp = XcpHeader {
                    cwnd_bytes: cwnd[flow],
                    rtt: Time::from_nanos(rtt[flow] as u64),
                    feedback_bytes: 1e9,
                };
                let packet =
                    TestSegments { xcp: Some(xcp), flow: flow as u32, ..TestSegments::single(number, 1486) };
                sent_at.insert(number, now);
                pipe.offer(Instant::from_nanos(now), packet);
                flight[flow] += 1500.0;
                number += 1;
            }
        }
        let next = pipe.inner.next_event().map_or(u64::MAX, Instant::as_nanos);
        now = next.min(acks.front().map_or(u64::MAX, |ack| ack.0));
        pipe.run(Instant::from_nanos(now));
        for (train, packet) in &pipe.delivered[last..] {
            let feedback = packet.xcp.map_or(0.0, |xcp| xcp.feedback_bytes);
            let flow = packet.flow as usize;
            delivered[flow] += if train.last.as_nanos() > measured { 1500 } else { 0 };
            acks.push_back((train.last.as_nanos() + 40 * MS, flow, feedback, sent_at[&packet.first]));
        }
        last = pipe.delivered.len();
        while acks.front().is_some_and(|ack| ack.0 <= now) {
            let (_, flow, feedback, sent) = acks.pop_front().unwrap();
            flight[flow] -= 1500.0;
            rtt[flow] = (now - sent) as f64;
            cwnd[flow] = (cwnd[flow] + feedback).max(1500.0);
        }
    }
    let counters = pipe.counters_at(Instant::from_nanos(now));
    let total: u64 = delivered.iter().sum();
    let share = total as f64 * 8.0 / 5.0 / rate as f64;
    assert!(share > 0.95, "{share} of the rate used: {delivered:?}");
    let squares: f64 = delivered.iter().map(|d| (*d as f64).powi(2)).sum();
    let fairness = (total as f64).powi(2) / (3.0 * squares);
    assert!(fairness > 0.98, "Jain's index {fairness}: {delivered:?}");
    assert_eq!(counters.dropped_queue, 0);
    let queue = pipe.inner.sample(Instant::from_nanos(now)).queue_bytes;
    assert!(queue < 50_000, "{queue} B in the queue, more than a tenth of the bandwidth-delay product");
}

#[test]
fn xcp_without_a_rate_does_not_change_the_feedback() {
    let spec = PipeSpec { discipline: Discipline::Xcp(Xcp::default()), ..PipeSpec::default() };
    let mut pipe = TestPipe::new(&spec, 1);
    let header = XcpHeader { cwnd_bytes: 15_000.0, rtt: Time::from_millis(1), feedback_bytes: 7.0 };
    pipe.offer(Instant::ZERO, TestSegments { xcp: Some(header), ..TestSegments::single(0, 1486) });
    pipe.run(END);
    assert_eq!(pipe.delivered[0].1.xcp, Some(header));
}

#[test]
fn packets_without_bytes_count_towards_a_limit_in_packets() {
    let discipline = Discipline::FqCodel(FqCodel::default());
    let spec = PipeSpec { discipline, overhead: 0, ..at_rate(RATE, QueueLimit::Packets(3)) };
    let mut pipe = TestPipe::new(&spec, 1);
    // Flow 0 is first in the list, and is empty when the other flows arrive.
    for n in 0..20u64 {
        pipe.offer(
            Instant::from_nanos(n),
            TestSegments::single(n, if n == 0 { 1500 } else { 0 }).of(n as u32 % 3),
        );
    }
    pipe.run(END);
    assert_eq!((pipe.delivered.len(), pipe.dropped.len()), (3, 17));
}

impl TestPipe {
    fn counters_at(&mut self, now: Instant) -> PipeCounters {
        self.inner.sample(now)
    }
}
