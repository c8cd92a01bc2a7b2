//! pSConfig, perfSONAR's description of a mesh of tests: its tasks as recurring tests of a point, and the
//! other way round.
//!
//! Source: `psconfig-schema.json` of perfsonar/psconfig (2026-02). Skipped, each with a note: address
//! classes, includes, hosts, archives, contexts, subtasks, and templates other than `{% address[0] %}` and
//! `{% address[1] %}`.

mod export;
mod groups;
mod import;

use jiff::{Span, SpanRelativeTo, Unit};
use units::Time;

pub use export::{PsconfigExport, export_psconfig};
pub use import::{PsconfigImport, import_psconfig};

/// A duration of ISO 8601, as in `PT4H`.
fn duration(text: &str) -> Option<Time> {
    // jiff also reads other forms, as in `4h`.
    let span: Span = text.starts_with('P').then(|| text.parse().ok())??;
    let nanos = span.total((Unit::Nanosecond, SpanRelativeTo::days_are_24_hours())).ok()?;
    (nanos >= 0.0 && nanos < u64::MAX as f64).then_some(Time::from_nanos(nanos as u64))
}

/// An ISO 8601 duration in seconds.
fn iso_text(time: Time) -> String {
    let millis = time.as_millis();
    let (seconds, fraction) = (millis / 1000, millis % 1000);
    match fraction {
        0 => format!("PT{seconds}S"),
        _ => format!("PT{seconds}.{fraction:03}S"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [("PT4H", 14_400.0), ("P1W", 604_800.0), ("P1DT2M", 86_520.0), ("PT0.5S", 0.5)]
        {
            assert_eq!(duration(text), Some(Time::from_nanos((seconds * 1e9) as u64)), "{text}");
        }
        for text in ["", "4h", "-PT1S", "PT1H4"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(
            (iso_text(Time::from_millis(1500)), iso_text(Time::from_secs(60))),
            ("PT1.500S".into(), "PT60S".into())
        );
    }
}
