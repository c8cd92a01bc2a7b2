//! Turns: the sessions whose set-up has begun, which client is set up next, and which client gets a free
//! turn.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use traffic::Attempted;

use super::{
    super::{
        admission::share_key,
        session::{self, SERVICE_TIMEOUT},
        turn::{Stage, Turn},
    },
    Request, Router, Waiting,
};
use crate::{
    Error,
    arrival::Arrival,
    report::{Amount, Protocol, TestSpec},
    report_builder,
    service::ServiceClient,
    wire::{Cookie, STREAMS_MAX},
};

/// Maximum number of clients whose streams are being connected.
const SETUPS_MAX: usize = 16;
/// Maximum number of their streams before a further set-up begins: each is a descriptor.
const SETUP_STREAMS_MAX: u32 = 256;
/// While a client's streams are being connected, the next client's set-up begins after this time.
const SETUP_STAGGER: Duration = Duration::from_millis(50);
/// A client that connects no stream for this time loses its set-up to the next client.
const SETUP_TIMEOUT: Duration = Duration::from_secs(2);
/// Estimated time of a test without its data phase.
const OVERHEAD: Duration = Duration::from_millis(100);

/// A client whose set-up has begun.
pub(super) struct SessionHandle<'scope> {
    pub(super) cookie: Cookie,
    pub(super) peer: IpAddr,
    pub(super) arrivals: SyncSender<Arrival>,
    /// The client's UDP sockets whose hellos have arrived.
    greeted: Vec<SocketAddr>,
    /// The session waits for the hello of a UDP socket.
    pub(super) expects_datagrams: Arc<AtomicBool>,
    pub(super) thread: ScopedJoinHandle<'scope, ()>,
    pub(super) turn: Arc<Turn>,
    pub(super) streams: u32,
    /// Estimated duration of its test.
    pub(super) expected: Duration,
    pub(super) begun: Instant,
    /// When the last stream was connected, or the set-up began.
    pub(super) progress: Instant,
    pub(super) granted: Option<Instant>,
    /// A client of the service.
    pub(super) is_service: bool,
    /// A test of a service's client that has its turn: the test does not wait in the queue.
    pub(super) is_of_service: bool,
}

impl SessionHandle<'_> {
    pub(super) fn is_set_up(&self) -> bool {
        matches!(self.turn.stage(), Stage::SettingUp | Stage::Ready)
    }

    pub(super) fn is_running(&self) -> bool {
        self.turn.stage() == Stage::Running
    }

    /// Whether this is the first hello from that socket. The network may duplicate hellos.
    pub(super) fn is_first_hello(&mut self, from: SocketAddr) -> bool {
        let is_first = !self.greeted.contains(&from);
        if is_first {
            self.greeted.push(from);
        }
        is_first
    }

    /// A hello from this address belongs to it.
    pub(super) fn expects_hello(&self, from: IpAddr) -> bool {
        self.peer == from
            && self.expects_datagrams.load(Ordering::Acquire)
            && !matches!(self.turn.stage(), Stage::Over | Stage::Revoked)
    }

    /// It has got its turn, and its thread has not ended.
    pub(super) fn has_begun(&self) -> bool {
        matches!(self.turn.stage(), Stage::Running | Stage::Over) && !self.thread.is_finished()
    }

    /// Estimated time until its test ends.
    pub(super) fn remaining(&self) -> Duration {
        let elapsed = self.granted.map_or(Duration::ZERO, |at| at.elapsed());
        self.expected.saturating_sub(elapsed)
    }
}

impl<'scope, 'env> Router<'scope, 'env> {
    /// Estimated wait of a client with `ahead` clients before it in the queue.
    pub(super) fn expected_wait(&self, ahead: usize) -> Duration {
        let running: Duration =
            self.sessions.iter().filter(|s| s.is_running()).map(SessionHandle::remaining).sum();
        let set_up: Duration = self.sessions.iter().filter(|s| s.is_set_up()).map(|s| s.expected).sum();
        let queued: Duration = self.waiting.iter().take(ahead).map(|w| self.expected(&w.request)).sum();
        (running + set_up + queued) / u32::try_from(self.server.options.clients.max(1)).unwrap_or(u32::MAX)
    }

    /// Estimated duration of a test.
    pub(super) fn expected(&self, request: &Request<'_>) -> Duration {
        let Request::Test(admitted) = request else { return self.mean_duration };
        let TestSpec { amount, omit, .. } = admitted.spec;
        match amount {
            Amount::Time(time) => time + omit + OVERHEAD,
            Amount::Bytes(_) | Amount::Blocks(_) => self.mean_duration,
        }
    }

    /// Number of turns in use.
    fn turns_in_use(&self) -> usize {
        self.sessions.iter().filter(|session| session.is_running() && !session.is_of_service).count()
    }

    /// Whether the client's test belongs to a client of the service that has its turn.
    pub(super) fn is_of_service(&self, request: &Request<'_>) -> bool {
        let Request::Test(admitted) = request else { return false };
        let Some(session) = admitted.params.longfat_session.as_deref() else { return false };
        self.sessions.iter().any(|s| s.is_service && s.is_running() && s.cookie.as_str() == session)
    }

    pub(super) fn has_free_turn(&self) -> bool {
        let running = self.turns_in_use();
        let is_last = self.server.options.one_off
            && (self.served.load(Ordering::Acquire) > 0
                || self.sessions.iter().any(SessionHandle::has_begun));
        running < self.server.options.clients.max(1) && !is_last
    }

    /// Gives free turns to clients whose streams are connected, in the order of their set-ups.
    pub(super) fn give_turns(&mut self) {
        let is_ready_service = |s: &&mut SessionHandle<'_>| s.is_of_service && s.turn.stage() == Stage::Ready;
        for session in self.sessions.iter_mut().filter(is_ready_service) {
            session.granted = Some(Instant::now());
            session.turn.set(Stage::Running);
        }
        while self.has_free_turn() {
            let ready = self.sessions.iter_mut().filter(|session| session.turn.stage() == Stage::Ready);
            let Some(next) = ready.min_by_key(|session| session.begun) else { return };
            next.granted = Some(Instant::now());
            next.turn.set(Stage::Running);
        }
    }

    /// Begins the set-ups of the next clients. A client is dropped if there are too few threads or
    /// descriptors for it; the others get their turn when some are free.
    pub(super) fn begin_set_ups(&mut self, scope: &'scope Scope<'scope, 'env>) {
        if let Err(error) = self.begin_possible_set_ups(scope) {
            self.observer.note(&error.to_string());
        }
    }

    fn begin_possible_set_ups(&mut self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        while let Some(index) = self
            .waiting
            .iter()
            .position(|waiting| self.is_of_service(&waiting.request) && self.may_greet(waiting))
        {
            let Some(waiting) = self.waiting.remove(index) else { break };
            self.begin_set_up(waiting, scope)?;
        }
        while self.may_begin_set_up() {
            let Some(index) = self.next_waiting() else { return Ok(()) };
            let Some(waiting) = self.waiting.remove(index) else { return Ok(()) };
            self.begin_set_up(waiting, scope)?;
        }
        Ok(())
    }

    /// True if a turn is free, and all current set-ups take longer than [`SETUP_STAGGER`].
    pub(super) fn may_begin_set_up(&self) -> bool {
        if self.waiting.is_empty() || !self.has_free_turn() {
            return false;
        }
        let running = self.turns_in_use();
        let set_ups: Vec<&SessionHandle<'_>> =
            self.sessions.iter().filter(|session| session.is_set_up() && !session.is_of_service).collect();
        if running + set_ups.len() < self.server.options.clients.max(1) {
            return true;
        }
        let is_slow =
            set_ups.iter().all(|s| s.turn.stage() == Stage::SettingUp && s.begun.elapsed() >= SETUP_STAGGER);
        let streams: u32 = set_ups.iter().map(|session| session.streams).sum();
        if is_slow && set_ups.len() < SETUPS_MAX && streams <= SETUP_STREAMS_MAX {
            return true;
        }
        // The set-up without progress for the longest time is revoked in favour of the next.
        let slowest = set_ups.iter().min_by_key(|session| session.progress);
        if let Some(slowest) = slowest.filter(|s| is_slow && s.progress.elapsed() >= SETUP_TIMEOUT) {
            slowest.turn.set(Stage::Revoked);
        }
        false
    }

    /// Whether the client's set-up may begin now: the hellos of UDP streams have no cookie, so an address has
    /// one such set-up at a time.
    fn may_greet(&self, waiting: &Waiting<'_>) -> bool {
        let peer = waiting.peer.ip();
        let is_udp = match &waiting.request {
            Request::Service(service) => service.uses_datagrams(),
            Request::Test(admitted) => admitted.spec.protocol == Protocol::Udp,
        };
        !(is_udp && self.sessions.iter().any(|session| session.expects_hello(peer)))
    }

    /// The index of the client to be served next: the first of the address that was served longest ago.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        let order =
            |waiting: &Waiting<'_>| self.last_begun.get(&share_key(waiting.peer)).copied().unwrap_or(0);
        let candidates = self.waiting.iter().enumerate().filter(|(_, waiting)| self.may_greet(waiting));
        candidates.min_by_key(|(index, waiting)| (order(waiting), *index)).map(|(index, _)| index)
    }

    fn begin_set_up(
        &mut self,
        waiting: Waiting<'env>,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<(), Error> {
        let expected = self.expected(&waiting.request);
        let is_of_service = self.is_of_service(&waiting.request);
        let is_service = matches!(waiting.request, Request::Service(_));
        let Waiting { control, peer, cookie, request, .. } = waiting;
        self.begun += 1;
        self.last_begun.insert(share_key(peer), self.begun);
        let still =
            |key: &IpAddr| self.waiting.iter().any(|w| share_key(w.peer) == *key) || *key == share_key(peer);
        self.last_begun.retain(|key, _| still(key));
        // Space for all streams of the largest test.
        let (arrivals, receiver) = sync_channel(2 * STREAMS_MAX as usize);
        let wake = self.ended.try_clone().attempted(|| "duplicate a pipe".into())?;
        let (server, observer, stop, served) = (self.server, self.observer, self.stop, self.served);
        let renewal = self.renewal;
        let (is_udp, streams, stage) = match &request {
            // A service replies as soon as its client's datagrams arrive, so it must have its turn before
            // that.
            Request::Service(service) => (service.uses_datagrams(), 1, Stage::Running),
            Request::Test(admitted) => {
                let spec = &admitted.spec;
                (spec.protocol == Protocol::Udp, report_builder::stream_count(spec), Stage::SettingUp)
            }
        };
        let turn = Arc::new(Turn::new(wake, stage));
        let expects_datagrams = Arc::new(AtomicBool::new(is_udp));
        let expects = expects_datagrams.clone();
        let others_wait = !self.waiting.is_empty();
        let own = Arc::clone(&turn);
        let body = move || {
            let control = control.into();
            match request {
                Request::Service(service) => {
                    let options = &server.options;
                    let phase = options.phase_timeout;
                    let client = ServiceClient {
                        control,
                        peer: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
                        cookie,
                        renewal,
                        gate: options.gate.as_deref(),
                        step_timeout: if others_wait { SERVICE_TIMEOUT.min(phase) } else { phase },
                        udp_sockets: &receiver,
                        expects_datagrams: &expects,
                    };
                    session::serve_other(service, client, options, stop, observer);
                    served.fetch_add(1, Ordering::AcqRel);
                }
                Request::Test(admitted) => {
                    let client = session::Client {
                        control,
                        peer,
                        cookie,
                        arrivals: receiver,
                        expects_datagrams: expects,
                        turn: Arc::clone(&own),
                        admitted: *admitted,
                    };
                    let began =
                        session::serve(client, server.address.port(), &server.options, stop, observer);
                    served.fetch_add(usize::from(began && !is_of_service), Ordering::AcqRel);
                }
            }
            // Wakes the router, which also checks its sessions periodically.
            own.announce(Stage::Over);
        };
        let thread = std::thread::Builder::new()
            .name("test".into())
            .spawn_scoped(scope, body)
            .attempted(|| "create a thread for a test".into())?;
        let now = Instant::now();
        let granted = (stage == Stage::Running).then_some(now);
        let peer = peer.ip();
        self.sessions.push(SessionHandle {
            cookie,
            peer,
            arrivals,
            greeted: Vec::new(),
            expects_datagrams,
            thread,
            turn,
            streams,
            expected,
            begun: now,
            progress: now,
            granted,
            is_service,
            is_of_service,
        });
        Ok(())
    }
}
