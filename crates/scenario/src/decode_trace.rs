//! Decodes a rate trace: a file, a list of steps, or a list of mahimahi's delivery times (milliseconds).

use std::sync::Arc;

use net::RateTrace;
use units::{BitRate, Time};

use crate::{
    error::Problems,
    read::{Keys, MAX_RATE, MAX_TIME, Reader},
    trace_file::Files,
    tree::{Node, Value},
};

pub(crate) const INLINE: Keys = Keys { what: "a trace", known: &["mahimahi"], nested: None };
const STEPS_EXAMPLE: &str = "write for example trace = [[0, \"10mbit\"], [\"5s\", \"2mbit\"]]";
/// Maximum number of lines, as in `net`; records contain whole traces.
const MAX_OPPORTUNITIES: usize = 10_000_000;
const MAX_MS: u64 = MAX_TIME.as_millis();

/// The formats of trace files.
#[derive(Clone, Copy, PartialEq)]
enum Format {
    Mahimahi,
    Csv,
}

/// Decodes the trace of a direction, if it has one.
pub(crate) fn decode_trace(reader: &mut Reader, files: &Files) -> Option<Arc<RateTrace>> {
    let format = reader.choice("trace_format", &[("mahimahi", Format::Mahimahi), ("csv", Format::Csv)]);
    let period = reader.positive_time("trace_period");
    let node = reader.node("trace");
    check_trace_keys(reader, node);
    let node = node?;
    let trace = match &node.value {
        Value::Text(path) => from_file(path, format, files)
            .map_err(|e| reader.problems().add(node.span, format!("trace: cannot use \"{path}\": {e}")))
            .ok(),
        Value::List(items) => steps(items, period, node, reader),
        Value::Table(_) => opportunities(node, reader.problems()),
        _ => {
            let message = format!("\"trace\" is a file's name or a list of steps, not {}", node.kind());
            reader.problems().add_help(node.span, message, STEPS_EXAMPLE);
            None
        }
    }?;
    if trace.mean() == BitRate(0) {
        reader.report(
            "trace",
            "the trace has a rate of zero throughout",
            "write at least one rate above zero",
        );
        return None;
    }
    if !is_within_limits(&trace) {
        let help = format!("write at most 30 days, {MAX_RATE} and {MAX_OPPORTUNITIES} lines");
        reader.report("trace", "the trace has too many lines, or a time or rate that is too large", help);
        return None;
    }
    Some(Arc::new(trace))
}

/// Whether a scenario file may contain this trace in full, as the scenario file in a record does.
fn is_within_limits(trace: &RateTrace) -> bool {
    match trace {
        RateTrace::Opportunities(at) => {
            at.len() <= MAX_OPPORTUNITIES && at.last().is_none_or(|ms| *ms <= MAX_MS)
        }
        RateTrace::Steps { steps, end } => {
            *end <= MAX_TIME && steps.iter().all(|(_, rate)| *rate <= MAX_RATE)
        }
    }
}

fn check_trace_keys(reader: &mut Reader, trace: Option<&Node>) {
    for (key, kind, is_valid) in [
        ("trace_format", "a trace file", trace.is_some_and(|n| n.text().is_some())),
        ("trace_period", "a trace of steps", trace.is_some_and(|n| n.list().is_some())),
    ] {
        if reader.node(key).is_some() && !is_valid {
            reader.report(key, format!("\"{key}\" is only for {kind}"), "remove it");
        }
    }
}

/// Reads a trace file. Without a named format, a file with a comma in a line is csv.
fn from_file(path: &str, format: Option<Format>, files: &Files) -> Result<RateTrace, String> {
    let text = files.text(path)?;
    let by_content = || {
        let comma = text.lines().any(|line| !line.trim_start().starts_with('#') && line.contains(','));
        if comma { Format::Csv } else { Format::Mahimahi }
    };
    match format.unwrap_or_else(by_content) {
        Format::Csv => net::RateTrace::parse_csv(&text).map_err(|e| e.to_string()),
        Format::Mahimahi => net::RateTrace::parse_mahimahi(&text).map_err(|e| e.to_string()),
    }
}

fn steps(items: &[Node], period: Option<Time>, whole: &Node, reader: &mut Reader) -> Option<RateTrace> {
    let mut steps: Vec<(Time, BitRate)> = Vec::new();
    for item in items {
        let (time, rate) = step(item, reader.problems())?;
        let mistake = match steps.last() {
            None if time != Time::ZERO => Some("the first step of a trace must be at 0"),
            Some((before, _)) if *before >= time => Some("the steps of a trace must have ascending times"),
            _ => None,
        };
        if let Some(mistake) = mistake {
            reader.problems().add_help(item.span, mistake, STEPS_EXAMPLE);
            return None;
        }
        steps.push((time, rate));
    }
    let Some((last, _)) = steps.last() else {
        reader.problems().add_help(whole.span, "a trace needs at least one step", STEPS_EXAMPLE);
        return None;
    };
    let Some(end) = period else {
        if reader.node("trace_period").is_none() {
            let help = "set when it repeats: trace_period = \"10s\"";
            reader.problems().add_help(whole.span, "a trace of steps needs \"trace_period\"", help);
        }
        return None;
    };
    if end <= *last {
        reader.report(
            "trace_period",
            format!("the trace repeats at {end}, before its last step"),
            format!("write more than {last}"),
        );
        return None;
    }
    Some(RateTrace::Steps { steps, end })
}

/// Decodes `["5s", "2mbit"]`. A time of 0 needs no unit, and a rate may be 0.
fn step(node: &Node, problems: &mut Problems) -> Option<(Time, BitRate)> {
    let [time, rate] = node.items() else {
        problems.add_help(node.span, "a step of a trace is a time and a rate", STEPS_EXAMPLE);
        return None;
    };
    let time = match &time.value {
        Value::Integer(0) => Time::ZERO,
        _ => quantity::<Time>(time, "time", problems)?,
    };
    let rate = quantity::<BitRate>(rate, "rate", problems)?;
    if time > MAX_TIME || rate > MAX_RATE {
        let help = format!("write at most 30 days and {MAX_RATE}");
        problems.add_help(node.span, "the time or the rate of this step is too large", help);
        return None;
    }
    Some((time, rate))
}

fn quantity<T: std::str::FromStr<Err = units::ParseError>>(
    node: &Node,
    what: &str,
    problems: &mut Problems,
) -> Option<T> {
    match node.text() {
        Some(text) => text.parse().map_err(|e| problems.add(node.span, format!("{what}: {e}"))).ok(),
        None => {
            let message = format!("the {what} of a step is a string, not {}", node.kind());
            problems.add_help(node.span, message, STEPS_EXAMPLE);
            None
        }
    }
}

/// Decodes `{ mahimahi = [1, 2, 2, 5] }`.
fn opportunities(node: &Node, problems: &mut Problems) -> Option<RateTrace> {
    let mut reader = Reader::new(node, &INLINE, problems)?;
    let list = reader.required("mahimahi", "[1, 2, 5]")?;
    let mut at: Vec<u64> = Vec::new();
    for item in list.items() {
        let number = match item.value {
            Value::Integer(ms) => u64::try_from(ms).ok(),
            _ => None,
        };
        match number {
            Some(ms) if at.last().is_none_or(|last| *last <= ms) => at.push(ms),
            _ => {
                let help = "write whole milliseconds in ascending order";
                reader.problems().add_help(item.span, "this is not a time of a mahimahi trace", help);
                return None;
            }
        }
    }
    if at.last().is_none_or(|last| *last == 0) {
        let help = "write for example trace = { mahimahi = [1, 2, 5] }";
        reader.problems().add_help(
            list.span,
            "a mahimahi trace must be a list of milliseconds whose last is above 0",
            help,
        );
        return None;
    }
    Some(RateTrace::Opportunities(at))
}
