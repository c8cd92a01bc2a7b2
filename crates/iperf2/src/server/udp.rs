//! UDP tests: one socket for all clients. A test begins with the first datagram of an address and ends with a
//! negative number, to which the server replies with its report.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::fd::AsFd,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use datagrams::ReceiverCounters;
use iperf3::{
    Error, Observer, ServerObserver,
    plain_streams::start_of,
    report::{self, Connection, Direction, Protocol, Report, Role, StreamEnd, StreamTotals, TestSpec},
};
use socket2::Socket;
use traffic::{
    Attempted,
    ancillary::{self, OwnAddress},
};
use units::Bytes;

use super::{STOP_CHECK_INTERVAL, ServerOptions};
use crate::{
    udp_totals::{self, Intervals, datagrams},
    wire::{ClientHeader, DATAGRAM_HEADER_BYTES, DatagramHeader, TestMode},
};

/// Largest datagram.
const MAX_DATAGRAM: usize = 65_536;
/// Time for which the end of a test is remembered, so that a lost report can be retransmitted.
const REPEAT_TIME: Duration = Duration::from_secs(5);
/// When all slots are in use, a new test replaces one that has been silent for this time.
const EVICT_AFTER: Duration = Duration::from_millis(500);
/// Notes about refused datagrams are printed at most this often: their senders' addresses can be forged.
const NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of datagrams between two checks of the other tests' timers.
const MAX_BURST: usize = 256;

/// The UDP tests of a server.
pub(super) struct UdpSessions<'a> {
    socket: &'a Socket,
    options: &'a ServerOptions,
    observer: &'a dyn ServerObserver,
    sessions: BTreeMap<SocketAddr, Session<'a>>,
    noted: Option<Instant>,
}

/// One client's test.
struct Session<'a> {
    /// Dropped when the test ends.
    observer: Option<Box<dyn Observer + 'a>>,
    report: Report,
    has_64_bits: bool,
    counters: ReceiverCounters,
    intervals: Intervals,
    begin: Instant,
    /// When the last datagram with data arrived.
    last: Instant,
    next_interval: Duration,
    /// When it ended, and the reply.
    ended: Option<(Instant, Vec<u8>)>,
}

impl<'a> UdpSessions<'a> {
    pub(super) fn new(
        socket: &'a Socket,
        options: &'a ServerOptions,
        observer: &'a dyn ServerObserver,
    ) -> Self {
        UdpSessions { socket, options, observer, sessions: BTreeMap::new(), noted: None }
    }

    /// Serves until `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<(), Error> {
        let what = || "receive datagrams".to_string();
        self.socket.set_nonblocking(true).attempted(what)?;
        let mut bytes = vec![0; MAX_DATAGRAM];
        while !stop.load(Ordering::Acquire) {
            let timeout = match self.sessions.is_empty() {
                true => STOP_CHECK_INTERVAL,
                false => STOP_CHECK_INTERVAL / 10,
            };
            if os::wait_readable(self.socket.as_fd(), timeout).attempted(what)? {
                for _ in 0..MAX_BURST {
                    // Either an ICMP error to a reply, or no more datagrams.
                    let Ok(datagram) = ancillary::receive_with_ancillary(self.socket, &mut bytes, 0) else {
                        break;
                    };
                    let Some(peer) = datagram.from else { continue };
                    self.receive(&bytes[..datagram.length], peer, datagram.to);
                }
            }
            self.check_timers();
        }
        let peers: Vec<SocketAddr> = self.sessions.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.remove(peer));
        Ok(())
    }

    /// A datagram has arrived.
    fn receive(&mut self, bytes: &[u8], peer: SocketAddr, own: Option<OwnAddress>) {
        let now = Instant::now();
        if !self.sessions.contains_key(&peer) && !self.begin(bytes, peer, now) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&peer) else { return };
        let Some(header) = DatagramHeader::decode(bytes, session.has_64_bits) else { return };
        match (&session.ended, header.number) {
            (Some((_, reply)), number) if number < 0 => {
                drop(ancillary::send_from(self.socket, reply, peer, own))
            }
            // A second test from the same port.
            (Some(_), 1) => {
                self.sessions.remove(&peer);
                if self.begin(bytes, peer, now) {
                    self.receive(bytes, peer, own);
                }
            }
            (Some(_), _) => {}
            (None, number) if number < 0 => {
                session.record(bytes.len(), number.saturating_neg(), header.sent_ns, now);
                let mut reply = bytes.get(..DATAGRAM_HEADER_BYTES).unwrap_or_default().to_vec();
                session.end(self.observer, peer, None);
                let duration = session.last - session.begin;
                reply.extend(udp_totals::server_report(&session.counters, duration).encode());
                // The client's next datagram retransmits a lost reply.
                let _ = ancillary::send_from(self.socket, &reply, peer, own);
                session.ended = Some((now, reply));
            }
            (None, number) => session.record(bytes.len(), number, header.sent_ns, now),
        }
    }

    /// Begins a test with its first datagram; false if it is refused.
    fn begin(&mut self, bytes: &[u8], peer: SocketAddr, now: Instant) -> bool {
        let header =
            bytes.get(DATAGRAM_HEADER_BYTES..).and_then(|rest| ClientHeader::decode(rest).ok()).flatten();
        let has_64_bits = header.is_some_and(|header| header.numbers_64bit);
        // This datagram ends a test that was already removed.
        if DatagramHeader::decode(bytes, has_64_bits).is_none_or(|datagram| datagram.number < 0) {
            return false;
        }
        if header.is_some_and(|header| header.mode != TestMode::Forward) {
            self.note(
                peer,
                "refused an iperf 2 UDP test in which the server would send: the address of a datagram can be forged",
            );
            return false;
        }
        let is_own = |address: &SocketAddr| address.ip() == peer.ip();
        let own = self.sessions.keys().filter(|address| is_own(address)).count();
        let is_full = self.sessions.len() >= self.options.max_streams;
        let is_own_full = own >= self.options.max_streams_per_address;
        if (is_full || is_own_full) && !self.evict(peer, is_own_full, now) {
            self.note(peer, "refused an iperf 2 UDP test: too many at the same time");
            return false;
        }
        let observer = self.observer.begin(peer);
        let session = Session::new(observer, self.socket, self.options, peer, bytes.len(), has_64_bits, now);
        match session {
            Ok(session) => drop(self.sessions.insert(peer, session)),
            Err(error) => self.note(peer, &error.to_string()),
        }
        self.sessions.contains_key(&peer)
    }

    /// Removes the silent test with the fewest datagrams; false if none is silent.
    fn evict(&mut self, peer: SocketAddr, only_own: bool, now: Instant) -> bool {
        let silent = self.sessions.iter().filter(|(address, session)| {
            (!only_own || address.ip() == peer.ip())
                && (session.ended.is_some() || now - session.last >= EVICT_AFTER)
        });
        let victim = silent
            .min_by_key(|(_, session)| (session.ended.is_none(), session.counters.received))
            .map(|(address, _)| *address);
        victim.into_iter().for_each(|victim| self.remove(victim));
        victim.is_some()
    }

    fn check_timers(&mut self) {
        let now = Instant::now();
        let mut over = Vec::new();
        for (peer, session) in &mut self.sessions {
            if let Some((ended, _)) = &session.ended {
                if now - *ended >= REPEAT_TIME {
                    over.push(*peer);
                }
                continue;
            }
            let elapsed = now - session.begin;
            if now - session.last >= self.options.idle_timeout || elapsed >= self.options.max_duration {
                over.push(*peer);
                continue;
            }
            let interval = self.options.interval;
            if !interval.is_zero() && elapsed >= session.next_interval {
                session.interval(elapsed.as_secs_f64());
                session.next_interval += interval;
            }
        }
        over.into_iter().for_each(|peer| self.remove(peer));
    }

    /// Removes a test; one that has not ended fails.
    fn remove(&mut self, peer: SocketAddr) {
        let Some(mut session) = self.sessions.remove(&peer) else { return };
        if session.ended.is_none() {
            let after = session.last.elapsed();
            session.end(self.observer, peer, Some(&Error::Timeout { what: "data", after }));
        }
    }

    /// Prints a note about a datagram that begins no test, at limited intervals.
    fn note(&mut self, peer: SocketAddr, text: &str) {
        if self.noted.is_none_or(|noted| noted.elapsed() >= NOTE_INTERVAL) {
            self.noted = Some(Instant::now());
            let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
            self.observer.note(&format!("{peer}: {text}"));
        }
    }
}

impl<'a> Session<'a> {
    fn new(
        mut observer: Box<dyn Observer + 'a>,
        socket: &Socket,
        options: &ServerOptions,
        peer: SocketAddr,
        block: usize,
        has_64_bits: bool,
        now: Instant,
    ) -> Result<Self, Error> {
        let local = super::local(socket)?;
        let spec = TestSpec {
            direction: Direction::Forward,
            block: Bytes(block as u64),
            interval: options.interval,
            ..TestSpec::new(Protocol::Udp, report::Amount::Bytes(Bytes(u64::MAX)))
        };
        let start = start_of(Role::Server, peer, local.port(), &spec, &[])?;
        let remote = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let connections = vec![Connection { id: 1, sender: false, local, remote }];
        let start = report::Start { connections, ..start };
        observer.start(&start);
        Ok(Session {
            observer: Some(observer),
            report: Report { start: Some(start), ..Report::default() },
            has_64_bits,
            counters: ReceiverCounters::default(),
            intervals: Intervals::default(),
            begin: now,
            last: now,
            next_interval: options.interval,
            ended: None,
        })
    }

    /// A datagram has arrived; the last one counts too.
    fn record(&mut self, length: usize, number: i64, sent_ns: i64, now: Instant) {
        self.last = now;
        let arrived_ns = i64::try_from((now - self.begin).as_nanos()).unwrap_or(i64::MAX);
        self.counters.record((number - 1).max(0) as u64, length as u32, sent_ns, arrived_ns);
    }

    fn totals(&self, now_s: f64) -> StreamTotals {
        StreamTotals {
            start_s: 0.0,
            end_s: now_s,
            bytes: self.counters.bytes,
            udp: Some(datagrams(&self.counters)),
        }
    }

    fn interval(&mut self, now_s: f64) {
        let interval = self.intervals.next(now_s, &[(1, false, self.totals(now_s))]);
        if let Some(observer) = &mut self.observer {
            observer.interval(&interval);
        }
    }

    /// Reports the end of the test.
    fn end(&mut self, observer: &dyn ServerObserver, peer: SocketAddr, error: Option<&Error>) {
        let received = self.totals((self.last - self.begin).as_secs_f64());
        self.report.error = error.map(ToString::to_string);
        if error.is_none() {
            let sent = received;
            let stream = StreamEnd { id: 1, forward: true, sent, received, tcp: None };
            self.report.end = Some(udp_totals::end(vec![stream]));
        }
        self.observer = None;
        observer.end(peer, &self.report, error);
    }
}
