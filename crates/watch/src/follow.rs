//! Follows the connections that a filter means: finds them, looks at them, keeps what the last look at closed ones showed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use crate::{
    Clocks, Cookie, Diag, Error, Event, EventKind, Filter, Kernel, Look, Place, Process, Processes, Sample,
    State, Tally,
    bpf::{Pass, RawSample},
    live::Live,
    monotonic_ns,
};

/// With eBPF, which tells of connections that come and go, sock_diag is asked so often for what else there is to tell, and in case
/// that one was missed; without it, at each look.
const SEARCH_NS: u64 = 500_000_000;
/// And when the kernel has told of one, but no more often than this: a search costs a millisecond or two.
const NEWS_NS: u64 = 20_000_000;
/// /proc is searched for owners of sockets no more often.
const OWNERS_NS: u64 = 500_000_000;
/// Of closed connections so many are kept, the latest.
const CLOSED_MOST: usize = 10_000;
/// Events of connections that are not known yet are kept so long.
const UNDECIDED_NS: u64 = 2_000_000_000;

/// A connection that is followed.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The name of its namespace; empty for this process's own.
    pub place: String,
    /// Its owner, where that may be known.
    pub process: Option<Process>,
    /// The latest look.
    pub look: Look,
    /// When it was, CLOCK_MONOTONIC, ns.
    pub looked_ns: u64,
    /// When the connection was first seen.
    pub first_ns: u64,
    /// When it was found gone.
    pub closed_ns: Option<u64>,
    /// Application bytes a second, in bits: sent and acknowledged, and received, between the two latest looks.
    pub rates_bps: Option<(f64, f64)>,
    /// What was counted since it is followed.
    pub tally: Tally,
    /// What the times of the latest look are made of, where eBPF looks and the connection lives.
    pub clocks: Option<Clocks>,
}

/// How connections are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracing {
    /// By sock_diag alone.
    Never,
    /// By eBPF where that is possible.
    IfPossible,
    /// With each event.
    Events,
    /// With each event, ACK and round trip.
    PerAck,
}

/// The connections of some namespaces that a filter means.
#[derive(Debug)]
pub struct Watcher {
    places: Vec<(Place, Diag)>,
    filter: Filter,
    kernel: Option<Kernel>,
    /// Why there is no eBPF.
    without: Option<String>,
    per_event: bool,
    processes: Processes,
    owners_ns: Option<u64>,
    /// Sockets whose owners /proc did not tell, by inode; numbers are not used again.
    ownerless: HashSet<u32>,
    searched_ns: Option<u64>,
    /// Whether the kernel has told of a connection that is not known.
    news: bool,
    known: HashMap<Cookie, bool>,
    live: Live,
    gone: BTreeMap<Cookie, Followed>,
    /// Those that are gone, in the order that they went.
    gone_order: VecDeque<Cookie>,
    events: Vec<Event>,
    undecided: Vec<Event>,
    looks: Vec<Look>,
}

impl Watcher {
    /// Begins to watch these namespaces.
    ///
    /// # Errors
    /// Where a namespace may not be entered, or events are wanted and impossible ([`Error::Missing`]).
    pub fn new(places: Vec<Place>, filter: Filter, tracing: Tracing) -> Result<Watcher, Error> {
        let (kernel, without) = match tracing {
            Tracing::Never => (None, None),
            Tracing::IfPossible => match Kernel::load(&places, false, false) {
                Ok(kernel) => (Some(kernel), None),
                Err(error) => (None, Some(error.to_string())),
            },
            Tracing::Events => (Some(Kernel::load(&places, true, false)?), None),
            Tracing::PerAck => (Some(Kernel::load(&places, true, true)?), None),
        };
        let open = |place: Place| {
            let diag = place.run(Diag::open)?;
            Ok((place, diag))
        };
        Ok(Watcher {
            places: places.into_iter().map(open).collect::<Result<_, Error>>()?,
            filter,
            kernel,
            without,
            per_event: matches!(tracing, Tracing::Events | Tracing::PerAck),
            processes: Processes::default(),
            owners_ns: None,
            ownerless: HashSet::new(),
            searched_ns: None,
            news: false,
            known: HashMap::new(),
            live: Live::default(),
            gone: BTreeMap::new(),
            gone_order: VecDeque::new(),
            events: Vec::new(),
            undecided: Vec::new(),
            looks: Vec::new(),
        })
    }

    /// A namespace that is watched, by the name that its connections have.
    pub fn place(&self, name: &str) -> Option<&Place> {
        self.places.iter().map(|(place, _)| place).find(|place| place.name() == name)
    }

    /// Why eBPF is not used though it was wanted where possible.
    pub fn without_kernel(&self) -> Option<&str> {
        self.without.as_deref()
    }

    /// Whether looks are eBPF's.
    pub fn has_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Whether each round trip is told.
    pub fn tells_round_trips(&self) -> bool {
        self.kernel.as_ref().is_some_and(Kernel::tells_round_trips)
    }

    /// Events that the kernel could not tell, because too many came at once.
    pub fn lost_events(&self) -> u64 {
        self.kernel.as_ref().map_or(0, Kernel::lost_events)
    }

    /// The connections that are followed, and then those that were and are closed.
    pub fn connections(&self) -> impl Iterator<Item = &Followed> {
        self.live.iter().chain(self.gone.values())
    }

    /// The connection of this cookie.
    pub fn connection(&self, cookie: Cookie) -> Option<&Followed> {
        self.live.get(cookie).or_else(|| self.gone.get(&cookie))
    }

    fn connection_mut(&mut self, cookie: Cookie) -> Option<&mut Followed> {
        self.live.get_mut(cookie).or_else(|| self.gone.get_mut(&cookie))
    }

    /// The events since this was asked last, in order of time.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Looks at all connections.
    ///
    /// # Errors
    /// Where the kernel does not answer.
    pub fn look(&mut self) -> Result<(), Error> {
        // What has happened comes before what is seen.
        self.wait(Duration::ZERO)?;
        let now = monotonic_ns();
        let patience = match (&self.kernel, self.news) {
            (None, _) => 0,
            (Some(_), true) => NEWS_NS,
            (Some(_), false) => SEARCH_NS,
        };
        if self.searched_ns.is_none_or(|before| now - before >= patience) {
            self.search(now)?;
        }
        if let Some(kernel) = &mut self.kernel {
            let live = &mut self.live;
            let pass = kernel.look(live.slots(), |sample| {
                if let Some(followed) = live.at_mut(sample.slot()) {
                    followed.sample(sample);
                }
            })?;
            live.iter_mut().filter(|followed| followed.looked_ns <= now).for_each(|it| it.stay(pass));
        }
        Ok(())
    }

    /// Waits for events, at most so long. Without eBPF it only sleeps.
    ///
    /// # Errors
    /// Where the kernel has no memory for a decision.
    pub fn wait(&mut self, patience: Duration) -> Result<(), Error> {
        let Some(kernel) = &self.kernel else {
            if !patience.is_zero() {
                std::thread::sleep(patience);
            }
            return Ok(());
        };
        let mut fresh = Vec::new();
        let mut last_looks = Vec::new();
        kernel.events(patience, &mut fresh, &mut last_looks);
        for sample in &last_looks {
            if let Some(followed) = self.connection_mut(sample.cookie) {
                followed.last(sample);
            }
            self.close(sample.cookie, sample.time_ns);
        }
        if fresh.is_empty() {
            return Ok(());
        }
        // Each processor has its own place in the ring.
        fresh.sort_by_key(|event| event.time_ns);
        let now = monotonic_ns();
        self.news |= fresh.iter().any(|event| self.is_unknown(event.cookie) && is_news(event));
        if self.news && self.searched_ns.is_none_or(|before| now - before >= NEWS_NS) {
            self.search(now)?;
        }
        for event in fresh {
            self.take(event);
        }
        Ok(())
    }

    /// Whether a connection was neither found by a search nor closed.
    fn is_unknown(&self, cookie: Cookie) -> bool {
        !self.known.contains_key(&cookie) && !self.gone.contains_key(&cookie)
    }

    fn take(&mut self, event: Event) {
        // Of a connection that has just gone there may be events still.
        let per_event = self.per_event;
        if let Some(followed) = self.connection_mut(event.cookie) {
            if per_event {
                followed.tally.event(&event);
                self.events.push(event);
            }
        } else if self.is_unknown(event.cookie) {
            self.undecided.push(event);
        }
    }

    /// Finds connections that are new, and those that are gone.
    fn search(&mut self, now: u64) -> Result<(), Error> {
        self.searched_ns = Some(now);
        self.news = false;
        let mut present = BTreeSet::new();
        for at in 0..self.places.len() {
            self.looks.clear();
            self.places[at].1.dump(&mut self.looks)?;
            let looks = std::mem::take(&mut self.looks);
            let news = self.take_looks(at, now, &looks, &mut present)?;
            self.looks = looks;
            if let (true, Some(kernel)) = (news, &self.kernel) {
                kernel.choose(&self.places[at].0)?;
            }
        }
        self.close_all_but(&present, now);
        let waiting = std::mem::take(&mut self.undecided);
        for event in waiting.into_iter().filter(|event| now.saturating_sub(event.time_ns) < UNDECIDED_NS) {
            self.take(event);
        }
        Ok(())
    }

    /// Takes the looks at one namespace in; whether any of a connection that is new and wanted was among them.
    fn take_looks(
        &mut self,
        at: usize,
        now: u64,
        looks: &[Look],
        present: &mut BTreeSet<Cookie>,
    ) -> Result<bool, Error> {
        let name = self.places[at].0.name().to_string();
        self.find_owners(now, looks);
        let mut news = false;
        for look in looks {
            present.insert(look.cookie);
            if let Some(followed) = self.live.get_mut(look.cookie) {
                if followed.process.is_none() {
                    followed.process = self.processes.of_inode(look.inode).cloned();
                }
                match self.kernel {
                    Some(_) => {
                        followed.meet(look);
                        // eBPF has not found it yet.
                        news |= followed.clocks.is_none();
                    }
                    None => followed.look(look, now),
                }
                continue;
            }
            let process = self.processes.of_inode(look.inode);
            let matches = self.filter.matches(look, process, &name);
            // Its owner may become known, and its state and congestion control change: it is asked again.
            let decided = self.known.insert(look.cookie, matches).is_none() || matches;
            let slot = matches.then(|| {
                let traced = self.per_event;
                self.live.insert(Followed::new(name.clone(), process.cloned(), look.clone(), now, traced))
            });
            if let (true, Some(kernel)) = (decided, &self.kernel) {
                kernel.decide(look.cookie, slot)?;
            }
            news |= matches;
        }
        Ok(news)
    }

    /// Asks /proc where a socket's owner is not known, once for each: those of others may not be seen.
    fn find_owners(&mut self, now: u64, looks: &[Look]) {
        let unknown = |look: &Look| {
            look.inode != 0
                && self.processes.of_inode(look.inode).is_none()
                && !self.ownerless.contains(&look.inode)
        };
        let due = self.owners_ns.is_none_or(|before| now - before >= OWNERS_NS);
        if due && looks.iter().any(unknown) {
            self.processes.refresh();
            self.owners_ns = Some(now);
            let without = looks.iter().filter(|look| self.processes.of_inode(look.inode).is_none());
            self.ownerless.extend(without.map(|look| look.inode));
        }
    }

    fn close_all_but(&mut self, present: &BTreeSet<Cookie>, now: u64) {
        let gone: Vec<Cookie> =
            self.known.keys().filter(|cookie| !present.contains(cookie)).copied().collect();
        for cookie in gone {
            self.close(cookie, now);
        }
    }

    fn close(&mut self, cookie: Cookie, now: u64) {
        self.known.remove(&cookie);
        let (slot, followed) = self.live.remove(cookie).unzip();
        if let Some(kernel) = &self.kernel {
            kernel.forget(cookie, slot);
        }
        if let Some(mut followed) = followed {
            followed.closed_ns = Some(now);
            followed.look.state = State::CLOSED;
            followed.rates_bps = None;
            self.gone.insert(cookie, followed);
            self.gone_order.push_back(cookie);
        }
        while self.gone_order.len() > CLOSED_MOST {
            let oldest = self.gone_order.pop_front();
            oldest.and_then(|cookie| self.gone.remove(&cookie));
        }
    }
}

/// Whether an event can be of a new connection.
fn is_news(event: &Event) -> bool {
    !matches!(event.kind, EventKind::State { new: State::CLOSED, .. })
}

impl Followed {
    fn new(place: String, process: Option<Process>, look: Look, now: u64, traced: bool) -> Self {
        let mut tally = Tally::new(traced);
        tally.look(now, &look.info);
        Followed {
            place,
            process,
            look,
            looked_ns: now,
            first_ns: now,
            closed_ns: None,
            rates_bps: None,
            tally,
            clocks: None,
        }
    }

    /// Takes in a look of sock_diag's.
    fn look(&mut self, look: &Look, now: u64) {
        let before = self.carried();
        self.look = look.clone();
        self.count(before, now);
    }

    /// Takes in what eBPF does not tell.
    fn meet(&mut self, look: &Look) {
        self.look.congestion.clone_from(&look.congestion);
        self.look.congestion_info = look.congestion_info;
        self.look.tos = look.tos;
        (self.look.uid, self.look.inode) = (look.uid, look.inode);
    }

    /// Takes in a look of eBPF's.
    fn sample(&mut self, sample: &RawSample<'_>) {
        let before = self.carried();
        self.clocks = Some(sample.fill(&mut self.look.info));
        self.look.memory = sample.memory();
        (self.look.rqueue_bytes, self.look.wqueue_bytes) = sample.queues_bytes();
        if let Some(state) = self.look.info.state() {
            self.look.state = State(state);
        }
        // The first comes right after it was found: that is no time to have a rate over.
        let before = if self.tally.looks > 1 { before } else { (None, None) };
        self.count(before, sample.time_ns());
    }

    /// Takes in that nothing has happened since the latest look.
    fn stay(&mut self, pass: Pass) {
        let Some(clocks) = &self.clocks else { return };
        clocks.tell(pass.jiffies, pass.hz, &mut self.look.info);
        if pass.time_ns > self.looked_ns {
            self.rates_bps = Some((0.0, 0.0));
            self.looked_ns = pass.time_ns;
        }
        self.tally.stay(pass.time_ns);
    }

    /// Takes in what a connection was when it closed.
    fn last(&mut self, sample: &Sample) {
        self.clocks = None;
        self.look.info = sample.info;
        self.look.memory = sample.memory;
        self.look.wqueue_bytes = sample.wqueue_bytes;
        self.tally.look(sample.time_ns, &sample.info);
    }

    /// Bytes acknowledged and received so far.
    fn carried(&self) -> (Option<u64>, Option<u64>) {
        (self.look.info.bytes_acked(), self.look.info.bytes_received())
    }

    fn count(&mut self, before: (Option<u64>, Option<u64>), now: u64) {
        let span_s = now.saturating_sub(self.looked_ns) as f64 * 1e-9;
        let rate =
            |then: Option<u64>, now: Option<u64>| Some(now?.saturating_sub(then?) as f64 * 8.0 / span_s);
        let (acked, received) = self.carried();
        if span_s > 0.0 {
            self.rates_bps = rate(before.0, acked).zip(rate(before.1, received));
        }
        self.looked_ns = now;
        self.tally.look(now, &self.look.info);
    }
}
