//! Samples of a server's sockets for a client that requests them.

use std::time::Duration;

use schema::FlowSample;

use crate::{
    Observer, SampleBuffer,
    report::{Interval, Start},
    wire::{Params, Samples},
};

/// Minimum sample interval that a client can request.
const SAMPLE_MIN: Duration = Duration::from_millis(1);

/// An observer that keeps samples for a client that has requested them.
pub(super) struct SamplingObserver<'a> {
    inner: Box<dyn Observer + 'a>,
    /// The interval, and the samples.
    samples: Option<(Duration, SampleBuffer)>,
}

impl<'a> SamplingObserver<'a> {
    pub(super) fn new(inner: Box<dyn Observer + 'a>, params: &Params) -> Self {
        let requested = Duration::from_micros(params.longfat_sample_us);
        let every = (!requested.is_zero()).then(|| requested.max(SAMPLE_MIN));
        SamplingObserver { inner, samples: every.map(|every| (every, SampleBuffer::new(every))) }
    }

    /// The samples, if the client has requested them.
    pub(super) fn take_samples(self) -> Option<Samples> {
        self.samples.map(|(_, samples)| Samples::of(&samples.into_rows()))
    }
}

impl Observer for SamplingObserver<'_> {
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
        let requested = self.samples.as_ref().map(|(every, _)| *every);
        requested.or_else(|| self.inner.sample_interval())
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        self.inner.samples(rows);
        if let Some((_, samples)) = &mut self.samples {
            samples.add(rows);
        }
    }
}
