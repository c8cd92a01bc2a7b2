//! `longfat import pcap` and `import ss`.

use std::path::{Path, PathBuf};

use clap::Args;
use measurement::captures::{self, ForeignFile};
use units::Time;

use crate::{
    import_command::Imported,
    open::{import_name, read_import},
};

/// Files above this do not fit beside everything else in memory.
const MAX_BYTES: u64 = 8 << 30;

/// Captures.
#[derive(Debug, Args)]
pub struct PcapArgs {
    /// The files, pcap or pcapng; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Between two rows of a flow
    #[arg(long, value_name = "TIME", default_value = "10ms")]
    sample: Time,
}

/// Logs of ss.
#[derive(Debug, Args)]
pub struct SsArgs {
    /// The files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Between two looks, where no line of the log tells the time
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
        Ok(Imported::whole(path, record))
    };
    files.iter().map(one).collect()
}
