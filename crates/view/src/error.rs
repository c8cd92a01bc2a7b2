//! What can go wrong with a picture.

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No metric or column has this name.
    #[error("there is no metric \"{name}\"; there are {} and the columns of the Parquet files ({})",
        crate::metric::FRIENDLY.join(", "), crate::metric::column_names().join(", "))]
    UnknownMetric {
        /// What was asked for.
        name: String,
    },
    /// A metric of links, where one of flows is needed.
    #[error("\"{name}\" belongs to links; what is drawn against is a metric of flows")]
    NotOfFlows {
        /// What was asked for.
        name: String,
    },
    /// Nothing was asked for.
    #[error("no metric was given; there are {}", crate::metric::FRIENDLY.join(", "))]
    NoMetric,
    /// A picture could not be made of its SVG.
    #[error("cannot make a picture: {0}")]
    Image(String),
}
