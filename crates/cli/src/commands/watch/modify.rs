//! `longfat watch --set` and `--restore`: changes settings of live connections.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use watch::{
    Filter, TracingMode, Watcher,
    modify::{ModificationJournal, ModifiedConnection, Modifier, is_modifiable},
};

use super::{WatchArgs, namespaces};
use crate::{exit::Exit, output};

const SCHEMA: &str = "longfat.watch.set/1";

/// Changes the connections that match the filter.
pub fn set(args: &WatchArgs, text: &str, filter: Filter, json: bool) -> anyhow::Result<()> {
    if text.is_empty() {
        let why = "--set needs a filter, so that no other connection is changed, as in: longfat watch --set cc=bbr port 5201";
        return Err(Exit::BadInput(why.into()).into());
    }
    let watcher = sample(args, filter)?;
    let mut modifier = modifier()?;
    let selected = watcher.connections().filter(|connection| is_modifiable(connection));
    let results: Vec<_> = selected.map(|connection| modifier.modify(connection, &args.set)).collect();
    if results.is_empty() {
        return Err(Exit::Failed("no connection matches the filter".into()).into());
    }
    print(&results, &undo(args, text), json)
}

/// The command that restores the connections that match the filter, in the same namespaces.
fn undo(args: &WatchArgs, filter: &str) -> String {
    let options = |name: &str, values: &[String]| -> String {
        values.iter().map(|value| format!(" --{name} {value}")).collect()
    };
    let lab = args.lab.as_ref().map(|name| format!(" --lab {name}")).unwrap_or_default();
    let (namespaces, hosts) = (options("namespace", &args.namespace), options("host", &args.host));
    format!("longfat watch --restore{namespaces}{hosts}{lab} '{filter}'")
}

/// Restores connections: all that were changed, or those that match the filter.
pub fn restore(args: &WatchArgs, text: &str, filter: Filter, json: bool) -> anyhow::Result<()> {
    let selected = match text.is_empty() && args.namespace.is_empty() && args.host.is_empty() {
        true => None,
        false => Some(sample(args, filter)?.connections().map(|c| c.sample.cookie).collect::<BTreeSet<_>>()),
    };
    let results = modifier()?.restore(selected.as_ref())?;
    if results.is_empty() && !json {
        return output::text("nothing to restore");
    }
    print(&results, "", json)
}

fn sample(args: &WatchArgs, filter: Filter) -> anyhow::Result<Watcher> {
    let mut watcher = Watcher::new(namespaces::all(args)?, filter, TracingMode::Never)?;
    watcher.sample()?;
    Ok(watcher)
}

fn modifier() -> anyhow::Result<Modifier> {
    let directory = lab::Journal::of_this_user().private_directory()?;
    Ok(Modifier::new(ModificationJournal::open(&directory)?))
}

/// Prints the changes, and fails with the first error if a connection could not be changed.
fn print(results: &[ModifiedConnection], undo: &str, json: bool) -> anyhow::Result<()> {
    let is_changed = results.iter().any(|result| !result.changes.is_empty());
    if json {
        output::json(&json!({
            "schema": SCHEMA,
            "connections": results.iter().map(document).collect::<Vec<_>>(),
        }))?;
    } else {
        for result in results.iter().filter(|result| !result.changes.is_empty()) {
            output::text(&text(result))?;
        }
        if is_changed && !undo.is_empty() {
            output::note(&format!("undo: {undo}"));
        }
    }
    let failed: Vec<_> = results.iter().filter_map(|result| result.error.as_ref()).collect();
    let Some(first) = failed.first() else { return Ok(()) };
    let others = match failed.len() {
        1 => String::new(),
        2 => " (and 1 other connection)".into(),
        count => format!(" (and {} other connections)", count - 1),
    };
    Err(match first {
        watch::Error::Missing(why) => Exit::Missing(format!("{why}{others}")),
        other => Exit::Failed(format!("{other}{others}")),
    }
    .into())
}

fn text(result: &ModifiedConnection) -> String {
    let owner = result.process.as_ref().map(|process| format!("  {}/{}", process.name, process.pid));
    let mut text = format!("{}{}", result.connection, owner.unwrap_or_default());
    for change in &result.changes {
        text += &format!("\n  {:<10} {} -> {}", change.after.key().name(), change.before, change.after);
    }
    text
}

fn document(result: &ModifiedConnection) -> Value {
    let changes = result.changes.iter().map(|change| {
        json!({
            "setting": change.after.key().name(),
            "before": change.before,
            "after": change.after,
        })
    });
    json!({
        "cookie": result.cookie.0,
        "connection": result.connection,
        "process": result.process.as_ref().map(|process| json!({ "pid": process.pid, "name": process.name })),
        "changes": changes.collect::<Vec<_>>(),
        "error": result.error.as_ref().map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: WatchArgs,
    }

    #[test]
    fn the_undo_command_names_the_same_namespaces() {
        let undo = |words: &str| undo(&Command::parse_from(words.split(' ')).args, "port 5201");
        assert_eq!(undo("watch"), "longfat watch --restore 'port 5201'");
        assert_eq!(undo("watch -n vpn"), "longfat watch --restore --namespace vpn 'port 5201'");
        let command = "longfat watch --restore --host h1 --host h2 --lab l8 'port 5201'";
        assert_eq!(undo("watch --host h1 --host h2 --lab l8"), command);
    }
}
