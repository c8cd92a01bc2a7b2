//! `longfat export`: a record in another program's form.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use perf::{
    iperf3_json::{self, FILE_NAME, TextFormat},
    report::Report,
};
use record::Run;
use serde_json::json;
use units::Time;

use crate::{exit::Exit, output, recorded_report};

/// The form.
#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// A run as iperf3 would tell it: a flow is a stream
    Iperf3(Iperf3Args),
}

/// Which run, and how.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// An id or its beginning, scenario/id, a record's directory, `last`, `last~1`
    run: String,
    /// Only these flows (may be given several times, or separated by commas)
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    flow: Vec<String>,
    /// Length of an interval, of a run that is no test between hosts
    #[arg(short, long, default_value = "1s", value_name = "TIME")]
    interval: Time,
    /// As iperf3's -J, --json-stream, or its lines of text
    #[arg(long, value_enum, default_value_t = Form::Json)]
    format: Form,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What iperf3 prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    JsonStream,
    Text,
}

/// Exports.
pub fn run(command: &ExportCommand, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let ExportCommand::Iperf3(args) = command;
    let run = record::find(runs_dir, &args.run).map_err(|e| Exit::BadInput(e.to_string()))?;
    let report = report(&run, args)?;
    let document = match args.format {
        Form::Json => serde_json::to_string_pretty(&iperf3_json::to_json(&report))? + "\n",
        Form::JsonStream => iperf3_json::events(&report)
            .into_iter()
            .map(|event| iperf3_json::event_line(event) + "\n")
            .collect(),
        Form::Text => iperf3_json::to_text(&report, TextFormat::default()),
    };
    match (&args.output, json) {
        (Some(path), _) => {
            fs::write(path, document).with_context(|| format!("cannot write {}", path.display()))?;
            match json {
                true => output::json(&json!({ "written": path })),
                false => output::text(&format!("wrote {}", path.display())),
            }
        }
        // iperf3's own document is the one that is asked for.
        (None, true) if args.format != Form::Json => output::json(&json!({ "document": document })),
        (None, _) => output::text(&document),
    }
}

/// The test's own report where the record keeps one, else one made of the rows.
fn report(run: &Run, args: &Iperf3Args) -> anyhow::Result<Report> {
    let kept = run.path.join(FILE_NAME);
    if !kept.exists() {
        return recorded_report::report(run, &args.flow, args.interval);
    }
    if !args.flow.is_empty() {
        return Err(Exit::BadInput("--flow is for runs that are no tests between hosts".into()).into());
    }
    let text = fs::read_to_string(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
    iperf3_json::from_json(&text).with_context(|| format!("cannot read {}", kept.display()))
}
