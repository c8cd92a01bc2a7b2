//! Sends STAMP packets to a reflector and receives its replies.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use os::realtime_ns;
use probe::{DelayResult, RoundTripTimes, estimate_delay};
use socket2::Socket;
use traffic::{
    Attempted, Error, ancillary,
    path_mtu::{forbid_fragments, mtu_of},
};
use units::Time;

use super::wire::{AUTHENTICATED_BYTES, ErrorEstimate, Key, OPEN_BYTES, Reply, Request, ntp, unix_ns};

/// Assumed error of this end's times, ns.
const CLOCK_ERROR_NS: u64 = 50_000;
/// Maximum time until a stop takes effect.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A measurement with a reflector.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The reflector.
    pub to: SocketAddr,
    /// Number of packets.
    pub count: u32,
    /// Time between two packets.
    pub interval: Time,
    /// Bytes of UDP payload; at least those of a base packet.
    pub payload: usize,
    /// For authenticated packets.
    pub key: Option<Key>,
    /// The session's identifier (RFC 8972); 0 for none.
    pub session: u16,
    /// Timeout of the reply to the last packet.
    pub timeout: Duration,
}

/// Measures; ends early when `stop` is set. `on_reply` is called with the number of replies so far.
///
/// # Errors
/// If the socket fails, or the packets are larger than the path's MTU.
pub fn measure(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<DelayResult, Error> {
    Ok(measure_packets(options, stop, on_reply)?.result)
}

/// A measurement with the times of each packet.
#[derive(Debug, Clone)]
pub struct MeasuredPackets {
    /// The delays.
    pub result: DelayResult,
    /// The packets whose replies arrived, in the order of arrival.
    pub trips: Vec<RoundTripTimes>,
    /// When each packet without reply was sent: its number and UTC, ns.
    pub lost: BTreeMap<u32, i64>,
}

/// As [`measure`], with the times of each packet.
///
/// # Errors
/// As [`measure`].
pub fn measure_packets(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_reply: &mut dyn FnMut(usize),
) -> Result<MeasuredPackets, Error> {
    let any: SocketAddr = if options.to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("cannot create a UDP socket to {}", options.to);
    let socket = UdpSocket::bind(any).attempted(what)?;
    socket.connect(options.to).attempted(what)?;
    let socket: Socket = socket.into();
    ancillary::enable_arrival_info(&socket).attempted(what)?;
    forbid_fragments(&socket, options.to.is_ipv4())?;
    let base_bytes = if options.key.is_some() { AUTHENTICATED_BYTES } else { OPEN_BYTES };
    let mut buffer = vec![0; options.payload.max(base_bytes) + 64];
    let mut sent: BTreeMap<u32, i64> = BTreeMap::new();
    let mut trips: Vec<RoundTripTimes> = Vec::new();
    let mut their_error = 0f64;
    let begin = Instant::now();
    let interval = Duration::from_nanos(options.interval.0);
    let mut next = 0;
    while !stop.load(Ordering::Acquire) {
        let due = interval.saturating_mul(next);
        if next < options.count && begin.elapsed() >= due {
            let now = realtime_ns();
            let request = Request {
                sequence: next,
                stamp: ntp(now),
                error: ErrorEstimate::of(CLOCK_ERROR_NS, false),
                session: options.session,
            };
            let mut bytes = request.to_bytes(options.key.as_ref());
            bytes.resize(options.payload.max(base_bytes), 0);
            match socket.send(&bytes) {
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Err(too_big(&socket, options, e));
                }
                Err(e) if !ancillary::is_transient(&e) => {
                    return Err(e).attempted(|| format!("cannot send to {}", options.to));
                }
                _ => drop(sent.insert(next, now)),
            }
            next += 1;
            continue;
        }
        let wait = if next < options.count {
            due.saturating_sub(begin.elapsed())
        } else {
            let last = interval.saturating_mul(options.count.saturating_sub(1));
            match (last + options.timeout).checked_sub(begin.elapsed()) {
                Some(left) if !sent.is_empty() => left,
                _ => break,
            }
        };
        // A timeout of zero would block forever.
        socket
            .set_read_timeout(Some(wait.clamp(Duration::from_micros(50), STOP_CHECK_INTERVAL)))
            .attempted(what)?;
        let received = match ancillary::receive_with_ancillary(&socket, &mut buffer, 0) {
            Ok(received) => received,
            Err(e) if ancillary::is_transient(&e) => continue,
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Err(too_big(&socket, options, e)),
            Err(e) => return Err(e).attempted(|| format!("cannot receive from {}", options.to)),
        };
        let Some(reply) =
            Reply::from_bytes(&buffer[..received.length.min(buffer.len())], options.key.as_ref())
        else {
            continue;
        };
        if reply.session != options.session {
            continue;
        }
        // Duplicates do not count.
        let Some(sent_ns) = sent.remove(&reply.request.0) else { continue };
        their_error = their_error.max(reply.error.ns().unwrap_or(0.0));
        trips.push(RoundTripTimes {
            sent_ns,
            received_ns: unix_ns(reply.received, reply.error),
            reflected_ns: unix_ns(reply.stamp, reply.error),
            returned_ns: received.stamp_ns.unwrap_or_else(realtime_ns),
        });
        on_reply(trips.len());
    }
    let result = estimate_delay(&trips, next as usize, their_error + CLOCK_ERROR_NS as f64);
    Ok(MeasuredPackets { result, trips, lost: sent })
}

/// The error if packets are larger than the path's MTU. They are not fragmented, because times of fragments
/// are not those of the requested packets.
fn too_big(socket: &Socket, options: &SenderOptions, error: std::io::Error) -> Error {
    let path_mtu = mtu_of(socket, options.to).map_or(String::new(), |mtu| format!(", which takes {mtu}"));
    let headers = if options.to.is_ipv4() { 28 } else { 48 };
    let what = || {
        let bytes = options.payload + headers;
        format!(
            "cannot send packets of {bytes} bytes of IP unfragmented on the path to {}{path_mtu}",
            options.to
        )
    };
    Err::<(), _>(error).attempted(what).expect_err("it is an error")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::Reflector;

    fn reflected(theirs: Option<Key>, ours: Option<Key>) -> DelayResult {
        let reflector = Reflector::bind(IpAddr::from([127, 0, 0, 1]), 0, theirs).unwrap();
        let options = SenderOptions {
            to: ([127, 0, 0, 1], reflector.port().unwrap()).into(),
            count: 30,
            interval: Time::from_millis(2),
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
    fn packets_are_reflected_with_and_without_a_key() {
        let key = || Some(Key::new(*b"a key"));
        for (theirs, ours) in [(None, None), (key(), key())] {
            let result = reflected(theirs, ours);
            assert_eq!((result.sent, result.lost), (30, 0));
            let [least, median, ..] = result.rtt_ms.unwrap();
            assert!(0.0 < least && least <= median, "{result:?}");
        }
    }

    #[test]
    fn a_wrong_key_gets_no_reply() {
        let result = reflected(Some(Key::new(*b"a key")), Some(Key::new(*b"another")));
        assert_eq!((result.sent, result.lost), (30, 30));
        let result = reflected(Some(Key::new(*b"a key")), None);
        assert_eq!(result.lost, 30);
    }
}
