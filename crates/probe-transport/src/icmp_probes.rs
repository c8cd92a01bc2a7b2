//! Probes that need no peer: UDP packets to closed ports, and the ICMP messages that they cause. The kernel
//! passes these messages to the socket that sent the packet (ip(7), IP_RECVERR), so neither a raw socket nor
//! a privilege is needed.

use std::{
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use iperf3::{Error as LinkError, IpVersion};
use os::realtime_ns;
use probe::{
    HopProbe, HopReply, Hops, HopsResult, IpVersion as ProbedVersion, MtuOutcome, MtuResult, MtuSearch,
};
use socket2::Socket;
use traffic::{
    Attempted,
    ancillary::{self, ReceivedDatagram},
    path_mtu::{forbid_fragments, route_mtu},
};

use super::{
    Error,
    client::{MAX_MTU, interrupted},
};

/// The ports of traceroute(8), which are usually closed: one for each packet, which identifies the packet in
/// ICMP messages.
const PORTS: std::ops::Range<u16> = 33_434..60_000;
/// Timeout of a reply, until the hop's round-trip time is known.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause for hosts that limit their ICMP messages to one a second (Linux's icmp_ratelimit).
const ICMP_RATE_LIMIT_PAUSE: Duration = Duration::from_millis(1_050);
/// Pause between two trains.
const TRAIN_PAUSE: Duration = Duration::from_millis(100);
/// Assumed precision of the times, ns.
const RESOLUTION_NS: f64 = 10_000.0;
/// Maximum number of hops.
pub(super) const MAX_HOPS: u8 = 30;
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The types of ICMP's and ICMPv6's time exceeded message.
const TIME_EXCEEDED: [u8; 2] = [11, 3];
/// IPv6's minimum MTU (RFC 8200 section 5).
const MIN_MTU_V6: u32 = 1280;

/// Resolves a host's address, with its scope if it is a link-local one (`fe80::1%eth0`); the port is 0.
///
/// # Errors
/// If it has no address of the requested IP version.
pub fn resolve(host: &str, ip: Option<IpVersion>) -> Result<SocketAddr, Error> {
    let no_address = |reason: String| LinkError::NoAddress { host: host.to_string(), reason };
    let found = (host, 0).to_socket_addrs().map_err(|e| no_address(e.to_string()))?;
    let mut addresses = found.filter(|at| ip.is_none_or(|ip| (ip == IpVersion::V4) == at.is_ipv4()));
    addresses.next().ok_or_else(|| no_address("no address of the requested IP version".into()).into())
}

/// Measures the links on the path to a host, with unfragmented packets of at most the path's MTU. `doing` is
/// called with a description of each step.
///
/// # Errors
/// If the socket fails, or `stop` is set.
pub fn hops(to: SocketAddr, stop: &AtomicBool, doing: &mut dyn FnMut(&str)) -> Result<HopsResult, Error> {
    doing("the path's MTU");
    let route = route_mtu(to)?.min(MAX_MTU);
    // If the host does not reply, the routers' messages limit the size.
    let mtu = mtu(to, route, stop, &mut |_| {})?.mtu_bytes.unwrap_or(route);
    let prober = IcmpProber::new(to)?;
    let mut hops = Hops::new(MAX_HOPS, mtu, prober.version(), RESOLUTION_NS);
    let mut at = 0;
    let mut timeout = REPLY_TIMEOUT;
    let mut last_reply = None;
    loop {
        let packets = hops.next_packets();
        let (Some(first), is_train) = (packets.first(), packets.len() > 1) else { break };
        if is_train {
            std::thread::sleep(TRAIN_PAUSE);
        }
        if first.ttl != at || is_train {
            let what = if is_train { "trains through all hops".into() } else { format!("hop {}", first.ttl) };
            doing(&what);
            at = if is_train { 0 } else { first.ttl };
            if !is_train {
                (timeout, last_reply) = (REPLY_TIMEOUT, None);
            }
        }
        let mut replies = prober.probe(&packets, timeout, stop)?;
        if prober.too_big.take().is_some_and(|fits| hops.reduce_mtu(fits)) {
            continue;
        }
        if !is_train && replies[0].is_none() && last_reply.is_some() {
            // The hop has replied before, and may reply again after a second.
            std::thread::sleep(ICMP_RATE_LIMIT_PAUSE);
            replies = prober.probe(&packets, timeout, stop)?;
            hops.reduce_repeats();
        }
        if let (false, Some(reply)) = (is_train, replies[0]) {
            last_reply = Some(reply);
            timeout = timeout.min(timeout_after(&reply));
        }
        hops.add_replies(&replies);
    }
    Ok(hops.result())
}

/// Timeout of further replies of a hop: three times its round-trip time, and 50 ms.
pub(super) fn timeout_after(reply: &HopReply) -> Duration {
    let wait = Duration::from_nanos((3.0 * reply.after_ns) as u64) + Duration::from_millis(50);
    wait.max(Duration::from_millis(60))
}

/// Finds the MTU of the path to a host, at most `max` bytes.
///
/// # Errors
/// If the socket fails, or `stop` is set.
pub fn mtu(
    to: SocketAddr,
    max: u32,
    stop: &AtomicBool,
    doing: &mut dyn FnMut(&str),
) -> Result<MtuResult, Error> {
    search_mtu(to, max, None, stop, doing).map(|(result, _)| result)
}

/// As [`mtu`], but ends before `until`. Also returns whether the search is complete; otherwise larger packets
/// than those of the result may pass too.
pub(super) fn search_mtu(
    to: SocketAddr,
    max: u32,
    until: Option<Instant>,
    stop: &AtomicBool,
    doing: &mut dyn FnMut(&str),
) -> Result<(MtuResult, bool), Error> {
    let prober = IcmpProber::new(to)?;
    let mut search = match to {
        SocketAddr::V4(_) => MtuSearch::new(max),
        SocketAddr::V6(_) => MtuSearch::between(MIN_MTU_V6, max),
    };
    while let Some(bytes) = search.next_size() {
        if until.is_some_and(|until| Instant::now() + REPLY_TIMEOUT > until) {
            return Ok((search.result(), false));
        }
        doing(&format!("a packet of {bytes} bytes"));
        let outcome = prober.fits(bytes, stop)?;
        if outcome == MtuOutcome::NoReply {
            std::thread::sleep(ICMP_RATE_LIMIT_PAUSE.saturating_sub(REPLY_TIMEOUT));
        }
        search.add_outcome(outcome);
    }
    Ok((search.result(), true))
}

/// Sends packets and receives the ICMP messages about them.
pub(super) struct IcmpProber {
    socket: Socket,
    to: SocketAddr,
    next: std::cell::Cell<u16>,
    /// The smallest MTU that routers have reported since it was last taken.
    too_big: std::cell::Cell<Option<u32>>,
}

impl IcmpProber {
    pub(super) fn new(to: SocketAddr) -> Result<IcmpProber, Error> {
        let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let what = || format!("create a UDP socket to {}", to.ip());
        let socket: Socket = UdpSocket::bind(any).attempted(what)?.into();
        ancillary::enable_arrival_info(&socket).attempted(what)?;
        ancillary::set_error_reports(&socket, to.is_ipv4(), true).attempted(what)?;
        forbid_fragments(&socket, to.is_ipv4())?;
        socket.set_nonblocking(true).attempted(what)?;
        Ok(IcmpProber {
            socket,
            to,
            next: std::cell::Cell::new(PORTS.start),
            too_big: std::cell::Cell::new(None),
        })
    }

    fn version(&self) -> ProbedVersion {
        match self.to {
            SocketAddr::V4(_) => ProbedVersion::V4,
            SocketAddr::V6(_) => ProbedVersion::V6,
        }
    }

    fn port(&self) -> u16 {
        let port = self.next.get();
        self.next.set(if port + 1 < PORTS.end { port + 1 } else { PORTS.start });
        port
    }

    /// A port of the host.
    fn at(&self, port: u16) -> SocketAddr {
        let mut at = self.to;
        at.set_port(port);
        at
    }

    /// Bytes of UDP payload in an IP packet of `bytes`.
    fn payload(&self, bytes: u32) -> usize {
        bytes.saturating_sub(self.version().header_bytes()) as usize
    }

    /// Sends packets back to back and waits for the replies.
    pub(super) fn probe(
        &self,
        packets: &[HopProbe],
        timeout: Duration,
        stop: &AtomicBool,
    ) -> Result<Vec<Option<HopReply>>, Error> {
        while self.next_report()?.is_some() {}
        let ports: Vec<u16> = packets.iter().map(|_| self.port()).collect();
        let zeros = vec![0; packets.iter().map(|p| self.payload(p.bytes)).max().unwrap_or(0)];
        let begin = realtime_ns();
        let mut hops = None;
        for (packet, port) in packets.iter().zip(&ports) {
            if hops.replace(packet.ttl) != Some(packet.ttl) {
                let (level, name) = match self.to {
                    SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL),
                    SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
                };
                os::set_option(&self.socket, level, name, i32::from(packet.ttl))
                    .attempted(|| "set a time to live".into())?;
            }
            self.send(&zeros[..self.payload(packet.bytes)], *port)?;
        }
        let mut replies = vec![None; packets.len()];
        // Only the packets of a train whose time to live expires cause a reply.
        let awaited = |replies: &[Option<HopReply>]| {
            packets.iter().zip(replies).filter(|(packet, reply)| packet.ttl < 255 && reply.is_none()).count()
        };
        let since = Instant::now();
        while awaited(&replies) > 0 && since.elapsed() < timeout {
            let Some(report) = self.wait(timeout.saturating_sub(since.elapsed()), stop)? else { continue };
            let (Some(error), Some(at)) = (report.error.filter(|error| error.by_icmp), report.from) else {
                continue;
            };
            let (Some(number), Some(from)) =
                (ports.iter().position(|port| *port == at.port()), error.offender)
            else {
                continue;
            };
            if error.errno as i32 == libc::EMSGSIZE {
                // A router has dropped this packet: this is not the reply of the probed hop.
                self.too_big.set(Some(self.too_big.get().map_or(error.info, |fits| fits.min(error.info))));
                break;
            }
            let after_ns = (report.stamp_ns.unwrap_or_else(realtime_ns) - begin) as f64;
            // Any other error means that the packet reached the host, or cannot reach it.
            let is_time_exceeded = error.kind.0 == TIME_EXCEEDED[usize::from(self.to.is_ipv6())];
            let (is_host, is_unreachable) =
                (!is_time_exceeded && from == self.to.ip(), !is_time_exceeded && from != self.to.ip());
            // The reply's size: its own headers (ICMP's is as long as UDP's), our headers that it quotes, and
            // the quoted payload, which is all that the kernel returns.
            let headers = self.version().header_bytes();
            let bytes = 2 * headers + report.length as u32;
            replies[number] = Some(HopReply { after_ns, from, bytes, is_host, is_unreachable });
        }
        Ok(replies)
    }

    /// Whether a packet of `bytes` reaches the host.
    fn fits(&self, bytes: u32, stop: &AtomicBool) -> Result<MtuOutcome, Error> {
        while self.next_report()?.is_some() {}
        let port = self.port();
        let payload = vec![0; self.payload(bytes)];
        let at = self.at(port);
        match self.socket.send_to(&payload, &at.into()) {
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Ok(MtuOutcome::TooBig(0)),
            Err(e) if !ancillary::is_transient(&e) => {
                return Err(e).attempted(|| format!("send to {}", self.to.ip()))?;
            }
            _ => {}
        }
        let since = Instant::now();
        while since.elapsed() < REPLY_TIMEOUT {
            let Some(report) = self.wait(REPLY_TIMEOUT.saturating_sub(since.elapsed()), stop)? else {
                continue;
            };
            let (Some(error), true) = (report.error, report.from.is_some_and(|from| from.port() == port))
            else {
                continue;
            };
            match error.errno as i32 {
                libc::EMSGSIZE => return Ok(MtuOutcome::TooBig(error.info)),
                libc::ECONNREFUSED if error.offender == Some(self.to.ip()) => return Ok(MtuOutcome::Replied),
                _ => {}
            }
        }
        Ok(MtuOutcome::NoReply)
    }

    fn send(&self, payload: &[u8], port: u16) -> Result<(), Error> {
        let at = self.at(port);
        let send = || self.socket.send_to(payload, &at.into());
        // The first call may return the error of an earlier packet, once, and not send this packet. It can be
        // any error of an ICMP message, such as EACCES for ICMPv6's "administratively prohibited".
        match send().or_else(|_| send()) {
            // This packet counts as lost.
            Err(e) if ancillary::is_transient(&e) || e.raw_os_error() == Some(libc::EMSGSIZE) => Ok(()),
            Err(e) => Err(e).attempted(|| format!("send to {}", self.to.ip()))?,
            Ok(_) => Ok(()),
        }
    }

    /// The next report about a packet; waits up to `left`, in steps of [`STOP_CHECK_INTERVAL`].
    fn wait(&self, left: Duration, stop: &AtomicBool) -> Result<Option<ReceivedDatagram>, Error> {
        if stop.load(Ordering::Acquire) {
            return Err(interrupted());
        }
        if let Some(report) = self.next_report()? {
            return Ok(Some(report));
        }
        // An error also makes the socket readable (POLLERR).
        os::wait_readable(&self.socket, left.min(STOP_CHECK_INTERVAL))
            .attempted(|| "wait for replies".into())?;
        self.next_report()
    }

    /// The next report about a packet, if there is one.
    fn next_report(&self) -> Result<Option<ReceivedDatagram>, Error> {
        // Longer than any quoted packet.
        let mut buffer = [0; MAX_MTU as usize];
        match ancillary::receive_with_ancillary(&self.socket, &mut buffer, libc::MSG_ERRQUEUE) {
            Ok(report) => Ok(Some(report)),
            Err(e) if ancillary::is_transient(&e) => Ok(None),
            Err(e) => Err(e).attempted(|| "read the ICMP errors of a packet".into())?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_local_addresses_keep_their_scope() {
        let SocketAddr::V6(address) = resolve("fe80::1%lo", None).unwrap() else { panic!("an IPv6 address") };
        assert_eq!((address.port(), address.ip().to_string()), (0, "fe80::1".to_string()));
        assert_ne!(address.scope_id(), 0);
    }
}
