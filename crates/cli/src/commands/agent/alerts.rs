//! `longfat agent alerts`: causes that users have acknowledged, and pairs whose alerts are muted.

use std::time::Duration;

use agent::{AlertsReport, PairName};
use clap::{Args, Subcommand};
use serde_json::json;
use units::Time;

use super::{Directory, SCHEMA, failure, text};
use crate::output;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum AlertsCommand {
    /// List acknowledged causes and muted pairs
    List(Directory),
    /// Acknowledge the cause that limits a pair: until the cause changes, no alert for it is sent, and the
    /// page lists the pair last
    Acknowledge(AcknowledgeArgs),
    /// Mute the alerts of pairs for a time; after that the newest change of each pair is reported
    Mute(MuteArgs),
    /// End a mute
    Unmute(UnmuteArgs),
}

/// Options of `agent alerts acknowledge`.
#[derive(Debug, Args)]
pub struct AcknowledgeArgs {
    /// The point that sends
    from: String,
    /// The point that receives
    to: String,
    /// A note for other users
    #[arg(long, default_value = "")]
    text: String,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent alerts mute`.
#[derive(Debug, Args)]
pub struct MuteArgs {
    /// The point that sends, or '*' for each
    from: String,
    /// The point that receives, or '*' for each
    to: String,
    /// Duration
    #[arg(long = "for", value_name = "TIME")]
    time: Time,
    /// A note for other users
    #[arg(long, default_value = "")]
    text: String,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent alerts unmute`.
#[derive(Debug, Args)]
pub struct UnmuteArgs {
    /// The point that sends, as in the mute
    from: String,
    /// The point that receives, as in the mute
    to: String,
    #[command(flatten)]
    directory: Directory,
}

/// Runs the command.
pub fn run(command: &AlertsCommand, json: bool) -> anyhow::Result<()> {
    let pair = |from: &str, to: &str| PairName { from: from.into(), to: to.into() };
    let report = match command {
        AlertsCommand::List(directory) => directory.client()?.alerts(),
        AlertsCommand::Acknowledge(args) => {
            args.directory.client()?.acknowledge(pair(&args.from, &args.to), None, &args.text)
        }
        AlertsCommand::Mute(args) => {
            let time = args.time.to_duration();
            args.directory.client()?.mute(pair(&args.from, &args.to), time, &args.text)
        }
        AlertsCommand::Unmute(args) => {
            args.directory.client()?.mute(pair(&args.from, &args.to), Duration::ZERO, "")
        }
    };
    print(&report.map_err(failure)?, json)
}

fn print(report: &AlertsReport, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&json!({
            "schema": SCHEMA, "acknowledged": report.acknowledged, "mutes": report.mutes,
        }));
    }
    output::text(&text::alerts(report))
}
