//! What people look at: SVG plots, a one-file HTML report, and text tables for terminals.
//!
//! Everything is made from the record's rows and the summary alone; nothing here measures or decides.
//! Plots and reports carry both colour schemes (CSS `prefers-color-scheme`), need no script and no network,
//! and use colours that colour-blind readers can tell apart.
//!
//! ```
//! let run = view::LoadedRun::from_rows(example(), "runs/x/1", vec![], vec![], vec![]);
//! let svg = view::plot(&[&run], &["goodput", "rtt"], &view::PlotOptions::default())?;
//! assert!(svg.starts_with("<svg"));
//! # fn example() -> schema::Summary { serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap() }
//! # Ok::<(), view::Error>(())
//! ```
//!
//! Not here: files are written by the caller, and the live view of a run is the binary's.

mod axis;
mod canvas;
mod chart;
mod compare;
mod error;
mod escape;
mod events;
mod figure;
mod gnuplot;
pub mod image;
mod label;
mod loaded;
mod metric;
pub mod number;
mod page;
mod plot;
mod report;
mod report_parts;
mod reproduction;
mod series;
mod style;
pub mod sweep;
pub mod table;
pub mod words;
mod xplot;

pub use chart::{Chart, ChartCurve, ChartPoint, ChartValue, chart};
pub use compare::{Comparison, FlowComparison, MetricComparison, compare};
pub use error::Error;
pub use gnuplot::gnuplot;
pub use loaded::LoadedRun;
pub use metric::metric_names;
pub use page::{KnownFlow, KnownRun, Page, PageError, PageOptions, RunItem, gather_published};
pub use plot::{PlotOptions, Reference, plot, plot_against};
pub use report::{ReportExtra, report, scenario_section, sensitivity_section};
pub use reproduction::{Reproduced, ReproducedFigure, reproduction};
pub use xplot::xplot;
