//! The engines a scenario can be run by.

use std::str::FromStr;

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Closed forms.
    Model,
    /// The program's own TCP over the same network in virtual time.
    Sim,
    /// The kernel's TCP over an emulated network on this machine.
    Lab,
}

impl Engine {
    /// The name on the command line and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Model => "model",
            Engine::Sim => "sim",
            Engine::Lab => "lab",
        }
    }
}

/// One engine or all of them, as on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engines(&'static [Engine]);

impl Engines {
    /// Those chosen, each once. The model comes first: it is to be told nothing of what the others measure.
    pub fn chosen(choices: &[Engines]) -> Vec<Engine> {
        let mut engines: Vec<Engine> = choices.iter().flat_map(|choice| choice.0).copied().collect();
        engines.sort_unstable();
        engines.dedup();
        engines
    }
}

impl FromStr for Engines {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "model" => Ok(Engines(&[Engine::Model])),
            "sim" => Ok(Engines(&[Engine::Sim])),
            "lab" => Ok(Engines(&[Engine::Lab])),
            "all" => Ok(Engines(&[Engine::Model, Engine::Sim, Engine::Lab])),
            other => Err(format!("there is no engine {other:?}; there are model, sim and lab, or all")),
        }
    }
}
