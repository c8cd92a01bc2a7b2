//! The engines that a scenario can be run by, as people choose them.

use std::str::FromStr;

/// An engine, as people choose it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EngineChoice {
    /// Closed forms.
    Model,
    /// The program's own TCP over the same network in virtual time.
    Sim,
    /// The kernel's TCP over an emulated network on this machine.
    Lab,
    /// The lab inside a guest kernel in virtual time: of this version or name; `None`: the newest that there is.
    Kernel(Option<String>),
}

impl EngineChoice {
    /// The name on the command line and in the record.
    pub fn name(&self) -> &'static str {
        match self {
            EngineChoice::Model => "model",
            EngineChoice::Sim => "sim",
            EngineChoice::Lab => "lab",
            EngineChoice::Kernel(_) => "kernel",
        }
    }
}

/// One engine or several, as on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineChoices(Vec<EngineChoice>);

impl EngineChoices {
    /// Those chosen, each once. The model comes first: it knows nothing of what the others measure.
    pub fn chosen(choices: &[EngineChoices]) -> Vec<EngineChoice> {
        let mut engines: Vec<EngineChoice> = choices.iter().flat_map(|choice| choice.0.clone()).collect();
        engines.sort_unstable();
        engines.dedup();
        engines
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
            "kernel" => vec![EngineChoice::Kernel(None)],
            other => match other.strip_prefix("kernel:") {
                Some(version) if !version.is_empty() => vec![EngineChoice::Kernel(Some(version.into()))],
                _ => {
                    return Err(format!(
                        "there is no engine {other:?}; there are model, sim, lab, kernel (as in kernel:6.1), and all for the first three"
                    ));
                }
            },
        };
        Ok(EngineChoices(engines))
    }
}
