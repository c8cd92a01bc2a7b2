//! How a test is told while it runs, and what is remembered of it.

use std::{io::IsTerminal, time::Duration};

use measurement::{
    error::chain,
    steadiness::Steadiness,
    test::{Recording, TestSamples},
};
use perf::{
    iperf3::{Looks, Observer},
    iperf3_json::{self, Event, TextFormat},
    report::{Interval, Start},
};
use schema::FlowSample;

use crate::{exit::Exit, output, test_args::TestArgs};

/// In which form results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// iperf3's lines.
    Text(TextFormat),
    /// longfat's document.
    Json,
    /// iperf3's document.
    Iperf3Json,
    /// iperf3's events.
    JsonStream,
}

impl Form {
    /// What the options ask for.
    pub fn of(args: &TestArgs, json: bool) -> anyhow::Result<Form> {
        match (json, args.iperf3_json, args.json_stream) {
            (true, false, false) => Ok(Form::Json),
            (false, true, _) => Ok(Form::Iperf3Json),
            (false, _, true) => Ok(Form::JsonStream),
            (false, false, false) => {
                Ok(Form::Text(TextFormat { verbose: args.verbose, unit: args.format.unwrap_or_default() }))
            }
            (true, ..) => Err(Exit::BadInput(
                "--json is longfat's own document; -J and --json-stream are iperf3's".into(),
            )
            .into()),
        }
    }
}

/// Prints a test as it goes and keeps its samples.
pub struct Teller {
    form: Form,
    sample: Duration,
    start: Option<Start>,
    looks: Looks,
    notes: Vec<String>,
    recording: Option<Recording>,
    auto: Option<Steadiness>,
    /// Standard output is gone: nothing more is printed.
    closed: bool,
}

impl Teller {
    /// Nothing has happened yet. Sockets are looked at each `sample`; `is_auto`: until the goodput is known.
    pub fn new(form: Form, sample: Duration, is_auto: bool, recording: Option<Recording>) -> Self {
        Teller {
            form,
            sample,
            start: None,
            looks: Looks::new(sample),
            notes: Vec::new(),
            recording,
            auto: is_auto.then(Steadiness::default),
            closed: false,
        }
    }

    /// All that was seen.
    pub fn finish(self) -> TestSamples {
        TestSamples {
            rows: self.looks.into_rows(),
            notes: self.notes,
            recording: self.recording,
            steady: self.auto.map(|auto| auto.estimate()),
        }
    }

    fn give_recording_up(&mut self, error: &measurement::Error) {
        self.recording = None;
        self.note(&format!("there will be no record: {}", chain(error)));
    }

    fn print(&mut self, text: &str) {
        // A reader that has gone does not end the test: its record is still to be made.
        self.closed = self.closed || output::text(text).is_err();
    }
}

impl Observer for Teller {
    fn note(&mut self, text: &str) {
        output::note(&format!("longfat: {text}"));
        self.notes.push(text.into());
    }

    fn start(&mut self, start: &Start) {
        self.start = Some(start.clone());
        match self.form {
            Form::Text(format) => self.print(&iperf3_json::start_text(start, format)),
            Form::JsonStream => self.print(&iperf3_json::event_line(Event::Start(start))),
            Form::Json | Form::Iperf3Json => {}
        }
        if let Some(recording) = &mut self.recording
            && let Err(error) = recording.begin(start)
        {
            self.give_recording_up(&error);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let Some(start) = &self.start else { return };
        let text = match self.form {
            Form::Text(format) => iperf3_json::interval_text(start, interval, format),
            Form::JsonStream => iperf3_json::event_line(Event::Interval(start, interval)),
            Form::Json | Form::Iperf3Json if std::io::stderr().is_terminal() => {
                let bytes: u64 = interval.streams.iter().map(|stream| stream.bytes).sum();
                let rate = bytes as f64 * 8.0 / (interval.end_s - interval.start_s).max(1e-9);
                output::note(&format!("{:8.2} s  {}", interval.end_s, view::number::rate(rate)));
                return;
            }
            Form::Json | Form::Iperf3Json => return,
        };
        self.print(&text);
    }

    fn sample_interval(&self) -> Option<Duration> {
        (!self.sample.is_zero()).then_some(self.sample)
    }

    fn samples(&mut self, rows: &[FlowSample]) {
        self.looks.add(rows);
        if let Some(auto) = &mut self.auto {
            auto.add(rows);
        }
        if let Some(recording) = &mut self.recording
            && let Err(error) = recording.append(rows)
        {
            self.give_recording_up(&error);
        }
    }

    fn is_enough(&mut self) -> bool {
        self.auto.as_mut().is_some_and(Steadiness::is_enough)
    }
}
