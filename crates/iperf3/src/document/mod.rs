//! Writes a test's report as iperf3's JSON and text, and reads iperf3's JSON as a report.
//!
//! Keys, their order and their types are those of iperf3 3.22 (`src/iperf_api.c`), which has all keys of
//! older versions; documents of 3.1 to 3.20 can also be read. The numbers of streams (`socket`) are
//! longfat's: iperf3 prints file descriptors there.
//!
//! Intended differences from iperf3's output:
//!
//! 1. Fractions where iperf3 has only whole seconds (`omit`, `duration`).
//! 2. Each rate is the object's own bytes over its own seconds; iperf3 mixes both ends' times in
//!    `receiver.seconds` and in UDP's `sum`.
//! 3. The first interval after an omitted beginning starts with the counted part; in iperf3 it starts before.
//! 4. With `--bidir` the congestion controls are those of the client's data; iperf3 swaps them at the client.
//!    Text has them, and processor time, once at the end; iperf3 prints them after each direction.
//! 5. In text, 100 % is `100%`, not `1e+02%`.
//!
//! ```
//! let text = r#"{"start": {"connected": []}, "intervals": [], "end": {}, "error": "unable to connect to server"}"#;
//! let report = iperf3::document::from_json(text)?;
//! assert_eq!(report.error.as_deref(), Some("unable to connect to server"));
//! assert_eq!(iperf3::document::to_json(&report), serde_json::from_str::<serde_json::Value>(text)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod directions;
mod error;
mod json_end;
mod json_interval;
mod json_start;
mod object;
mod read;
mod read_end;
mod read_intervals;
mod read_start;
mod source;
mod stream;
mod text;
mod units_text;

#[cfg(test)]
mod tests;

/// The name of the file in a record that contains the complete document.
pub const FILE_NAME: &str = "iperf3.json";

pub use error::Error;
pub use json_end::end_json;
pub use json_interval::interval_json;
pub use json_start::start_json;
pub use read::{from_json, reports};
pub use stream::{Event, event_line, events};
pub use text::{RateUnit, TextFormat, end_text, interval_text, start_text, to_text};

use serde_json::{Map, Value};

use crate::report::{Report, ServerOutput};

/// The complete report, as iperf3's `-J` prints it.
pub fn to_json(report: &Report) -> Value {
    let mut top = Map::new();
    let (mut start, mut intervals, mut end) = (object::empty_start(), Vec::new(), Value::Object(Map::new()));
    if let Some(known) = &report.start {
        start = start_json(known);
        intervals = report.intervals.iter().map(|interval| interval_json(known, interval)).collect();
        if let Some(ended) = &report.end {
            end = end_json(known, ended);
        }
    }
    top.insert("start".into(), start);
    top.insert("intervals".into(), Value::Array(intervals));
    top.insert("end".into(), end);
    if let Some(start) = &report.start {
        let texts = [("title", &start.spec.title), ("extra_data", &start.spec.extra_data)];
        for (key, text) in texts {
            if let Some(text) = text {
                top.insert(key.into(), text.as_str().into());
            }
        }
    }
    match report.end.as_ref().and_then(|end| end.server_output.as_ref()) {
        Some(ServerOutput::Json(value)) => drop(top.insert("server_output_json".into(), value.clone())),
        Some(ServerOutput::Text(text)) => drop(top.insert("server_output_text".into(), text.as_str().into())),
        None => {}
    }
    if let Some(error) = &report.error {
        top.insert("error".into(), error.as_str().into());
    }
    Value::Object(top)
}

/// Fuzz target: reads a text, and writes its reports in every form. Must not panic.
#[doc(hidden)]
pub fn fuzz(text: &str) {
    for report in reports(text).unwrap_or_default() {
        let _ = to_text(&report, TextFormat { verbose: true, ..TextFormat::default() });
        let document = to_json(&report);
        // Values that iperf3's form cannot represent (a test of 10^19 seconds) need not be readable.
        if let Ok(again) = from_json(&document.to_string()) {
            let _ = events(&again).into_iter().map(event_line).count();
        }
    }
}
