//! Durations as pScheduler writes them: ISO 8601 without years and months, whose lengths vary.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, de};

/// The longest duration that is accepted: a year.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// A duration as in `PT1M30S`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) struct IsoDuration(pub Duration);

impl IsoDuration {
    /// The next whole number of seconds: slots of pScheduler have no fractions.
    pub fn ceil(duration: Duration) -> Self {
        IsoDuration(Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0)))
    }
}

impl FromStr for IsoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not an ISO 8601 duration of weeks, days, hours, minutes and seconds, as in PT30S"
            )
        };
        let body = text.strip_prefix('P').ok_or_else(wrong)?;
        let (days, time) = match body.split_once('T') {
            Some((days, time)) => (days, time),
            None => (body, ""),
        };
        let mut seconds = 0.0;
        for (part, units) in [
            (days, &[('W', 604_800.0), ('D', 86_400.0)][..]),
            (time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)][..]),
        ] {
            let mut remaining = part;
            for (unit, unit_seconds) in units {
                let Some((number, after)) = remaining.split_once(*unit) else { continue };
                let is_number = number.starts_with(|c: char| c.is_ascii_digit())
                    && number.ends_with(|c: char| c.is_ascii_digit())
                    && number.chars().all(|c| c.is_ascii_digit() || c == '.');
                let number: f64 =
                    Some(number).filter(|_| is_number).and_then(|n| n.parse().ok()).ok_or_else(wrong)?;
                seconds += number * unit_seconds;
                remaining = after;
            }
            if !remaining.is_empty() {
                return Err(wrong());
            }
        }
        if seconds > MAX_SECONDS {
            return Err(format!("'{text}' is longer than a year"));
        }
        Ok(IsoDuration(Duration::from_nanos((seconds * 1e9).round() as u64)))
    }
}

impl fmt::Display for IsoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if nanos == 0 {
            return write!(f, "PT{seconds}S");
        }
        let digits = format!("{nanos:09}");
        write!(f, "PT{seconds}.{}S", digits.trim_end_matches('0'))
    }
}

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> Result<f64, String> {
        text.parse().map(|IsoDuration(duration)| duration.as_secs_f64())
    }

    #[test]
    fn durations_are_read_and_written() {
        for (text, expected) in [
            ("PT30S", 30.0),
            ("PT1M30.5S", 90.5),
            ("P1DT2H", 93_600.0),
            ("P1W", 604_800.0),
            ("PT0.25S", 0.25),
            ("P0D", 0.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in
            ["", "30", "PT", "P", "PT5", "PT-5S", "P1Y", "P2M", "PTS", "PT1S1M", "PT.5S", "PT1e3S", "P9999W"]
        {
            let is_empty = matches!(wrong, "PT" | "P");
            assert!(seconds(wrong).is_err() || is_empty, "{wrong}");
        }
        for text in ["PT30S", "PT0.25S", "PT0.000001S", "PT0S"] {
            assert_eq!(text.parse::<IsoDuration>().unwrap().to_string(), text);
        }
        assert_eq!(IsoDuration::ceil(Duration::from_millis(7130)).to_string(), "PT8S");
        assert_eq!(IsoDuration::ceil(Duration::from_secs(7)).to_string(), "PT7S");
    }
}
