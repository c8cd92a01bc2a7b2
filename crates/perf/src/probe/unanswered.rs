//! What needs no peer: UDP packets to a port where nobody listens, and the ICMP messages that come of them. The kernel hands
//! those to the socket that sent the packet (ip(7), IP_RECVERR), so that no raw socket and no privilege is needed.

use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use probe::{
    HopPacket, HopReply, Hops, HopsAnswer, IpVersion as ProbedVersion, MtuAnswer, MtuOutcome, MtuSearch,
};
use socket2::Socket;

use super::{
    Error,
    client::{MOST_MTU, interrupted},
    path_mtu::{forbid_fragments, route_mtu},
};
use crate::{
    error::Attempted,
    iperf3::{Error as LinkError, IpVersion},
    sys,
    told::{self, Told},
    udp::sys::realtime_ns,
};

/// The ports of traceroute(8), where nobody listens: one a packet, so that answers tell whose they are.
const PORTS: std::ops::Range<u16> = 33_434..60_000;
/// How long an answer may take where none has come yet.
const PATIENCE: Duration = Duration::from_secs(1);
/// Hosts answer once a second where they limit their answers (Linux's icmp_ratelimit).
const LIMITED: Duration = Duration::from_millis(1_050);
/// Between two trains.
const PAUSE: Duration = Duration::from_millis(100);
/// How exact the times are, ns.
const RESOLUTION_NS: f64 = 10_000.0;
/// Hops at most.
const MOST_HOPS: u8 = 30;
/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(50);
/// ICMP's time exceeded, of both versions.
const TIME_EXCEEDED: [u8; 2] = [11, 3];
/// IPv6's least MTU (RFC 8200 section 5).
const LEAST_MTU_V6: u32 = 1280;

/// A host's address.
///
/// # Errors
/// Where it has none of the version.
pub fn resolve(host: &str, ip: Option<IpVersion>) -> Result<IpAddr, Error> {
    let no_address = |reason: String| LinkError::NoAddress { host: host.to_string(), reason };
    let found = (host, 0).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let mut of_version = found.filter(|at| ip.is_none_or(|ip| (ip == IpVersion::V4) == at.is_ipv4()));
    let first = of_version.next().ok_or_else(|| no_address("it has none of the version asked for".into()))?;
    Ok(first.ip())
}

/// Measures the links on the way to a host, with packets of the path's MTU at most, which are never fragmented.
///
/// # Errors
/// Where the socket fails, or `stop` is set.
pub fn hops(to: IpAddr, stop: &AtomicBool, doing: &mut dyn FnMut(&str)) -> Result<HopsAnswer, Error> {
    doing("the path's MTU");
    let route = route_mtu(to)?.min(MOST_MTU);
    // Where the host does not answer, routers say what is too big.
    let mtu = mtu(to, route, stop, &mut |_| {})?.mtu_bytes.unwrap_or(route);
    let asker = Asker::new(to)?;
    let mut hops = Hops::new(MOST_HOPS, mtu, asker.version(), RESOLUTION_NS);
    let mut at = 0;
    let mut patience = PATIENCE;
    let mut answered = None;
    loop {
        let packets = hops.next();
        let (Some(first), is_train) = (packets.first(), packets.len() > 1) else { break };
        if is_train {
            std::thread::sleep(PAUSE);
        }
        if first.ttl != at || is_train {
            let what = if is_train { "trains through all hops".into() } else { format!("hop {}", first.ttl) };
            doing(&what);
            at = if is_train { 0 } else { first.ttl };
            if !is_train {
                (patience, answered) = (PATIENCE, None);
            }
        }
        let mut replies = asker.ask(&packets, patience, stop)?;
        if asker.too_big.take().is_some_and(|fits| hops.too_big(fits)) {
            continue;
        }
        if !is_train && replies[0].is_none() && answered.is_some() {
            // It has answered before, and may again after a second.
            std::thread::sleep(LIMITED);
            replies = asker.ask(&packets, patience, stop)?;
            hops.slow_down();
        }
        if let (false, Some(reply)) = (is_train, replies[0]) {
            answered = Some(reply);
            // What is three times as late does not come.
            let wait = Duration::from_nanos((3.0 * reply.after_ns) as u64) + Duration::from_millis(50);
            patience = patience.min(wait.max(Duration::from_millis(60)));
        }
        hops.take(&replies);
    }
    Ok(hops.answer())
}

/// Finds the MTU of the way to a host.
///
/// # Errors
/// Where the socket fails, or `stop` is set.
pub fn mtu(
    to: IpAddr,
    most: u32,
    stop: &AtomicBool,
    doing: &mut dyn FnMut(&str),
) -> Result<MtuAnswer, Error> {
    let asker = Asker::new(to)?;
    let mut search = match to {
        IpAddr::V4(_) => MtuSearch::new(most),
        IpAddr::V6(_) => MtuSearch::between(LEAST_MTU_V6, most),
    };
    while let Some(bytes) = search.next() {
        doing(&format!("a packet of {bytes} bytes"));
        let outcome = asker.fits(bytes, stop)?;
        if outcome == MtuOutcome::Silent {
            std::thread::sleep(LIMITED.saturating_sub(PATIENCE));
        }
        search.take(outcome);
    }
    Ok(search.answer())
}

/// Sends packets and hears what becomes of them.
struct Asker {
    socket: Socket,
    to: IpAddr,
    next: std::cell::Cell<u16>,
    /// What a router said fits, since it was last taken.
    too_big: std::cell::Cell<Option<u32>>,
}

impl Asker {
    fn new(to: IpAddr) -> Result<Asker, Error> {
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let what = || format!("cannot make a UDP socket to {to}");
        let socket: Socket = UdpSocket::bind(any).attempted(what)?.into();
        told::tell_origins(&socket).attempted(what)?;
        told::tell_errors(&socket, to.is_ipv4(), true).attempted(what)?;
        forbid_fragments(&socket, to.is_ipv4())?;
        socket.set_nonblocking(true).attempted(what)?;
        Ok(Asker { socket, to, next: std::cell::Cell::new(PORTS.start), too_big: std::cell::Cell::new(None) })
    }

    fn version(&self) -> ProbedVersion {
        match self.to {
            IpAddr::V4(_) => ProbedVersion::V4,
            IpAddr::V6(_) => ProbedVersion::V6,
        }
    }

    fn port(&self) -> u16 {
        let port = self.next.get();
        self.next.set(if port + 1 < PORTS.end { port + 1 } else { PORTS.start });
        port
    }

    /// Bytes of UDP payload in a packet of so many bytes of IP.
    fn payload(&self, bytes: u32) -> usize {
        bytes.saturating_sub(self.version().headers()) as usize
    }

    /// Sends packets back to back and waits for what comes of them.
    fn ask(
        &self,
        packets: &[HopPacket],
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<Option<HopReply>>, Error> {
        while self.hear()?.is_some() {}
        let ports: Vec<u16> = packets.iter().map(|_| self.port()).collect();
        let zeros = vec![0; packets.iter().map(|p| self.payload(p.bytes)).max().unwrap_or(0)];
        let begin = realtime_ns();
        let mut hops = None;
        for (packet, port) in packets.iter().zip(&ports) {
            if hops.replace(packet.ttl) != Some(packet.ttl) {
                let (level, name) = match self.to {
                    IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
                    IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
                };
                sys::set_option(&self.socket, level, name, i32::from(packet.ttl))
                    .attempted(|| "cannot set a time to live".into())?;
            }
            self.send(&zeros[..self.payload(packet.bytes)], *port)?;
        }
        let mut replies = vec![None; packets.len()];
        // Of a train only what runs out of hops is waited for.
        let awaited = |replies: &[Option<HopReply>]| {
            packets.iter().zip(replies).filter(|(packet, reply)| packet.ttl < 255 && reply.is_none()).count()
        };
        let since = Instant::now();
        while awaited(&replies) > 0 && since.elapsed() < patience {
            let Some(told) = self.wait(patience.saturating_sub(since.elapsed()), stop)? else { continue };
            let (Some(error), Some(at)) = (told.error.filter(|error| error.by_icmp), told.from) else {
                continue;
            };
            let (Some(number), Some(from)) =
                (ports.iter().position(|port| *port == at.port()), error.offender)
            else {
                continue;
            };
            if error.errno as i32 == libc::EMSGSIZE {
                // This packet was dropped, and is no reply of the hop that was asked.
                self.too_big.set(Some(self.too_big.get().map_or(error.info, |fits| fits.min(error.info))));
                break;
            }
            let after_ns = (told.stamp_ns.unwrap_or_else(realtime_ns) - begin) as f64;
            let is_host = error.kind.0 != TIME_EXCEEDED[usize::from(self.to.is_ipv6())];
            // Its own headers (ICMP's is as long as UDP's), those of ours that it quotes, and what it quotes behind them: that is what
            // the kernel hands over.
            let headers = self.version().headers();
            let bytes = 2 * headers + told.length as u32;
            replies[number] = Some(HopReply { after_ns, from, bytes, is_host: is_host && from == self.to });
        }
        Ok(replies)
    }

    /// Whether a packet of so many bytes comes through.
    fn fits(&self, bytes: u32, stop: &AtomicBool) -> Result<MtuOutcome, Error> {
        while self.hear()?.is_some() {}
        let port = self.port();
        let payload = vec![0; self.payload(bytes)];
        let at = SocketAddr::new(self.to, port);
        match self.socket.send_to(&payload, &at.into()) {
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(MtuOutcome::TooBig(0)),
            Err(e) if !told::is_passing(&e) => {
                return Err(e).attempted(|| format!("cannot send to {}", self.to))?;
            }
            _ => {}
        }
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            let Some(told) = self.wait(PATIENCE.saturating_sub(since.elapsed()), stop)? else { continue };
            let (Some(error), true) = (told.error, told.from.is_some_and(|from| from.port() == port)) else {
                continue;
            };
            match error.errno as i32 {
                libc::EMSGSIZE => return Ok(MtuOutcome::TooBig(error.info)),
                libc::ECONNREFUSED if error.offender == Some(self.to) => return Ok(MtuOutcome::Answered),
                _ => {}
            }
        }
        Ok(MtuOutcome::Silent)
    }

    fn send(&self, payload: &[u8], port: u16) -> Result<(), Error> {
        let at = SocketAddr::new(self.to, port);
        match self.socket.send_to(payload, &at.into()) {
            // An error of an earlier packet is told here as well, once; this one was not sent then.
            Err(e) if told::is_passing(&e) || e.raw_os_error() == Some(libc::EMSGSIZE) => {
                // If this fails too it counts as lost.
                let _ = self.socket.send_to(payload, &at.into());
                Ok(())
            }
            Err(e) => Err(e).attempted(|| format!("cannot send to {}", self.to))?,
            Ok(_) => Ok(()),
        }
    }

    /// The next word about a packet, waiting a little for it.
    fn wait(&self, left: Duration, stop: &AtomicBool) -> Result<Option<Told>, Error> {
        if stop.load(Ordering::Acquire) {
            return Err(interrupted());
        }
        if let Some(told) = self.hear()? {
            return Ok(Some(told));
        }
        // Errors wake whoever waits for anything.
        sys::wait_readable(&self.socket, left.min(NAP)).attempted(|| "cannot wait for answers".into())?;
        self.hear()
    }

    /// The next word about a packet, if there is one.
    fn hear(&self) -> Result<Option<Told>, Error> {
        // Longer than what is quoted, whoever quotes.
        let mut buffer = [0; MOST_MTU as usize];
        match told::receive_told(&self.socket, &mut buffer, libc::MSG_ERRQUEUE) {
            Ok(told) => Ok(Some(told)),
            Err(e) if told::is_passing(&e) => Ok(None),
            Err(e) => Err(e).attempted(|| "cannot read what became of a packet".into())?,
        }
    }
}
