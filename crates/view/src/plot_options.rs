//! The options of a plot.

/// Options of a plot.
#[derive(Debug, Clone)]
pub struct PlotOptions {
    /// The heading, if any.
    pub title: Option<String>,
    /// Width in pixels.
    pub width: u32,
    /// Height of one panel's plotting area in pixels.
    pub panel_height: u32,
    /// Horizontal lines in the goodput panel, in addition to the runs' wire limits.
    pub references: Vec<Reference>,
    /// The time span in seconds since the start; `None` for the whole run.
    pub span_s: Option<(f64, f64)>,
    /// Whether the SVG contains the style sheet. False inside a page that has it.
    pub standalone: bool,
    /// Whether the goodput panel has the flows' verdicts over time below it.
    pub shows_verdicts: bool,
}

impl Default for PlotOptions {
    fn default() -> Self {
        PlotOptions {
            title: None,
            width: 960,
            panel_height: 150,
            references: Vec::new(),
            span_s: None,
            standalone: true,
            shows_verdicts: true,
        }
    }
}

/// A published figure or another level to compare goodput with.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Its label, as in `published`.
    pub label: String,
    /// Its value, bit/s.
    pub value_bps: f64,
    /// Index of the run that it belongs to, for its colour.
    pub run: Option<usize>,
}
