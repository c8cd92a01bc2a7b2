//! A number with the unit in which a file has it. Sweeps and searches step through values of fields whose
//! meaning they do not need.

use units::{BitRate, Bytes, Time};

/// A numeric value of a field: `100kB`, `20ms`, `1gbit`, `100p`, `0.1%`, `9000`, `0.5`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount {
    /// In bytes, seconds, bit/s or packets; a percentage as a share from 0 to 1; other numbers unchanged.
    pub value: f64,
    unit: Unit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Rate,
    Time,
    Packets,
    Percent,
    Whole,
    Number,
}

impl Amount {
    /// Parses a value; `None` if it is not a number with a unit of fields.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let of = |value: f64, unit| Some(Amount { value, unit });
        // No field takes "inf", "nan" or "+5".
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        if let Ok(whole) = text.parse::<u64>() {
            return of(whole as f64, Unit::Whole);
        }
        if let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) {
            return of(number, Unit::Number);
        }
        if let Some(count) = text.strip_suffix('p').and_then(|count| count.trim().parse::<u64>().ok()) {
            return of(count as f64, Unit::Packets);
        }
        if text.ends_with('%') {
            return of(units::parse_share(text).ok()?, Unit::Percent);
        }
        if let Ok(time) = text.parse::<Time>() {
            return of(time.as_secs_f64(), Unit::Time);
        }
        if let Ok(rate) = text.parse::<BitRate>() {
            return of(rate.as_f64(), Unit::Rate);
        }
        of(text.parse::<Bytes>().ok()?.0 as f64, Unit::Bytes)
    }

    /// Another value in the same unit, rounded to the unit's resolution; at least zero.
    pub fn with(self, value: f64) -> Self {
        let value = value.max(0.0);
        let value = match self.unit {
            Unit::Bytes | Unit::Rate | Unit::Packets | Unit::Whole => value.round(),
            Unit::Time => (value * 1e9).round() * 1e-9,
            Unit::Percent | Unit::Number => twelve_digits(value),
        };
        Amount { value, ..self }
    }

    /// The text for the scenario file, exact.
    pub fn text(self) -> String {
        let value = self.value;
        let joined = |text: String| text.replace(' ', "");
        match self.unit {
            Unit::Bytes => joined(Bytes(value as u64).to_string()),
            Unit::Rate => joined(BitRate(value as u64).to_string()),
            Unit::Time => joined(Time::from_nanos((value * 1e9).round() as u64).to_string()),
            Unit::Packets => format!("{value}p"),
            Unit::Percent => format!("{}%", twelve_digits(value * 100.0)),
            Unit::Whole => value.to_string(),
            // As a share, a bare 1 is ambiguous (1 or 1 %); 1.0 is not.
            Unit::Number => format!("{value:?}"),
        }
    }

    /// True if both have the same unit.
    pub fn is_like(self, other: Amount) -> bool {
        self.unit == other.unit
    }

    /// True if only whole numbers are valid, so that 1 is the smallest step.
    pub fn is_whole(self) -> bool {
        matches!(self.unit, Unit::Packets | Unit::Whole | Unit::Bytes)
    }

    /// The unit of [`Amount::value`], empty for plain numbers.
    pub fn unit(self) -> &'static str {
        match self.unit {
            Unit::Bytes => "B",
            Unit::Rate => "bit/s",
            Unit::Time => "s",
            Unit::Packets => "packets",
            Unit::Percent | Unit::Whole | Unit::Number => "",
        }
    }
}

/// Rounds to twelve digits: sums of decimal steps, which are binary fractions, otherwise end as in
/// 0.30000000000000004.
fn twelve_digits(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_parses_to_the_same_amount() {
        for (text, value) in [
            ("20KiB", 20_480.0),
            ("25MB", 25e6),
            ("20ms", 0.02),
            ("117.5ms", 0.1175),
            ("1gbit", 1e9),
            ("100p", 100.0),
            ("0.1%", 0.001),
            ("9000", 9000.0),
            ("0.5", 0.5),
            ("1e-5", 1e-5),
        ] {
            let amount = Amount::parse(text).unwrap();
            assert!((amount.value / value - 1.0).abs() < 1e-12, "{text} {amount:?}");
            assert_eq!(Amount::parse(&amount.text()), Some(amount), "{text} became {}", amount.text());
        }
        assert_eq!(Amount::parse("1gbit").unwrap().text(), "1Gb/s");
        assert_eq!(Amount::parse("100p").unwrap().with(133.4).text(), "133p");
        assert_eq!(Amount::parse("0.1%").unwrap().with(0.0003).text(), "0.03%");
        assert_eq!(Amount::parse("0.5").unwrap().with(1.0).text(), "1.0");
    }

    #[test]
    fn rejects_other_texts() {
        for text in ["", "cubic", "25M", "inf", "nan", "+5", "-1", "true", "1x", "p"] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }
}
