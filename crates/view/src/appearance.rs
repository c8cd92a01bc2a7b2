//! The appearance of a plot on a page or in a paper: size, font size, and style.

use crate::chart::{Chart, chart_options, chart_with};
use crate::length::PIXELS_PER_INCH;
use crate::style::paper_css;
use crate::{Error, Length, PlotOptions};

/// Default font size of a plot, pixels.
const FONT_SIZE: f64 = 12.0;
/// Smallest width of a plot at [`FONT_SIZE`], pixels.
const MIN_WIDTH: f64 = 320.0;
/// Smallest height of a panel at that font size, pixels.
const MIN_PANEL_HEIGHT: f64 = 60.0;

/// The style of a plot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PictureStyle {
    /// Colours, for light and dark screens.
    #[default]
    Screen,
    /// Black on white with thin lines and dashes, without a background and without the coloured verdicts.
    Paper,
}

/// The appearance of a plot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Appearance {
    /// Width, and height if it is fixed; without a fixed height, [`PlotOptions`] determine the height.
    /// `None`: they determine both.
    pub size: Option<(Length, Option<Length>)>,
    /// Font size; `None`: 12 pixels. Lines and marks scale with it.
    pub font_size: Option<Length>,
    /// The style.
    pub style: PictureStyle,
}

impl Appearance {
    /// Draws a chart.
    ///
    /// # Errors
    /// The size is too small for the font size.
    pub fn draw_chart(&self, chart: &Chart) -> Result<String, Error> {
        self.draw(&chart_options(), 1, |options| Ok(chart_with(chart, options)))
    }

    /// Draws a plot of `panels` panels with `draw`, which may be called twice.
    ///
    /// # Errors
    /// The errors of `draw`, or if the size is too small for the font size and the panels.
    pub fn draw(
        &self,
        options: &PlotOptions,
        panels: usize,
        draw: impl Fn(&PlotOptions) -> Result<String, Error>,
    ) -> Result<String, Error> {
        let scale = self.font_size.map_or(FONT_SIZE, Length::pixels) / FONT_SIZE;
        let width = self.size.map_or(f64::from(options.width), |(width, _)| width.pixels());
        let layout_width = width / scale;
        if layout_width < MIN_WIDTH {
            let minimum = describe_size(MIN_WIDTH * scale);
            return Err(Error::Size(format!(
                "a width of {width:.0} pixels is too narrow: at least {minimum} for this font size"
            )));
        }
        let mut options = PlotOptions {
            width: layout_width.round() as u32,
            shows_verdicts: options.shows_verdicts && self.style == PictureStyle::Screen,
            ..options.clone()
        };
        let mut svg = draw(&options)?;
        let mut height = height_of(&svg) * scale;
        if let Some((_, Some(wanted))) = self.size {
            let wanted = wanted.pixels();
            let change = (wanted - height) / scale / panels.max(1) as f64;
            let panel_height = f64::from(options.panel_height) + change;
            if panel_height < MIN_PANEL_HEIGHT {
                let missing = (MIN_PANEL_HEIGHT - panel_height) * scale * panels.max(1) as f64;
                let minimum = describe_size(wanted + missing);
                let panels = if panels > 1 { format!(" for {panels} panels") } else { String::new() };
                return Err(Error::Size(format!(
                    "a height of {wanted:.0} pixels is too low{panels}: at least {minimum} for this font size"
                )));
            }
            options.panel_height = panel_height.floor() as u32;
            svg = draw(&options)?;
            height = wanted;
        }
        if let Some((width, fixed)) = self.size {
            let height = fixed.map_or_else(|| format!("{height:.0}"), |height| height.to_string());
            svg = resized(&svg, &width.to_string(), &height);
        } else if self.font_size.is_some() {
            svg = resized(&svg, &format!("{width:.0}"), &format!("{height:.0}"));
        }
        Ok(match self.style {
            PictureStyle::Screen => svg,
            PictureStyle::Paper => svg.replacen("</style>", &format!("{}</style>", paper_css()), 1),
        })
    }
}

/// The height of a picture in the units of its view box.
fn height_of(svg: &str) -> f64 {
    let view_box = svg.split("viewBox=\"").nth(1).and_then(|rest| rest.split('"').next());
    view_box.and_then(|text| text.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
}

/// A size in pixels and millimetres.
fn describe_size(pixels: f64) -> String {
    format!("{:.0} pixels ({:.0} mm)", pixels.ceil(), (pixels / PIXELS_PER_INCH * 25.4).ceil())
}

/// The picture scaled to this width and height, as SVG writes them.
fn resized(svg: &str, width: &str, height: &str) -> String {
    let (Some(from), Some(to)) = (svg.find(" width=\""), svg.find(" role=")) else { return svg.to_owned() };
    format!("{} width=\"{width}\" height=\"{height}\"{}", svg[..from].trim_end(), &svg[to..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(options: &PlotOptions) -> Result<String, Error> {
        let height = 50 + 2 * options.panel_height;
        let width = options.width;
        Ok(format!(
            "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\"><style>a</style></svg>"
        ))
    }

    fn with(size: Option<&str>, font_size: Option<&str>) -> Result<String, Error> {
        let size = size.map(|size| match Length::parse_pair(size) {
            Ok((width, height)) => (width, Some(height)),
            Err(_) => (size.parse().unwrap(), None),
        });
        let font_size = font_size.map(|size| size.parse().unwrap());
        let appearance = Appearance { size, font_size, style: PictureStyle::Screen };
        appearance.draw(&PlotOptions::default(), 2, drawn)
    }

    #[test]
    fn size_and_font_size_scale_the_picture() {
        assert_eq!(with(None, None).unwrap(), drawn(&PlotOptions::default()).unwrap());
        let svg = with(Some("800x600"), Some("24")).unwrap();
        // A font size of 24 pixels: the picture is laid out at half the size.
        assert!(svg.starts_with("<svg viewBox=\"0 0 400 300\" width=\"800\" height=\"600\" role"), "{svg}");
        // 80 mm are 302 pixels, and 6 pt are 8 pixels: the picture is laid out at one and a half times the
        // size.
        let svg = with(Some("80mmx80mm"), Some("6pt")).unwrap();
        assert!(svg.starts_with("<svg viewBox=\"0 0 454 "), "{svg}");
        assert!(svg.contains(" width=\"80mm\" height=\"80mm\" role"), "{svg}");
    }

    /// `drawn` makes two panels of 150 pixels and 50 more.
    #[test]
    fn a_width_alone_does_not_fix_the_height() {
        let svg = with(Some("80mm"), Some("6pt")).unwrap();
        assert!(svg.starts_with("<svg viewBox=\"0 0 454 350\" width=\"80mm\" height=\"233\" role"), "{svg}");
    }

    #[test]
    fn a_size_too_small_for_the_font_is_refused() {
        assert!(with(Some("300x600"), None).unwrap_err().to_string().contains("at least 320"));
        let error = with(Some("800x100"), None).unwrap_err().to_string();
        assert!(error.contains("at least 170"), "{error}");
        assert!(with(Some("800x170"), None).is_ok());
    }

    #[test]
    fn the_paper_style_is_black_without_background() {
        let paper = Appearance { style: PictureStyle::Paper, ..Appearance::default() };
        let svg = paper.draw(&PlotOptions::default(), 1, drawn).unwrap();
        assert!(svg.contains(".bg{fill:none}") && svg.contains("Helvetica"), "{svg}");
    }
}
