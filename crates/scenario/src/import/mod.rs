//! Topologies of MiniEdit, Mininet's editor (`.mn` files), as scenarios.
//!
//! Source: `examples/miniedit.py` of Mininet 2.2 and 2.3. Departures from what MiniEdit does with such a file:
//!
//! 1. A bandwidth above 1000 Mbit/s is honoured; Mininet ignores it.
//! 2. Switches learn by themselves, whatever their type; controllers, sFlow and NetFlow are left out.
//! 3. A legacy router is a router: of its start commands those that set addresses, MTUs and routes are
//!    understood, and interfaces without any get addresses as in every scenario.
//! 4. Shaping is a wire's (rate, queue, delay), not HTB with netem behind it, whose limit holds the packets in
//!    flight too. It applies in both directions, as in Mininet.
//! 5. Hosts' start and stop commands are kept as they are; those of switches are not, but for MTUs.

mod commands;
mod json;
mod links;
mod names;
mod nodes;
mod write;

use json::At;
pub use json::ImportError;

use crate::file::ScenarioFile;

/// A scenario made of a foreign file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The scenario file. It has no flows yet.
    pub toml: String,
    /// What was left out or changed, one sentence each.
    pub notes: Vec<String>,
}

/// Makes a scenario called `name` of the text of a MiniEdit file of version "1" or "2".
///
/// What has no counterpart is left out and noted. Errors are JSON that is broken, and keys that are missing or
/// of a wrong type.
pub fn import_mn(text: &str, name: &str) -> Result<Imported, ImportError> {
    let value = json::parse(text)?;
    let root = At::root(&value);
    check_version(&root)?;
    let mut notes = Vec::new();
    let mut nodes = nodes::read_nodes(&root, &mut notes)?;
    let links = links::read_links(&root, &nodes, &mut notes)?;
    nodes::note_application(&root, &mut notes)?;
    commands::apply(&mut nodes, &links, &mut notes);
    nodes::leave_out_unlinked(&mut nodes, &links, &mut notes);
    let toml = write::write(name, &nodes, &links);
    if let Err(error) = ScenarioFile::parse(&format!("{name}.toml"), &toml) {
        let mistakes = error.mistakes().iter().map(|m| format!("to be put right by hand: {}", m.line()));
        notes.extend(mistakes);
    }
    Ok(Imported { toml, notes })
}

fn check_version(root: &At) -> Result<(), ImportError> {
    root.object()?;
    let Some(version) = root.field("version")? else { return Ok(()) };
    match version.scalar()?.as_str() {
        "1" | "2" => Ok(()),
        other => {
            Err(version.wrong(format!("version \"{other}\" is not known; MiniEdit writes \"1\" or \"2\"")))
        }
    }
}
