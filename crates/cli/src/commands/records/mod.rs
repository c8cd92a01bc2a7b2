//! `longfat show`, `compare`, `plot` and `report`: recorded runs. `ls`, `rm` and `prune` are in `list.rs`.

mod list;

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCandidates;
use record::Run;
use schema::Summary;
use serde_json::json;
use units::Time;
use view::{LoadedRun, PlotOptions, ReportExtra};

pub use self::list::{LsArgs, PruneArgs, RmArgs, ls, prune, rm};
use super::completions::run_candidates;
use crate::{exit::Exit, output};

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCandidates::new(run_candidates))]
    run: String,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first run
    #[arg(add = ArgValueCandidates::new(run_candidates))]
    a: String,
    /// The second run
    #[arg(add = ArgValueCandidates::new(run_candidates))]
    b: String,
}

/// Options of `plot`.
#[derive(Debug, Args)]
pub struct PlotArgs {
    /// The run; several are plotted over each other
    #[arg(required = true, value_name = "RUN", add = ArgValueCandidates::new(run_candidates))]
    keys: Vec<String>,
    /// Metrics, separated by commas: cwnd, rtt, goodput, ... or any column's name
    #[arg(long, value_delimiter = ',', default_value = "goodput,cwnd,rtt")]
    metric: Vec<String>,
    /// Plot against this metric instead of time: one point per sample of the second half of each flow, or between --from and --to
    #[arg(long, value_name = "METRIC")]
    against: Option<String>,
    /// Start time, as in 4.5s since the start of the run
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,
    /// End time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
    /// Output file: SVG, PNG or PDF by its extension [default: SVG on standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The runs, of one scenario
    #[arg(required = true, value_name = "RUN", add = ArgValueCandidates::new(run_candidates))]
    keys: Vec<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `show`.
pub fn show(args: &ShowArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let run = find(runs_dir, &args.run)?;
    if json { output::json(&run.summary) } else { output::text(&view::table::show(&run)) }
}

/// Runs `compare`.
pub fn compare(args: &CompareArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let (a, b) = (find(runs_dir, &args.a)?, find(runs_dir, &args.b)?);
    let comparison = view::compare(a.run(), b.run());
    if json { output::json(&comparison) } else { output::text(&view::table::compare(&comparison)) }
}

/// Runs `plot`.
pub fn plot(args: &PlotArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
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
    let svg = match &args.against {
        Some(against) => view::plot_against(&borrowed, &metrics, against, &options),
        None => view::plot(&borrowed, &metrics, &options),
    };
    let svg = svg.map_err(|e| Exit::BadInput(e.to_string()))?;
    write_picture(args.output.as_deref(), &svg, json)
}

/// Runs `report`.
pub fn report(args: &ReportArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    check_page(args.output.as_deref())?;
    let found = args.keys.iter().map(|key| find(runs_dir, key)).collect::<anyhow::Result<Vec<Run>>>()?;
    let loaded = found.iter().map(LoadedRun::load).collect::<Result<Vec<_>, _>>()?;
    let page = view::report(&together(&found)?, &loaded, &ReportExtra::default());
    write(args.output.as_deref(), &page, json)
}

fn find(runs_dir: &Path, key: &str) -> anyhow::Result<Run> {
    Ok(record::find(runs_dir, key).map_err(|e| Exit::BadInput(e.to_string()))?)
}

fn load(runs_dir: &Path, keys: &[String]) -> anyhow::Result<Vec<LoadedRun>> {
    keys.iter().map(|key| Ok(LoadedRun::load(&find(runs_dir, key)?)?)).collect()
}

/// Writes a text to a file or to standard output; with `--json`, prints the file's name.
pub fn write(path: Option<&Path>, text: &str, json: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, text.as_bytes(), json),
        None if json => output::json(&json!({ "document": text })),
        None => output::text(text),
    }
}

/// As [`write()`], in the format of the file's extension (.png, .pdf).
fn write_picture(path: Option<&Path>, svg: &str, json: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, &picture(path, svg)?, json),
        None => write(None, svg, json),
    }
}

/// Refuses a file of another format than SVG, PNG or PDF, before any work.
pub fn check_picture(path: Option<&Path>) -> anyhow::Result<()> {
    check_extension(
        path,
        &["svg", "png", "pdf"],
        "a picture is written as SVG, PNG or PDF: .svg, .png or .pdf",
    )
}

/// Refuses a file of another format than HTML, before any work.
pub fn check_page(path: Option<&Path>) -> anyhow::Result<()> {
    check_extension(path, &["html", "htm"], "a report is one HTML file: .html")
}

fn check_extension(path: Option<&Path>, known: &[&str], advice: &str) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    match extension {
        // Devices and pipes such as /dev/stdout have none.
        None => Ok(()),
        Some(extension) if known.contains(&extension.as_str()) => Ok(()),
        Some(_) => Err(Exit::BadInput(format!("cannot write {}: {advice}", path.display())).into()),
    }
}

/// An SVG in the format of the file's extension.
pub fn picture(path: &Path, svg: &str) -> anyhow::Result<Vec<u8>> {
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
    Ok(match end.as_deref() {
        Some("png") => view::image::png(svg)?,
        Some("pdf") => view::image::pdf(svg)?,
        // `check_picture` has refused all others.
        _ => svg.into(),
    })
}

fn write_file(path: &Path, bytes: &[u8], json: bool) -> anyhow::Result<()> {
    output::file(path, bytes)?;
    if json {
        return output::json(&json!({ "written": path }));
    }
    output::note(&format!("written: {}", path.display()));
    Ok(())
}

/// Joins the records of one scenario: all runs, and the published figures of all engines.
fn together(runs: &[Run]) -> anyhow::Result<Summary> {
    let Some((first, others)) = runs.split_first() else {
        return Err(Exit::BadInput("a report needs at least one run".into()).into());
    };
    let mut summary = first.summary.clone();
    for other in others {
        let other = &other.summary;
        if other.scenario != summary.scenario {
            let message = format!(
                "a report covers one scenario, but these runs are of {} and {}",
                summary.scenario, other.scenario
            );
            return Err(Exit::BadInput(message).into());
        }
        summary.runs.extend(other.runs.clone());
        other.published.iter().for_each(|p| view::gather_published(&mut summary.published, p));
    }
    Ok(summary)
}
