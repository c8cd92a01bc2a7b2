//! `longfat plot`: a run's metrics, or those of several, as a picture.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use units::Time;
use view::{Appearance, LoadedRun, PictureStyle, PlotOptions};

use super::{
    completions::run_candidates,
    records::{check_picture, find, picture, write, write_file},
};
use crate::exit::Exit;

/// Options of `plot`.
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// The run; several are plotted over each other
    #[arg(required = true, value_name = "RUN", add = ArgValueCandidates::new(run_candidates))]
    keys: Vec<String>,
    /// Metrics, separated by commas: cwnd, rtt, goodput, ... or any column's name
    #[arg(long, value_delimiter = ',', default_value = "goodput,cwnd,rtt")]
    metric: Vec<String>,
    /// Plot against this metric instead of time: one point per sample of the second half of each flow, or between --from and
    /// --to
    #[arg(long, value_name = "METRIC")]
    against: Option<String>,
    /// Start time, as in 4.5s since the start of the run
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// End time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
    /// Width and height in pixels, as in 960x540 [default: 960, and as high as needed]
    #[arg(long, value_name = "WxH", value_parser = parse_size)]
    size: Option<(u32, u32)>,
    /// Size of letters in pixels; lines grow with it [default: 12]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u8).range(6..=60))]
    font_size: Option<u8>,
    /// Style: screen, or paper (black on white, thin lines, dashes, no background)
    #[arg(long, value_enum, default_value_t = Style::Screen)]
    style: Style,
    /// Output file: SVG, PNG or PDF by its extension [default: SVG on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The style of a plot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Style {
    Screen,
    Paper,
}

/// Runs the command.
pub fn run(args: &PlotArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    check_picture(args.output.as_deref())?;
    let runs = load(runs_dir, &args.keys)?;
    let metrics: Vec<&str> = args.metric.iter().map(|m| m.trim()).collect();
    let end = runs.iter().map(|r| r.run.duration_s).fold(0.0, f64::max);
    let from = args.from.map_or(0.0, Time::as_secs_f64);
    let to = args.to.map_or(end, Time::as_secs_f64);
    if from >= to || from > end {
        return Err(Exit::BadInput(format!("there are no samples between {from} s and {to} s")).into());
    }
    let span_s = (args.from.is_some() || args.to.is_some()).then_some((from, to));
    let options =
        PlotOptions { title: runs.first().map(|r| r.title.clone()), span_s, ..PlotOptions::default() };
    let borrowed: Vec<&LoadedRun> = runs.iter().collect();
    let appearance = Appearance {
        size: args.size,
        font_size: args.font_size.map(f64::from),
        style: match args.style {
            Style::Screen => PictureStyle::Screen,
            Style::Paper => PictureStyle::Paper,
        },
    };
    let svg = appearance.draw(&options, metrics.len(), |options| match &args.against {
        Some(against) => view::plot_against(&borrowed, &metrics, against, options),
        None => view::plot(&borrowed, &metrics, options),
    });
    let svg = svg.map_err(|e| Exit::BadInput(e.to_string()))?;
    write_picture(args.output.as_deref(), &svg, json)
}

fn load(runs_dir: &Path, keys: &[String]) -> anyhow::Result<Vec<LoadedRun>> {
    keys.iter().map(|key| Ok(LoadedRun::load(&find(runs_dir, key)?)?)).collect()
}

/// Writes the picture in the format of the file's extension (.png, .pdf).
fn write_picture(path: Option<&Path>, svg: &str, json: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, &picture(path, svg)?, json),
        None => write(None, svg, json),
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
