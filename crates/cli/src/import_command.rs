//! `longfat import`: other programs' measurements as records.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use measurement::iperf3;
use serde::Serialize;
use serde_json::json;

use crate::{
    exit::Exit,
    import_capture::{self, PcapArgs, SsArgs},
    open::{import_name, read_import},
    output,
};

/// Files above this are no iperf3's: a test of a day at an interval of 100 ms has a third of it.
const MAX_BYTES: u64 = 512 << 20;

/// What to import.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Make a record of each test in iperf3's JSON (-J or --json-stream, iperf3 3.1 and newer)
    Iperf3(Iperf3Args),
    /// Make a record of each capture (pcap or pcapng, of whichever machine): its TCP connections packet by packet
    Pcap(PcapArgs),
    /// Make a record of each log of `ss -tin` in a loop (with -m: the buffers too)
    Ss(SsArgs),
}

/// A record that was made.
#[derive(Debug, Serialize)]
pub struct Imported {
    file: PathBuf,
    record: PathBuf,
    partial: bool,
    error: Option<String>,
}

impl Imported {
    /// Of a file that had all.
    pub fn whole(file: &Path, record: PathBuf) -> Imported {
        Imported { file: file.into(), record, partial: false, error: None }
    }
}

/// iperf3's files.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Imports.
pub fn run(command: &ImportCommand, runs_dir: &Path, json: bool) -> anyhow::Result<()> {
    let imported = match command {
        ImportCommand::Iperf3(args) => import_iperf3(args, runs_dir)?,
        ImportCommand::Pcap(args) => import_capture::pcap(args, runs_dir)?,
        ImportCommand::Ss(args) => import_capture::ss(args, runs_dir)?,
    };
    if json {
        return output::json(&json!({ "schema": "longfat.imported/1", "records": imported }));
    }
    let lines = imported.iter().map(|one| format!("{}: {}", one.file.display(), one.record.display()));
    output::text(&lines.collect::<Vec<_>>().join("\n"))
}

fn import_iperf3(args: &Iperf3Args, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    // All are read before anything is written.
    let mut read = Vec::new();
    for file in &args.files {
        let reports = iperf3::reports(file, &read_text(file)?)?;
        read.extend(reports.into_iter().map(|report| (file, report)));
    }
    let mut imported = Vec::new();
    for (file, report) in &read {
        let Some(start) = &report.start else {
            let why = report.error.as_deref().unwrap_or("nothing says why");
            output::note(&format!(
                "{}: this test never began ({why}); it has nothing to keep",
                file.display()
            ));
            continue;
        };
        imported.push(Imported {
            file: file.to_path_buf(),
            record: iperf3::import(&import_name(file, "iperf3"), report, start, runs_dir)?,
            partial: iperf3::is_partial(report),
            error: report.error.clone(),
        });
    }
    if imported.is_empty() {
        return Err(Exit::BadInput("no test of these files ever began".into()).into());
    }
    Ok(imported)
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let bytes = read_import(file, MAX_BYTES)?;
    let whole = String::from_utf8(bytes).map_err(|_| {
        Exit::BadInput(format!("cannot read {}: stream did not contain valid UTF-8", file.display()))
    });
    Ok(whole?)
}
