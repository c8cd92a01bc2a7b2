//! `longfat cc list`: the available congestion controls, and whether lab, simulator and unprivileged users
//! can use them.

use std::collections::BTreeSet;

use cc::{
    Algorithm, Source,
    kernel::{self, KernelControls, LoadedControl, pins},
};
use serde_json::{Value, json};

use super::{SCHEMA, failure};
use crate::output;

/// A congestion control that sockets can choose now.
struct InKernel {
    name: String,
    /// The BPF program behind it; `None` for the kernel's own, and if this process may not list BPF programs.
    loaded: Option<LoadedControl>,
    /// Whether this process may list BPF programs.
    is_known: bool,
    /// Loaded by `longfat cc load`.
    is_pinned: bool,
    unprivileged: bool,
    simulator: bool,
}

/// Runs the command.
pub fn run(json: bool) -> anyhow::Result<()> {
    let machine = kernel::kernel_controls().map_err(|e| failure(&e))?;
    // Without privilege the origin of an algorithm is unknown, but the kernel lists all names.
    let missing = kernel::missing_requirement();
    let loaded =
        if missing.is_none() { kernel::loaded_controls().map_err(|e| failure(&e))? } else { Vec::new() };
    let pinned = if missing.is_none() { pins::pinned().map_err(|e| failure(&e))? } else { Vec::new() };
    let pinned: BTreeSet<&str> = pinned.iter().flat_map(|p| &p.names).map(String::as_str).collect();
    let in_kernel = in_kernel(&machine, &loaded, missing.is_none(), &pinned);
    let missing = missing.map(|m| m.to_string());
    if json {
        return output::json(&json!({
            "schema": SCHEMA,
            "default": machine.default,
            "kernel": in_kernel.iter().map(InKernel::json).collect::<Vec<_>>(),
            "own": Algorithm::all().iter().map(|a| own_json(a, missing.is_none())).collect::<Vec<_>>(),
            "missing": missing,
        }));
    }
    let mut lines = vec![format!("In this kernel (default: {}):", machine.default)];
    lines.extend(table(&in_kernel));
    lines.push(String::new());
    lines.push("In longfat, by cc = { name = \"NAME\", PARAMETER = VALUE }:".into());
    lines.extend(Algorithm::all().iter().flat_map(own_text));
    lines.push(String::new());
    lines.push("Differences from the kernel's algorithm of the same name:".into());
    lines.extend(differences());
    lines.push(alike());
    lines.push(String::new());
    lines.push(match missing {
        None => "The lab loads these, and your own files, for the time of a run; any user's programs can have them after \
                 `longfat cc load`."
            .into(),
        Some(missing) => format!("The simulator can use all of these; the lab cannot: {missing}"),
    });
    output::prose(&lines.join("\n"))
}

fn in_kernel(
    machine: &KernelControls,
    loaded: &[LoadedControl],
    is_known: bool,
    pinned: &BTreeSet<&str>,
) -> Vec<InKernel> {
    let names: BTreeSet<&str> =
        machine.available.iter().chain(loaded.iter().map(|l| &l.name)).map(String::as_str).collect();
    let of = |name: &str| {
        let loaded = loaded.iter().find(|l| l.name == name).cloned();
        InKernel {
            unprivileged: machine.allowed.iter().any(|a| a == name)
                || loaded.as_ref().is_some_and(|l| l.unrestricted),
            simulator: Source::built_in(name).is_some(),
            is_pinned: pinned.contains(name),
            name: name.into(),
            loaded,
            is_known,
        }
    };
    names.into_iter().map(of).collect()
}

impl InKernel {
    fn from(&self) -> String {
        match &self.loaded {
            None if !self.is_known => "kernel or BPF (run as root to see which)".into(),
            None => "kernel".into(),
            Some(_) if self.is_pinned => "longfat cc load".into(),
            Some(loaded) => match loaded.held_by.first() {
                Some((pid, name)) => format!("BPF of process {pid} ({name})"),
                None => "BPF of another program".into(),
            },
        }
    }

    fn json(&self) -> Value {
        let loaded = self.loaded.as_ref().map(|l| {
            let held_by: Vec<Value> =
                l.held_by.iter().map(|(pid, name)| json!({ "pid": pid, "name": name })).collect();
            json!({ "map_id": l.map_id, "link_id": l.link_id, "held_by": held_by, "pinned": self.is_pinned })
        });
        let from = self.is_known.then_some(if loaded.is_some() { "bpf" } else { "kernel" });
        json!({
            "name": self.name, "from": from, "loaded": loaded,
            "lab": true, "simulator": self.simulator, "unprivileged": self.unprivileged,
        })
    }
}

fn table(rows: &[InKernel]) -> Vec<String> {
    let yes = |is| if is { "yes" } else { "no" };
    let width = rows.iter().map(|r| r.name.len()).max().unwrap_or(0).max(4);
    let header = format!("  {:<width$}  lab  simulator  unprivileged  from", "name");
    let line = |r: &InKernel| {
        let simulator = yes(r.simulator);
        let unprivileged = yes(r.unprivileged);
        format!("  {:<width$}  yes  {simulator:<9}  {unprivileged:<12}  {}", r.name, r.from())
    };
    std::iter::once(header).chain(rows.iter().map(line)).collect()
}

fn own_text(algorithm: &'static Algorithm) -> Vec<String> {
    let mut lines = vec![format!("  {:<10}  {}", algorithm.name, algorithm.summary())];
    let parameters = Source::BuiltIn(algorithm).parameters().unwrap_or_default();
    let values: Vec<String> = parameters.iter().map(|p| format!("{} = {}", p.name, p.default())).collect();
    let width = values.iter().map(String::len).max().unwrap_or(0);
    let rows = parameters.iter().zip(&values);
    lines.extend(
        rows.map(|(p, value)| format!("  {:<10}    {value:<width$}  {}", "", p.doc).trim_end().to_string()),
    );
    lines
}

/// `  htcp        times in microseconds ...` for each algorithm that differs from the kernel's.
fn differences() -> impl Iterator<Item = String> {
    let different = Algorithm::all().iter().filter_map(|a| Some((a.name, a.departure()?)));
    different.map(|(name, difference)| format!("  {name:<10}  {difference}"))
}

/// The other algorithms that the kernel has, and those that it does not have.
fn alike() -> String {
    let others = Algorithm::all().iter().filter(|a| a.departure().is_none());
    let (alike, absent): (Vec<&str>, Vec<&str>) =
        others.map(|a| a.name).partition(|name| cc::kernel_source::kernel_source_file(name).is_some());
    format!("  None: {}. Not in Linux: {}.", alike.join(", "), absent.join(", "))
}

fn own_json(algorithm: &'static Algorithm, lab: bool) -> Value {
    let parameters = Source::BuiltIn(algorithm).parameters().unwrap_or_default();
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|p| {
            let default = match p.default() {
                cc::ParameterValue::Integer(value) => json!(value),
                cc::ParameterValue::Decimal(value) => json!(value),
                cc::ParameterValue::Bool(value) => json!(value),
            };
            json!({ "name": p.name, "doc": p.doc, "default": default, "scale": p.scale })
        })
        .collect();
    json!({
        "name": algorithm.name, "summary": algorithm.summary(), "parameters": parameters,
        "departure": algorithm.departure(), "lab": lab, "simulator": true, "unprivileged": false,
    })
}
