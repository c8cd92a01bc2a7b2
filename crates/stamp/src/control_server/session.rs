//! One session of a control connection: a reflector, a sender or a receiver.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use os::set_option;
use socket2::Socket;
use traffic::{Attempted, Error, ancillary};

use crate::{
    control::{Accept, FetchedSession, Schedule, SessionAccepted, SessionRequest, Sid, Slot, StoppedSender},
    one_way::{self, OneWayReceiver, OneWaySender},
    owamp::{duration_until, new_sid},
    reflector, test_socket,
    wire::{ErrorEstimate, Request, SHORTEST_REPLY_BYTES, SHORTEST_REQUEST_BYTES, interval, unix_ns},
};

/// Maximum bytes of a packet: a jumbo frame.
const MAX_PACKET_BYTES: usize = 9216;
/// Maximum rate at which the server sends, averaged over the schedule, bits of UDP payload a second.
const MAX_RATE_BPS: u128 = 10_000_000;
/// Minimum mean time between packets that the server sends.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time until a test starts, and maximum duration of a schedule.
const MAX_DURATION: Duration = Duration::from_secs(3600);
/// Maximum timeout of packets that is kept after the end of a test.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);
/// Ports that a client may choose; others may belong to services of this host.
const FIRST_CLIENT_PORT: u16 = 1024;
/// Maximum number of packets that one session receives or sends before the next session is served.
const PACKETS_IN_TURN: usize = 64;

/// Maximum number of packets from before the start that are discarded.
const MAX_DISCARDED: usize = 1000;

enum Role {
    /// Its next sequence number: a reflector counts its replies (RFC 5357 section 4.2.1).
    Reflector(u32),
    Sender(Box<OneWaySender>),
    Receiver(OneWayReceiver),
}

/// A session.
pub(super) struct Session {
    request: SessionRequest,
    slots: Vec<Slot>,
    sid: Sid,
    client: SocketAddr,
    socket: Socket,
    role: Role,
    /// When the schedule starts.
    begin: Instant,
    buffer: Vec<u8>,
}

impl Session {
    /// Prepares a session with the client, if the request is supported and within the limits.
    pub(super) fn open(
        request: SessionRequest,
        slots: Vec<Slot>,
        client: SocketAddr,
        own: SocketAddr,
    ) -> Result<Self, Accept> {
        check(&request, &slots, client)?;
        let mut at = own;
        at.set_port(if request.server_sends { 0 } else { request.receiver.port() });
        let mut opened = Err(());
        if at.port() >= FIRST_CLIENT_PORT {
            opened = test_socket::open(at).map_err(drop);
        }
        let socket = opened.or_else(|()| {
            at.set_port(0);
            test_socket::open(at).map_err(|_| Accept::INTERNAL)
        })?;
        socket.set_nonblocking(true).map_err(|_| Accept::INTERNAL)?;
        set_dscp(&socket, request.type_p).map_err(|_| Accept::INTERNAL)?;
        // The receiver chooses the identifier (RFC 4656 section 3.5).
        let sid = match request.server_sends {
            true => request.sid,
            false => new_sid(own.ip()).map_err(|_| Accept::INTERNAL)?,
        };
        let request = SessionRequest { sid, ..request };
        let role = match (request.two_way, request.server_sends) {
            (true, _) => Role::Reflector(0),
            (false, true) => {
                let mut to = client;
                to.set_port(request.receiver.port());
                Role::Sender(Box::new(OneWaySender::new(&request, &slots, to)))
            }
            (false, false) => Role::Receiver(OneWayReceiver::default()),
        };
        let begin = Instant::now();
        Ok(Session { request, slots, sid, client, socket, role, begin, buffer: vec![0; MAX_PACKET_BYTES] })
    }

    /// The reply to the request.
    pub(super) fn accepted(&self) -> SessionAccepted {
        SessionAccepted { accept: Accept::OK, port: test_socket::port(&self.socket), sid: self.sid }
    }

    /// The socket of its packets.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Starts it. A schedule that should have begun earlier begins now. Packets that arrived before the start
    /// are discarded.
    pub(super) fn start(&mut self, now: Instant) {
        self.begin = match self.request.two_way {
            true => now,
            false => now + duration_until(start_ns(&self.request)),
        };
        for _ in 0..MAX_DISCARDED {
            if ancillary::receive_with_ancillary(&self.socket, &mut self.buffer, 0).is_err() {
                break;
            }
        }
    }

    /// When its last packet should have arrived; for a reflector, which has no schedule, the start.
    pub(super) fn end(&self) -> Instant {
        match self.request.two_way {
            true => self.begin,
            false => self.begin + one_way::duration(&self.request, &self.slots) + self.timeout(),
        }
    }

    /// Time after which a packet counts as lost.
    pub(super) fn timeout(&self) -> Duration {
        interval(self.request.timeout).min(MAX_TIMEOUT)
    }

    /// Whether the session sends packets and receives none.
    pub(super) fn is_sender(&self) -> bool {
        matches!(self.role, Role::Sender(_))
    }

    /// When its next packet is due.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.role {
            Role::Sender(sender) => Some(self.begin + sender.due()?),
            _ => None,
        }
    }

    /// Sends packets that are due, reflects or stores packets that have arrived; returns whether there were
    /// any.
    pub(super) fn serve(&mut self) -> Result<bool, Error> {
        let mut is_active = false;
        for _ in 0..PACKETS_IN_TURN {
            if !self.serve_one()? {
                break;
            }
            is_active = true;
        }
        Ok(is_active)
    }

    fn serve_one(&mut self) -> Result<bool, Error> {
        if let Role::Sender(sender) = &mut self.role {
            let is_due = sender.due().is_some_and(|due| self.begin + due <= Instant::now());
            if is_due {
                sender.send(&self.socket)?;
            }
            return Ok(is_due);
        }
        let datagram = match ancillary::receive_with_ancillary(&self.socket, &mut self.buffer, 0) {
            Ok(datagram) => datagram,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // The error concerns an earlier packet.
            Err(e) if ancillary::is_transient(&e) => return Ok(true),
            Err(e) => return Err(e).attempted(|| "receive test packets".into()),
        };
        let Some(from) = datagram.from.filter(|from| from.ip() == self.client.ip()) else { return Ok(true) };
        let bytes = &self.buffer[..datagram.length];
        match &mut self.role {
            Role::Receiver(receiver) => {
                receiver.receive(bytes, &datagram, 2 * self.request.packets as usize);
            }
            Role::Reflector(next) => {
                let Some(request) = Request::from_bytes(bytes, None) else { return Ok(true) };
                if datagram.length < SHORTEST_REPLY_BYTES {
                    return Ok(true);
                }
                let mut reply = reflector::reply(&request, *next, 0, &datagram, None);
                *next = next.wrapping_add(1);
                reply.resize(datagram.length, 0);
                // No packet of a peer ends the session: for example, a port 0 is an invalid argument.
                let _ = test_socket::send(&self.socket, &reply, from);
            }
            Role::Sender(_) => {}
        }
        Ok(true)
    }

    /// The report of a sender at the end.
    pub(super) fn stopped_sender(&self) -> Option<StoppedSender> {
        match &self.role {
            Role::Sender(sender) => Some(sender.stopped(self.sid)),
            _ => None,
        }
    }

    /// A receiver's records, given what the client's senders report.
    pub(super) fn finish(self, senders: &[StoppedSender]) -> Option<FetchedSession> {
        let Role::Receiver(receiver) = self.role else { return None };
        let reported = senders.iter().find(|sender| sender.sid == self.sid);
        let stopped = reported.cloned().unwrap_or(StoppedSender {
            sid: self.sid,
            next_sequence: self.request.packets,
            skipped: Vec::new(),
        });
        Some(FetchedSession {
            is_finished: reported.is_some(),
            next_sequence: stopped.next_sequence,
            skipped: stopped.skipped.clone(),
            records: receiver.finish(&self.request, &self.slots, &stopped),
            request: self.request,
            slots: self.slots,
        })
    }
}

/// Whether a request is supported, within the limits, and for no other host.
fn check(request: &SessionRequest, slots: &[Slot], client: SocketAddr) -> Result<(), Accept> {
    let is_client = |address: SocketAddr| address.ip() == client.ip();
    let payload = SHORTEST_REQUEST_BYTES.saturating_add(request.padding_bytes as usize);
    if payload > MAX_PACKET_BYTES {
        return Err(Accept::PERMANENT_LIMIT);
    }
    // Only a DSCP (RFC 4656 section 3.5).
    if request.type_p & !(0x3f << 24) != 0 {
        return Err(Accept::UNSUPPORTED);
    }
    if request.two_way {
        let is_supported = (request.sender.ip().is_unspecified() || is_client(request.sender))
            && payload >= SHORTEST_REPLY_BYTES
            && !request.server_sends
            && !request.server_receives;
        return if is_supported { Ok(()) } else { Err(Accept::UNSUPPORTED) };
    }
    let is_supported = match (request.server_sends, request.server_receives) {
        (true, false) => is_client(request.receiver) && request.receiver.port() != 0,
        (false, true) => is_client(request.sender),
        _ => false,
    };
    if !is_supported || slots.is_empty() || request.packets == 0 {
        return Err(Accept::UNSUPPORTED);
    }
    // NTP's intervals are rounded down by less than 1 ns: 1 ms is 999,999 ns.
    let mean = interval(Schedule::mean(slots)) + Duration::from_nanos(1);
    let is_too_fast = mean < MIN_INTERVAL || payload as u128 * 8_000_000_000 > MAX_RATE_BPS * mean.as_nanos();
    let is_too_long =
        one_way::duration(request, slots) > MAX_DURATION || duration_until(start_ns(request)) > MAX_DURATION;
    if (request.server_sends && is_too_fast) || is_too_long {
        return Err(Accept::PERMANENT_LIMIT);
    }
    Ok(())
}

/// When a schedule starts, ns since 1970. Zero means at once.
fn start_ns(request: &SessionRequest) -> i64 {
    match request.start {
        0 => 0,
        // An error estimate of 1 selects NTP's format.
        start => unix_ns(start, ErrorEstimate(1)),
    }
}

/// Sets the DSCP of a request's packets.
fn set_dscp(socket: &Socket, type_p: u32) -> io::Result<()> {
    let class = i32::from((type_p >> 24) as u8) << 2;
    if class == 0 {
        return Ok(());
    }
    let v4 = set_option(socket, libc::IPPROTO_IP, libc::IP_TOS, class);
    set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class).or(v4)
}
