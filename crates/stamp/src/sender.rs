//! The sender of STAMP and TWAMP: sends packets to a reflector and receives its replies.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use os::realtime_ns;
use probe::{DelayResult, DirectionCounts, RoundTripTimes, estimate_delay};
use socket2::Socket;
use traffic::{Attempted, Error, ancillary, path_mtu::mtu_of};
use units::Time;

use super::{
    control::{Schedule, Slot},
    test_socket::{CLOCK_ERROR_NS, own_error},
    wire::{AUTHENTICATED_BYTES, Key, OPEN_BYTES, Reply, Request, interval, ntp, ntp_interval, unix_ns},
};

/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The protocol of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// STAMP, or TWAMP Light: a reflector without control connection.
    #[default]
    Stamp,
    /// TWAMP: a reflector that a control connection starts.
    Twamp,
    /// OWAMP: packets in both directions that are not returned.
    Owamp,
}

/// The times between packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spacing {
    /// All intervals are equal.
    #[default]
    Fixed,
    /// Exponentially distributed: a Poisson process (RFC 2330 section 11.1).
    Exponential,
}

/// A measurement with a reflector or a server.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The protocol.
    pub protocol: Protocol,
    /// The reflector; of TWAMP and OWAMP the server's control port.
    pub to: SocketAddr,
    /// Number of packets; of OWAMP in each direction.
    pub count: u32,
    /// Mean time between two packets.
    pub interval: Time,
    /// The times between packets.
    pub spacing: Spacing,
    /// Bytes of UDP payload; at least those of a base packet.
    pub payload: usize,
    /// For authenticated packets of STAMP.
    pub key: Option<Key>,
    /// The session's identifier (RFC 8972) of STAMP; 0 for none.
    pub session: u16,
    /// Timeout of the reply to the last packet.
    pub timeout: Duration,
}

impl SenderOptions {
    /// Bytes of UDP payload that are sent.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload.max(if self.key.is_some() { AUTHENTICATED_BYTES } else { OPEN_BYTES })
    }

    /// The schedule in the form of OWAMP.
    pub(crate) fn slot(&self) -> Slot {
        let time = ntp_interval(self.interval.to_duration());
        match self.spacing {
            Spacing::Fixed => Slot::Fixed(time),
            Spacing::Exponential => Slot::Exponential(time),
        }
    }
}

/// A measurement with the times of each packet.
#[derive(Debug, Clone)]
pub struct MeasuredPackets {
    /// The delays.
    pub result: DelayResult,
    /// The packets whose replies arrived, in the order of arrival. Of OWAMP, the packets of both directions
    /// that have the same number and arrived.
    pub trips: Vec<RoundTripTimes>,
    /// When each packet without reply was sent: its number and UTC, ns. Of OWAMP, the numbers of packets lost
    /// in either direction.
    pub lost: BTreeMap<u32, i64>,
}

/// Sends packets to a reflector, which is at `options.to`, and receives its replies.
pub(crate) fn exchange(
    socket: &Socket,
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<MeasuredPackets, Error> {
    let what = || format!("send from a UDP socket to {}", options.to);
    socket.connect(&options.to.into()).attempted(what)?;
    let mut seed = [0; 16];
    os::fill_random(&mut seed).attempted(|| "draw a random number".into())?;
    let mut schedule = Schedule::new(&seed, vec![options.slot()]);
    let payload = options.payload_bytes();
    let mut buffer = vec![0; payload + 64];
    let mut sent: BTreeMap<u32, i64> = BTreeMap::new();
    let mut trips: Vec<RoundTripTimes> = Vec::new();
    let mut their_error = 0f64;
    // Number of packets that the reflector has received, if it counts its replies.
    let mut reflected = 0;
    let begin = Instant::now();
    let mut next = 0;
    // When the next packet is due, and when the last one was sent.
    let (mut due, mut last_sent) = (Duration::ZERO, Duration::ZERO);
    let mut count = options.count;
    loop {
        // After a stop, the sender still waits for the replies to packets in flight, so that they do not
        // count as lost.
        if stop.load(Ordering::Acquire) {
            count = next;
        }
        let is_due = next < count && begin.elapsed() >= due;
        if is_due {
            let now = realtime_ns();
            let request =
                Request { sequence: next, stamp: ntp(now), error: own_error(), session: options.session };
            let mut bytes = request.to_bytes(options.key.as_ref());
            bytes.resize(payload, 0);
            match socket.send(&bytes) {
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Err(too_big(socket, options, e));
                }
                Err(e) if !ancillary::is_transient(&e) => {
                    return Err(e).attempted(|| format!("send to {}", options.to));
                }
                _ => drop(sent.insert(next, now)),
            }
            next += 1;
            last_sent = begin.elapsed();
            due += interval(schedule.next().unwrap_or(0));
        }
        let wait = if is_due {
            Duration::ZERO
        } else if next < count {
            due.saturating_sub(begin.elapsed())
        } else {
            match (last_sent + options.timeout).checked_sub(begin.elapsed()) {
                Some(left) if !sent.is_empty() => left,
                _ => break,
            }
        };
        // A sender that is behind its schedule reads one reply for each packet sent. Otherwise the kernel
        // would drop replies that do not fit into the socket's buffer, and they would count as lost on the
        // path.
        let flags = if is_due { libc::MSG_DONTWAIT } else { 0 };
        if !is_due {
            // A timeout of zero would block forever.
            socket
                .set_read_timeout(Some(wait.clamp(Duration::from_micros(50), STOP_CHECK_INTERVAL)))
                .attempted(what)?;
        }
        let received = match ancillary::receive_with_ancillary(socket, &mut buffer, flags) {
            Ok(received) => received,
            Err(e) if ancillary::is_transient(&e) => continue,
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Err(too_big(socket, options, e)),
            Err(e) => return Err(e).attempted(|| format!("receive from {}", options.to)),
        };
        let Some(reply) =
            Reply::from_bytes(&buffer[..received.length.min(buffer.len())], options.key.as_ref())
        else {
            continue;
        };
        // A reflector without RFC 8972, as of TWAMP Light, returns a zero there (section 3).
        if reply.session != options.session && reply.session != 0 {
            continue;
        }
        // Duplicates do not count.
        let Some(sent_ns) = sent.remove(&reply.request.0) else { continue };
        their_error = their_error.max(reply.error.ns().unwrap_or(0.0));
        reflected = reflected.max(reply.sequence.saturating_add(1));
        trips.push(RoundTripTimes {
            sent_ns,
            received_ns: unix_ns(reply.received, reply.error),
            reflected_ns: unix_ns(reply.stamp, reply.error),
            returned_ns: received.stamp_ns.unwrap_or_else(realtime_ns),
        });
        on_reply(trips.len());
    }
    let mut result = estimate_delay(&trips, next as usize, their_error + CLOCK_ERROR_NS as f64);
    if options.protocol == Protocol::Twamp && !trips.is_empty() {
        result.each_direction = Some(each_direction(next, reflected, trips.len()));
    }
    Ok(MeasuredPackets { result, trips, lost: sent })
}

/// The losses of each direction, if the reflector's numbers are a count of its replies (RFC 5357 section
/// 4.2.1). A packet counts once, even if the reflector received copies of it. If no reply to the last packets
/// arrived, they count as lost on the way to the reflector.
fn each_direction(sent: u32, reflected: u32, returned: usize) -> [DirectionCounts; 2] {
    let (sent, reflected) = (sent as usize, reflected.min(sent) as usize);
    let reflected = reflected.max(returned);
    [
        DirectionCounts { sent, lost: sent.saturating_sub(reflected) },
        DirectionCounts { sent: reflected, lost: reflected - returned },
    ]
}

/// The error if packets are larger than the path's MTU. They are not fragmented, because times of fragments
/// are not those of the requested packets.
fn too_big(socket: &Socket, options: &SenderOptions, error: std::io::Error) -> Error {
    let path_mtu = mtu_of(socket, options.to).map_or(String::new(), |mtu| format!(", which takes {mtu}"));
    let headers = if options.to.is_ipv4() { 28 } else { 48 };
    let what = || {
        let bytes = options.payload + headers;
        format!("send packets of {bytes} bytes of IP unfragmented on the path to {}{path_mtu}", options.to)
    };
    Err::<(), _>(error).attempted(what).expect_err("it is an error")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::{Reflector, measure};

    fn reflected(theirs: Option<Key>, ours: Option<Key>) -> DelayResult {
        let reflector = Reflector::bind(IpAddr::from([127, 0, 0, 1]), 0, theirs).unwrap();
        let options = SenderOptions {
            protocol: Protocol::Stamp,
            to: ([127, 0, 0, 1], reflector.port().unwrap()).into(),
            count: 30,
            interval: Time::from_millis(2),
            spacing: Spacing::Exponential,
            payload: 200,
            key: ours,
            session: 77,
            timeout: Duration::from_millis(500),
        };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| reflector.run(&stop));
            let result = measure(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
            stop.store(true, Ordering::Release);
            running.join().expect("no panic").unwrap();
            result
        })
    }

    #[test]
    fn packets_are_reflected_with_and_without_authentication() {
        let key = || Some(Key::new(*b"a key"));
        for (theirs, ours) in [(None, None), (key(), key())] {
            let result = reflected(theirs, ours);
            assert_eq!((result.sent, result.lost), (30, 0));
            let [min, median, ..] = result.rtt_ms.unwrap();
            assert!(0.0 < min && min <= median, "{result:?}");
        }
    }

    #[test]
    fn a_counting_reflector_shows_where_packets_were_lost() {
        let lost = |sent, reflected, returned| each_direction(sent, reflected, returned).map(|way| way.lost);
        assert_eq!(lost(10, 10, 10), [0, 0]);
        assert_eq!(lost(10, 8, 7), [2, 1]);
        // Duplicates, and a reflector whose numbers do not count its replies.
        assert_eq!(lost(10, 13, 9), [0, 1]);
        assert_eq!(lost(10, 1, 9), [1, 0]);
    }

    /// There are more replies than a socket's default buffer holds.
    #[test]
    fn a_sender_behind_its_schedule_loses_no_replies() {
        let reflector = Reflector::bind(IpAddr::from([127, 0, 0, 1]), 0, None).unwrap();
        let options = SenderOptions {
            protocol: Protocol::Stamp,
            to: ([127, 0, 0, 1], reflector.port().unwrap()).into(),
            count: 2000,
            interval: Time::ZERO,
            spacing: Spacing::Fixed,
            payload: OPEN_BYTES,
            key: None,
            session: 0,
            timeout: Duration::from_millis(500),
        };
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let running = scope.spawn(|| reflector.run(&stop));
            // The pause lets the reflector keep up.
            let mut pause = |_| std::thread::sleep(Duration::from_micros(100));
            let result = measure(&options, &AtomicBool::new(false), &mut pause);
            stop.store(true, Ordering::Release);
            running.join().expect("no panic").unwrap();
            result.unwrap()
        });
        assert!(result.lost < 1000, "{} of {}", result.lost, result.sent);
    }

    #[test]
    fn a_reflector_without_session_identifiers_is_measured() {
        let reflector = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let options = SenderOptions {
            protocol: Protocol::Stamp,
            to: reflector.local_addr().unwrap(),
            count: 4,
            interval: Time::from_millis(2),
            spacing: Spacing::Fixed,
            payload: OPEN_BYTES,
            key: None,
            session: 77,
            timeout: Duration::from_millis(500),
        };
        let reflecting = std::thread::spawn(move || {
            // The first two replies have no identifier, the others that of another session.
            for session in [0, 0, 78, 78] {
                let mut bytes = [0; OPEN_BYTES];
                let (length, from) = reflector.recv_from(&mut bytes).unwrap();
                let request = Request::from_bytes(&bytes[..length], None).unwrap();
                let reply = Reply {
                    sequence: request.sequence,
                    stamp: ntp(realtime_ns()),
                    error: own_error(),
                    session,
                    received: ntp(realtime_ns()),
                    request: (request.sequence, request.stamp, request.error),
                    ttl: 255,
                };
                reflector.send_to(&reply.to_bytes(None), from).unwrap();
            }
        });
        let result = measure(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
        reflecting.join().unwrap();
        assert_eq!((result.sent, result.lost), (4, 2));
    }

    #[test]
    fn a_wrong_key_gets_no_reply() {
        let result = reflected(Some(Key::new(*b"a key")), Some(Key::new(*b"another")));
        assert_eq!((result.sent, result.lost), (30, 30));
        let result = reflected(Some(Key::new(*b"a key")), None);
        assert_eq!(result.lost, 30);
    }
}
