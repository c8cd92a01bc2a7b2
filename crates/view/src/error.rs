//! Errors of plots and pictures.

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No metric or column has this name.
    #[error("there is no metric \"{name}\"; the nearest are {} (docs/record.md has all columns)",
        crate::metric_names::nearest(name).join(", "))]
    UnknownMetric {
        /// The name as given.
        name: String,
    },
    /// A metric of links instead of one of flows.
    #[error("\"{name}\" is a metric of links; a plot against another metric needs metrics of flows")]
    NotOfFlows {
        /// The name as given.
        name: String,
    },
    /// No run has a value of this metric.
    #[error("no complete run has a value of \"{name}\"")]
    NoValues {
        /// The name as given.
        name: String,
    },
    /// No metric was given.
    #[error("no metric was given; there are {}", crate::metric_names::SHORT_NAMES.join(", "))]
    NoMetric,
    /// The requested size is too small; the text states by how much.
    #[error("{0}")]
    Size(String),
    /// The SVG could not be converted.
    #[error("cannot convert the plot: {0}")]
    Image(String),
}
