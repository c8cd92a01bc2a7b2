//! The engines a scenario can be run by.

use std::str::FromStr;

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Engine {
    /// Closed forms.
    Model,
    /// The kernel's TCP over an emulated network on this machine.
    Lab,
}

impl Engine {
    /// The name on the command line and in the record.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Model => "model",
            Engine::Lab => "lab",
        }
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "model" => Ok(Engine::Model),
            "lab" => Ok(Engine::Lab),
            other => Err(format!("there is no engine {other:?}; there are model and lab")),
        }
    }
}
