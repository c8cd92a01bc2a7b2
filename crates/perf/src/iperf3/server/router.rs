//! One thread takes all connections in. The first with a new cookie is a client's control connection: its parameters are
//! received and checked, then it waits until it is its turn; further ones are its streams. Nobody here waits for anybody: sockets
//! do not block, and all have deadlines.
//!
//! Turns: a client whose parameters are there is queued; while a turn is free, the streams of one client are connected, and of
//! further ones where that takes longer than a moment; the first whose streams are there gets the turn. Addresses take turns.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{ErrorKind, PipeReader, PipeWriter, Read, Write},
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{SyncSender, TrySendError, sync_channel},
    },
    thread::{Scope, ScopedJoinHandle},
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};

use super::{
    ServerObserver, ServerOptions,
    admission::{Admission, Admitted, canonical, largest_share, share_key},
    datagrams::{Hellos, Said},
    greeting::{Greeting, Progress, deny},
    session::{self, Arrival},
    turn::{Stage, Turn},
};
use crate::{
    Error as SystemError,
    error::Attempted,
    iperf3::{
        Error, IpVersion, account,
        wire::{Cookie, QueueNotice, STREAMS_MAX},
    },
    probe,
    report::{Amount, Protocol, Report, TestSpec},
    sys,
};

/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(100);
/// The same while clients are queued and a turn is free.
const SHORT_NAP: Duration = Duration::from_millis(20);
/// Connections that have not said whose they are; of more the oldest of the address with the most goes.
const GREETINGS_MAX: usize = 256;
/// Clients whose parameters have not come, likewise.
const ADMISSIONS_MAX: usize = 256;
/// Clients whose streams are being connected.
const SETUPS_MAX: usize = 16;
/// Their streams together, beside those of the first: each is a descriptor.
const SETUP_STREAMS_MAX: u32 = 256;
/// While a client's streams are being connected, the next client's set-up begins after this time.
const SETUP_STAGGER: Duration = Duration::from_millis(50);
/// A client whose streams do not come for so long gives its set-up to the next one.
const SETUP_TIMEOUT: Duration = Duration::from_secs(2);
/// What a test takes beside its data, roughly.
const OVERHEAD: Duration = Duration::from_millis(100);
/// A test of an amount takes this long where nothing is known, roughly.
const UNKNOWN_DURATION: Duration = Duration::from_secs(1);
/// The kernel's own queue of connections.
const BACKLOG: i32 = 1024;
/// Datagrams that are looked at before anybody else has a turn.
const DATAGRAMS_AT_ONCE: usize = 64;
/// How long nothing is accepted when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: Socket,
    hellos: Hellos,
    address: SocketAddr,
    options: ServerOptions,
}

impl Server {
    /// Listens.
    pub fn bind(options: ServerOptions) -> Result<Server, Error> {
        let any_v4 = IpAddr::from([0; 4]);
        let listener = match (options.bind, options.ip) {
            (Some(ip), _) => listen(ip, &options)?,
            (None, Some(IpVersion::V4)) => listen(any_v4, &options)?,
            (None, Some(IpVersion::V6)) => listen(IpAddr::from([0; 16]), &options)?,
            // One socket for both versions; machines without IPv6 have the other one.
            (None, None) => listen(IpAddr::from([0; 16]), &options).or_else(|_| listen(any_v4, &options))?,
        };
        let address = listener.local_addr().attempted(|| "cannot read the server's address".into())?;
        let address = address.as_socket().unwrap_or_else(|| SocketAddr::new(any_v4, options.port));
        let hellos = Hellos::listen(address, options.ip, options.device.as_deref())?;
        Ok(Server { listener, hellos, address, options })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set, or with `one_off` one client.
    pub fn run(&self, stop: &AtomicBool, observer: &dyn ServerObserver) -> Result<(), Error> {
        let (wake, ended) = std::io::pipe().attempted(|| "cannot make a pipe".into())?;
        let served = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let mut router = Router {
                server: self,
                observer,
                stop,
                wake,
                ended,
                served: &served,
                greetings: VecDeque::new(),
                admissions: Vec::new(),
                waiting: VecDeque::new(),
                sessions: Vec::new(),
                connections: 0,
                begun: 0,
                last_begun: BTreeMap::new(),
                usual: UNKNOWN_DURATION,
                accept_after: Instant::now(),
            };
            let ran = router.run(scope);
            // Those whose test has not begun are not waited for.
            for session in router.sessions.iter().filter(|session| session.is_set_up()) {
                session.turn.set(Stage::Revoked);
            }
            ran
        })
    }
}

fn listen(ip: IpAddr, options: &ServerOptions) -> Result<Socket, SystemError> {
    let at = SocketAddr::new(ip, options.port);
    let what = || format!("cannot listen at {at}");
    let alone = options.ip == Some(IpVersion::V6) || options.bind.is_some();
    let socket = bound(at, Type::STREAM, alone, options.device.as_deref())?;
    socket.listen(BACKLOG).attempted(what)?;
    socket.set_nonblocking(true).attempted(what)?;
    Ok(socket)
}

/// A socket that others may share the port with; an IPv6 one takes IPv4 as well unless it is `only_v6`.
pub(super) fn bound(
    at: SocketAddr,
    kind: Type,
    only_v6: bool,
    device: Option<&str>,
) -> Result<Socket, SystemError> {
    let what = || format!("cannot listen at {at}");
    let socket = Socket::new(Domain::for_address(at), kind, None).attempted(what)?;
    if at.is_ipv6() {
        socket.set_only_v6(only_v6).attempted(what)?;
    }
    if let Some(device) = device {
        socket
            .bind_device(Some(device.as_bytes()))
            .attempted(|| format!("cannot bind to device {device}"))?;
    }
    socket.set_reuse_address(true).attempted(what)?;
    socket.bind(&at.into()).attempted(what)?;
    Ok(socket)
}

/// A client whose turn has not come.
struct Waiting {
    control: Socket,
    peer: SocketAddr,
    cookie: Cookie,
    since: Instant,
    request: Request,
}

/// What a client wants.
enum Request {
    /// To probe the path.
    Probe,
    Test(Box<Admitted>),
}

/// A client whose set-up has begun.
struct Session<'scope> {
    cookie: Cookie,
    peer: IpAddr,
    arrivals: SyncSender<Arrival>,
    /// It waits for UDP streams.
    wants_datagrams: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, ()>,
    turn: Arc<Turn>,
    streams: u32,
    is_udp: bool,
    /// How long its test will take, roughly.
    expected: Duration,
    begun: Instant,
    /// When a stream came last, or the set-up began.
    progress: Instant,
    granted: Option<Instant>,
}

impl Session<'_> {
    fn is_set_up(&self) -> bool {
        matches!(self.turn.stage(), Stage::SettingUp | Stage::Ready)
    }

    fn is_running(&self) -> bool {
        self.turn.stage() == Stage::Running
    }

    /// It had its turn, and its thread has not ended.
    fn has_begun(&self) -> bool {
        matches!(self.turn.stage(), Stage::Running | Stage::Over) && !self.thread.is_finished()
    }

    /// Until its test ends, roughly.
    fn remaining(&self) -> Duration {
        let gone = self.granted.map_or(Duration::ZERO, |at| at.elapsed());
        self.expected.saturating_sub(gone)
    }
}

struct Router<'scope, 'env> {
    server: &'env Server,
    observer: &'env dyn ServerObserver,
    stop: &'env AtomicBool,
    /// Becomes readable when a session has ended.
    wake: PipeReader,
    ended: PipeWriter,
    served: &'env AtomicUsize,
    greetings: VecDeque<Greeting>,
    admissions: Vec<Admission>,
    waiting: VecDeque<Waiting>,
    sessions: Vec<Session<'scope>>,
    /// Accepted so far.
    connections: u64,
    /// Set-ups begun so far.
    begun: u64,
    /// Which was the last of an address: addresses take turns.
    last_begun: BTreeMap<IpAddr, u64>,
    /// How long tests of an amount took lately.
    usual: Duration,
    accept_after: Instant,
}

impl<'scope, 'env> Router<'scope, 'env> {
    fn run(&mut self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        let begin = Instant::now();
        let options = &self.server.options;
        while !self.stop.load(Ordering::Acquire) {
            self.wait()?;
            self.reap();
            let served = self.served.load(Ordering::Acquire) > 0;
            if options.one_off && served && !self.sessions.iter().any(Session::has_begun) {
                return Ok(());
            }
            let is_idle = options.one_off && self.sessions.is_empty();
            if let Some(idle) = options.idle_timeout.filter(|idle| is_idle && begin.elapsed() >= *idle) {
                return Err(Error::Timeout { what: "client", after: idle });
            }
            self.give_turns();
            self.begin_set_ups(scope)?;
        }
        Ok(())
    }

    /// Waits for something to happen, and deals with it.
    fn wait(&mut self) -> Result<(), Error> {
        let accepts = Instant::now() >= self.accept_after;
        let mut files = vec![self.wake.as_fd(), self.server.hellos.socket().as_fd()];
        if accepts {
            files.push(self.server.listener.as_fd());
        }
        let fixed = files.len();
        files.extend(self.greetings.iter().map(Greeting::fd));
        files.extend(self.admissions.iter().map(Admission::fd));
        files.extend(self.waiting.iter().map(|waiting| waiting.control.as_fd()));
        let nap = if self.waiting.is_empty() || !self.has_free_turn() { NAP } else { SHORT_NAP };
        let ready = sys::wait_any(&files, nap).attempted(|| "cannot wait for connections".into())?;
        drop(files);
        let (greetings, others) = ready[fixed..].split_at(self.greetings.len());
        let (admissions, waiting) = others.split_at(self.admissions.len());
        if ready[0] {
            // Does not block: there is something. What it says is seen by looking at the sessions.
            self.wake.read(&mut [0; 256]).map(drop).attempted(|| "cannot read from a pipe".into())?;
        }
        self.check_waiting(waiting);
        self.read_admissions(admissions);
        self.look_at_greetings(greetings);
        if ready[1] {
            self.look_at_datagrams();
        }
        if accepts && ready[2] {
            self.accept();
        }
        Ok(())
    }

    /// Takes in all who have connected.
    fn accept(&mut self) {
        loop {
            match self.server.listener.accept() {
                Ok((socket, peer)) => {
                    let Some(peer) = peer.as_socket() else { continue };
                    if socket.set_nonblocking(true).is_err() {
                        continue;
                    }
                    self.connections += 1;
                    if self.greetings.len() >= GREETINGS_MAX {
                        let keys: Vec<IpAddr> = self.greetings.iter().map(|g| share_key(g.peer)).collect();
                        let index = largest_share(&keys, 0, false).unwrap_or(0);
                        drop(self.greetings.remove(index));
                    }
                    self.greetings.push_back(Greeting::new(socket, peer, self.connections, Instant::now()));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    // Out of descriptors or memory: those who are served now give some back.
                    self.observer.note(&format!("cannot accept a connection: {e}"));
                    self.accept_after = Instant::now() + PAUSE;
                    return;
                }
            }
        }
    }

    /// Reads from those that are ready, and drops those that took too long.
    fn look_at_greetings(&mut self, ready: &[bool]) {
        let patience = self.server.options.phase_timeout;
        let all = std::mem::take(&mut self.greetings);
        for (index, mut greeting) in all.into_iter().enumerate() {
            let progress = match ready.get(index) {
                Some(true) => greeting.read(),
                _ => Progress::Partial,
            };
            match progress {
                Progress::Partial if greeting.since.elapsed() < patience => {
                    self.greetings.push_back(greeting)
                }
                Progress::Partial | Progress::Hopeless => {}
                Progress::Complete(cookie) => self.route(greeting, cookie),
            }
        }
    }

    /// A hello makes a stream of the oldest test that waits for one from there; a test's latency probe is answered. Others are
    /// passed over.
    fn look_at_datagrams(&mut self) {
        for _ in 0..DATAGRAMS_AT_ONCE {
            let Some((peer, said)) = self.server.hellos.next() else { return };
            if let Said::Echo { question, at } = said {
                let asks = |s: &Session<'_>| s.cookie == question.cookie && s.peer == peer.ip();
                if self.sessions.iter().any(asks) {
                    self.server.hellos.answer(peer, question, at);
                }
                continue;
            }
            let waits = |session: &&Session<'_>| {
                session.peer == peer.ip() && session.wants_datagrams.load(Ordering::Acquire)
            };
            let Some(session) = self.sessions.iter_mut().find(|session| waits(&&**session)) else { continue };
            session.progress = Instant::now();
            self.connections += 1;
            match self.server.hellos.stream(peer, self.server.options.device.as_deref()) {
                // A client has no more streams than there is room for.
                Ok(socket) => drop(session.arrivals.try_send(Arrival { number: self.connections, socket })),
                Err(error) => self.observer.note(&error.to_string()),
            }
        }
    }

    /// A stream goes to its test, a new client is asked for its parameters.
    fn route(&mut self, greeting: Greeting, cookie: Cookie) {
        let Greeting { socket, peer, number, .. } = greeting;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.cookie == cookie) {
            let arrival = Arrival { number, socket };
            if session.peer != peer.ip() {
                return deny(&arrival.socket);
            }
            match session.arrivals.try_send(arrival) {
                Ok(()) => session.progress = Instant::now(),
                // Nobody waits for it.
                Err(TrySendError::Full(arrival) | TrySendError::Disconnected(arrival)) => {
                    deny(&arrival.socket)
                }
            }
            return;
        }
        let is_taken = self.waiting.iter().map(|w| w.cookie).chain(self.admissions.iter().map(|a| a.cookie));
        if is_taken.into_iter().any(|taken| taken == cookie) {
            return deny(&socket);
        }
        if cookie.as_str().starts_with(probe::wire::COOKIE_PREFIX) {
            return self.queue(Waiting {
                control: socket,
                peer,
                cookie,
                since: Instant::now(),
                request: Request::Probe,
            });
        }
        if self.admissions.len() >= ADMISSIONS_MAX {
            let keys: Vec<IpAddr> = self.admissions.iter().map(|a| share_key(a.peer)).collect();
            let index = largest_share(&keys, 0, false).unwrap_or(0);
            deny(&self.admissions.remove(index).socket);
        }
        // A client that is gone already needs nothing.
        self.admissions.extend(Admission::begin(socket, peer, cookie, &self.server.options));
    }

    /// Reads from those that are ready, and drops those that took too long.
    fn read_admissions(&mut self, ready: &[bool]) {
        let options = &self.server.options;
        let all = std::mem::take(&mut self.admissions);
        for (index, mut admission) in all.into_iter().enumerate() {
            let is_ready = ready.get(index).copied().unwrap_or(false);
            let complete = match if is_ready { admission.read() } else { Ok(false) } {
                Ok(false) if admission.since.elapsed() >= options.phase_timeout => {
                    Err(Error::Timeout { what: "parameters", after: options.phase_timeout })
                }
                other => other,
            };
            let admitted = match complete {
                Ok(false) => {
                    self.admissions.push(admission);
                    continue;
                }
                Ok(true) => admission.check(options, self.observer),
                Err(error) => Err(error),
            };
            match admitted {
                Ok(admitted) => {
                    let Admission { socket, peer, cookie, .. } = admission;
                    let request = Request::Test(Box::new(admitted));
                    self.queue(Waiting { control: socket, peer, cookie, since: Instant::now(), request });
                }
                Err(error) => {
                    admission.reject(&error);
                    let report = Report { error: Some(error.to_string()), ..Report::default() };
                    self.observer.end(canonical(admission.peer), &report, Some(&error));
                }
            }
        }
    }

    /// Puts a client at the end of the queue. A full queue drops the last client of an address that has more than its share, or
    /// else this one.
    fn queue(&mut self, waiting: Waiting) {
        let limit = self.server.options.queue;
        if self.waiting.len() >= limit {
            let key = share_key(waiting.peer);
            let keys: Vec<IpAddr> = self.waiting.iter().map(|other| share_key(other.peer)).collect();
            let own = keys.iter().filter(|other| **other == key).count();
            let dropped = match largest_share(&keys, own + 1, true).and_then(|i| self.waiting.remove(i)) {
                Some(other) => {
                    self.waiting.push_back(waiting);
                    other
                }
                None => waiting,
            };
            self.observer.note(&format!(
                "{} is refused: {limit} clients wait already (--queue), for about {} s",
                canonical(dropped.peer),
                self.expected_wait(self.waiting.len()).as_secs()
            ));
            return deny(&dropped.control);
        }
        let ahead =
            self.waiting.len() + self.sessions.iter().filter(|s| s.is_running() || s.is_set_up()).count();
        if ahead >= self.server.options.clients.max(1) {
            let wait = self.expected_wait(self.waiting.len());
            let peer = canonical(waiting.peer);
            self.observer
                .note(&format!("{peer} waits for its turn: {ahead} before it, about {} s", wait.as_secs()));
            if let Request::Test(admitted) = &waiting.request
                && admitted.params.longfat_queue > 0
            {
                let wait_s = u32::try_from(wait.as_secs().max(1)).unwrap_or(u32::MAX);
                let notice = QueueNotice { ahead: u32::try_from(ahead).unwrap_or(u32::MAX), wait_s };
                // A client that does not read does without.
                let _ = (&waiting.control).write(&notice.to_bytes());
            }
        }
        self.waiting.push_back(waiting);
    }

    /// How long a client with so many before it in the queue will wait, roughly.
    fn expected_wait(&self, ahead: usize) -> Duration {
        let running: Duration = self.sessions.iter().filter(|s| s.is_running()).map(Session::remaining).sum();
        let set_up: Duration = self.sessions.iter().filter(|s| s.is_set_up()).map(|s| s.expected).sum();
        let queued: Duration = self.waiting.iter().take(ahead).map(|w| self.expected(&w.request)).sum();
        (running + set_up + queued) / u32::try_from(self.server.options.clients.max(1)).unwrap_or(u32::MAX)
    }

    /// How long a test takes, roughly.
    fn expected(&self, request: &Request) -> Duration {
        let Request::Test(admitted) = request else { return self.usual };
        let TestSpec { amount, omit, .. } = admitted.spec;
        match amount {
            Amount::Time(time) => time + omit + OVERHEAD,
            Amount::Bytes(_) | Amount::Blocks(_) => self.usual,
        }
    }

    /// Those who wait have nothing to say: who does is gone, or no client. Who waited too long is told so.
    fn check_waiting(&mut self, ready: &[bool]) {
        let timeout = self.server.options.queue_timeout;
        let mut index = 0;
        let observer = self.observer;
        self.waiting.retain(|waiting| {
            let speaks = ready.get(index).copied().unwrap_or(false);
            index += 1;
            let late = waiting.since.elapsed() >= timeout;
            if late && !speaks {
                let (peer, after) = (canonical(waiting.peer), timeout.as_secs_f64());
                observer
                    .note(&format!("{peer} is refused: it waited {after} s for its turn (--queue-timeout)"));
                deny(&waiting.control);
            }
            !speaks && !late
        });
    }

    /// Forgets the sessions that have ended.
    fn reap(&mut self) {
        let mut index = 0;
        while index < self.sessions.len() {
            if self.sessions[index].thread.is_finished() {
                let session = self.sessions.swap_remove(index);
                if let Some(granted) = session.granted {
                    self.usual = (self.usual * 3 + granted.elapsed()) / 4;
                }
                if session.thread.join().is_err() {
                    self.observer.note("a test's thread failed; the others go on");
                }
            } else {
                index += 1;
            }
        }
    }

    fn has_free_turn(&self) -> bool {
        let running = self.sessions.iter().filter(|session| session.is_running()).count();
        let is_last = self.server.options.one_off
            && (self.served.load(Ordering::Acquire) > 0 || self.sessions.iter().any(Session::has_begun));
        running < self.server.options.clients.max(1) && !is_last
    }

    /// Gives free turns to those whose streams are there, the first in the order of their set-ups first.
    fn give_turns(&mut self) {
        while self.has_free_turn() {
            let ready = self.sessions.iter_mut().filter(|session| session.turn.stage() == Stage::Ready);
            let Some(next) = ready.min_by_key(|session| session.begun) else { return };
            next.granted = Some(Instant::now());
            next.turn.set(Stage::Running);
        }
    }

    /// Begins the set-ups of those whose turn comes.
    fn begin_set_ups(&mut self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        while self.may_begin_set_up() {
            let Some(index) = self.next_waiting() else { return Ok(()) };
            let Some(waiting) = self.waiting.remove(index) else { return Ok(()) };
            self.begin_set_up(waiting, scope)?;
        }
        Ok(())
    }

    /// A turn is free, and those whose set-up is under way take longer than a moment.
    fn may_begin_set_up(&self) -> bool {
        if self.waiting.is_empty() || !self.has_free_turn() {
            return false;
        }
        let running = self.sessions.iter().filter(|session| session.is_running()).count();
        let set_ups: Vec<&Session<'_>> = self.sessions.iter().filter(|session| session.is_set_up()).collect();
        if running + set_ups.len() < self.server.options.clients.max(1) {
            return true;
        }
        let is_slow =
            set_ups.iter().all(|s| s.turn.stage() == Stage::SettingUp && s.begun.elapsed() >= SETUP_STAGGER);
        let streams: u32 = set_ups.iter().map(|session| session.streams).sum();
        if is_slow && set_ups.len() < SETUPS_MAX && streams <= SETUP_STREAMS_MAX {
            return true;
        }
        // The one that has made no progress for the longest time makes space for the next.
        let slowest = set_ups.iter().min_by_key(|session| session.progress);
        if let Some(slowest) = slowest.filter(|s| is_slow && s.progress.elapsed() >= SETUP_TIMEOUT) {
            slowest.turn.set(Stage::Revoked);
        }
        false
    }

    /// The index of the client to be served next: the first of the address that was served longest ago. The hellos of UDP
    /// streams have no cookie, so an address has one such set-up at a time.
    fn next_waiting(&self) -> Option<usize> {
        let is_greeting = |peer: IpAddr| {
            self.sessions.iter().any(|s| s.is_udp && s.peer == peer && s.turn.stage() == Stage::SettingUp)
        };
        let may = |waiting: &Waiting| {
            let is_udp = match &waiting.request {
                Request::Probe => true,
                Request::Test(admitted) => admitted.spec.protocol == Protocol::Udp,
            };
            !(is_udp && is_greeting(waiting.peer.ip()))
        };
        let order = |waiting: &Waiting| self.last_begun.get(&share_key(waiting.peer)).copied().unwrap_or(0);
        let candidates = self.waiting.iter().enumerate().filter(|(_, waiting)| may(waiting));
        candidates.min_by_key(|(index, waiting)| (order(waiting), *index)).map(|(index, _)| index)
    }

    fn begin_set_up(&mut self, waiting: Waiting, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        let expected = self.expected(&waiting.request);
        let Waiting { control, peer, cookie, request, .. } = waiting;
        self.begun += 1;
        self.last_begun.insert(share_key(peer), self.begun);
        let still =
            |key: &IpAddr| self.waiting.iter().any(|w| share_key(w.peer) == *key) || *key == share_key(peer);
        self.last_begun.retain(|key, _| still(key));
        // Enough for all streams of the largest test.
        let (arrivals, receiver) = sync_channel(2 * STREAMS_MAX as usize);
        let wake = self.ended.try_clone().attempted(|| "cannot duplicate a pipe".into())?;
        let (server, observer, stop, served) = (self.server, self.observer, self.stop, self.served);
        let wants_datagrams = Arc::new(AtomicBool::new(false));
        let wants = wants_datagrams.clone();
        let (is_udp, streams, stage) = match &request {
            // A probe's server answers as soon as its datagrams come: it has its turn before.
            Request::Probe => (true, 1, Stage::Running),
            Request::Test(admitted) => {
                let spec = &admitted.spec;
                (spec.protocol == Protocol::Udp, account::stream_count(spec), Stage::SettingUp)
            }
        };
        let turn = Arc::new(Turn::new(wake, stage));
        let others_wait = !self.waiting.is_empty();
        let own = Arc::clone(&turn);
        let body = move || {
            let control = control.into();
            match request {
                Request::Probe => {
                    wants.store(true, Ordering::Release);
                    let options = &server.options;
                    session::serve_probe(control, peer, &receiver, others_wait, options, stop, observer);
                    served.fetch_add(1, Ordering::AcqRel);
                }
                Request::Test(admitted) => {
                    let client = session::Client {
                        control,
                        peer,
                        cookie,
                        arrivals: receiver,
                        wants_datagrams: wants,
                        turn: Arc::clone(&own),
                        admitted: *admitted,
                    };
                    let began =
                        session::serve(client, server.address.port(), &server.options, stop, observer);
                    served.fetch_add(usize::from(began), Ordering::AcqRel);
                }
            }
            // The router checks its sessions now and then anyway.
            own.announce(Stage::Over);
        };
        let thread = std::thread::Builder::new()
            .name("test".into())
            .spawn_scoped(scope, body)
            .attempted(|| "cannot make a thread for a test".into())?;
        let now = Instant::now();
        let granted = (stage == Stage::Running).then_some(now);
        let peer = peer.ip();
        self.sessions.push(Session {
            cookie,
            peer,
            arrivals,
            wants_datagrams,
            thread,
            turn,
            streams,
            is_udp,
            expected,
            begun: now,
            progress: now,
            granted,
        });
        Ok(())
    }
}
