//! The sending end: a session with a `longfat serve`, in which methods run one after another.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use iperf3::{
    Error as LinkError, IpVersion,
    reverse::LISTEN,
    service::greet,
    wire::{COOKIE_BYTES, Cookie},
};
use probe::{Budget, Method, MtuResult, MtuSearch, ProbeLimits, ProbeLoad, Step, Train, TrainObservation};
use socket2::Socket;
use traffic::{Attempted, Stop, path_mtu::mtu_of, udp::NumberWidth};
use units::{BitRate, Instant, Time};

use super::{
    Error, ProbeSecret,
    train_sender::{SentTrain, send_train},
    wire::{
        ARRIVAL_BYTES, Arrival, ArrivalStamps, COOKIE_PREFIX, REPLY_BYTES, REPORT_BYTES, TURN, TrainReport,
        TrainSent,
    },
};

/// Assumed precision of the kernel's timestamps, ns: a packet's wait for an interrupt and a processor.
const RESOLUTION_NS: f64 = 20_000.0;
/// Maximum packet size. With larger packets, less could be measured about the links behind the first.
pub(super) const MAX_MTU: u32 = 9000;
/// Minimum of the packet size that a user can set as the maximum.
const MIN_MTU: u32 = 128;
/// Timeout of the server's report after a train was sent, and of writes to the server.
const SERVER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of fleets of a method, whatever it requests.
const MAX_FLEETS: usize = 400;

/// The options of a session: the server and the probing parameters.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// IPv4 or IPv6 only.
    pub ip: Option<IpVersion>,
    /// Maximum rate, averaged over any second.
    pub max_rate: BitRate,
    /// Bytes of the largest packet, IP header included, if the path carries it; `None`: the path MTU.
    pub mtu: Option<u32>,
    /// Timeout of connecting, and of the wait in the server's queue.
    pub timeout: Duration,
    /// The secret that the server requires.
    pub secret: Option<ProbeSecret>,
}

/// A session with a server.
#[derive(Debug)]
pub struct Session {
    control: TcpStream,
    pub(super) socket: Socket,
    headers: u32,
    path_mtu: MtuResult,
    mtu: u32,
    max_rate: BitRate,
    budget: Budget,
    begin: std::time::Instant,
    pub(super) trains: u32,
    peer: SocketAddr,
    /// The clock of the arrivals: the network card's only if the card timestamped every train.
    stamps: Option<ArrivalStamps>,
}

impl Session {
    /// Connects, and waits for its turn.
    ///
    /// # Errors
    /// If the host does not exist, or does not accept probes.
    pub fn open(options: &SessionOptions, stop: &AtomicBool) -> Result<Session, Error> {
        let control = connect(options)?;
        let peer = control.peer_addr().attempted(|| "read the server's address".into())?;
        let mut random = [0; COOKIE_BYTES - 1];
        os::fill_random(&mut random).attempted(|| "get random bytes for the cookie".into())?;
        let mut cookie = *Cookie::from_random(random).as_bytes();
        cookie[..COOKIE_PREFIX.len()].copy_from_slice(COOKIE_PREFIX.as_bytes());
        if let Some(secret) = &options.secret {
            cookie[COOKIE_PREFIX.len()..COOKIE_BYTES - 1].copy_from_slice(secret.as_bytes());
        }
        let mut session = Session {
            socket: datagrams_to(peer)?,
            control,
            headers: if peer.is_ipv4() { 28 } else { 48 },
            path_mtu: MtuSearch::new(0).result(),
            mtu: 0,
            max_rate: options.max_rate,
            budget: Budget::new(options.max_rate),
            begin: std::time::Instant::now(),
            trains: 0,
            peer,
            stamps: None,
        };
        session.write(&cookie)?;
        let mut turn = [0];
        session.read(&mut turn, "turn in the server's queue", options.timeout, stop)?;
        if turn[0] != TURN {
            return Err(LinkError::Closed {
                expected: "a probe session; the server may be an iperf3, or its queue is full",
            }
            .into());
        }
        greet(&session.socket, options.timeout)?;
        let route = mtu_of(&session.socket, peer)?;
        let largest = options.mtu.unwrap_or(route).min(route).clamp(MIN_MTU, MAX_MTU);
        session.path_mtu = session.discover_mtu(largest, stop)?;
        // If no packet arrived, the method reports it.
        session.mtu = session.path_mtu.mtu_bytes.unwrap_or(largest);
        Ok(session)
    }

    /// The server's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The path MTU, as far as it is known, up to the requested largest packet.
    pub fn path_mtu(&self) -> &MtuResult {
        &self.path_mtu
    }

    /// The limits that methods must not exceed.
    pub fn limits(&self) -> ProbeLimits {
        ProbeLimits { max_bytes_per_second: self.max_rate.0 / 8, mtu: self.mtu, resolution_ns: RESOLUTION_NS }
    }

    /// Size of the smallest packet of a train, bytes of IP.
    pub fn smallest_packet(&self) -> u32 {
        self.headers + NumberWidth::Bits64.header_bytes() as u32
    }

    /// Size of the smallest request and of its reply, bytes of IP.
    pub fn smallest_request(&self) -> u32 {
        self.headers + REPLY_BYTES as u32
    }

    /// The source of the arrivals' timestamps so far: the network card if it stamped all of them, else the
    /// server's kernel.
    pub fn arrival_stamps(&self) -> ArrivalStamps {
        self.stamps.unwrap_or(ArrivalStamps::Software)
    }

    /// The load so far.
    pub fn load(&self) -> ProbeLoad {
        self.budget.load(self.now().since_origin())
    }

    /// Runs a method to its end, or until `stop` is set; `doing` is called with a description of each step.
    ///
    /// # Errors
    /// If a socket fails, the server closes the connection, or a train would exceed the limit of the load.
    pub fn run<M: Method>(
        &mut self,
        method: &mut M,
        stop: &AtomicBool,
        doing: &mut dyn FnMut(&str),
    ) -> Result<M::Output, Error> {
        for _ in 0..MAX_FLEETS {
            let Step::Send(fleet) = method.next_step() else { break };
            doing(&method.progress());
            let first = self.trains;
            let mut sent = Vec::with_capacity(fleet.trains.len());
            for train in &fleet.trains {
                sent.push(self.send(train, fleet.gap, stop)?);
            }
            let mut seen = Vec::with_capacity(sent.len());
            for ((number, sent), train) in (first..).zip(sent).zip(&fleet.trains) {
                seen.push(self.report(number, sent, train.bytes, stop)?);
            }
            method.add_observations(&seen);
        }
        Ok(method.result())
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.begin.elapsed().as_nanos() as u64)
    }

    /// Sends a train `gap` from now, or when the load allows it.
    pub(super) fn send(&mut self, train: &Train, gap: Time, stop: &AtomicBool) -> Result<SentTrain, Error> {
        self.send_numbered(train, self.trains, gap, stop)
    }

    /// Like [`Self::send`], with the number of the train in its packets.
    pub(super) fn send_numbered(
        &mut self,
        train: &Train,
        number_in_packets: u32,
        gap: Time,
        stop: &AtomicBool,
    ) -> Result<SentTrain, Error> {
        let at = self
            .budget
            .earliest(self.now() + gap, train)
            .map_err(|too_large| Error::TooLarge { needs: too_large.required_rate })?;
        while let Some(left) = at.checked_since(self.now()).filter(|left| *left > Time::ZERO) {
            if stop.load(Ordering::Acquire) {
                return Err(interrupted());
            }
            std::thread::sleep(left.to_duration().min(STOP_CHECK_INTERVAL));
        }
        let (number, begin) = (self.trains, self.now());
        self.trains += 1;
        let sent = send_train(&self.socket, train, number_in_packets, self.headers, &Stop::default())?;
        self.budget.record(begin, self.now(), train);
        self.write(&TrainSent { train: number, packets: train.offsets_ns.len() as u32 }.to_bytes())?;
        Ok(sent)
    }

    /// Reads the server's report of a train.
    pub(super) fn report(
        &mut self,
        number: u32,
        sent: SentTrain,
        bytes: u32,
        stop: &AtomicBool,
    ) -> Result<TrainObservation, Error> {
        let wrong = |what| Error::Report { train: number, what };
        let mut header = [0; REPORT_BYTES];
        self.read(&mut header, "report", SERVER_TIMEOUT, stop)?;
        let report = TrainReport::from_bytes(header).ok_or(wrong("is longer than a train"))?;
        if report.train != number {
            return Err(wrong("has the number of another train"));
        }
        if report.received > 0 && self.stamps != Some(ArrivalStamps::Software) {
            self.stamps = Some(report.stamps);
        }
        let mut arrived_ns = vec![None; sent.sent_ns.len()];
        let mut all = vec![0; report.received as usize * ARRIVAL_BYTES];
        self.read(&mut all, "report", SERVER_TIMEOUT, stop)?;
        for chunk in all.chunks_exact(ARRIVAL_BYTES) {
            let mut one = [0; ARRIVAL_BYTES];
            one.copy_from_slice(chunk);
            let arrival = Arrival::from_bytes(one);
            // Of duplicates, the first counts.
            let index = arrived_ns
                .get_mut(arrival.index as usize)
                .ok_or(wrong("contains packets that were not sent"))?;
            *index = index.or(Some(arrival.at_ns));
        }
        Ok(TrainObservation {
            bytes,
            sent_ns: sent.sent_ns,
            arrived_ns,
            host_drops: u64::from(report.dropped) + sent.refused,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.control.write_all(bytes).attempted(|| format!("write to {}", self.peer))?)
    }

    fn read(
        &mut self,
        into: &mut [u8],
        what: &'static str,
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let begin = std::time::Instant::now();
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
                    if begin.elapsed() >= timeout {
                        return Err(LinkError::Timeout { what, after: timeout }.into());
                    }
                }
                Err(e) => return Err(e).attempted(|| format!("read from {}", self.peer))?,
            }
        }
        Ok(())
    }
}

/// The error when the user stops the probe.
pub(super) fn interrupted() -> Error {
    LinkError::Interrupted.into()
}

/// Connects to the first of the host's addresses that accepts the connection.
fn connect(options: &SessionOptions) -> Result<TcpStream, Error> {
    let no_address = |reason: String| LinkError::NoAddress { host: options.host.clone(), reason };
    if options.host == LISTEN {
        return Err(no_address("probes need a server that this machine can connect to".into()).into());
    }
    let found =
        (options.host.as_str(), options.port).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let has_version =
        |address: &SocketAddr| options.ip.is_none_or(|ip| (ip == IpVersion::V4) == address.is_ipv4());
    let mut failed = None;
    for to in found.filter(has_version) {
        let what = || format!("connect to {to}");
        match TcpStream::connect_timeout(&to, options.timeout).attempted(what) {
            Ok(control) => {
                let what = || format!("prepare the connection to {to}");
                control.set_nonblocking(false).attempted(what)?;
                control.set_nodelay(true).attempted(what)?;
                control.set_read_timeout(Some(STOP_CHECK_INTERVAL)).attempted(what)?;
                control.set_write_timeout(Some(SERVER_TIMEOUT)).attempted(what)?;
                return Ok(control);
            }
            Err(error) => failed = Some(LinkError::from(error)),
        }
    }
    Err(failed.unwrap_or_else(|| no_address("no address of the requested IP version".into())).into())
}

fn datagrams_to(peer: SocketAddr) -> Result<Socket, Error> {
    let any: SocketAddr = if peer.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("create a UDP socket to {peer}");
    let socket = UdpSocket::bind(any).attempted(what)?;
    socket.connect(peer).attempted(what)?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL)).attempted(what)?;
    Ok(socket.into())
}
