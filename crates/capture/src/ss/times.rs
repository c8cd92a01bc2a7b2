//! Times between the samples: since 1970, or of the day.

/// The smallest numbers that are seconds, milliseconds, microseconds and nanoseconds since 1970, with the
/// unit in microseconds: `date` prints `%s`, `%s%3N`, `%s%6N` and `%s%N` without a decimal point. All other
/// numbers that stand alone on a line are smaller.
const EPOCH_UNITS: [(f64, f64); 4] = [(MIN_EPOCH_S, 1e6), (1e11, 1e3), (1e14, 1.0), (1e17, 1e-3)];
const MIN_EPOCH_S: f64 = 1e8;
const MAX_EPOCH: f64 = 1e20;
const HALF_DAY_US: i64 = DAY_US / 2;
pub(super) const DAY_US: i64 = 86_400_000_000;

/// Whether a time counts from 1970, not from midnight.
pub(super) fn is_since_1970(time_us: i64) -> bool {
    time_us >= (MIN_EPOCH_S * 1e6) as i64
}

/// Finds the time in a line, microseconds.
pub(super) fn find_time(words: &[&str]) -> Option<i64> {
    // Some locales have a decimal comma.
    if let [word] = words
        && let Ok(number) = word.replacen(',', ".", 1).parse::<f64>()
    {
        let (_, us) = EPOCH_UNITS.iter().rev().find(|(smallest, _)| number >= *smallest)?;
        return (number < MAX_EPOCH).then(|| (number * us).round() as i64);
    }
    let time_us = words.iter().find_map(|word| parse_time_of_day(word))?;
    // On a 12-hour clock 12 precedes 1.
    match words.iter().find(|word| ["AM", "PM"].contains(&word.to_ascii_uppercase().as_str())) {
        None => Some(time_us),
        Some(half) if half.eq_ignore_ascii_case("PM") => Some(time_us % HALF_DAY_US + HALF_DAY_US),
        Some(_) => Some(time_us % HALF_DAY_US),
    }
}

/// Parses `22:51:57`, `22:51:57.25` or `2026-11-21T22:51:57Z`; returns microseconds since midnight.
fn parse_time_of_day(word: &str) -> Option<i64> {
    let time = word.rsplit_once('T').map_or(word, |(_, time)| time);
    let time = time.split(['Z', '+', '-', ',']).next()?;
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds: f64 = seconds.parse().ok()?;
    let is_valid = parts.next().is_none() && (0..24).contains(&hours) && (0..60).contains(&minutes);
    (is_valid && (0.0..61.0).contains(&seconds))
        .then(|| (hours * 3600 + minutes * 60) * 1_000_000 + (seconds * 1e6) as i64)
}
