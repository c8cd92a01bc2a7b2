//! `longfat agent token`: tokens of programs that use the HTTP interface.

use agent::{Scope, TokenEntry, Tokens};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;
use units::Time;

use super::{Directory, SCHEMA, failure};
use crate::{exit::Exit, output};

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and print it once: only its hash is stored
    Create(CreateArgs),
    /// List the tokens, without their secrets
    List(Directory),
    /// Remove a token: requests with it are refused from now on
    Remove(RemoveArgs),
}

/// Options of `agent token create`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("grant").required(true).args(["scope", "role"])))]
pub struct CreateArgs {
    /// Name of the program; in limits it is the user token:NAME@POINT
    name: String,
    /// What the token permits: reserve (tests and slots), report (results of transfers), alerts (acknowledge,
    /// mute), cancel (any reservation)
    #[arg(long, value_name = "SCOPE", value_delimiter = ',')]
    scope: Vec<Scope>,
    /// Role in agent.toml, whose scopes and limits apply to the token
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// Lifetime of the token [default: until it is removed]
    #[arg(long, value_name = "TIME")]
    valid: Option<Time>,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent token remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// The token's name
    name: String,
    #[command(flatten)]
    directory: Directory,
}

/// Runs the command.
pub fn run(command: &TokenCommand, json: bool) -> anyhow::Result<()> {
    match command {
        TokenCommand::Create(args) => create(args, json),
        TokenCommand::List(directory) => list(directory, json),
        TokenCommand::Remove(args) => remove(args, json),
    }
}

fn open(directory: &Directory) -> anyhow::Result<Tokens> {
    Tokens::open(&directory.config()?.state).map_err(failure)
}

fn create(args: &CreateArgs, json: bool) -> anyhow::Result<()> {
    let valid = args.valid.map(|valid| valid.to_duration());
    let config = args.directory.config()?;
    let mut tokens = Tokens::open(&config.state).map_err(failure)?;
    let token = match &args.role {
        None => tokens.create(&args.name, &args.scope, valid),
        Some(role) if config.roles.get(role).is_some() => tokens.create_with_role(&args.name, role, valid),
        Some(role) => {
            let names: Vec<&str> = config.roles.names().collect();
            let known = if names.is_empty() { "it has none".into() } else { names.join(", ") };
            let file = args.directory.config_file();
            let text = format!("{} has no role {role:?}; roles: {known}", file.display());
            return Err(Exit::BadInput(text).into());
        }
    };
    let token = token.map_err(failure)?;
    if json {
        return output::json(&json!({ "schema": SCHEMA, "name": args.name, "token": token }));
    }
    output::note("The token is secret. Programs send it as the header Authorization: Bearer TOKEN.");
    output::text(&token)
}

fn list(directory: &Directory, json: bool) -> anyhow::Result<()> {
    let tokens = open(directory)?;
    if json {
        let entry = |(name, entry): (&String, &TokenEntry)| {
            json!({
                "name": name, "scopes": entry.scopes, "role": entry.role, "created_s": entry.created_s,
                "expires_s": entry.expires_s,
            })
        };
        let entries: Vec<_> = tokens.entries().iter().map(entry).collect();
        return output::json(&json!({ "schema": SCHEMA, "tokens": entries }));
    }
    output::text(&super::text::tokens(tokens.entries()))
}

fn remove(args: &RemoveArgs, json: bool) -> anyhow::Result<()> {
    open(&args.directory)?.remove(&args.name).map_err(failure)?;
    if json {
        return output::json(&json!({ "schema": SCHEMA, "removed": args.name }));
    }
    output::text(&format!("the token {} is removed", args.name))
}
