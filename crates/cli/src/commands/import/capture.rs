//! `longfat import pcap` and `import ss`.

use std::path::{Path, PathBuf};

use clap::Args;
use measurement::captures::{self, ForeignFile};
use units::Time;

use super::Imported;
use crate::open::{import_name, read_import};

/// Maximum size of a file: it is read into memory.
const MAX_BYTES: u64 = 8 << 30;

/// Options of `import pcap`.
#[derive(Debug, Args)]
pub struct PcapArgs {
    /// The files, pcap or pcapng; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Interval between rows of a flow
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    sample: Time,
}

/// Options of `import ss`.
#[derive(Debug, Args)]
pub struct SsArgs {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Sample interval of logs without timestamps
    #[arg(long, value_name = "TIME", default_value = "1s")]
    every: Time,
}

/// Makes a record of each capture.
pub fn pcap(args: &PcapArgs, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    each(&args.files, |file| captures::pcap(file, args.sample, runs_dir))
}

/// Makes a record of each log of `ss -tin`.
pub fn ss(args: &SsArgs, runs_dir: &Path) -> anyhow::Result<Vec<Imported>> {
    each(&args.files, |file| captures::ss(file, args.every, runs_dir))
}

fn each(
    files: &[PathBuf],
    import: impl Fn(ForeignFile<'_>) -> measurement::Result<PathBuf>,
) -> anyhow::Result<Vec<Imported>> {
    let one = |path: &PathBuf| {
        let (bytes, name) = (read_import(path, MAX_BYTES)?, import_name(path, "imported"));
        let record = import(ForeignFile { path, name: &name, bytes: &bytes })?;
        Ok(Imported::complete(path, record))
    };
    files.iter().map(one).collect()
}
