//! `longfat agent limits`: which rule decides on a test, and the import of bwctl's limits files.

use std::{
    collections::BTreeMap,
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use agent::Tokens;
use clap::{Args, Subcommand};
use limits::{Decision, Error, Limits, Pending, TestRequest, Usage};
use serde_json::{Value, json};
use units::Bytes;

use super::{Directory, failure};
use crate::{exit::Exit, output};

/// The schema of every document that these commands print.
const SCHEMA: &str = "longfat.agent-limits/1";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum LimitsCommand {
    /// Show which rule allows or refuses a test
    Explain(Box<ExplainArgs>),
    /// Convert a bwctl limits file (bwctld.limits, bwctl-server.limits) to TOML on standard output
    Import(ImportArgs),
}

/// Options of `agent limits explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The requester: an authenticated user (alice, alice@192.0.2.1), or the address of a host without
    /// authentication
    #[arg(value_name = "USER")]
    requester: Requester,
    /// The test: tcp, udp or other; rate; duration; in=TIME until its start; error=TIME of both clocks;
    /// priority=NUMBER, as in udp,500mbit,30s,in=60s
    #[arg(value_name = "TEST", value_parser = TestRequest::parse_test)]
    test: TestRequest,
    /// Limits file, without roles [default: that of the point, with roles]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    directory: Directory,
    /// Address of the host at the other end of the test; determines which links the test loads [default: that
    /// of USER]
    #[arg(long, value_name = "ADDRESS")]
    to: Option<IpAddr>,
    /// Assume that USER has this many reservations that have not ended
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    pending: u32,
    /// Assume that this much of a link's budget is reserved today
    #[arg(long, value_name = "LINK=BYTES", value_parser = reserved)]
    reserved: Vec<(String, Bytes)>,
}

/// Options of `agent limits import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// A user and an address; at least one of them.
#[derive(Debug, Clone)]
struct Requester {
    user: Option<String>,
    address: Option<IpAddr>,
}

impl std::str::FromStr for Requester {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Requester { user: None, address: Some(address) });
        }
        let (user, address) =
            match text.rsplit_once('@').map(|(user, address)| (user, address.parse::<IpAddr>())) {
                Some((user, Ok(address))) => (user, Some(address)),
                _ => (text, None),
            };
        if user.is_empty() {
            return Err("neither a user nor an address".into());
        }
        Ok(Requester { user: Some(user.into()), address })
    }
}

fn reserved(text: &str) -> Result<(String, Bytes), String> {
    let (link, bytes) = text.split_once('=').ok_or("the form is LINK=BYTES, as in uplink=2TB")?;
    Ok((link.into(), bytes.parse().map_err(|error: units::ParseError| error.to_string())?))
}

/// Runs the command.
pub fn run(command: &LimitsCommand, json: bool) -> anyhow::Result<()> {
    match command {
        LimitsCommand::Explain(args) => explain(args, json),
        LimitsCommand::Import(args) => import(args, json),
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(file);
    Ok(text.map_err(|error| {
        Exit::BadInput(format!("cannot read the limits file {}: {error}", file.display()))
    })?)
}

fn explain(args: &ExplainArgs, json: bool) -> anyhow::Result<()> {
    let (file, roles) = match &args.file {
        Some(file) => (file.clone(), BTreeMap::new()),
        None => {
            let config = args.directory.config()?;
            let tokens = Tokens::open(&config.state).map_err(failure)?;
            let roles = config.roles.assigned(&config.name, tokens.entries());
            (config.limits_file, roles)
        }
    };
    let text = read(&file)?;
    let mut limits: Limits = text.parse().map_err(|error: Error| {
        let is_bwctls = matches!(error, Error::Syntax(_)) && limits::import(&text).is_ok();
        let file = file.display();
        let hint =
            format!("this is a file of bwctl; convert it: longfat agent limits import {file} > limits.toml");
        Exit::BadInput(format!("{file}: {}", if is_bwctls { hint } else { error.to_string() }))
    })?;
    limits.set_roles(roles);
    for (link, _) in &args.reserved {
        if !limits.links().iter().any(|known| known.name == *link) {
            let names: Vec<&str> = limits.links().iter().map(|link| link.name.as_str()).collect();
            let known = if names.is_empty() { "it has none".into() } else { names.join(", ") };
            let file = file.display();
            return Err(Exit::BadInput(format!("{file} has no link {link:?}; links: {known}")).into());
        }
    }
    let Requester { user, address } = args.requester.clone();
    let usage = Usage {
        pending: vec![Pending { user: user.clone(), address, count: args.pending.into() }],
        reserved_today: args.reserved.iter().cloned().collect(),
    };
    let request = TestRequest { user, address, other_end: args.to, ..args.test.clone() };
    let decision = limits.decide(&request, &usage);
    if json {
        return output::json(&document(&decision));
    }
    output::text(&table(&decision))
}

fn document(decision: &Decision) -> Value {
    json!({
        "schema": SCHEMA,
        "allowed": decision.is_allowed(),
        "decision": decision.to_string(),
        "class": decision.class,
        "assigned_by": decision.assigned_by,
        "classes": decision.classes,
        "checks": decision.checks,
    })
}

fn table(decision: &Decision) -> String {
    let (Some(class), Some(by)) = (&decision.class, &decision.assigned_by) else {
        return decision.to_string();
    };
    let above = match decision.classes.get(1..) {
        Some(above) if !above.is_empty() => format!("; it must also pass {}", above.join(", ")),
        _ => String::new(),
    };
    let mut rows = vec![["RULE", "OF", "REQUESTED", "LIMIT", ""].map(String::from).to_vec()];
    rows.extend(decision.checks.iter().map(|check| {
        let result = if check.passes { "passes" } else { "REFUSES" };
        let cells = [check.rule, &check.of, &check.requested, &check.limit, result];
        cells.map(String::from).to_vec()
    }));
    let rules = view::table::fitted(rows, &[false; 5], output::width(), &["REQUESTED"]);
    format!("class {class}, by {by}{above}\n\n{}\n\n{decision}", rules.trim_end())
}

fn import(args: &ImportArgs, json: bool) -> anyhow::Result<()> {
    let text = read(&args.file)?;
    let imported = limits::import(&text);
    let imported = imported.map_err(|error| Exit::BadInput(format!("{}: {error}", args.file.display())))?;
    let notes: Vec<String> = imported
        .notes
        .iter()
        .map(
            |note| {
                if note.line > 0 { format!("line {}: {}", note.line, note.text) } else { note.text.clone() }
            },
        )
        .collect();
    let mut toml = format!("# Imported from {}.\n", args.file.display());
    for note in &notes {
        toml += &format!("# {note}\n");
    }
    toml += &format!("\n{}", imported.limits);
    if json {
        return output::json(&json!({ "schema": SCHEMA, "toml": toml, "notes": notes }));
    }
    for note in &notes {
        output::note(note);
    }
    output::text(toml.trim_end())
}
