//! A udt, tsunami, stream or quic flow of the scenario between two hosts: the ends of `bulk::flow` over UDP
//! sockets, each on its own thread, and Tsunami's control connection over TCP.

use std::{
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    os::fd::AsFd,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bulk::flow::{Plan, Receiver, ReceiverCounts, Sender, SenderCounts};
use engine_common::bulk_plan;
use scenario::Scenario;
use socket2::{Domain, Protocol, Socket, Type};
use traffic::{
    Stop, begin_to_connect,
    bulk_end::{self, ControlSocket, Sockets},
    udp::bind_bulk,
};
use units::Instant;

use crate::{Error, OwnControl, error::Attempted, host::Host};

/// Interval at which a connection attempt checks whether the flow has been stopped.
const STOP_POLL: Duration = Duration::from_millis(20);

/// The protocol's plan of a flow, and its addresses.
#[derive(Debug, Clone)]
pub(crate) struct BulkPlan {
    plan: Plan,
    congestion: Option<OwnControl>,
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
    pub(crate) fn new(scenario: &Scenario, index: usize, congestion: Option<OwnControl>) -> Option<Self> {
        let flow = &scenario.flows[index];
        let plan = bulk_plan(scenario, flow, index)?;
        let (from, to) = scenario.flow_addresses(flow)?;
        Some(BulkPlan { plan, congestion, from, to })
    }
}

/// The sockets of both ends, bound and connected.
pub(crate) struct BulkEnds {
    plan: Plan,
    congestion: Option<OwnControl>,
    sender: Sockets,
    receiver: Sockets,
}

/// The progress of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Milestone {
    /// The connection is established: data can be sent.
    Connected,
    /// The last byte has arrived.
    Complete,
}

/// Binds the sockets of both ends, and opens the control connection from the receiver's host. `None` if the
/// flow is stopped meanwhile.
pub(crate) fn connect(
    plan: &BulkPlan,
    from: &Host,
    to: &Host,
    stop: &Stop,
) -> Result<Option<BulkEnds>, Error> {
    let bound = |address: IpAddr| {
        bind_bulk(SocketAddr::new(address, 0)).attempted(|| format!("bind a UDP socket to {address}"))
    };
    let sender_socket = from.namespace.run(|| bound(plan.from))?;
    let receiver_socket = to.namespace.run(|| bound(plan.to))?;
    for (one, other) in [(&sender_socket, &receiver_socket), (&receiver_socket, &sender_socket)] {
        other
            .local_addr()
            .and_then(|address| one.connect(&address))
            .attempted(|| "connect a UDP socket".into())?;
    }
    let mut sender = Sockets { udp: sender_socket, control: None };
    let mut receiver = Sockets { udp: receiver_socket, control: None };
    if plan.plan.has_control_connection() {
        let listener = from.namespace.run(|| {
            TcpListener::bind(SocketAddr::new(plan.from, 0)).attempted(|| format!("listen at {}", plan.from))
        })?;
        let opened = to.namespace.run(|| open_control(&listener, stop));
        let Some((client, server)) = opened? else { return Ok(None) };
        sender.control = Some(server);
        receiver.control = Some(client);
    }
    Ok(Some(BulkEnds { plan: plan.plan, congestion: plan.congestion.clone(), sender, receiver }))
}

/// Connects to a listener; returns both ends, or `None` if the flow is stopped before.
fn open_control(
    listener: &TcpListener,
    stop: &Stop,
) -> Result<Option<(ControlSocket, ControlSocket)>, Error> {
    let connect = || {
        let address = listener.local_addr()?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        begin_to_connect(&socket, address)?;
        while !os::wait_writable(&[socket.as_fd()], STOP_POLL)?[0] {
            if stop.is_set() {
                return Ok(None);
            }
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        // Its SYN has arrived, so `accept` waits only for the last ACK of the handshake.
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
        control.map(ControlSocket::socket).transpose()
    }

    /// Runs both ends until all data has arrived, or `stop` is set; sets it at the end. Calls `note` at each
    /// milestone.
    pub(crate) fn run(
        self,
        stop: &Stop,
        counts: &BulkCounts,
        note: impl Fn(Milestone) + Sync,
    ) -> io::Result<()> {
        let BulkEnds { plan, congestion, sender, receiver } = self;
        let congestion = congestion.as_ref().map(OwnControl::create).transpose()?;
        let start = std::time::Instant::now();
        let port = receiver.udp.local_addr()?.as_socket().map_or(0, |address| address.port());
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let mut is_complete = false;
                let ended =
                    bulk_end::drive(Receiver::new(&plan, port), receiver, start, |receiver, dropped| {
                        let now = receiver.counts();
                        if now.is_complete && !is_complete {
                            is_complete = true;
                            note(Milestone::Complete);
                        }
                        counts.lock().1 = now;
                        counts.dropped_at_socket.store(dropped.into(), Ordering::Relaxed);
                        // It acknowledges until the sender has ended.
                        stop.is_set()
                    });
                stop.set();
                ended
            });
            let mut is_connected = false;
            let end = Sender::with_congestion_control(&plan, congestion, Instant::ZERO);
            let sending = bulk_end::drive(end, sender, start, |sender, _| {
                let now = sender.counts();
                if now.is_connected && !is_connected {
                    is_connected = true;
                    note(Milestone::Connected);
                }
                counts.lock().0 = now;
                now.is_complete || stop.is_set()
            });
            stop.set();
            let received = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sending.and(received)
        })
    }
}
