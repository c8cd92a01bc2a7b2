//! Requests of local users.

use reservation::{Now, Outcome, Phase, PointName, Reservation, ReservationId, Spec, TaskName, Test};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use units::{BitRate, Time};

use super::{Batch, EventLoop};
use crate::{
    Error, State, TestRow,
    archive::{Acknowledgement, EACH, Filter, Mute},
    audit,
    control::{
        AlertsReport, CalendarReport, Explained, MemberStatus, NewReservation, PairName, Reply, Request,
        SlotReport, Status, TaskStatus,
    },
    frame::Frame,
    received,
    test::{Kind, OtherEnd, TestParameters, other_name},
    test_row::micros,
    tokens,
};

/// Maximum number of occurrences of a recurring test that are explained.
const MAX_OCCURRENCES: u32 = 10;
/// Maximum number of rows in a reply: it must fit into a frame.
const MAX_ROWS: u32 = 1000;

/// A reply with a value.
pub(super) fn ok(value: &impl Serialize) -> Reply {
    match serde_json::to_value(value) {
        Ok(value) => Reply::Ok(value),
        Err(error) => Reply::Error(error.to_string()),
    }
}

/// The response to a request.
enum Response {
    /// A document.
    Reply(Reply),
    /// The state of this reservation after the events of the batch.
    Explained(ReservationId),
}

impl Response {
    fn of(value: &impl Serialize) -> Response {
        Response::Reply(ok(value))
    }
}

impl EventLoop {
    pub(super) fn on_request(
        &mut self,
        now: Now,
        user: &str,
        request: Request,
        reply: oneshot::Sender<Reply>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let response = match request {
            Request::Reserve { test, token } => {
                let user = self.user(user, token.as_deref());
                let details = serde_json::to_value(&test).unwrap_or_default();
                let reserved = self.reserve(now, &user, &test, batch);
                self.audit(&user, "reserve", details, reserved)?.map(Response::Explained)
            }
            Request::Cancel { id, text, token } => {
                let user = self.user(user, token.as_deref());
                let details = json!({ "id": id, "text": text });
                let known = self.reservation_of(&id, token.as_deref());
                let cancelled = known.inspect(|id| batch.add(self.point.cancel(now, id, &text, &self.rules)));
                self.audit(&user, "cancel", details, cancelled)?.map(Response::Explained)
            }
            Request::Report { id, report, token } => {
                let user = self.user(user, token.as_deref());
                let details = json!({ "id": id, "report": report });
                let reported = self.transfer_of(&id, token.as_deref());
                let reported = reported.and_then(|id| self.report_transfer(&id, report).map(|()| id));
                self.audit(&user, "report", details, reported)?.map(Response::Explained)
            }
            Request::Status => self.status(now).map(|status| Response::of(&status)),
            Request::Calendar { seconds, point: None } => Ok(Response::of(&self.calendar(now, seconds))),
            Request::Calendar { seconds, point: Some(name) } => match self.member(&name) {
                Ok(name) if name == self.config.name => Ok(Response::of(&self.calendar(now, seconds))),
                Ok(name) => {
                    batch.frames.push((name.clone(), Frame::CalendarWanted { seconds }));
                    // The users of some requests have disconnected.
                    self.requested_calendars.retain(|(_, waiting)| !waiting.is_closed());
                    self.requested_calendars.push((name, reply));
                    return Ok(());
                }
                Err(error) => Err(error),
            },
            Request::Why { id } => self.why(&id).map(|explained| Response::of(&explained)),
            Request::Results { filter } => {
                let filter = Filter { limit: filter.limit.min(MAX_ROWS), ..filter };
                self.archive.list(&filter).map(|rows| Response::of(&rows))
            }
            Request::Alerts => self.alerts_report(now).map(|report| Response::of(&report)),
            Request::Acknowledge { pair, since_us, text, token } => {
                let user = self.user(user, token.as_deref());
                let details = json!({ "pair": pair, "since_us": since_us, "text": text });
                let known = self.acknowledge(now, &user, pair, since_us, text);
                self.audit(&user, "acknowledge", details, known)?
                    .and_then(|_| self.alerts_report(now))
                    .map(|report| Response::of(&report))
            }
            Request::Mute { pair, seconds, text, token } => {
                let user = self.user(user, token.as_deref());
                let details = json!({ "pair": pair, "seconds": seconds, "text": text });
                let muted = self.mute(now, &user, pair, seconds, text);
                self.audit(&user, "mute", details, muted)?
                    .and_then(|_| self.alerts_report(now))
                    .map(|report| Response::of(&report))
            }
            Request::Expel { name } => {
                let user = self.user(user, None);
                let expelled = self.expel(&name, batch).map(|()| name.clone());
                self.audit(&user, "expel", json!({ "name": name }), expelled)?
                    .and_then(|_| self.status(now))
                    .map(|status| Response::of(&status))
            }
        };
        match response {
            Ok(Response::Explained(id)) => batch.explanations.push((reply, id)),
            Ok(Response::Reply(response)) => batch.replies.push((reply, response)),
            // The storage failed: the agent must end.
            Err(error) if is_of_storage(&error) => return Err(error),
            Err(error) => batch.replies.push((reply, Reply::Error(error.to_string()))),
        }
        Ok(())
    }

    fn member(&self, name: &str) -> Result<PointName, Error> {
        let name = PointName(name.into());
        if self.members.address(&name).is_some() {
            return Ok(name);
        }
        let names: Vec<&str> = self.members.members.iter().map(|member| member.name.0.as_str()).collect();
        Err(Error::Refused(format!(
            "no point of the mesh has the name {:?}; the points are: {}",
            name.0,
            names.join(", ")
        )))
    }

    /// The other end of a test: a point, or a server of this point's configuration.
    fn other_end(&self, lead: &PointName, name: &str, kind: Kind) -> Result<OtherEnd, Error> {
        let server = OtherEnd::of_server(&self.config.servers, &self.config.name, lead, name, kind);
        match server.map_err(Error::Refused)? {
            Some(end) => Ok(end),
            None => self.member(name).map(OtherEnd::Point),
        }
    }

    fn reserve(
        &mut self,
        now: Now,
        user: &str,
        wanted: &NewReservation,
        batch: &mut Batch,
    ) -> Result<ReservationId, Error> {
        let lead = self.member(&wanted.from)?;
        let kind: Kind = wanted.kind.parse().map_err(Error::Refused)?;
        let end = self.other_end(&lead, &wanted.to, kind)?;
        let (peer, server) = end.into_parts();
        let us = |us: u64| Time(us.saturating_mul(1000));
        let parameters = TestParameters {
            kind,
            duration: wanted.duration_us.map_or(kind.default_duration(), us),
            rate: wanted.rate_bps.map(BitRate),
        };
        parameters.check().map_err(Error::Refused)?;
        let earliest = now.utc + us(wanted.in_us);
        let spec = Spec {
            peer,
            user: Some(user.into()),
            test: Test { parameters: server, ..parameters.test() },
            class: parameters.class(),
            priority: wanted.priority,
            duration: parameters.duration,
            earliest,
            latest: earliest + us(wanted.within_us),
        };
        let (id, step) = if lead == self.config.name {
            self.point.reserve(now, spec, &self.rules)
        } else {
            self.point.request(now, lead, spec, &self.rules)
        };
        batch.add(step);
        Ok(id)
    }

    /// The reservation that a user names: `a/12`, or `12` for one of this point.
    fn named(&self, text: &str) -> Option<ReservationId> {
        let (origin, number) = text.rsplit_once('/').unwrap_or((&self.config.name.0, text));
        Some(ReservationId { number: number.parse().ok()?, origin: origin.into() })
    }

    fn unknown(&self, text: &str) -> Error {
        Error::Refused(format!("{} has no reservation and no recurring test {text:?}", self.config.name))
    }

    /// The name of a user of this point in limits and calendars.
    fn user(&self, login: &str, token: Option<&str>) -> String {
        let name = token.map_or_else(|| login.to_string(), tokens::user_of);
        format!("{name}@{}", self.config.name)
    }

    fn alerts_report(&self, now: Now) -> Result<AlertsReport, Error> {
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

    fn acknowledge(
        &mut self,
        now: Now,
        user: &str,
        pair: PairName,
        since_us: Option<i64>,
        text: String,
    ) -> Result<&'static str, Error> {
        let PairName { from, to } = pair;
        let since_us = match since_us {
            Some(since_us) => since_us,
            None => {
                let known = self.archive.pair(&from, &to)?;
                let cause = known.and_then(|known| known.cause).ok_or_else(|| {
                    Error::Refused(format!("{} knows no cause for {from} to {to}", self.config.name))
                })?;
                cause.since_us
            }
        };
        let (user, at_us) = (user.to_string(), unix_us(now));
        self.archive.acknowledge(&Acknowledgement { from, to, since_us, user, text, at_us })?;
        self.check_alerts(now);
        Ok("acknowledged")
    }

    fn mute(
        &mut self,
        now: Now,
        user: &str,
        pair: PairName,
        seconds: u64,
        text: String,
    ) -> Result<&'static str, Error> {
        for name in [&pair.from, &pair.to] {
            if name != EACH {
                self.member(name)?;
            }
        }
        let at_us = unix_us(now);
        let time_us = i64::try_from(seconds.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        let (until_us, user) = (at_us.saturating_add(time_us), user.to_string());
        self.archive.mute(&Mute { from: pair.from, to: pair.to, until_us, user, text, at_us })?;
        // A mute of 0 s ends an earlier one. Changes may be waiting for that end.
        if self.config.alerts.is_some() {
            self.maintenance.alert_now(now.steady);
        }
        Ok("muted")
    }

    /// Writes a request and its outcome to the audit log.
    fn audit<T: ToString>(
        &self,
        user: &str,
        action: &str,
        mut details: Value,
        outcome: Result<T, Error>,
    ) -> Result<Result<T, Error>, Error> {
        if let Err(error) = &outcome
            && is_of_storage(error)
        {
            return Ok(outcome);
        }
        let (key, text) = match &outcome {
            Ok(object) => ("object", object.to_string()),
            Err(error) => ("refused", error.to_string()),
        };
        details[key] = text.into();
        audit::append(&self.config.state, user, action, details)?;
        Ok(outcome)
    }

    /// The reservation that a user names; a program can name those of its own token only.
    fn reservation_of(&self, text: &str, token: Option<&str>) -> Result<ReservationId, Error> {
        let id = self.named(text).filter(|id| self.point.reservation(id).is_some());
        let id = id.ok_or_else(|| self.unknown(text))?;
        let user = self.point.reservation(&id).and_then(|known| known.request.spec.user.clone());
        match token {
            Some(_) if user != Some(self.user("", token)) => {
                Err(Error::Refused(format!("{id} was not reserved with this token")))
            }
            _ => Ok(id),
        }
    }

    /// The transfer that a user names, which this point must lead; a program can name those of its own token only.
    fn transfer_of(&self, text: &str, token: Option<&str>) -> Result<ReservationId, Error> {
        let id = self.reservation_of(text, token)?;
        let Some(known) = self.point.reservation(&id) else { return Err(self.unknown(text)) };
        let (kind, lead) = (&known.request.spec.test.kind, &known.request.lead);
        if kind != Kind::Transfer.name() {
            return Err(Error::Refused(format!(
                "{id} is a test of the kind {kind}, which the agents measure"
            )));
        }
        if *lead != self.config.name {
            return Err(Error::Refused(format!("the transfer {id} is recorded by {lead}; report it there")));
        }
        Ok(id)
    }

    /// The state of a reservation in words.
    pub(super) fn explain(&self, id: &ReservationId) -> Result<Explained, Error> {
        let result = self.archive.get(&id.to_string())?;
        let (phase, text) = match (self.point.reservation(id), self.point.explain(id)) {
            (Some(known), Some(text)) => {
                (phase(known), received::plain_reason(&(text + &self.unreachable(known))))
            }
            _ => match &result {
                Some(row) => (row.state.name(), archived(row)),
                None => return Err(self.unknown(&id.to_string())),
            },
        };
        Ok(Explained { id: id.to_string(), phase: phase.into(), text, result })
    }

    /// The reason why a slot is not agreed on yet, if the other point cannot be reached; otherwise an empty text.
    fn unreachable(&self, known: &Reservation) -> String {
        if !matches!(known.phase, Phase::Seeking | Phase::Held { .. } | Phase::Confirming { .. }) {
            return String::new();
        }
        let failure = known.other_end().and_then(|name| Some((name, self.network.peer(name).failure?)));
        failure.map_or(String::new(), |(name, failure)| format!("; {name} cannot be reached: {failure}"))
    }

    /// A reservation, or the occurrences of a recurring test: those that are open, and the newest that are over.
    fn why(&self, text: &str) -> Result<Vec<Explained>, Error> {
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

    /// Another point has sent its calendar.
    pub(super) fn on_calendar(&mut self, from: &PointName, report: CalendarReport, batch: &mut Batch) {
        let report = received::plain_calendar(report);
        let wanted = std::mem::take(&mut self.requested_calendars);
        let (its, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(name, _)| name == from);
        self.requested_calendars = others;
        batch.replies.extend(its.into_iter().map(|(_, reply)| (reply, ok(&report))));
    }

    /// The occupied slots of the next seconds.
    pub(super) fn calendar(&self, now: Now, seconds: u64) -> CalendarReport {
        let time = Time::from_secs(seconds.min(1 << 30));
        let until = now.utc + time;
        let us = Time::as_micros;
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
                start_us: us(slot.start),
                duration_us: us(slot.duration),
                padding_us: us(slot.padding),
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
            .map(|(from, until)| until.saturating_sub(*from).as_nanos())
            .sum();
        CalendarReport {
            point: self.config.name.0.clone(),
            slots: slots.collect(),
            busy_share: 1.0 - free as f64 / time.as_nanos().max(1) as f64,
        }
    }

    fn status(&self, now: Now) -> Result<Status, Error> {
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
            next_us: task.recurrence.nominal(next).map(Time::as_micros),
        });
        Ok(Status {
            name: self.config.name.0.clone(),
            address: self.config.address.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: now.steady.saturating_sub(self.started).as_nanos() / 1_000_000_000,
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
}

/// UTC, microseconds since 1970.
pub(super) fn unix_us(now: Now) -> i64 {
    micros(now.utc)
}

/// Errors that end the agent.
fn is_of_storage(error: &Error) -> bool {
    matches!(error, Error::Archive { .. } | Error::Calendar(_))
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
