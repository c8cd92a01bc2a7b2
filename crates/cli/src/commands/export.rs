//! `longfat export`: a record in another program's form.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use iperf3::{
    document::{self, FILE_NAME, TextFormat},
    report::Report,
};
use measurement::export;
use record::{Run, RunTable, RunsLocation, TableName};
use serde_json::json;
use units::Time;

use super::{
    completions::{complete_run, complete_runs},
    records,
};
use crate::{exit::Exit, output};

/// The form.
#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Export a run as iperf3's report, a stream per flow
    Iperf3(Iperf3Args),
    /// Export a table of a run as CSV
    Csv(CsvArgs),
    /// Export the table of several runs, a row per run and flow, as one Parquet or CSV file
    Table(TableArgs),
    /// Export a gnuplot script and its data
    Gnuplot(GnuplotArgs),
    /// Export the time-sequence graph of a traced flow for xplot, as tcptrace draws it
    Xplot(XplotArgs),
    /// Fetch all files of a record from an object store, and print its directory on this machine
    Record(RecordArgs),
}

impl ExportCommand {
    /// The file to write, if one is named. The directory of `gnuplot` is created.
    fn output_file(&self) -> Option<&Path> {
        match self {
            ExportCommand::Iperf3(args) => args.output.as_deref(),
            ExportCommand::Csv(args) => args.output.as_deref(),
            ExportCommand::Table(args) => Some(&args.output),
            ExportCommand::Gnuplot(_) | ExportCommand::Record(_) => None,
            ExportCommand::Xplot(args) => args.output.as_deref(),
        }
    }
}

/// Options of `export csv`.
#[derive(Debug, Args)]
pub struct CsvArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
    /// The table
    #[arg(long, value_enum, default_value_t = Table::Flows)]
    table: Table,
    /// Export only these flows or links (repeatable, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `export table`.
#[derive(Debug, Args)]
pub struct TableArgs {
    /// Runs: ids or their prefixes, scenario/id, directories of records, `last`; or SCENARIO/ for all runs of
    /// a scenario
    #[arg(required = true, value_name = "RUN", add = ArgValueCompleter::new(complete_runs))]
    keys: Vec<String>,
    /// Output file: Parquet or CSV by its extension
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// A record's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Table {
    Flows,
    Links,
    Events,
    Trace,
}

/// Options of `export gnuplot`.
#[derive(Debug, Args)]
pub struct GnuplotArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
    /// Output directory of plot.gp and flows.csv
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Options of `export xplot`.
#[derive(Debug, Args)]
pub struct XplotArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
    /// The flow [default: the first traced flow]
    #[arg(long, value_name = "NAME")]
    flow: Option<String>,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `export iperf3`.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// Run: an id or its prefix, scenario/id, a record's directory, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
    /// Export only these flows (repeatable, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    flow: Vec<String>,
    /// Interval of runs that are not tests between hosts [default: 1s]
    #[arg(short, long, value_name = "TIME")]
    interval: Option<Time>,
    /// Format: iperf3's -J, --json-stream, or its text
    #[arg(long, value_enum, default_value_t = Form::Json)]
    format: Form,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Options of `export record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Run: an id or its prefix, scenario/id, a record's directory or address, `last`, `last~1`
    #[arg(add = ArgValueCompleter::new(complete_run))]
    run: String,
}

/// iperf3's output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    JsonStream,
    Text,
}

/// Runs the command.
pub fn run(command: &ExportCommand, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    command.output_file().map_or(Ok(()), records::check_directory)?;
    let find = |key: &str| runs.find(key).map_err(|e| Exit::BadInput(e.to_string()));
    match command {
        ExportCommand::Iperf3(args) => iperf3(args, &find(&args.run)?, json),
        ExportCommand::Csv(args) => {
            let table = match args.table {
                Table::Flows => TableName::Flows,
                Table::Links => TableName::Links,
                Table::Events => TableName::Events,
                Table::Trace => TableName::Trace,
            };
            let run = find(&args.run)?;
            refuse_unknown(&run, &args.only)?;
            records::write(args.output.as_deref(), &run.csv(table, &args.only)?, json)
        }
        ExportCommand::Table(args) => table(args, runs, json),
        ExportCommand::Gnuplot(args) => gnuplot(args, &find(&args.run)?, json),
        ExportCommand::Xplot(args) => xplot(args, &find(&args.run)?, json),
        ExportCommand::Record(args) => fetched(&find(&args.run)?, json),
    }
}

/// Fetches a record and prints its directory.
fn fetched(run: &Run, json: bool) -> anyhow::Result<()> {
    run.fetch()?;
    match json {
        true => output::json(&json!({ "record": run.location(), "directory": run.path })),
        false => output::text(&run.path.display().to_string()),
    }
}

fn table(args: &TableArgs, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let end = args.output.extension().map(|end| end.to_string_lossy().to_lowercase());
    let is_parquet = match end.as_deref() {
        Some("parquet") => true,
        Some("csv") => false,
        _ => {
            let why = format!("{}: the file's name must end with .parquet or .csv", args.output.display());
            return Err(Exit::BadInput(why).into());
        }
    };
    let mut found: Vec<Run> = Vec::new();
    for key in &args.keys {
        for run in records::find_all(runs, key)? {
            // A run that two keys match gets one row.
            if found.iter().all(|known| known.path != run.path) {
                found.push(run);
            }
        }
    }
    let table = RunTable::of(&found);
    match is_parquet {
        true => output::file(&args.output, table.to_parquet(&args.output)?)?,
        false => output::file(&args.output, table.to_csv())?,
    }
    let (rows, count) = (table.rows(), found.len());
    match json {
        true => output::json(&json!({ "written": args.output, "rows": rows, "runs": count })),
        false => output::text(&format!("wrote {}: {rows} rows of {count} runs", args.output.display())),
    }
}

/// Refuses unknown names: they would give an empty table.
fn refuse_unknown(run: &Run, only: &[String]) -> anyhow::Result<()> {
    let summary = run.run();
    let flows = summary.flows.iter().map(|flow| &flow.name);
    let links = summary.links.iter().map(|link| &link.name);
    let known: Vec<&String> = flows.chain(links).collect();
    let is_subject =
        |name: &String| run.events().is_ok_and(|events| events.iter().any(|event| event.subject == *name));
    match only.iter().find(|name| !known.contains(name) && !is_subject(name)) {
        None => Ok(()),
        Some(name) => {
            let known = known.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            Err(Exit::BadInput(format!("this run has no flow or link \"{name}\"; it has {known}")).into())
        }
    }
}

fn gnuplot(args: &GnuplotArgs, run: &Run, json: bool) -> anyhow::Result<()> {
    fs::create_dir_all(&args.output).with_context(|| format!("cannot create {}", args.output.display()))?;
    let data = args.output.join("flows.csv");
    fs::write(&data, run.csv(TableName::Flows, &[])?)
        .with_context(|| format!("cannot write {}", data.display()))?;
    let script = view::gnuplot(&run.summary.title, run.run(), &run.flows()?);
    records::write(Some(&args.output.join("plot.gp")), &script, json)
}

fn xplot(args: &XplotArgs, run: &Run, json: bool) -> anyhow::Result<()> {
    let trace = run.trace()?;
    let flow = args.flow.as_deref().or(trace.first().map(|row| row.flow.as_str()));
    let untraced = || {
        Exit::BadInput(
            "this run has no trace: record one with longfat run --engine sim --trace FLOW, or longfat import pcap".into(),
        )
    };
    let text = view::xplot(&trace, flow.ok_or_else(untraced)?).ok_or_else(untraced)?;
    records::write(args.output.as_deref(), &text, json)
}

fn iperf3(args: &Iperf3Args, run: &Run, json: bool) -> anyhow::Result<()> {
    let report = report(run, args)?;
    let document = match args.format {
        Form::Json => serde_json::to_string_pretty(&document::to_json(&report))? + "\n",
        Form::JsonStream => {
            document::events(&report).into_iter().map(|event| document::event_line(event) + "\n").collect()
        }
        Form::Text => document::to_text(&report, TextFormat::default()),
    };
    match (&args.output, json) {
        (Some(path), _) => {
            output::file(path, document)?;
            match json {
                true => output::json(&json!({ "written": path })),
                false => output::text(&format!("wrote {}", path.display())),
            }
        }
        // iperf3's document itself was requested.
        (None, true) if args.format != Form::Json => output::json(&json!({ "document": document })),
        (None, _) => output::text(&document),
    }
}

/// The test's own report if the record has one, otherwise a report made of the rows.
fn report(run: &Run, args: &Iperf3Args) -> anyhow::Result<Report> {
    let kept = run.file(FILE_NAME)?;
    if !kept.exists() {
        return Ok(export::report(run, &args.flow, args.interval.unwrap_or(Time::from_secs(1)))?);
    }
    if args.interval.is_some() {
        let why =
            "--interval is not possible for tests between hosts: their intervals were chosen when they ran";
        return Err(Exit::BadInput(why.into()).into());
    }
    if !args.flow.is_empty() {
        return Err(Exit::BadInput("--flow is not possible for tests between hosts".into()).into());
    }
    let text = fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
    document::from_json(&text).with_context(|| format!("cannot read {}", kept.display()))
}
