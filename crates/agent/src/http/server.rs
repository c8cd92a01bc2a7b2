//! Serves HTTP/1.1 connections. Every wait for a client has a deadline, and the resources that clients can
//! occupy are limited:
//!
//! - headers that arrive too slowly, and connections without a request: [`Limits::request`]
//! - responses that are not read, or are read too slowly: [`Limits::part`]
//! - all open connections and unread responses: beyond the maximum, the connection that has waited longest
//!   for its client is closed; a new connection is refused if the requests of all other connections are being
//!   processed
//!
//! The documents of requests have their own deadline ([`super::BODY_TIMEOUT`]). If one is not read, the
//! connection is closed after the response.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::HttpBody,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{Sleep, sleep},
};

/// Pause after an error of accept(2), as when no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Largest size of a request's headers, bytes.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// Send buffer of a connection, bytes: the maximum that the kernel buffers for a client that does not read.
const SEND_BUFFER_BYTES: usize = 512 * 1024;
/// Part of a response that must be read within [`Limits::part`], bytes.
const PART_BYTES: usize = 64 * 1024;

/// The response if no connection can be closed for a new one.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nContent-Length: 39\r\nRetry-After: 1\r\n\
                    Connection: close\r\n\r\ntoo many connections; repeat it later.\n";

/// Limits on the resources that clients use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Time until the headers of a request are complete, from the opening of the connection or the end of the
    /// previous response.
    pub request: Duration,
    /// Time for each 64 KiB of a response.
    pub part: Duration,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum size of all responses that have not been read, bytes.
    pub unread_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            request: Duration::from_secs(20),
            part: Duration::from_secs(20),
            connections: 256,
            unread_bytes: 64 << 20,
        }
    }
}

/// A connection, as far as limits need to know it.
struct Connection {
    /// Its request is complete, its response is not.
    is_working: bool,
    /// The part of its response that the kernel has not accepted, bytes.
    unread_bytes: usize,
    /// When its client last read or requested something.
    active: Instant,
    task: Option<AbortHandle>,
}

/// The open connections.
struct Connections {
    limits: Limits,
    open: Mutex<BTreeMap<u64, Connection>>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Connection>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.lock().get_mut(&number) {
            change(connection);
            connection.active = Instant::now();
        }
    }

    /// Whether one more connection can be served: there is space, or a connection that waits for its client
    /// can be closed.
    fn has_space(&self) -> bool {
        let open = self.lock();
        open.len() < self.limits.connections || open.values().any(|connection| !connection.is_working)
    }

    /// Closes connections until the maxima hold.
    fn limit(&self) {
        let mut open = self.lock();
        loop {
            let unread: usize = open.values().map(|connection| connection.unread_bytes).sum();
            let longest_waiting = |min_unread_bytes: usize| {
                let waits = |connection: &Connection| {
                    !connection.is_working && connection.unread_bytes >= min_unread_bytes
                };
                let waiting = open.iter().filter(|(_, connection)| waits(connection));
                waiting.min_by_key(|(_, connection)| connection.active).map(|(number, _)| *number)
            };
            let (has_too_much, has_too_many) =
                (unread > self.limits.unread_bytes, open.len() > self.limits.connections);
            let unread = has_too_much.then(|| longest_waiting(1)).flatten();
            let Some(number) = unread.or_else(|| has_too_many.then(|| longest_waiting(0)).flatten()) else {
                return;
            };
            if let Some(task) = open.remove(&number).and_then(|connection| connection.task) {
                task.abort();
            }
        }
    }
}

/// Serves a router, forever.
pub(super) async fn serve(listener: TcpListener, router: Router, limits: Limits) -> io::Result<()> {
    let connections = Arc::new(Connections { limits, open: Mutex::default() });
    let mut number = 0;
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("cannot accept an HTTP connection: {error}");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if !connections.has_space() {
            refuse(&stream);
            continue;
        }
        number += 1;
        let connection =
            Connection { is_working: false, unread_bytes: 0, active: Instant::now(), task: None };
        connections.lock().insert(number, connection);
        let served = serve_connection(stream, router.clone(), Arc::clone(&connections), number);
        let task = tokio::spawn(served).abort_handle();
        connections.change(number, |connection| connection.task = Some(task));
        connections.limit();
    }
}

/// Sends a client the response that all connections are in use, as far as the kernel accepts it without
/// blocking.
fn refuse(stream: &TcpStream) {
    // An unread request would make the kernel reset the connection.
    let _ = stream.try_read(&mut [0; MAX_HEADER_BYTES]);
    let _ = stream.try_write(FULL.as_bytes());
}

async fn serve_connection(stream: TcpStream, router: Router, connections: Arc<Connections>, number: u64) {
    let limits = connections.limits;
    let socket = socket2::SockRef::from(&stream);
    let prepared = socket
        .set_send_buffer_size(SEND_BUFFER_BYTES)
        .and_then(|()| socket.set_tcp_user_timeout(Some(limits.part)))
        .and_then(|()| stream.set_nodelay(true));
    if let Err(error) = prepared {
        tracing::debug!("cannot prepare an HTTP connection: {error}");
    }
    let handle = ConnectionHandle { connections, number };
    let stream =
        WatchedStream { stream, handle: handle.clone(), part: limits.part, taken: 0, deadline: None };
    let router = router.layer(middleware::from_fn_with_state(handle.clone(), follow_request));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
        .await;
    if let Err(error) = served {
        tracing::debug!("an HTTP connection ended: {error}");
    }
    handle.connections.lock().remove(&number);
}

/// Access to a connection's entry in the list of open connections.
#[derive(Clone)]
struct ConnectionHandle {
    connections: Arc<Connections>,
    number: u64,
}

/// Follows a request: a connection is not closed in favour of others while its client waits for the response.
async fn follow_request(State(handle): State<ConnectionHandle>, request: Request, next: Next) -> Response {
    handle.connections.change(handle.number, |connection| connection.is_working = true);
    let response = next.run(request).await;
    let length = response.body().size_hint().lower();
    handle.connections.change(handle.number, |connection| {
        connection.is_working = false;
        connection.unread_bytes = usize::try_from(length).unwrap_or(usize::MAX);
    });
    handle.connections.limit();
    response
}

/// A stream whose client must read.
struct WatchedStream {
    stream: TcpStream,
    handle: ConnectionHandle,
    part: Duration,
    /// Bytes of the current part that the kernel has accepted.
    taken: usize,
    /// Deadline by which the kernel must accept the current part; `None` if no data waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl WatchedStream {
    /// The outcome of a write, which must not take longer than allowed.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.handle.connections.change(self.handle.number, |connection| {
                    connection.unread_bytes = connection.unread_bytes.saturating_sub(bytes);
                });
                self.taken += bytes;
                if self.taken >= PART_BYTES {
                    self.taken = 0;
                    self.deadline = None;
                }
                Poll::Ready(Ok(bytes))
            }
            Poll::Pending => {
                let part = self.part;
                let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(part)));
                ready!(deadline.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
            failed => failed,
        }
    }
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// The kernel has accepted the whole response.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.taken = 0;
        self.deadline = None;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read, Write},
        net::{SocketAddr, TcpStream},
        sync::atomic::{AtomicBool, AtomicUsize, Ordering},
        thread,
    };

    use axum::routing::get;
    use socket2::{Domain, Socket, Type};

    use super::*;

    /// Larger than what the kernel buffers at both ends.
    const LARGE_BYTES: usize = 16 << 20;
    /// Longer than any step of these tests takes on a busy machine.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Number of requests of `/held` that have begun, and whether they end. One test uses them.
    static HELD: AtomicUsize = AtomicUsize::new(0);
    static IS_RELEASED: AtomicBool = AtomicBool::new(false);

    const SHORT: Limits = Limits {
        request: Duration::from_secs(2),
        part: Duration::from_secs(2),
        connections: 20,
        unread_bytes: 3 * LARGE_BYTES,
    };

    /// Starts a server that runs until the test program ends.
    fn start(limits: Limits) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let router = Router::new()
                    .route("/small", get(|| async { "small" }))
                    .route("/large", get(|| async { vec![b'x'; LARGE_BYTES] }))
                    .route(
                        "/held",
                        get(|| async {
                            HELD.fetch_add(1, Ordering::SeqCst);
                            while !IS_RELEASED.load(Ordering::SeqCst) {
                                sleep(Duration::from_millis(10)).await;
                            }
                            "released"
                        }),
                    )
                    .route(
                        "/slow",
                        get(|| async {
                            sleep(2 * SHORT.request).await;
                            "slow"
                        }),
                    );
                let listener = TcpListener::from_std(listener).unwrap();
                serve(listener, router, limits).await
            })
        });
        address
    }

    /// A client whose kernel buffers little.
    fn connect(address: SocketAddr) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.connect(&address.into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    fn request(stream: &mut TcpStream, path: &str) {
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    }

    /// Reads until the server closes; the number of bytes.
    fn read_to_end(stream: &mut TcpStream) -> usize {
        let (mut count, mut buffer) = (0, [0; 64 * 1024]);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return count,
                Ok(length) => count += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it was not closed"),
                Err(_) => return count,
            }
        }
    }

    /// A regular client gets the whole response.
    fn assert_serves(address: SocketAddr) {
        let mut stream = connect(address);
        write!(stream, "GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let length = read_to_end(&mut stream);
        assert!(length > LARGE_BYTES, "{length} bytes");
    }

    #[test]
    fn slow_requests_and_idle_connections_are_closed() {
        let address = start(SHORT);
        thread::scope(|scope| {
            // Clients that send nothing at all, and clients that send nothing after a response.
            let mut silent = connect(address);
            let mut idle = connect(address);
            request(&mut idle, "/small");
            // A header that never ends.
            let mut slow = connect(address);
            let trickle = scope.spawn(move || {
                write!(slow, "GET /small HTTP/1.1\r\nX: ").unwrap();
                slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                let begin = Instant::now();
                loop {
                    assert!(begin.elapsed() < TIMEOUT, "it was not closed");
                    let written = slow.write_all(b"x");
                    match slow.read(&mut [0; 16]) {
                        Ok(0) => return,
                        Err(error) if error.kind() != ErrorKind::WouldBlock => return,
                        _ if written.is_err() => return,
                        _ => {}
                    }
                }
            });
            // A response that takes longer than a request may.
            let mut patient = connect(address);
            request(&mut patient, "/slow");
            for _ in 0..3 {
                assert_serves(address);
            }
            assert_eq!(read_to_end(&mut silent), 0);
            assert!(read_to_end(&mut idle) > 0);
            assert!(read_to_end(&mut patient) > 0);
            trickle.join().unwrap();
        });
    }

    #[test]
    fn a_request_whose_body_stalls_times_out() {
        let address = start(SHORT);
        let mut stream = connect(address);
        write!(stream, "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc").unwrap();
        assert!(read_to_end(&mut stream) > 0, "it is refused");
        assert_serves(address);
    }

    #[test]
    fn responses_that_clients_read_slowly_or_not_at_all_are_cut_off() {
        let address = start(SHORT);
        let mut never = connect(address);
        request(&mut never, "/large");
        let mut slow = connect(address);
        request(&mut slow, "/large");
        // One byte now and then: far below the required rate of a part.
        let begin = Instant::now();
        while begin.elapsed() < 3 * SHORT.part {
            if !matches!(slow.read(&mut [0; 1]), Ok(1)) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        assert_serves(address);
        for mut stream in [never, slow] {
            let length = read_to_end(&mut stream);
            assert!(length < LARGE_BYTES, "{length} bytes");
        }
    }

    #[test]
    fn requests_in_progress_are_limited() {
        let address = start(SHORT);
        let mut busy: Vec<TcpStream> = (0..SHORT.connections).map(|_| connect(address)).collect();
        busy.iter_mut().for_each(|stream| request(stream, "/held"));
        let begin = Instant::now();
        while HELD.load(Ordering::SeqCst) < SHORT.connections {
            assert!(begin.elapsed() < TIMEOUT, "the requests did not arrive");
            thread::sleep(Duration::from_millis(10));
        }
        for _ in 0..3 {
            // No request is sent: it would arrive after the connection is closed, and reset it.
            let mut response = String::new();
            connect(address).read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
            assert!(response.ends_with("\r\n\r\ntoo many connections; repeat it later.\n"), "{response}");
        }
        IS_RELEASED.store(true, Ordering::SeqCst);
        for stream in &mut busy {
            let mut response = [0; 12];
            stream.read_exact(&mut response).unwrap();
            assert_eq!(&response, b"HTTP/1.1 200");
        }
        assert_serves(address);
    }

    #[test]
    fn above_the_limits_the_connections_that_waited_longest_are_closed() {
        let address = start(Limits { request: TIMEOUT, part: TIMEOUT, ..SHORT });
        let mut silent: Vec<TcpStream> = (0..2 * SHORT.connections).map(|_| connect(address)).collect();
        assert_serves(address);
        for stream in &mut silent[..SHORT.connections] {
            assert_eq!(read_to_end(stream), 0);
        }
        // More unread responses than allowed: the oldest is cut off.
        let mut unread: Vec<TcpStream> = Vec::new();
        for _ in 0..6 {
            let mut stream = connect(address);
            request(&mut stream, "/large");
            // The beginning of the response has arrived.
            stream.read_exact(&mut [0; 16]).unwrap();
            unread.push(stream);
        }
        let length = read_to_end(&mut unread[0]);
        assert!(length < LARGE_BYTES, "{length} bytes");
        assert_serves(address);
    }
}
