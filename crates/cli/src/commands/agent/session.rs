//! `longfat agent session`: scans of several stations that send to one point.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use agent::{CalendarReport, Client, Explained, Filter, NewReservation, Session, plan_transfer};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::{Value, json};
use units::Time;

use super::{Directory, SCHEMA, failure, text, users::us, waiting::wait_until};
use crate::{exit::Exit, interrupt, output};

/// Interval of `watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);

/// Maximum number of results of a station that are searched for scans.
const MAX_RESULTS: u32 = 1000;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Show whether earlier tests of each station reached the rate
    Check(SessionArgs),
    /// Reserve the scans that have not begun: a slot for each station
    Reserve(SessionArgs),
    /// Send streams of all stations at the session's rate at the same time, and show which arrived in time
    Rehearse(RehearseArgs),
    /// Show the state of the scans until all are over
    Watch(SessionArgs),
}

/// A session.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Description of the session (TOML)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    directory: Directory,
}

/// Options of `agent session rehearse`.
#[derive(Debug, Args)]
pub struct RehearseArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Time until the start, the same for all stations
    #[arg(long = "in", value_name = "TIME", default_value = "2min")]
    earliest: Time,
    /// Duration of the streams
    #[arg(long, value_name = "TIME", default_value = "30s")]
    duration: Time,
}

/// Runs the command.
pub fn run(command: &SessionCommand, json: bool) -> anyhow::Result<()> {
    match command {
        SessionCommand::Check(args) => check(args, json),
        SessionCommand::Reserve(args) => reserve(args, json),
        SessionCommand::Rehearse(args) => rehearse(args, json),
        SessionCommand::Watch(args) => watch(args, json),
    }
}

impl SessionArgs {
    fn session(&self) -> anyhow::Result<Session> {
        let file = self.file.display();
        let text = fs::read_to_string(&self.file)
            .map_err(|error| Exit::BadInput(format!("cannot read {file}: {error}")))?;
        Ok(Session::parse(&text).map_err(|error| Exit::BadInput(format!("{file}: {error}")))?)
    }
}

fn check(args: &SessionArgs, json: bool) -> anyhow::Result<()> {
    let session = args.session()?;
    let config = args.directory.config()?;
    let now = Timestamp::now();
    let scans_to_come = session.scans_to_come(now);
    let mut plans = Vec::new();
    for station in &session.stations {
        // The longest scan, as a TCP transfer.
        let bytes = session.max_scan_bytes();
        let deadline_us = now.as_microsecond().cast_unsigned() + 86_400_000_000;
        let plan = plan_transfer(&config, station, &session.correlator, bytes, deadline_us);
        plans.push(plan.map_err(failure)?);
    }
    if json {
        return output::json(&json!({
            "schema": SCHEMA, "session": session.name, "rate_bps": session.rate.0, "total_rate_bps": session.total_rate().0,
            "scans_to_come": scans_to_come, "plans": plans,
        }));
    }
    output::text(&text::session_check(&session, scans_to_come, &plans))
}

fn reserve(args: &SessionArgs, json: bool) -> anyhow::Result<()> {
    let session = args.session()?;
    let client = args.directory.client()?;
    let begun = Instant::now();
    let slots = session.slots(Timestamp::now());
    if slots.is_empty() {
        return Err(Exit::BadInput("all scans of the session have begun".into()).into());
    }
    let stop = interrupt::flag()?;
    let wanted = slots.iter().map(|slot| slot.reservation.clone());
    let mut reserved = Reserved::request(&client, wanted, begun, &stop)?;
    // The other points need a moment to agree.
    let is_settled = |known: &Explained| matches!(known.phase.as_str(), "booked" | "running");
    reserved.wait(json, &stop, is_settled)?;
    let known = &reserved.known;
    let rows: Vec<Value> = slots
        .iter()
        .zip(known)
        .map(|(slot, known)| json!({ "scan": slot.scan, "station": slot.station, "reservation": known }))
        .collect();
    if json {
        output::json(&json!({ "schema": SCHEMA, "session": session.name, "slots": rows }))?;
    } else {
        let lines =
            slots.iter().zip(known).map(|(slot, known)| format!("scan {}: {}", slot.scan, known.text));
        output::prose(&lines.collect::<Vec<_>>().join("\n"))?;
    }
    let missing = reserved.listed().iter().filter(|known| known.is_over()).count();
    if missing == 0 {
        return Ok(());
    }
    let kept = match slots.len() - missing {
        0 => "",
        _ => "; the others are kept (to cancel one: longfat agent cancel ID)",
    };
    Err(Exit::Failed(format!("{missing} of {} slots are not reserved{kept}", slots.len())).into())
}

fn rehearse(args: &RehearseArgs, json: bool) -> anyhow::Result<()> {
    let session = args.session.session()?;
    let client = args.session.directory.client()?;
    let stop = interrupt::flag()?;
    let streams = session.rehearsal(us(args.earliest), args.duration);
    let mut reserved = Reserved::request(&client, streams.into_iter(), Instant::now(), &stop)?;
    reserved.wait(json, &stop, |_| false)?;
    let results = reserved.listed();
    if json {
        output::json(&json!({ "schema": SCHEMA, "session": session.name, "streams": results }))?;
    } else {
        let texts: Vec<String> = results.iter().map(text::explained).collect();
        output::prose(&texts.join("\n"))?;
    }
    let failed = results.iter().filter(|known| known.phase != "finished").count();
    match failed {
        0 => Ok(()),
        failed => {
            let stations = session.stations.len();
            Err(Exit::Failed(format!("{failed} of {stations} stations did not deliver the rate")).into())
        }
    }
}

fn watch(args: &SessionArgs, json: bool) -> anyhow::Result<()> {
    let session = args.session()?;
    let client = args.directory.client()?;
    let stop = interrupt::flag()?;
    // By scan and station: the reservations that the correlator's calendar has shown so far.
    let mut known: BTreeMap<(usize, String), Explained> = BTreeMap::new();
    let mut shown = String::new();
    let mut has_calendar = false;
    loop {
        match client.calendar_of(Some(session.correlator.clone()), Duration::from_secs(86_400)) {
            Ok(calendar) => {
                add_slots(&session, &client, &calendar, &mut known);
                if !has_calendar {
                    add_results(&session, &client, &mut known).map_err(failure)?;
                }
                has_calendar = true;
            }
            // The agent may be restarting: a session lasts for hours.
            Err(error) if has_calendar => output::note(&format!("longfat: {error}")),
            Err(error) => return Err(failure(error)),
        }
        for explained in known.values_mut().filter(|explained| !explained.is_over()) {
            if let Ok(Some(next)) = client.why(&explained.id).map(|all| all.into_iter().next()) {
                *explained = next;
            }
        }
        let text = text::session_state(&session, &known, Timestamp::now());
        if !json && text != shown {
            output::text(&format!("{text}\n"))?;
            shown = text;
        }
        let is_last = session.scans.iter().all(|scan| scan.deadline < Timestamp::now());
        if is_last && known.values().all(Explained::is_over) {
            break;
        }
        if stop.load(Ordering::Acquire) {
            return Err(Exit::Interrupted.into());
        }
        sleep(WATCH_INTERVAL);
    }
    if json {
        let now = Timestamp::now();
        let rows = known.iter().map(|((scan, station), known)| {
            let deadline = session.deadline(&session.scans[scan - 1], Some(known), now);
            json!({ "scan": scan, "station": station, "deadline": deadline.name(), "reservation": known })
        });
        output::json(
            &json!({ "schema": SCHEMA, "session": session.name, "slots": rows.collect::<Vec<_>>() }),
        )?;
    }
    Ok(())
}

/// The reservations of one command. They are cancelled unless they have been listed, so that an error or a
/// signal leaves no reservation that the user has not seen.
struct Reserved<'a> {
    client: &'a Client,
    known: Vec<Explained>,
}

impl<'a> Reserved<'a> {
    /// Requests slots that were computed at `begun`.
    fn request(
        client: &'a Client,
        wanted: impl Iterator<Item = NewReservation>,
        begun: Instant,
        stop: &AtomicBool,
    ) -> anyhow::Result<Self> {
        let mut reserved = Reserved { client, known: Vec::new() };
        for wanted in wanted {
            if stop.load(Ordering::Acquire) {
                return Err(Exit::Interrupted.into());
            }
            // The time that earlier requests took is subtracted, so that all have the same start.
            let late_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            let in_us = wanted.in_us.saturating_sub(late_us);
            reserved.known.push(client.reserve(NewReservation { in_us, ..wanted }).map_err(failure)?);
        }
        Ok(reserved)
    }

    /// Waits until each reservation is over or `is_enough` returns true. Shows changes unless `is_quiet`.
    fn wait(
        &mut self,
        is_quiet: bool,
        stop: &AtomicBool,
        is_enough: impl Fn(&Explained) -> bool,
    ) -> anyhow::Result<()> {
        for known in &mut self.known {
            *known = wait_until(self.client, known.clone(), is_quiet, stop, &is_enough)?;
        }
        Ok(())
    }

    /// The reservations, for a caller that lists them.
    fn listed(mut self) -> Vec<Explained> {
        std::mem::take(&mut self.known)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let open = self.known.iter().filter(|known| !known.is_over()).map(|known| known.id.as_str());
        let (mut cancelled, mut kept) = (Vec::new(), Vec::new());
        for id in open {
            // If the agent does not reply, no further request is sent to it.
            let is_cancelled =
                kept.is_empty() && self.client.cancel(id, "the command that reserved it has ended").is_ok();
            if is_cancelled { cancelled.push(id) } else { kept.push(id) }
        }
        if !cancelled.is_empty() {
            output::note(&format!("longfat: cancelled what was already reserved: {}", cancelled.join(", ")));
        }
        if !kept.is_empty() {
            let kept = kept.join(", ");
            output::note(&format!("longfat: still reserved: {kept} (cancel each: longfat agent cancel ID)"));
        }
    }
}

/// Adds the archived results of scans that were over before this command began.
fn add_results(
    session: &Session,
    client: &Client,
    known: &mut BTreeMap<(usize, String), Explained>,
) -> Result<(), agent::Error> {
    let first = session.scans.iter().map(|scan| scan.start).min();
    for station in &session.stations {
        let filter = Filter {
            from: Some(station.clone()),
            to: Some(session.correlator.clone()),
            kind: Some(session.kind.name().into()),
            since_us: first.map(Timestamp::as_microsecond),
            limit: MAX_RESULTS,
        };
        // Newest first: an earlier reservation of the same scan was replaced, unless the newer one was
        // refused.
        for row in client.results(filter)? {
            let Some(scan) = session.scan_of_row(&row) else { continue };
            let key = (scan, station.clone());
            if known.get(&key).is_some_and(|newer| newer.phase != "not_run") {
                continue;
            }
            if let Some(explained) = client.why(&row.id)?.into_iter().next() {
                known.insert(key, explained);
            }
        }
    }
    Ok(())
}

/// Adds the slots that a calendar shows.
fn add_slots(
    session: &Session,
    client: &Client,
    calendar: &CalendarReport,
    known: &mut BTreeMap<(usize, String), Explained>,
) {
    for slot in &calendar.slots {
        let Some(scan) = session.scan_of(slot) else { continue };
        let key = (scan, slot.from.clone());
        if known.contains_key(&key) {
            continue;
        }
        // A reservation of two other points is known here only if it was requested here.
        if let Ok(Some(explained)) = client.why(&slot.id).map(|all| all.into_iter().next()) {
            known.insert(key, explained);
        }
    }
}
