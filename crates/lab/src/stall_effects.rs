//! How stalls can have changed the results of a run: losses, round-trip times, missing samples.
//!
//! A stall delays packets in flight. Delivered together they form a burst, which overflows queues that are
//! shorter than it, and round trips take longer. Causation cannot be proved; this module finds effects that
//! are more frequent just after stalls than by chance.

use std::ops::Range;

use net::PipeSpec;
use scenario::{FlowKind, FlowSpec, Scenario};
use schema::{Event, EventKind, FlowSample, SAMPLER};

use crate::stalls::LATE_NS;

/// A stall shorter than this share of the shortest queue's drain time cannot overflow it.
const MIN_QUEUE_SHARE: f64 = 0.25;
/// Share of losses just after stalls, beyond the share expected by chance, that is a fault.
const MAX_LOSS_SHARE: f64 = 0.05;
/// Share of losses expected just after stalls by chance: this multiple of the share of time just after
/// stalls.
const CHANCE_FACTOR: f64 = 2.0;
/// Tolerance above the longest round trip that links and queues allow: a share of it, and microseconds.
const RTT_TOLERANCE: f64 = 0.1;
const RTT_TOLERANCE_US: f64 = 5_000.0;
/// A stall explains an additional round-trip time of at most this multiple of its length.
const MAX_RTT_FACTOR: f64 = 3.0;
/// Missing samples that are a fault: this many microseconds at once, or this share of the run.
const MAX_SAMPLE_GAP_US: i64 = 100_000;
const MAX_MISSING_SHARE: f64 = 0.01;

/// A recorded run.
pub(crate) struct RecordedRun<'a> {
    pub(crate) scenario: &'a Scenario,
    /// The stalls of emulator and sampler, in order of time.
    pub(crate) stalls: &'a [Event],
    pub(crate) flows: &'a [FlowSample],
    pub(crate) events: &'a [Event],
}

/// The effects of its stalls, one sentence each.
pub(crate) fn judge(run: &RecordedRun<'_>) -> Vec<String> {
    [run.losses(), run.round_trips(), run.missing_samples()].into_iter().flatten().collect()
}

impl RecordedRun<'_> {
    /// Losses just after stalls, if there are more of them than by chance.
    fn losses(&self) -> Option<String> {
        let min_us = (LATE_NS as f64 / 1000.0).max(MIN_QUEUE_SHARE * self.shortest_queue_us()?);
        let reach_us = self.reach_us();
        let after: Vec<Range<i64>> = self
            .stalls
            .iter()
            .filter(|s| s.value as f64 >= min_us)
            .map(|s| self.after(s, reach_us))
            .collect();
        // Random loss of a link explains reductions without a stall.
        let has_random_loss =
            |span: &Range<i64>| self.count_in(span, |event| event.kind == EventKind::DropLoss) > 0;
        let after: Vec<Range<i64>> = after.into_iter().filter(|span| !has_random_loss(span)).collect();
        let is_after = |event: &&Event| after.iter().any(|span| span.contains(&event.time_us));
        let losses: Vec<&Event> = self.events.iter().filter(|event| is_loss(event)).collect();
        let blamed: Vec<&Event> = losses.iter().copied().filter(is_after).collect();
        let share = blamed.len() as f64 / losses.len().max(1) as f64;
        let covered = covered_us(&after) as f64 / self.duration_us();
        if blamed.is_empty() || share <= MAX_LOSS_SHARE + CHANCE_FACTOR * covered {
            return None;
        }
        let dropped: i64 = blamed.iter().filter(|e| e.kind == EventKind::DropQueue).map(|e| e.value).sum();
        let reduced = blamed.iter().filter(|e| e.kind != EventKind::DropQueue).count();
        Some(format!(
            "just after stalls queues dropped {dropped} packets and senders reduced their windows {reduced} times \
             ({:.0} % of the run's losses), so stalls may have caused them",
            share * 100.0
        ))
    }

    /// The longest round trip just after a stall that the stall explains, but links and queues do not.
    fn round_trips(&self) -> Option<String> {
        let worst = self.scenario.flows.iter().filter_map(|flow| self.round_trip_of(flow));
        let (rtt_us, max_us) = worst.max_by(|a, b| (a.0 - a.1).total_cmp(&(b.0 - b.1)))?;
        Some(format!(
            "just after a stall a round trip took {:.1} ms, but links and queues account for at most {:.1} ms",
            rtt_us / 1000.0,
            max_us / 1000.0
        ))
    }

    /// The longest such round-trip time of one flow, and the maximum that its path allows, us.
    fn round_trip_of(&self, flow: &FlowSpec) -> Option<(f64, f64)> {
        let max_us = max_rtt_us(self.scenario, flow)?;
        let reach_us = self.reach_us();
        let own = self.flows.iter().filter(|row| row.flow == flow.name);
        let mut found: Option<(f64, f64)> = None;
        for (index, row) in own.enumerate() {
            let Some(rtt_us) = row.srtt_us.map(|us| us as f64) else { continue };
            // The first echo waits for address resolution, which is another round trip.
            let is_resolving = index == 0 && matches!(flow.kind, FlowKind::Ping(_));
            let allowed_us = if is_resolving { 2.0 * max_us } else { max_us };
            let over_us = rtt_us - allowed_us;
            if over_us <= RTT_TOLERANCE * allowed_us + RTT_TOLERANCE_US {
                continue;
            }
            let before: i64 = self
                .stalls
                .iter()
                .filter(|stall| self.after(stall, reach_us + rtt_us as i64).contains(&row.time_us))
                .map(|stall| stall.value)
                .sum();
            if over_us <= MAX_RTT_FACTOR * before as f64 && found.is_none_or(|(rtt, _)| rtt_us > rtt) {
                found = Some((rtt_us, allowed_us));
            }
        }
        found
    }

    fn missing_samples(&self) -> Option<String> {
        let gaps = || self.stalls.iter().filter(|stall| stall.subject == SAMPLER).map(|stall| stall.value);
        let (longest, total) = (gaps().max()?, gaps().sum::<i64>());
        let share = total as f64 / self.duration_us();
        (longest >= MAX_SAMPLE_GAP_US || share > MAX_MISSING_SHARE).then(|| {
            format!(
                "samples are missing for up to {:.0} ms ({:.0} ms in total): the hosts' processors stalled",
                longest as f64 / 1000.0,
                total as f64 / 1000.0
            )
        })
    }

    /// The period in which effects of a stall appear: from the sample before it until a round trip after it.
    fn after(&self, stall: &Event, reach_us: i64) -> Range<i64> {
        let sample_us = micros(self.scenario.sample.as_nanos());
        stall.time_us - sample_us..stall.time_us + stall.value + reach_us + 2 * sample_us
    }

    /// The longest round trip of any flow, with full queues.
    fn reach_us(&self) -> i64 {
        let longest = self.scenario.flows.iter().filter_map(|flow| max_rtt_us(self.scenario, flow));
        longest.reduce(f64::max).unwrap_or(0.0) as i64
    }

    /// Minimum drain time of the links' full queues.
    fn shortest_queue_us(&self) -> Option<f64> {
        let pipes = self.scenario.links.iter().flat_map(|link| [&link.forward, &link.backward]);
        pipes.filter_map(|pipe| queue_us(pipe).filter(|us| *us > 0.0)).reduce(f64::min)
    }

    fn count_in(&self, span: &Range<i64>, is: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| span.contains(&event.time_us) && is(event)).count()
    }

    fn duration_us(&self) -> f64 {
        micros(self.scenario.duration.as_nanos()).max(1) as f64
    }
}

/// Whether a queue overflowed or a sender reduced its window.
fn is_loss(event: &Event) -> bool {
    match event.kind {
        EventKind::DropQueue | EventKind::Rto => true,
        // TCP_CA_CWR, TCP_CA_Recovery and TCP_CA_Loss (include/net/tcp.h).
        EventKind::CaState => (2..=4).contains(&event.value),
        _ => false,
    }
}

/// Total length of the union of the spans, which are in order of their starts.
fn covered_us(spans: &[Range<i64>]) -> i64 {
    let (mut covered, mut until) = (0, i64::MIN);
    for span in spans {
        covered += (span.end - span.start.max(until)).max(0);
        until = until.max(span.end);
    }
    covered
}

/// The longest round trip over a flow's path with full queues; `None` if it is unbounded or varies randomly.
fn max_rtt_us(scenario: &Scenario, flow: &FlowSpec) -> Option<f64> {
    let hops = scenario.path(&flow.from, &flow.to)?.into_iter().chain(scenario.path(&flow.to, &flow.from)?);
    let mut total = 0.0;
    for hop in hops {
        let link = &scenario.links[hop.link];
        let later = link.changes.iter().map(|change| change.pipe(hop.direction));
        let mut longest: f64 = 0.0;
        for pipe in later.chain([link.pipe(hop.direction)]) {
            if pipe.jitter.is_some() || pipe.down {
                return None;
            }
            longest = longest.max(pipe.delay.as_micros_f64() + queue_us(pipe)?);
        }
        total += longest;
    }
    Some(total)
}

/// Drain time of a pipe's full queue: 0 without a rate; `None` if the queue is unlimited or the rate varies.
fn queue_us(pipe: &PipeSpec) -> Option<f64> {
    let Some(rate) = pipe.rate.mean() else { return Some(0.0) };
    if matches!(pipe.rate, net::Rate::Trace(_)) {
        return None;
    }
    let queue_bytes = pipe.queue.bytes(u64::from(1500 + pipe.overhead))?;
    Some(rate.transmit_time(queue_bytes).as_micros_f64())
}

fn micros(ns: u64) -> i64 {
    i64::try_from(ns / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use scenario::ScenarioFile;
    use schema::EMULATOR;

    use super::*;

    /// 10 Gb/s, 20 ms, a queue of 20 ms; 20 s.
    const PATH: &str = r#"
duration = "20s"
hosts.a.address = "10.0.0.1/24"
hosts.b.address = "10.0.0.2/24"
[[links]]
ends = ["a", "b"]
forward = { rate = "10gbit", delay = "20ms", queue = "25MB" }
[[flows]]
name = "f"
from = "a"
to = "b"
[[flows]]
name = "p"
kind = "ping"
from = "a"
to = "b"
"#;

    fn event(time_us: i64, subject: &str, kind: EventKind, value: i64) -> Event {
        Event { time_us, subject: subject.into(), kind, value }
    }

    fn stall(time_us: i64, us: i64) -> Event {
        event(time_us, EMULATOR, EventKind::Stall, us)
    }

    fn rtt(time_us: i64, flow: &str, us: i64) -> FlowSample {
        FlowSample { time_us, flow: flow.into(), srtt_us: Some(us), ..FlowSample::default() }
    }

    fn faults(stalls: &[Event], flows: &[FlowSample], events: &[Event]) -> Vec<String> {
        let file = ScenarioFile::parse("x.toml", PATH).unwrap();
        let scenario = file.resolve(None, &[]).unwrap();
        judge(&RecordedRun { scenario: &scenario, stalls, flows, events })
    }

    #[test]
    fn drops_on_a_path_without_loss_are_attributed_to_the_stall_before_them() {
        let drops = event(5_100_000, "a-b forward", EventKind::DropQueue, 395);
        let reduced = event(5_110_000, "f", EventKind::CaState, 3);
        let events = [drops, reduced];
        let found = faults(&[stall(5_030_000, 64_650)], &[], &events);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("395 packets") && found[0].contains("100 %"), "{found:?}");
        assert_eq!(faults(&[], &[], &events), [""; 0], "no stall");
        assert_eq!(faults(&[stall(9_000_000, 64_650)], &[], &events), [""; 0], "after the drops");
        assert_eq!(faults(&[stall(5_030_000, 2_000)], &[], &events), [""; 0], "shorter than the queue");
    }

    #[test]
    fn regular_losses_are_not_attributed_to_stalls() {
        let events: Vec<Event> =
            (1..100).map(|n| event(n * 200_000, "a-b forward", EventKind::DropQueue, 9)).collect();
        assert_eq!(faults(&[stall(5_170_000, 10_000)], &[], &events), [""; 0]);
        // Random loss of the link explains the reduction.
        let lossy = [
            event(5_040_000, "a-b forward", EventKind::DropLoss, 1),
            event(5_060_000, "f", EventKind::CaState, 3),
        ];
        assert_eq!(faults(&[stall(5_030_000, 10_000)], &[], &lossy), [""; 0]);
    }

    #[test]
    fn a_round_trip_above_the_maximum_is_attributed_to_a_stall_that_explains_it() {
        let peak = [rtt(4_000_000, "f", 40_000), rtt(5_090_000, "f", 58_000)];
        let found = faults(&[stall(5_030_000, 20_000)], &peak, &[]);
        assert!(found[0].contains("58.0 ms") && found[0].contains("40.0 ms"), "{found:?}");
        assert_eq!(faults(&[stall(5_030_000, 3_000)], &peak, &[]), [""; 0], "the stall is too short");
        assert_eq!(faults(&[stall(7_000_000, 20_000)], &peak, &[]), [""; 0]);
        // The first echo waits for ARP as well.
        let first = [rtt(45_000, "p", 59_900)];
        assert_eq!(faults(&[stall(20_000, 20_000)], &first, &[]), [""; 0]);
    }

    #[test]
    fn a_long_gap_in_the_samples_is_a_fault() {
        let gap = |us| [event(5_000_000, SAMPLER, EventKind::Stall, us)];
        assert!(faults(&gap(105_000), &[], &[])[0].contains("105 ms"));
        assert_eq!(faults(&gap(20_000), &[], &[]), [""; 0]);
    }
}
