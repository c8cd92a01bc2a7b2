//! The texts of `longfat agent`.

use std::collections::BTreeMap;

use agent::{
    AlertsReport, Allowance, CalendarReport, DeadlineState, DirectoryPoint, Explained, Lookup, PlanDocument,
    Scope, Session, State, Status, TestRow, TokenEntry,
};
use jiff::{Timestamp, tz::TimeZone};
use units::Time;
use view::number;

use crate::output;

/// Shown in place of an unknown figure.
pub(super) const UNKNOWN: &str = "-";

/// The kind of a test, with its options.
pub(super) fn kind(row: &TestRow) -> String {
    row.options.as_ref().map_or_else(|| row.kind.clone(), |options| format!("{} {options}", row.kind))
}

/// An instant of UTC.
pub(super) fn instant(us: i64) -> String {
    let time = Timestamp::from_microsecond(us).unwrap_or_default();
    time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn table(
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
    is_right: &[bool],
    flexible: &[&str],
) -> String {
    let mut all = vec![header.iter().map(|cell| (*cell).to_string()).collect::<Vec<_>>()];
    all.extend(rows);
    view::table::fitted(all, is_right, output::width(), flexible).trim_end().to_string()
}

/// The state of a point.
pub fn status(status: &Status) -> String {
    let Status { name, address, version, authority, .. } = status;
    let uptime = number::seconds(status.uptime_s as f64);
    let error = number::micros(status.clock_error_us as f64);
    let mut lines = vec![
        format!(
            "point {name} at {address}, longfat {version}, running for {uptime}; the authority is {authority}"
        ),
        format!("clock error: {error}"),
    ];
    lines.extend(status.resident_bytes.map(|bytes| format!("memory: {}", number::bytes(bytes as f64))));
    let running = if status.running.is_empty() { "none".into() } else { status.running.join(", ") };
    lines.push(format!("open reservations: {}; running tests: {running}", status.open_reservations));
    let archive: Vec<String> =
        status.archive.iter().map(|(state, count)| format!("{count} {}", state.replace('_', " "))).collect();
    let archive = if archive.is_empty() { "no tests".into() } else { archive.join(", ") };
    let unsent = match status.unsent_results {
        0 => String::new(),
        count => format!("; {count} results wait to be sent"),
    };
    lines.push(format!("archive: {archive}{unsent}"));
    if let Some(count) = status.unforwarded_results {
        lines.push(format!("common archive: {count} results wait to be sent"));
    }
    if !status.members.is_empty() {
        let rows = status.members.iter().map(|member| {
            let state = match &member.failure {
                Some(failure) => failure.as_str(),
                None if member.connected => "connected",
                None => "no connection needed",
            };
            vec![member.name.clone(), member.address.clone(), state.into()]
        });
        lines.push(format!("\n{}", table(&["POINT", "ADDRESS", "STATE"], rows, &[false; 3], &["STATE"])));
    }
    if !status.tests.is_empty() {
        let rows = status.tests.iter().map(|test| {
            let next = test.next_us.map_or(UNKNOWN.into(), |us| instant(us as i64));
            vec![test.name.clone(), test.to.clone(), test.kind.clone(), next]
        });
        let header = ["RECURRING TEST", "TO", "KIND", "NEXT TO RESERVE (UTC)"];
        lines.push(format!("\n{}", table(&header, rows, &[false; 4], &[])));
    }
    lines.join("\n")
}

/// Points of the directory.
pub fn directory(lookup: &Lookup, points: &[DirectoryPoint]) -> String {
    if points.is_empty() {
        return "no point fits".into();
    }
    let known = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.into());
    let mut header = vec!["POINT", "PLACE"];
    header.extend(lookup.near.map(|_| "DISTANCE"));
    header.extend((!lookup.hops.is_empty()).then_some("NEAREST HOP"));
    header.extend(["NETWORKS", "BUSY", "ALLOWS"]);
    let rows = points.iter().map(|point| {
        let position = point.coordinates.map(|at| format!("{:.2},{:.2}", at.latitude_deg, at.longitude_deg));
        let place = [point.place.clone(), position].into_iter().flatten().collect::<Vec<_>>().join(" at ");
        let mut row = vec![point.name.clone(), known(Some(place).filter(|place| !place.is_empty()))];
        row.extend(lookup.near.map(|_| known(point.distance_km.map(|km| format!("{km:.0} km")))));
        let hop = point.nearest_hop.as_ref();
        let hop = hop.map(|hop| format!("{} ({}, {} bits)", hop.number, hop.address, hop.common_bits));
        row.extend((!lookup.hops.is_empty()).then(|| known(hop)));
        let networks = Some(point.networks.join(", ")).filter(|networks| !networks.is_empty());
        let allows: Vec<String> = point.allows.iter().map(allowance).collect();
        let allows = Some(allows.join("; ")).filter(|allows| !allows.is_empty());
        row.extend([known(networks), known(point.busy_share.map(number::share)), known(allows)]);
        row
    });
    let is_right: Vec<bool> = header.iter().map(|name| matches!(*name, "DISTANCE" | "BUSY")).collect();
    table(&header, rows, &is_right, &["PLACE", "ALLOWS"])
}

/// `default: TCP, at most 60 s`.
fn allowance(some: &Allowance) -> String {
    let transports = [("TCP", some.tcp), ("UDP", some.udp)];
    let transports: Vec<&str> =
        transports.iter().filter(|(_, allowed)| *allowed).map(|(name, _)| *name).collect();
    let transports = if transports.is_empty() { "latency only".into() } else { transports.join(" and ") };
    let duration = some.max_duration_us.map(|us| format!(", at most {}", number::seconds(us as f64 / 1e6)));
    let rate = some.max_rate_bps.map(|bps| format!(", up to {}", number::rate(bps as f64)));
    format!("{}: {transports}{}{}", some.to, duration.unwrap_or_default(), rate.unwrap_or_default())
}

/// Acknowledged causes and mutes.
pub fn alerts(report: &AlertsReport) -> String {
    let AlertsReport { acknowledged, mutes } = report;
    if acknowledged.is_empty() && mutes.is_empty() {
        return "no cause is acknowledged, and no pair is muted".into();
    }
    let known = acknowledged.iter().map(|known| {
        let state = format!("acknowledged, since {}", instant(known.since_us));
        [known.from.clone(), known.to.clone(), state, known.user.clone(), known.text.clone()]
    });
    let muted = mutes.iter().map(|mute| {
        let state = format!("muted until {}", instant(mute.until_us));
        [mute.from.clone(), mute.to.clone(), state, mute.user.clone(), mute.text.clone()]
    });
    let rows = known.chain(muted).map(|row| row.to_vec());
    table(&["FROM", "TO", "STATE (UTC)", "USER", "NOTE"], rows, &[false; 5], &["NOTE"])
}

/// The tokens of programs.
pub fn tokens(entries: &BTreeMap<String, TokenEntry>) -> String {
    if entries.is_empty() {
        return "there are no tokens".into();
    }
    let rows = entries.iter().map(|(name, entry)| {
        let scopes: Vec<&str> = entry.scopes.iter().map(|scope| Scope::name(*scope)).collect();
        let time = |seconds: u64| instant(i64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000));
        let expires = entry.expires_s.map_or(UNKNOWN.into(), time);
        let scopes = entry.role.as_ref().map_or_else(|| scopes.join(", "), |role| format!("role {role}"));
        vec![name.clone(), scopes, time(entry.created_s), expires]
    });
    table(&["TOKEN", "SCOPES", "CREATED (UTC)", "EXPIRES (UTC)"], rows, &[false; 4], &[])
}

/// The calendar of a point.
pub fn calendar(calendar: &CalendarReport, next: Time) -> String {
    if calendar.slots.is_empty() {
        return format!("{}: no slot is taken in the next {next}", calendar.point);
    }
    let rows = calendar.slots.iter().map(|slot| {
        vec![
            slot.id.clone(),
            instant(slot.start_us as i64),
            number::micros(slot.duration_us as f64),
            number::micros(slot.padding_us as f64),
            slot.phase.clone(),
            slot.class.clone(),
            slot.kind.clone(),
            slot.from.clone(),
            slot.to.clone(),
            slot.user.clone().unwrap_or_default(),
        ]
    });
    let header =
        ["RESERVATION", "START (UTC)", "LENGTH", "PADDING", "STATE", "CLASS", "KIND", "FROM", "TO", "USER"];
    let is_right = [false, false, true, true, false, false, false, false, false, false];
    let slots = table(&header, rows, &is_right, &["USER"]);
    let busy = number::share(calendar.busy_share);
    format!("{slots}\n\n{busy} of the next {next} is not free for exclusive tests")
}

/// The plan of a transfer.
pub fn plan(plan: &PlanDocument) -> String {
    let PlanDocument { from, to, .. } = plan;
    let mut lines = Vec::new();
    if let (Some(rate), Some(median)) = (plan.rate_bps, plan.median_rate_bps) {
        let limit = plan.limit_text.as_ref().map_or(String::new(), |limit| format!("; limited by {limit}"));
        lines.push(format!(
            "{from} to {to}: {} of {} tests reached {} (median {}){limit}",
            plan.tests_at_rate(),
            plan.tests,
            number::rate(rate),
            number::rate(median)
        ));
    }
    let bytes = number::bytes(plan.bytes as f64);
    let takes = plan.duration_us.map(|us| format!(" takes {}", number::seconds(us as f64 / 1e6)));
    let verdict = if plan.is_feasible { "planned" } else { "not possible" };
    lines.push(format!("{bytes}{}; {verdict}: {}", takes.unwrap_or_default(), plan.reason));
    if let Some(slot) = &plan.slot {
        let length = number::seconds(slot.duration_us as f64 / 1e6);
        lines.push(format!("first free slot: {} UTC, {length}", instant(slot.start_us as i64)));
    }
    lines.extend(plan.settings.iter().map(|setting| {
        let (size, rate) = (number::bytes(setting.at_least_bytes as f64), number::rate(setting.for_bps));
        format!(
            "on {}: the third value of {} must be at least {size} for {rate}",
            setting.point, setting.sysctl
        )
    }));
    lines.join("\n")
}

/// Whether earlier tests reached the rate of a session.
pub fn session_check(session: &Session, scans_to_come: usize, plans: &[PlanDocument]) -> String {
    let rows = plans.iter().map(|plan| {
        let reaches = match plan.rate_bps {
            Some(rate) if rate >= session.rate.as_f64() => "yes",
            Some(_) => "NO",
            None => "not tested",
        };
        vec![
            plan.from.clone(),
            plan.rate_bps.map_or(UNKNOWN.into(), number::rate),
            plan.tests.to_string(),
            reaches.into(),
            plan.limit_text.clone().unwrap_or_else(|| UNKNOWN.into()),
        ]
    });
    let head = ["STATION", "9 OF 10 TESTS REACHED", "TESTS", "ENOUGH", "LIMIT"];
    format!(
        "session {}: {} from each of {} stations, {} at {}; {scans_to_come} scans to come\n\n{}",
        session.name,
        number::rate(session.rate.as_f64()),
        session.stations.len(),
        number::rate(session.total_rate().as_f64()),
        session.correlator,
        table(&head, rows, &[false, true, true, false, false], &["LIMIT"])
    )
}

/// The state of a session's scans.
pub fn session_state(
    session: &Session,
    known: &BTreeMap<(usize, String), Explained>,
    now: Timestamp,
) -> String {
    let rows = session.scans.iter().enumerate().flat_map(|(index, scan)| {
        session.stations.iter().map(move |station| {
            let explained = known.get(&(index + 1, station.clone()));
            let phase = explained.map_or("no slot".into(), |known| known.phase.replace('_', " "));
            let goodput = explained.and_then(|known| known.result.as_ref()?.figures.goodput_bps);
            let deadline = match session.deadline(scan, explained, now) {
                DeadlineState::Missed => "MISSED",
                other => other.name(),
            };
            vec![
                (index + 1).to_string(),
                instant(scan.start.as_microsecond()),
                station.clone(),
                phase,
                goodput.map_or(UNKNOWN.into(), number::rate),
                deadline.into(),
            ]
        })
    });
    let head = ["SCAN", "START (UTC)", "STATION", "STATE", "GOODPUT", "DEADLINE"];
    table(&head, rows, &[true, false, false, false, true, false], &[])
}

/// A reservation.
pub fn explained(explained: &Explained) -> String {
    match explained.result.as_ref().filter(|row| row.state == State::Finished || row.record.is_some()) {
        Some(row) => format!("{}\n{}", explained.text, result(row)),
        None => explained.text.clone(),
    }
}

/// A result in words.
fn result(row: &TestRow) -> String {
    let figures = &row.figures;
    let mut parts = Vec::new();
    parts.extend(figures.goodput_bps.map(|bps| format!("goodput {}", number::rate(bps))));
    parts.extend(figures.min_rtt_us.map(|us| format!("RTT min {}", number::rounded_micros(us))));
    let typical = if matches!(row.kind.as_str(), "latency" | "trace") { "median" } else { "mean" };
    parts.extend(figures.typical_rtt_us.map(|us| format!("{typical} {}", number::rounded_micros(us))));
    let loss = match row.kind.as_str() {
        "latency" => "lost",
        "stream" => "lost, late or skipped",
        _ => "lost or retransmitted",
    };
    parts.extend(figures.loss_share.map(|share| format!("{loss} {}", number::share(share))));
    let colon = if parts.is_empty() { "" } else { ": " };
    let mut lines = vec![format!("  {} {} to {}{colon}{}", kind(row), row.from, row.to, parts.join(", "))];
    if let Some(verdict) = &figures.verdict {
        let evidence = figures.finding().map_or(String::new(), |text| format!(": {text}"));
        lines.push(match verdict.as_str() {
            "healthy" => "  healthy: TCP reaches the rate of the path".into(),
            limit => format!("  limited by {}{evidence}", limit.replace('_', " ")),
        });
        lines.extend(figures.remedy().map(|remedy| format!("  to fix it: {remedy}")));
    } else {
        lines.extend(figures.evidence.as_ref().map(|text| format!("  {text}")));
    }
    lines.extend(row.record.as_ref().map(|record| format!("  record at {}: {record}", row.from)));
    lines.join("\n")
}
