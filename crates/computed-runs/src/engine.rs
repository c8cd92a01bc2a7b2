//! The choice of engines that run a scenario, and its syntax on the command line.

use std::str::FromStr;

use schema::EngineName;

/// A chosen engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineChoice {
    /// Closed forms.
    Model,
    /// The program's own TCP over the same network in virtual time.
    Sim,
    /// The kernel's TCP over an emulated network on this machine.
    Lab,
    /// The lab inside a guest kernel of this version or name, in virtual time; `None`: the newest kernel in
    /// the cache.
    Kernel(Option<String>),
    /// Real hosts.
    Hosts,
}

impl EngineChoice {
    /// True if runs take real time, so that they must follow one after another.
    pub fn is_in_real_time(&self) -> bool {
        matches!(self, EngineChoice::Lab | EngineChoice::Hosts)
    }

    /// True if hosts have the kernel that the run requests: the engine computes its behaviour.
    pub fn is_computed(&self) -> bool {
        matches!(self, EngineChoice::Model | EngineChoice::Sim)
    }

    /// The engine's name in the record.
    pub fn name(&self) -> EngineName {
        match self {
            EngineChoice::Model => EngineName::Model,
            EngineChoice::Sim => EngineName::Sim,
            EngineChoice::Lab => EngineName::Lab,
            EngineChoice::Kernel(_) => EngineName::Kernel,
            EngineChoice::Hosts => EngineName::Hosts,
        }
    }
}

/// One or several engines: the value of `--engine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineChoices(Vec<EngineChoice>);

impl EngineChoices {
    /// All chosen engines without duplicates. The model comes first: it does not depend on measurements of
    /// the others.
    pub fn chosen(choices: &[EngineChoices]) -> Vec<EngineChoice> {
        let mut engines: Vec<EngineChoice> = choices.iter().flat_map(|choice| choice.0.clone()).collect();
        engines.sort_unstable();
        engines.dedup();
        engines
    }
}

/// Joins choices.
impl FromIterator<EngineChoices> for EngineChoices {
    fn from_iter<T: IntoIterator<Item = EngineChoices>>(choices: T) -> Self {
        EngineChoices(choices.into_iter().flat_map(|choice| choice.0).collect())
    }
}

impl FromStr for EngineChoices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let engines = match text.trim() {
            "model" => vec![EngineChoice::Model],
            "sim" => vec![EngineChoice::Sim],
            "lab" => vec![EngineChoice::Lab],
            "all" => vec![EngineChoice::Model, EngineChoice::Sim, EngineChoice::Lab],
            "hosts" => vec![EngineChoice::Hosts],
            "kernel" => vec![EngineChoice::Kernel(None)],
            other => match other.strip_prefix("kernel:") {
                Some(version) if !version.is_empty() => vec![EngineChoice::Kernel(Some(version.into()))],
                _ => {
                    return Err(format!(
                        "there is no engine {other:?}; there are model, sim, lab, kernel (as in kernel:6.1), hosts, and all for the first three"
                    ));
                }
            },
        };
        Ok(EngineChoices(engines))
    }
}
