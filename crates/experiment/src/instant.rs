//! Formats of instants in records and in file names.

/// The current time in RFC 3339, UTC, in seconds.
pub fn now() -> String {
    rfc3339(jiff::Timestamp::now())
}

/// RFC 3339, UTC, in seconds: the format of instants in records.
pub fn rfc3339(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Removes the separators from an RFC 3339 instant, for file names.
pub fn compact(started: &str) -> String {
    started.chars().filter(|c| !matches!(c, '-' | ':')).collect()
}

/// Converts a user's text into an instant in RFC 3339: a duration before now (`90min`, `2h`, `7d`), or a
/// date, a date and time of this machine's time zone, or an RFC 3339 instant.
///
/// # Errors
/// The text has none of these forms; the message lists the accepted ones.
pub fn since(text: &str) -> Result<String, String> {
    let text = text.trim();
    let now = jiff::Zoned::now();
    let by_instant = || text.parse::<jiff::Timestamp>().ok();
    let by_date = || {
        let date: jiff::civil::DateTime = text.parse().ok()?;
        Some(date.to_zoned(now.time_zone().clone()).ok()?.timestamp())
    };
    let by_duration = || {
        let span: jiff::Span = text.parse().ok()?;
        (!span.is_negative()).then(|| now.checked_sub(span).ok())?.map(|then| then.timestamp())
    };
    let instant = by_instant().or_else(by_date).or_else(by_duration);
    instant.map(rfc3339).ok_or_else(|| {
        format!("{text:?} is neither a duration (90min, 2h, 7d) nor a date (2026-11-21, 2026-11-21T15:00)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_dates_are_converted_to_instants() {
        assert_eq!(since("2026-11-21T15:00:00Z").unwrap(), "2026-11-21T15:00:00Z");
        assert!(since("2026-11-21").unwrap() < since("2026-11-23T01:00").unwrap());
        let (hour, week) = (since("1h").unwrap(), since("7d").unwrap());
        assert!(week < hour && hour < now(), "{week} {hour}");
        assert!(since("90min").unwrap() < hour);
        for wrong in ["", "yesterday", "7", "-2h", "2026-13-01"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
