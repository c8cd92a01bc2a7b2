//! One thread takes all connections in. The first with a new cookie is a client's control connection, which waits until it is
//! its turn; further ones are its streams. Nobody here waits for anybody: sockets do not block, and all have deadlines.

use std::{
    collections::VecDeque,
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
    datagrams::{Hellos, Said},
    greeting::{Greeting, Progress, deny},
    session::{self, Arrival},
};
use crate::{
    Error as SystemError,
    error::Attempted,
    iperf3::{
        Error, IpVersion,
        wire::{Cookie, STREAMS_MAX},
    },
    sys,
};

/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(100);
/// Connections that have not said whose they are; of more the oldest goes.
const GREETINGS_MAX: usize = 256;
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
                waiting: VecDeque::new(),
                sessions: Vec::new(),
                connections: 0,
                accept_after: Instant::now(),
            };
            router.run(scope)
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
}

/// A client whose test is under way.
struct Session<'scope> {
    cookie: Cookie,
    peer: IpAddr,
    arrivals: SyncSender<Arrival>,
    /// It waits for UDP streams.
    wants_datagrams: Arc<AtomicBool>,
    thread: ScopedJoinHandle<'scope, ()>,
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
    waiting: VecDeque<Waiting>,
    sessions: Vec<Session<'scope>>,
    /// Accepted so far.
    connections: u64,
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
            if options.one_off && self.sessions.is_empty() {
                if served {
                    return Ok(());
                }
                if let Some(idle) = options.idle_timeout.filter(|idle| begin.elapsed() >= *idle) {
                    return Err(Error::Timeout { what: "client", after: idle });
                }
            }
            self.start_next(scope)?;
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
        files.extend(self.waiting.iter().map(|waiting| waiting.control.as_fd()));
        let ready = sys::wait_any(&files, NAP).attempted(|| "cannot wait for connections".into())?;
        drop(files);
        let (greetings, waiting) = ready[fixed..].split_at(self.greetings.len());
        let (greetings, waiting) = (greetings.to_vec(), waiting.to_vec());
        if ready[0] {
            // Does not block: there is something. What it says is seen by looking at the sessions.
            self.wake.read(&mut [0; 256]).map(drop).attempted(|| "cannot read from a pipe".into())?;
        }
        self.look_at_waiting(&waiting);
        self.look_at_greetings(&greetings);
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
                        self.greetings.pop_front();
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
            let Some(session) = self.sessions.iter().find(waits) else { continue };
            self.connections += 1;
            match self.server.hellos.stream(peer, self.server.options.device.as_deref()) {
                // A client has no more streams than there is room for.
                Ok(socket) => drop(session.arrivals.try_send(Arrival { number: self.connections, socket })),
                Err(error) => self.observer.note(&error.to_string()),
            }
        }
    }

    /// A stream goes to its test, a new client to the end of the queue.
    fn route(&mut self, greeting: Greeting, cookie: Cookie) {
        let Greeting { socket, peer, number, .. } = greeting;
        if let Some(session) = self.sessions.iter().find(|session| session.cookie == cookie) {
            let arrival = Arrival { number, socket };
            if session.peer != peer.ip() {
                return deny(&arrival.socket);
            }
            match session.arrivals.try_send(arrival) {
                Ok(()) => {}
                // Nobody waits for it.
                Err(TrySendError::Full(arrival) | TrySendError::Disconnected(arrival)) => {
                    deny(&arrival.socket)
                }
            }
            return;
        }
        let taken = self.waiting.iter().any(|waiting| waiting.cookie == cookie);
        if taken || self.waiting.len() >= self.server.options.queue {
            return deny(&socket);
        }
        self.waiting.push_back(Waiting { control: socket, peer, cookie, since: Instant::now() });
    }

    /// Those who wait have nothing to say: who does is gone, or no client. Who waited too long is told so.
    fn look_at_waiting(&mut self, ready: &[bool]) {
        let patience = self.server.options.queue_timeout;
        let mut index = 0;
        self.waiting.retain(|waiting| {
            let speaks = ready.get(index).copied().unwrap_or(false);
            index += 1;
            let late = waiting.since.elapsed() >= patience;
            if late && !speaks {
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
                if session.thread.join().is_err() {
                    self.observer.note("a test's thread failed; the others go on");
                }
            } else {
                index += 1;
            }
        }
    }

    /// Begins the tests of those whose turn it is.
    fn start_next(&mut self, scope: &'scope Scope<'scope, 'env>) -> Result<(), Error> {
        let options = &self.server.options;
        while self.sessions.len() < options.clients.max(1) {
            if options.one_off && self.served.load(Ordering::Acquire) + self.sessions.len() > 0 {
                return Ok(());
            }
            let Some(Waiting { control, peer, cookie, .. }) = self.waiting.pop_front() else { return Ok(()) };
            // Enough for all streams of the largest test.
            let (arrivals, receiver) = sync_channel(2 * STREAMS_MAX as usize);
            let ended = self.ended.try_clone().attempted(|| "cannot duplicate a pipe".into())?;
            let (server, observer, stop, served) = (self.server, self.observer, self.stop, self.served);
            let wants_datagrams = Arc::new(AtomicBool::new(false));
            let wants = wants_datagrams.clone();
            let body = move || {
                let control = control.into();
                let client =
                    session::Client { control, peer, cookie, arrivals: receiver, wants_datagrams: wants };
                let began = session::serve(client, server.address.port(), &server.options, stop, observer);
                served.fetch_add(usize::from(began), Ordering::AcqRel);
                // The router looks now and then anyway.
                let _ = (&ended).write(&[0]);
            };
            let thread = std::thread::Builder::new()
                .name("test".into())
                .spawn_scoped(scope, body)
                .attempted(|| "cannot make a thread for a test".into())?;
            self.sessions.push(Session { cookie, peer: peer.ip(), arrivals, wants_datagrams, thread });
        }
        Ok(())
    }
}
