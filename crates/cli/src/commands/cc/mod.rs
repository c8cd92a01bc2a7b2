//! `longfat cc`: congestion controls of this kernel, of longfat, and of the user's files.

mod check;
mod list;
mod show;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use cc::{
    Algorithm, ParameterValue, ParameterValues, Source,
    kernel::{self, KernelName, pins, pins::Pinned},
};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::{exit::Exit, output};

/// The schema of every document that these commands print.
pub const SCHEMA: &str = "longfat.cc/1";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum CcCommand {
    /// List the algorithms of this kernel and of longfat, with their parameters and the engines that can use
    /// each
    List,
    /// Show an algorithm: its documentation, its parameters, its source, and its file in the kernel
    Show(show::ShowArgs),
    /// Check an algorithm: both builds, the verifier, a short run in longfat and in the kernel
    Check(SourceArgs),
    /// Register an algorithm system-wide until `unload` or a reboot
    Load(LoadArgs),
    /// Unregister algorithms that `load` registered
    Unload(UnloadArgs),
    /// Compile a file for the kernel (eBPF, NAME.o) and for the simulator (NAME.so)
    Build(BuildArgs),
    /// The process in which `check` runs the native form, which may crash
    #[command(hide = true)]
    Trial(SourceArgs),
}

/// A congestion control and its parameters.
#[derive(Debug, Args)]
pub struct SourceArgs {
    /// One of longfat's algorithms (see `longfat cc list`), or a file such as my.bpf.c
    #[arg(value_name = "NAME|FILE")]
    what: String,
    /// Parameters, as in a=7 backoff=0.5
    #[arg(value_name = "PARAMETER=VALUE")]
    set: Vec<String>,
}

/// The algorithm to load.
#[derive(Debug, Args)]
pub struct LoadArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Name in the kernel, at most 15 characters [default: the name in the file]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

/// The algorithms to unregister.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct UnloadArgs {
    /// Name in the kernel
    name: Option<String>,
    /// All algorithms that `longfat cc load` registered
    #[arg(long)]
    all: bool,
}

/// The algorithm to compile, and the output directory.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// A file such as my.bpf.c, or one of longfat's algorithms
    #[arg(value_name = "FILE|NAME")]
    what: String,
    /// Output directory
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    output: PathBuf,
}

/// Runs the command.
pub fn run(command: &CcCommand, json: bool) -> anyhow::Result<()> {
    match command {
        CcCommand::List => list::run(json),
        CcCommand::Show(args) => show::run(args, json),
        CcCommand::Check(args) => check::run(args, json),
        CcCommand::Trial(args) => check::trial(args),
        CcCommand::Load(args) => load(args, json),
        CcCommand::Unload(args) => unload(args, json),
        CcCommand::Build(args) => build(args, json),
    }
}

impl SourceArgs {
    /// The arguments on the command line.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.what.as_str()).chain(self.set.iter().map(String::as_str))
    }

    /// Reads the source.
    pub fn source(&self) -> anyhow::Result<Source> {
        source(&self.what)
    }

    /// The given parameters.
    pub fn values(&self) -> anyhow::Result<ParameterValues> {
        self.set.iter().map(|text| parameter(text)).collect()
    }
}

/// One of longfat's algorithms by name, or a file.
fn source(what: &str) -> anyhow::Result<Source> {
    if let Some(own) = Source::built_in(what) {
        return Ok(own);
    }
    if !what.ends_with(".c") && !what.contains('/') {
        let names: Vec<&str> = Algorithm::all().iter().map(|a| a.name).collect();
        let known = names.join(", ");
        return Err(Exit::BadInput(format!(
            "{what} is neither one of longfat's congestion controls ({known}) nor a file (my.bpf.c)"
        ))
        .into());
    }
    Source::file(Path::new(what)).map_err(|error| experiment::Error::from(&error).into())
}

/// Parses `a=7`.
fn parameter(text: &str) -> anyhow::Result<(String, ParameterValue)> {
    let bad = || Exit::BadInput(format!("{text:?} is not of the form PARAMETER=VALUE, such as a=7"));
    let (name, value) = text.split_once('=').ok_or_else(bad)?;
    let value = match value.trim() {
        "true" => ParameterValue::Bool(true),
        "false" => ParameterValue::Bool(false),
        number => match (number.parse(), number.parse()) {
            (Ok(whole), _) => ParameterValue::Integer(whole),
            (_, Ok(decimal)) => ParameterValue::Decimal(decimal),
            _ => return Err(bad().into()),
        },
    };
    Ok((name.trim().into(), value))
}

fn load(args: &LoadArgs, json: bool) -> anyhow::Result<()> {
    let (source, values) = (args.source.source()?, args.source.values()?);
    let name = args.name.as_deref().map_or(KernelName::FromFile, KernelName::Given);
    let registration = kernel::load_named(&source, &values, name).map_err(|error| {
        let hint =
            matches!(error, kernel::Error::Taken { .. }).then_some("; give it another one with --as NAME");
        failure_with(&error, hint.unwrap_or_default())
    })?;
    let pinned = pins::pin(registration).map_err(|e| failure(&e))?;
    if json {
        return output::json(&json!({
            "schema": SCHEMA, "name": pinned.name, "names": pinned.names, "pinned": pinned.folder,
        }));
    }
    output::text(&format!(
        "loaded {name}: cc = \"{name}\" in a scenario of the lab, or setsockopt(TCP_CONGESTION) of any user's program; \
         remove it with `longfat cc unload {name}`",
        name = pinned.name
    ))
}

fn unload(args: &UnloadArgs, json: bool) -> anyhow::Result<()> {
    let pinned = pins::pinned().map_err(|e| failure(&e))?;
    let wanted: Vec<&str> = match &args.name {
        Some(name) => vec![name],
        None => pinned.iter().map(|p| p.name.as_str()).collect(),
    };
    if wanted.is_empty()
        && let Some(missing) = kernel::missing_requirement()
    {
        return Err(Exit::Missing(missing.to_string()).into());
    }
    let removed = wanted.iter().map(|name| match pins::unpin(name) {
        // Another process has unregistered it meanwhile.
        Err(kernel::Error::NotLoaded { .. }) if args.all => Ok(None),
        result => result.map(Some).map_err(|e| not_loaded(&e)),
    });
    let removed: Vec<Pinned> = removed.filter_map(Result::transpose).collect::<anyhow::Result<_>>()?;
    let names: Vec<&str> = removed.iter().flat_map(|p| &p.names).map(String::as_str).collect();
    if json {
        return output::json(&json!({ "schema": SCHEMA, "removed": names }));
    }
    output::text(&match names.as_slice() {
        [] => "nothing to unload".into(),
        names => format!("unloaded {}; connections that use it keep it until they close", names.join(", ")),
    })
}

/// The owner of an algorithm that `longfat cc load` did not register.
fn not_loaded(error: &kernel::Error) -> anyhow::Error {
    let kernel::Error::NotLoaded { name } = error else { return failure(error) };
    let others = kernel::loaded_controls().unwrap_or_default();
    let holder_note = others.iter().find(|l| l.name == *name).map(|l| match l.held_by.first() {
        Some((pid, holder)) => format!("; it belongs to process {pid} ({holder}) and ends with it"),
        None => "; another program has loaded it".into(),
    });
    failure_with(error, &holder_note.unwrap_or_default())
}

fn build(args: &BuildArgs, json: bool) -> anyhow::Result<()> {
    let source = source(&args.what)?;
    fs::create_dir_all(&args.output).with_context(|| format!("cannot create {}", args.output.display()))?;
    let path = |ending: &str| args.output.join(format!("{}.{ending}", source.name()));
    let bpf = kernel::compile(&source).map(|object| (path("o"), object.into_owned()));
    let native = cc::native::build(&source).map(|object| (path("so"), object.bytes().to_vec()));
    for (path, bytes) in bpf.iter().chain(&native) {
        output::file(path, bytes)?;
    }
    let written = |built: Option<&(PathBuf, Vec<u8>)>| built.map(|(path, _)| path.display().to_string());
    if json {
        output::json(&json!({
            "schema": SCHEMA,
            "kernel": { "file": written(bpf.as_ref().ok()), "error": bpf.as_ref().err().map(|e| e.to_string()) },
            "simulator": { "file": written(native.as_ref().ok()), "error": native.as_ref().err().map(|e| e.to_string()) },
        }))?;
    } else {
        let line = |form: &str, path: Option<String>| path.map(|path| format!("{form}  {path}"));
        let lines =
            [line("kernel   ", written(bpf.as_ref().ok())), line("simulator", written(native.as_ref().ok()))];
        let lines: Vec<String> = lines.into_iter().flatten().collect();
        if !lines.is_empty() {
            output::text(&lines.join("\n"))?;
        }
    }
    match (bpf, native) {
        (Ok(_), Ok(_)) => Ok(()),
        (Err(bpf), Err(native)) if bpf.missing().is_none() => Err(Exit::BadInput(format!(
            "both builds fail\nfor the kernel:\n{bpf}\nfor the simulator:\n{native}"
        ))
        .into()),
        (Err(bpf), Ok(_)) => Err(failure(&bpf)),
        (_, Err(native)) => Err(experiment::Error::from(&native).into()),
    }
}

/// The exit code of an error of the kernel: a missing feature, bad input, or a failure.
pub fn failure(error: &kernel::Error) -> anyhow::Error {
    failure_with(error, "")
}

fn failure_with(error: &kernel::Error, hint: &str) -> anyhow::Error {
    experiment::error::congestion_control(error, hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbers_or_booleans() {
        let value =
            |text| parameter(text).map(|(name, value)| (name, value.to_string())).map_err(|e| e.to_string());
        assert_eq!(value("a=7"), Ok(("a".into(), "7".into())));
        assert_eq!(value("backoff=0.5"), Ok(("backoff".into(), "0.5".into())));
        assert_eq!(value("fast=true"), Ok(("fast".into(), "true".into())));
        assert!(value("a").unwrap_err().contains("PARAMETER=VALUE"));
        assert!(value("a=seven").is_err());
    }
}
