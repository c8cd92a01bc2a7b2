//! Collects rows and passes them to the observer.

use std::collections::BTreeMap;

use engine_common::{LinkSampler, SampledPipe};
use net::PipeCounters;
use schema::{Event, FlowSample, LinkSample, TraceRow};
use units::Instant;

use crate::{Error, HostLoad, HostSample, Observer};

/// The observer receives rows of flows and links in batches of at least this size.
const MIN_BATCH_ROWS: usize = 4096;

/// The rows of a run so far.
pub(crate) struct Recorder<'a> {
    observer: &'a mut dyn Observer,
    pub(crate) flows: Vec<FlowSample>,
    pub(crate) links: Vec<LinkSample>,
    pub(crate) events: Vec<Event>,
    pub(crate) hosts: Vec<HostLoad>,
    /// Number of rows of flows, of links, and of events that the observer has received.
    reported: [usize; 3],
    /// Number of events that are in order of time.
    sorted: usize,
    pub(crate) link_sampler: LinkSampler<'a>,
    /// The latest row of each flow, and where a flow's is.
    latest: Vec<FlowSample>,
    latest_of: BTreeMap<String, usize>,
    host_of: BTreeMap<String, usize>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(sampled: &'a [SampledPipe], observer: &'a mut dyn Observer) -> Self {
        Recorder {
            observer,
            flows: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            hosts: Vec::new(),
            reported: [0; 3],
            sorted: 0,
            link_sampler: LinkSampler::new(sampled),
            latest: Vec::new(),
            latest_of: BTreeMap::new(),
            host_of: BTreeMap::new(),
        }
    }

    /// Adds a flow's row.
    pub(crate) fn add_flow(&mut self, row: FlowSample) {
        match self.latest_of.get(&row.flow) {
            Some(index) => self.latest[*index].clone_from(&row),
            None => {
                self.latest_of.insert(row.flow.clone(), self.latest.len());
                self.latest.push(row.clone());
            }
        }
        self.flows.push(row);
    }

    /// Adds a sample of a host's work.
    pub(crate) fn add_host(&mut self, host: &str, sample: HostSample) {
        match self.host_of.get(host) {
            Some(index) => self.hosts[*index].samples.push(sample),
            None => {
                self.host_of.insert(host.into(), self.hosts.len());
                self.hosts.push(HostLoad { host: host.into(), samples: vec![sample] });
            }
        }
    }

    /// Adds the links' rows as of `now`; `counters` reads a direction's counters.
    pub(crate) fn add_links(&mut self, now: Instant, counters: impl FnMut(net::PipeId) -> PipeCounters) {
        let counted = self.link_sampler.pipes().map(counters);
        self.link_sampler.add_rows(now, counted, &mut self.links, &mut self.events);
    }

    /// Passes new rows to the observer, if there are at least `MIN_BATCH_ROWS` or `is_end`, and reports
    /// progress. Returns false if the observer ends the run.
    pub(crate) fn report(&mut self, now: Instant, is_end: bool) -> Result<bool, Error> {
        let [flows, links, events] = self.reported;
        // Sampling adds the events flow by flow. No event before `now` can follow.
        self.events[self.sorted..].sort_by_key(|event| event.time_us);
        self.sorted = self.events.len();
        if is_end || self.flows.len() - flows + self.links.len() - links >= MIN_BATCH_ROWS {
            self.reported = [self.flows.len(), self.links.len(), self.events.len()];
            self.observer
                .rows(&self.flows[flows..], &self.links[links..], &self.events[events..])
                .map_err(Error::Observer)?;
        }
        Ok(self.observer.progress(now.since_origin(), &self.latest))
    }

    /// Whether the observer requests a trace of this flow.
    pub(crate) fn is_traced(&self, flow: &scenario::FlowSpec) -> bool {
        self.observer.is_traced(flow)
    }

    /// Passes rows of traces to the observer and empties `rows`.
    pub(crate) fn report_traces(&mut self, rows: &mut Vec<TraceRow>) -> Result<(), Error> {
        rows.sort_by_key(|row| row.time_us);
        let result = if rows.is_empty() { Ok(()) } else { self.observer.trace_rows(rows) };
        rows.clear();
        result.map_err(Error::Observer)
    }
}
