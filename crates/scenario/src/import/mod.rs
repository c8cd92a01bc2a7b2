//! Topologies of MiniEdit, Mininet's editor (`.mn` files), as scenarios.
//!
//! Source: `examples/miniedit.py` of Mininet 2.2 and 2.3. Differences from what MiniEdit does with such a
//! file:
//!
//! 1. A bandwidth above 1000 Mbit/s is applied; Mininet ignores it.
//! 2. Switches of all types are learning switches. Controllers, sFlow and NetFlow are not imported.
//! 3. A legacy router becomes a router. Only its start commands that set addresses, MTUs and routes
//!    are imported. Interfaces without an address get one as in every scenario.
//! 4. Links behave as a wire does (rate, queue, delay), not as HTB followed by netem, whose limit also counts
//!    the packets in flight. The settings apply in both directions, as in Mininet.
//! 5. Hosts' start and stop commands are kept unchanged. The commands of switches are imported only if they
//!    set MTUs.

mod commands;
mod json;
mod links;
mod names;
mod nodes;
mod write;

pub use json::ImportError;
use json::JsonNode;

use crate::file::ScenarioFile;

/// A scenario from another program's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The scenario file. It has no flows yet.
    pub toml: String,
    /// Notes about parts that were not imported or were changed, one sentence each.
    pub notes: Vec<String>,
}

/// Converts the text of a MiniEdit file of version "1" or "2" to a scenario called `name`. Adds a note for
/// everything without a counterpart.
///
/// # Errors
/// Invalid JSON, and keys that are missing or of a wrong type.
pub fn import_mn(text: &str, name: &str) -> Result<Imported, ImportError> {
    let value = json::parse(text)?;
    let root = JsonNode::root(&value);
    check_version(&root)?;
    let mut notes = Vec::new();
    let mut nodes = nodes::read_nodes(&root, &mut notes)?;
    let links = links::read_links(&root, &nodes, &mut notes)?;
    nodes::note_application(&root, &mut notes)?;
    commands::apply(&mut nodes, &links, &mut notes);
    links::remove_unlinked(&mut nodes, &links, &mut notes);
    let toml = write::write(name, nodes::has_static_arp(&root)?, &nodes, &links);
    if let Err(error) = ScenarioFile::parse(&format!("{name}.toml"), &toml) {
        let mistakes = error.mistakes().iter().map(|m| format!("to be corrected by hand: {}", m.line()));
        notes.extend(mistakes);
    }
    Ok(Imported { toml, notes })
}

fn check_version(root: &JsonNode) -> Result<(), ImportError> {
    root.object()?;
    let Some(version) = root.field("version")? else { return Ok(()) };
    match version.scalar()?.as_str() {
        "1" | "2" => Ok(()),
        other => Err(version.error(format!("unknown version \"{other}\"; MiniEdit writes \"1\" or \"2\""))),
    }
}
