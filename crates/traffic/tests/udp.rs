//! Sends UDP streams over loopback: every datagram arrives, on time, in every width and size, and foreign
//! datagrams are ignored.

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use traffic::{
    Stop,
    udp::{
        ArrivalTimes, Header, NumberWidth, ReceiveBuffer, Receiver, ReceiverStatistics, SendSummary, Sender,
        SenderOptions, SentCounts, SharedStatistics,
    },
};
use units::BitRate;

const LONG: Duration = Duration::from_secs(20);

fn pair(address: &str) -> (UdpSocket, UdpSocket) {
    let (sender_socket, receiver_socket) =
        (UdpSocket::bind(address).unwrap(), UdpSocket::bind(address).unwrap());
    sender_socket.connect(receiver_socket.local_addr().unwrap()).unwrap();
    receiver_socket.connect(sender_socket.local_addr().unwrap()).unwrap();
    (sender_socket, receiver_socket)
}

/// Waits up to `span` until `condition` holds.
fn wait(condition: impl Fn() -> bool, span: Duration) {
    let until = Instant::now() + span;
    while Instant::now() < until && !condition() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a stream until all is received, or for `span`. Returns the number of sent datagrams and both ends'
/// statistics.
fn flow(
    address: &str,
    options: &SenderOptions,
    arrivals: ArrivalTimes,
    span: Duration,
) -> (u64, SendSummary, ReceiverStatistics) {
    let (sender_socket, receiver_socket) = pair(address);
    let sender = Sender::new(sender_socket, options);
    let receiver = Receiver::new(receiver_socket, arrivals, ReceiveBuffer::Wide).unwrap();
    let (stop, sent, tally) =
        (Stop::default(), SentCounts::default(), SharedStatistics::new(options.numbers));
    let end = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&stop, &tally));
        let sending = scope.spawn(|| sender.run(&stop, &sent));
        let sent = || sent.datagrams.load(Ordering::Relaxed);
        wait(|| sending.is_finished() && tally.lock().counts.received == sent(), span);
        stop.set();
        receiving.join().unwrap().unwrap();
        sending.join().unwrap().unwrap()
    });
    let statistics = tally.lock().clone();
    (sent.datagrams.into_inner(), end, statistics)
}

#[test]
fn every_datagram_arrives_in_every_size_and_width() {
    let ways = [(NumberWidth::Bits32, ArrivalTimes::Exact), (NumberWidth::Bits64, ArrivalTimes::Coalesced)];
    let sizes = [(16, 50), (1448, 100), (8000, 20), (65_000, 3)];
    for (address, (block, count)) in
        ["127.0.0.1:0", "[::1]:0"].into_iter().flat_map(|a| sizes.map(|s| (a, s)))
    {
        for (numbers, arrivals) in ways {
            let remaining = Some(Arc::new(AtomicU64::new(count)));
            let options = SenderOptions { block, numbers, remaining, ..SenderOptions::default() };
            let (sent, _, statistics) = flow(address, &options, arrivals, LONG);
            let counts = &statistics.counts;
            let found = (sent, counts.received, counts.bytes, counts.lost(), counts.reordered);
            let all = count * u64::from(block);
            assert_eq!(found, (count, count, all, 0, 0), "{address} {block} {arrivals:?}");
            assert_eq!((statistics.malformed, statistics.gaps.len()), (0, count - 1));
            let (min, max) = counts.owd_ns.unwrap();
            // One clock, to the microsecond.
            assert!(min >= 0 && max < 10_000_000_000, "{min} {max}");
        }
    }
}

#[test]
fn paced_datagrams_are_sent_on_schedule() {
    let rate = Some(BitRate(16_000_000));
    let options = SenderOptions { block: 1000, rate, ..SenderOptions::default() };
    let start = Instant::now();
    let (sent, end, statistics) =
        flow("127.0.0.1:0", &options, ArrivalTimes::Exact, Duration::from_millis(500));
    let span = start.elapsed().as_secs_f64();
    // 2000 a second.
    assert!(sent as f64 <= span * 2000.0 + 1.0, "{sent} in {span} s");
    let missing = end.skipped.as_secs_f64() + 0.05;
    assert!(sent as f64 >= (0.5 - missing) * 2000.0, "{sent}: {end:?}");
    // A delayed sender catches up: it then does not wait before each datagram, or its waits end late.
    let (waits, late) = (end.late.len(), end.late.value_at_quantile(0.5));
    if waits * 10 < sent * 8 || late > 100_000 {
        testing::skip(
            testing::Missing::QuietMachine,
            format_args!("{sent} datagrams, {waits} waits, every other {late} ns late or more"),
        );
        return;
    }
    let median = statistics.gaps.value_at_quantile(0.5) as f64;
    assert!((median / 500_000.0 - 1.0).abs() < 0.2, "{median}");
}

#[test]
fn datagrams_are_sent_in_bursts() {
    let rate = Some(BitRate(16_000_000));
    let options = SenderOptions { block: 1000, rate, burst: 10, ..SenderOptions::default() };
    let (sent, end, statistics) =
        flow("127.0.0.1:0", &options, ArrivalTimes::Exact, Duration::from_millis(500));
    assert!(sent >= 100 && sent.is_multiple_of(10), "{sent}");
    assert!(end.late.len() <= sent / 10, "one wait a burst");
    // Nine of ten gaps are within a burst.
    let (short, long) = (statistics.gaps.value_at_quantile(0.8), statistics.gaps.value_at_quantile(0.97));
    assert!(short < 1_000_000 && long > 3_000_000, "{short} {long}");
}

#[test]
fn streams_share_the_remaining_count() {
    let remaining = Arc::new(AtomicU64::new(1001));
    let options =
        SenderOptions { block: 200, remaining: Some(remaining.clone()), ..SenderOptions::default() };
    let total: u64 = std::thread::scope(|scope| {
        let one = || flow("127.0.0.1:0", &options, ArrivalTimes::Exact, LONG).0;
        let both = [scope.spawn(one), scope.spawn(one)];
        both.into_iter().map(|each| each.join().unwrap()).sum()
    });
    assert_eq!((total, remaining.load(Ordering::Relaxed)), (1001, 0));
}

#[test]
fn a_stop_ends_an_endless_stream() {
    for rate in [None, Some(BitRate(1))] {
        let options = SenderOptions { block: 1448, rate, ..SenderOptions::default() };
        let start = Instant::now();
        let (sent, ..) = flow("127.0.0.1:0", &options, ArrivalTimes::Coalesced, Duration::from_millis(100));
        assert!(sent > 0 && start.elapsed() < LONG);
    }
}

#[test]
fn drops_at_a_full_socket_are_counted_separately() {
    let (sender_socket, receiver_socket) = pair("127.0.0.1:0");
    let receiver_socket = socket2::Socket::from(receiver_socket);
    receiver_socket.set_recv_buffer_size(8192).unwrap();
    let receiver = Receiver::new(receiver_socket, ArrivalTimes::Exact, ReceiveBuffer::Unchanged).unwrap();
    let send = |number| {
        let mut datagram = [0; 1000];
        Header { sent_ns: 0, number }.write(NumberWidth::Bits64, &mut datagram);
        sender_socket.send(&datagram).unwrap();
    };
    (1..=100).for_each(send);
    let (stop, tally) = (Stop::default(), SharedStatistics::new(NumberWidth::Bits64));
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receiver.run(&stop, &tally));
        wait(|| tally.lock().counts.received > 0, LONG);
        // The kernel reports the drops with the next datagram that it accepts.
        send(101);
        wait(|| tally.lock().counts.expected() == 101, LONG);
        stop.set();
        receiving.join().unwrap().unwrap();
    });
    let statistics = tally.lock();
    assert!(statistics.dropped_at_socket > 50, "{statistics:?}");
    assert_eq!(statistics.counts.lost(), statistics.dropped_at_socket);
}

#[test]
fn invalid_datagrams_of_the_peer_are_counted_and_ignored() {
    for arrivals in [ArrivalTimes::Exact, ArrivalTimes::Coalesced] {
        let (sender_socket, receiver_socket) = pair("127.0.0.1:0");
        let receiver = Receiver::new(receiver_socket, arrivals, ReceiveBuffer::Wide).unwrap();
        let (stop, tally) = (Stop::default(), SharedStatistics::new(NumberWidth::Bits64));
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receiver.run(&stop, &tally));
            let mut datagram = [0; 100];
            for number in 1..=50 {
                sender_socket.send(&[]).unwrap();
                sender_socket.send(&[0xff; 15]).unwrap();
                sender_socket.send(&[0xff; 2000]).unwrap();
                Header { sent_ns: i64::MAX, number }.write(NumberWidth::Bits64, &mut datagram);
                sender_socket.send(&datagram).unwrap();
            }
            wait(|| tally.lock().counts.received == 50, LONG);
            stop.set();
            receiving.join().unwrap().unwrap();
        });
        let statistics = tally.lock();
        let counts = &statistics.counts;
        assert_eq!((counts.received, counts.lost(), counts.duplicated), (50, 0, 0), "{arrivals:?}");
        // Empty datagrams are not counted.
        assert_eq!(statistics.malformed, 100);
    }
}

#[test]
fn a_closed_port_does_not_end_the_sender() {
    let (sender_socket, receiver_socket) = pair("127.0.0.1:0");
    drop(receiver_socket);
    let options = SenderOptions { block: 100, rate: Some(BitRate(800_000)), ..SenderOptions::default() };
    let sender = Sender::new(sender_socket, &options);
    let (stop, sent) = (Stop::default(), SentCounts::default());
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| sender.run(&stop, &sent));
        wait(|| sent.datagrams.load(Ordering::Relaxed) > 10, LONG);
        stop.set();
        sending.join().unwrap().unwrap();
    });
    assert!(sent.datagrams.into_inner() > 10);
}

#[test]
fn a_block_larger_than_a_datagram_is_an_error() {
    let (sender_socket, _receiver_socket) = pair("127.0.0.1:0");
    let sender = Sender::new(sender_socket, &SenderOptions { block: 65_508, ..SenderOptions::default() });
    let error = sender.run(&Stop::default(), &SentCounts::default()).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::EMSGSIZE), "{error}");
    assert!(error.to_string().starts_with("cannot send after 0 datagrams"), "{error}");
}
