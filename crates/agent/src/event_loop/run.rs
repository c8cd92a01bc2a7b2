//! Runs the loop: handles events in batches, and executes their outcome.

use std::{
    collections::BTreeMap,
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reservation::{Action, Event, Now, Phase, Point, PointName, ReservationId, TaskName};
use tokio::{sync::mpsc, time::timeout};
use units::{Instant, Time};

use super::{
    alertmanager_state::AlertmanagerState,
    batch::Batch,
    maintenance_schedule::MaintenanceSchedule,
    reports::ok,
    state::{EventLoop, REPEAT, unix_us},
};
use crate::{
    CalendarFile, Config, Error, Members, Moment, ReloadHandle, Scope, StepObserver, StopHandle,
    archive::{Archive, Forwarder},
    clock::RemovalGuard,
    control_server,
    frame::Frame,
    inbound::Inbound,
    metrics::MetricsPusher,
    network::Network,
    received,
    roles::SharedRoles,
    rules::Rules,
};

/// Maximum number of events that are handled as one batch.
const MAX_BATCH: usize = 256;
/// Maximum interval between two readings of the clock while reservations are open. Steps are reported
/// earlier, by the kernel ([`crate::clock_steps`]).
const CLOCK_CHECK: Time = Time::from_secs(5);
/// The longest sleep.
const MAX_SLEEP: Time = Time::from_secs(3600);
/// Maximum number of unconfirmed results that are sent to a point at once: fewer than the frames that its
/// connection holds.
const MAX_RESULTS_AT_ONCE: u32 = 1000;
/// How long the agent waits for its tests to end when it is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

impl EventLoop {
    /// Opens the calendar and the archive, and resumes from their contents. No other process may write them.
    pub fn open(
        config: Config,
        file: CalendarFile,
        point: Point,
        members: Members,
        network: Arc<Network>,
        inbox: mpsc::Sender<Inbound>,
        observer: Arc<dyn StepObserver>,
    ) -> Result<EventLoop, Error> {
        let path = Archive::path(&config.state);
        let archive = Archive::open(&path, config.postgres.as_ref().map(|_| &config.name))?;
        let now = config.clock.now();
        let removal_guard = RemovalGuard::new(now, archive.newest_start(unix_us(now))?);
        let may_remove = Arc::new(AtomicBool::new(false));
        let forwarder = config.postgres.as_ref().map(|address| {
            let inbox = inbox.clone();
            let report = move |number| inbox.blocking_send(Inbound::Forwarded { number }).is_ok();
            Forwarder::start(&path, address, config.retention, Arc::clone(&may_remove), report)
        });
        let forwarder = forwarder.transpose()?;
        let mut rules = Rules::new(config.limits.clone());
        rules.set_members(&members);
        let started = now.steady;
        let alertmanager = config.alerts.as_ref().and_then(|alerts| alerts.alertmanager.clone());
        let mut agent = EventLoop {
            config,
            file,
            point,
            archive,
            forwarder,
            members,
            rules,
            roles: SharedRoles::default(),
            network,
            inbox,
            runs: BTreeMap::new(),
            next_run: 1,
            outbox_due: Some(started),
            maintenance: MaintenanceSchedule::new(started),
            alertmanager: AlertmanagerState::new(alertmanager, started),
            pusher: None,
            removal_guard,
            may_remove,
            requested_calendars: Vec::new(),
            started,
            observer,
        };
        agent.apply_roles();
        agent.resume()?;
        Ok(agent)
    }

    /// Resumes after the previous run of the agent, however it ended.
    fn resume(&mut self) -> Result<(), Error> {
        let now = self.now();
        self.observe_clock(now);
        let mut batch = Batch::default();
        if self.file.is_empty() {
            let first = self.first_number(now)?;
            batch.add(self.point.begin_numbers(now, first, &self.rules));
        }
        batch.add(self.point.restart(now, &self.rules));
        self.set_tasks(now, &mut batch);
        if self.is_authority() {
            self.update_own_address(&mut batch)?;
            self.announce(now, &mut batch);
            self.publish_announcements(&mut batch)?;
        } else {
            let announcement = self.announcement(now);
            self.send_hello(announcement, &mut batch);
        }
        self.commit(now, batch)?;
        self.reconcile()
    }

    /// The number of the first reservation of an empty calendar. A point of this name may have had another
    /// calendar: other points know its reservations for a week, and all archives have their results.
    fn first_number(&self, now: Now) -> Result<u64, Error> {
        let archived = self.archive.highest_number(&self.config.name)?;
        // Seconds since 1970: no point reserves more than one test a second for long.
        let by_time = if self.members.members.len() > 1 { now.utc.as_nanos() / 1_000_000_000 } else { 0 };
        Ok(by_time.max(archived) + 1)
    }

    /// Replaces the recurring tests by those of the configuration and the members. Occurrences of a changed
    /// test that have not run are cancelled; one that runs continues.
    pub(super) fn set_tasks(&mut self, now: Now, batch: &mut Batch) {
        let wanted = self.config.tasks(&self.members);
        let known: Vec<TaskName> = self.point.state().tasks().map(|(task, _)| task.name.clone()).collect();
        let is_unchanged = |name: &TaskName| {
            let configured = wanted.iter().find(|task| task.name == *name);
            configured == self.point.state().tasks().map(|(task, _)| task).find(|task| task.name == *name)
        };
        let changed: Vec<TaskName> = known.iter().filter(|name| !is_unchanged(name)).cloned().collect();
        let new = wanted.iter().filter(|task| changed.contains(&task.name) || !known.contains(&task.name));
        let new: Vec<_> = new.cloned().collect();
        for name in changed {
            batch.add(self.point.remove_task(now, &name, &self.rules));
            let its_reservations = self.point.reservations().filter(|known| {
                !matches!(known.phase, Phase::Running | Phase::Ended(_))
                    && known.task.as_ref().is_some_and(|occurrence| occurrence.task == name)
            });
            let ids: Vec<ReservationId> = its_reservations.map(|known| known.request.id.clone()).collect();
            for id in ids {
                let text = format!("the recurring test {name} was changed");
                batch.add(self.point.cancel(now, &id, &text, &self.rules));
            }
        }
        for task in new {
            batch.add(self.point.set_task(now, task, &self.rules));
        }
    }

    /// Handles events until the agent is stopped.
    pub async fn run(
        &mut self,
        inbound: &mut mpsc::Receiver<Inbound>,
        stop: &StopHandle,
        reload: &ReloadHandle,
    ) -> Result<(), Error> {
        self.start_pusher();
        loop {
            let sleep = self.sleep().to_duration();
            let first = tokio::select! {
                () = stop.stopped() => break,
                config = reload.next() => {
                    self.reload(config)?;
                    continue;
                }
                arrived = timeout(sleep, inbound.recv()) => arrived.ok().flatten(),
            };
            self.handle_all(first, inbound)?;
        }
        self.end_tests(inbound).await
    }

    /// Starts the push of metrics that the configuration has; an earlier one ends.
    fn start_pusher(&mut self) {
        drop(self.pusher.take());
        let Config { metrics, state, postgres, .. } = &self.config;
        self.pusher = metrics.clone().and_then(|push| MetricsPusher::start(push, state, postgres.clone()));
    }

    /// Applies the tests, their servers, the limits, the roles and the push of metrics of a new
    /// configuration.
    fn reload(&mut self, config: Config) -> Result<(), Error> {
        if config.name != self.config.name {
            let (own, other) = (&self.config.name, &config.name);
            tracing::warn!("the new configuration is of the point {other}, not of {own}: it is not applied");
            return Ok(());
        }
        let keys = self.config.keys_for_restart(&config);
        if !keys.is_empty() {
            tracing::warn!("these keys take effect when the agent is started again: {}", keys.join(", "));
        }
        let now = self.now();
        self.observe_clock(now);
        let has_other_push = self.config.metrics != config.metrics;
        self.config.reload_from(config);
        if has_other_push {
            self.start_pusher();
        }
        self.rules.set_limits(self.config.limits.clone());
        self.apply_roles();
        let mode = control_server::mode(&self.config.roles, &self.config.name);
        if let Err(error) = control_server::set_mode(&self.config.state, mode) {
            tracing::warn!("{error}");
        }
        let mut batch = Batch::default();
        self.set_tasks(now, &mut batch);
        // The entry in the directory has the limits.
        self.announce(now, &mut batch);
        self.publish_announcements(&mut batch)?;
        tracing::info!("the tests, limits, roles and [metrics] of the new configuration are applied");
        self.commit(now, batch)
    }

    /// Stops all tests and waits up to a timeout for their results.
    async fn end_tests(&mut self, inbound: &mut mpsc::Receiver<Inbound>) -> Result<(), Error> {
        for run in self.runs.values() {
            run.stop.store(true, Ordering::Release);
        }
        let all = async {
            while !self.runs.is_empty() {
                let Some(arrived) = inbound.recv().await else { break };
                if matches!(arrived, Inbound::Ended { .. }) {
                    self.handle_all(Some(arrived), inbound)?;
                }
            }
            // Other tasks report that tests have ended.
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        };
        timeout(STOP_TIMEOUT, all).await.unwrap_or(Ok(()))
    }

    fn handle_all(
        &mut self,
        first: Option<Inbound>,
        inbound: &mut mpsc::Receiver<Inbound>,
    ) -> Result<(), Error> {
        let now = self.now();
        self.observe_clock(now);
        let mut batch = Batch::default();
        let others = iter::from_fn(|| inbound.try_recv().ok());
        for arrived in first.into_iter().chain(others).take(MAX_BATCH) {
            self.handle(now, arrived, &mut batch)?;
        }
        if self.point.next_timeout(now).is_some_and(|due| due <= now.steady) {
            batch.add(self.point.handle_timeout(now, &self.rules));
        }
        self.repeat(now, &mut batch)?;
        self.run_maintenance(now, &mut batch)?;
        self.run_alertmanager(now)?;
        self.publish_announcements(&mut batch)?;
        self.commit(now, batch)
    }

    /// Reads the clock. Updates whether retention may remove results, and the latest start that a test can
    /// have (later ones come from a wrong clock).
    fn observe_clock(&mut self, now: Now) {
        self.removal_guard.observe(now);
        let may_remove = self.removal_guard.permits(now) && self.config.clock.is_synchronized();
        self.may_remove.store(may_remove, Ordering::Release);
        self.archive.set_latest_start(received::latest_start_us(now, &self.config.settings));
    }

    /// Time until something is due.
    fn sleep(&self) -> Time {
        let now = self.now();
        let check = now.steady + if self.point.state().open_count() > 0 { CLOCK_CHECK } else { MAX_SLEEP };
        let due = self.point.next_timeout(now).into_iter().chain(self.outbox_due).chain(self.endpoint_due());
        let due = due.chain([self.maintenance.due()]).chain(self.alertmanager.due());
        due.fold(check, Instant::min).saturating_since(now.steady)
    }

    fn handle(&mut self, now: Now, arrived: Inbound, batch: &mut Batch) -> Result<(), Error> {
        match arrived {
            Inbound::Connected { name, ip } => self.on_connected(now, &name, ip, batch),
            Inbound::Frame { from, frame } => self.on_frame(now, &from, frame, batch)?,
            Inbound::Join { invitation, ip, frame, reply } => {
                let response = self.on_join(&invitation, ip, frame, batch)?;
                batch.joined.push((reply, response));
            }
            Inbound::Control { user, request, reply } => {
                self.on_request(now, &user, request, reply, batch)?
            }
            // The loop has read the clock.
            Inbound::ClockStepped => {}
            Inbound::Serving { id, run, endpoint } => self.on_serving(&id, run, endpoint, batch),
            Inbound::Forwarded { number } => self.archive.forwarded(number)?,
            Inbound::Alerted { change, sent } => self.on_alerted(now, change, sent)?,
            Inbound::AlertmanagerReplied { error } => self.on_alertmanager_replied(error),
            Inbound::Ended { id, run, ended } => self.on_ended(now, &id, run, *ended, batch)?,
        }
        Ok(())
    }

    fn on_frame(&mut self, now: Now, from: &PointName, frame: Frame, batch: &mut Batch) -> Result<(), Error> {
        match frame {
            Frame::Message { message } => {
                batch.add(self.point.handle_message(now, from, *message, &self.rules));
            }
            Frame::Endpoint { id } => self.on_endpoint_wanted(from, &id, batch),
            Frame::Serving { id, endpoint } => self.on_endpoint(from, &id, endpoint),
            Frame::Result { row } => self.on_result(now, from, *row, batch)?,
            Frame::Stored { id } => self.archive.sent(&id, from)?,
            Frame::Hello { members, announcement } => {
                self.on_hello(from, members, announcement.map(|announcement| *announcement), batch);
            }
            Frame::Members { members } => self.on_members(from, members, batch)?,
            Frame::CalendarWanted { seconds } => {
                let reply = match self.config.roles.grant_of_point(from).check(&[Scope::Read]) {
                    Ok(()) => Frame::Calendar { report: Box::new(self.calendar(now, seconds)) },
                    Err(text) => Frame::Refused { text },
                };
                batch.frames.push((from.clone(), reply));
            }
            Frame::Calendar { report } => self.on_calendar(from, *report, batch),
            // A request for a calendar; joining has its own connection.
            Frame::Refused { text } => self.on_calendar_refused(from, &text, batch),
            Frame::Renew { public_key } => self.on_renew(from, &public_key, batch)?,
            Frame::Renewed { certificate } => self.on_renewed(from, &certificate)?,
            // Only connections authenticated by an invitation exchange these.
            Frame::Join { .. } | Frame::Joined { .. } => {}
        }
        Ok(())
    }

    /// Repeats messages without reply: results, and requests for the address of a test's server.
    fn repeat(&mut self, now: Now, batch: &mut Batch) -> Result<(), Error> {
        self.repeat_endpoint_requests(now, batch);
        if self.outbox_due.is_none_or(|due| due > now.steady) {
            return Ok(());
        }
        self.outbox_due = None;
        for to in self.archive.receivers()? {
            if self.members.address(&to).is_none() {
                self.archive.forget_receiver(&to)?;
                continue;
            }
            self.outbox_due = Some(now.steady + REPEAT);
            // Without a connection only one result is sent, which opens the connection. The others follow
            // when it is open.
            let limit = if self.network.peer(&to).is_connected { MAX_RESULTS_AT_ONCE } else { 1 };
            for id in self.archive.unsent(&to, limit)? {
                match self.archive.get(&id)? {
                    Some(row) => batch.frames.push((to.clone(), Frame::Result { row: Box::new(row) })),
                    None => self.archive.sent(&id, &to)?,
                }
            }
        }
        Ok(())
    }

    /// Executes a batch; durable writes come first, and results before the calendar records the tests' ends.
    fn commit(&mut self, now: Now, batch: Batch) -> Result<(), Error> {
        let Batch { events, messages, actions, frames, replies, joined, explanations, has_result, .. } =
            batch;
        let observer = Arc::clone(&self.observer);
        self.commit_archive()?;
        if has_result {
            observer.at(Moment::ResultStored, &[]);
        }
        observer.at(Moment::Before, &events);
        self.file.write(&events)?;
        observer.at(Moment::Written, &events);
        for event in &events {
            if let Event::Ended { id, outcome, .. } = event {
                tracing::info!("{id}: {outcome}");
                self.archive_end(now, id)?;
            }
        }
        self.commit_archive()?;
        for (to, message) in messages {
            self.network.send(&to, Frame::Message { message: Box::new(message) });
        }
        for (to, frame) in frames {
            self.network.send(&to, frame);
        }
        observer.at(Moment::Sent, &events);
        for action in actions {
            match action {
                Action::Run(id) => self.start_test(now, &id)?,
                Action::Stop(id) => self.stop_test(&id),
            }
        }
        observer.at(Moment::Started, &events);
        for (reply, value) in replies {
            // The user's connection is closed.
            let _ = reply.send(value);
        }
        for (reply, frame) in joined {
            let _ = reply.send(frame);
        }
        for (reply, id) in explanations {
            let explained = self.explain(&id)?;
            let _ = reply.send(ok(&explained));
        }
        self.file.compact(self.point.state())?;
        Ok(())
    }
}
