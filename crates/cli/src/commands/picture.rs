//! The options of pictures: size, letters and style.

use clap::{Args, ValueEnum};
use view::{Appearance, PictureStyle};

/// Options of commands that draw a picture.
#[derive(Debug, Args)]
pub struct PictureArgs {
    /// Width and height in pixels, as in 960x540 [default: 960, and as high as needed]
    #[arg(long, value_name = "WxH", value_parser = parse_size)]
    size: Option<(u32, u32)>,
    /// Size of letters in pixels; lines grow with it [default: 12]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u8).range(6..=60))]
    font_size: Option<u8>,
    /// Style: screen, or paper (black on white, thin lines, dashes, no background)
    #[arg(long, value_enum, default_value_t = Style::Screen)]
    style: Style,
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
            font_size: self.font_size.map(f64::from),
            style: match self.style {
                Style::Screen => PictureStyle::Screen,
                Style::Paper => PictureStyle::Paper,
            },
        }
    }

    /// Whether any of these options was given.
    pub fn is_given(&self) -> bool {
        self.appearance() != Appearance::default()
    }
}

/// Parses `960x540`.
fn parse_size(text: &str) -> Result<(u32, u32), String> {
    let parsed = text
        .split_once('x')
        .and_then(|(width, height)| Some((width.trim().parse().ok()?, height.trim().parse().ok()?)));
    match parsed {
        Some((width @ 1..=10_000, height @ 1..=10_000)) => Ok((width, height)),
        _ => Err(format!("{text:?} is not WIDTHxHEIGHT in pixels up to 10000, as in 960x540")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("960x540"), Ok((960, 540)));
        for text in ["960", "0x5", "960*540", "-1x5", "960x20000", ""] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
