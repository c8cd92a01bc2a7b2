//! Requests of local users.

use reservation::{Now, PointName, ReservationId, Spec};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use units::{BitRate, Time};

use super::{
    batch::Batch,
    reports::ok,
    state::{EventLoop, unix_us},
};
use crate::{
    Error, Scope, Tokens,
    archive::{Acknowledgement, EACH, Filter, Mute},
    audit,
    control::{CalendarReport, NewReservation, PairName, Reply, Request},
    frame::Frame,
    received,
    roles::Grant,
    test::{Kind, OtherEnd, TestDescription, TestOptions},
    tokens,
    users::LocalUser,
};

/// Maximum number of rows in a reply: it must fit into a frame.
const MAX_ROWS: u32 = 1000;

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

/// The user or the program that sends a request.
struct Requester {
    /// Its name in limits and calendars.
    user: String,
    is_program: bool,
    grant: Grant,
}

impl EventLoop {
    pub(super) fn on_request(
        &mut self,
        now: Now,
        user: &LocalUser,
        request: Request,
        reply: oneshot::Sender<Reply>,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let by = match self.requester(user, request.token()) {
            Ok(requester) => requester,
            Err(error) => {
                batch.replies.push((reply, Reply::Error(error.to_string())));
                return Ok(());
            }
        };
        let permitted = by.grant.check(request.scopes()).map_err(Error::Refused);
        // Refused changes continue, because the audit log must have them.
        if request.is_reading()
            && let Err(error) = &permitted
        {
            batch.replies.push((reply, Reply::Error(error.to_string())));
            return Ok(());
        }
        let response = match request {
            Request::Reserve { test, .. } => {
                let details = serde_json::to_value(&test).unwrap_or_default();
                let reserved = permitted.and_then(|()| self.reserve(now, &by.user, &test, batch));
                self.audit(&by, "reserve", details, reserved)?.map(Response::Explained)
            }
            Request::Cancel { id, text, .. } => {
                let details = json!({ "id": id, "text": text });
                let known = permitted.and_then(|()| self.reservation_to_cancel(&id, &by));
                let cancelled = known.inspect(|id| batch.add(self.point.cancel(now, id, &text, &self.rules)));
                self.audit(&by, "cancel", details, cancelled)?.map(Response::Explained)
            }
            Request::Report { id, report, .. } => {
                let details = json!({ "id": id, "report": report });
                let reported = permitted.and_then(|()| self.transfer_of(&id, &by));
                let reported = reported.and_then(|id| self.report_transfer(&id, report).map(|()| id));
                self.audit(&by, "report", details, reported)?.map(Response::Explained)
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
            Request::Acknowledge { pair, since_us, text, .. } => {
                let details = json!({ "pair": pair, "since_us": since_us, "text": text });
                let known = permitted.and_then(|()| self.acknowledge(now, &by.user, pair, since_us, text));
                self.audit(&by, "acknowledge", details, known)?
                    .and_then(|_| self.alerts_report(now))
                    .map(|report| Response::of(&report))
            }
            Request::Mute { pair, seconds, text, .. } => {
                let details = json!({ "pair": pair, "seconds": seconds, "text": text });
                let muted = permitted.and_then(|()| self.mute(now, &by.user, pair, seconds, text));
                self.audit(&by, "mute", details, muted)?
                    .and_then(|_| self.alerts_report(now))
                    .map(|report| Response::of(&report))
            }
            Request::Expel { name } => {
                let expelled = permitted.and_then(|()| self.expel(&name, batch)).map(|()| name.clone());
                self.audit(&by, "expel", json!({ "name": name }), expelled)?
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
        let description = TestDescription {
            kind,
            duration: wanted.duration_us.map_or(kind.default_duration(), Time::from_micros),
            rate: wanted.rate_bps.map(BitRate),
            options: TestOptions {
                congestion: wanted.congestion.clone(),
                parallel: wanted.parallel,
                omit: Time::from_micros(wanted.omit_us),
            },
        };
        description.check().map_err(Error::Refused)?;
        let parameters = description.parameters();
        let earliest = now.utc + Time::from_micros(wanted.in_us);
        let spec = Spec {
            peer,
            user: Some(user.into()),
            test: description.test(&server),
            class: parameters.class(),
            priority: wanted.priority,
            duration: parameters.duration,
            earliest,
            latest: earliest + Time::from_micros(wanted.within_us),
        };
        let (id, step) = if lead == self.config.name {
            self.point.reserve(now, spec, &self.rules)
        } else {
            self.point.request(now, lead, spec, &self.rules)
        };
        batch.add(step);
        Ok(id)
    }

    /// The name of a user of this point in limits and calendars.
    fn user(&self, login: &str, token: Option<&str>) -> String {
        let name = token.map_or_else(|| login.to_string(), tokens::user_of);
        format!("{name}@{}", self.config.name)
    }

    /// The requester and its grant. A token belongs to a program whose request the HTTP interface has
    /// authenticated.
    fn requester(&mut self, local: &LocalUser, token: Option<&str>) -> Result<Requester, Error> {
        let user = self.user(&local.name, token);
        let grant = match token {
            Some(_) if !local.is_owner => {
                return Err(Error::Refused("only the HTTP interface sends requests of programs".into()));
            }
            Some(name) => {
                let tokens = Tokens::open(&self.config.state)?;
                // Tokens may have been created since the last request.
                self.set_roles_in_rules(tokens.entries());
                let entry = tokens.entries().get(name);
                let entry = entry.ok_or_else(|| Error::Refused(format!("the token {name} was removed")))?;
                self.config.roles.grant_of_token(entry)
            }
            None => match self.config.roles.of_user(&user) {
                Some(role) => Grant::Role(role.clone()),
                None if local.is_owner => Grant::All,
                None => {
                    let text = format!("{user} has no role; [[roles]] in agent.toml gives roles to users");
                    return Err(Error::Refused(text));
                }
            },
        };
        Ok(Requester { user, is_program: token.is_some(), grant })
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
        // Pairs with servers outside the mesh and with removed points can be muted too.
        let is_known_pair = self.archive.pair(&pair.from, &pair.to)?.is_some();
        for name in [&pair.from, &pair.to] {
            let is_server = self.config.servers.iter().any(|server| server.name == *name);
            if name != EACH && !is_server && !is_known_pair {
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
            self.alertmanager.check_soon(now.steady);
        }
        Ok("muted")
    }

    /// Writes a request and its outcome to the audit log.
    fn audit<T: ToString>(
        &self,
        by: &Requester,
        action: &str,
        details: Value,
        outcome: Result<T, Error>,
    ) -> Result<Result<T, Error>, Error> {
        if let Err(error) = &outcome
            && is_of_storage(error)
        {
            return Ok(outcome);
        }
        let text = outcome.as_ref().map(ToString::to_string).map_err(ToString::to_string);
        audit::append_request(&self.config.state, &by.user, by.grant.role(), action, details, text)?;
        Ok(outcome)
    }

    /// The reservation that a requester names.
    fn reservation_of(&self, text: &str) -> Result<ReservationId, Error> {
        let id = self.named(text).filter(|id| self.point.reservation(id).is_some());
        id.ok_or_else(|| self.unknown(text))
    }

    /// Checks that a reservation belongs to the requester.
    fn check_own(&self, id: &ReservationId, by: &Requester) -> Result<(), Error> {
        let user = self.point.reservation(id).and_then(|known| known.request.spec.user.as_ref());
        if user == Some(&by.user) {
            return Ok(());
        }
        let requester = if by.is_program { "with this token".into() } else { format!("by {}", by.user) };
        Err(Error::Refused(format!("{id} was not reserved {requester}")))
    }

    /// The reservation that a requester wants to cancel. Without the scope `cancel`, it may cancel only its
    /// own reservations.
    fn reservation_to_cancel(&self, text: &str, by: &Requester) -> Result<ReservationId, Error> {
        let id = self.reservation_of(text)?;
        if !by.grant.permits(Scope::Cancel) {
            self.check_own(&id, by)?;
        }
        Ok(id)
    }

    /// The transfer that a requester names, which this point must lead. Programs and users with a role report
    /// their own transfers only.
    fn transfer_of(&self, text: &str, by: &Requester) -> Result<ReservationId, Error> {
        let id = self.reservation_of(text)?;
        if by.grant != Grant::All {
            self.check_own(&id, by)?;
        }
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

    /// Another point refuses to send its calendar.
    pub(super) fn on_calendar_refused(&mut self, from: &PointName, text: &str, batch: &mut Batch) {
        let text = format!("{from} does not send its calendar: {}", received::plain_reason(text));
        for reply in self.calendar_requests(from) {
            batch.replies.push((reply, Reply::Error(text.clone())));
        }
    }

    /// Another point has sent its calendar.
    pub(super) fn on_calendar(&mut self, from: &PointName, report: CalendarReport, batch: &mut Batch) {
        let report = received::plain_calendar(report);
        for reply in self.calendar_requests(from) {
            batch.replies.push((reply, ok(&report)));
        }
    }

    /// Removes the requests that wait for the calendar of a point.
    fn calendar_requests(&mut self, from: &PointName) -> Vec<oneshot::Sender<Reply>> {
        let wanted = std::mem::take(&mut self.requested_calendars);
        let (its, others): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(name, _)| name == from);
        self.requested_calendars = others;
        its.into_iter().map(|(_, reply)| reply).collect()
    }
}

/// Errors that end the agent.
fn is_of_storage(error: &Error) -> bool {
    matches!(error, Error::Archive { .. } | Error::Calendar(_))
}
