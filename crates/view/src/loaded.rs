//! A run with all its rows in memory.

use std::path::{Path, PathBuf};

use schema::{Event, FlowSample, HostInfo, LinkSample, RunSummary, Summary};

/// A run's summary and rows.
#[derive(Debug, Clone)]
pub struct LoadedRun {
    /// The record's directory, or its address in an object store.
    pub path: PathBuf,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's title.
    pub title: String,
    /// The machine it ran on.
    pub host: HostInfo,
    /// The summary.
    pub run: RunSummary,
    /// True if the run was ended early.
    pub partial: bool,
    /// The rows of `flows.parquet`.
    pub flows: Vec<FlowSample>,
    /// The rows of `links.parquet`.
    pub links: Vec<LinkSample>,
    /// The rows of `events.parquet`.
    pub events: Vec<Event>,
}

impl LoadedRun {
    /// Reads a record's rows.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn load(run: &record::Run) -> Result<Self, record::Error> {
        let mut loaded =
            Self::from_rows(run.summary.clone(), run.location(), run.flows()?, run.links()?, run.events()?);
        loaded.partial = run.partial;
        Ok(loaded)
    }

    /// A run from rows in memory. Takes the first run of `summary`; panics if there is none.
    pub fn from_rows(
        summary: Summary,
        path: impl AsRef<Path>,
        flows: Vec<FlowSample>,
        links: Vec<LinkSample>,
        events: Vec<Event>,
    ) -> Self {
        let run = summary.runs[0].clone();
        LoadedRun {
            path: path.as_ref().to_owned(),
            scenario: summary.scenario,
            title: summary.title,
            host: summary.host,
            partial: run.partial,
            run,
            flows,
            links,
            events,
        }
    }

    /// The rows between two instants, in seconds since the start.
    pub(crate) fn between(&self, from_s: f64, to_s: f64) -> Self {
        let inside = |time_us: i64| (from_s..=to_s).contains(&(time_us as f64 * 1e-6));
        let mut part = self.clone();
        part.flows.retain(|row| inside(row.time_us));
        part.links.retain(|row| inside(row.time_us));
        part.events.retain(|event| inside(event.time_us));
        part
    }

    /// The end of the time axis: the run's duration, or its last row if that is later.
    pub(crate) fn end_s(&self) -> f64 {
        let last_flow = self.flows.iter().map(|row| row.time_us).max().unwrap_or(0);
        let last_link = self.links.iter().map(|row| row.time_us).max().unwrap_or(0);
        (last_flow.max(last_link) as f64 / 1e6).max(self.run.duration_s)
    }
}
