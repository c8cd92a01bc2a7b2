//! OWAMP (RFC 4656) as a client: one session in each direction at the same time. The server's records of the
//! forward packets are fetched at the end; the backward packets are received here.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use os::realtime_ns;
use probe::{OneWayTimes, RoundTripTimes, estimate_one_way_delays};
use socket2::Socket;
use traffic::{Attempted, Error, ancillary};

use crate::{
    control::{ControlProtocol, PacketRecord, Reply, SessionRequest, Sid, StoppedSender},
    control_connection::ControlConnection,
    one_way::{self, OneWayReceiver, OneWaySender},
    sender::{MeasuredPackets, SenderOptions},
    test_socket::{self, CLOCK_ERROR_NS},
    wire::{ErrorEstimate, SHORTEST_REQUEST_BYTES, ntp, ntp_interval, unix_ns},
};

/// Time from the requests to the first packets, in which both ends prepare.
const START_DELAY: Duration = Duration::from_millis(500);
/// Maximum time for which a receiver blocks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of a packet: a jumbo frame, bytes.
const MAX_PACKET_BYTES: usize = 9216;
/// Additional time to wait for a server whose last packets are late.
const END_MARGIN: Duration = Duration::from_millis(500);

/// Measures the delays of both directions by OWAMP. Two packets with the same number, one of each direction,
/// form a round trip: the difference of the clocks is in both delays with opposite signs, so it cancels out
/// in their sum.
pub(crate) fn measure_packets(
    options: &SenderOptions,
    stop: &AtomicBool,
    on_packet: &mut dyn FnMut(usize),
) -> Result<MeasuredPackets, Error> {
    let options = SenderOptions { key: None, ..options.clone() };
    let mut connection = ControlConnection::open(ControlProtocol::Owamp, options.to, stop)?;
    let (own, server) = (connection.own_end()?, options.to.ip());
    let forward_socket = test_socket::open(own)?;
    let backward_socket = test_socket::open(own)?;
    backward_socket.set_read_timeout(Some(POLL_INTERVAL)).attempted(|| "set a socket's timeout".into())?;
    let own_end = |socket: &Socket| SocketAddr::new(own.ip(), test_socket::port(socket));
    let slots = [options.slot()];
    let start_ns = realtime_ns() + START_DELAY.as_nanos() as i64;
    let request = SessionRequest {
        two_way: false,
        server_sends: false,
        server_receives: true,
        slots: 1,
        packets: options.count,
        sender: own_end(&forward_socket),
        receiver: SocketAddr::new(server, 0),
        sid: [0; 16],
        padding_bytes: (options.payload_bytes() - SHORTEST_REQUEST_BYTES) as u32,
        start: ntp(start_ns),
        timeout: ntp_interval(options.timeout),
        type_p: 0,
    };
    let accepted = connection.request(request, &slots)?;
    let forward = SessionRequest { sid: accepted.sid, ..request };
    let mut sender = OneWaySender::new(&forward, &slots, connection.server_end(accepted.port));
    let backward = SessionRequest {
        server_sends: true,
        server_receives: false,
        sender: SocketAddr::new(server, 0),
        receiver: own_end(&backward_socket),
        sid: new_sid(own.ip())?,
        ..request
    };
    connection.request(backward, &slots)?;
    connection.start()?;
    let begin = Instant::now() + duration_until(start_ns);
    let ended = AtomicBool::new(false);
    let end = one_way::duration(&forward, &slots).max(one_way::duration(&backward, &slots));
    let deadline = begin + end + options.timeout + END_MARGIN;
    let mut receiver = OneWayReceiver::default();
    let (sent, received) = thread::scope(|scope| {
        let sending = scope.spawn(|| send_all(&mut sender, &forward_socket, begin, &ended));
        let received = receive_until(
            &mut receiver,
            &backward_socket,
            server,
            &mut connection,
            Limits { deadline, timeout: options.timeout, packets: options.count as usize },
            || {
                let is_stopped = stop.load(Ordering::Acquire);
                if is_stopped {
                    ended.store(true, Ordering::Release);
                }
                is_stopped
            },
            on_packet,
        );
        ended.store(true, Ordering::Release);
        (sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), received)
    });
    sent?;
    let early = received?;
    connection.ignore_stop();
    let stopped = sender.stopped(forward.sid);
    let senders = connection.stop(std::slice::from_ref(&stopped), early)?;
    let forward_records = connection.fetch(forward.sid)?.records;
    let theirs = senders.iter().find(|sender| sender.sid == backward.sid);
    let sent_backward = theirs.map_or(options.count, StoppedSender::sent).min(options.count);
    if stop.load(Ordering::Acquire) {
        // Packets that were in flight when the server stopped.
        let (deadline, mut buffer) = (Instant::now() + options.timeout, vec![0; MAX_PACKET_BYTES]);
        while receiver.count() < sent_backward as usize && Instant::now() < deadline {
            let max_records = 2 * options.count as usize;
            receive_one(&mut receiver, &backward_socket, server, max_records, &mut buffer)?;
        }
    }
    let backward_records = receiver.into_records();
    let their_errors = forward_records
        .iter()
        .filter(|record| record.received != 0)
        .map(|record| record.received_error)
        .chain(backward_records.iter().map(|record| record.sent_error));
    let error_ns = their_errors.filter_map(ErrorEstimate::ns).fold(0.0, f64::max) + CLOCK_ERROR_NS as f64;
    let (forward_times, backward_times) = (times(&forward_records), times(&backward_records));
    let in_order = |times: &BTreeMap<u32, OneWayTimes>| times.values().copied().collect::<Vec<_>>();
    let sent = [stopped.sent() as usize, sent_backward as usize];
    let result =
        estimate_one_way_delays(&in_order(&forward_times), &in_order(&backward_times), sent, error_ns);
    // Packets that an end did not send are not lost.
    let next = theirs.map_or(options.count, |theirs| theirs.next_sequence).min(stopped.next_sequence);
    let is_skipped = |n: &u32| {
        theirs.is_some_and(|end| end.skipped.iter().any(|(first, last)| (*first..=*last).contains(n)))
    };
    let due = (0..next).zip(one_way::send_times(&forward, &slots, start_ns)).filter(|(n, _)| !is_skipped(n));
    let (trips, lost) = round_trips(&forward_times, &backward_times, due);
    Ok(MeasuredPackets { result, trips, lost })
}

/// The round trips of packets with the same number; and for each number that lacks a direction, when its
/// packet was to be sent.
fn round_trips(
    forward: &BTreeMap<u32, OneWayTimes>,
    backward: &BTreeMap<u32, OneWayTimes>,
    due: impl Iterator<Item = (u32, i64)>,
) -> (Vec<RoundTripTimes>, BTreeMap<u32, i64>) {
    let (mut trips, mut lost) = (Vec::new(), BTreeMap::new());
    for (number, due_ns) in due {
        match (forward.get(&number), backward.get(&number)) {
            (Some(away), Some(back)) => trips.push(RoundTripTimes {
                sent_ns: away.sent_ns,
                received_ns: away.received_ns,
                reflected_ns: back.sent_ns,
                returned_ns: back.received_ns,
            }),
            _ => drop(lost.insert(number, due_ns)),
        }
    }
    (trips, lost)
}

/// Sends all packets of a schedule that begins at `begin`.
fn send_all(
    sender: &mut OneWaySender,
    socket: &Socket,
    begin: Instant,
    ended: &AtomicBool,
) -> Result<(), Error> {
    while let Some(due) = sender.due()
        && !ended.load(Ordering::Acquire)
    {
        let wait = (begin + due).saturating_duration_since(Instant::now());
        if wait.is_zero() {
            sender.send(socket)?;
        } else {
            thread::sleep(wait.min(POLL_INTERVAL));
        }
    }
    Ok(())
}

/// The limits of a receiver.
struct Limits {
    deadline: Instant,
    /// Maximum time that a packet takes.
    timeout: Duration,
    packets: usize,
}

/// Receives packets of the server until the deadline, until those in flight at a stop have arrived, or until
/// the server's end of the test, which is returned.
fn receive_until(
    receiver: &mut OneWayReceiver,
    socket: &Socket,
    server: IpAddr,
    connection: &mut ControlConnection<'_>,
    limits: Limits,
    mut is_stopped: impl FnMut() -> bool,
    on_packet: &mut dyn FnMut(usize),
) -> Result<Option<Vec<StoppedSender>>, Error> {
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    let mut last_check = Instant::now();
    let (mut deadline, mut has_stopped) = (limits.deadline, false);
    while Instant::now() < deadline {
        if !has_stopped && is_stopped() {
            has_stopped = true;
            deadline = deadline.min(Instant::now() + limits.timeout);
        }
        if receive_one(receiver, socket, server, 2 * limits.packets, &mut buffer)? {
            on_packet(receiver.count());
        }
        if last_check.elapsed() > END_MARGIN {
            last_check = Instant::now();
            if let Some(Reply::Stopped(senders)) = connection.poll()? {
                return Ok(Some(senders));
            }
        }
    }
    Ok(None)
}

/// Receives a packet of the server, if one arrives within the socket's timeout.
fn receive_one(
    receiver: &mut OneWayReceiver,
    socket: &Socket,
    server: IpAddr,
    max_records: usize,
    buffer: &mut [u8],
) -> Result<bool, Error> {
    match ancillary::receive_with_ancillary(socket, buffer, 0) {
        Ok(datagram) if datagram.from.is_some_and(|from| from.ip() == server) => {
            receiver.receive(&buffer[..datagram.length], &datagram, max_records);
            Ok(true)
        }
        Ok(_) => Ok(false),
        Err(e) if ancillary::is_transient(&e) => Ok(false),
        Err(e) => Err(e).attempted(|| format!("receive from {server}")),
    }
}

/// The times of the packets that arrived, each counted once, by number.
fn times(records: &[PacketRecord]) -> BTreeMap<u32, OneWayTimes> {
    let mut first: BTreeMap<u32, OneWayTimes> = BTreeMap::new();
    for record in records.iter().filter(|record| record.received != 0) {
        first.entry(record.sequence).or_insert_with(|| OneWayTimes {
            sent_ns: unix_ns(record.sent, record.sent_error),
            received_ns: unix_ns(record.received, record.received_error),
        });
    }
    first
}

/// The identifier of a session whose receiver is at `address` (RFC 4656 section 3.5): its IPv4 address, the
/// time, and a random number.
pub(crate) fn new_sid(address: IpAddr) -> Result<Sid, Error> {
    let mut sid = [0; 16];
    os::fill_random(&mut sid).attempted(|| "draw a random number".into())?;
    match address {
        IpAddr::V4(v4) => sid[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => sid[..4].copy_from_slice(&v6.octets()[12..]),
    }
    sid[4..12].copy_from_slice(&ntp(realtime_ns()).to_be_bytes());
    Ok(sid)
}

/// The time until a time of the real-time clock; zero if it has passed.
pub(crate) fn duration_until(at_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(at_ns.saturating_sub(realtime_ns())).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_offset_cancels_out_in_round_trips() {
        // The server's clock is an hour ahead; 10 ms forward, 25 ms backward.
        let (hour, ms) = (3_600_000_000_000, 1_000_000);
        let way = |from_ns: i64, to_ns: i64| OneWayTimes { sent_ns: from_ns, received_ns: to_ns };
        let away = |at_ms: i64| way(at_ms * ms, (at_ms + 10) * ms + hour);
        let back = |at_ms: i64| way(at_ms * ms + hour, (at_ms + 25) * ms);
        let forward = BTreeMap::from([(0, away(0)), (1, away(20)), (3, away(60))]);
        let backward = BTreeMap::from([(0, back(3)), (2, back(43)), (3, back(63))]);
        let due = [(0, 0), (1, 20 * ms), (2, 40 * ms), (3, 60 * ms)];
        let (trips, lost) = round_trips(&forward, &backward, due.into_iter());
        let rtt = |trip: &RoundTripTimes| {
            (trip.returned_ns - trip.sent_ns - (trip.reflected_ns - trip.received_ns)) / ms
        };
        assert_eq!(trips.iter().map(rtt).collect::<Vec<_>>(), [35, 35]);
        assert_eq!(lost, BTreeMap::from([(1, 20 * ms), (2, 40 * ms)]));
    }
}
