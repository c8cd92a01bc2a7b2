//! Collects rows and hands them on.

use net::Counters;
use scenario::plan::SampledPipe;
use schema::{Event, EventKind, FlowSample, LinkSample, TraceRow};
use units::Time;

use crate::{Error, LinkEnd, Observer, sample::micros};

/// So many rows are handed on together.
const BATCH: usize = 4096;

/// Rows so far.
pub(crate) struct Recorder<'a> {
    sampled: &'a [SampledPipe],
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    /// How many rows of each table the observer has.
    told: [usize; 3],
    /// So many events are in order of time.
    sorted: usize,
    counters: Vec<Counters>,
    counted_at: Time,
    latest: Vec<FlowSample>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(sampled: &'a [SampledPipe], observer: &'a mut dyn Observer) -> Self {
        Recorder {
            sampled,
            observer,
            flows: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            told: [0; 3],
            sorted: 0,
            counters: vec![Counters::default(); sampled.len()],
            counted_at: Time(0),
            latest: Vec::new(),
        }
    }

    /// A flow's row.
    pub(crate) fn take_flow(&mut self, row: FlowSample) {
        match self.latest.iter_mut().find(|latest| latest.flow == row.flow) {
            Some(latest) => latest.clone_from(&row),
            None => self.latest.push(row.clone()),
        }
        self.flows.push(row);
    }

    /// The links' rows as of `now`; `count` reads a pipe's counters.
    pub(crate) fn take_links(&mut self, now: Time, mut count: impl FnMut(net::PipeId) -> Counters) {
        let span_ns = u128::from(now.0 - self.counted_at.0);
        for (pipe, before) in self.sampled.iter().zip(&mut self.counters) {
            let now_counted = count(pipe.pipe);
            let (row, dropped) = link_row(pipe, &now_counted, before, now, span_ns);
            self.links.push(row);
            self.events.extend(dropped);
            *before = now_counted;
        }
        self.counted_at = now;
    }

    /// Hands new rows on, if there are enough of them or if this is the end, and tells how far the run is. False where
    /// the run is to end.
    pub(crate) fn tell(&mut self, now: Time, end: bool) -> Result<bool, Error> {
        let [flows, links, events] = self.told;
        // Each flow's events were added at a look; between two looks all are known.
        self.events[self.sorted..].sort_by_key(|event| event.time_us);
        self.sorted = self.events.len();
        if end || self.flows.len() - flows + self.links.len() - links >= BATCH {
            self.told = [self.flows.len(), self.links.len(), self.events.len()];
            self.observer
                .rows(&self.flows[flows..], &self.links[links..], &self.events[events..])
                .map_err(Error::Observer)?;
        }
        Ok(self.observer.progress(now, &self.latest))
    }

    /// Whether a flow is to be traced.
    pub(crate) fn traces(&self, flow: &scenario::Flow) -> bool {
        self.observer.traces(flow)
    }

    /// Hands rows of traces on.
    pub(crate) fn take_traces(&mut self, rows: &mut Vec<TraceRow>) -> Result<(), Error> {
        rows.sort_by_key(|row| row.time_us);
        let taken = if rows.is_empty() { Ok(()) } else { self.observer.traced(rows) };
        rows.clear();
        taken.map_err(Error::Observer)
    }

    /// The counters of the last rows.
    pub(crate) fn link_ends(&self) -> Vec<LinkEnd> {
        let end = |(pipe, counters): (&SampledPipe, &Counters)| LinkEnd {
            link: pipe.link,
            reversed: pipe.reversed,
            counters: *counters,
        };
        self.sampled.iter().zip(&self.counters).map(end).collect()
    }
}

fn link_row(
    pipe: &SampledPipe,
    now: &Counters,
    before: &Counters,
    at: Time,
    span_ns: u128,
) -> (LinkSample, impl Iterator<Item = Event>) {
    let integer = |value: u64| i64::try_from(value).ok();
    let bits = u128::from(now.sent_bytes - before.sent_bytes) * 8;
    let rate = (bits * 1_000_000_000).checked_div(span_ns);
    let row = LinkSample {
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
    };
    let queue = now.dropped_queue + now.dropped_aqm - before.dropped_queue - before.dropped_aqm;
    let loss = now.dropped_loss - before.dropped_loss;
    let subject = format!("{} {}", pipe.name, pipe.direction());
    let events = [(EventKind::DropQueue, queue), (EventKind::DropLoss, loss)].into_iter();
    let events = events.filter(|(_, grown)| *grown > 0).map(move |(kind, grown)| Event {
        time_us: micros(at),
        subject: subject.clone(),
        kind,
        value: grown as i64,
    });
    (row, events)
}
