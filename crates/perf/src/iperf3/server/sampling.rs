//! Samples of a server's sockets for a client that asks for them.

use std::time::Duration;

use schema::FlowSample;

use crate::{
    iperf3::{
        Looks, Observer,
        wire::{Params, Samples},
    },
    report::{Interval, Start},
};

/// What a client may ask to have sampled is at least this far apart.
const SAMPLE_MIN: Duration = Duration::from_millis(1);

/// An observer that keeps samples for a client that asked for them.
pub(super) struct Sampling<'a> {
    inner: Box<dyn Observer + 'a>,
    /// How often, and what was seen.
    looks: Option<(Duration, Looks)>,
}

impl<'a> Sampling<'a> {
    pub(super) fn new(inner: Box<dyn Observer + 'a>, params: &Params) -> Self {
        let asked = Duration::from_micros(params.longfat_sample_us);
        let every = (!asked.is_zero()).then(|| asked.max(SAMPLE_MIN));
        Sampling { inner, looks: every.map(|every| (every, Looks::new(every))) }
    }

    /// What was kept, for a client that asked.
    pub(super) fn take_samples(self) -> Option<Samples> {
        self.looks.map(|(_, looks)| Samples::of(&looks.into_rows()))
    }
}

impl Observer for Sampling<'_> {
    fn note(&mut self, text: &str) {
        self.inner.note(text);
    }

    fn start(&mut self, start: &Start) {
        self.inner.start(start);
    }

    fn interval(&mut self, interval: &Interval) {
        self.inner.interval(interval);
    }

    fn sample_interval(&self) -> Option<Duration> {
        self.looks.as_ref().map(|(every, _)| *every)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        if let Some((_, looks)) = &mut self.looks {
            looks.add(rows);
        }
    }
}
