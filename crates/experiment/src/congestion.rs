//! Congestion controls of a scenario's flows: checks them before a run and registers them with the kernel
//! during a run.

use std::{collections::BTreeMap, path::Path};

use cc::{
    Source, SourceError, UserHeader, kernel,
    native::{BuildError, Library},
};
use computed_runs::congestion::{
    FROM_LONGFAT, describe_quic, flows_with_cc, missing_algorithm, name_mistake, parameter_mistakes,
    settings, values,
};
use lab::OwnControl;
use scenario::{Cc, CcMistake, CcValues, FlowKind, FlowSpec, Scenario, ScenarioFile};
use schema::FlowSummary;

use crate::{EngineChoice, Error, Experiment, Job, Result, error, scenario_file::folder};

/// Source of congestion controls that are part of the kernel.
const FROM_KERNEL: &str = "kernel";
/// Source of congestion controls that `longfat cc load` registered earlier.
const FROM_CC_LOAD: &str = "longfat cc load";

/// Checks the facts that parsing cannot check: whether the program has the algorithms, and whether the
/// algorithms have the parameters.
///
/// Bare names are checked by `check_names`: which exist depends on the engine.
///
/// # Errors
/// Unknown algorithms and wrong parameters, each with its position in the file; a missing C compiler.
pub fn check(
    file: &ScenarioFile,
    path: &Path,
    variant: Option<&str>,
    sets: &[(String, String)],
    scenario: &Scenario,
) -> Result<()> {
    let mut mistakes = Vec::new();
    for (flow, cc) in flows_with_cc(scenario) {
        if let Cc::Named(_) = cc {
            continue;
        }
        let Some(source) = source(cc, path) else {
            mistakes.push(missing_algorithm(flow, cc, &built_in_names()));
            continue;
        };
        match source.parameters() {
            Ok(known) => mistakes.extend(parameter_mistakes(flow, cc, source.name(), &known)),
            Err(SourceError::Build(BuildError::NoCompiler)) => {
                return Err((&BuildError::NoCompiler).into());
            }
            // The file does not build for the simulator, but does for the kernel. The simulator reports this
            // error itself.
            Err(SourceError::Build(BuildError::Refused { .. }))
                if cc.set().is_empty() && kernel::compile(&source).is_ok() => {}
            Err(error) => {
                let help = format!("`longfat cc check {}` shows the details", source.name());
                let (flow, message) = (flow.name.clone(), error.to_string());
                mistakes.push(CcMistake { flow, parameter: None, message, help });
            }
        }
    }
    match file.cc_error(variant, sets, &mistakes) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Checks the bare names of the congestion controls of a run, before it starts.
///
/// # Errors
/// Names that neither Linux nor the program knows, and those that the simulator lacks, each with its position
/// in the file; an algorithm of Linux that this machine's kernel lacks (lab).
pub(crate) fn check_names(job: &Job<'_>) -> Result<()> {
    let mut mistakes = Vec::new();
    for (flow, cc) in flows_with_cc(&job.scenario) {
        let Cc::Named(name) = cc else { continue };
        let is_of_kernel = matches!(flow.kind, FlowKind::Tcp(_));
        if is_of_kernel && job.engine == EngineChoice::Lab && lab::has_congestion_control(name)? {
            continue;
        }
        mistakes.extend(name_mistake(flow, name, &job.engine, &built_in_names()));
    }
    let Experiment { file, sets, .. } = job.experiment;
    let fields = job.point.iter().flat_map(|point| point.values.clone());
    let sets: Vec<(String, String)> = fields.chain(sets.iter().cloned()).collect();
    match file.cc_error(job.variant.as_deref(), &sets, &mistakes) {
        Some(error) if !mistakes.is_empty() => Err(error.into()),
        _ => Ok(()),
    }
}

/// Why this process cannot register the congestion controls that a lab run of the scenario needs and the
/// kernel lacks; `None` if it can, or if the kernel has all.
pub(crate) fn missing_requirement(scenario: &Scenario) -> Option<String> {
    let is_of_kernel = |cc: &Cc| match cc {
        Cc::Named(name) => lab::has_congestion_control(name).unwrap_or(false),
        Cc::Own { .. } | Cc::File { .. } => false,
    };
    let mut tcp = flows_with_cc(scenario).filter(|(flow, _)| matches!(flow.kind, FlowKind::Tcp(_)));
    match tcp.any(|(_, cc)| !is_of_kernel(cc)) {
        true => kernel::missing_requirement().map(|missing| missing.to_string()),
        false => None,
    }
}

/// The congestion controls of a run. They stay registered until this value is dropped.
#[derive(Default)]
pub struct Registered {
    /// The kernel's name, by flow.
    pub kernel_names: BTreeMap<String, String>,
    /// Those that run in this program, by flow.
    pub own_controls: BTreeMap<String, OwnControl>,
    from: BTreeMap<String, String>,
    /// One per algorithm and set of parameters. Dropping it, or the end of this process, unregisters the
    /// algorithm.
    registrations: Vec<(Cc, String, kernel::Registration)>,
}

/// Registers the congestion controls that the flows of `scenario` need and the kernel lacks.
///
/// # Errors
/// Neither the kernel nor the program has an algorithm, or the kernel rejects it.
pub fn register(scenario: &Scenario, path: &Path) -> Result<Registered> {
    let mut all = Registered::default();
    for (index, flow) in scenario.flows.iter().enumerate() {
        if let FlowKind::Quic(quic) = &flow.kind {
            let seed = scenario.seed.wrapping_mul(1_000_003).wrapping_add(index as u64);
            all.own_controls.insert(flow.name.clone(), own_control(&quic.cc(), path, seed)?);
        }
    }
    for (flow, cc) in flows_with_cc(scenario) {
        if matches!(flow.kind, FlowKind::Quic(_)) {
            continue;
        }
        let (name, from) = match cc {
            Cc::Named(name) if lab::has_congestion_control(name)? => {
                let from = if is_loaded(name) { FROM_CC_LOAD } else { FROM_KERNEL };
                (name.clone(), from)
            }
            Cc::Named(name) if source(cc, path).is_none() => {
                return Err(Error::Missing(format!(
                    "flow {}: neither this kernel nor longfat has a congestion control \"{name}\"; see `longfat cc list`",
                    flow.name
                )));
            }
            Cc::File { path: file, .. } => (all.register(cc, path)?, file.as_str()),
            Cc::Named(name) => {
                let own = Cc::Own { name: name.clone(), set: CcValues::new() };
                (all.register(&own, path)?, FROM_LONGFAT)
            }
            Cc::Own { .. } => (all.register(cc, path)?, FROM_LONGFAT),
        };
        all.kernel_names.insert(flow.name.clone(), name);
        all.from.insert(flow.name.clone(), from.to_owned());
    }
    Ok(all)
}

impl Registered {
    /// Adds the congestion control to a flow's summary; `used` is the kernel's name of the socket's
    /// congestion control.
    pub fn describe(&self, flow: &FlowSpec, used: Option<&str>, summary: &mut FlowSummary) {
        if let FlowKind::Quic(quic) = &flow.kind {
            describe_quic(quic, summary);
        }
        let FlowKind::Tcp(tcp) = &flow.kind else { return };
        summary.cc_kernel_name = used.map(Into::into);
        summary.cc_from = used.map(|_| self.from.get(&flow.name).map_or(FROM_KERNEL, String::as_str).into());
        if let Some(cc) = &tcp.cc {
            summary.cc = Some(cc.name().into());
            summary.cc_set = settings(cc);
        }
    }

    /// Registers `cc` unless it is registered, and returns the kernel's name of it.
    fn register(&mut self, cc: &Cc, path: &Path) -> Result<String> {
        if let Some((_, name, _)) = self.registrations.iter().find(|(known, ..)| known == cc) {
            return Ok(name.clone());
        }
        let Some(source) = source(cc, path) else {
            return Err(Error::Failed(format!("longfat has no congestion control {:?}", cc.name())));
        };
        let registration = kernel::load(&source, &values(cc), None)
            .map_err(|error| error::congestion_control(&error, ""))?;
        let name = kernel_name(cc, &registration)?;
        self.registrations.push((cc.clone(), name.clone(), registration));
        Ok(name)
    }
}

/// A congestion control that runs in this program.
fn own_control(cc: &Cc, path: &Path, seed: u64) -> Result<OwnControl> {
    let Some(source) = source(cc, path) else {
        return Err(Error::Missing(format!(
            "longfat has no congestion control {:?}; see `longfat cc list`",
            cc.name()
        )));
    };
    let (values, name) = (values(cc), file_control(cc).map(str::to_owned));
    Ok(OwnControl::new(move || {
        let mut library = Library::open(&source, &values)?;
        library.set_hz(tcp::DRIVER_HZ);
        let mut controller = library.controller(name.as_deref())?;
        controller.set_seed(seed);
        Ok(Box::new(controller))
    }))
}

/// The algorithm that `cc` selects of a file that defines several.
pub fn file_control(cc: &Cc) -> Option<&str> {
    match cc {
        Cc::File { name, .. } => name.as_deref(),
        _ => None,
    }
}

/// The kernel's name of the algorithm that `cc` selects: a file can define several, and the scenario can name
/// one.
fn kernel_name(cc: &Cc, registration: &kernel::Registration) -> Result<String> {
    let Cc::File { path, name: Some(requested), .. } = cc else { return Ok(registration.name().into()) };
    let name = registration.named(requested).map(Into::into);
    name.ok_or_else(|| Error::BadInput(format!("{path} has no congestion control named {requested:?}")))
}

/// Whether `longfat cc load` registered it. False for users without permission to read the BPF pins, as for
/// algorithms of the kernel.
fn is_loaded(name: &str) -> bool {
    let pinned = kernel::pins::pinned().unwrap_or_default();
    pinned.iter().flat_map(|p| &p.names).any(|known| known == name)
}

/// The C source of `cc`; `None` if the program has no algorithm of that name. `path` is the scenario file's.
pub fn source(cc: &Cc, path: &Path) -> Option<Source> {
    match cc {
        Cc::Named(name) | Cc::Own { name, .. } => Source::built_in(name),
        // The text comes from the scenario, which may be read from a record. Headers are found in the
        // directory of the file.
        Cc::File { path: file, text, .. } => {
            Some(Source::File { path: folder(path).join(file), text: text.to_string() })
        }
    }
}

/// The user's headers of the C files of a run's flows.
pub(crate) fn user_headers(job: &Job<'_>) -> Vec<UserHeader> {
    let of_flow = |(_, cc)| source(cc, &job.experiment.path).map(|source| source.user_headers());
    flows_with_cc(&job.scenario).filter_map(of_flow).flatten().collect()
}

/// The names of the congestion controls that are part of this program.
pub fn built_in_names() -> Vec<&'static str> {
    cc::Algorithm::all().iter().map(|algorithm| algorithm.name).collect()
}
