//! A rate in bits per second.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    Bytes, ParseError, Time,
    decimal::{self, Decimal, QuantityKind},
    print::write_scaled,
};

/// A rate in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BitRate(pub u64);

const KIND: QuantityKind = QuantityKind {
    what: "rate",
    example: "10gbit or 10Gb/s",
    largest: "18446744073709551615 b/s",
    smallest: "1 b/s",
};

const UNITS: [(&str, u64); 5] =
    [("Tb/s", 1_000_000_000_000), ("Gb/s", 1_000_000_000), ("Mb/s", 1_000_000), ("kb/s", 1_000), ("b/s", 1)];

impl BitRate {
    /// Bits per second as `f64`.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    /// Bytes per second.
    pub fn bytes_per_sec_f64(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// The transmission time of `bytes` at this rate, rounded up; [`Time::MAX`] at rate zero.
    pub fn transmit_time(self, bytes: Bytes) -> Time {
        if self.0 == 0 {
            return Time::MAX;
        }
        let nanos = (u128::from(bytes.0) * 8 * 1_000_000_000).div_ceil(self.0.into());
        u64::try_from(nanos).map_or(Time::MAX, Time::from_nanos)
    }

    /// The number of whole bytes that this rate carries in `time`: for a round-trip time, the bandwidth-delay
    /// product.
    pub fn bytes_in(self, time: Time) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.as_nanos()) / 8_000_000_000;
        Bytes(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_scaled(f, self.0, &UNITS)
    }
}

impl FromStr for BitRate {
    type Err = ParseError;

    fn from_str(input: &str) -> Result<Self, ParseError> {
        let (number, unit) = decimal::split(input, KIND)?;
        match unit_size(unit) {
            Some(size) => number.times(size, input, KIND).map(BitRate),
            None => Err(unit_error(input.trim(), &number, unit)),
        }
    }
}

/// Bits per second in one `unit`; `None` if it is unknown or ambiguous.
fn unit_size(unit: &str) -> Option<u64> {
    let lower = unit.to_ascii_lowercase();
    let spelled = lower.strip_suffix("/s").or(lower.strip_suffix("/sec")).unwrap_or(&lower);
    let spelled = spelled.strip_suffix('s').unwrap_or(spelled);
    match spelled {
        // Spelled out, `bit` is unambiguous in upper and lower case.
        "bit" => return Some(1),
        "kbit" => return Some(1_000),
        "mbit" => return Some(1_000_000),
        "gbit" => return Some(1_000_000_000),
        "tbit" => return Some(1_000_000_000_000),
        "kibit" => return Some(1 << 10),
        "mibit" => return Some(1 << 20),
        "gibit" => return Some(1 << 30),
        "tibit" => return Some(1 << 40),
        _ => {}
    }
    let bytes = |size: u64| Some(size * 8);
    match unit {
        "b/s" => Some(1),
        "kb/s" | "Kb/s" | "Kbps" => Some(1_000),
        "Mb/s" | "Mbps" => Some(1_000_000),
        "Gb/s" | "Gbps" => Some(1_000_000_000),
        "Tb/s" | "Tbps" => Some(1_000_000_000_000),
        "Kib/s" | "Kibps" => Some(1 << 10),
        "Mib/s" | "Mibps" => Some(1 << 20),
        "Gib/s" | "Gibps" => Some(1 << 30),
        "B/s" | "Bps" | "byte/s" | "bytes/s" => bytes(1),
        "kB/s" | "kBps" => bytes(1_000),
        "MB/s" | "MBps" => bytes(1_000_000),
        "GB/s" | "GBps" => bytes(1_000_000_000),
        "TB/s" | "TBps" => bytes(1_000_000_000_000),
        "KiB/s" | "KiBps" => bytes(1 << 10),
        "MiB/s" | "MiBps" => bytes(1 << 20),
        "GiB/s" | "GiBps" => bytes(1 << 30),
        _ => None,
    }
}

/// The error for `unit`, which [`unit_size`] does not know.
fn unit_error(input: &str, number: &Decimal, unit: &str) -> ParseError {
    let n = &number.text;
    let ambiguous =
        |first: String, second: String| ParseError::Ambiguous { input: input.into(), first, second };
    if unit.is_empty() {
        return ParseError::NoUnit { input: input.into(), hint: format!("{n}bit, {n}Mbit or {n}Gbit") };
    }
    let (prefix, after_prefix) = match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some('K') => ("k", &unit[1..]),
        Some('M') => ("M", &unit[1..]),
        Some('G') => ("G", &unit[1..]),
        Some('T') => ("T", &unit[1..]),
        _ => ("", unit),
    };
    let bits = format!("{n} {prefix}bit/s");
    let bytes = format!("{n} {prefix}B/s");
    match after_prefix {
        // 10g, 10G
        "" => ambiguous(bits, bytes),
        // 10KB/s: used for both 1000 and 1024
        "B/s" | "Bps" if unit.starts_with('K') => ambiguous(bytes, format!("{n} KiB/s")),
        // 10gbps, 10GBPS, 10mb/s
        "bps" | "BPS" | "b/s" => ambiguous(
            format!("{bits} (bits per second, as in networking)"),
            format!("{bytes} (bytes per second, as in tc)"),
        ),
        // 10GB, 10Gb: a size
        "b" | "B" => ambiguous(bits, bytes),
        _ => ParseError::UnknownUnit {
            unit: unit.into(),
            what: "rate",
            hint: "bit, kbit, Mbit, Gbit, Tbit, b/s to Tb/s, or bytes as B/s to TB/s".into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn accepts() {
        for (text, bits) in [
            ("10gbit", 10_000_000_000),
            ("10Gbit", 10_000_000_000),
            ("10 GBIT/s", 10_000_000_000),
            ("9.4 Gbits/sec", 9_400_000_000),
            ("10Gb/s", 10_000_000_000),
            ("10Gbps", 10_000_000_000),
            ("100Mbps", 100_000_000),
            ("64Kbps", 64_000),
            ("2.5gbit", 2_500_000_000),
            ("1Tb/s", 1_000_000_000_000),
            ("1tbit", 1_000_000_000_000),
            ("64kb/s", 64_000),
            ("300bit", 300),
            ("300 b/s", 300),
            ("1B/s", 8),
            ("1kB/s", 8_000),
            ("125MB/s", 1_000_000_000),
            ("1.25GB/s", 10_000_000_000),
            ("1MBps", 8_000_000),
            ("1kibit", 1_024),
            ("1 Mibit/s", 1_048_576),
            ("1MiB/s", 8_388_608),
            ("10_000_000_000bit", 10_000_000_000),
            ("1e9 bit/s", 1_000_000_000),
            ("0bit", 0),
        ] {
            assert_eq!(text.parse(), Ok(BitRate(bits)), "{text}");
        }
    }

    #[test]
    fn rejects_ambiguous_units() {
        let as_networks = " (bits per second, as in networking)";
        let as_tc = " (bytes per second, as in tc)";
        for (text, first, second) in [
            ("10g", "10 Gbit/s".to_string(), "10 GB/s".to_string()),
            ("10G", "10 Gbit/s".into(), "10 GB/s".into()),
            ("10m", "10 Mbit/s".into(), "10 MB/s".into()),
            ("10GB", "10 Gbit/s".into(), "10 GB/s".into()),
            ("10Gb", "10 Gbit/s".into(), "10 GB/s".into()),
            ("10gbps", format!("10 Gbit/s{as_networks}"), format!("10 GB/s{as_tc}")),
            ("10mbps", format!("10 Mbit/s{as_networks}"), format!("10 MB/s{as_tc}")),
            ("10kbps", format!("10 kbit/s{as_networks}"), format!("10 kB/s{as_tc}")),
            ("10bps", format!("10 bit/s{as_networks}"), format!("10 B/s{as_tc}")),
            ("10GBPS", format!("10 Gbit/s{as_networks}"), format!("10 GB/s{as_tc}")),
            ("10gb/s", format!("10 Gbit/s{as_networks}"), format!("10 GB/s{as_tc}")),
            ("10KB/s", "10 kB/s".into(), "10 KiB/s".into()),
        ] {
            let expected = ParseError::Ambiguous { input: text.into(), first, second };
            assert_eq!(text.parse::<BitRate>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn rejects_everything_else() {
        assert_eq!(
            "10".parse::<BitRate>().unwrap_err().to_string(),
            "`10` has no unit; write 10bit, 10Mbit or 10Gbit"
        );
        for unknown in ["10ms", "10 Gx", "10gB/s", "10 /s", "10µs"] {
            assert!(matches!(unknown.parse::<BitRate>(), Err(ParseError::UnknownUnit { .. })), "{unknown}");
        }
        assert!(matches!("-10gbit".parse::<BitRate>(), Err(ParseError::Negative { .. })));
        assert!(matches!("10,5gbit".parse::<BitRate>(), Err(ParseError::Comma { .. })));
        assert!(matches!("nan gbit".parse::<BitRate>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("infgbit".parse::<BitRate>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("20000000tbit".parse::<BitRate>(), Err(ParseError::TooLarge { .. })));
        assert!(matches!("0.1bit".parse::<BitRate>(), Err(ParseError::TooSmall { .. })));
    }

    #[test]
    fn prints() {
        assert_eq!(BitRate(10_000_000_000).to_string(), "10 Gb/s");
        assert_eq!(BitRate(2_500_000_000).to_string(), "2.5 Gb/s");
        assert_eq!(BitRate(64_000).to_string(), "64 kb/s");
        assert_eq!(format!("{:.2}", BitRate(3_355_443_200)), "3.36 Gb/s");
    }

    #[test]
    fn converts() {
        let rate = BitRate(10_000_000_000);
        assert_eq!(rate.transmit_time(Bytes(1_514)), Time::from_nanos(1_212)); // 1211.2 ns, rounded up
        assert_eq!(rate.bytes_in(Time::from_millis(50)), Bytes(62_500_000)); // L8-bdp
        assert_eq!(BitRate(0).transmit_time(Bytes(1)), Time::MAX);
        assert_eq!(BitRate(1).transmit_time(Bytes(u64::MAX)), Time::MAX);
        assert_eq!(rate.bytes_per_sec_f64(), 1.25e9);
    }

    proptest! {
        #[test]
        fn display_parses_back(value: u64) {
            prop_assert_eq!(BitRate(value).to_string().parse(), Ok(BitRate(value)));
        }

        #[test]
        fn round_rates_parse_back(count in 0_u64..1_000_000, unit in 0_usize..5) {
            let rate = BitRate(count * UNITS[unit].1);
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
        }

        #[test]
        fn the_rate_carries_the_bytes_within_their_transmit_time(rate in 1_u64..1_000_000_000_000, bytes in 0_u64..1_000_000_000) {
            let time = BitRate(rate).transmit_time(Bytes(bytes));
            prop_assert!(BitRate(rate).bytes_in(time).0 >= bytes);
            let earlier = time.saturating_sub(Time::from_nanos(1));
            prop_assert!(bytes == 0 || BitRate(rate).bytes_in(earlier).0 <= bytes);
        }

        #[test]
        fn never_panics(text in "[0-9]{1,3}\\PC{0,6}") {
            let _ = text.parse::<BitRate>();
        }
    }
}
