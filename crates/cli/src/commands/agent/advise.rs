//! `longfat advise -- COMMAND`: a bulk transfer of another program (rsync, curl) in a slot that is planned
//! from earlier tests.

use std::{
    ffi::OsString,
    io,
    process::{Command, ExitStatus},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use agent::{Client, Explained, Kind, NewReservation, PlanDocument, TransferReport};
use clap::Args;
use serde_json::json;
use units::{Bytes, Time};

use super::{Directory, SCHEMA, failure, text, users::us, waiting::wait_until};
use crate::{exit::Exit, interrupt, output};

/// Duration of the test of `--probe`.
const PROBE_US: u64 = 10_000_000;

/// Options of `advise`.
#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// The point, or the server of agent.toml, to which the command sends. The command runs on the host of
    /// this point's agent
    #[arg(long, value_name = "POINT")]
    to: String,
    /// Approximate amount of data that the command sends
    #[arg(long, value_name = "SIZE")]
    bytes: Bytes,
    /// Time in which the transfer must be complete
    #[arg(long, value_name = "TIME", default_value = "24h")]
    deadline: Time,
    /// Test throughput for 10 s first, and plan with the result
    #[arg(long)]
    probe: bool,
    /// Print the plan only
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    directory: Directory,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "plan")]
    command: Vec<OsString>,
}

/// Runs the command in its slot; its exit code is that of the command.
pub fn run(args: &AdviseArgs, json: bool) -> anyhow::Result<()> {
    let config = args.directory.config()?;
    let client = Client::new(&config.state);
    let stop = interrupt::flag()?;
    if args.probe {
        probe(&client, &config.name.0, &args.to, json, &stop)?;
    }
    let deadline_us = jiff::Timestamp::now().as_microsecond().cast_unsigned() + us(args.deadline);
    let plan = agent::plan_transfer(&config, &config.name.0, &args.to, args.bytes.0, deadline_us);
    let plan = plan.map_err(failure)?;
    if args.plan {
        return match json {
            true => output::json(&json!({ "schema": SCHEMA, "plan": plan })),
            false => output::prose(&text::plan(&plan)),
        };
    }
    if !json {
        output::note(&text::plan(&plan));
    }
    let Some(wanted) = plan.reservation.clone().filter(|_| plan.is_feasible) else {
        return Err(Exit::Failed(format!("no slot is planned, because {}", plan.reason)).into());
    };
    let reserved = client.reserve(wanted).map_err(failure)?;
    let id = reserved.id.clone();
    let running = wait_until(&client, reserved, json, &stop, |known| known.phase == "running");
    if running.is_err() {
        // Cancelled, because the slot will not be used.
        let _ = client.cancel(&id, "advise has ended");
    }
    let running = running?;
    if running.phase != "running" {
        return Err(Exit::Failed(running.text).into());
    }
    let begun = Instant::now();
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    if json {
        // Standard output is reserved for the document.
        command.stdout(io::stderr());
    }
    let ended = command.status();
    let duration = begun.elapsed();
    let error = match &ended {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("the command ended with {status}")),
        Err(error) => Some(format!("the command could not be run: {error}")),
    };
    match report(&client, &running, duration, error, &stop) {
        Ok(explained) if json => {
            output::json(&json!({ "schema": SCHEMA, "plan": plan, "reservation": explained }))?;
        }
        Ok(explained) => {
            output::prose(&format!("{}\n{}", text::explained(&explained), comparison(&plan, &explained)))?;
        }
        // The exit code is that of the command, even if the agent fails.
        Err(error) => output::note(&format!("longfat: cannot report the transfer: {error:#}")),
    }
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Exit::Child(exit_code(status)).into()),
        Err(error) => {
            let command = args.command[0].display();
            Err(Exit::BadInput(format!("cannot run {command}: {error}")).into())
        }
    }
}

/// Tests the pair.
fn probe(client: &Client, from: &str, to: &str, json: bool, stop: &AtomicBool) -> anyhow::Result<()> {
    let test =
        NewReservation { duration_us: Some(PROBE_US), ..NewReservation::new(from, to, Kind::Throughput) };
    let reserved = client.reserve(test).map_err(failure)?;
    let tested = wait_until(client, reserved, json, stop, |_| false)?;
    match tested.phase.as_str() {
        "finished" => Ok(()),
        _ => Err(Exit::Failed(tested.text).into()),
    }
}

/// Reports the end of the transfer. The agent has sampled its connections, so that their goodput is the
/// result.
fn report(
    client: &Client,
    running: &Explained,
    duration: Duration,
    error: Option<String>,
    stop: &AtomicBool,
) -> anyhow::Result<Explained> {
    let duration_us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1);
    let known = client.why(&running.id).map_err(failure)?.into_iter().next();
    // A slot that has already ended has its result, so only an error of the command remains to be reported.
    let is_over = known.as_ref().is_some_and(Explained::is_over);
    if is_over && error.is_none() {
        output::note("longfat: the slot ended before the command; later data was not measured");
        return Ok(known.unwrap_or_else(|| running.clone()));
    }
    let reported = client.report(&running.id, &TransferReport { bytes: None, duration_us, error });
    wait_until(client, reported.map_err(failure)?, true, stop, |_| false)
}

/// Compares the transfer's goodput with the plan.
fn comparison(plan: &PlanDocument, explained: &Explained) -> String {
    let reached = explained.result.as_ref().and_then(|row| row.figures.goodput_bps);
    match (reached, plan.rate_bps) {
        (Some(reached), Some(planned)) => format!(
            "  planned {}, reached {} ({:.0} %)",
            view::number::rate(planned),
            view::number::rate(reached),
            reached / planned * 100.0
        ),
        _ => "  no TCP connection with the other end was seen".into(),
    }
}

fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}
