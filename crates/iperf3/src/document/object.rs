//! Small JSON values that all parts of the document use.

use serde_json::{Map, Value, json};

/// The largest number up to which all integers are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A number as iperf3 prints it: integers without a decimal point. Not-a-number is 0.
pub(super) fn real(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Value::from(value as i64);
    }
    serde_json::Number::from_f64(value).map_or_else(|| Value::from(0), Value::Number)
}

/// Times, bytes and their rate, with which each stream and sum begins.
pub(super) fn span(object: &mut Map<String, Value>, start_s: f64, end_s: f64, bytes: u64) {
    let seconds = end_s - start_s;
    object.insert("start".into(), real(start_s));
    object.insert("end".into(), real(end_s));
    object.insert("seconds".into(), real(seconds));
    object.insert("bytes".into(), bytes.into());
    object.insert("bits_per_second".into(), real(rate(bytes, seconds)));
}

/// Bits per second; 0 if the time is 0.
pub(super) fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Per cent; 0 if the whole is 0.
pub(super) fn percent(part: i64, whole: u64) -> f64 {
    if whole > 0 { 100.0 * part as f64 / whole as f64 } else { 0.0 }
}

/// `start` of a test that did not begin.
pub(super) fn empty_start() -> Value {
    json!({ "connected": [] })
}
