//! A udt or tsunami flow of the scenario between two hosts: the ends of `bulk::flow` over UDP sockets, each on its
//! own thread, and Tsunami's control connection over TCP.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bulk::flow::{End, Plan, Receiver, ReceiverCounts, Sender, SenderCounts};
use engine_common::bulk_plan;
use scenario::Scenario;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use traffic::{
    Stop,
    udp::{Incoming, Outgoing, bind_bulk, elapsed},
};
use units::Time;

use crate::{Error, error::Attempted, host::Host};

/// A sender that sleeps between packets sleeps at least this long, and sends what was due in one batch.
const MIN_SLEEP: Duration = Duration::from_micros(100);
/// Interval at which an end checks whether the flow has been stopped.
const STOP_POLL: Duration = Duration::from_millis(20);
/// Rounds of receiving before timers run again.
const MAX_ROUNDS: usize = 8;
/// A time of arrival before this is an error: the clock was set.
const MAX_AGE_NS: u64 = 100_000_000;

/// The protocol's plan of a flow, and its addresses.
#[derive(Debug, Clone)]
pub(crate) struct BulkPlan {
    plan: Plan,
    from: IpAddr,
    to: IpAddr,
}

/// The counts of both ends, for the sampler.
#[derive(Debug, Default)]
pub(crate) struct BulkCounts {
    ends: Mutex<(SenderCounts, ReceiverCounts)>,
    /// Datagrams dropped because the receiver's socket buffer was full.
    pub(crate) dropped_at_socket: AtomicU64,
}

impl BulkCounts {
    pub(crate) fn get(&self) -> (SenderCounts, ReceiverCounts) {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, (SenderCounts, ReceiverCounts)> {
        self.ends.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl BulkPlan {
    /// The plan of flow number `index`; `None` for flows of other kinds.
    pub(crate) fn new(scenario: &Scenario, index: usize) -> Option<Self> {
        let flow = &scenario.flows[index];
        let plan = bulk_plan(scenario, flow, index)?;
        let (from, to) = scenario.flow_addresses(flow)?;
        Some(BulkPlan { plan, from, to })
    }
}

/// The sockets of both ends, bound and connected.
pub(crate) struct BulkEnds {
    plan: Plan,
    sender: Sockets,
    receiver: Sockets,
}

/// What a flow has reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Milestone {
    /// Data can be sent.
    Connected,
    /// The last byte has arrived.
    Complete,
}

/// The sockets of one end.
struct Sockets {
    udp: Socket,
    control: Option<ControlSocket>,
}

/// Binds the sockets of both ends, and opens the control connection from the receiver's host. `None` if the flow is stopped
/// meanwhile.
pub(crate) fn connect(
    plan: &BulkPlan,
    from: &Host,
    to: &Host,
    stop: &Stop,
) -> Result<Option<BulkEnds>, Error> {
    let bound = |address: IpAddr| {
        bind_bulk(SocketAddr::new(address, 0)).attempted(|| format!("bind a UDP socket to {address}"))
    };
    let here = from.namespace.run(|| bound(plan.from))?;
    let there = to.namespace.run(|| bound(plan.to))?;
    for (one, other) in [(&here, &there), (&there, &here)] {
        other
            .local_addr()
            .and_then(|address| one.connect(&address))
            .attempted(|| "connect a UDP socket".into())?;
    }
    let mut sender = Sockets { udp: here, control: None };
    let mut receiver = Sockets { udp: there, control: None };
    if plan.plan.has_control_connection() {
        let listener = from.namespace.run(|| {
            TcpListener::bind(SocketAddr::new(plan.from, 0)).attempted(|| format!("listen at {}", plan.from))
        })?;
        let opened = to.namespace.run(|| open_control(&listener, stop));
        let Some((client, server)) = opened? else { return Ok(None) };
        sender.control = Some(server);
        receiver.control = Some(client);
    }
    Ok(Some(BulkEnds { plan: plan.plan, sender, receiver }))
}

/// Connects to a listener; returns both ends, or `None` if the flow is stopped before.
fn open_control(
    listener: &TcpListener,
    stop: &Stop,
) -> Result<Option<(ControlSocket, ControlSocket)>, Error> {
    let connect = || {
        let address = listener.local_addr()?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SockAddr::from(address)) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        while !os::wait_connected(&[socket.as_fd()], STOP_POLL)?[0] {
            if stop.is_set() {
                return Ok(None);
            }
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // Its SYN has arrived, so `accept` waits for no more than the last ACK of the handshake.
        while !os::wait_readable(listener, STOP_POLL)? {
            if stop.is_set() {
                return Ok(None);
            }
        }
        let (server, _) = listener.accept()?;
        Ok(Some((ControlSocket::new(socket.into())?, ControlSocket::new(server)?)))
    };
    connect().attempted(|| "open a control connection".into())
}

impl BulkEnds {
    /// The socket whose `tcp_info` has the round-trip time of the control connection.
    pub(crate) fn control_socket(&self) -> io::Result<Option<Socket>> {
        let control = self.receiver.control.as_ref();
        control.map(|control| control.stream.try_clone().map(Socket::from)).transpose()
    }

    /// Runs both ends until all data has arrived, or `stop` is set; sets it at the end. Calls `note` at each milestone.
    pub(crate) fn run(
        self,
        stop: &Stop,
        counts: &BulkCounts,
        note: impl Fn(Milestone) + Sync,
    ) -> io::Result<()> {
        let BulkEnds { plan, sender, receiver } = self;
        let start = Instant::now();
        let port = receiver.udp.local_addr()?.as_socket().map_or(0, |address| address.port());
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut is_complete = false;
                let ended = drive(Receiver::new(&plan, port), receiver, start, stop, |receiver, dropped| {
                    let now = receiver.counts();
                    if now.is_complete && !is_complete {
                        is_complete = true;
                        note(Milestone::Complete);
                    }
                    counts.lock().1 = now;
                    counts.dropped_at_socket.store(dropped.into(), Ordering::Relaxed);
                    // It acknowledges until the sender has ended.
                    false
                });
                stop.set();
                ended
            });
            let mut is_connected = false;
            let sending = drive(Sender::new(&plan, Time::ZERO), sender, start, stop, |sender, _| {
                let now = sender.counts();
                if now.is_connected && !is_connected {
                    is_connected = true;
                    note(Milestone::Connected);
                }
                counts.lock().0 = now;
                now.is_complete
            });
            stop.set();
            let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sending.and(received)
        })
    }
}

/// Runs one end until `publish`, which gets the end and the datagrams dropped at its socket, returns true, or `stop` is set.
fn drive<E: End>(
    mut end: E,
    sockets: Sockets,
    start: Instant,
    stop: &Stop,
    mut publish: impl FnMut(&E, u32) -> bool,
) -> io::Result<()> {
    os::reduce_timer_slack();
    let Sockets { udp, mut control } = sockets;
    let (mut incoming, mut outgoing) = (Incoming::default(), Outgoing::default());
    loop {
        for _ in 0..MAX_ROUNDS {
            let now = elapsed(start);
            // The kernel's times of arrival: packets of one call would otherwise seem to arrive together.
            let has_more = incoming.receive(&udp, |bytes, age_ns| {
                end.handle_datagram(now.saturating_sub(Time(age_ns.min(MAX_AGE_NS))), bytes);
            })?;
            if !has_more {
                break;
            }
        }
        if let Some(control) = &mut control {
            control.read(|bytes| end.handle_control(elapsed(start), bytes))?;
        }
        if end.next_timeout() <= elapsed(start) {
            end.handle_timeout(elapsed(start));
        }
        loop {
            let now = elapsed(start);
            while !outgoing.is_full() && outgoing.add(|out| end.poll_transmit(now, out)) {}
            let is_full = outgoing.is_full();
            outgoing.flush(&udp)?;
            if !is_full {
                break;
            }
        }
        if let Some(control) = &mut control {
            control.write(&end.take_control())?;
        }
        if publish(&end, incoming.dropped()) || stop.is_set() {
            return Ok(());
        }
        if let Some(failure) = end.failure() {
            return Err(io::Error::other(failure));
        }
        let due = end.next_timeout().saturating_sub(elapsed(start));
        let pause = Duration::from_nanos(due.as_nanos()).clamp(MIN_SLEEP, STOP_POLL);
        let control = control.as_ref().filter(|control| !control.has_ended).map(ControlSocket::fd);
        let files: Vec<BorrowedFd<'_>> = std::iter::once(udp.as_fd()).chain(control).collect();
        os::wait_any(&files, pause)?;
    }
}

/// One end of a control connection.
struct ControlSocket {
    stream: TcpStream,
    /// Bytes that the socket has not taken yet.
    unwritten: Vec<u8>,
    /// The peer has closed its end.
    has_ended: bool,
}

impl ControlSocket {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(ControlSocket { stream, unwritten: Vec::new(), has_ended: false })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Calls `each` with all bytes that have arrived.
    fn read(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut buffer = [0; 4096];
        while !self.has_ended {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(count) => each(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The other end has left the flow: that is not a failure of this one.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => self.has_ended = true,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes bytes; what the socket does not take is written by the next call.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.unwritten.extend_from_slice(bytes);
        while !self.unwritten.is_empty() && !self.has_ended {
            match self.stream.write(&self.unwritten) {
                Ok(count) => drop(self.unwritten.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.has_ended = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
