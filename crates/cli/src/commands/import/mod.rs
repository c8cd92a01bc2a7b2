//! `longfat import`: creates records from measurements of other programs.

mod capture;

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use ::iperf3::report::Report;
use clap::{Args, Subcommand};
use measurement::iperf3;
use record::RunsLocation;
use schema::EngineName;
use serde::Serialize;
use serde_json::json;

use self::capture::{PcapArgs, SsArgs};
use crate::{
    exit::Exit,
    open::{import_name, read_import},
    output,
};

/// Maximum size of a file: the JSON of a 24-hour test at 100 ms intervals has a third of this size.
const MAX_BYTES: u64 = 512 << 20;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum ImportCommand {
    /// Import tests from iperf3's JSON (-J or --json-stream, iperf3 3.1 and newer)
    Iperf3(Iperf3Args),
    /// Import tests from the output of iperf 2: CSV (-y C) or text
    Iperf2(Iperf3Args),
    /// Import the TCP connections of packet captures (pcap or pcapng)
    Pcap(PcapArgs),
    /// Import logs of `ss -tin` in a loop (with -m also the buffers)
    Ss(SsArgs),
}

/// A created record.
#[derive(Debug, Serialize)]
pub struct Imported {
    file: PathBuf,
    record: PathBuf,
    partial: bool,
    error: Option<String>,
}

impl Imported {
    /// The record of a complete file.
    pub fn complete(file: &Path, record: PathBuf) -> Imported {
        Imported { file: file.into(), record, partial: false, error: None }
    }
}

/// Options of `import iperf3` and `import iperf2`.
#[derive(Debug, Args)]
pub struct Iperf3Args {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(command: &ImportCommand, runs: &RunsLocation, json: bool) -> anyhow::Result<()> {
    let runs_dir = &runs.writable()?;
    let mut imported = match command {
        ImportCommand::Iperf3(args) => import_iperf3(args, runs_dir)?,
        ImportCommand::Iperf2(args) => import_iperf2(args, runs_dir)?,
        ImportCommand::Pcap(args) => capture::pcap(args, runs_dir)?,
        ImportCommand::Ss(args) => capture::ss(args, runs_dir)?,
    };
    for one in &mut imported {
        one.record = runs.name_of(&one.record).into();
    }
    if json {
        return output::json(&json!({ "schema": "longfat.imported/1", "records": imported }));
    }
    let lines = imported.iter().map(|one| format!("{}: {}", one.file.display(), one.record.display()));
    output::text(&lines.collect::<Vec<_>>().join("\n"))
}

fn import_iperf3(args: &Iperf3Args, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    // All files are read before any record is written.
    let mut read = Vec::new();
    for file in &args.files {
        let reports = iperf3::reports(file, &read_text(file)?)?;
        read.extend(reports.into_iter().map(|report| (file, report)));
    }
    import_reports("iperf3", EngineName::Iperf3, &read, runs_dir)
}

fn import_iperf2(args: &Iperf3Args, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    let mut read = Vec::new();
    for file in &args.files {
        let written = std::fs::metadata(file).and_then(|metadata| metadata.modified());
        let written = written.unwrap_or_else(|_| SystemTime::now());
        let reports = iperf3::iperf2_reports(file, &read_text(file)?, written)?;
        read.extend(reports.into_iter().map(|report| (file, report)));
    }
    import_reports("iperf2", EngineName::Iperf2, &read, runs_dir)
}

/// Writes a record of each test; those that did not begin are skipped.
fn import_reports(
    name: &str,
    engine: EngineName,
    read: &[(&PathBuf, Report)],
    runs_dir: &Path,
) -> anyhow::Result<Vec<Imported>> {
    let mut imported = Vec::new();
    for (file, report) in read {
        let Some(start) = &report.start else {
            let why = report.error.as_deref().unwrap_or("no reason given");
            output::note(&format!("{}: skipped: this test did not begin ({why})", file.display()));
            continue;
        };
        imported.push(Imported {
            file: file.to_path_buf(),
            record: iperf3::import(&import_name(file, name), engine.clone(), report, start, runs_dir)?,
            partial: iperf3::is_partial(report),
            error: report.error.clone(),
        });
    }
    if imported.is_empty() {
        return Err(Exit::BadInput("no test in these files began".into()).into());
    }
    Ok(imported)
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let text = decode(read_import(file, MAX_BYTES)?)
        .ok_or_else(|| Exit::BadInput(format!("cannot read {}: its text is not UTF-8", file.display())));
    Ok(text?)
}

/// The text of a file without its byte order mark: UTF-8, or UTF-16 as PowerShell 5 writes redirected output.
fn decode(bytes: Vec<u8>) -> Option<String> {
    if let Some(words) = bytes.strip_prefix(b"\xff\xfe") {
        let words: Vec<u16> = words.as_chunks::<2>().0.iter().map(|word| u16::from_le_bytes(*word)).collect();
        return String::from_utf16(&words).ok();
    }
    let mut text = String::from_utf8(bytes).ok()?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_marks_are_not_part_of_the_text() {
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        assert_eq!(decode(wide("\u{feff}{ é }")), Some("{ é }".into()));
        assert_eq!(decode("\u{feff}{ é }".into()), Some("{ é }".into()));
        assert_eq!(decode("{ é }".into()), Some("{ é }".into()));
        assert_eq!(decode(vec![b'{', 0xe9]), None);
    }
}
