//! The requests of users to a running point.

use agent::{Explained, Filter, Kind, NewReservation};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use units::{BitRate, Time};

use super::{Directory, SCHEMA, failure, results_table::results_table, text, waiting::wait_until};
use crate::{exit::Exit, interrupt, output};

/// Options of `agent calendar`.
#[derive(Debug, Args)]
pub struct CalendarArgs {
    /// Show the slots of this time span, from now on
    #[arg(long, value_name = "TIME", default_value = "24h")]
    next: Time,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent request`.
#[derive(Debug, Args)]
pub struct RequestArgs {
    /// The point that sends, and records the result
    from: String,
    /// The point that receives, or a server of agent.toml
    to: String,
    /// What to measure: throughput, latency, diagnose, probe (available bandwidth), trace (hops and path
    /// MTU), stream at a rate, or transfer to reserve a slot for an application's own transfer
    #[arg(long, default_value = "throughput")]
    kind: Kind,
    /// Duration of the test [default: 10s; for diagnose, probe, trace and transfer 60s]
    #[arg(long, value_name = "TIME")]
    duration: Option<Time>,
    /// For throughput: send UDP at this rate instead of TCP; for a stream: its rate; for a transfer: the
    /// maximum rate of the application; for a probe: its maximum load
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// For throughput: number of parallel streams, 1 to 128; the rate is that of all streams together
    #[arg(long, value_name = "N", default_value_t = 1)]
    parallel: u32,
    /// For throughput by TCP: the congestion control of the sender [default: that of its system]
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// For throughput: time before the duration that no figure includes
    #[arg(long, value_name = "TIME", default_value = "0s")]
    omit: Time,
    /// Time until the earliest start
    #[arg(long = "in", value_name = "TIME", default_value = "0s")]
    earliest: Time,
    /// Time from the earliest to the latest start
    #[arg(long, value_name = "TIME", default_value = "10min")]
    within: Time,
    /// Displace reservations of lower priority that have not started
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Wait until the test is over, and show its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The reservation, as in a/12 or 12
    id: String,
    /// The reason, shown to users of both points
    #[arg(long, default_value = "")]
    reason: String,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent why`.
#[derive(Debug, Args)]
pub struct WhyArgs {
    /// The reservation, as in a/12 or 12, or the name of a recurring test
    id: String,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent results`.
#[derive(Debug, Args)]
pub struct ResultsArgs {
    /// Only tests from this point
    #[arg(long, value_name = "POINT")]
    from: Option<String>,
    /// Only tests to this point
    #[arg(long, value_name = "POINT")]
    to: Option<String>,
    /// Only tests of this kind
    #[arg(long)]
    kind: Option<Kind>,
    /// Only tests that started in the last TIME
    #[arg(long, value_name = "TIME")]
    last: Option<Time>,
    /// Only the newest N tests
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent expel`.
#[derive(Debug, Args)]
pub struct ExpelArgs {
    /// The point
    name: String,
    #[command(flatten)]
    directory: Directory,
}

/// Microseconds.
pub(super) fn us(time: Time) -> u64 {
    time.as_micros()
}

/// A document with its schema first.
fn document(name: &str, value: &impl Serialize) -> anyhow::Result<Value> {
    Ok(json!({ "schema": SCHEMA, name: serde_json::to_value(value)? }))
}

/// Shows the state of the point.
pub fn status(args: &Directory, json: bool) -> anyhow::Result<()> {
    let status = args.client()?.status().map_err(failure)?;
    if json {
        return output::json(&document("status", &status)?);
    }
    output::text(&text::status(&status))
}

/// Shows the calendar.
pub fn calendar(args: &CalendarArgs, json: bool) -> anyhow::Result<()> {
    let next = args.next.to_duration();
    let calendar = args.directory.client()?.calendar(next).map_err(failure)?;
    if json {
        return output::json(&document("calendar", &calendar)?);
    }
    output::text(&text::calendar(&calendar, args.next))
}

/// Reserves a test.
pub fn request(args: &RequestArgs, json: bool) -> anyhow::Result<()> {
    let client = args.directory.client()?;
    let wanted = NewReservation {
        duration_us: args.duration.map(us),
        rate_bps: args.rate.map(|rate| rate.0),
        congestion: args.congestion.clone(),
        parallel: args.parallel,
        omit_us: us(args.omit),
        in_us: us(args.earliest),
        within_us: us(args.within),
        priority: args.priority,
        ..NewReservation::new(&args.from, &args.to, args.kind)
    };
    let mut explained = client.reserve(wanted).map_err(failure)?;
    if args.wait {
        explained = wait_until(&client, explained, json, &*interrupt::flag()?, |_| false)?;
    }
    print(&explained, json)?;
    let is_done = explained.phase == "finished" || !explained.is_over();
    if is_done {
        Ok(())
    } else {
        Err(Exit::Failed(format!("the test {} was not completed", explained.id)).into())
    }
}

fn print(explained: &Explained, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&document("reservation", explained)?);
    }
    output::prose(&text::explained(explained))
}

/// Cancels a reservation.
pub fn cancel(args: &CancelArgs, json: bool) -> anyhow::Result<()> {
    let explained = args.directory.client()?.cancel(&args.id, &args.reason).map_err(failure)?;
    print(&explained, json)
}

/// Explains a reservation or a recurring test.
pub fn why(args: &WhyArgs, json: bool) -> anyhow::Result<()> {
    let explained = args.directory.client()?.why(&args.id).map_err(failure)?;
    if json {
        return output::json(&document("reservations", &explained)?);
    }
    let texts: Vec<String> = explained.iter().map(text::explained).collect();
    if texts.is_empty() {
        return output::text(&format!("{}: no occurrence has been reserved yet", args.id));
    }
    output::prose(&texts.join("\n"))
}

/// Lists tests.
pub fn results(args: &ResultsArgs, json: bool) -> anyhow::Result<()> {
    let now_us = jiff::Timestamp::now().as_microsecond();
    let filter = Filter {
        from: args.from.clone(),
        to: args.to.clone(),
        kind: args.kind.map(|kind| kind.name().into()),
        since_us: args.last.map(|last| now_us.saturating_sub(us(last).try_into().unwrap_or(i64::MAX))),
        limit: args.limit,
    };
    let rows = args.directory.client()?.results(filter).map_err(failure)?;
    if json {
        return output::json(&document("results", &rows)?);
    }
    output::text(&results_table(&rows, output::width()))
}

/// Removes a point from the mesh.
pub fn expel(args: &ExpelArgs, json: bool) -> anyhow::Result<()> {
    let status = args.directory.client()?.expel(&args.name).map_err(failure)?;
    if json {
        return output::json(&document("status", &status)?);
    }
    output::text(&format!("{} is no longer a member; the other points are notified", args.name))
}
