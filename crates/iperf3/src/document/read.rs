//! Reads iperf3's JSON: documents of `-J`, one or several in succession (as a server writes them), and the
//! lines of `--json-stream`.

use serde_json::{Deserializer, Map, Value};

use super::{
    Error, read_end::read_end, read_intervals::read_intervals, read_start::read_start, source::Object,
};
use crate::report::Report;

/// Reads the JSON of one test, of iperf3 3.1 to 3.22 or longfat.
///
/// # Errors
/// If the text is not iperf3's JSON, or does not contain exactly one test.
pub fn from_json(text: &str) -> Result<Report, Error> {
    let mut all = reports(text)?;
    match (all.len(), all.pop()) {
        (1, Some(report)) => Ok(report),
        (count, _) => Err(Error::Count(count)),
    }
}

/// Reads all tests of a text. A truncated stream of events returns the complete events.
///
/// # Errors
/// If the text is not iperf3's JSON.
pub fn reports(text: &str) -> Result<Vec<Report>, Error> {
    let mut documents: Vec<Value> = Vec::new();
    let mut streaming = false;
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        let value = match value {
            Err(error) if error.is_eof() && streaming => break,
            value => value?,
        };
        let Some(name) = value.get("event").and_then(Value::as_str) else {
            documents.push(value);
            streaming = false;
            continue;
        };
        if !streaming || name == "start" && !is_empty(documents.last()) {
            documents.push(Value::Object(Map::new()));
            streaming = true;
        }
        if let Some(Value::Object(document)) = documents.last_mut() {
            add_event(document, name, value.get("data").cloned().unwrap_or_default())?;
        }
    }
    documents.iter().map(report).collect()
}

fn is_empty(document: Option<&Value>) -> bool {
    document.is_none_or(|document| document.as_object().is_some_and(Map::is_empty))
}

/// Inserts an event's data at its position in `-J`'s document.
fn add_event(document: &mut Map<String, Value>, name: &str, data: Value) -> Result<(), Error> {
    match name {
        "interval" => match document.entry("intervals").or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(intervals) => intervals.push(data),
            _ => return Err(Error::shape("intervals", "not a list")),
        },
        // Unknown events are of a later version.
        other => drop(document.insert(other.into(), data)),
    }
    Ok(())
}

fn report(document: &Value) -> Result<Report, Error> {
    let top = Object::top(document)?;
    if !["start", "intervals", "end", "error"].iter().any(|key| top.has(key)) {
        return Err(Error::shape("the document", "no start, no intervals, no end and no error"));
    }
    let error = top.text("error")?;
    let Some(start) = read_start(&top)? else {
        if error.is_none() {
            return Err(Error::shape("start.test_start", "missing, although the test did not fail"));
        }
        return Ok(Report { error, ..Report::default() });
    };
    let (start, sockets) = start;
    let intervals = read_intervals(&top, &start, &sockets)?;
    let end = read_end(&top, &start, &sockets, &intervals)?;
    Ok(Report { start: Some(start), intervals, end, latency: None, error })
}
