//! Plans of transfers: [`plan`] is the arithmetic; this file collects its input.

mod plan;

use std::{path::Path, time::Duration};

pub(crate) use plan::PlanRequest;
pub use plan::{PlanDocument, PlannedSetting, PlannedSlot};

use self::plan::Known;
use crate::{Client, Config, Error, Filter, Kind, Members, State, archive::Archive, http::open_archive};

/// A plan uses the tests of the last two weeks, seconds.
const PLAN_TESTS_S: u64 = 14 * 86_400;
/// Maximum number of these tests.
const MAX_PLAN_TESTS: u32 = 1000;
/// The part of the calendars that a plan uses, from now on.
const MAX_PLAN_AHEAD: Duration = Duration::from_secs(30 * 86_400);
/// The fixed part of a slot's padding (the default of `padding` in agent.toml), microseconds. Clock errors and round trips are added.
const PLAN_PADDING_US: u64 = 2_000_000;

/// Plans a transfer with the archive and the calendars of the running agent with this configuration.
///
/// # Errors
/// If the agent does not run, its archive cannot be read, or the mesh has no such points.
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
        None => open_archive(&config.state)?,
    };
    make_plan(&config.state, &Client::new(&config.state), &archive, &request)
}

/// Makes a plan from an archive and the calendars.
pub(crate) fn make_plan(
    state: &Path,
    client: &Client,
    archive: &Archive,
    request: &PlanRequest,
) -> Result<PlanDocument, Error> {
    let PlanRequest { from, to, deadline_us, .. } = request;
    let members = Members::open(state)?;
    for name in [from, to] {
        if members.address(&name.as_str().into()).is_none() {
            return Err(Error::Refused(format!("no point of the mesh has the name {name:?}")));
        }
    }
    let now_us = u64::try_from(os::realtime().as_micros()).unwrap_or(u64::MAX);
    let since_us = i64::try_from(now_us.saturating_sub(PLAN_TESTS_S * 1_000_000)).unwrap_or(0);
    let filter = Filter {
        from: Some(from.clone()),
        to: Some(to.clone()),
        kind: Some(Kind::Throughput.name().into()),
        since_us: Some(since_us),
        limit: MAX_PLAN_TESTS,
    };
    // Only TCP has a cause.
    let mut tests = archive.list(&filter)?;
    tests.retain(|row| row.state == State::Finished && row.figures.verdict.is_some());
    let facts = archive.pairs()?.into_iter().find(|pair| pair.from == *from && pair.to == *to);
    let newest = facts.as_ref().and_then(|facts| facts.latency.as_ref().or(facts.throughput.as_ref()));
    let rtt_us = newest.and_then(|row| row.figures.typical_rtt_us.or(row.figures.min_rtt_us));
    let ahead = Duration::from_micros(deadline_us.saturating_sub(now_us)).min(MAX_PLAN_AHEAD);
    let (mut calendars, mut calendar_error) = (Vec::new(), None);
    for name in [from, to] {
        match client.calendar_of(Some(name.clone()), ahead) {
            Ok(calendar) => calendars.push(calendar),
            Err(error) => calendar_error = Some(format!("the calendar of {name} is not known: {error}")),
        }
    }
    // The other clock's error is unknown, and assumed to be as large as this one's.
    let clock_error_us = client.status()?.clock_error_us;
    let clocks_us = clock_error_us.saturating_mul(2);
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
