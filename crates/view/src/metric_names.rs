//! The names of metrics that can be plotted.

use schema::{FlowSample, LinkSample, Metrics, nearest_names};

/// The short names, in the order of the help.
pub(crate) const SHORT_NAMES: [&str; 13] = [
    "goodput",
    "cwnd",
    "rtt",
    "rwnd",
    "inflight",
    "sndbuf",
    "ssthresh",
    "pacing",
    "delivery_rate",
    "retrans",
    "queue",
    "drops",
    "link_rate",
];

/// The short names of metrics. Column names of the Parquet files are accepted too.
pub fn metric_names() -> &'static [&'static str] {
    &SHORT_NAMES
}

/// The metrics whose names are nearest to `name`.
pub(crate) fn nearest(name: &str) -> Vec<&'static str> {
    nearest_names(name, SHORT_NAMES.into_iter().chain(column_names()))
}

/// The metric columns of the flows and links tables.
pub(crate) fn column_names() -> Vec<&'static str> {
    FlowSample::COLUMNS.iter().chain(LinkSample::COLUMNS).map(|column| column.name).collect()
}
