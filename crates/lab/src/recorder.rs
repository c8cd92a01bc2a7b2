//! Collects what the driver and the sampler see, and hands it on in rows.

use net::{Counters, PipeId};
use schema::{Event, EventKind, FlowSample, LinkSample};
use units::Time;

use crate::{
    Error,
    driver::LinkRow,
    outcome::{LinkEnd, Observer, Progress},
    plan::SampledPipe,
    sampler::{Look, micros},
};

/// Rows so far.
pub(crate) struct Recorder<'a> {
    sampled: &'a [SampledPipe],
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    /// How many rows the observer has.
    told: Told,
    counters: Vec<Counters>,
    counted_at: Time,
    latest: Vec<FlowSample>,
}

/// Rows of each table.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    flows: usize,
    links: usize,
    events: usize,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(sampled: &'a [SampledPipe], observer: &'a mut dyn Observer) -> Self {
        Recorder {
            sampled,
            observer,
            flows: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            told: Told::default(),
            counters: vec![Counters::default(); sampled.len()],
            counted_at: Time(0),
            latest: Vec::new(),
        }
    }

    /// The pipes to sample, in the order of [`LinkRow::counters`].
    pub(crate) fn pipes(&self) -> Vec<PipeId> {
        self.sampled.iter().map(|p| p.pipe).collect()
    }

    pub(crate) fn take_look(&mut self, look: Look) {
        for row in &look.flows {
            match self.latest.iter_mut().find(|l| l.flow == row.flow) {
                Some(latest) => *latest = row.clone(),
                None => self.latest.push(row.clone()),
            }
        }
        self.flows.extend(look.flows);
        self.events.extend(look.events);
    }

    pub(crate) fn take_row(&mut self, row: &LinkRow) {
        let span = row.at.as_secs_f64() - self.counted_at.as_secs_f64();
        for ((pipe, now), before) in self.sampled.iter().zip(&row.counters).zip(&self.counters) {
            let rate = (span > 0.0).then(|| (now.sent_bytes - before.sent_bytes) as f64 * 8.0 / span);
            self.links.push(LinkSample {
                time_us: micros(row.at),
                link: pipe.name.clone(),
                direction: pipe.direction().into(),
                rate_bps: rate.map(|r| r as i64),
                queue_bytes: integer(now.queue_bytes),
                max_queue_bytes: integer(now.max_queue_bytes_since),
                sent_packets: integer(now.sent_packets),
                sent_bytes: integer(now.sent_bytes),
                dropped_queue_packets: integer(now.dropped_queue),
                dropped_loss_packets: integer(now.dropped_loss),
                dropped_aqm_packets: integer(now.dropped_aqm),
                marked_packets: integer(now.marked),
            });
            for (kind, grown) in [
                (
                    EventKind::DropQueue,
                    now.dropped_queue + now.dropped_aqm - before.dropped_queue - before.dropped_aqm,
                ),
                (EventKind::DropLoss, now.dropped_loss - before.dropped_loss),
            ] {
                if grown > 0 {
                    let subject = format!("{} {}", pipe.name, pipe.direction());
                    self.events.push(Event { time_us: micros(row.at), subject, kind, value: grown as i64 });
                }
            }
        }
        self.counters.clone_from(&row.counters);
        self.counted_at = row.at;
    }

    /// Hands new rows to the observer.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let Told { flows, links, events } = self.told;
        self.told = Told { flows: self.flows.len(), links: self.links.len(), events: self.events.len() };
        self.observer
            .rows(&self.flows[flows..], &self.links[links..], &self.events[events..])
            .map_err(Error::Observer)
    }

    /// Tells the observer how far the run is.
    pub(crate) fn tell(&mut self, elapsed: Time) {
        self.observer.progress(&Progress { elapsed, flows: self.latest.clone() });
    }

    /// The counters of the last row.
    pub(crate) fn link_ends(&self) -> Vec<LinkEnd> {
        self.sampled
            .iter()
            .zip(&self.counters)
            .map(|(pipe, counters)| LinkEnd { link: pipe.link, reversed: pipe.reversed, counters: *counters })
            .collect()
    }
}

fn integer(value: u64) -> Option<i64> {
    i64::try_from(value).ok()
}
