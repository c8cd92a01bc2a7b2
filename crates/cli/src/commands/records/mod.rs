//! `longfat show`, `compare` and `report`: recorded runs. `ls`, `rm` and `prune` are in `list.rs`.

mod list;

use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use record::{Run, RunsLocation};
use schema::{RunSummary, Summary};
use serde_json::json;
use view::{LoadedRun, ReportExtra};

pub use self::list::{LsArgs, PruneArgs, RmArgs, ls, prune, rm};
use super::completions::complete_run;
use crate::{config_file::Config, exit::Exit, output};

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
    /// Show web100's counters of each traced flow instead: window increases, duplicate ACKs, short and
    /// retransmitted segments; needs a run with `--trace`, or `longfat watch --record --per-ack`
    #[arg(long)]
    web100: bool,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first run; with --engines, a scenario's name
    #[arg(add = ArgValueCompleter::new(complete_run))]
    a: String,
    /// The second run
    #[arg(add = ArgValueCompleter::new(complete_run), required_unless_present = "engines")]
    b: Option<String>,
    /// Compare the latest runs of a scenario by each engine instead, as in `longfat compare lab8 --engines`
    #[arg(long, conflicts_with = "b")]
    engines: bool,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The runs, of one scenario; SCENARIO/ stands for all runs of a scenario
    #[arg(required = true, value_name = "RUN", add = ArgValueCompleter::new(complete_run))]
    keys: Vec<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `show`.
pub fn show(args: &ShowArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let run = find(runs, &args.run)?;
    if args.web100 {
        return show_web100(&run, json);
    }
    if json { output::json(&run.summary) } else { output::prose(&view::table::show(&run, output::width())) }
}

fn show_web100(run: &Run, json: bool) -> anyhow::Result<()> {
    let counts = view::trace_counts(&run.trace()?, &run.flows()?);
    if counts.is_empty() {
        let message =
            "this run has no trace: run it with --engine sim --trace FLOW, or watch with --record --per-ack";
        return Err(Exit::BadInput(message.into()).into());
    }
    if json {
        return output::json(&json!({ "schema": "longfat.web100/1", "flows": counts }));
    }
    let tables = counts.iter().map(|flow| view::trace_counts_table(flow, output::width()));
    output::text(&tables.collect::<Vec<_>>().join("\n"))
}

/// Runs `compare`.
pub fn compare(args: &CompareArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let Some(b) = &args.b else { return compare_engines(&args.a, runs, json) };
    let (a, b) = (find(runs, &args.a)?, find(runs, b)?);
    let comparison = view::compare(a.run(), b.run());
    if json {
        return output::json(&comparison);
    }
    if a.summary.scenario != b.summary.scenario {
        output::prose(&format!(
            "These runs are of 2 scenarios ({}, {}): hosts, paths and flows may differ, so a ratio compares more than one change.",
            a.summary.scenario, b.summary.scenario
        ))?;
    }
    output::text(&view::table::compare(&comparison, output::width()))
}

/// Runs `compare --engines`.
fn compare_engines(scenario: &str, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let name = scenario.trim_end_matches('/');
    let found = find_all(runs, &format!("{name}/"))?;
    let summaries: Vec<RunSummary> = found.iter().map(|run| run.run().clone()).collect();
    let compared = view::engines(name, &summaries);
    match json {
        true => output::json(&compared),
        false => output::prose(&view::engines_text(&compared, output::width())),
    }
}

/// Runs `report`.
pub fn report(args: &ReportArgs, config: &Config, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    check_page(args.output.as_deref())?;
    let mut found = Vec::new();
    for key in &args.keys {
        found.extend(find_all(runs, key)?);
    }
    let loaded = found.iter().map(LoadedRun::load).collect::<Result<Vec<_>, _>>()?;
    let page = view::report(&joined_summary(&found)?, &loaded, &ReportExtra::default());
    write(args.output.as_deref(), &config.theme().apply(page), json)
}

/// The record with this key.
pub fn find(runs: &RunsLocation, key: &str) -> anyhow::Result<Run> {
    Ok(runs.find(key).map_err(|e| Exit::BadInput(e.to_string()))?)
}

/// The record with this key, or all records of a scenario, the oldest first, for a key that is its name and a
/// slash. A record that cannot be read is skipped with a note.
pub fn find_all(runs: &RunsLocation, key: &str) -> anyhow::Result<Vec<Run>> {
    // The working directory may have a directory with the scenario's name.
    let is_record = Path::new(key).join("summary.json").exists();
    let scenario = key.strip_suffix('/').filter(|name| !name.is_empty() && !name.contains('/') && !is_record);
    let Some(scenario) = scenario else { return Ok(vec![find(runs, key)?]) };
    let mut found = Vec::new();
    for entry in runs.list()?.into_iter().filter(|entry| entry.scenario == scenario) {
        match entry.run {
            Ok(run) => found.push(run),
            Err(error) => output::note(&format!("longfat: skipped {scenario}/{}: {error}", entry.id)),
        }
    }
    if found.is_empty() {
        return Err(Exit::BadInput(format!("no run of scenario {scenario} in {runs}")).into());
    }
    found.sort_by(|a, b| a.run().started.cmp(&b.run().started));
    Ok(found)
}

/// Writes a text to a file or to standard output; with `--json`, prints the file's name.
pub fn write(path: Option<&Path>, text: &str, json: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, text.as_bytes(), json),
        None if json => output::json(&json!({ "document": text })),
        None => output::document(text),
    }
}

/// Refuses a file in a directory that does not exist, before any work.
pub fn check_directory(file: &Path) -> anyhow::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if directory.is_dir() && !file.is_dir() {
        return Ok(());
    }
    Err(Exit::BadInput(format!(
        "cannot write {}: its directory does not exist, or the path is a directory",
        file.display()
    ))
    .into())
}

/// Refuses a file that cannot be written, or of another format than SVG, PNG or PDF, before any work.
pub fn check_picture(path: Option<&Path>) -> anyhow::Result<()> {
    check_extension(
        path,
        &["svg", "png", "pdf"],
        "pictures are SVG, PNG or PDF: choose a name that ends in .svg, .png or .pdf",
    )
}

/// Refuses a file that cannot be written, or of another format than SVG, before any work.
pub fn check_svg(path: Option<&Path>) -> anyhow::Result<()> {
    check_extension(path, &["svg"], "this picture is an SVG: choose a name that ends in .svg")
}

/// Refuses a file that cannot be written, or of another format than HTML, before any work.
pub fn check_page(path: Option<&Path>) -> anyhow::Result<()> {
    check_extension(path, &["html", "htm"], "a report is one HTML file: choose a name that ends in .html")
}

fn check_extension(path: Option<&Path>, known: &[&str], advice: &str) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    check_directory(path)?;
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    match extension {
        // Devices and pipes such as /dev/stdout have no extension.
        None => Ok(()),
        Some(extension) if known.contains(&extension.as_str()) => Ok(()),
        Some(_) => Err(Exit::BadInput(format!("cannot write {}: {advice}", path.display())).into()),
    }
}

/// An SVG in the format of the file's extension.
pub fn picture(path: &Path, svg: &str) -> anyhow::Result<Vec<u8>> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    Ok(match extension.as_deref() {
        Some("png") => view::image::png(svg)?,
        Some("pdf") => view::image::pdf(svg)?,
        // `check_picture` has refused all other formats.
        _ => svg.into(),
    })
}

/// Writes a file and notes its name; with `--json`, prints it.
pub fn write_file(path: &Path, bytes: &[u8], json: bool) -> anyhow::Result<()> {
    output::file(path, bytes)?;
    if json {
        return output::json(&json!({ "written": path }));
    }
    output::note(&format!("written: {}", path.display()));
    Ok(())
}

/// One summary of the records of a scenario: all runs, and the published figures of all engines.
fn joined_summary(runs: &[Run]) -> anyhow::Result<Summary> {
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
    }
    summary.published = view::gather_published(runs);
    Ok(summary)
}
