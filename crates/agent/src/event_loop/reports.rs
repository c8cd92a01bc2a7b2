//! What the agent reports to users: its state, its calendar, reservations in words, and alerts. Nothing here
//! changes the state.

use reservation::{Now, Outcome, Phase, Reservation, ReservationId, TaskName};
use serde::Serialize;
use units::{Instant, Time};

use super::state::{EventLoop, unix_us};
use crate::{
    Error, State, TestRow,
    control::{AlertsReport, CalendarReport, Explained, MemberStatus, Reply, SlotReport, Status, TaskStatus},
    received,
    test::{explain_refusal, other_name},
};

/// Maximum number of occurrences of a recurring test that are explained.
const MAX_OCCURRENCES: u32 = 10;

/// A reply with a value.
pub(super) fn ok(value: &impl Serialize) -> Reply {
    match serde_json::to_value(value) {
        Ok(value) => Reply::Ok(value),
        Err(error) => Reply::Error(error.to_string()),
    }
}

impl EventLoop {
    /// The occupied slots of the next seconds.
    pub(super) fn calendar(&self, now: Now, seconds: u64) -> CalendarReport {
        let time = Time::from_secs(seconds.min(1 << 30));
        let until = now.utc + time;
        let slots = self.point.calendar().overlapping(now.utc, until).filter_map(|taken| {
            let known = self.point.reservation(&taken.id)?;
            let slot = known.slot?;
            let spec = &known.request.spec;
            Some(SlotReport {
                id: taken.id.to_string(),
                phase: phase(known).into(),
                from: known.request.lead.0.clone(),
                to: other_name(spec),
                kind: spec.test.kind.clone(),
                class: spec.class.to_string(),
                start_us: slot.start.as_micros(),
                duration_us: slot.duration.as_micros(),
                padding_us: slot.padding.as_micros(),
                priority: spec.priority,
                user: spec.user.clone(),
            })
        });
        let free: u64 = self
            .point
            .calendar()
            .busy(now.utc, until)
            .free_for_exclusive
            .iter()
            .map(|(from, until)| until.saturating_since(*from).as_nanos())
            .sum();
        CalendarReport {
            point: self.config.name.0.clone(),
            slots: slots.collect(),
            busy_share: 1.0 - free as f64 / time.as_nanos().max(1) as f64,
        }
    }

    /// The state of the agent.
    pub(super) fn status(&self, now: Now) -> Result<Status, Error> {
        let members = self.members.members.iter().filter(|member| member.name != self.config.name);
        let members = members.map(|member| {
            let state = self.network.peer(&member.name);
            MemberStatus {
                name: member.name.0.clone(),
                address: member.address.clone(),
                connected: state.is_connected,
                failure: state.failure,
            }
        });
        let tests = self.point.state().tasks().map(|(task, next)| TaskStatus {
            name: task.name.0.clone(),
            to: other_name(&task.spec),
            kind: task.spec.test.kind.clone(),
            next_us: task.recurrence.nominal(next).map(Instant::as_micros),
        });
        Ok(Status {
            name: self.config.name.0.clone(),
            address: self.config.address.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: now.steady.saturating_since(self.started).as_nanos() / 1_000_000_000,
            clock_error_us: now.error.as_micros(),
            authority: self.members.authority.0.clone(),
            members: members.collect(),
            open_reservations: self.point.state().open_count(),
            running: self.runs.keys().map(ToString::to_string).collect(),
            tests: tests.collect(),
            archive: self.archive.counts()?.into_iter().collect(),
            unsent_results: self.archive.unsent_count()?,
            unforwarded_results: self.archive.spooled_count()?,
            resident_bytes: resident_bytes(),
        })
    }

    /// The state of a reservation in words.
    pub(super) fn explain(&self, id: &ReservationId) -> Result<Explained, Error> {
        let result = self.archive.get(&id.to_string())?;
        let (phase, text) = match (self.point.reservation(id), self.point.explain(id)) {
            (Some(known), Some(text)) => {
                let text = explain_refusal(&known.request.spec.test, text + &self.unreachable(known));
                (phase(known), received::plain_reason(&text))
            }
            _ => match &result {
                Some(row) => (row.state.name(), archived(row)),
                None => return Err(self.unknown(&id.to_string())),
            },
        };
        Ok(Explained { id: id.to_string(), phase: phase.into(), text, result })
    }

    /// The reason why a slot is not agreed on yet, if the other point cannot be reached; otherwise an empty
    /// text.
    fn unreachable(&self, known: &Reservation) -> String {
        if !matches!(known.phase, Phase::Seeking | Phase::Held { .. } | Phase::Confirming { .. }) {
            return String::new();
        }
        let failure = known.other_end().and_then(|name| Some((name, self.network.peer(name).failure?)));
        failure.map_or(String::new(), |(name, failure)| format!("; {name} cannot be reached: {failure}"))
    }

    /// A reservation, or the occurrences of a recurring test: those that have not ended, and the newest that
    /// have ended.
    pub(super) fn why(&self, text: &str) -> Result<Vec<Explained>, Error> {
        let name = TaskName(text.into());
        let is_its = |known: &&Reservation| known.task.as_ref().is_some_and(|of| of.task == name);
        let mut occurrences: Vec<&Reservation> = self.point.reservations().filter(is_its).collect();
        let is_task =
            !occurrences.is_empty() || self.point.state().tasks().any(|(task, _)| task.name == name);
        if !is_task {
            let id = self.named(text).ok_or_else(|| self.unknown(text))?;
            return Ok(vec![self.explain(&id)?]);
        }
        occurrences.sort_by_key(|known| std::cmp::Reverse(known.request.id.number));
        occurrences
            .iter()
            .take(MAX_OCCURRENCES as usize)
            .map(|known| self.explain(&known.request.id))
            .collect()
    }

    /// The reservation that a user names: `a/12`, or `12` for one of this point.
    pub(super) fn named(&self, text: &str) -> Option<ReservationId> {
        let (origin, number) = text.rsplit_once('/').unwrap_or((&self.config.name.0, text));
        Some(ReservationId { number: number.parse().ok()?, origin: origin.into() })
    }

    /// The error of a text that names neither a reservation nor a recurring test.
    pub(super) fn unknown(&self, text: &str) -> Error {
        Error::Refused(format!("{} has no reservation and no recurring test {text:?}", self.config.name))
    }

    /// Acknowledged causes and mutes.
    pub(super) fn alerts_report(&self, now: Now) -> Result<AlertsReport, Error> {
        let now_us = unix_us(now);
        let attention = self.archive.attention()?;
        let mut acknowledged = Vec::new();
        for known in attention.acknowledged {
            // The acknowledgement of an earlier cause has ended.
            let pair = self.archive.pair(&known.from, &known.to)?;
            let since_us = pair.and_then(|pair| pair.cause).map(|cause| cause.since_us);
            if Some(known.since_us) >= since_us {
                acknowledged.push(known);
            }
        }
        let mutes = attention.mutes.into_iter().filter(|mute| mute.until_us > now_us).collect();
        Ok(AlertsReport { acknowledged, mutes })
    }
}

fn phase(known: &Reservation) -> &'static str {
    match &known.phase {
        Phase::Seeking => "seeking",
        Phase::Held { .. } => "held",
        Phase::Confirming { .. } => "confirming",
        Phase::Booked => "booked",
        Phase::Running => "running",
        Phase::Ended(Outcome::Finished) => "finished",
        Phase::Ended(Outcome::Failed(_)) => "failed",
        Phase::Ended(Outcome::NotRun(_)) => "not_run",
    }
}

/// A test that only the archive has.
fn archived(row: &TestRow) -> String {
    let state = match row.state {
        State::NotRun => "not run",
        other => other.name(),
    };
    match &row.reason {
        Some(reason) => format!("{}: {state}: {reason}", row.id),
        None => format!("{}: {state}", row.id),
    }
}

/// `VmRSS` of proc(5).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()? * 1024)
}
