//! The sending end: a session with a `longfat serve`, in which methods run one after the other.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use probe::{Budget, Limits, Load, Method, MtuAnswer, MtuSearch, Seen, Step, Train};
use socket2::Socket;
use units::{BitRate, Time};

use super::{
    Error,
    flight::{Flown, fly},
    path_mtu::mtu_of,
    wire::{ARRIVAL_BYTES, Arrival, COOKIE_PREFIX, REPORT_BYTES, Report, Sent, TURN},
};
use crate::{
    Stop,
    error::Attempted,
    iperf3::{
        Error as LinkError, IpVersion, control, udp_stream,
        wire::{COOKIE_BYTES, Cookie},
    },
    sys,
};

/// How exact the kernel's time stamps are taken to be, ns: what a packet waits for an interrupt and a processor.
const RESOLUTION_NS: f64 = 20_000.0;
/// The largest packet used: where a path takes more, less is known about the links behind.
pub(super) const MOST_MTU: u32 = 9000;
/// The smallest largest packet.
const LEAST_MTU: u32 = 128;
/// How long an answer of the server may take after a train was sent.
const PATIENCE: Duration = Duration::from_secs(20);
/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(100);
/// A method ends after so many fleets, whatever it says.
const MOST_FLEETS: usize = 400;

/// With whom, and how.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// IPv4 or IPv6 alone.
    pub ip: Option<IpVersion>,
    /// The most that is sent, averaged over any second.
    pub max_rate: BitRate,
    /// Bytes of the largest packet, IP header included, where the path takes it; `None`: what the path takes.
    pub mtu: Option<u32>,
    /// How long connecting may take, and the wait for one's turn.
    pub patience: Duration,
}

/// A session under way.
#[derive(Debug)]
pub struct Session {
    control: TcpStream,
    pub(super) socket: Socket,
    headers: u32,
    path_mtu: MtuAnswer,
    mtu: u32,
    max_rate: BitRate,
    budget: Budget,
    begin: Instant,
    pub(super) trains: u32,
    peer: SocketAddr,
}

impl Session {
    /// Connects, and waits for its turn.
    ///
    /// # Errors
    /// Where there is no such host, or nobody who answers probes there.
    pub fn open(options: &SessionOptions, stop: &AtomicBool) -> Result<Session, Error> {
        let control = connect(options)?;
        let peer = control.peer_addr().attempted(|| "cannot read the server's address".into())?;
        let mut random = [0; COOKIE_BYTES - 1];
        sys::random(&mut random).attempted(|| "cannot draw a cookie".into())?;
        let mut cookie = *Cookie::from_random(random).as_bytes();
        cookie[..COOKIE_PREFIX.len()].copy_from_slice(COOKIE_PREFIX.as_bytes());
        let mut session = Session {
            socket: datagrams_to(peer)?,
            control,
            headers: if peer.is_ipv4() { 28 } else { 48 },
            path_mtu: MtuSearch::new(0).answer(),
            mtu: 0,
            max_rate: options.max_rate,
            budget: Budget::new(options.max_rate),
            begin: Instant::now(),
            trains: 0,
            peer,
        };
        session.write(&cookie)?;
        let mut turn = [0];
        session.read(&mut turn, "turn", options.patience, stop)?;
        if turn[0] != TURN {
            return Err(
                LinkError::Closed { expected: "a session: it is an iperf3, or too busy; a probe" }.into()
            );
        }
        udp_stream::greet(&session.socket, options.patience)?;
        let route = mtu_of(&session.socket, peer)?;
        let most = options.mtu.unwrap_or(route).min(route).clamp(LEAST_MTU, MOST_MTU);
        session.path_mtu = session.discover_mtu(most, stop)?;
        // Where nothing arrived a method says so.
        session.mtu = session.path_mtu.mtu_bytes.unwrap_or(most);
        Ok(session)
    }

    /// Whom it is with.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What is known of the path MTU, up to the largest packet that was asked for.
    pub fn path_mtu(&self) -> &MtuAnswer {
        &self.path_mtu
    }

    /// What methods must know.
    pub fn limits(&self) -> Limits {
        Limits { most_bytes: self.max_rate.0 / 8, mtu: self.mtu, resolution_ns: RESOLUTION_NS }
    }

    /// The load so far.
    pub fn load(&self) -> Load {
        self.budget.load(self.now())
    }

    /// Runs a method to its end, or until `stop` is set; `doing` hears what it does.
    ///
    /// # Errors
    /// Where a socket fails, the server goes, or a train would exceed the limit on the load.
    pub fn run<M: Method>(
        &mut self,
        method: &mut M,
        stop: &AtomicBool,
        doing: &mut dyn FnMut(&str),
    ) -> Result<M::Answer, Error> {
        for _ in 0..MOST_FLEETS {
            let Step::Send(fleet) = method.next() else { break };
            doing(&method.doing());
            let first = self.trains;
            let mut flown = Vec::with_capacity(fleet.trains.len());
            for train in &fleet.trains {
                flown.push(self.send(train, fleet.gap, stop)?);
            }
            let mut seen = Vec::with_capacity(flown.len());
            for ((number, flown), train) in (first..).zip(flown).zip(&fleet.trains) {
                seen.push(self.report(number, flown, train.bytes, stop)?);
            }
            method.take(&seen);
        }
        Ok(method.answer())
    }

    fn now(&self) -> Time {
        Time(self.begin.elapsed().as_nanos() as u64)
    }

    /// Sends a train `gap` from now, or when the load allows it.
    pub(super) fn send(&mut self, train: &Train, gap: Time, stop: &AtomicBool) -> Result<Flown, Error> {
        let at = self
            .budget
            .earliest(self.now() + gap, train)
            .map_err(|too_large| Error::TooLarge { needs: too_large.needs })?;
        while let Some(left) = at.0.checked_sub(self.now().0).filter(|left| *left > 0) {
            if stop.load(Ordering::Acquire) {
                return Err(interrupted());
            }
            std::thread::sleep(Duration::from_nanos(left).min(NAP));
        }
        let (number, begin) = (self.trains, self.now());
        self.trains += 1;
        let flown = fly(&self.socket, train, number, self.headers, &Stop::default())?;
        self.budget.spend(begin, self.now(), train);
        self.write(&Sent { train: number, packets: train.at_ns.len() as u32 }.to_bytes())?;
        Ok(flown)
    }

    /// What the server says about a train.
    pub(super) fn report(
        &mut self,
        number: u32,
        flown: Flown,
        bytes: u32,
        stop: &AtomicBool,
    ) -> Result<Seen, Error> {
        let wrong = |what| Error::Report { train: number, what };
        let mut header = [0; REPORT_BYTES];
        self.read(&mut header, "report", PATIENCE, stop)?;
        let report = Report::from_bytes(header).ok_or(wrong("is longer than a train"))?;
        if report.train != number {
            return Err(wrong("is of another train"));
        }
        let mut arrived_ns = vec![None; flown.sent_ns.len()];
        let mut all = vec![0; report.received as usize * ARRIVAL_BYTES];
        self.read(&mut all, "report", PATIENCE, stop)?;
        for chunk in all.chunks_exact(ARRIVAL_BYTES) {
            let mut one = [0; ARRIVAL_BYTES];
            one.copy_from_slice(chunk);
            let arrival = Arrival::from_bytes(one);
            // The first of duplicates counts.
            let place =
                arrived_ns.get_mut(arrival.place as usize).ok_or(wrong("has packets that were not sent"))?;
            *place = place.or(Some(arrival.at_ns));
        }
        Ok(Seen {
            bytes,
            sent_ns: flown.sent_ns,
            arrived_ns,
            host_drops: u64::from(report.dropped) + flown.refused,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.control.write_all(bytes).attempted(|| format!("cannot write to {}", self.peer))?)
    }

    fn read(
        &mut self,
        into: &mut [u8],
        what: &'static str,
        within: Duration,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let begin = Instant::now();
        let mut have = 0;
        while have < into.len() {
            match self.control.read(&mut into[have..]) {
                Ok(0) => return Err(LinkError::Closed { expected: what }.into()),
                Ok(n) => have += n,
                Err(e)
                    if matches!(
                        e.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    if stop.load(Ordering::Acquire) {
                        return Err(interrupted());
                    }
                    if begin.elapsed() >= within {
                        return Err(LinkError::Timeout { what, after: within }.into());
                    }
                }
                Err(e) => return Err(e).attempted(|| format!("cannot read from {}", self.peer))?,
            }
        }
        Ok(())
    }
}

/// The user has had enough.
pub(super) fn interrupted() -> Error {
    LinkError::Interrupted.into()
}

/// Connects to the first of the host's addresses that answers.
fn connect(options: &SessionOptions) -> Result<TcpStream, Error> {
    let no_address = |reason: String| LinkError::NoAddress { host: options.host.clone(), reason };
    let found =
        (options.host.as_str(), options.port).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let of_version =
        |address: &SocketAddr| options.ip.is_none_or(|ip| (ip == IpVersion::V4) == address.is_ipv4());
    let mut failed = None;
    for to in found.filter(of_version) {
        match control::connect(to, None, None, options.patience) {
            Ok(socket) => {
                let control: TcpStream = socket.into();
                let what = || format!("cannot prepare the connection to {to}");
                control.set_nonblocking(false).attempted(what)?;
                control.set_nodelay(true).attempted(what)?;
                control.set_read_timeout(Some(NAP)).attempted(what)?;
                control.set_write_timeout(Some(PATIENCE)).attempted(what)?;
                return Ok(control);
            }
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| no_address("it has none of the version asked for".into())).into())
}

fn datagrams_to(peer: SocketAddr) -> Result<Socket, Error> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("cannot make a UDP socket to {peer}");
    let socket = UdpSocket::bind(any).attempted(what)?;
    socket.connect(peer).attempted(what)?;
    socket.set_read_timeout(Some(NAP)).attempted(what)?;
    Ok(socket.into())
}
