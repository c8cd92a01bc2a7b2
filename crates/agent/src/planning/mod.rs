//! Plans of transfers: [`plan`] is the arithmetic; this file collects its input.

mod plan;

use std::{path::Path, time::Duration};

pub(crate) use plan::PlanRequest;
pub use plan::{PlanDocument, PlannedSetting, PlannedSlot};

use self::plan::Known;
use crate::{
    Client, Config, Error, Filter, Kind, Members, ServerService, State, archive::Archive, test::OtherEnd,
};

/// A plan uses the tests of the last two weeks, seconds.
const PLAN_TESTS_S: u64 = 14 * 86_400;
/// Maximum number of these tests.
const MAX_PLAN_TESTS: u32 = 1000;
/// The part of the calendars that a plan uses, from now on.
const MAX_PLAN_AHEAD: Duration = Duration::from_secs(30 * 86_400);
/// The fixed part of a slot's padding (the default of `padding` in agent.toml), microseconds. Clock errors
/// and round trips are added.
const PLAN_PADDING_US: u64 = 2_000_000;

/// Plans a transfer with the archive and the calendars of the running agent with this configuration.
///
/// # Errors
/// If the agent does not run, its archive cannot be read, or there are no such points.
pub fn plan_transfer(
    config: &Config,
    from: &str,
    to: &str,
    bytes: u64,
    deadline_us: u64,
) -> Result<PlanDocument, Error> {
    let request = PlanRequest { from: from.into(), to: to.into(), bytes, deadline_us };
    let archive = match &config.postgres {
        Some(address) => Archive::connect_for_reading(address)?,
        None => Archive::of_point(&config.state)?,
    };
    make_plan(&config.state, &config.servers, &Client::new(&config.state), &archive, &request)
}

/// Makes a plan from an archive and the calendars. `servers` are those of the configuration.
pub(crate) fn make_plan(
    state: &Path,
    servers: &[ServerService],
    client: &Client,
    archive: &Archive,
    request: &PlanRequest,
) -> Result<PlanDocument, Error> {
    let PlanRequest { from, to, deadline_us, .. } = request;
    let status = client.status()?;
    let points =
        points_of(&Members::open(state)?, servers, &status.name, from, to).map_err(Error::Refused)?;
    let now_us = u64::try_from(os::realtime().as_micros()).unwrap_or(u64::MAX);
    let since_us = i64::try_from(now_us.saturating_sub(PLAN_TESTS_S * 1_000_000)).unwrap_or(0);
    let filter = Filter {
        from: Some(from.clone()),
        to: Some(to.clone()),
        kind: Some(Kind::Throughput.name().into()),
        since_us: Some(since_us),
        limit: MAX_PLAN_TESTS,
    };
    let facts = archive.pair(from, to)?;
    let throughput = facts.as_ref().and_then(|facts| facts.throughput.as_ref());
    let options = throughput.and_then(|newest| newest.options.clone());
    // Only TCP has a cause. Tests with other options than those of the newest one have other goodputs.
    let mut tests = archive.list(&filter)?;
    tests.retain(|row| {
        row.state == State::Finished && row.figures.verdict.is_some() && row.options == options
    });
    let newest = facts.as_ref().and_then(|facts| facts.latency.as_ref().or(facts.throughput.as_ref()));
    let rtt_us = newest.and_then(|newest| newest.typical_rtt_us.or(newest.min_rtt_us));
    let ahead = Duration::from_micros(deadline_us.saturating_sub(now_us)).min(MAX_PLAN_AHEAD);
    let (mut calendars, mut calendar_error) = (Vec::new(), None);
    for name in points {
        match client.calendar_of(Some(name.into()), ahead) {
            Ok(calendar) => calendars.push(calendar),
            Err(error) => calendar_error = Some(format!("the calendar of {name} is unknown: {error}")),
        }
    }
    // The other clock's error is unknown, and assumed to be as large as this one's.
    let clocks_us = status.clock_error_us.saturating_mul(2);
    let round_trips_us = (2.0 * rtt_us.unwrap_or(0.0)) as u64;
    let padding_us = PLAN_PADDING_US.saturating_add(clocks_us).saturating_add(round_trips_us);
    let known = Known {
        goodputs_bps: tests.iter().filter_map(|row| row.figures.goodput_bps).collect(),
        since_us: tests.last().map(|row| row.start_us),
        best_bps: facts.as_ref().and_then(|facts| facts.best_goodput_bps),
        rtt_us,
        cause: facts.and_then(|facts| facts.cause).map(|change| change.cause),
        calendars,
        calendar_error,
        padding_us,
    };
    Ok(plan::plan(request, &known, now_us))
}

/// The ends that have a calendar: points have one, servers of the point `own` have none.
fn points_of<'a>(
    members: &Members,
    servers: &[ServerService],
    own: &str,
    from: &'a str,
    to: &'a str,
) -> Result<Vec<&'a str>, String> {
    let is_point = |name: &str| members.address(&name.into()).is_some();
    if !is_point(from) {
        return Err(format!("no point of the mesh has the name {from:?}"));
    }
    if OtherEnd::of_server(servers, &own.into(), &from.into(), to, Kind::Transfer)?.is_some() {
        return Ok(vec![from]);
    }
    match is_point(to) {
        true => Ok(vec![from, to]),
        false => Err(format!("no point of the mesh has the name {to:?}, and agent.toml has no such server")),
    }
}
