//! Presentation of runs: SVG plots, an HTML report in one file, text tables for terminals, and the page of
//! `longfat view`.
//!
//! All of it is computed from the record's rows and its summary; nothing here measures or decides. Plots and
//! reports have a light and a dark colour scheme (CSS `prefers-color-scheme`), need no script and no network,
//! and use colours that colour-blind readers can distinguish.
//!
//! ```
//! let run = view::LoadedRun::from_rows(example(), "runs/x/1", vec![], vec![], vec![]);
//! let svg = view::plot(&[&run], &["goodput", "rtt"], &view::PlotOptions::default())?;
//! assert!(svg.starts_with("<svg"));
//! # fn example() -> schema::Summary { serde_json::from_str(record::EXAMPLE_SUMMARY).unwrap() }
//! # Ok::<(), view::Error>(())
//! ```
//!
//! The caller writes the files. The live display of a run belongs to the program.

mod appearance;
mod axis;
mod axis_name;
mod canvas;
mod chart;
mod chart_value;
mod compare;
mod distribution;
mod engines;
mod error;
mod escape;
mod events;
mod figure;
mod gnuplot;
mod html_table;
pub mod image;
mod label;
mod length;
mod loaded;
mod metric;
mod metric_names;
pub mod number;
mod page;
mod part;
mod plot;
mod plot_options;
mod report;
mod report_parts;
pub mod reproduced_tables;
mod reproduction;
mod run_list;
mod series;
mod settings;
mod style;
pub mod sweep;
pub mod table;
mod text_table;
mod theme;
mod web100;
pub mod words;
mod xplot;

pub use appearance::{Appearance, PictureStyle};
pub use chart::{Chart, ChartCurve, ChartMark, ChartPoint, chart, chart_with};
pub use chart_value::ChartValue;
pub use compare::{Comparison, FlowComparison, MetricComparison, compare};
pub use distribution::{BoxFigures, Distribution, GroupFigures, ValueGroup};
pub use engines::{EngineComparison, EngineGroup, engines, engines_text};
pub use error::Error;
pub use gnuplot::gnuplot;
pub use length::Length;
pub use loaded::LoadedRun;
pub use metric_names::metric_names;
pub use page::{
    Browsers, KnownFlow, KnownRun, Page, PageContent, PageError, PageOptions, RunItem, gather_published,
    names_loopback, page_files, restrict_page,
};
pub use plot::{plot, plot_against};
pub use plot_options::{PlotOptions, Reference};
pub use report::{ReportExtra, report, scenario_section, sensitivity_section};
pub use reproduction::{Reproduced, ReproducedFigure, reproduction};
pub use theme::Theme;
pub use web100::{FlowTraceCounts, TraceCounts, trace_counts, trace_counts_table};
pub use xplot::xplot;
