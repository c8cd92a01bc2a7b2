//! Collects what the driver and the sampler see, and hands it on in rows.

use scenario::rows::LinkTable;
use schema::{Event, FlowSample, LinkSample};
use units::Time;

use crate::{
    Error,
    driver::LinkRow,
    outcome::{Observer, Progress},
    plan::SampledPipe,
    sampler::Look,
};

/// Rows so far.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    /// How many rows the observer has.
    told: Told,
    pub(crate) links_counted: LinkTable<'a>,
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
            observer,
            flows: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            told: Told::default(),
            links_counted: LinkTable::new(sampled),
            latest: Vec::new(),
        }
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

    pub(crate) fn take_row(&mut self, row: LinkRow) {
        self.links_counted.take(row.at, row.counters, &mut self.links, &mut self.events);
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
}
