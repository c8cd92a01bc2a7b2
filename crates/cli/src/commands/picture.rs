//! The options of pictures: size, font and style.

use std::ops::RangeInclusive;

use clap::{Args, ValueEnum};
use view::{Appearance, Length, PictureStyle};

/// Maximum length of a side, pixels.
const MAX_PIXELS: f64 = 10_000.0;
/// Allowed font sizes, pixels.
const FONT_PIXELS: RangeInclusive<f64> = 6.0..=60.0;

/// Options of commands that draw a picture.
#[derive(Debug, Args)]
pub struct PictureArgs {
    /// Width, as in 85mm or 960 (pixels), or width and height, as in 85mmx65mm; units px, pt, mm, cm, in.
    /// Without a height the picture is as high as needed [default: 960]
    #[arg(long, value_name = "W[xH]", value_parser = parse_size)]
    size: Option<(Length, Option<Length>)>,
    /// Font size, as in 12 (pixels) or 8pt; the width of lines is scaled with it [default: 12]
    #[arg(long, value_name = "SIZE", value_parser = parse_font_size)]
    font_size: Option<Length>,
    /// Style: screen, or paper (black on white, thin lines, dashes, no background)
    #[arg(long, value_enum, default_value_t = Style::Screen)]
    style: Style,
    /// Title of the picture; "" for none, as in papers with captions [default: the scenario's]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// The style of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Screen,
    Paper,
}

impl PictureArgs {
    /// The appearance that these options describe.
    pub fn appearance(&self) -> Appearance {
        Appearance {
            size: self.size,
            font_size: self.font_size,
            style: match self.style {
                Style::Screen => PictureStyle::Screen,
                Style::Paper => PictureStyle::Paper,
            },
        }
    }

    /// The title to draw instead of `default`.
    pub fn title(&self, default: &str) -> String {
        self.title.clone().unwrap_or_else(|| default.to_owned())
    }

    /// The title to draw instead of `default`; `None` for no title.
    pub fn title_or_none(&self, default: Option<String>) -> Option<String> {
        self.title.clone().or(default).filter(|title| !title.is_empty())
    }

    /// Whether any of these options was given.
    pub fn is_given(&self) -> bool {
        self.appearance() != Appearance::default() || self.title.is_some()
    }
}

/// Parses `960x540`, `85mmx60mm`, `85mm`.
fn parse_size(text: &str) -> Result<(Length, Option<Length>), String> {
    let size = match text.parse() {
        Ok(width) => (width, None),
        Err(_) => Length::parse_pair(text).map(|(width, height)| (width, Some(height)))?,
    };
    let mut sides = [Some(size.0), size.1].into_iter().flatten();
    match sides.all(|length| (1.0..=MAX_PIXELS).contains(&length.pixels())) {
        true => Ok(size),
        false => Err(format!("{text:?}: each side must have 1 to {MAX_PIXELS} pixels (96 per inch)")),
    }
}

/// Parses `12`, `8pt`.
fn parse_font_size(text: &str) -> Result<Length, String> {
    let size: Length = text.parse()?;
    match FONT_PIXELS.contains(&size.pixels()) {
        true => Ok(size),
        false => Err(format!("{text:?}: the font size must be 6 to 60 pixels (4.5pt to 45pt)")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_outside_the_limits_are_refused() {
        assert!(parse_size("96x1in").unwrap_err().contains("96inx1in"));
        assert_eq!(parse_size("960x540").unwrap().0.pixels(), 960.0);
        assert_eq!(parse_size("2in").map(|(width, height)| (width.pixels(), height)), Ok((192.0, None)));
        assert!(parse_size("20000").is_err() && parse_size("85mmx").is_err());
        assert!(parse_size("960x20000").is_err() && parse_size("5mx5m").is_err());
        assert!(parse_size("3mx3m").is_err() && parse_size("0.1mmx5mm").is_err());
        assert_eq!(parse_font_size("9pt").unwrap().pixels(), 12.0);
        assert!(parse_font_size("4pt").is_err() && parse_font_size("61").is_err());
    }
}
