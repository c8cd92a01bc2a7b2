//! Values of command-line options in iperf3's notation (a letter for a power of 1024 in sizes and of 1000 in
//! rates, times in seconds) and in longfat's (with units).

use std::{net::IpAddr, time::Duration};

use units::{BitRate, Bytes, Time};

/// Maximum time, seconds: a century.
const MAX_SECONDS: f64 = 3.2e9;
/// Minimum report interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// DSCPs by name (RFC 2474, 2597, 3246, 5865, 8622).
const DSCPS: [(&str, u8); 24] = [
    ("default", 0),
    ("be", 0),
    ("le", 1),
    ("cs0", 0),
    ("cs1", 8),
    ("cs2", 16),
    ("cs3", 24),
    ("cs4", 32),
    ("cs5", 40),
    ("cs6", 48),
    ("cs7", 56),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("ef", 46),
];

/// The value of `-b`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bitrate {
    /// `None`: as fast as possible.
    pub rate: Option<BitRate>,
    /// Blocks per burst; 0 is one.
    pub burst: u32,
}

/// The value of `-t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// A duration.
    Time(Duration),
    /// `auto`: until the goodput is known precisely enough.
    Known,
}

/// `10`, `0.5`, `500ms`.
pub fn time(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MAX_SECONDS).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err(format!("{text:?} is not a time")),
        Err(_) => Ok(text.parse::<Time>().map_err(|e| e.to_string())?.to_duration()),
    }
}

/// A duration as in [`time`], or `auto`.
pub fn until(text: &str) -> Result<Until, String> {
    if text == "auto" {
        return Ok(Until::Known);
    }
    match time(text)? {
        Duration::ZERO => Err("the duration of a test must be above zero".into()),
        time => Ok(Until::Time(time)),
    }
}

/// A report interval: zero, or at least a millisecond.
pub fn interval(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time.is_zero() || time >= MIN_INTERVAL => Ok(time),
        _ => Err("the shortest interval is 1 ms".into()),
    }
}

/// `2500` is milliseconds.
pub fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u64>() {
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => time(text),
    }
}

/// `128K` is 131072 bytes.
pub fn bytes(text: &str) -> Result<Bytes, String> {
    match scaled(text, 1024.0) {
        Some(bytes) => Ok(Bytes(bytes)),
        None => text.parse().map_err(|e: units::ParseError| e.to_string()),
    }
}

/// A number of blocks: `10K` is 10240.
pub fn count(text: &str) -> Result<u64, String> {
    scaled(text, 1024.0).ok_or_else(|| format!("{text:?} is not a number"))
}

/// `10M` is 10,000,000 bit/s.
pub fn rate(text: &str) -> Result<BitRate, String> {
    match scaled(text, 1000.0) {
        Some(rate) => Ok(BitRate(rate)),
        None => text.parse().map_err(|e: units::ParseError| e.to_string()),
    }
}

/// `10M/4` is that rate in bursts of four blocks. Rates may contain a slash themselves: `10Mb/s`.
pub fn bitrate(text: &str) -> Result<Bitrate, String> {
    let burst = text.rsplit_once('/').and_then(|(rate, burst)| Some((rate, burst.parse::<u32>().ok()?)));
    let (text, burst) = burst.unwrap_or((text, 0));
    let rate = Some(rate(text)?).filter(|rate| rate.0 > 0);
    Ok(Bitrate { rate, burst })
}

/// `16`, `020` and `0x10` are the same.
pub fn tos(text: &str) -> Result<u8, String> {
    let parsed = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hex), _) => u8::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u8::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    parsed.map_err(|_| format!("{text:?} is not a type of service (0 to 255)"))
}

/// `74565` or `0x12345`: 20 bits.
pub fn flow_label(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    let label = parsed.ok().filter(|label| (1..=0xf_ffff).contains(label));
    label.ok_or_else(|| format!("{text:?} is not a flow label (1 to 1048575)"))
}

/// `2` is a CPU of this host, `2,5` one of this host and one of the server.
pub fn affinity(text: &str) -> Result<(usize, Option<u32>), String> {
    let (here, there) = match text.split_once(',') {
        Some((here, there)) => (here, Some(there)),
        None => (text, None),
    };
    let cpu = |text: &str| text.parse::<u32>().map_err(|_| format!("{text:?} is not a CPU number"));
    Ok((cpu(here)? as usize, there.map(cpu).transpose()?))
}

/// `ef` or a number to 63.
pub fn dscp(text: &str) -> Result<u8, String> {
    let name = text.to_ascii_lowercase();
    let named = DSCPS.iter().find(|(known, _)| *known == name).map(|(_, dscp)| *dscp);
    named
        .or_else(|| tos(text).ok())
        .filter(|dscp| *dscp < 64)
        .ok_or_else(|| format!("{text:?} is not a DSCP"))
}

/// `10.0.0.1` or `10.0.0.1%eth0`.
pub fn bind(text: &str) -> Result<(IpAddr, Option<String>), String> {
    let (address, device) = match text.split_once('%') {
        Some((address, device)) => (address, Some(device.to_string())),
        None => (text, None),
    };
    address.parse().map(|ip| (ip, device)).map_err(|_| format!("{address:?} is not an address"))
}

/// A number, optionally with a letter K, M, G or T of either case; `None` for anything else.
fn scaled(text: &str, base: f64) -> Option<u64> {
    let (number, power) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 1),
        'M' => (&text[..text.len() - 1], 2),
        'G' => (&text[..text.len() - 1], 3),
        'T' => (&text[..text.len() - 1], 4),
        _ => (text, 0),
    };
    if !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value = number.parse::<f64>().ok()? * base.powi(power);
    (value < 1.8e19).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rates_scale_as_in_iperf3() {
        assert_eq!(bytes("128K"), Ok(Bytes(131_072)));
        assert_eq!(bytes("1.5m"), Ok(Bytes(1_572_864)));
        assert_eq!(bytes("1448"), Ok(Bytes(1448)));
        assert_eq!(bytes("10MB"), Ok(Bytes(10_000_000)));
        assert_eq!(rate("10M"), Ok(BitRate(10_000_000)));
        assert_eq!(rate("10gbit"), Ok(BitRate(10_000_000_000)));
        for bad in ["", "K", "-1", "1e9K", "10Q", "é", "99999999T"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flow_labels_and_processors_are_parsed() {
        assert_eq!((flow_label("0x12345"), flow_label("74565")), (Ok(74_565), Ok(74_565)));
        assert!(flow_label("0").is_err() && flow_label("0x100000").is_err());
        assert_eq!((affinity("2"), affinity("0,5")), (Ok((2, None)), Ok((0, Some(5)))));
        assert!(affinity("1,").is_err() && affinity("1,2,3").is_err());
    }

    #[test]
    fn rates_may_have_a_burst() {
        let plain = |rate, burst| Ok(Bitrate { rate: Some(BitRate(rate)), burst });
        assert_eq!(bitrate("10M/4"), plain(10_000_000, 4));
        assert_eq!(bitrate("10Mb/s"), plain(10_000_000, 0));
        assert_eq!(bitrate("10Mb/s/4"), plain(10_000_000, 4));
        assert_eq!(bitrate("0"), Ok(Bitrate { rate: None, burst: 0 }));
        assert!(bitrate("10M/x").is_err());
    }

    #[test]
    fn times_without_a_unit_are_seconds() {
        assert_eq!(time("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(milliseconds("250"), Ok(Duration::from_millis(250)));
        assert_eq!(until("auto"), Ok(Until::Known));
        assert!(until("0").is_err() && time("-1").is_err() && time("nan").is_err() && time("1e300").is_err());
        assert!(interval("0.5ms").is_err());
        assert_eq!(interval("0"), Ok(Duration::ZERO));
    }

    #[test]
    fn types_of_service_are_numbers_in_three_bases_or_names() {
        assert_eq!((tos("52"), tos("064"), tos("0x34")), (Ok(52), Ok(52), Ok(52)));
        assert_eq!((tos("0"), dscp("EF"), dscp("af41")), (Ok(0), Ok(46), Ok(34)));
        assert!(tos("256").is_err() && dscp("64").is_err() && tos("0x").is_err());
        assert_eq!(bind("10.0.0.1%eth0"), Ok(("10.0.0.1".parse().unwrap(), Some("eth0".into()))));
        assert!(bind("here").is_err());
    }
}
