//! Amounts and rates as iperf3 prints them (`unit_snprintf` of its `src/units.c`): bytes by 1024, bits by
//! 1000, four characters.

use std::str::FromStr;

/// Names of the powers, of which iperf3 has five.
const BYTES: [&str; 5] = ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"];
const BITS: [&str; 5] = ["bits", "Kbits", "Mbits", "Gbits", "Tbits"];
const BYTES_STEP: f64 = 1024.0;
const BITS_STEP: f64 = 1000.0;

/// The unit of rates: iperf3's `-f`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateUnit {
    /// Bits, with the fitting prefix.
    #[default]
    Adaptive,
    /// Bits by this power of 1000, 1 to 4.
    Bits(u8),
    /// Bytes by this power of 1024, 1 to 4.
    Bytes(u8),
}

impl FromStr for RateUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (lower, upper) = ("kmgt", "KMGT");
        let power = |letters: &str| letters.find(text).map(|at| at as u8 + 1).filter(|_| text.len() == 1);
        match (power(lower), power(upper)) {
            (Some(power), _) => Ok(RateUnit::Bits(power)),
            (_, Some(power)) => Ok(RateUnit::Bytes(power)),
            _ => Err(format!(
                "there is no format {text:?}; there are k, m, g and t (bits), K, M, G and T (bytes)"
            )),
        }
    }
}

/// An amount, such as `1.18 MBytes`.
pub(super) fn amount(bytes: u64) -> String {
    adaptive(bytes as f64, BYTES_STEP, &BYTES)
}

/// A rate, such as `9.43 Gbits/sec`.
pub(super) fn rate(bits_per_second: f64, unit: RateUnit) -> String {
    let text = match unit {
        RateUnit::Adaptive => adaptive(bits_per_second, BITS_STEP, &BITS),
        RateUnit::Bits(power) => fixed(bits_per_second, BITS_STEP, power, &BITS),
        RateUnit::Bytes(power) => fixed(bits_per_second / 8.0, BYTES_STEP, power, &BYTES),
    };
    format!("{text}/sec")
}

fn adaptive(mut value: f64, step: f64, names: &[&str; 5]) -> String {
    let mut power = 0;
    while value >= step && power < names.len() - 1 {
        value /= step;
        power += 1;
    }
    format!("{} {}", four_places(value), names[power])
}

fn fixed(value: f64, step: f64, power: u8, names: &[&str; 5]) -> String {
    let power = usize::from(power).min(names.len() - 1);
    format!("{} {}", four_places(value / step.powi(power as i32)), names[power])
}

/// Three significant digits in four characters. The limits are the values at which the next shorter form
/// would round up to one digit more.
fn four_places(value: f64) -> String {
    if value < 9.995 {
        format!("{value:4.2}")
    } else if value < 99.95 {
        format!("{value:4.1}")
    } else {
        format!("{value:4.0}")
    }
}

/// Two significant digits without trailing zeros, such as `0.031`; never `1e+02`, which iperf3 prints for
/// 100.
pub(super) fn two_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let places = (1 - value.abs().log10().floor() as i32).clamp(0, 9);
    let text = format!("{value:.*}", places as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_printed_as_by_iperf3() {
        let cases = [
            (0, "0.00 Bytes"),
            (999, " 999 Bytes"),
            (1024, "1.00 KBytes"),
            (144 * 1024, " 144 KBytes"),
            (1_178_599_424, "1.10 GBytes"),
            (1_073_741_823, "1024 MBytes"),
        ];
        for (bytes, text) in cases {
            assert_eq!(amount(bytes), text);
        }
    }

    #[test]
    fn rates_are_printed_in_all_units() {
        assert_eq!(rate(9.43e9, RateUnit::Adaptive), "9.43 Gbits/sec");
        assert_eq!(rate(99.96e6, RateUnit::Adaptive), " 100 Mbits/sec");
        assert_eq!(rate(9.43e9, "m".parse().unwrap()), "9430 Mbits/sec");
        assert_eq!(rate(8.0 * 1024.0 * 1024.0, "M".parse().unwrap()), "1.00 MBytes/sec");
        for wrong in ["", "km", "x", "kmgt"] {
            assert!(wrong.parse::<RateUnit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn percentages_have_two_digits_and_no_exponent() {
        let cases =
            [(0.0, "0"), (0.0312, "0.031"), (0.5, "0.5"), (12.0, "12"), (99.7, "100"), (100.0, "100")];
        for (value, text) in cases {
            assert_eq!(two_digits(value), text);
        }
    }
}
