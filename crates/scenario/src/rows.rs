//! From counters to the record's rows, for every engine that runs a scenario.

use datagrams::Received;
use net::{Counters, PipeId};
use schema::{Event, EventKind, FlowSample, LinkSample};
use units::Time;

use crate::plan::SampledPipe;

/// A flow's ends in time.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowEnd {
    /// The flow's name.
    pub name: String,
    /// Congestion control that was used at the end, by the kernel's name.
    pub cc: Option<String>,
    /// When it was connected.
    pub started: Option<Time>,
    /// When it ended.
    pub ended: Option<Time>,
    /// Application bytes received.
    pub bytes: u64,
}

/// A link direction's counters at the end of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkEnd {
    /// Index of the link in the scenario.
    pub link: usize,
    /// The direction from the second end to the first.
    pub reversed: bool,
    /// The counters.
    pub counters: Counters,
}

/// Makes rows and events of what the sampled directions have counted.
#[derive(Debug)]
pub struct LinkTable<'a> {
    sampled: &'a [SampledPipe],
    counters: Vec<Counters>,
    counted_at: Time,
}

impl<'a> LinkTable<'a> {
    /// Nothing has been counted at the run's start.
    pub fn new(sampled: &'a [SampledPipe]) -> Self {
        LinkTable { sampled, counters: vec![Counters::default(); sampled.len()], counted_at: Time(0) }
    }

    /// The pipes to count, in order.
    pub fn pipes(&self) -> impl Iterator<Item = PipeId> + use<'a> {
        self.sampled.iter().map(|pipe| pipe.pipe)
    }

    /// A row of each direction, `counted` as of `now`, and the drops since the last rows as events.
    pub fn take(
        &mut self,
        now: Time,
        counted: impl IntoIterator<Item = Counters>,
        rows: &mut Vec<LinkSample>,
        events: &mut Vec<Event>,
    ) {
        let span_ns = u128::from(now.0.saturating_sub(self.counted_at.0));
        for ((pipe, before), counted) in self.sampled.iter().zip(&mut self.counters).zip(counted) {
            rows.push(row(pipe, &counted, before, now, span_ns));
            events.extend(drops(pipe, &counted, before, now));
            *before = counted;
        }
        self.counted_at = now;
    }

    /// The counters of the last rows.
    pub fn ends(&self) -> Vec<LinkEnd> {
        let end = |(pipe, counters): (&SampledPipe, &Counters)| LinkEnd {
            link: pipe.link,
            reversed: pipe.reversed,
            counters: *counters,
        };
        self.sampled.iter().zip(&self.counters).map(end).collect()
    }
}

fn row(pipe: &SampledPipe, now: &Counters, before: &Counters, at: Time, span_ns: u128) -> LinkSample {
    let integer = |value: u64| i64::try_from(value).ok();
    let bits = u128::from(now.sent_bytes - before.sent_bytes) * 8;
    let rate = (bits * 1_000_000_000).checked_div(span_ns);
    LinkSample {
        time_us: micros(at),
        link: pipe.name.clone(),
        direction: pipe.direction().into(),
        rate_bps: rate.and_then(|rate| i64::try_from(rate).ok()),
        queue_bytes: integer(now.queue_bytes),
        max_queue_bytes: integer(now.max_queue_bytes_since),
        sent_packets: integer(now.sent_packets),
        sent_bytes: integer(now.sent_bytes),
        dropped_queue_packets: integer(now.dropped_queue),
        dropped_loss_packets: integer(now.dropped_loss),
        dropped_aqm_packets: integer(now.dropped_aqm),
        marked_packets: integer(now.marked),
    }
}

fn drops(pipe: &SampledPipe, now: &Counters, before: &Counters, at: Time) -> impl Iterator<Item = Event> {
    let queue = now.dropped_queue + now.dropped_aqm - before.dropped_queue - before.dropped_aqm;
    let loss = now.dropped_loss - before.dropped_loss;
    let event = move |(kind, grown): (EventKind, u64)| {
        let subject = format!("{} {}", pipe.name, pipe.direction());
        (grown > 0).then(|| Event { time_us: micros(at), subject, kind, value: grown as i64 })
    };
    [(EventKind::DropQueue, queue), (EventKind::DropLoss, loss)].into_iter().filter_map(event)
}

/// A row of a udp flow as of `now`: what was sent (datagrams and their payload's bytes) and what was received.
pub fn datagram_row(flow: &str, now: Time, sent: (u64, u64), received: &mut Received) -> FlowSample {
    let count = |number: u64| i64::try_from(number).ok();
    let owd = received.owd_ns;
    FlowSample {
        time_us: micros(now),
        flow: flow.into(),
        bytes_sent: count(sent.1),
        bytes_received: count(received.bytes),
        datagrams_sent: count(sent.0),
        datagrams_received: count(received.received),
        datagrams_lost: count(received.lost()),
        datagrams_reordered: count(received.reordered),
        datagrams_duplicated: count(received.duplicated),
        owd_us: received.take_mean_owd_ns().map(|ns| ns / 1000),
        min_owd_us: owd.map(|(least, _)| least / 1000),
        max_owd_us: owd.map(|(_, most)| most / 1000),
        jitter_us: owd.map(|_| (received.jitter_ns / 1e3) as i64),
        ..FlowSample::default()
    }
}

/// A time as the record's tables have it: whole microseconds since the run's start.
pub fn micros(time: Time) -> i64 {
    i64::try_from(time.0 / 1000).unwrap_or(i64::MAX)
}
