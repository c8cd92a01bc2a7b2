//! `longfat ls`, `show`, `compare` and `report`: recorded runs.

use std::path::{Path, PathBuf};

use clap::Args;
use record::Run;
use schema::Summary;
use serde_json::json;
use view::{LoadedRun, ReportExtra, RunItem};

use crate::{exit::Exit, output};

/// Options of `ls`.
#[derive(Debug, Args)]
pub struct LsArgs {}

/// Options of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    run: String,
}

/// Options of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// The first run
    a: String,
    /// The second run
    b: String,
}

/// Options of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The runs, of one scenario
    #[arg(required = true, value_name = "RUN")]
    keys: Vec<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `ls`.
pub fn ls(_: &LsArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let entries = record::list(runs_dir)?;
    if json {
        output::json(&entries.iter().map(RunItem::of).collect::<Vec<_>>())
    } else {
        output::text(&view::table::runs(&entries))
    }
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

/// Runs `report`.
pub fn report(args: &ReportArgs, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let found = args.keys.iter().map(|key| find(runs_dir, key)).collect::<anyhow::Result<Vec<Run>>>()?;
    let loaded = found.iter().map(LoadedRun::load).collect::<Result<Vec<_>, _>>()?;
    let page = view::report(&together(&found)?, &loaded, &ReportExtra::default());
    write(args.output.as_deref(), &page, json)
}

/// The record with this key.
pub fn find(runs_dir: &Path, key: &str) -> anyhow::Result<Run> {
    Ok(record::find(runs_dir, key).map_err(|e| Exit::BadInput(e.to_string()))?)
}

/// The record with this key, or all records of a scenario, the oldest first, for a key that is its name and a slash.
pub fn find_all(runs_dir: &Path, key: &str) -> anyhow::Result<Vec<Run>> {
    let Some(scenario) = key.strip_suffix('/').filter(|name| !name.is_empty() && !Path::new(key).is_dir())
    else {
        return Ok(vec![find(runs_dir, key)?]);
    };
    let mut entries = record::list(runs_dir)?;
    entries.retain(|entry| entry.scenario == scenario);
    if entries.is_empty() {
        return Err(Exit::BadInput(format!("no run of scenario {scenario} in {}", runs_dir.display())).into());
    }
    let mut runs = entries.into_iter().map(|entry| entry.run).collect::<Result<Vec<_>, _>>()?;
    runs.sort_by(|a, b| a.run().started.cmp(&b.run().started));
    Ok(runs)
}

/// Writes a text to a file or to standard output; with `--json`, prints the file's name.
pub fn write(path: Option<&Path>, text: &str, json: bool) -> anyhow::Result<()> {
    match path {
        Some(path) => write_file(path, text.as_bytes(), json),
        None if json => output::json(&json!({ "document": text })),
        None => output::text(text),
    }
}

/// An SVG in the format of the file's extension.
pub fn picture(path: &Path, svg: &str) -> anyhow::Result<Vec<u8>> {
    let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
    Ok(match end.as_deref() {
        Some("png") => view::image::png(svg)?,
        Some("pdf") => view::image::pdf(svg)?,
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
