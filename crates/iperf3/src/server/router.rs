//! One thread accepts all connections. The first with a new cookie is a client's control connection: the
//! router receives and checks its parameters, then queues it. Further connections with that cookie are its
//! streams. No client can block another: sockets are non-blocking, and all steps have deadlines.
//!
//! Turns: while a turn is free, the router sets up the first queued client, that is, its streams are
//! connected. If that takes long, it starts to set up the next client too; the first client whose streams are
//! connected gets the turn. Addresses are served round-robin.

mod turns;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{ErrorKind, PipeReader, PipeWriter, Read, Write},
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::{Receiver, TrySendError, channel},
    },
    thread::Scope,
    time::{Duration, Instant},
};

use socket2::Socket;
use traffic::Attempted;

use self::turns::SessionHandle;
use super::{
    ServerObserver, ServerOptions,
    admission::{Admission, Admitted, canonical, largest_share, share_key},
    listener::{listen_at_any, listen_on_same_port},
    turn::Stage,
    udp_listener::{UdpListener, UdpRequest},
};
use crate::{
    Error,
    arrival::Arrival,
    connect::KEEPALIVE,
    greeting::{Greeting, Progress, deny},
    renewal::Renewal,
    report::Report,
    reverse::{self, Dialed, LocalEnd, Outlet},
    service::Service,
    wire::{Cookie, QueueNotice},
};

/// Maximum time between two checks for a stop.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum time between two checks for a stop while clients are queued and a turn is free.
const SHORT_POLL_TIMEOUT: Duration = Duration::from_millis(20);
/// Maximum number of connections without a complete cookie; beyond it the oldest of the address with the most
/// is closed.
const GREETINGS_MAX: usize = 256;
/// Maximum number of clients without complete parameters; beyond it the oldest of the address with the most
/// is rejected.
const ADMISSIONS_MAX: usize = 256;
/// Initial estimate of the duration of a test of an amount.
const UNKNOWN_DURATION: Duration = Duration::from_secs(1);
/// Maximum number of datagrams that are read before other sockets are served.
const MAX_DATAGRAMS_PER_TURN: usize = 64;
/// Connections of iperf 2 clients are reported at most this often.
const IPERF2_NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Pause in accepting connections after a failure, for example when no descriptors are free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: Mutex<Socket>,
    udp_listener: UdpListener,
    address: SocketAddr,
    options: ServerOptions,
    services: Vec<Box<dyn Service>>,
}

impl Server {
    /// Starts listening.
    ///
    /// # Errors
    /// If the address or port cannot be used.
    pub fn bind(options: ServerOptions) -> Result<Server, Error> {
        let listener = listen_at_any(&options, options.port)?;
        let address = listener.local_addr().attempted(|| "read the server's address".into())?;
        let address =
            address.as_socket().unwrap_or_else(|| SocketAddr::new(IpAddr::from([0; 4]), options.port));
        let udp_listener = UdpListener::listen(address, options.ip, options.device.as_deref())?;
        Ok(Server { listener: Mutex::new(listener), udp_listener, address, options, services: Vec::new() })
    }

    /// Also serves another protocol at the same port.
    #[must_use]
    pub fn with_service(mut self, service: Box<dyn Service>) -> Server {
        self.services.push(service);
        self
    }

    /// The address and port at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is set, or with `one_off` one client. Errors of tests are reported to the
    /// observer. Raises the process's soft limit of open files.
    ///
    /// # Errors
    /// If the router cannot wait for connections or create threads; with `one_off`, if no client connects.
    pub fn run(&self, stop: &AtomicBool, observer: &dyn ServerObserver) -> Result<(), Error> {
        // Otherwise the soft limit remains, which suffices for some clients.
        let _ = os::raise_file_limit();
        let (wake, ended) = std::io::pipe().attempted(|| "create a pipe".into())?;
        let served = AtomicUsize::new(0);
        let duplicate = || ended.try_clone().attempted(|| "duplicate a pipe".into());
        let renewal = Renewal::new(duplicate()?);
        let dialed_wake = duplicate()?;
        let over = AtomicBool::new(false);
        let stopped = || over.load(Ordering::Acquire) || stop.load(Ordering::Acquire);
        std::thread::scope(|scope| {
            let (sender, dialed) = channel();
            for target in &self.options.reverse {
                let outlet = Outlet { dialed: sender.clone(), wake: &dialed_wake };
                let (options, stopped) = (&self.options, &stopped);
                let local = LocalEnd { bind: options.bind, device: options.device.as_deref() };
                scope.spawn(move || {
                    reverse::stand_by(target, local, stopped, &|text| observer.note(text), &outlet);
                });
            }
            let mut router = Router {
                server: self,
                listener: self.listener.lock().unwrap_or_else(PoisonError::into_inner),
                renewal: &renewal,
                observer,
                stop,
                wake,
                ended,
                served: &served,
                dialed,
                greetings: VecDeque::new(),
                admissions: Vec::new(),
                waiting: VecDeque::new(),
                sessions: Vec::new(),
                connections: 0,
                begun: 0,
                last_begun: BTreeMap::new(),
                mean_duration: UNKNOWN_DURATION,
                iperf2_noted: None,
                accept_after: Instant::now(),
            };
            let ran = router.run(scope);
            over.store(true, Ordering::Release);
            // Clients whose test has not begun are dropped.
            for session in router.sessions.iter().filter(|session| session.is_set_up()) {
                session.turn.set(Stage::Revoked);
            }
            ran
        })
    }
}

/// A queued client.
struct Waiting<'env> {
    control: Socket,
    peer: SocketAddr,
    cookie: Cookie,
    since: Instant,
    request: Request<'env>,
}

/// A client's request.
enum Request<'env> {
    /// The service of another protocol.
    Service(&'env dyn Service),
    Test(Box<Admitted>),
}

struct Router<'scope, 'env> {
    server: &'env Server,
    listener: MutexGuard<'env, Socket>,
    renewal: &'env Renewal,
    observer: &'env dyn ServerObserver,
    stop: &'env AtomicBool,
    /// Becomes readable when a session has ended.
    wake: PipeReader,
    ended: PipeWriter,
    served: &'env AtomicUsize,
    /// Reverse connections, which this server has opened.
    dialed: Receiver<Dialed>,
    greetings: VecDeque<Greeting>,
    admissions: Vec<Admission>,
    waiting: VecDeque<Waiting<'env>>,
    sessions: Vec<SessionHandle<'scope>>,
    /// Number of accepted connections.
    connections: u64,
    /// Number of begun set-ups.
    begun: u64,
    /// The last set-up of each address, for the round-robin of addresses.
    last_begun: BTreeMap<IpAddr, u64>,
    /// Moving average of the duration of tests.
    mean_duration: Duration,
    /// When an iperf 2 client was last reported.
    iperf2_noted: Option<Instant>,
    accept_after: Instant,
}

impl<'scope, 'env> Router<'scope, 'env> {
    fn run(&mut self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        let begin = Instant::now();
        let options = &self.server.options;
        while !self.stop.load(Ordering::Acquire) {
            self.wait()?;
            self.renew_listener();
            self.remove_finished_sessions();
            let served = self.served.load(Ordering::Acquire) > 0;
            if options.one_off && served && !self.sessions.iter().any(SessionHandle::has_begun) {
                return Ok(());
            }
            let is_idle = options.one_off && self.sessions.is_empty();
            if let Some(idle) = options.idle_timeout.filter(|idle| is_idle && begin.elapsed() >= *idle) {
                return Err(Error::Timeout { what: "client", after: idle });
            }
            self.give_turns();
            self.begin_set_ups(scope);
        }
        Ok(())
    }

    /// Waits for events of the sockets, and handles them.
    fn wait(&mut self) -> Result<(), Error> {
        let accepts = Instant::now() >= self.accept_after;
        let mut files = vec![self.wake.as_fd(), self.server.udp_listener.socket().as_fd()];
        if accepts {
            files.push(self.listener.as_fd());
        }
        let fixed = files.len();
        files.extend(self.greetings.iter().map(Greeting::fd));
        files.extend(self.admissions.iter().map(Admission::fd));
        files.extend(self.waiting.iter().map(|waiting| waiting.control.as_fd()));
        let timeout =
            if self.waiting.is_empty() || !self.has_free_turn() { POLL_TIMEOUT } else { SHORT_POLL_TIMEOUT };
        let ready = os::wait_any(&files, timeout).attempted(|| "wait for connections".into())?;
        drop(files);
        let (greetings, others) = ready[fixed..].split_at(self.greetings.len());
        let (admissions, waiting) = others.split_at(self.admissions.len());
        if ready[0] {
            // Does not block, because the pipe is readable. The sessions themselves have the state.
            self.wake.read(&mut [0; 256]).map(drop).attempted(|| "read from a pipe".into())?;
        }
        self.take_dialed();
        self.check_waiting(waiting);
        self.read_admissions(admissions);
        self.read_greetings(greetings);
        if ready[1] {
            self.read_datagrams();
        }
        if accepts && ready[2] {
            self.accept();
        }
        Ok(())
    }

    /// Replaces the listening socket if a session requests it.
    fn renew_listener(&mut self) {
        let renewal = self.renewal;
        renewal.renew_if_requested(|| {
            let new = listen_on_same_port(&self.listener, &self.server.options)?;
            // Accepts the connections that the old socket has completed.
            self.accept();
            *self.listener = new;
            Ok(())
        });
    }

    /// Accepts all pending connections.
    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, peer)) => {
                    let Some(peer) = peer.as_socket() else { continue };
                    // Keepalives detect a client that vanishes, even while this end only sends datagrams.
                    if socket
                        .set_nonblocking(true)
                        .and_then(|()| socket.set_tcp_keepalive(&KEEPALIVE))
                        .is_ok()
                    {
                        self.greet(socket, peer);
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(e) => {
                    // Out of descriptors or memory: running sessions will release some.
                    self.observer.note(&format!("cannot accept a connection: {e}"));
                    self.accept_after = Instant::now() + ACCEPT_PAUSE;
                    return;
                }
            }
        }
    }

    /// Expects the cookie of a new connection.
    fn greet(&mut self, socket: Socket, peer: SocketAddr) {
        self.connections += 1;
        if self.greetings.len() >= GREETINGS_MAX {
            let keys: Vec<IpAddr> = self.greetings.iter().map(|g| share_key(g.peer)).collect();
            let index = largest_share(&keys, 0, false).unwrap_or(0);
            drop(self.greetings.remove(index));
        }
        self.greetings.push_back(Greeting::new(socket, peer, self.connections, Instant::now()));
    }

    /// Handles the reverse connections that have been opened, as if the client had opened them.
    fn take_dialed(&mut self) {
        while let Ok(Dialed { socket, peer, is_datagrams }) = self.dialed.try_recv() {
            if is_datagrams {
                self.add_datagram_stream(peer, true, |_| Ok(socket));
            } else {
                self.greet(socket, peer);
            }
        }
    }

    /// An iperf 2 client understands no reply: its connection is closed, and the reason is logged for the
    /// operator.
    fn note_iperf2(&mut self, peer: SocketAddr) {
        if self.iperf2_noted.is_none_or(|noted| noted.elapsed() >= IPERF2_NOTE_INTERVAL) {
            self.iperf2_noted = Some(Instant::now());
            self.observer.note(&format!(
                "{}: closed the connection of an iperf 2 client, whose protocol is another one: use an iperf3 client, or \
                 longfat serve --iperf2 and port 5001",
                SocketAddr::new(peer.ip().to_canonical(), peer.port())
            ));
        }
    }

    /// Reads from the greetings that are ready, and drops those that have timed out.
    fn read_greetings(&mut self, ready: &[bool]) {
        let timeout = self.server.options.phase_timeout;
        let all = std::mem::take(&mut self.greetings);
        for (index, mut greeting) in all.into_iter().enumerate() {
            let progress = match ready.get(index) {
                Some(true) => greeting.read(),
                _ => Progress::Partial,
            };
            match progress {
                Progress::Partial if greeting.since.elapsed() < timeout => self.greetings.push_back(greeting),
                Progress::Partial | Progress::Invalid => {}
                Progress::Iperf2 => self.note_iperf2(greeting.peer),
                Progress::Complete(cookie) => self.route(greeting, cookie),
            }
        }
    }

    /// A hello opens a stream of the oldest test that waits for one from its address; a running test's
    /// latency probe gets a reply. Other datagrams are ignored.
    fn read_datagrams(&mut self) {
        for _ in 0..MAX_DATAGRAMS_PER_TURN {
            let Some((datagram, request)) = self.server.udp_listener.next() else { return };
            let peer = datagram.from;
            match request {
                None => {}
                Some(UdpRequest::Echo { request, at }) => {
                    let is_its_test =
                        |s: &SessionHandle<'_>| s.cookie == request.cookie && s.peer == peer.ip();
                    if self.sessions.iter().any(is_its_test) {
                        self.server.udp_listener.reply(datagram, request, at);
                    }
                }
                Some(UdpRequest::Hello { is_of_service }) => {
                    self.add_datagram_stream(peer, is_of_service, |server| {
                        server.udp_listener.stream(datagram, server.options.device.as_deref())
                    });
                }
            }
        }
    }

    /// Passes a UDP socket to the oldest client that waits for one from this address. A service's client gets
    /// it only if the datagram is a service's hello (`is_of_service`): the last datagrams of an earlier
    /// client are not hellos.
    fn add_datagram_stream(
        &mut self,
        peer: SocketAddr,
        is_of_service: bool,
        open: impl FnOnce(&Server) -> Result<Socket, traffic::Error>,
    ) {
        let waits = |session: &&mut SessionHandle<'_>| {
            session.expects_hello(peer.ip()) && (is_of_service || !session.is_service)
        };
        let Some(session) = self.sessions.iter_mut().find(waits) else { return };
        if !session.is_first_hello(peer) {
            return;
        }
        session.progress = Instant::now();
        self.connections += 1;
        match open(self.server) {
            // The channel has space for all streams that a client may open.
            Ok(socket) => drop(session.arrivals.try_send(Arrival { number: self.connections, socket })),
            Err(error) => self.observer.note(&error.to_string()),
        }
    }

    /// Passes a stream to its test, queues a service's client, or requests the parameters of a new client.
    fn route(&mut self, greeting: Greeting, cookie: Cookie) {
        let Greeting { socket, peer, number, .. } = greeting;
        if let Some(session) = self.sessions.iter_mut().find(|session| session.cookie == cookie) {
            let arrival = Arrival { number, socket };
            if session.peer != peer.ip() {
                return deny(&arrival.socket);
            }
            match session.arrivals.try_send(arrival) {
                Ok(()) => session.progress = Instant::now(),
                // The test does not wait for more streams.
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
        if let Some(service) = self.server.services.iter().find(|service| service.accepts(&cookie)) {
            let request = Request::Service(service.as_ref());
            let waiting = Waiting { control: socket, peer, cookie, since: Instant::now(), request };
            return self.queue(waiting);
        }
        if self.admissions.len() >= ADMISSIONS_MAX {
            let keys: Vec<IpAddr> = self.admissions.iter().map(|a| share_key(a.peer)).collect();
            let index = largest_share(&keys, 0, false).unwrap_or(0);
            deny(&self.admissions.remove(index).socket);
        }
        // An error means that the client is already gone.
        self.admissions.extend(Admission::begin(socket, peer, cookie, &self.server.options));
    }

    /// Reads from the admissions that are ready, and drops those that have timed out.
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

    /// Appends a client to the queue. A full queue drops the last client of the address that has more than
    /// this client's address, otherwise this client.
    fn queue(&mut self, waiting: Waiting<'env>) {
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
                "{}: rejected: {limit} clients are already queued (--queue), for about {} s",
                canonical(dropped.peer),
                self.expected_wait(self.waiting.len()).as_secs()
            ));
            return deny(&dropped.control);
        }
        let ahead =
            self.waiting.len() + self.sessions.iter().filter(|s| s.is_running() || s.is_set_up()).count();
        if ahead >= self.server.options.clients.max(1) && !self.is_of_service(&waiting.request) {
            let wait = self.expected_wait(self.waiting.len());
            let peer = canonical(waiting.peer);
            self.observer.note(&format!("{peer}: queued: {ahead} clients ahead, about {} s", wait.as_secs()));
            let understands_notice = match &waiting.request {
                Request::Test(admitted) => admitted.params.longfat_queue > 0,
                Request::Service(service) => service.checks_token(),
            };
            if understands_notice {
                let wait_s = u32::try_from(wait.as_secs().max(1)).unwrap_or(u32::MAX);
                let notice = QueueNotice { ahead: u32::try_from(ahead).unwrap_or(u32::MAX), wait_s };
                // An error means that the client does not read.
                let _ = (&waiting.control).write(&notice.to_bytes());
            }
        }
        self.waiting.push_back(waiting);
    }

    /// Queued clients send nothing: a client whose connection is readable has disconnected, or violates the
    /// protocol, and is dropped. A client that has waited too long is rejected.
    fn check_waiting(&mut self, ready: &[bool]) {
        let timeout = self.server.options.queue_timeout;
        let mut index = 0;
        let observer = self.observer;
        self.waiting.retain(|waiting| {
            let is_readable = ready.get(index).copied().unwrap_or(false);
            index += 1;
            let is_late = waiting.since.elapsed() >= timeout;
            if is_late && !is_readable {
                let (peer, after) = (canonical(waiting.peer), timeout.as_secs_f64());
                observer.note(&format!("{peer}: rejected: queued for {after} s (--queue-timeout)"));
                deny(&waiting.control);
            }
            !is_readable && !is_late
        });
    }

    /// Removes the sessions that have ended.
    fn remove_finished_sessions(&mut self) {
        let mut index = 0;
        while index < self.sessions.len() {
            if self.sessions[index].thread.is_finished() {
                let session = self.sessions.swap_remove(index);
                if let Some(granted) = session.granted {
                    self.mean_duration = (self.mean_duration * 3 + granted.elapsed()) / 4;
                }
                if session.thread.join().is_err() {
                    self.observer.note("a test's thread failed; other tests continue");
                }
            } else {
                index += 1;
            }
        }
    }
}
