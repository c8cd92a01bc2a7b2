//! Turns counters into the record's rows.

use bulk::stream::PlayoutCounts;
use datagrams::ReceiverCounters;
use net::{Direction, PipeCounters, PipeId};
use schema::{Event, EventKind, FlowSample, LinkSample};
use units::{Instant, Time};

use crate::SampledPipe;

/// A flow's totals at the end of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowTotals {
    /// The flow's name.
    pub name: String,
    /// Congestion control in use when the flow ended, by the kernel's name.
    pub cc: Option<String>,
    /// When it was connected, since the run's start; `None` if it never was.
    pub started: Option<Instant>,
    /// When it ended, since the run's start.
    pub ended: Option<Instant>,
    /// Application bytes received.
    pub bytes: u64,
    /// The play-out of a real-time stream.
    pub playout: Option<PlayoutCounts>,
}

/// A link direction's counters at the end of the run.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkTotals {
    /// Index into [`scenario::Scenario::links`].
    pub link: usize,
    /// The direction of the link.
    pub direction: Direction,
    /// The counters.
    pub counters: PipeCounters,
}

/// Turns the counters of the sampled directions into rows and events.
#[derive(Debug)]
pub struct LinkSampler<'a> {
    sampled: &'a [SampledPipe],
    counters: Vec<PipeCounters>,
    counted_at: Instant,
}

impl<'a> LinkSampler<'a> {
    /// A sampler for a run that starts with all counters at zero.
    pub fn new(sampled: &'a [SampledPipe]) -> Self {
        LinkSampler {
            sampled,
            counters: vec![PipeCounters::default(); sampled.len()],
            counted_at: Instant::ZERO,
        }
    }

    /// The directions to sample, in the order in which [`LinkSampler::add_rows`] expects their counters.
    pub fn pipes(&self) -> impl Iterator<Item = PipeId> + use<'a> {
        self.sampled.iter().map(|pipe| pipe.pipe)
    }

    /// Adds a row for each direction from its counters as of `now`, and the drops since the previous rows as
    /// events.
    pub fn add_rows(
        &mut self,
        now: Instant,
        counted: impl IntoIterator<Item = PipeCounters>,
        rows: &mut Vec<LinkSample>,
        events: &mut Vec<Event>,
    ) {
        let span_ns = u128::from(now.saturating_since(self.counted_at).as_nanos());
        for ((pipe, before), counted) in self.sampled.iter().zip(&mut self.counters).zip(counted) {
            rows.push(row(pipe, &counted, before, now, span_ns));
            events.extend(drops(pipe, &counted, before, now));
            *before = counted;
        }
        self.counted_at = now;
    }

    /// The counters of the latest rows.
    pub fn totals(&self) -> Vec<LinkTotals> {
        let totals = |(pipe, counters): (&SampledPipe, &PipeCounters)| LinkTotals {
            link: pipe.link,
            direction: pipe.direction(),
            counters: *counters,
        };
        self.sampled.iter().zip(&self.counters).map(totals).collect()
    }
}

fn row(
    pipe: &SampledPipe,
    now: &PipeCounters,
    before: &PipeCounters,
    at: Instant,
    span_ns: u128,
) -> LinkSample {
    let integer = |value: u64| i64::try_from(value).ok();
    let bits = u128::from(now.sent_bytes - before.sent_bytes) * 8;
    let rate = (bits * 1_000_000_000).checked_div(span_ns);
    LinkSample {
        time_us: time_us(at),
        link: pipe.name.clone(),
        direction: pipe.direction().name().into(),
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

fn drops(
    pipe: &SampledPipe,
    now: &PipeCounters,
    before: &PipeCounters,
    at: Instant,
) -> impl Iterator<Item = Event> {
    let queue = now.dropped_queue + now.dropped_aqm - before.dropped_queue - before.dropped_aqm;
    let loss = now.dropped_loss - before.dropped_loss;
    let event = move |(kind, increase): (EventKind, u64)| {
        let subject = format!("{} {}", pipe.name, pipe.direction());
        (increase > 0).then(|| Event { time_us: time_us(at), subject, kind, value: increase as i64 })
    };
    [(EventKind::DropQueue, queue), (EventKind::DropLoss, loss)].into_iter().filter_map(event)
}

/// A row of a udp flow as of `now`. `sent`: number of datagrams sent, and bytes of their payload.
pub fn datagram_row(
    flow: &str,
    now: Instant,
    sent: (u64, u64),
    received: &mut ReceiverCounters,
) -> FlowSample {
    let count = |number: u64| i64::try_from(number).ok();
    let owd = received.owd_ns;
    FlowSample {
        time_us: time_us(now),
        flow: flow.into(),
        bytes_sent: count(sent.1),
        bytes_received: count(received.bytes),
        datagrams_sent: count(sent.0),
        datagrams_received: count(received.received),
        datagrams_lost: count(received.lost()),
        datagrams_reordered: count(received.reordered),
        datagrams_duplicated: count(received.duplicated),
        owd_us: received.take_mean_owd_ns().map(|ns| ns / 1000),
        min_owd_us: owd.map(|(min, _)| min / 1000),
        max_owd_us: owd.map(|(_, max)| max / 1000),
        jitter_us: owd.map(|_| (received.jitter_ns / 1e3) as i64),
        ..FlowSample::default()
    }
}

/// An instant in the unit of the record's tables: whole microseconds since the run's start.
pub fn time_us(at: Instant) -> i64 {
    micros(at.since_origin())
}

/// A span in the unit of the record's tables: whole microseconds.
pub fn micros(span: Time) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}
