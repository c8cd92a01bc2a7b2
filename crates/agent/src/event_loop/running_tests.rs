//! The running tests of this point: their threads, servers and results.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread,
};

use reservation::{Now, Outcome, Phase, PointName, Request, Reservation, ReservationId, Role};
use units::{Instant, Time};

use super::{
    batch::Batch,
    state::{EventLoop, REPEAT},
    test_run::{TestPart, TestRun},
};
use crate::{
    Error, State, TestRow,
    address::host_and_port,
    frame::Frame,
    inbound::{Ended, Inbound},
    received::{self, Refusal},
    test::{
        self, Endpoint, Figures, FoundRecord, Kind, LeadJob, Measured, PeerJob, TestParameters,
        TransferReport, explain_refusal, options_of, other_name, server_of,
    },
    test_row::micros,
};

/// Time between two requests for the address of a test's server.
const REQUEST_INTERVAL: Time = Time::from_secs(1);

impl EventLoop {
    /// Starts this point's part of a test.
    pub(super) fn start_test(&mut self, now: Now, id: &ReservationId) -> Result<(), Error> {
        let Some(known) = self.point.reservation(id).cloned() else { return Ok(()) };
        let spec = &known.request.spec;
        let parameters = TestParameters::of(&spec.test, spec.duration).map_err(Error::Refused)?;
        let number = self.next_run;
        self.next_run += 1;
        let stop = Arc::new(AtomicBool::new(false));
        let inbox = self.inbox.clone();
        let reservation_id = id.clone();
        let report = move |ended| {
            // Sending fails only if the agent has ended.
            let _ = inbox.blocking_send(Inbound::Ended {
                id: reservation_id,
                run: number,
                ended: Box::new(ended),
            });
        };
        let server = server_of(&spec.test).map_err(Error::Refused)?;
        let options = options_of(&spec.test).map_err(Error::Refused)?;
        let part = match (known.role, &spec.peer) {
            (Role::Lead, peer) if peer.is_some() || server.is_some() => {
                let row = self.row(&known);
                self.archive.put(&row, &[])?;
                self.wake_forwarder();
                let address =
                    peer.as_ref().and_then(|peer| self.members.address(peer)).and_then(host_and_port);
                let mesh_ports = address.into_iter().map(|(_, port)| port).chain([self.config.listen.port()]);
                let mesh_ports = mesh_ports.collect();
                let host = address.map(|(host, _)| host.to_owned());
                let (sender, endpoint) = channel();
                let job = LeadJob {
                    id: id.to_string(),
                    from: self.config.name.0.clone(),
                    to: row.to,
                    host: server.as_ref().map(|server| server.host.clone()).or(host).unwrap_or_default(),
                    latency_protocol: server
                        .as_ref()
                        .map_or(stamp::Protocol::Stamp, |server| server.protocol.of_latency()),
                    mesh_ports,
                    parameters,
                    options,
                    runs_dir: self.config.state.join("runs"),
                    endpoint,
                    stop: Arc::clone(&stop),
                };
                // A server outside the mesh is already open.
                let wanted = match (&server, peer) {
                    (Some(server), _) => {
                        let _ = sender.send(Endpoint { port: server.port, secret: String::new() });
                        None
                    }
                    (None, Some(peer)) => {
                        self.network.send(peer, Frame::Endpoint { id: id.clone() });
                        Some(sender)
                    }
                    (None, None) => None,
                };
                spawn(id, move || report(Ended::Lead(test::measure(&job))))?;
                TestPart::Lead { endpoint: wanted, request_at: now.steady + REQUEST_INTERVAL, report: None }
            }
            (Role::Peer, _) => {
                let bind = self.config.listen.ip();
                let job = PeerJob {
                    bind: (!bind.is_unspecified()).then_some(bind),
                    ports: self.config.test_ports.clone(),
                    parameters,
                    stop: Arc::clone(&stop),
                };
                let (inbox, reservation_id) = (self.inbox.clone(), id.clone());
                let on_ready = move |endpoint| {
                    let _ =
                        inbox.blocking_send(Inbound::Serving { id: reservation_id, run: number, endpoint });
                };
                spawn(id, move || report(Ended::Peer(test::serve(&job, on_ready))))?;
                TestPart::Peer { endpoint: None, result: None }
            }
            _ => return Ok(()),
        };
        self.runs.insert(id.clone(), TestRun { number, stop, part });
        Ok(())
    }

    /// Stops a test that was cancelled, or whose slot is over.
    pub(super) fn stop_test(&mut self, id: &ReservationId) {
        let Some(run) = self.runs.get(id) else { return };
        run.stop.store(true, Ordering::Release);
        if matches!(run.part, TestPart::Peer { .. }) {
            self.runs.remove(id);
        }
    }

    /// Peer: handles the event that this point's server is open; sends its address to the lead.
    pub(super) fn on_serving(
        &mut self,
        id: &ReservationId,
        number: u64,
        endpoint: Endpoint,
        batch: &mut Batch,
    ) {
        let Some(run) = self.runs.get_mut(id).filter(|run| run.number == number) else { return };
        let TestPart::Peer { endpoint: known, .. } = &mut run.part else { return };
        *known = Some(endpoint.clone());
        if let Some(reservation) = self.point.reservation(id) {
            let lead = reservation.request.lead.clone();
            batch.frames.push((lead, Frame::Serving { id: id.clone(), endpoint }));
        }
    }

    /// Peer: handles the lead's request for the address of this point's server.
    pub(super) fn on_endpoint_wanted(&self, from: &PointName, id: &ReservationId, batch: &mut Batch) {
        let is_lead = self.point.reservation(id).is_some_and(|known| known.request.lead == *from);
        let run = self.runs.get(id).filter(|_| is_lead);
        if let Some(TestPart::Peer { endpoint: Some(endpoint), .. }) = run.map(|run| &run.part) {
            let endpoint = endpoint.clone();
            batch.frames.push((from.clone(), Frame::Serving { id: id.clone(), endpoint }));
        }
    }

    /// Lead: handles the address of the peer's server, which is open.
    pub(super) fn on_endpoint(&mut self, from: &PointName, id: &ReservationId, endpoint: Endpoint) {
        let peer = self.point.reservation(id).and_then(|known| known.request.spec.peer.as_ref());
        if peer != Some(from) {
            return;
        }
        if let Some(TestPart::Lead { endpoint: wanted, .. }) = self.runs.get_mut(id).map(|run| &mut run.part)
            && let Some(sender) = wanted.take()
        {
            // Sending fails only if the test has been stopped.
            let _ = sender.send(endpoint);
        }
    }

    /// When to request a server's address again.
    pub(super) fn endpoint_due(&self) -> Option<Instant> {
        let due = |run: &TestRun| match &run.part {
            TestPart::Lead { endpoint: Some(_), request_at, .. } => Some(*request_at),
            _ => None,
        };
        self.runs.values().filter_map(due).min()
    }

    /// Repeats the requests for the addresses of servers that are due.
    pub(super) fn repeat_endpoint_requests(&mut self, now: Now, batch: &mut Batch) {
        for (id, run) in &mut self.runs {
            let TestPart::Lead { endpoint: Some(_), request_at, .. } = &mut run.part else { continue };
            let peer = self.point.reservation(id).and_then(|known| known.request.spec.peer.clone());
            if let (true, Some(peer)) = (*request_at <= now.steady, peer) {
                *request_at = now.steady + REQUEST_INTERVAL;
                batch.frames.push((peer, Frame::Endpoint { id: id.clone() }));
            }
        }
    }

    /// Handles the end of this point's part of a test.
    pub(super) fn on_ended(
        &mut self,
        now: Now,
        id: &ReservationId,
        number: u64,
        ended: Ended,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        if self.runs.get(id).is_none_or(|run| run.number != number) {
            return Ok(());
        }
        let Some(run) = self.runs.remove(id) else { return Ok(()) };
        let result = match ended {
            Ended::Lead(mut measured) => {
                if let TestPart::Lead { report, .. } = run.part
                    && self.kind_of(id) == Some(Kind::Transfer)
                {
                    add_report(&mut measured.figures, &mut measured.error, report.as_ref());
                }
                let result = measured.error.clone().map_or(Ok(()), Err);
                self.store_result(now, id, measured, batch)?;
                batch.has_result = true;
                result
            }
            Ended::Peer(served) => match run.part {
                TestPart::Peer { result: Some(result), .. } => served.and(result),
                _ => served,
            },
        };
        batch.add(self.point.finish(now, id, result, &self.rules));
        Ok(())
    }

    fn kind_of(&self, id: &ReservationId) -> Option<Kind> {
        self.point.reservation(id)?.request.spec.test.kind.parse().ok()
    }

    /// Lead: handles an application's report of its transfer. Ends a running transfer; replaces the stored
    /// figures of one that has ended.
    pub(super) fn report_transfer(
        &mut self,
        id: &ReservationId,
        report: TransferReport,
    ) -> Result<(), Error> {
        report.check().map_err(Error::Refused)?;
        if let Some(run) = self.runs.get_mut(id)
            && let TestPart::Lead { report: known, .. } = &mut run.part
        {
            *known = Some(report);
            run.stop.store(true, Ordering::Release);
            return Ok(());
        }
        let row = self.archive.get(&id.to_string())?;
        let row = row.filter(|row| row.from == self.config.name.0 && row.state != State::NotRun);
        let (Some(mut row), Some(known)) = (row, self.point.reservation(id).cloned()) else {
            return Err(Error::Refused(format!("the transfer {id} has not run")));
        };
        row.reason = None;
        add_report(&mut row.figures, &mut row.reason, Some(&report));
        row.state = if row.reason.is_none() { State::Finished } else { State::Failed };
        row.reason_kind = row.reason.as_ref().map(|_| "test_failed".into());
        let receivers = self.receivers(&known);
        self.archive.put_in_batch(&row, &receivers)?;
        self.outbox_due = Some(Instant::ZERO);
        Ok(())
    }

    /// Lead: stores the result before the calendar records the test's end.
    fn store_result(
        &mut self,
        now: Now,
        id: &ReservationId,
        measured: Measured,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let Some(known) = self.point.reservation(id).cloned() else { return Ok(()) };
        let mut row = self.row(&known);
        // The slot may be over, or the test cancelled: then the calendar has the reason.
        let outcome = match &known.phase {
            Phase::Ended(outcome) => outcome.reason().map(ToString::to_string),
            _ => measured.error.clone(),
        };
        row.state = if outcome.is_none() { State::Finished } else { State::Failed };
        row.reason_kind = match &known.phase {
            Phase::Ended(ended) => ended.reason().map(|reason| reason.name().into()),
            _ => outcome.as_ref().map(|_| "test_failed".into()),
        };
        row.reason = outcome;
        row.figures = measured.figures;
        row.record = measured.record.map(|path| path.display().to_string());
        let receivers = self.receivers(&known);
        self.archive.put_in_batch(&row, &receivers)?;
        self.check_alerts(now);
        for to in receivers {
            batch.frames.push((to, Frame::Result { row: Box::new(row.clone()) }));
            self.outbox_due = Some(now.steady + REPEAT);
        }
        Ok(())
    }

    /// The points to which a result is sent: the other end, the point that requested the test, and those of
    /// `results_to`.
    fn receivers(&self, known: &Reservation) -> Vec<PointName> {
        let own = &self.config.name;
        let ends = known.request.spec.peer.iter().chain([&known.request.id.origin]);
        let mut receivers: Vec<PointName> = ends.chain(&self.config.results_to).cloned().collect();
        receivers.retain(|name| name != own);
        receivers.sort();
        receivers.dedup();
        receivers
    }

    /// Handles a result from another point; its test is over.
    pub(super) fn on_result(
        &mut self,
        now: Now,
        from: &PointName,
        row: TestRow,
        batch: &mut Batch,
    ) -> Result<(), Error> {
        let Some(id) = received::id_of(&row.id) else { return Ok(()) };
        match received::checked(row, from, now, &self.config.settings) {
            Ok(row) => {
                if self.may_store(&id, &row, from)? {
                    self.archive.put_in_batch(&row, &[])?;
                    self.check_alerts(now);
                    self.end_peer_run(&id, row);
                } else {
                    tracing::info!(
                        "the result of {id} from {from} is refused: {from} does not lead this test"
                    );
                }
            }
            Err(Refusal::Invalid(text)) => {
                tracing::info!("the result of {id} from {from} is refused: {text}")
            }
            // Without a confirmation, the sender repeats the result; by then the clocks may be correct.
            Err(Refusal::Future) => {
                tracing::info!("the result of {id} from {from} is in the future; one of the clocks is wrong");
                return Ok(());
            }
        }
        batch.frames.push((from.clone(), Frame::Stored { id: id.to_string() }));
        Ok(())
    }

    /// Whether the sender of a result leads its test, as far as this point knows. If this point has neither
    /// the reservation nor a stored result, it accepts any sender, except for reservations of its own.
    fn may_store(&self, id: &ReservationId, row: &TestRow, from: &PointName) -> Result<bool, Error> {
        let own = &self.config.name;
        let stored = self.archive.get(&row.id)?;
        Ok(match (self.point.reservation(id), stored) {
            (Some(known), _) => {
                let Request { lead, spec, .. } = &known.request;
                *lead == *from && spec.test.kind == row.kind && other_name(spec) == row.to
            }
            (None, Some(stored)) => stored.from == from.0 || (stored.from != own.0 && id.origin == *from),
            (None, None) => id.origin != *own,
        })
    }

    /// Peer: the lead's result ends the test.
    fn end_peer_run(&mut self, id: &ReservationId, row: TestRow) {
        if let Some(run) = self.runs.get_mut(id)
            && let TestPart::Peer { result, .. } = &mut run.part
        {
            *result = Some(match row.state {
                State::Finished => Ok(()),
                _ => Err(row.reason.unwrap_or_else(|| "the lead gives no reason".into())),
            });
            run.stop.store(true, Ordering::Release);
        }
    }

    /// The outcome of a reservation that this point leads, if it has ended.
    fn led_and_ended(&self, id: &ReservationId) -> Option<&Outcome> {
        let known = self.point.reservation(id).filter(|known| known.role == Role::Lead)?;
        match &known.phase {
            Phase::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Stores the end of a reservation that this point leads. Stored figures are kept.
    pub(super) fn archive_end(&mut self, now: Now, id: &ReservationId) -> Result<(), Error> {
        let (Some(outcome), Some(known)) = (self.led_and_ended(id), self.point.reservation(id)) else {
            return Ok(());
        };
        let state = match outcome {
            Outcome::Finished => State::Finished,
            Outcome::NotRun(_) => State::NotRun,
            Outcome::Failed(_) => State::Failed,
        };
        let test = &known.request.spec.test;
        let reason =
            outcome.reason().map(|reason| received::plain_reason(&explain_refusal(test, reason.to_string())));
        let reason_kind = outcome.reason().map(|reason| reason.name().to_string());
        let row = match self.archive.get(&id.to_string())? {
            // The stored result has the more exact reason.
            Some(stored) if !matches!(stored.state, State::Running) => return Ok(()),
            Some(stored) => TestRow { state, reason, reason_kind, ..stored },
            None => TestRow { state, reason, reason_kind, ..self.row(known) },
        };
        // The other end gets the outcome from the reservation protocol, so only `results_to` gets the row.
        let receivers = self.config.results_to.clone();
        self.archive.put_in_batch(&row, &receivers)?;
        self.check_alerts(now);
        if !receivers.is_empty() {
            self.outbox_due = Some(now.steady);
        }
        Ok(())
    }

    /// After a start: stores ends that the archive lacks, and results of tests during which the agent was
    /// killed.
    pub(super) fn reconcile(&mut self) -> Result<(), Error> {
        let ids: Vec<ReservationId> =
            self.point.reservations().map(|known| known.request.id.clone()).collect();
        let interrupted = self.archive.running()?;
        let now = self.now();
        for id in ids {
            self.archive_end(now, &id)?;
        }
        // Tests that were running when the agent was killed. If such a test has a record, complete or
        // partial, its figures come from the record.
        let runs_dir = self.config.state.join("runs");
        for old in interrupted {
            let Some(mut row) = self.archive.get(&old.id)? else { continue };
            if row.state == State::Running {
                row.state = State::Failed;
                row.reason =
                    Some("the agent was killed during the test, and its calendar has no entry for it".into());
                row.reason_kind = Some("restarted".into());
            }
            let started_s = u64::try_from(row.start_us / 1_000_000).unwrap_or(0);
            if let Some(found) = test::find_record(&runs_dir, &row.id, started_s.saturating_sub(60)) {
                let FoundRecord { path, run, others } = found;
                test::remove_others(&others, Some(&path));
                // A diagnosis consists of several tests: a complete record of one of them is not yet the
                // conclusion of the diagnosis.
                let is_part = row.kind == Kind::Diagnose.name();
                let figures = Figures::of(&run);
                row.figures = if is_part { figures.without_verdict() } else { figures };
                row.record = Some(path.display().to_string());
                if !run.partial && !is_part {
                    row.state = State::Finished;
                    row.reason = Some("the agent was killed after the test; the record is complete".into());
                    row.reason_kind = None;
                }
            }
            let id = self.point.reservations().find(|known| known.request.id.to_string() == row.id);
            let receivers = id.map(|known| self.receivers(known)).unwrap_or_default();
            self.archive.put_in_batch(&row, &receivers)?;
        }
        self.commit_archive()
    }

    /// The row of a reservation, without a result.
    fn row(&self, known: &Reservation) -> TestRow {
        let spec = &known.request.spec;
        TestRow {
            id: known.request.id.to_string(),
            from: known.request.lead.0.clone(),
            to: other_name(spec),
            kind: spec.test.kind.clone(),
            options: options_of(&spec.test).ok().and_then(|options| options.text()),
            task: known.task.as_ref().map(|occurrence| occurrence.task.0.clone()),
            start_us: micros(known.slot.map_or(spec.earliest, |slot| slot.start).since_origin())
                .min(received::latest_start_us(self.now(), &self.config.settings)),
            duration_us: micros(spec.duration),
            state: State::Running,
            reason: None,
            reason_kind: None,
            figures: Figures::default(),
            record: None,
        }
    }
}

/// Adds the application's report to the result of a transfer. Without a report, the result is that of the
/// connections that were seen.
fn add_report(figures: &mut Figures, error: &mut Option<String>, report: Option<&TransferReport>) {
    if let Some(report) = report {
        figures.goodput_bps = report.goodput_bps().or(figures.goodput_bps);
        error.clone_from(&report.error);
    } else if figures.goodput_bps.is_none() && error.is_none() {
        *error = Some("no report, and no TCP connection with the other end was seen".into());
    }
}

fn spawn(id: &ReservationId, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let spawned = thread::Builder::new().name("test".into()).spawn(body);
    spawned.map(drop).map_err(|cause| Error::system(format!("start the test {id}"), cause))
}
