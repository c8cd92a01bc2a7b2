//! `longfat kernel`: builds, lists and removes kernels for labs.

mod progress;

use std::{path::PathBuf, thread};

use clap::{Args, Subcommand};
use guest::{BuildOutcome, BuildRequest, Cache, Image, KernelSource};
use serde_json::{Value, json};
use units::Bytes;

use self::progress::ProgressLine;
use crate::{interrupt, output};

/// The schema of every document that these commands print.
const SCHEMA: &str = "longfat.kernel/1";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum KernelCommand {
    /// Build a kernel from the distribution's source package, or from a kernel tree; needs no root
    Build(BuildArgs),
    /// List the available kernels
    List,
    /// Remove a kernel
    Remove(RemoveArgs),
}

/// Options of `kernel build`.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Version: 6.1 (the newest 6.1.x), 6.1.192, or `latest` [default: the newest in the package lists]
    #[arg(value_name = "VERSION", conflicts_with_all = ["source", "image"])]
    version: Option<String>,
    /// Use this suite's package lists instead of the machine's, as in trixie-backports or sid
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["source", "image"])]
    suite: Option<String>,
    /// Build this kernel tree; it is copied and not modified
    #[arg(long, value_name = "DIR", conflicts_with = "image")]
    source: Option<PathBuf>,
    /// Add a User-Mode Linux kernel that is already built
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Name of the kernel [default: the release of a package's kernel, or the last component of DIR or FILE]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Number of parallel compilers [default: one per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Build it even if it exists
    #[arg(long)]
    force: bool,
}

/// Options of `kernel remove`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct RemoveArgs {
    /// Name or version, as `longfat kernel list` prints it
    #[arg(value_name = "VERSION")]
    name: Option<String>,
    /// Remove all kernels
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub fn run(command: &KernelCommand, json: bool) -> anyhow::Result<()> {
    let cache = Cache::of_this_user().map_err(experiment::Error::from)?;
    let leftovers = cache.remove_leftovers().map_err(experiment::Error::from)?;
    if leftovers > 0 {
        let builds = if leftovers == 1 { "a build that was killed" } else { "builds that were killed" };
        output::note(&format!("removed the files of {builds}"));
    }
    match command {
        KernelCommand::Build(args) => build(&cache, args, json),
        KernelCommand::List => list(&cache, json),
        KernelCommand::Remove(args) => remove(&cache, args, json),
    }
}

fn build(cache: &Cache, args: &BuildArgs, json: bool) -> anyhow::Result<()> {
    let request = request(args);
    let stop = interrupt::flag()?;
    let mut line = ProgressLine::new();
    let outcome = guest::build(cache, &request, &stop, &mut |progress| line.show(&progress));
    line.finish();
    let outcome = outcome.map_err(experiment::Error::from)?;
    let image = outcome.image();
    if json {
        let built = matches!(outcome, BuildOutcome::Built(_));
        return output::json(&json!({ "schema": SCHEMA, "built": built, "kernel": document(image) }));
    }
    if !image.lacks.is_empty() {
        output::note(&format!(
            "kernel options that {} does not support: {}",
            image.release,
            image.lacks.join(", ")
        ));
    }
    output::prose(&match outcome {
        BuildOutcome::Built(_) => format!(
            "built {} from {}: {} ({})",
            image.name,
            image.origin.text(),
            image.path.display(),
            size(image)
        ),
        BuildOutcome::Exists(_) => format!(
            "{} exists already, built {} from {}: {}; --force rebuilds it",
            image.name,
            time(image),
            image.origin.text(),
            image.path.display()
        ),
    })
}

fn request(args: &BuildArgs) -> BuildRequest {
    let source = match (&args.source, &args.image) {
        (Some(directory), _) => KernelSource::Tree(directory.clone()),
        (_, Some(file)) => KernelSource::File(file.clone()),
        _ => KernelSource::Package {
            version: args.version.clone().filter(|version| version != "latest"),
            suite: args.suite.clone(),
        },
    };
    let jobs = args.jobs.map(usize::from);
    let jobs = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    BuildRequest { source, name: args.name.clone(), jobs, force: args.force }
}

fn list(cache: &Cache, json: bool) -> anyhow::Result<()> {
    let images = cache.images().map_err(experiment::Error::from)?;
    if json {
        let kernels: Vec<Value> = images.iter().map(document).collect();
        let directory = cache.directory().display().to_string();
        return output::json(&json!({ "schema": SCHEMA, "directory": directory, "kernels": kernels }));
    }
    if images.is_empty() {
        return output::prose(&format!(
            "no kernels in {}; build one with: longfat kernel build 6.1",
            cache.directory().display()
        ));
    }
    output::text(&table(&images))
}

fn table(images: &[Image]) -> String {
    let mut rows = vec![["NAME", "VERSION", "SIZE", "BUILT", "FROM"].map(String::from).to_vec()];
    rows.extend(images.iter().map(|image| {
        let state = if image.verify().is_ok() { "" } else { " (DAMAGED)" };
        vec![image.name.clone(), image.release.clone(), size(image), time(image), image.origin.text() + state]
    }));
    view::table::fitted(rows, &[false; 5], output::width(), &["BUILT", "SIZE"])
}

fn remove(cache: &Cache, args: &RemoveArgs, json: bool) -> anyhow::Result<()> {
    let removed = match &args.name {
        Some(name) => vec![cache.remove(name).map_err(experiment::Error::from)?],
        None => cache.remove_all().map_err(experiment::Error::from)?,
    };
    let names: Vec<&str> = removed.iter().map(|image| image.name.as_str()).collect();
    if json {
        return output::json(&json!({ "schema": SCHEMA, "removed": names }));
    }
    output::text(&match names.as_slice() {
        [] => "no kernels to remove".into(),
        names => format!("removed {}", names.join(", ")),
    })
}

/// A kernel as JSON.
fn document(image: &Image) -> Value {
    json!({
        "name": image.name,
        "release": image.release,
        "version": image.version.to_string(),
        "path": image.path.display().to_string(),
        "from": image.origin,
        "size_bytes": image.size_bytes,
        "sha256": image.sha256,
        "intact": image.verify().is_ok(),
        "built": jiff::Timestamp::from_second(i64::try_from(image.built_unix_s).unwrap_or(0)).ok().map(|t| t.to_string()),
        "lacks": image.lacks,
    })
}

/// The image's size in MB, rounded down to one decimal.
fn size(image: &Image) -> String {
    Bytes(image.size_bytes / 100_000 * 100_000).to_string()
}

/// Build time of the image in this machine's time zone, to the minute.
fn time(image: &Image) -> String {
    let seconds = i64::try_from(image.built_unix_s).unwrap_or(0);
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "-".into(),
    }
}
