//! ICMP echo (RFC 792, RFC 4443) over a raw socket. The kernel timestamps each request when the device
//! accepts it, and each reply when it arrives, so delays in this program are excluded. (ping(8) timestamps
//! requests itself.)

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use socket2::{Domain, Protocol, Socket, Type};
use units::{Bytes, Time};

use crate::{Attempted, Error, Stop, sys};

const ECHO_REQUEST_V4: u8 = 8;
const ECHO_REPLY_V4: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const HEADER: usize = 8;
/// Maximum payload of an echo request: an IPv4 packet less its IP and ICMP headers. (IPv6 allows 20 bytes
/// more.)
pub const MAX_ECHO_PAYLOAD: Bytes = Bytes(65_535 - 20 - 8);
/// Number of requests that can be distinguished by their 16-bit sequence numbers.
const MAX_OPEN_REQUESTS: usize = 1 << 16;
/// Maximum bytes of the headers before ICMP in a sent packet: Ethernet with a VLAN tag, IP with options.
const LOWER_HEADERS: usize = 128;

/// How echo requests are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct PingOptions {
    /// Time between two requests.
    pub interval: Time,
    /// Number of requests; `None` until stopped.
    pub count: Option<u32>,
    /// Bytes after the ICMP header, at most [`MAX_ECHO_PAYLOAD`].
    pub payload: Bytes,
    /// A request without a reply in this time counts as lost.
    pub timeout: Duration,
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// Sequence number, from 1.
    pub sequence: u16,
    /// Round-trip time; `None` if no reply arrived.
    pub rtt: Option<Duration>,
}

/// A raw ICMP socket in the network namespace of the thread that created it.
#[derive(Debug)]
pub struct PingSocket {
    socket: Socket,
    to: IpAddr,
    identifier: u16,
}

impl PingSocket {
    /// Creates the socket; needs CAP_NET_RAW in its namespace. `identifier` distinguishes several sockets to
    /// one host.
    ///
    /// # Errors
    /// If the socket cannot be created or connected.
    pub fn new(to: IpAddr, identifier: u16) -> Result<Self, Error> {
        PingSocket::with_source(to, None, identifier)
    }

    /// As [`PingSocket::new`], with the address of this host from which requests are sent; `None`: the route
    /// chooses it.
    ///
    /// # Errors
    /// Also if this host does not have the address.
    pub fn with_source(to: IpAddr, source: Option<IpAddr>, identifier: u16) -> Result<Self, Error> {
        let what = || format!("create a raw ICMP socket to {to}");
        let (domain, protocol) = match to {
            IpAddr::V4(_) => (Domain::IPV4, Protocol::ICMPV4),
            IpAddr::V6(_) => (Domain::IPV6, Protocol::ICMPV6),
        };
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).attempted(what)?;
        sys::enable_packet_stamps(&socket).attempted(what)?;
        if let Some(source) = source {
            let at = SocketAddr::new(source, 0);
            socket.bind(&at.into()).attempted(|| format!("send echo requests from {source}"))?;
        }
        socket.connect(&SocketAddr::new(to, 0).into()).attempted(what)?;
        Ok(PingSocket { socket, to, identifier })
    }

    /// Sends requests at the interval and passes each one's outcome to `echo`: replies as they arrive, losses
    /// at the end, or when a later request needs the sequence number. Returns when all requests are answered
    /// or have timed out, or when stopped.
    ///
    /// # Errors
    /// If the payload is too large, or the socket fails.
    pub fn run(&self, options: &PingOptions, stop: &Stop, mut echo: impl FnMut(Echo)) -> Result<(), Error> {
        if options.payload > MAX_ECHO_PAYLOAD {
            let error = io::Error::from_raw_os_error(libc::EMSGSIZE);
            return Err(error).attempted(|| format!("send echo requests of {}", options.payload));
        }
        let start = Instant::now();
        let count = options.count.map_or(u64::MAX, u64::from);
        let interval = options.interval.to_duration();
        // `None`: never.
        let due = |number: u64| {
            start.checked_add(interval.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)))
        };
        let mut requests = Requests::default();
        let mut last_send = start;
        while !stop.is_set() {
            let next = requests.next_number();
            if next < count && due(next).is_some_and(|due| Instant::now() >= due) {
                let sequence = sequence(next);
                if requests.push(os::realtime()) {
                    echo(Echo { sequence, rtt: None });
                }
                self.send(sequence, options.payload)?;
                if let Some(at) = self.departure(sequence, options.payload) {
                    requests.set_departure(at);
                }
                last_send = Instant::now();
            }
            let next = requests.next_number();
            if next >= count && (requests.open == 0 || last_send.elapsed() > options.timeout) {
                break;
            }
            // Also if the next request is due already: otherwise no reply would be received at a short
            // interval.
            let wait = match due(next).filter(|_| next < count) {
                Some(due) => due.saturating_duration_since(Instant::now()),
                None => options.timeout,
            };
            if let Some((sequence, at)) = self.receive(wait)?
                && let Some(sent_at) = requests.take(sequence)
            {
                echo(Echo { sequence, rtt: Some(at.saturating_sub(sent_at)) });
            }
        }
        // Requests that had not timed out when the run was stopped do not count as lost.
        let now = os::realtime();
        for (sequence, sent_at) in requests.unanswered() {
            if now.saturating_sub(sent_at) > options.timeout {
                echo(Echo { sequence, rtt: None });
            }
        }
        Ok(())
    }

    fn send(&self, sequence: u16, payload: Bytes) -> Result<(), Error> {
        let mut packet = vec![0u8; HEADER + payload.0 as usize];
        packet[0] = if self.to.is_ipv4() { ECHO_REQUEST_V4 } else { ECHO_REQUEST_V6 };
        packet[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&sequence.to_be_bytes());
        if self.to.is_ipv4() {
            // The kernel fills in the checksum of ICMPv6.
            let sum = checksum(&packet);
            packet[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        // The error may concern an earlier request; then the kernel has not sent this one.
        let sent = self.socket.send(&packet).or_else(|_| self.socket.send(&packet));
        match sent {
            Ok(_) => Ok(()),
            Err(e) if concerns_one_request(&e) => Ok(()),
            Err(e) => Err(e).attempted(|| format!("send an echo request to {}", self.to)),
        }
    }

    /// When the device accepted the request that was just sent. `None` if it has not accepted it yet: the
    /// wait, for example for address resolution, is part of the round-trip time.
    fn departure(&self, sequence: u16, payload: Bytes) -> Option<Duration> {
        let request = HEADER + payload.0 as usize;
        let mut buffer = vec![0u8; LOWER_HEADERS + request];
        let mut departure = None;
        // The error queue also contains the timestamps of earlier requests that had to wait.
        while let Ok((len, stamp)) = sys::receive_departure_stamp(&self.socket, &mut buffer) {
            // A fragmented request arrives in parts; for it, the time of the send call is precise enough.
            let icmp = len.checked_sub(request).map(|start| &buffer[start..start + HEADER]);
            let is_this = |icmp: &&[u8]| {
                icmp[4..6] == self.identifier.to_be_bytes() && icmp[6..8] == sequence.to_be_bytes()
            };
            if icmp.filter(is_this).is_some() {
                departure = stamp;
            }
        }
        departure
    }

    /// The next reply to one of our requests: its sequence number and arrival.
    fn receive(&self, wait: Duration) -> Result<Option<(u16, Duration)>, Error> {
        let what = || format!("receive echo replies from {}", self.to);
        // A timeout of zero would block forever.
        let wait = wait.clamp(Duration::from_micros(100), Duration::from_millis(100));
        self.socket.set_read_timeout(Some(wait)).attempted(what)?;
        let mut buffer = [0u8; 2048];
        let (len, stamp) = match sys::receive_stamped(&self.socket, &mut buffer) {
            Ok(received) => received,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(e) if concerns_one_request(&e) => return Ok(None),
            Err(e) => return Err(e).attempted(what),
        };
        let now = os::realtime();
        Ok(self.reply(&buffer[..len]).map(|sequence| (sequence, stamp.unwrap_or(now))))
    }

    /// The sequence number, if `packet` is a reply to a request of this socket.
    fn reply(&self, packet: &[u8]) -> Option<u16> {
        let (icmp, reply) = match self.to {
            IpAddr::V4(_) => {
                let header = usize::from(packet.first()? & 0x0f) * 4;
                (packet.get(header..)?, ECHO_REPLY_V4)
            }
            IpAddr::V6(_) => (packet, ECHO_REPLY_V6),
        };
        let icmp = icmp.get(..HEADER)?;
        let ours = icmp[0] == reply && icmp[4..6] == self.identifier.to_be_bytes();
        ours.then(|| u16::from_be_bytes([icmp[6], icmp[7]]))
    }
}

/// Whether only one request is lost: it had no route, its device was down or its queue full, its address was
/// not resolved, or an ICMP error rejected it (net/ipv4/icmp.c, `icmp_err_convert`; net/ipv6/icmp.c,
/// `icmpv6_err_convert`). ping(8) continues too.
fn concerns_one_request(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::EHOSTDOWN
                | libc::ENOBUFS
                | libc::EMSGSIZE
                | libc::ECONNREFUSED
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::ENONET
                | libc::EPROTO
                | libc::EACCES
                | libc::EPERM
        )
    )
}

/// The sequence number of the request with this number, from 0.
fn sequence(number: u64) -> u16 {
    (number + 1) as u16
}

/// The latest requests, to which replies can arrive.
#[derive(Debug, Default)]
struct Requests {
    /// When each was sent; `None` once its reply has arrived.
    sent: VecDeque<Option<Duration>>,
    /// Number of the first of these.
    first: u64,
    /// Number of unanswered requests.
    open: usize,
}

impl Requests {
    /// Number of the next request.
    fn next_number(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    /// Adds the next request. True if it takes the sequence number of an unanswered one, which is lost.
    fn push(&mut self, at: Duration) -> bool {
        let mut is_lost = false;
        if self.sent.len() == MAX_OPEN_REQUESTS {
            is_lost = self.sent.pop_front().flatten().is_some();
            self.first += 1;
            self.open -= usize::from(is_lost);
        }
        self.sent.push_back(Some(at));
        self.open += 1;
        is_lost
    }

    /// Sets the time of the last request.
    fn set_departure(&mut self, at: Duration) {
        if let Some(last) = self.sent.back_mut() {
            *last = Some(at);
        }
    }

    /// When the newest request with this sequence number was sent, if it has no reply yet; marks it as
    /// replied to.
    fn take(&mut self, sequence: u16) -> Option<Duration> {
        let age = usize::from((self.next_number() as u16).wrapping_sub(sequence));
        let index = self.sent.len().checked_sub(age + 1)?;
        let sent_at = self.sent[index].take()?;
        self.open -= 1;
        Some(sent_at)
    }

    /// Sequence numbers and times of the unanswered requests.
    fn unanswered(&self) -> impl Iterator<Item = (u16, Duration)> {
        let numbered = (self.first..).zip(&self.sent);
        numbered.filter_map(|(number, sent_at)| Some((sequence(number), (*sent_at)?)))
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_over_a_packet_with_its_checksum_is_zero() {
        let mut packet = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1, 9, 9, 9];
        let sum = checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&packet), 0);
    }

    #[test]
    fn a_reply_is_matched_to_the_newest_request_with_its_number() {
        let at = |number: u64| Duration::from_millis(number);
        let mut requests = Requests::default();
        assert_eq!((requests.take(0), requests.take(1)), (None, None));
        for number in 0..65_536 {
            assert!(!requests.push(at(number)));
        }
        assert_eq!((requests.take(1), requests.take(1)), (Some(at(0)), None));
        assert_eq!((requests.take(0), requests.open), (Some(at(65_535)), 65_534));
        // The next two have the sequence numbers 1, which was answered, and 2, which was not.
        assert_eq!((requests.push(at(65_536)), requests.push(at(65_537))), (false, true));
        assert_eq!((requests.open, requests.next_number()), (65_535, 65_538));
        assert_eq!((requests.take(2), requests.take(3)), (Some(at(65_537)), Some(at(2))));
        assert_eq!(requests.sent.len(), MAX_OPEN_REQUESTS);
        let unanswered: Vec<_> = requests.unanswered().collect();
        assert_eq!((unanswered.len(), unanswered[0]), (65_533, (4, at(3))));
        assert_eq!(unanswered.last(), Some(&(1, at(65_536))));
    }

    #[test]
    fn replies_are_received_at_an_interval_of_zero() {
        // Not 127.0.0.1: that many packets would overflow the buffers of the other tests' sockets, which
        // receive all echoes of that address.
        let Ok(socket) = PingSocket::new(IpAddr::from([127, 0, 0, 3]), 78) else {
            testing::skip(testing::Missing::Privilege, "raw sockets need CAP_NET_RAW");
            return;
        };
        let options = PingOptions {
            interval: Time::ZERO,
            count: None,
            payload: Bytes(0),
            timeout: Duration::from_secs(1),
        };
        let (stop, mut received) = (Stop::default(), 0);
        socket
            .run(&options, &stop, |echo| {
                received += u32::from(echo.rtt.is_some());
                if received == 100 {
                    stop.set();
                }
            })
            .unwrap();
        assert_eq!(received, 100);
        for payload in [Bytes(65_508), Bytes(1 << 40), Bytes(u64::MAX)] {
            let too_large = PingOptions { payload, ..options.clone() };
            assert!(socket.run(&too_large, &Stop::default(), |_| ()).is_err(), "{payload}");
        }
    }

    /// In a network namespace whose route to the destination is removed.
    #[test]
    fn requests_without_a_route_are_lost() {
        let ip = |arguments: &str| {
            let ip = std::process::Command::new("ip").args(arguments.split(' ')).status();
            ip.is_ok_and(|status| status.success())
        };
        let run = move || {
            let is_ready =
                os::unshare_network().is_ok() && ip("link set lo up") && ip("route add 10.9.9.0/24 dev lo");
            if !is_ready {
                testing::skip(testing::Missing::Privilege, "only root may create a network namespace");
                return;
            }
            let socket = PingSocket::new(IpAddr::from([10, 9, 9, 9]), 79).unwrap();
            assert!(ip("route del 10.9.9.0/24"));
            let options = PingOptions {
                interval: Time::from_millis(1),
                count: Some(3),
                payload: Bytes(0),
                timeout: Duration::from_millis(50),
            };
            let mut echoes = Vec::new();
            socket.run(&options, &Stop::default(), |echo| echoes.push((echo.sequence, echo.rtt))).unwrap();
            assert_eq!(echoes, [(1, None), (2, None), (3, None)]);
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn requests_are_sent_from_the_given_address() {
        let [to, from] = [1, 2].map(|last| IpAddr::from([127, 0, 0, last]));
        let Ok(socket) = PingSocket::with_source(to, Some(from), 80) else {
            testing::skip(testing::Missing::Privilege, "raw sockets need CAP_NET_RAW");
            return;
        };
        assert_eq!(socket.socket.local_addr().unwrap().as_socket().unwrap().ip(), from);
        let (interval, timeout) = (Time::from_millis(1), Duration::from_secs(1));
        let options = PingOptions { interval, count: Some(1), payload: Bytes(0), timeout };
        let mut is_answered = false;
        socket.run(&options, &Stop::default(), |echo| is_answered = echo.rtt.is_some()).unwrap();
        assert!(is_answered);
        assert!(PingSocket::with_source(to, Some([192, 0, 2, 1].into()), 80).is_err());
    }

    #[test]
    fn every_request_to_localhost_gets_a_reply() {
        let Ok(socket) = PingSocket::new(IpAddr::from([127, 0, 0, 1]), 77) else {
            testing::skip(testing::Missing::Privilege, "raw sockets need CAP_NET_RAW");
            return;
        };
        let options = PingOptions {
            interval: Time::from_millis(2),
            count: Some(5),
            payload: Bytes(56),
            timeout: Duration::from_secs(1),
        };
        let mut echoes = Vec::new();
        socket.run(&options, &Stop::default(), |e| echoes.push(e)).unwrap();
        assert_eq!(echoes.iter().map(|e| e.sequence).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert!(echoes.iter().all(|e| e.rtt.is_some()));
    }
}
