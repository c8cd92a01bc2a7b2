//! Congestion controls of a scenario's flows: checked before a run, registered with the kernel for the time of one.

use std::{collections::BTreeMap, path::Path};

use cc::{Parameter, ParameterError, Source, SourceError, Value, Values, kernel, native::BuildError};
use scenario::{Cc, CcMistake, CcValue, CcValues, Flow, Kind, Scenario, ScenarioFile};
use schema::{FlowSummary, Setting};

use crate::{Error, Result, error, scenario_file::folder};

/// Where a congestion control came from that the kernel has by itself.
const FROM_KERNEL: &str = "kernel";
/// Where the program's own came from.
pub const FROM_US: &str = "longfat";
/// Where it came from that `longfat cc load` put into the kernel before.
const LOADED: &str = "longfat cc load";

/// Finds what no scenario can know: algorithms that the program has not, and parameters that an algorithm has not.
///
/// A bare name is the kernel's business first, so the lab looks at it; see [`register`].
pub fn check(
    file: &ScenarioFile,
    path: &Path,
    variant: Option<&str>,
    sets: &[(String, String)],
    scenario: &Scenario,
) -> Result<()> {
    let mut mistakes = Vec::new();
    for (flow, cc) in asked(scenario) {
        if let Cc::Named(_) = cc {
            continue;
        }
        let mistake = |parameter: Option<&str>, message: String, help: String| CcMistake {
            flow: flow.name.clone(),
            parameter: parameter.map(Into::into),
            message,
            help,
        };
        let Some(source) = source(cc, path) else {
            let help = format!("it has {}", own_names().join(", "));
            mistakes.push(mistake(
                None,
                format!("longfat has no congestion control \"{}\"", cc.name()),
                help,
            ));
            continue;
        };
        match source.parameters() {
            Ok(known) => mistakes.extend(cc.set().iter().filter_map(|(name, value)| {
                let (message, help) = wrong(&source, &known, name, *value)?;
                Some(mistake(Some(name), message, help))
            })),
            Err(SourceError::Build(BuildError::NoCompiler)) => {
                return Err((&BuildError::NoCompiler).into());
            }
            // The kernel may have what the simulator has not; the simulator says so itself.
            Err(SourceError::Build(BuildError::Refused { .. }))
                if cc.set().is_empty() && kernel::compile(&source).is_ok() => {}
            Err(error) => {
                let help = format!("`longfat cc check {}` says more", source.name());
                mistakes.push(mistake(None, error.to_string(), help));
            }
        }
    }
    match file.cc_error(variant, sets, &mistakes) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// What is wrong with one parameter, and what would be right.
fn wrong(source: &Source, known: &[Parameter], name: &str, value: CcValue) -> Option<(String, String)> {
    let one = Values::from([(name.to_owned(), as_value(value))]);
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

/// The congestion controls of a run, for as long as this value lives.
#[derive(Default)]
pub struct Registered {
    /// The kernel's name, by flow.
    pub kernel_names: BTreeMap<String, String>,
    from: BTreeMap<String, String>,
    /// One for each algorithm and set of parameters; the kernel forgets it when it is dropped, or when this process ends.
    registrations: Vec<(Cc, String, kernel::Registration)>,
}

/// Registers what the flows of `scenario` need and the kernel has not.
pub fn register(scenario: &Scenario, path: &Path) -> Result<Registered> {
    let mut all = Registered::default();
    for (flow, cc) in asked(scenario) {
        let (name, from) = match cc {
            Cc::Named(name) if lab::has_congestion_control(name)? => {
                let from = if is_loaded(name) { LOADED } else { FROM_KERNEL };
                (name.clone(), from)
            }
            Cc::Named(name) if source(cc, path).is_none() => {
                return Err(Error::Missing(format!(
                    "flow {}: neither this kernel nor longfat has a congestion control \"{name}\"; `longfat cc list` tells \
                     what there is",
                    flow.name
                )));
            }
            Cc::File { path: file, .. } => (all.register(cc, path)?, file.as_str()),
            Cc::Named(name) => {
                let own = Cc::Own { name: name.clone(), set: CcValues::new() };
                (all.register(&own, path)?, FROM_US)
            }
            Cc::Own { .. } => (all.register(cc, path)?, FROM_US),
        };
        all.kernel_names.insert(flow.name.clone(), name);
        all.from.insert(flow.name.clone(), from.to_owned());
    }
    Ok(all)
}

impl Registered {
    /// Completes what is said of a flow's congestion control; `used` is the kernel's name of what its socket had.
    pub fn describe(&self, flow: &Flow, used: Option<&str>, summary: &mut FlowSummary) {
        let Kind::Tcp(tcp) = &flow.kind else { return };
        summary.cc_kernel_name = used.map(Into::into);
        summary.cc_from = used.map(|_| self.from.get(&flow.name).map_or(FROM_KERNEL, String::as_str).into());
        if let Some(cc) = &tcp.cc {
            summary.cc = Some(cc.name().into());
            summary.cc_set = settings(cc);
        }
    }

    /// The kernel's name of `cc`, which is registered once.
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

/// Which of a registration's names is meant: where the file has several algorithms, the scenario may say which.
fn kernel_name(cc: &Cc, registration: &kernel::Registration) -> Result<String> {
    let Cc::File { path, name: Some(wanted), .. } = cc else { return Ok(registration.name().into()) };
    let found = registration.named(wanted).map(Into::into);
    found.ok_or_else(|| Error::BadInput(format!("{path} has no congestion control named {wanted:?}")))
}

/// The parameters as the summary has them.
pub fn settings(cc: &Cc) -> BTreeMap<String, Setting> {
    let setting = |value: &CcValue| match *value {
        CcValue::Integer(number) => Setting::Integer(number),
        CcValue::Decimal(number) => Setting::Decimal(number),
        CcValue::Boolean(yes) => Setting::Boolean(yes),
    };
    cc.set().iter().map(|(name, value)| (name.clone(), setting(value))).collect()
}

/// The flows that say which congestion control they want.
fn asked(scenario: &Scenario) -> impl Iterator<Item = (&Flow, &Cc)> {
    scenario.flows.iter().filter_map(|flow| match &flow.kind {
        Kind::Tcp(tcp) => Some((flow, tcp.cc.as_ref()?)),
        Kind::Ping(_) | Kind::Udp(_) | Kind::Xcp(_) => None,
    })
}

/// Whether `longfat cc load` has loaded it. For users who may not read the pins: false, as for the kernel's own.
fn is_loaded(name: &str) -> bool {
    let pinned = kernel::pins::pinned().unwrap_or_default();
    pinned.iter().flat_map(|p| &p.names).any(|known| known == name)
}

/// The C file of `cc`; `None` where the program has none of that name. `path` is the scenario's.
pub fn source(cc: &Cc, path: &Path) -> Option<Source> {
    match cc {
        Cc::Named(name) | Cc::Own { name, .. } => Source::built_in(name),
        // The text is the scenario's, which may be a record; headers are found beside the file.
        Cc::File { path: file, text, .. } => {
            Some(Source::File { path: folder(path).join(file), text: text.to_string() })
        }
    }
}

/// The names of the congestion controls that come with the program.
pub fn own_names() -> Vec<&'static str> {
    cc::Algorithm::all().iter().map(|algorithm| algorithm.name).collect()
}

/// The parameters as an algorithm takes them.
pub fn values(cc: &Cc) -> Values {
    cc.set().iter().map(|(name, value)| (name.clone(), as_value(*value))).collect()
}

fn as_value(value: CcValue) -> Value {
    match value {
        CcValue::Integer(number) => Value::Integer(number),
        CcValue::Decimal(number) => Value::Decimal(number),
        CcValue::Boolean(yes) => Value::Bool(yes),
    }
}
