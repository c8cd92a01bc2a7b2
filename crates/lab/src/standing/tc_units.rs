//! Quantities in the syntax of tc (tc(8), PARAMETERS). Without a unit, a time is in microseconds, a rate in
//! bits per second, a size in bytes and a share in percent; `kb` is 1024 bytes.

use units::{BitRate, Bytes, Time};

/// Splits a quantity into number and unit.
fn split(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().map_err(|_| format!("{text:?} does not begin with a number"))?;
    Ok((number, text[end..].to_ascii_lowercase()))
}

/// `20ms`, `0.5s`, `100` (microseconds).
pub(crate) fn time(text: &str) -> Result<Time, String> {
    let (number, unit) = split(text)?;
    let nanos = match unit.as_str() {
        "s" | "sec" | "secs" => 1e9,
        "ms" | "msec" | "msecs" => 1e6,
        "" | "us" | "usec" | "usecs" => 1e3,
        "ns" | "nsec" | "nsecs" => 1.0,
        _ => return Err(format!("{text:?} is not a time; write for example 20ms")),
    };
    let time = number * nanos;
    // Maximum: one day.
    if time > 86_400e9 {
        Err(format!("{text} is too long"))
    } else {
        Ok(Time::from_nanos(time.round() as u64))
    }
}

/// `10gbit`, `100Mbit`, `1mbps` (bytes per second).
pub(crate) fn rate(text: &str) -> Result<BitRate, String> {
    let (number, unit) = split(text)?;
    let (prefix, bits) = match unit.strip_suffix("bit") {
        Some(prefix) => (prefix, 1.0),
        None => match unit.strip_suffix("bps") {
            Some(prefix) => (prefix, 8.0),
            None if unit.is_empty() => ("", 1.0),
            None => return Err(format!("{text:?} is not a rate; write for example 10gbit")),
        },
    };
    let factor = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1048576.0,
        "gi" => 1073741824.0,
        _ => return Err(format!("{text:?} is not a rate; write for example 10gbit")),
    };
    Ok(BitRate((number * factor * bits).min(1e15).round() as u64))
}

/// `5000000`, `32kbit`, `10kb`, `1mb`.
pub(crate) fn size(text: &str) -> Result<Bytes, String> {
    let (number, unit) = split(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1024.0,
        "m" | "mb" => 1048576.0,
        "g" | "gb" => 1073741824.0,
        "kbit" => 1024.0 / 8.0,
        "mbit" => 1048576.0 / 8.0,
        "gbit" => 1073741824.0 / 8.0,
        _ => return Err(format!("{text:?} is not a size; write for example 25000000 or 10kb")),
    };
    Ok(Bytes((number * factor).min(1e15).round() as u64))
}

/// `1%`, `0.1%` or `1`: a share from 0 to 1.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    match unit.as_str() {
        "" | "%" if number <= 100.0 => Ok(number / 100.0),
        _ => Err(format!("{text:?} is not a percentage")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_as_by_tc() {
        assert_eq!(time("20ms"), Ok(Time::from_millis(20)));
        assert_eq!(time("100"), Ok(Time::from_nanos(100_000)));
        assert_eq!(time("1.5sec"), Ok(Time::from_nanos(1_500_000_000)));
        assert_eq!(rate("10gbit"), Ok(BitRate(10_000_000_000)));
        assert_eq!(rate("100Mbit"), Ok(BitRate(100_000_000)));
        assert_eq!(rate("1mbps"), Ok(BitRate(8_000_000)));
        assert_eq!(size("5000000"), Ok(Bytes(5_000_000)));
        assert_eq!(size("32kbit"), Ok(Bytes(4096)));
        assert_eq!(size("10kb"), Ok(Bytes(10_240)));
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5"), Ok(0.005));
    }

    #[test]
    fn malformed_quantities_are_errors() {
        for bad in ["", "ms", "-1ms", "1e9s", "20 ms", "1.2.3", "é", "999999s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert!(rate("10giga").is_err() && size("1x").is_err() && percent("101%").is_err());
    }
}
