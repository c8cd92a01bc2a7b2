//! Points, their storage, their clocks and the network between them, in virtual time.
//!
//! The simulation checks with each step that no point books or runs two tests that exclude each other, that
//! the lead runs a test only after the peer has started it, that holds end in time, and that a point rebuilt
//! from its events has the state that it had.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

use datagrams::Draws;
use reservation::{
    Action, AdmitAll, Class, Event, Message, Now, Outcome, Phase, Point, PointName, ReservationId, Role,
    Settings, Spec, Step, Task, Test,
};
use units::{Instant, Time};

/// True time zero, UTC.
pub const EPOCH: Instant = Instant::from_secs(1_800_000_000);

/// Probabilities in parts per million, and times.
#[derive(Debug, Clone)]
pub struct Network {
    pub loss_ppm: u64,
    pub duplicate_ppm: u64,
    pub min_delay: Time,
    /// Delays are uniform up to this, so that messages overtake each other.
    pub max_delay: Time,
    /// Probability that the process is killed at a step, parts per million: before or after the transaction,
    /// or between two messages.
    pub crash_ppm: u64,
    pub max_downtime: Time,
}

impl Default for Network {
    fn default() -> Self {
        Network {
            loss_ppm: 0,
            duplicate_ppm: 0,
            min_delay: Time::from_millis(5),
            max_delay: Time::from_millis(100),
            crash_ppm: 0,
            max_downtime: Time::from_secs(90),
        }
    }
}

/// An event at a time.
#[derive(Debug, Clone)]
enum TimedEvent {
    Deliver { to: usize, from: PointName, message: Box<Message> },
    Wake { host: usize, generation: u64 },
    RunEnds { host: usize, id: ReservationId, run: u64 },
    Restart { host: usize },
    Request { host: usize, lead: PointName, spec: Box<Spec> },
    StepClock { host: usize, by_ns: i64 },
    Partition { side: Vec<bool> },
    Heal,
}

/// A test that runs at a host.
#[derive(Debug)]
struct Run {
    number: u64,
    class: Class,
}

/// A point with its storage and clocks.
pub struct Host {
    pub name: PointName,
    /// `None` while the process is down.
    pub point: Option<Point>,
    pub log: Vec<Event>,
    settings: Settings,
    offset_ns: i64,
    error: Time,
    /// The steady clock has another origin after each start.
    started: Instant,
    generation: u64,
    runs: BTreeMap<ReservationId, Run>,
    held_since: BTreeMap<ReservationId, Instant>,
    /// Time in which exclusive tests ran.
    pub exclusive_time: Time,
    pub crashes: u64,
}

/// Counts of all hosts.
#[derive(Debug, Default, Clone)]
pub struct Counts {
    pub messages: u64,
    pub steps: u64,
    pub crashes: u64,
    pub runs: u64,
    pub longest_hold: Time,
}

pub struct Simulation {
    pub now: Instant,
    pub hosts: Vec<Host>,
    by_name: BTreeMap<PointName, usize>,
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    happenings: BTreeMap<u64, TimedEvent>,
    next: u64,
    pub draws: Draws,
    pub network: Network,
    partition: Option<Vec<bool>>,
    /// Tests that the peer has started, by lead's reservation and revision.
    started_by_peer: BTreeMap<(usize, ReservationId), u32>,
    pub counts: Counts,
    /// A host's whole calendar is verified once in this number of its steps.
    pub verify_every: u64,
}

pub fn name(number: usize) -> PointName {
    PointName(format!("p{number:04}"))
}

impl Simulation {
    pub fn new(count: usize, seed: u64, network: Network, settings: &Settings) -> Simulation {
        let mut draws = Draws::new(seed, 1);
        let hosts: Vec<Host> = (0..count)
            .map(|number| {
                let error = Time::from_millis(1 + draws.below(30));
                let offset_ns = draws.below(error.as_nanos()) as i64 - error.as_nanos() as i64 / 2;
                Host {
                    name: name(number),
                    point: Some(Point::new(name(number), settings.clone())),
                    log: Vec::new(),
                    settings: settings.clone(),
                    offset_ns,
                    error,
                    started: Instant::ZERO,
                    generation: 0,
                    runs: BTreeMap::new(),
                    held_since: BTreeMap::new(),
                    exclusive_time: Time::ZERO,
                    crashes: 0,
                }
            })
            .collect();
        Simulation {
            now: Instant::from_secs(10_000),
            by_name: hosts.iter().enumerate().map(|(number, host)| (host.name.clone(), number)).collect(),
            hosts,
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            next: 0,
            draws,
            network,
            partition: None,
            started_by_peer: BTreeMap::new(),
            counts: Counts::default(),
            verify_every: 1,
        }
    }

    fn at(&mut self, time: Instant, what: TimedEvent) {
        self.next += 1;
        self.happenings.insert(self.next, what);
        self.queue.push(Reverse((time, self.next)));
    }

    /// The clocks of a host.
    pub fn clocks(&self, host: usize) -> Now {
        let host = &self.hosts[host];
        let utc = utc_at(self.now);
        let utc = Instant::from_nanos(utc.as_nanos().wrapping_add_signed(host.offset_ns));
        Now { steady: Instant::ZERO + self.now.since(host.started), utc, error: host.error }
    }

    /// A user of a host requests a test at a time.
    pub fn request_at(&mut self, time: Instant, host: usize, lead: usize, spec: Spec) {
        let lead = self.hosts[lead].name.clone();
        self.at(time, TimedEvent::Request { host, lead, spec: Box::new(spec) });
    }

    pub fn step_clock_at(&mut self, time: Instant, host: usize, by_ns: i64) {
        self.at(time, TimedEvent::StepClock { host, by_ns });
    }

    pub fn partition_at(&mut self, from: Instant, until: Instant, side: Vec<bool>) {
        self.at(from, TimedEvent::Partition { side });
        self.at(until, TimedEvent::Heal);
    }

    pub fn add_task(&mut self, host: usize, task: Task) {
        let now = self.clocks(host);
        let Some(point) = self.hosts[host].point.as_mut() else { return };
        let step = point.set_task(now, task, &AdmitAll);
        self.carry_out(host, step);
    }

    pub fn cancel(&mut self, host: usize, id: &ReservationId) {
        let now = self.clocks(host);
        let Some(point) = self.hosts[host].point.as_mut() else { return };
        let step = point.cancel(now, id, "enough", &AdmitAll);
        self.carry_out(host, step);
    }

    /// Kills a process at once.
    pub fn kill(&mut self, host: usize) {
        let downtime = Time::from_nanos(self.draws.below(self.network.max_downtime.as_nanos()) + 1);
        let state = &mut self.hosts[host];
        state.point = None;
        state.runs.clear();
        state.held_since.clear();
        state.crashes += 1;
        self.counts.crashes += 1;
        self.at(self.now + downtime, TimedEvent::Restart { host });
    }

    /// Runs until a time.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(Reverse((time, _))) = self.queue.peek()
            && *time <= end
        {
            let Some(Reverse((time, number))) = self.queue.pop() else { break };
            self.now = time;
            if let Some(what) = self.happenings.remove(&number) {
                self.happen(what);
            }
        }
        self.now = end;
    }

    fn happen(&mut self, what: TimedEvent) {
        match what {
            TimedEvent::Deliver { to, from, message } => {
                if self.is_separated(to, &from) {
                    return;
                }
                let now = self.clocks(to);
                let Some(point) = self.hosts[to].point.as_mut() else { return };
                let step = point.handle_message(now, &from, *message, &AdmitAll);
                self.carry_out(to, step);
            }
            TimedEvent::Wake { host, generation } => {
                if self.hosts[host].generation != generation {
                    return;
                }
                let now = self.clocks(host);
                let Some(point) = self.hosts[host].point.as_mut() else { return };
                let step = point.handle_timeout(now, &AdmitAll);
                self.carry_out(host, step);
            }
            TimedEvent::RunEnds { host, id, run } => {
                if self.hosts[host].runs.get(&id).is_none_or(|running| running.number != run) {
                    return;
                }
                self.hosts[host].runs.remove(&id);
                let now = self.clocks(host);
                let Some(point) = self.hosts[host].point.as_mut() else { return };
                let step = point.finish(now, &id, Ok(()), &AdmitAll);
                self.carry_out(host, step);
            }
            TimedEvent::Restart { host } => {
                if self.hosts[host].point.is_some() {
                    return;
                }
                let state = &mut self.hosts[host];
                // An origin that no other start had.
                state.started = self.now.earlier_by(Time::from_secs(1 + state.crashes));
                let recovered = Point::recover(state.name.clone(), state.settings.clone(), &state.log);
                let mut point = recovered.expect("the events are consistent");
                if state.crashes.is_multiple_of(2) {
                    state.log = point.state().snapshot();
                    let restored = Point::recover(state.name.clone(), state.settings.clone(), &state.log);
                    let restored = restored.expect("a snapshot is consistent");
                    assert!(restored.state() == point.state(), "{}", state.name);
                    point = restored;
                }
                let now = self.clocks(host);
                let step = point.restart(now, &AdmitAll);
                self.hosts[host].point = Some(point);
                self.carry_out(host, step);
            }
            TimedEvent::Request { host, lead, spec } => {
                let now = self.clocks(host);
                let Some(point) = self.hosts[host].point.as_mut() else { return };
                let (_, step) = if lead == *point.name() {
                    point.reserve(now, *spec, &AdmitAll)
                } else {
                    point.request(now, lead, *spec, &AdmitAll)
                };
                self.carry_out(host, step);
            }
            TimedEvent::StepClock { host, by_ns } => {
                self.hosts[host].offset_ns += by_ns;
                // The kernel wakes programs that wait for a time of a clock that is stepped.
                let now = self.clocks(host);
                let Some(point) = self.hosts[host].point.as_mut() else { return };
                let step = point.handle_timeout(now, &AdmitAll);
                self.carry_out(host, step);
            }
            TimedEvent::Partition { side } => self.partition = Some(side),
            TimedEvent::Heal => self.partition = None,
        }
    }

    fn is_separated(&self, to: usize, from: &PointName) -> bool {
        let from = self.by_name[from];
        self.partition.as_ref().is_some_and(|side| side[to] != side[from])
    }

    fn chance(&mut self, ppm: u64) -> bool {
        ppm > 0 && self.draws.below(1_000_000) < ppm
    }

    /// Executes a step as a program must, unless the program is killed during it.
    fn carry_out(&mut self, host: usize, step: Step) {
        self.counts.steps += 1;
        let is_killed = self.chance(self.network.crash_ppm);
        let all = step.messages.len();
        let killed_after = is_killed.then(|| self.draws.below(all as u64 + 2));
        if killed_after == Some(0) {
            // Before the transaction.
            return self.kill(host);
        }
        self.commit(host, step.events);
        let sent = killed_after.map_or(all, |after| after as usize - 1);
        for (to, message) in step.messages.into_iter().take(sent) {
            self.transmit(host, &to, message);
        }
        if is_killed {
            return self.kill(host);
        }
        for action in step.actions {
            self.act(host, action);
        }
        self.set_wake(host);
    }

    fn commit(&mut self, host: usize, events: Vec<Event>) {
        let now = self.now;
        let state = &mut self.hosts[host];
        let Some(point) = &state.point else { return };
        for event in &events {
            let Some(id) = event.reservation() else { continue };
            let is_held = matches!(event, Event::Held { .. } | Event::Confirming { .. });
            if let Some(since) = state.held_since.remove(id) {
                let length = now.since(since);
                self.counts.longest_hold = self.counts.longest_hold.max(length);
                // Timers fire up to 1 ms late.
                assert!(
                    length <= state.settings.hold + Time::from_millis(2),
                    "{id} was held for {length} at {}",
                    state.name
                );
            }
            if let (Event::Running { id }, Some(known)) = (event, point.reservation(id))
                && known.role == Role::Peer
            {
                let lead = self.by_name[&known.request.lead];
                self.started_by_peer.insert((lead, id.clone()), known.revision);
            }
            if is_held {
                state.held_since.insert(id.clone(), now);
            }
        }
        let has_booked =
            events.iter().any(|event| matches!(event, Event::Confirming { .. } | Event::Booked { .. }));
        state.log.extend(events);
        if has_booked && self.counts.steps.is_multiple_of(self.verify_every) {
            point.calendar().verify().expect("no double booking");
        }
        if self.counts.steps.is_multiple_of(self.verify_every * 50) {
            let recovered = Point::recover(state.name.clone(), state.settings.clone(), &state.log);
            assert!(recovered.expect("the events are consistent").state() == point.state(), "{}", state.name);
        }
    }

    fn transmit(&mut self, from: usize, to: &PointName, message: Message) {
        self.counts.messages += 1;
        let Some(&target) = self.by_name.get(to) else { return };
        let from = self.hosts[from].name.clone();
        let copies = 1 + u64::from(self.chance(self.network.duplicate_ppm));
        for _ in 0..copies {
            if self.chance(self.network.loss_ppm) {
                continue;
            }
            let jitter = self.network.max_delay.saturating_sub(self.network.min_delay);
            let delay = self.network.min_delay + Time::from_nanos(self.draws.below(jitter.as_nanos() + 1));
            let message = Box::new(message.clone());
            self.at(self.now + delay, TimedEvent::Deliver { to: target, from: from.clone(), message });
        }
    }

    fn act(&mut self, host: usize, action: Action) {
        let id = match action {
            Action::Stop(id) => {
                self.hosts[host].runs.remove(&id);
                return;
            }
            Action::Run(id) => id,
        };
        let state = &self.hosts[host];
        let reservation = state.point.as_ref().and_then(|point| point.reservation(&id));
        let reservation = reservation.expect("a test that runs is known").clone();
        let spec = &reservation.request.spec;
        for (other, run) in &state.runs {
            assert!(!run.class.excludes(spec.class), "{other} and {id} run at once at {}", state.name);
        }
        match (reservation.role, &spec.peer) {
            (Role::Peer, _) => {}
            (Role::Lead, Some(_)) => {
                let started = self.started_by_peer.get(&(host, id.clone()));
                assert_eq!(started, Some(&reservation.revision), "{id} was not started by its peer");
                self.counts.runs += 1;
            }
            _ => self.counts.runs += 1,
        }
        self.next += 1;
        let run = self.next;
        let state = &mut self.hosts[host];
        state.runs.insert(id.clone(), Run { number: run, class: spec.class });
        if spec.class == Class::Exclusive {
            state.exclusive_time += spec.duration;
        }
        self.at(self.now + spec.duration, TimedEvent::RunEnds { host, id, run });
    }

    fn set_wake(&mut self, host: usize) {
        let now = self.clocks(host);
        let state = &mut self.hosts[host];
        state.generation += 1;
        let generation = state.generation;
        let Some(due) = state.point.as_ref().and_then(|point| point.next_timeout(now)) else { return };
        let wait = due.saturating_since(now.steady);
        // Timers fire a little late.
        let late = Time::from_nanos(1 + self.draws.below(1_000_000));
        self.at(self.now + wait + late, TimedEvent::Wake { host, generation });
    }

    /// How each requested reservation ended at its lead, or at the requester.
    pub fn outcomes(&self) -> BTreeMap<ReservationId, Outcome> {
        let mut outcomes = BTreeMap::new();
        for host in &self.hosts {
            let Some(point) = &host.point else { continue };
            for reservation in point.reservations().filter(|known| known.role == Role::Lead) {
                if let Phase::Ended(outcome) = &reservation.phase {
                    outcomes.insert(reservation.request.id.clone(), outcome.clone());
                }
            }
        }
        outcomes
    }

    /// Checks that nothing remains: every reservation has ended everywhere.
    pub fn assert_all_ended(&self) {
        for host in &self.hosts {
            let point = host.point.as_ref().expect("all points run at the end");
            assert_eq!(point.calendar().slots().next(), None, "the calendar of {} is empty", host.name);
            let open = point.reservations().find(|known| !known.has_ended() || known.must_notify);
            assert_eq!(open, None, "at {}", host.name);
            assert!(host.runs.is_empty());
        }
    }
}

/// UTC at an instant of a simulation.
pub fn utc_at(now: Instant) -> Instant {
    EPOCH + now.since_origin()
}

/// An exclusive throughput test of `seconds`.
pub fn throughput(peer: usize, earliest: Instant, window_s: u64, seconds: u64) -> Spec {
    Spec {
        peer: Some(name(peer)),
        user: None,
        test: Test { kind: "throughput".into(), ..Test::default() },
        class: Class::Exclusive,
        priority: 0,
        duration: Time::from_secs(seconds),
        earliest: utc_at(earliest),
        latest: utc_at(earliest) + Time::from_secs(window_s),
    }
}
