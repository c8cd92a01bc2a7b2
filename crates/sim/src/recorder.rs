//! Collects rows and hands them on.

use net::Counters;
use scenario::{plan::SampledPipe, rows::LinkTable};
use schema::{Event, FlowSample, LinkSample};
use units::Time;

use crate::{Error, Observer};

/// So many rows are handed on together.
const BATCH: usize = 4096;

/// Rows so far.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    /// How many rows of each table the observer has.
    told: [usize; 3],
    pub(crate) links_counted: LinkTable<'a>,
    latest: Vec<FlowSample>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(sampled: &'a [SampledPipe], observer: &'a mut dyn Observer) -> Self {
        Recorder {
            observer,
            flows: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            told: [0; 3],
            links_counted: LinkTable::new(sampled),
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
    pub(crate) fn take_links(&mut self, now: Time, count: impl FnMut(net::PipeId) -> Counters) {
        let counted = self.links_counted.pipes().map(count);
        self.links_counted.take(now, counted, &mut self.links, &mut self.events);
    }

    /// Hands new rows on, if there are enough of them or if this is the end, and tells how far the run is. False where
    /// the run is to end.
    pub(crate) fn tell(&mut self, now: Time, end: bool) -> Result<bool, Error> {
        let [flows, links, events] = self.told;
        // Each flow's events were added at a look; between two looks all are known.
        self.events[events..].sort_by_key(|event| event.time_us);
        if end || self.flows.len() - flows + self.links.len() - links >= BATCH {
            self.told = [self.flows.len(), self.links.len(), self.events.len()];
            self.observer
                .rows(&self.flows[flows..], &self.links[links..], &self.events[events..])
                .map_err(Error::Observer)?;
        }
        Ok(self.observer.progress(now, &self.latest))
    }
}
