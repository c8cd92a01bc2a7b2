//! A value on the axis of a chart.

/// A value of the horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub struct ChartValue {
    /// The label of its tick.
    pub text: String,
    /// Its number; `None` if it is not one.
    pub number: Option<f64>,
}
