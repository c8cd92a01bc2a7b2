//! `longfat plot`: a run's metrics, those of several, or their distribution, as a picture.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use experiment::RunFigure;
use record::RunsLocation;
use serde_json::json;
use units::Time;
use view::{Distribution, LoadedRun, PlotOptions};

use super::{
    completions::complete_runs,
    picture::PictureArgs,
    records::{check_picture, find_all, picture, write, write_file},
};
use crate::{exit::Exit, output};

/// Options of `plot`.
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// Runs; the plots of several are overlaid. SCENARIO/ stands for all runs of a scenario
    #[arg(required = true, value_name = "RUN", add = ArgValueCompleter::new(complete_runs))]
    keys: Vec<String>,
    /// Metrics, separated by commas: cwnd, rtt, goodput, ... or any column's name
    #[arg(long, value_delimiter = ',', default_value = "goodput,cwnd,rtt")]
    metric: Vec<String>,
    /// Plot against this metric instead of time: one point per sample of the second half of each flow, or
    /// between --from and --to
    #[arg(long, value_name = "METRIC")]
    against: Option<String>,
    /// Plot the cumulative distribution of a figure over runs, such as flows.bulk.goodput, or of a
    /// metric's samples, such as rtt; repeats are one group
    #[arg(long, value_name = "METRIC", conflicts_with_all = ["metric", "against", "box_plot"])]
    cdf: Option<String>,
    /// Plot box plots of a figure or metric, as for --cdf: median, quartiles, whiskers of 1.5 interquartile
    /// ranges
    #[arg(long = "box", value_name = "METRIC", conflicts_with_all = ["metric", "against"])]
    box_plot: Option<String>,
    /// Start time, as in 4.5s since the start of the run
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// End time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
    #[command(flatten)]
    picture: PictureArgs,
    /// Output file: SVG, PNG or PDF by its extension [default: SVG on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &PlotArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    check_picture(args.output.as_deref())?;
    check_options(args)?;
    let mut records = Vec::new();
    for key in &args.keys {
        records.extend(find_all(runs, key)?);
    }
    match args.cdf.as_ref().or(args.box_plot.as_ref()) {
        Some(metric) => plot_distribution(args, metric, &records, json),
        None => plot_metrics(args, &records, json),
    }
}

/// Refuses unknown metrics, sizes too small for the font, and spans that end before they begin. This happens
/// before any record is read: drawing a plot without runs checks the options.
fn check_options(args: &PlotArgs) -> anyhow::Result<()> {
    let bad = |error: view::Error| Exit::BadInput(error.to_string());
    let appearance = args.picture.appearance();
    match args.cdf.as_ref().or(args.box_plot.as_ref()) {
        Some(metric) => {
            // The name of a run's figure can be checked only with the runs' flows.
            if !metric.contains('.') {
                view::plot(&[], &[metric], &PlotOptions::default()).map_err(bad)?;
            }
            appearance.draw_chart(&view::Chart::default()).map_err(bad)?;
        }
        None => {
            draw_metrics(args, &[], &PlotOptions::default())?;
        }
    }
    match (args.from, args.to) {
        (Some(from), Some(to)) if from >= to => {
            Err(Exit::BadInput(format!("--from {from} is not before --to {to}")).into())
        }
        _ => Ok(()),
    }
}

/// The picture of metrics over time or over another metric.
fn draw_metrics(args: &PlotArgs, runs: &[&LoadedRun], options: &PlotOptions) -> anyhow::Result<String> {
    let metrics: Vec<&str> = args.metric.iter().map(|m| m.trim()).collect();
    let svg = args.picture.appearance().draw(options, metrics.len(), |options| match &args.against {
        Some(against) => view::plot_against(runs, &metrics, against, options),
        None => view::plot(runs, &metrics, options),
    });
    Ok(svg.map_err(|error| Exit::BadInput(error.to_string()))?)
}

/// Draws metrics over time or over another metric.
fn plot_metrics(args: &PlotArgs, records: &[record::Run], json: bool) -> anyhow::Result<()> {
    let runs = load(records)?;
    let span_s = span(args, records)?;
    let title = args.picture.title_or_none(runs.first().map(|run| run.title.clone()));
    let options = PlotOptions { title, span_s, ..PlotOptions::default() };
    let borrowed: Vec<&LoadedRun> = runs.iter().collect();
    let svg = draw_metrics(args, &borrowed, &options)?;
    match &args.output {
        Some(path) => write_file(path, &picture(path, &svg)?, json),
        None => write(None, &svg, json),
    }
}

/// `--cdf` and `--box`.
fn plot_distribution(
    args: &PlotArgs,
    metric: &str,
    records: &[record::Run],
    json: bool,
) -> anyhow::Result<()> {
    let bad = |error: view::Error| Exit::BadInput(error.to_string());
    let span_s = span(args, records)?;
    let distribution = match metric.contains('.') {
        true if span_s.is_some() => {
            let message = format!(
                "--from and --to select samples, such as those of rtt; {metric} is one figure for each run"
            );
            return Err(Exit::BadInput(message).into());
        }
        true => {
            let summaries: Vec<_> = records.iter().map(record::Run::run).collect();
            let figure = RunFigure::find(metric, &summaries)?;
            Distribution::of_figure(records, &figure.name(), figure.unit(), |run| figure.of(run))
        }
        false => Distribution::of_samples(&load(records)?, metric, span_s),
    };
    let distribution = distribution.map_err(bad)?;
    let appearance = args.picture.appearance();
    let options = distribution.default_options();
    let options = PlotOptions { title: args.picture.title_or_none(options.title.clone()), ..options };
    let svg = appearance.draw(&options, 1, |options| {
        Ok(if args.cdf.is_some() { distribution.cdf(options) } else { distribution.box_plot(options) })
    });
    let svg = svg.map_err(bad)?;
    if !json {
        return match &args.output {
            Some(path) => write_file(path, &picture(path, &svg)?, json),
            None => write(None, &svg, json),
        };
    }
    let groups = distribution.figures();
    match &args.output {
        Some(path) => {
            output::file(path, &picture(path, &svg)?)?;
            output::json(&json!({ "written": path, "metric": metric, "groups": groups }))
        }
        None => output::json(&json!({ "document": svg, "metric": metric, "groups": groups })),
    }
}

/// The time span of `--from` and `--to` in seconds, if one was given.
fn span(args: &PlotArgs, records: &[record::Run]) -> anyhow::Result<Option<(f64, f64)>> {
    if args.from.is_none() && args.to.is_none() {
        return Ok(None);
    }
    let end = records.iter().map(|record| record.run().duration_s).fold(0.0, f64::max);
    let from = args.from.map_or(0.0, Time::as_secs_f64);
    let to = args.to.map_or(end, Time::as_secs_f64);
    if from >= to || from > end {
        return Err(Exit::BadInput(format!("there are no samples between {from} s and {to} s")).into());
    }
    Ok(Some((from, to)))
}

fn load(records: &[record::Run]) -> anyhow::Result<Vec<LoadedRun>> {
    Ok(records.iter().map(LoadedRun::load).collect::<Result<_, _>>()?)
}
