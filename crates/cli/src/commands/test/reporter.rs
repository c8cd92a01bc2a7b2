//! Prints the progress of a test and collects its samples.

use std::{io::IsTerminal, time::Duration};

use iperf3::{
    Observer,
    document::{self, Event, TextFormat},
    report::{Interval, Start},
};
use measurement::{
    path::Progress,
    test::{Recording, SampleCollector, TestSamples},
};
use schema::FlowSample;

use super::args::TestArgs;
use crate::{exit::Exit, output};

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// iperf3's text.
    Text(TextFormat),
    /// longfat's document.
    Json,
    /// iperf3's document.
    Iperf3Json,
    /// iperf3's events.
    JsonStream,
}

impl Form {
    /// The format that the options select.
    pub fn of(args: &TestArgs, json: bool) -> anyhow::Result<Form> {
        match (json, args.iperf3_json, args.json_stream) {
            (true, false, false) => Ok(Form::Json),
            (false, true, _) => Ok(Form::Iperf3Json),
            (false, _, true) => Ok(Form::JsonStream),
            (false, false, false) => {
                Ok(Form::Text(TextFormat { verbose: args.verbose, unit: args.format.unwrap_or_default() }))
            }
            (true, ..) => Err(Exit::BadInput(
                "--json prints longfat's document; it cannot be combined with iperf3's -J and --json-stream"
                    .into(),
            )
            .into()),
        }
    }
}

/// Prints the progress of a test and collects its samples.
pub struct Reporter {
    form: Form,
    sample: Duration,
    start: Option<Start>,
    collector: SampleCollector,
    /// Standard output is closed: nothing more is printed.
    closed: bool,
}

impl Reporter {
    /// Sockets are sampled every `sample`; `is_auto`: the test ends when its goodput is known.
    pub fn new(form: Form, sample: Duration, is_auto: bool, recording: Option<Recording>) -> Self {
        let collector = SampleCollector::new(sample, is_auto, recording);
        Reporter { form, sample, start: None, collector, closed: false }
    }

    /// All samples.
    pub fn finish(self) -> TestSamples {
        self.collector.finish()
    }

    fn print(&mut self, text: &str) {
        // A closed standard output does not end the test: its record is still written.
        self.closed = self.closed || output::text(text).is_err();
    }
}

impl Observer for Reporter {
    fn note(&mut self, text: &str) {
        ProgressNotes.note(text);
        self.collector.note(text);
    }

    fn start(&mut self, start: &Start) {
        self.start = Some(start.clone());
        match self.form {
            Form::Text(format) => self.print(&document::start_text(start, format)),
            Form::JsonStream => self.print(&document::event_line(Event::Start(start))),
            Form::Json | Form::Iperf3Json => {}
        }
        if let Err(note) = self.collector.start(start) {
            self.note(&note);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let Some(start) = &self.start else { return };
        let text = match self.form {
            Form::Text(format) => document::interval_text(start, interval, format),
            Form::JsonStream => document::event_line(Event::Interval(start, interval)),
            Form::Json | Form::Iperf3Json => return ProgressNotes.interval(interval),
        };
        self.print(&text);
        if !matches!(self.form, Form::Text(_)) {
            return;
        }
        if self.collector.has_automatic_length() {
            let so_far = match self.collector.estimate() {
                Some(estimate) => format!(
                    "steady goodput {} ±{:.1} %",
                    view::number::rate(estimate.goodput_bps),
                    estimate.precision * 100.0
                ),
                None => "no estimate of the steady goodput".to_owned(),
            };
            self.print(&format!("       {so_far} so far"));
        }
    }

    fn sample_interval(&self) -> Option<Duration> {
        (!self.sample.is_zero()).then_some(self.sample)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        if let Err(note) = self.collector.samples(rows) {
            self.note(&note);
        }
    }

    fn is_enough(&mut self) -> bool {
        self.collector.is_enough()
    }
}

/// Prints progress on standard error: notes always, the rate of each interval on a terminal.
pub struct ProgressNotes;

impl Progress for ProgressNotes {
    fn note(&mut self, text: &str) {
        output::note(&format!("longfat: {text}"));
    }

    fn interval(&mut self, interval: &Interval) {
        if std::io::stderr().is_terminal() {
            let rate = interval.goodput_bps().unwrap_or_default();
            output::note(&format!("{:8.2} s  {}", interval.end_s, view::number::rate(rate)));
        }
    }
}
