//! Congestion controls of a scenario's flows: checks them before a run and registers them with the kernel during a run.

use std::{collections::BTreeMap, path::Path};

use cc::{
    Parameter, ParameterError, ParameterValue, ParameterValues, Source, SourceError, kernel,
    native::BuildError,
};
use scenario::{Cc, CcMistake, CcValue, CcValues, FlowKind, FlowSpec, Host, Scenario, ScenarioFile};
use schema::{FlowSummary, Setting};

use crate::{
    EngineChoice, Error, Experiment, Job, Result, error, flow_context::setting, scenario_file::folder,
};

/// This sysctl names the default congestion control.
pub(crate) const CC_SYSCTL: &str = "net.ipv4.tcp_congestion_control";
/// Source of congestion controls that are part of the kernel.
const FROM_KERNEL: &str = "kernel";
/// Source of congestion controls that are part of this program.
pub const FROM_LONGFAT: &str = "longfat";
/// Source of congestion controls that `longfat cc load` registered earlier.
const FROM_CC_LOAD: &str = "longfat cc load";

/// The default congestion control of a host.
pub(crate) fn default_cc(host: Option<&Host>) -> String {
    setting(host, CC_SYSCTL).map_or_else(|| "cubic".into(), |name| name.trim().into())
}

/// Checks what parsing cannot: whether the program has the algorithms, and whether the algorithms have the parameters.
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
        let cc_mistake = |parameter: Option<&str>, message: String, help: String| CcMistake {
            flow: flow.name.clone(),
            parameter: parameter.map(Into::into),
            message,
            help,
        };
        let Some(source) = source(cc, path) else {
            let help = format!("it has {}", built_in_names().join(", "));
            mistakes.push(cc_mistake(
                None,
                format!("longfat has no congestion control \"{}\"", cc.name()),
                help,
            ));
            continue;
        };
        match source.parameters() {
            Ok(known) => mistakes.extend(cc.set().iter().filter_map(|(name, value)| {
                let (message, help) = parameter_mistake(&source, &known, name, *value)?;
                Some(cc_mistake(Some(name), message, help))
            })),
            Err(SourceError::Build(BuildError::NoCompiler)) => {
                return Err((&BuildError::NoCompiler).into());
            }
            // The file does not build for the simulator, but does for the kernel. The simulator reports this error itself.
            Err(SourceError::Build(BuildError::Refused { .. }))
                if cc.set().is_empty() && kernel::compile(&source).is_ok() => {}
            Err(error) => {
                let help = format!("`longfat cc check {}` shows the details", source.name());
                mistakes.push(cc_mistake(None, error.to_string(), help));
            }
        }
    }
    match file.cc_error(variant, sets, &mistakes) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Congestion controls of Linux by their names in the kernel. A guest kernel can have those that this
/// machine's lacks.
const OF_LINUX: [&str; 18] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "dctcp-reno",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];

/// Checks the bare names of the congestion controls of a run, before it starts.
///
/// # Errors
/// Names that neither Linux nor the program knows, and those that the simulator lacks, each with its position
/// in the file; an algorithm of Linux that this machine's kernel lacks (lab).
pub(crate) fn check_names(job: &Job<'_>) -> Result<()> {
    let mut mistakes = Vec::new();
    for (flow, cc) in flows_with_cc(&job.scenario) {
        let Cc::Named(name) = cc else { continue };
        let is_of_linux = OF_LINUX.contains(&name.as_str());
        if Source::built_in(name).is_some() {
            continue;
        }
        let (message, known) = match &job.engine {
            EngineChoice::Sim if is_of_linux => {
                (format!("the simulator has no congestion control \"{name}\""), Vec::new())
            }
            EngineChoice::Sim => (format!("unknown congestion control \"{name}\""), Vec::new()),
            // Each host says which algorithms its kernel has.
            EngineChoice::Hosts => continue,
            EngineChoice::Lab if is_of_linux || lab::has_congestion_control(name)? => continue,
            EngineChoice::Model | EngineChoice::Kernel(_) if is_of_linux => continue,
            EngineChoice::Lab | EngineChoice::Model | EngineChoice::Kernel(_) => {
                (format!("unknown congestion control \"{name}\""), OF_LINUX.to_vec())
            }
        };
        let known: Vec<&str> = [built_in_names(), known].concat();
        let help = match scenario::nearest(name, &known) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => "`longfat cc list` shows those of this kernel and of longfat".to_owned(),
        };
        mistakes.push(CcMistake { flow: flow.name.clone(), parameter: None, message, help });
    }
    let Experiment { file, sets, .. } = job.experiment;
    let fields = job.point.iter().flat_map(|point| point.values.clone());
    let sets: Vec<(String, String)> = fields.chain(sets.iter().cloned()).collect();
    match file.cc_error(job.variant.as_deref(), &sets, &mistakes) {
        Some(error) if !mistakes.is_empty() => Err(error.into()),
        _ => Ok(()),
    }
}

/// The error of one parameter, and its correction.
fn parameter_mistake(
    source: &Source,
    known: &[Parameter],
    name: &str,
    value: CcValue,
) -> Option<(String, String)> {
    let one = ParameterValues::from([(name.to_owned(), as_value(value))]);
    match cc::encode(source.name(), known, &one).err()? {
        ParameterError::Unknown { algorithm, name, known } => {
            Some((format!("{algorithm} has no parameter \"{name}\""), format!("it has {known}")))
        }
        error => {
            let doc = known.iter().find(|p| p.name == name).map_or("", |p| p.doc.as_str());
            let default = known.iter().find(|p| p.name == name).map(Parameter::default);
            let default = default.map(|d| format!("its default is {d}")).unwrap_or_default();
            Some((error.to_string(), format!("{default}. {doc}").trim_end().to_owned()))
        }
    }
}

/// The congestion controls of a run. They stay registered until this value is dropped.
#[derive(Default)]
pub struct Registered {
    /// The kernel's name, by flow.
    pub kernel_names: BTreeMap<String, String>,
    from: BTreeMap<String, String>,
    /// One per algorithm and set of parameters. Dropping it, or the end of this process, unregisters the algorithm.
    registrations: Vec<(Cc, String, kernel::Registration)>,
}

/// Registers the congestion controls that the flows of `scenario` need and the kernel lacks.
///
/// # Errors
/// Neither the kernel nor the program has an algorithm, or the kernel rejects it.
pub fn register(scenario: &Scenario, path: &Path) -> Result<Registered> {
    let mut all = Registered::default();
    for (flow, cc) in flows_with_cc(scenario) {
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
    /// Adds the congestion control to a flow's summary; `used` is the kernel's name of the socket's congestion control.
    pub fn describe(&self, flow: &FlowSpec, used: Option<&str>, summary: &mut FlowSummary) {
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

/// The kernel's name of the algorithm that `cc` selects: a file can define several, and the scenario can name one.
fn kernel_name(cc: &Cc, registration: &kernel::Registration) -> Result<String> {
    let Cc::File { path, name: Some(requested), .. } = cc else { return Ok(registration.name().into()) };
    let name = registration.named(requested).map(Into::into);
    name.ok_or_else(|| Error::BadInput(format!("{path} has no congestion control named {requested:?}")))
}

/// The parameters in the form of the summary.
pub fn settings(cc: &Cc) -> BTreeMap<String, Setting> {
    let setting = |value: &CcValue| match *value {
        CcValue::Integer(number) => Setting::Integer(number),
        CcValue::Decimal(number) => Setting::Decimal(number),
        CcValue::Boolean(yes) => Setting::Boolean(yes),
    };
    cc.set().iter().map(|(name, value)| (name.clone(), setting(value))).collect()
}

/// The flows that name a congestion control.
fn flows_with_cc(scenario: &Scenario) -> impl Iterator<Item = (&FlowSpec, &Cc)> {
    scenario.flows.iter().filter_map(|flow| match &flow.kind {
        FlowKind::Tcp(tcp) => Some((flow, tcp.cc.as_ref()?)),
        _ => None,
    })
}

/// Whether `longfat cc load` registered it. False for users without permission to read the BPF pins, as for algorithms of the
/// kernel.
fn is_loaded(name: &str) -> bool {
    let pinned = kernel::pins::pinned().unwrap_or_default();
    pinned.iter().flat_map(|p| &p.names).any(|known| known == name)
}

/// The C source of `cc`; `None` if the program has no algorithm of that name. `path` is the scenario file's.
pub fn source(cc: &Cc, path: &Path) -> Option<Source> {
    match cc {
        Cc::Named(name) | Cc::Own { name, .. } => Source::built_in(name),
        // The text comes from the scenario, which may be read from a record. Headers are found in the directory of
        // the file.
        Cc::File { path: file, text, .. } => {
            Some(Source::File { path: folder(path).join(file), text: text.to_string() })
        }
    }
}

/// The names of the congestion controls that are part of this program.
pub fn built_in_names() -> Vec<&'static str> {
    cc::Algorithm::all().iter().map(|algorithm| algorithm.name).collect()
}

/// The parameters in the form that algorithms take.
pub fn values(cc: &Cc) -> ParameterValues {
    cc.set().iter().map(|(name, value)| (name.clone(), as_value(*value))).collect()
}

fn as_value(value: CcValue) -> ParameterValue {
    match value {
        CcValue::Integer(number) => ParameterValue::Integer(number),
        CcValue::Decimal(number) => ParameterValue::Decimal(number),
        CcValue::Boolean(yes) => ParameterValue::Bool(yes),
    }
}
