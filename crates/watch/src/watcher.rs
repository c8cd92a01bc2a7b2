//! Tracks the connections that match a filter: finds them, samples them, and keeps the last samples of closed
//! connections.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use crate::{
    BpfTracer, Diag, Error, Filter, NetNamespace, SocketCookie, SocketEvent, SocketEventKind, SocketOwners,
    SocketSample, SocketState, TrackedConnection, live_connections::LiveConnections, monotonic_ns,
};

/// Interval of sock_diag searches where eBPF samples. They read the values that eBPF does not
/// report, and find connections whose events were missed. Without eBPF every sample is a search.
const SEARCH_INTERVAL_NS: u64 = 500_000_000;
/// Minimum interval of searches when eBPF reports unknown connections: a search takes a millisecond or two.
const NEW_CONNECTION_SEARCH_INTERVAL_NS: u64 = 20_000_000;
/// Minimum interval of searches of /proc for the owners of sockets.
const OWNER_SEARCH_INTERVAL_NS: u64 = 500_000_000;
/// Maximum number of closed connections that are kept, the latest ones.
const MAX_CLOSED_CONNECTIONS: usize = 10_000;
/// Time for which events of connections that no search has found yet are kept.
const UNDECIDED_EVENT_RETENTION_NS: u64 = 2_000_000_000;

/// How connections are sampled and traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracingMode {
    /// Sample by sock_diag only.
    Never,
    /// Sample by eBPF if possible, else by sock_diag.
    IfPossible,
    /// Sample by eBPF, and report each change of state and retransmission.
    Events,
    /// Like [`TracingMode::Events`], and also report each ACK and round trip.
    PerAck,
}

/// Watches the connections of some network namespaces that match a filter.
#[derive(Debug)]
pub struct Watcher {
    namespaces: Vec<(NetNamespace, Diag)>,
    filter: Filter,
    tracer: Option<BpfTracer>,
    bpf_unavailable_reason: Option<String>,
    reports_events: bool,
    owners: SocketOwners,
    owners_searched_ns: Option<u64>,
    /// Inodes of open sockets whose owners were not found in /proc.
    ownerless: HashSet<u32>,
    searched_ns: Option<u64>,
    /// Whether eBPF has reported a connection that no search has found.
    has_unknown_connections: bool,
    /// Open connections that a search has found, and whether the filter matches them.
    filter_results: HashMap<SocketCookie, bool>,
    live: LiveConnections,
    closed: BTreeMap<SocketCookie, TrackedConnection>,
    /// The closed connections, ordered by the time of closing.
    closed_order: VecDeque<SocketCookie>,
    events: Vec<SocketEvent>,
    /// Events of connections that no search has found yet.
    undecided_events: Vec<SocketEvent>,
    /// Buffer for the samples of one namespace.
    samples: Vec<SocketSample>,
}

impl Watcher {
    /// Begins to watch these namespaces.
    ///
    /// # Errors
    /// If this user may not enter a namespace, or `mode` requires eBPF and it is unavailable
    /// ([`Error::Missing`]).
    pub fn new(namespaces: Vec<NetNamespace>, filter: Filter, mode: TracingMode) -> Result<Watcher, Error> {
        let (tracer, bpf_unavailable_reason) = match mode {
            TracingMode::Never => (None, None),
            TracingMode::IfPossible => match BpfTracer::load(&namespaces, false, false) {
                Ok(tracer) => (Some(tracer), None),
                Err(error) => (None, Some(error.to_string())),
            },
            TracingMode::Events => (Some(BpfTracer::load(&namespaces, true, false)?), None),
            TracingMode::PerAck => (Some(BpfTracer::load(&namespaces, true, true)?), None),
        };
        let open = |namespace: NetNamespace| {
            let diag = namespace.run(Diag::open)?;
            Ok((namespace, diag))
        };
        Ok(Watcher {
            namespaces: namespaces.into_iter().map(open).collect::<Result<_, Error>>()?,
            filter,
            tracer,
            bpf_unavailable_reason,
            reports_events: matches!(mode, TracingMode::Events | TracingMode::PerAck),
            owners: SocketOwners::default(),
            owners_searched_ns: None,
            ownerless: HashSet::new(),
            searched_ns: None,
            has_unknown_connections: false,
            filter_results: HashMap::new(),
            live: LiveConnections::default(),
            closed: BTreeMap::new(),
            closed_order: VecDeque::new(),
            events: Vec::new(),
            undecided_events: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// The watched namespace with this name.
    pub fn namespace(&self, name: &str) -> Option<&NetNamespace> {
        self.namespaces.iter().map(|(namespace, _)| namespace).find(|namespace| namespace.name() == name)
    }

    /// Why eBPF is not used, if [`TracingMode::IfPossible`] was requested and eBPF is unavailable.
    pub fn bpf_unavailable_reason(&self) -> Option<&str> {
        self.bpf_unavailable_reason.as_deref()
    }

    /// Whether the samples are taken by eBPF.
    pub fn uses_bpf(&self) -> bool {
        self.tracer.is_some()
    }

    /// Whether each round trip is reported.
    pub fn traces_round_trips(&self) -> bool {
        self.tracer.as_ref().is_some_and(BpfTracer::traces_round_trips)
    }

    /// Number of events lost because the kernel's ring buffer was full.
    pub fn lost_events(&self) -> u64 {
        self.tracer.as_ref().map_or(0, BpfTracer::lost_events)
    }

    /// The live connections, followed by the closed ones.
    pub fn connections(&self) -> impl Iterator<Item = &TrackedConnection> {
        self.live.iter().chain(self.closed.values())
    }

    /// The connection with this cookie.
    pub fn connection(&self, cookie: SocketCookie) -> Option<&TrackedConnection> {
        self.live.get(cookie).or_else(|| self.closed.get(&cookie))
    }

    fn connection_mut(&mut self, cookie: SocketCookie) -> Option<&mut TrackedConnection> {
        self.live.get_mut(cookie).or_else(|| self.closed.get_mut(&cookie))
    }

    /// Removes and returns the events since the last call, ordered by time.
    pub fn take_events(&mut self) -> Vec<SocketEvent> {
        std::mem::take(&mut self.events)
    }

    /// Samples all connections.
    ///
    /// # Errors
    /// If the kernel refuses or does not reply.
    pub fn sample(&mut self) -> Result<(), Error> {
        // Pending events occurred before the samples.
        self.wait(Duration::ZERO)?;
        let now = monotonic_ns();
        let search_interval = match (&self.tracer, self.has_unknown_connections) {
            (None, _) => 0,
            (Some(_), true) => NEW_CONNECTION_SEARCH_INTERVAL_NS,
            (Some(_), false) => SEARCH_INTERVAL_NS,
        };
        if self.searched_ns.is_none_or(|before| now - before >= search_interval) {
            self.search(now)?;
        }
        if let Some(tracer) = &mut self.tracer {
            let live = &mut self.live;
            let pass = tracer.sample(live.slot_count(), |sample| {
                if let Some(connection) = live.in_slot_mut(sample.slot()) {
                    connection.update_from_bpf(sample);
                }
            })?;
            live.iter_mut()
                .filter(|connection| connection.sampled_ns <= now)
                .for_each(|connection| connection.update_unchanged(pass));
        }
        Ok(())
    }

    /// Waits for events, at most `timeout`. Without eBPF it sleeps for `timeout`.
    ///
    /// # Errors
    /// If a search fails: the kernel refuses or does not reply, or has no memory for a map entry.
    pub fn wait(&mut self, timeout: Duration) -> Result<(), Error> {
        let Some(tracer) = &self.tracer else {
            if !timeout.is_zero() {
                std::thread::sleep(timeout);
            }
            return Ok(());
        };
        let mut new_events = Vec::new();
        let mut final_samples = Vec::new();
        tracer.receive_events(timeout, &mut new_events, &mut final_samples);
        for sample in &final_samples {
            if let Some(connection) = self.connection_mut(sample.cookie) {
                connection.update_at_close(sample);
            }
            self.close(sample.cookie, sample.time_ns);
        }
        if new_events.is_empty() {
            return Ok(());
        }
        // Processors write to the ring buffer concurrently, so their events are not in order of time.
        new_events.sort_by_key(|event| event.time_ns);
        let now = monotonic_ns();
        self.has_unknown_connections |=
            new_events.iter().any(|event| self.is_unknown(event.cookie) && is_of_open_connection(event));
        if self.has_unknown_connections
            && self.searched_ns.is_none_or(|before| now - before >= NEW_CONNECTION_SEARCH_INTERVAL_NS)
        {
            self.search(now)?;
        }
        for event in new_events {
            self.add_event(event);
        }
        Ok(())
    }

    /// Whether the connection is neither among the search results nor among the retained closed connections.
    fn is_unknown(&self, cookie: SocketCookie) -> bool {
        !self.filter_results.contains_key(&cookie) && !self.closed.contains_key(&cookie)
    }

    fn add_event(&mut self, event: SocketEvent) {
        // Events of a connection can arrive after it was closed.
        let reports_events = self.reports_events;
        if let Some(connection) = self.connection_mut(event.cookie) {
            if reports_events {
                connection.counters.add_event(&event);
                self.events.push(event);
            }
        } else if self.is_unknown(event.cookie) {
            self.undecided_events.push(event);
        }
    }

    /// Lists all connections by sock_diag: finds new and closed ones.
    fn search(&mut self, now: u64) -> Result<(), Error> {
        self.searched_ns = Some(now);
        self.has_unknown_connections = false;
        let mut present = BTreeSet::new();
        let mut ownerless = HashSet::new();
        for index in 0..self.namespaces.len() {
            self.samples.clear();
            self.namespaces[index].1.dump(&mut self.samples)?;
            let samples = std::mem::take(&mut self.samples);
            let needs_slots = self.add_samples(index, now, &samples, &mut present)?;
            let inodes = samples.iter().map(|sample| sample.inode);
            ownerless.extend(inodes.filter(|inode| self.ownerless.contains(inode)));
            self.samples = samples;
            if let (true, Some(tracer)) = (needs_slots, &self.tracer) {
                tracer.assign_slots(&self.namespaces[index].0)?;
            }
        }
        self.ownerless = ownerless;
        self.close_all_but(&present, now);
        let undecided = std::mem::take(&mut self.undecided_events);
        for event in undecided {
            if now.saturating_sub(event.time_ns) < UNDECIDED_EVENT_RETENTION_NS {
                self.add_event(event);
            }
        }
        Ok(())
    }

    /// Adds the samples of one namespace. Returns whether eBPF must store the kernel addresses of some of its
    /// sockets in their slots.
    fn add_samples(
        &mut self,
        index: usize,
        now: u64,
        samples: &[SocketSample],
        present: &mut BTreeSet<SocketCookie>,
    ) -> Result<bool, Error> {
        let name = self.namespaces[index].0.name().to_string();
        self.find_owners(now, samples);
        let mut needs_slots = false;
        for sample in samples {
            present.insert(sample.cookie);
            if let Some(connection) = self.live.get_mut(sample.cookie) {
                if connection.process.is_none() {
                    connection.process = self.owners.owner(sample.inode).cloned();
                }
                match self.tracer {
                    Some(_) => {
                        connection.update_identity(sample);
                        // Without a sample by eBPF, its slot is still empty.
                        needs_slots |= connection.clocks.is_none();
                    }
                    None => connection.update_from_diag(sample, now),
                }
                continue;
            }
            let process = self.owners.owner(sample.inode);
            let matches = self.filter.matches(sample, process, &name);
            // The result can change, because owner, state and congestion control can change, so the filter
            // runs in every search.
            let must_store = self.filter_results.insert(sample.cookie, matches).is_none() || matches;
            let slot = matches.then(|| {
                self.live.insert(TrackedConnection::new(
                    name.clone(),
                    process.cloned(),
                    sample.clone(),
                    now,
                    self.reports_events,
                ))
            });
            if let (true, Some(tracer)) = (must_store, &self.tracer) {
                tracer.set_filter_result(sample.cookie, slot)?;
            }
            needs_slots |= matches;
        }
        Ok(needs_slots)
    }

    /// Searches /proc if owners of sockets are unknown. Each socket is searched for once: processes of other
    /// users are not visible without root.
    fn find_owners(&mut self, now: u64, samples: &[SocketSample]) {
        let is_unknown = |sample: &SocketSample| {
            sample.inode != 0
                && self.owners.owner(sample.inode).is_none()
                && !self.ownerless.contains(&sample.inode)
        };
        let is_due = self.owners_searched_ns.is_none_or(|before| now - before >= OWNER_SEARCH_INTERVAL_NS);
        if is_due && samples.iter().any(is_unknown) {
            self.owners.refresh();
            self.owners_searched_ns = Some(now);
            let ownerless = samples.iter().filter(|sample| self.owners.owner(sample.inode).is_none());
            self.ownerless.extend(ownerless.map(|sample| sample.inode));
        }
    }

    fn close_all_but(&mut self, present: &BTreeSet<SocketCookie>, now: u64) {
        let missing: Vec<SocketCookie> =
            self.filter_results.keys().filter(|cookie| !present.contains(cookie)).copied().collect();
        for cookie in missing {
            self.close(cookie, now);
        }
    }

    fn close(&mut self, cookie: SocketCookie, now: u64) {
        self.filter_results.remove(&cookie);
        let (slot, connection) = self.live.remove(cookie).unzip();
        if let Some(tracer) = &self.tracer {
            tracer.forget(cookie, slot);
        }
        if let Some(mut connection) = connection {
            connection.closed_ns = Some(now);
            connection.sample.state = SocketState::CLOSED;
            connection.rates_bps = None;
            self.closed.insert(cookie, connection);
            self.closed_order.push_back(cookie);
        }
        while self.closed_order.len() > MAX_CLOSED_CONNECTIONS {
            let oldest = self.closed_order.pop_front();
            oldest.and_then(|cookie| self.closed.remove(&cookie));
        }
    }
}

/// Whether the connection is still open after this event, so that a search can find it.
fn is_of_open_connection(event: &SocketEvent) -> bool {
    !matches!(event.kind, SocketEventKind::State { new: SocketState::CLOSED, .. })
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, net::TcpStream, os::fd::AsRawFd, os::unix::fs::MetadataExt};

    use super::*;

    #[test]
    fn closed_sockets_without_a_visible_owner_are_forgotten() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _receiver = listener.accept().unwrap();
        let path = format!("/proc/self/fd/{}", sender.as_raw_fd());
        let inode = std::fs::metadata(path).unwrap().ino() as u32;
        let filter = Filter::parse("").unwrap();
        let mut watcher =
            Watcher::new(vec![NetNamespace::current().unwrap()], filter, TracingMode::Never).unwrap();
        // Inodes of sockets that were closed, and of one that is open.
        watcher.ownerless = (1..=3).map(|age| u32::MAX - age).chain([inode]).collect();
        watcher.sample().unwrap();
        assert!(watcher.ownerless.contains(&inode), "{:?}", watcher.ownerless);
        assert!(watcher.ownerless.iter().all(|inode| *inode < u32::MAX - 3), "{:?}", watcher.ownerless);
        drop(sender);
        watcher.sample().unwrap();
        assert!(!watcher.ownerless.contains(&inode), "{:?}", watcher.ownerless);
    }
}
