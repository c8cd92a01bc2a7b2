//! Lengths on a page or a screen, as CSS defines them: 96 pixels are an inch.

use std::{fmt, str::FromStr};

/// Pixels of an inch (CSS Values and Units 3, section 5.2).
pub(crate) const PIXELS_PER_INCH: f64 = 96.0;

/// A unit of length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LengthUnit {
    Pixel,
    Point,
    Millimetre,
    Centimetre,
    Inch,
}

impl LengthUnit {
    const ALL: [LengthUnit; 5] = [
        LengthUnit::Pixel,
        LengthUnit::Point,
        LengthUnit::Millimetre,
        LengthUnit::Centimetre,
        LengthUnit::Inch,
    ];

    fn suffix(self) -> &'static str {
        match self {
            LengthUnit::Pixel => "px",
            LengthUnit::Point => "pt",
            LengthUnit::Millimetre => "mm",
            LengthUnit::Centimetre => "cm",
            LengthUnit::Inch => "in",
        }
    }

    fn pixels(self) -> f64 {
        match self {
            LengthUnit::Pixel => 1.0,
            LengthUnit::Point => PIXELS_PER_INCH / 72.0,
            LengthUnit::Millimetre => PIXELS_PER_INCH / 25.4,
            LengthUnit::Centimetre => PIXELS_PER_INCH / 2.54,
            LengthUnit::Inch => PIXELS_PER_INCH,
        }
    }
}

/// A length with the unit in which it was given: `8pt`, `85mm`, `8.5cm`, `3.3in`, `320px`, or `320` (pixels).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    number: f64,
    unit: LengthUnit,
    has_unit: bool,
}

impl Length {
    /// The length in pixels, 96 to the inch.
    pub fn pixels(self) -> f64 {
        self.number * self.unit.pixels()
    }

    /// Parses a width and a height: `85mmx60mm`, `960x540`.
    ///
    /// # Errors
    /// One of them is not a length, or only one has a unit.
    pub fn parse_pair(text: &str) -> Result<(Length, Length), String> {
        // The x of `px` is not a separator.
        let pair = text.match_indices('x').find_map(|(at, _)| {
            Some((text[..at].trim().parse::<Length>().ok()?, text[at + 1..].trim().parse::<Length>().ok()?))
        });
        match pair {
            Some((width, height)) if width.has_unit != height.has_unit => {
                let unit = if width.has_unit { width.unit } else { height.unit }.suffix();
                let (width, height) = (width.number, height.number);
                Err(format!("{text:?} has one unit for two lengths: write {width}{unit}x{height}{unit}"))
            }
            Some(pair) => Ok(pair),
            None => Err(format!("{text:?} is not WIDTHxHEIGHT, as in 960x540 (pixels) or 85mmx60mm")),
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits);
        let unit = match suffix {
            "" => Some(LengthUnit::Pixel),
            suffix => LengthUnit::ALL.into_iter().find(|unit| unit.suffix() == suffix.trim()),
        };
        match (number.parse::<f64>(), unit) {
            (Ok(number), Some(unit)) if number > 0.0 && number.is_finite() => {
                Ok(Length { number, unit, has_unit: !suffix.is_empty() })
            }
            _ => Err(format!("{text:?} is not a length; units are px (the default), pt, mm, cm and in")),
        }
    }
}

/// As SVG writes it: pixels without a unit.
impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.unit {
            LengthUnit::Pixel => write!(f, "{}", self.number),
            unit => write!(f, "{}{}", self.number, unit.suffix()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_css_units() {
        let pixels = |text: &str| text.parse::<Length>().map(Length::pixels);
        assert_eq!(pixels("12"), Ok(12.0));
        assert_eq!(pixels("9pt"), Ok(12.0));
        assert_eq!(pixels("25.4mm"), Ok(96.0));
        assert_eq!(pixels("2.54 cm"), Ok(96.0));
        assert_eq!(pixels("0.5in"), Ok(48.0));
        for text in ["", "mm", "-1mm", "0", "1em", "1e3px", "inf", "1.2.3", "1px2"] {
            assert!(pixels(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pairs_are_split_at_the_x_between_two_lengths() {
        let pair = |text: &str| Length::parse_pair(text).map(|(w, h)| format!("{w} {h}"));
        assert_eq!(pair("960x540"), Ok("960 540".into()));
        assert_eq!(pair("960pxx540px"), Ok("960 540".into()));
        assert_eq!(pair("85mmx6cm"), Ok("85mm 6cm".into()));
        assert!(pair("85x60mm").unwrap_err().contains("write 85mmx60mm"));
        for text in ["960", "0x5", "960*540", "-1x5", "", "x", "axb"] {
            assert!(pair(text).is_err(), "{text}");
        }
    }
}
