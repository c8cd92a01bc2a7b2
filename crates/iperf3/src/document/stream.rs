//! `--json-stream`: one line of JSON for each event.

use serde_json::{Map, Value};

use super::{end_json, interval_json, start_json};
use crate::report::{End, Interval, Report, ServerOutput, Start};

/// An event of a test.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The data began.
    Start(&'a Start),
    /// An interval has ended.
    Interval(&'a Start, &'a Interval),
    /// The test ended.
    End(&'a Start, &'a End),
    /// The other end's report has arrived.
    ServerOutput(&'a ServerOutput),
    /// The test failed, with the reason.
    Error(&'a str),
}

/// The event as iperf3 prints it, without the line's end.
pub fn event_line(event: Event<'_>) -> String {
    let (name, data) = match event {
        Event::Start(start) => ("start", start_json(start)),
        Event::Interval(start, interval) => ("interval", interval_json(start, interval)),
        Event::End(start, end) => ("end", end_json(start, end)),
        Event::ServerOutput(ServerOutput::Json(value)) => ("server_output_json", value.clone()),
        Event::ServerOutput(ServerOutput::Text(text)) => ("server_output_text", text.as_str().into()),
        Event::Error(error) => ("error", error.into()),
    };
    let mut line = Map::new();
    line.insert("event".into(), name.into());
    line.insert("data".into(), data);
    Value::Object(line).to_string()
}

/// All events of a report, in iperf3's order: the other end's report comes before the end.
pub fn events(report: &Report) -> Vec<Event<'_>> {
    let mut events = Vec::new();
    if let Some(start) = &report.start {
        events.push(Event::Start(start));
        events.extend(report.intervals.iter().map(|interval| Event::Interval(start, interval)));
    }
    events.extend(report.error.as_deref().map(Event::Error));
    if let (Some(start), Some(end)) = (&report.start, &report.end) {
        events.extend(end.server_output.as_ref().map(Event::ServerOutput));
        events.push(Event::End(start, end));
    }
    events
}
