//! `longfat cc show`: an algorithm's parameters, its file in the kernel's source, and longfat's source.

use std::collections::BTreeSet;

use cc::{
    Algorithm, Parameter, ParameterType, Source, kernel,
    kernel_source::{ModuleParameter, kernel_source_file, module_parameters},
};
use clap::Args;
use serde_json::{Value, json};

use super::{SCHEMA, failure, source};
use crate::{exit::Exit, output};

/// Options of `cc show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The algorithm: one of longfat's or of the kernel's (see `longfat cc list`), or a file such as my.bpf.c
    #[arg(value_name = "NAME|FILE")]
    what: String,
    /// Print only the source
    #[arg(long)]
    source: bool,
}

/// The available information about an algorithm.
struct Shown<'a> {
    name: &'a str,
    /// longfat's source of the algorithm, or the user's.
    source: Option<Source>,
    parameters: Vec<Parameter>,
    /// The algorithm's file in the kernel's source.
    kernel_file: Option<String>,
    /// Whether this kernel has it now.
    in_kernel: bool,
    module_parameters: Vec<ModuleParameter>,
}

/// Runs the command.
pub fn run(args: &ShowArgs, json: bool) -> anyhow::Result<()> {
    let shown = Shown::of(&args.what)?;
    if args.source && shown.source.is_none() {
        let why = format!("longfat has no source of {}; the kernel has {}", shown.name, shown.location());
        return Err(Exit::BadInput(why).into());
    }
    match (json, args.source) {
        (true, _) => output::json(&shown.json()),
        (false, true) => output::text(shown.text_of_source()),
        (false, false) => output::text(&shown.text()),
    }
}

impl<'a> Shown<'a> {
    fn of(what: &'a str) -> anyhow::Result<Self> {
        let machine = kernel::kernel_controls().map_err(|e| failure(&e))?;
        let in_kernel = machine.available.iter().any(|name| name == what);
        let kernel_file = kernel_source_file(what);
        let source = match source(what) {
            Ok(source) => Some(source),
            Err(_) if in_kernel || kernel_file.is_some() => None,
            Err(_) if !what.ends_with(".c") && !what.contains('/') => {
                return Err(unknown(what, &machine.available));
            }
            Err(error) => return Err(error),
        };
        let parameters = match &source {
            Some(source) => source.parameters().map_err(|error| experiment::Error::from(&error))?,
            None => Vec::new(),
        };
        let module_parameters = module_parameters(what);
        Ok(Shown { name: what, source, parameters, kernel_file, in_kernel, module_parameters })
    }

    fn text_of_source(&self) -> &str {
        self.source.as_ref().map_or("", Source::text)
    }

    /// The origin of the kernel's algorithm.
    fn location(&self) -> &str {
        self.kernel_file.as_deref().unwrap_or("it from a BPF program or another module")
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        lines.push(match &self.source {
            Some(Source::BuiltIn(algorithm)) => format!("{}: {}", self.name, algorithm.summary()),
            Some(Source::File { .. }) => format!("{}: your file", self.name),
            None => {
                format!("{}: longfat has no algorithm of this name; the lab can use the kernel's", self.name)
            }
        });
        let kernel_state =
            if self.in_kernel { "this kernel has it" } else { "this kernel has not loaded it" };
        match &self.kernel_file {
            Some(file) => {
                let module = file.rsplit('/').next().unwrap_or(file).trim_end_matches(".c");
                let load =
                    if self.in_kernel { String::new() } else { format!(" (try: sudo modprobe {module})") };
                lines.push(format!("kernel source: {file}; {kernel_state}{load}"));
            }
            None if self.in_kernel => lines.push(format!("kernel: {kernel_state}")),
            None => lines.push("kernel source: none of this name".into()),
        }
        if !self.module_parameters.is_empty() {
            lines.push("parameters of the kernel's module, as they are now:".into());
            let values = self.module_parameters.iter();
            lines.extend(
                values.map(|p| format!("  {} = {}", p.name, p.value.as_deref().unwrap_or("not readable"))),
            );
        }
        if self.source.is_some() {
            lines.push(match self.parameters.is_empty() {
                true => "parameters: none".into(),
                false => "parameters, with their defaults:".into(),
            });
            lines.extend(self.parameters.iter().flat_map(parameter_lines));
            lines.push(String::new());
            lines.push(self.text_of_source().trim_end().to_owned());
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let parameters = self.parameters.iter().map(
            |p| json!({ "name": p.name, "doc": p.doc, "default": p.default().to_string(), "unit": unit(p) }),
        );
        let module = self.module_parameters.iter().map(|p| json!({ "name": p.name, "value": p.value }));
        json!({
            "schema": SCHEMA,
            "name": self.name,
            "summary": match &self.source {
                Some(Source::BuiltIn(algorithm)) => Some(algorithm.summary()),
                _ => None,
            },
            "parameters": parameters.collect::<Vec<_>>(),
            "source": self.source.as_ref().map(Source::text),
            "kernel": {
                "file": self.kernel_file, "available": self.in_kernel,
                "module_parameters": module.collect::<Vec<_>>(),
            },
        })
    }
}

/// `  a = 1 (number)`, and the comment below.
fn parameter_lines(parameter: &Parameter) -> Vec<String> {
    let first = format!("  {} = {} ({})", parameter.name, parameter.default(), unit(parameter));
    let doc = Some(&parameter.doc).filter(|doc| !doc.is_empty()).map(|doc| format!("      {doc}"));
    std::iter::once(first).chain(doc).collect()
}

/// The unit by the name's suffix, else the type.
fn unit(parameter: &Parameter) -> &'static str {
    const SUFFIXES: [(&str, &str); 6] = [
        ("_us", "microseconds"),
        ("_ms", "milliseconds"),
        ("_bytes", "bytes"),
        ("_segs", "segments"),
        ("_bps", "bit/s"),
        ("_rtts", "round-trip times"),
    ];
    let by_suffix = SUFFIXES.iter().find(|(suffix, _)| parameter.name.ends_with(suffix));
    match (by_suffix, parameter.ty, parameter.scale) {
        (Some((_, unit)), _, _) => unit,
        (None, ParameterType::Bool, _) => "true or false",
        (None, _, Some(_)) => "number",
        (None, _, None) => "whole number",
    }
}

fn unknown(what: &str, available: &[String]) -> anyhow::Error {
    let own = Algorithm::all().iter().map(|a| a.name);
    let names: BTreeSet<&str> = own.chain(available.iter().map(String::as_str)).collect();
    let near = schema::nearest_names(what, names).join(", ");
    Exit::BadInput(format!(
        "neither longfat nor this kernel has a congestion control {what}; the nearest are {near} (longfat cc list \
         has all)"
    ))
    .into()
}
