//! Real-time streams over loopback, with a server in this process.

use std::{
    net::{IpAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use iperf3::{
    ClientOptions, Server, ServerOptions, Token, TokenGate,
    report::{Amount, Protocol, TestSpec},
    service::Channel,
};
use testing::iperf3_server::QuietServer;
use transfer::{
    Error,
    stream::{
        Direction, RecorderOptions, StreamClient, StreamOptions, StreamSample, StreamService, run_stream,
        send_to_recorder,
    },
};
use units::{BitRate, Time};

const PACKETS: u64 = 500;
/// Clients that a server serves at a time.
const CLIENTS: usize = 2;

/// Runs `body` with the port of a server that has this token.
fn with_server<T>(
    token: Option<&str>,
    service: StreamService,
    body: impl FnOnce(u16) -> T,
) -> (T, Vec<String>) {
    let skew = Duration::from_secs(60);
    let options = ServerOptions {
        bind: Some(IpAddr::from([127, 0, 0, 1])),
        port: 0,
        phase_timeout: Duration::from_secs(3),
        clients: CLIENTS,
        gate: token.map(|token| Arc::new(TokenGate::new(Token::new(token), skew))),
        ..ServerOptions::default()
    };
    let server = Server::bind(options).unwrap().with_service(Box::new(service));
    let (stop, log) = (AtomicBool::new(false), QuietServer::default());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop, &log).unwrap());
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(server.address().port())));
        stop.store(true, Ordering::Release);
        result
    });
    let log = log.into_notes();
    let body_result = result.unwrap_or_else(|panic| {
        eprintln!("log of the server: {log:#?}");
        std::panic::resume_unwind(panic)
    });
    (body_result, log)
}

fn client(port: u16, token: Option<&str>) -> StreamClient {
    StreamClient { host: "127.0.0.1".into(), port, ip: None, token: token.map(Token::new) }
}

/// 500 packets of 1000 B in two seconds.
fn options(direction: Direction) -> StreamOptions {
    StreamOptions {
        direction,
        rate: BitRate(2_000_000),
        duration: Time::from_secs(2),
        deadline: Time::from_secs(1),
        repairs: false,
        payload_bytes: Some(1000),
        vdif: false,
    }
}

fn stream(port: u16, token: Option<&str>, options: &StreamOptions) -> Result<(u64, StreamSample), Error> {
    let mut samples = 0;
    let stop = AtomicBool::new(false);
    let ran = run_stream(&client(port, token), options, &stop, |_| {}, |_| samples += 1);
    ran.map(|(_, last)| (samples, last))
}

/// Loopback loses nothing, so each missed packet has a cause at an end, however busy the machine is.
#[track_caller]
fn check(sample: &StreamSample) {
    let playout = sample.receiver.playout.unwrap();
    assert_eq!(playout.due, PACKETS, "{sample:?}");
    let missed = playout.due - playout.in_time;
    let explained = sample.sender.skipped_packets + playout.late + sample.dropped_at_socket;
    assert!(missed <= explained, "{sample:?}");
    assert_eq!(sample.sender.sent_packets + sample.sender.skipped_packets, PACKETS, "{sample:?}");
    assert_eq!(sample.receiver.received_bytes, playout.in_time * 1000, "{sample:?}");
    assert!(playout.in_time > 0, "{sample:?}");
}

#[test]
fn streams_of_both_directions_are_played_and_counted_at_both_ends() {
    let (_, log) = with_server(None, StreamService::default(), |port| {
        for direction in [Direction::ToServer, Direction::FromServer] {
            let (samples, last) = stream(port, None, &options(direction)).unwrap();
            check(&last);
            assert!(samples > 2, "{samples}");
        }
        let vdif = StreamOptions { vdif: true, ..options(Direction::ToServer) };
        check(&stream(port, None, &vdif).unwrap().1);
    });
    assert!(log.iter().any(|line| line.ends_with("real-time stream started")), "{log:?}");
}

/// The hello of each stream's UDP socket opens that stream, while others of the same address run.
#[test]
fn streams_of_one_address_run_at_the_same_time() {
    with_server(None, StreamService::default(), |port| {
        std::thread::scope(|scope| {
            let both = [Direction::ToServer, Direction::FromServer]
                .map(|direction| scope.spawn(move || stream(port, None, &options(direction)).unwrap().1));
            for thread in both {
                check(&thread.join().unwrap());
            }
        });
    });
}

#[test]
fn a_server_with_a_token_serves_only_clients_with_this_token() {
    const SECRET: &str = "a secret of both ends";
    with_server(Some(SECRET), StreamService::default(), |port| {
        let short = StreamOptions { duration: Time::from_millis(100), ..options(Direction::FromServer) };
        assert!(stream(port, Some(SECRET), &short).is_ok());
        for wrong in [None, Some("another secret of none")] {
            let error = stream(port, wrong, &short).unwrap_err().to_string();
            assert!(error.contains("rejects"), "{error}");
        }
    });
}

#[test]
fn a_server_refuses_streams_beyond_its_limits() {
    let service =
        StreamService { max_rate: Some(BitRate(1_000_000)), max_duration: Some(Duration::from_secs(1)) };
    with_server(None, service, |port| {
        let error = stream(port, None, &options(Direction::ToServer)).unwrap_err().to_string();
        assert!(error.contains("at most 1 Mb/s") || error.contains("at most 1 Mbit/s"), "{error}");
        let slow = StreamOptions { rate: BitRate(500_000), ..options(Direction::ToServer) };
        let error = stream(port, None, &slow).unwrap_err().to_string();
        assert!(error.contains("at most 1 s"), "{error}");
    });
    let impossible = StreamOptions { payload_bytes: Some(1001), vdif: true, ..options(Direction::ToServer) };
    with_server(None, StreamService::default(), |port| {
        assert!(matches!(stream(port, None, &impossible), Err(Error::Input(_))));
    });
}

/// No data leaves the server for requests by UDP alone, nor for a request by TCP whose UDP socket never sends
/// a hello.
#[test]
fn forged_requests_get_no_data() {
    with_server(None, StreamService::default(), |port| {
        let forged = UdpSocket::bind("127.0.0.1:0").unwrap();
        forged.connect(("127.0.0.1", port)).unwrap();
        forged.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        for bytes in [&[0][..], &[0; 12], &[0xff; 1200]] {
            let _ = forged.send(bytes);
        }
        let mut buffer = [0; 2048];
        assert!(forged.recv(&mut buffer).is_err(), "data without a session");

        let spec = TestSpec::new(Protocol::Udp, Amount::Time(Duration::ZERO));
        let connection = ClientOptions { port, ..ClientOptions::new("127.0.0.1", spec) };
        let stop = AtomicBool::new(false);
        let channel = Channel::connect(&connection, "longfat-stream-1-", &stop, |_| {});
        let mut channel = channel.unwrap().unwrap();
        let request = serde_json::json!({
            "direction": "from_server", "rate_bps": 100_000_000, "payload_bytes": 1000, "deadline_us": 1_000_000,
            "repairs": false, "packets": 100_000, "vdif": null,
        });
        channel.send(&request).unwrap();
        let reply: serde_json::Value = channel.receive("reply", Duration::from_secs(20)).unwrap();
        assert_eq!(reply["type"], "ready");
        // Other datagrams, such as the last ones of an earlier session, do not count as a hello.
        forged.send(&[0xff; 100]).unwrap();
        assert!(forged.recv(&mut buffer).is_err(), "a reply to another session's datagram");
        // The server gives up, and closes the connection.
        let next = channel.receive::<serde_json::Value>("end", Duration::from_secs(20));
        assert!(next.is_err(), "{next:?}");
    });
}

/// Clients that send arbitrary bytes end their own session only.
#[test]
fn a_server_survives_hostile_clients() {
    let requests = [
        serde_json::json!(null),
        serde_json::json!({"direction": "sideways"}),
        serde_json::json!({
            "direction": "to_server", "rate_bps": u64::MAX, "payload_bytes": 8, "deadline_us": 60_000_000,
            "repairs": true, "packets": u64::MAX, "vdif": null,
        }),
    ];
    with_server(None, StreamService::default(), |port| {
        for number in 0..200 {
            let spec = TestSpec::new(Protocol::Udp, Amount::Time(Duration::ZERO));
            let connection = ClientOptions { port, ..ClientOptions::new("127.0.0.1", spec) };
            let stop = AtomicBool::new(false);
            let channel = Channel::connect(&connection, "longfat-stream-1-", &stop, |_| {});
            let mut channel = channel.unwrap().unwrap();
            // Every fourth sends nothing.
            if let Some(request) = requests.get(number % 4) {
                let _ = channel.send(request);
            }
        }
        check(&stream(port, None, &options(Direction::FromServer)).unwrap().1);
    });
}

#[test]
fn a_recorder_receives_numbered_vdif_frames_without_a_request() {
    let recorder = UdpSocket::bind("127.0.0.1:0").unwrap();
    recorder.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let options = RecorderOptions {
        recorder: recorder.local_addr().unwrap(),
        rate: BitRate(2_000_000),
        // 40 packets, which the socket's buffer holds.
        duration: Time::from_millis(160),
        payload_bytes: Some(1000),
    };
    let (_, sample) = send_to_recorder(&options, &AtomicBool::new(false), |_| {}).unwrap();
    let sent = sample.sender.sent_packets;
    assert_eq!(sent + sample.sender.skipped_packets, 40);
    let mut buffer = [0; 2048];
    let mut numbers = Vec::new();
    for _ in 0..sent {
        let length = recorder.recv(&mut buffer).unwrap();
        assert_eq!(length, 8 + 32 + 1000);
        let number = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        let word =
            |index: usize| u32::from_le_bytes(buffer[8 + 4 * index..12 + 4 * index].try_into().unwrap());
        // 250 frames a second; 1032 B in units of 8 B, version 1; two bits, thread 0, station Lf.
        assert_eq!(u64::from(word(1) & 0xff_ffff), number % 250);
        assert_eq!((word(2), word(3)), (1 << 29 | 129, 1 << 26 | 0x4c66));
        numbers.push(number);
    }
    assert!(numbers.is_sorted() && numbers.iter().all(|number| *number < 40), "{numbers:?}");
}
