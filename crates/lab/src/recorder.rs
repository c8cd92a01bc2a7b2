//! Collects the rows of driver and sampler, and passes them to the observer.

use std::collections::BTreeMap;

use engine_common::{LinkSampler, SampledPipe};
use schema::{Event, FlowSample, LinkSample};
use units::Time;

use crate::{
    Error,
    driver::LinkRow,
    outcome::{Observer, Progress},
    sampler::SampleBatch,
};

/// All rows so far.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    /// Number of rows that the observer has received.
    delivered: RowCounts,
    pub(crate) links_counted: LinkSampler<'a>,
    /// The latest row of each flow; `latest_of` has its index by the flow's name.
    latest: Vec<FlowSample>,
    latest_of: BTreeMap<String, usize>,
}

/// Number of rows of each table.
#[derive(Debug, Clone, Copy, Default)]
struct RowCounts {
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
            delivered: RowCounts::default(),
            links_counted: LinkSampler::new(sampled),
            latest: Vec::new(),
            latest_of: BTreeMap::new(),
        }
    }

    pub(crate) fn take_samples(&mut self, batch: SampleBatch) {
        for row in &batch.flows {
            match self.latest_of.get(&row.flow) {
                Some(index) => self.latest[*index].clone_from(row),
                None => {
                    self.latest_of.insert(row.flow.clone(), self.latest.len());
                    self.latest.push(row.clone());
                }
            }
        }
        self.flows.extend(batch.flows);
        self.events.extend(batch.events);
    }

    pub(crate) fn take_row(&mut self, row: LinkRow) {
        self.links_counted.add_rows(row.at, row.counters, &mut self.links, &mut self.events);
    }

    /// Passes new rows to the observer.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        let RowCounts { flows, links, events } = self.delivered;
        self.delivered =
            RowCounts { flows: self.flows.len(), links: self.links.len(), events: self.events.len() };
        self.observer
            .rows(&self.flows[flows..], &self.links[links..], &self.events[events..])
            .map_err(Error::Observer)
    }

    /// Reports progress to the observer.
    pub(crate) fn report_progress(&mut self, elapsed: Time) {
        self.observer.progress(&Progress { elapsed, flows: self.latest.clone() });
    }
}
