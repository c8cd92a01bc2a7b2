//! `longfat agent`: a measurement point.

pub mod advise;
mod alerts;
mod demo;
mod directory;
mod limits;
mod psconfig;
mod results_table;
mod session;
mod setup;
mod text;
mod tokens;
mod users;
mod waiting;

use std::path::{Path, PathBuf};

use anyhow::Error;
use clap::{Args, Subcommand};

use crate::exit::Exit;

/// The schema of every document that these commands print, except those of `agent limits`.
const SCHEMA: &str = "longfat.agent/1";

/// The environment variable that names the point's directory.
const DIRECTORY_VARIABLE: &str = "LONGFAT_AGENT_DIR";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Create a point and a new mesh
    Init(setup::InitArgs),
    /// Print a token with which a new point joins the mesh
    Invite(setup::InviteArgs),
    /// Create a point that joins a mesh with a token
    Join(setup::JoinArgs),
    /// Check a point's configuration
    Check(Directory),
    /// Run the point
    Run(Directory),
    /// Show the state of the running point
    Status(Directory),
    /// Show the occupied slots
    Calendar(users::CalendarArgs),
    /// Reserve a test between two points
    Request(users::RequestArgs),
    /// Cancel a reservation
    Cancel(users::CancelArgs),
    /// Show why a reservation, or each of the last occurrences of a recurring test, ran or did not run
    Why(users::WhyArgs),
    /// List tests and their results
    Results(users::ResultsArgs),
    /// Find points by place, network or capability, near a position or near the hops of a path
    Directory(directory::DirectoryArgs),
    /// Remove a point from the mesh; run this at the authority, the point that created the mesh
    Expel(users::ExpelArgs),
    /// Acknowledge causes of alerts, and mute the alerts of pairs
    #[command(subcommand)]
    Alerts(alerts::AlertsCommand),
    /// Convert recurring tests from and to pSConfig
    #[command(subcommand)]
    Psconfig(psconfig::PsconfigCommand),
    /// Create, list and remove tokens of programs that use the HTTP interface
    #[command(subcommand)]
    Token(tokens::TokenCommand),
    /// Check, reserve, rehearse and watch a session of stations that send to one point
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Start a mesh of six points on an emulated network, and its page; cause a fault after a minute
    Demo(demo::DemoArgs),
    /// Explain what a point's limits allow to a user or an address, and import bwctl's limits
    #[command(subcommand)]
    Limits(limits::LimitsCommand),
}

/// The point's directory.
#[derive(Debug, Args)]
pub struct Directory {
    /// Directory of the point: agent.toml, limits.toml, state/
    #[arg(long, value_name = "DIR", env = DIRECTORY_VARIABLE, hide_env = true, default_value = DEFAULT_DIRECTORY)]
    dir: PathBuf,
}

/// The directory of a point that is the only one on its host.
const DEFAULT_DIRECTORY: &str = "/var/lib/longfat-agent";

impl Directory {
    /// The option that selects this directory, for commands in messages; empty for the default.
    fn as_arguments(&self) -> String {
        if self.dir == Path::new(DEFAULT_DIRECTORY) {
            return String::new();
        }
        format!(" --dir {}", self.dir.display())
    }

    fn config_file(&self) -> PathBuf {
        self.dir.join(agent::CONFIG_FILE)
    }

    fn config(&self) -> anyhow::Result<agent::Config> {
        agent::Config::read(&self.config_file()).map_err(failure)
    }

    fn client(&self) -> anyhow::Result<agent::Client> {
        Ok(agent::Client::new(&self.config()?.state))
    }
}

/// An error of the agent, with its exit code.
fn failure(error: agent::Error) -> Error {
    match error {
        // Shown with the lines of the file.
        agent::Error::Config(mistakes) => experiment::Error::from(mistakes).into(),
        agent::Error::Refused(_) | agent::Error::Limits { .. } => Exit::BadInput(error.to_string()).into(),
        agent::Error::File { ref cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
            let hint =
                "`longfat agent init` or `agent join` writes a point's files; --dir names their directory";
            Exit::BadInput(format!("{error} ({hint})")).into()
        }
        error => error.into(),
    }
}

/// Runs the command.
pub fn run(command: &AgentCommand, json: bool) -> anyhow::Result<()> {
    match command {
        AgentCommand::Init(args) => setup::init(args, json),
        AgentCommand::Invite(args) => setup::invite(args, json),
        AgentCommand::Join(args) => setup::join(args, json),
        AgentCommand::Check(args) => setup::check(args, json),
        AgentCommand::Run(args) => setup::run(args),
        AgentCommand::Status(args) => users::status(args, json),
        AgentCommand::Calendar(args) => users::calendar(args, json),
        AgentCommand::Request(args) => users::request(args, json),
        AgentCommand::Cancel(args) => users::cancel(args, json),
        AgentCommand::Why(args) => users::why(args, json),
        AgentCommand::Results(args) => users::results(args, json),
        AgentCommand::Directory(args) => directory::run(args, json),
        AgentCommand::Expel(args) => users::expel(args, json),
        AgentCommand::Alerts(command) => alerts::run(command, json),
        AgentCommand::Psconfig(command) => psconfig::run(command, json),
        AgentCommand::Token(command) => tokens::run(command, json),
        AgentCommand::Session(command) => session::run(command, json),
        AgentCommand::Demo(args) => demo::run(args, json),
        AgentCommand::Limits(command) => limits::run(command, json),
    }
}
