//! The engines a scenario can be run by.

use std::str::FromStr;

/// An engine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Closed forms.
    Model,
    /// The program's own TCP over the same network in virtual time.
    Sim,
    /// The kernel's TCP over an emulated network on this machine.
    Lab,
    /// The lab inside a guest kernel in virtual time: of this version or name; `None`: the newest that there is.
    Kernel(Option<String>),
}

impl Engine {
    /// The name on the command line and in the record.
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Model => "model",
            Engine::Sim => "sim",
            Engine::Lab => "lab",
            Engine::Kernel(_) => "kernel",
        }
    }
}

/// One engine or several, as on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engines(Vec<Engine>);

impl Engines {
    /// Those chosen, each once. The model comes first: it is to be told nothing of what the others measure.
    pub fn chosen(choices: &[Engines]) -> Vec<Engine> {
        let mut engines: Vec<Engine> = choices.iter().flat_map(|choice| choice.0.clone()).collect();
        engines.sort_unstable();
        engines.dedup();
        engines
    }
}

impl FromStr for Engines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let engines = match text.trim() {
            "model" => vec![Engine::Model],
            "sim" => vec![Engine::Sim],
            "lab" => vec![Engine::Lab],
            "all" => vec![Engine::Model, Engine::Sim, Engine::Lab],
            "kernel" => vec![Engine::Kernel(None)],
            other => match other.strip_prefix("kernel:") {
                Some(version) if !version.is_empty() => vec![Engine::Kernel(Some(version.into()))],
                _ => {
                    return Err(format!(
                        "there is no engine {other:?}; there are model, sim, lab, kernel (as in kernel:6.1), and all for the first three"
                    ));
                }
            },
        };
        Ok(Engines(engines))
    }
}
