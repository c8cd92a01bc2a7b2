//! Sends STAMP packets to a reflector and takes its answers in.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use probe::{DelayAnswer, RoundTrip, delay};
use socket2::Socket;
use units::Time;

use super::wire::{AUTHENTICATED_BYTES, ErrorEstimate, Key, OPEN_BYTES, Reply, Request, ntp, unix_ns};
use crate::{
    Error,
    error::Attempted,
    probe::{forbid_fragments, mtu_of},
    told,
    udp::sys::realtime_ns,
};

/// How exact this end's times are, ns.
const EXACT_TO_NS: u64 = 50_000;
/// A request to stop is seen within this time.
const NAP: Duration = Duration::from_millis(50);

/// What is sent.
#[derive(Debug, Clone)]
pub struct SenderOptions {
    /// The reflector.
    pub to: SocketAddr,
    /// Packets.
    pub count: u32,
    /// Between two of them.
    pub interval: Time,
    /// Bytes of UDP payload; at least the packet's own.
    pub payload: usize,
    /// For authenticated packets.
    pub key: Option<Key>,
    /// The session's identifier (RFC 8972); 0 for none.
    pub session: u16,
    /// How long the last packet's answer may take.
    pub patience: Duration,
}

/// Measures; ends early when `stop` is set. `came` hears how many answers have come.
///
/// # Errors
/// Where the socket fails.
pub fn measure(
    options: &SenderOptions,
    stop: &AtomicBool,
    came: &mut dyn FnMut(usize),
) -> Result<DelayAnswer, Error> {
    let any: SocketAddr = if options.to.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let what = || format!("cannot make a UDP socket to {}", options.to);
    let socket = UdpSocket::bind(any).attempted(what)?;
    socket.connect(options.to).attempted(what)?;
    let socket: Socket = socket.into();
    told::tell_origins(&socket).attempted(what)?;
    forbid_fragments(&socket, options.to.is_ipv4())?;
    let least = if options.key.is_some() { AUTHENTICATED_BYTES } else { OPEN_BYTES };
    let mut buffer = vec![0; options.payload.max(least) + 64];
    let mut sent: BTreeMap<u32, i64> = BTreeMap::new();
    let mut trips: Vec<RoundTrip> = Vec::new();
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
                error: ErrorEstimate::of(EXACT_TO_NS, false),
                session: options.session,
            };
            let mut bytes = request.to_bytes(options.key.as_ref());
            bytes.resize(options.payload.max(least), 0);
            match socket.send(&bytes) {
                Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => {
                    return Err(too_big(&socket, options, e));
                }
                Err(e) if !told::is_passing(&e) => {
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
            match (last + options.patience).checked_sub(begin.elapsed()) {
                Some(left) if !sent.is_empty() => left,
                _ => break,
            }
        };
        // A timeout of zero means for ever.
        socket.set_read_timeout(Some(wait.clamp(Duration::from_micros(50), NAP))).attempted(what)?;
        let word = match told::receive_told(&socket, &mut buffer, 0) {
            Ok(word) => word,
            Err(e) if told::is_passing(&e) => continue,
            Err(e) if e.raw_os_error() == Some(libc::EMSGSIZE) => return Err(too_big(&socket, options, e)),
            Err(e) => return Err(e).attempted(|| format!("cannot receive from {}", options.to)),
        };
        let Some(reply) = Reply::from_bytes(&buffer[..word.length.min(buffer.len())], options.key.as_ref())
        else {
            continue;
        };
        if reply.session != options.session {
            continue;
        }
        // Each counts once, whatever is repeated.
        let Some(sent_ns) = sent.remove(&reply.request.0) else { continue };
        their_error = their_error.max(reply.error.ns().unwrap_or(0.0));
        trips.push(RoundTrip {
            sent_ns,
            received_ns: unix_ns(reply.received, reply.error),
            reflected_ns: unix_ns(reply.stamp, reply.error),
            returned_ns: word.stamp_ns.unwrap_or_else(realtime_ns),
        });
        came(trips.len());
    }
    Ok(delay(&trips, next as usize, their_error + EXACT_TO_NS as f64))
}

/// Packets are larger than the path's MTU, and are not fragmented: times of fragments are not those of the packets asked for.
fn too_big(socket: &Socket, options: &SenderOptions, error: std::io::Error) -> Error {
    let fits = mtu_of(socket, options.to).map_or(String::new(), |mtu| format!(", which takes {mtu}"));
    let headers = if options.to.is_ipv4() { 28 } else { 48 };
    let what = || {
        let bytes = options.payload + headers;
        format!("cannot send packets of {bytes} bytes of IP unfragmented on the path to {}{fits}", options.to)
    };
    Err::<(), _>(error).attempted(what).expect_err("it is an error")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::stamp::Reflector;

    fn reflected(theirs: Option<Key>, ours: Option<Key>) -> DelayAnswer {
        let reflector = Reflector::bind(IpAddr::from([127, 0, 0, 1]), 0, theirs).unwrap();
        let options = SenderOptions {
            to: ([127, 0, 0, 1], reflector.port().unwrap()).into(),
            count: 30,
            interval: Time::from_millis(2),
            payload: 200,
            key: ours,
            session: 77,
            patience: Duration::from_millis(500),
        };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| reflector.run(&stop));
            let answer = measure(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
            stop.store(true, Ordering::Release);
            running.join().expect("no panic").unwrap();
            answer
        })
    }

    #[test]
    fn packets_come_back_with_and_without_a_key() {
        let key = || Some(Key::new(*b"a key"));
        for (theirs, ours) in [(None, None), (key(), key())] {
            let answer = reflected(theirs, ours);
            assert_eq!((answer.sent, answer.lost), (30, 0));
            let [least, median, ..] = answer.rtt_ms.unwrap();
            assert!(0.0 < least && least <= median, "{answer:?}");
        }
    }

    #[test]
    fn a_wrong_key_gets_no_answer() {
        let answer = reflected(Some(Key::new(*b"a key")), Some(Key::new(*b"another")));
        assert_eq!((answer.sent, answer.lost), (30, 30));
        let answer = reflected(Some(Key::new(*b"a key")), None);
        assert_eq!(answer.lost, 30);
    }
}
