//! `longfat serve`: the set-up and the end of streams, over paths that delay, lose or duplicate, and with
//! clients that abuse them.

use crate::{
    common::{
        binary, eventually,
        iperf3::{Running, free_port, wait_for_listener},
    },
    serve::{
        CREATE_STREAMS, EXCHANGE_RESULTS, IgnoreProgress, LONG, Server, TEST_END, TEST_RUNNING, TEST_START,
        begin_test, cookie, message, next_state, send_parameters, start_server,
    },
};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    process::{Command, Stdio},
    sync::atomic::AtomicBool,
    time::Duration,
};

use iperf3::{
    ClientOptions,
    report::{Amount, Direction, Protocol, TestSpec},
};

/// The hello of a UDP stream, as iperf3 sends it.
const HELLO: [u8; 4] = [0x39, 0x38, 0x37, 0x36];

/// A UDP test of one second from the client or to it; returns the number of received packets.
fn udp_test(host: &str, port: u16, direction: Direction) -> Result<u64, String> {
    let spec = TestSpec { direction, ..TestSpec::new(Protocol::Udp, Amount::Time(Duration::from_secs(1))) };
    let options = ClientOptions { port, ..ClientOptions::new(host, spec) };
    let outcome = iperf3::test(&options, &AtomicBool::new(false), &mut IgnoreProgress);
    match (outcome.report.end, outcome.error) {
        (Some(end), None) => Ok(end.streams.iter().map(|stream| stream.received.bytes).sum()),
        (_, error) => Err(format!("{error:?}")),
    }
}

/// A later rate that fails does not hide the results at the earlier ones.
#[test]
fn results_of_streams_are_printed_if_a_later_one_fails() {
    let server = start_server(&[]);
    let port = server.port.to_string();
    let args = ["stream", "127.0.0.1", "-p", &port, "--rate", "1mbit,2mbit", "--time", "3s", "--no-record"];
    let mut client = Command::new(binary())
        .args(args)
        .args(["--tolerate-loss", "90"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut notes = BufReader::new(client.stderr.take().unwrap());
    let mut note = String::new();
    while !note.starts_with("2 Mb/s") {
        note.clear();
        assert_ne!(notes.read_line(&mut note).unwrap(), 0, "the client has ended");
    }
    drop(server);
    let mut rest = String::new();
    notes.read_to_string(&mut rest).unwrap();
    let output = client.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() && rest.contains("longfat: "), "{rest}");
    assert!(text.contains("the stream at the next rate failed"), "{text}");
}

/// The timeout of a phase is that of each stream's connection, of which many take longer on a long path.
#[test]
fn connecting_many_streams_may_take_longer_than_one_step() {
    let server = start_server(&["-i", "0", "--phase-timeout", "2"]);
    let mut control = send_parameters(&server, 1, &LONG.replace(r#""parallel":1"#, r#""parallel":8"#));
    assert_eq!(next_state(&mut control), CREATE_STREAMS);
    let streams: Vec<TcpStream> = (0..8)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(350));
            let mut stream = server.connect();
            stream.write_all(&cookie(1)).unwrap();
            stream
        })
        .collect();
    assert_eq!([next_state(&mut control), next_state(&mut control)], [TEST_START, TEST_RUNNING]);
    drop(streams);
}

/// Neither data of an ended test nor the second copy of a hello opens a stream.
#[test]
fn each_hello_opens_one_stream() {
    let server = start_server(&["-i", "0"]);
    let udp =
        LONG.replace("tcp", "udp").replace("131072", "1000").replace(r#""parallel":1"#, r#""parallel":2"#);
    let mut control = send_parameters(&server, 1, &udp);
    assert_eq!(next_state(&mut control), CREATE_STREAMS);
    let socket = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(("127.0.0.1", server.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let late_data = socket();
    late_data.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    late_data.send(&[7; 1460]).unwrap();
    let mut reply = [0; 8];
    assert!(late_data.recv(&mut reply).is_err(), "data opens a stream");

    let streams = [socket(), socket()];
    let server_signal = |name: &str| {
        let id = server.process.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    // Both copies arrive before the server reads the first.
    server_signal("-STOP");
    streams[0].send(&HELLO).unwrap();
    streams[0].send(&HELLO).unwrap();
    server_signal("-CONT");
    assert_eq!(streams[0].recv(&mut reply).unwrap(), 4);
    control.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(control.read_exact(&mut [0]).is_err(), "the test begins with one stream of two");
    control.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    streams[1].send(&HELLO).unwrap();
    assert_eq!(streams[1].recv(&mut reply).unwrap(), 4);
    assert_eq!([next_state(&mut control), next_state(&mut control)], [TEST_START, TEST_RUNNING]);
}

/// Relays a test to the server at this port, and loses the server's first datagram to each client; returns
/// its port.
fn relay_without_first_datagram(server: u16) -> u16 {
    let listener = TcpListener::bind((RELAY, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let udp = UdpSocket::bind((RELAY, port)).unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (mut from_client, mut from_server) =
                (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_client, &mut upstream);
                let _ = upstream.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from_server, &mut client);
                let _ = client.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    std::thread::spawn(move || {
        let mut paths: Vec<(SocketAddr, UdpSocket)> = Vec::new();
        let mut buffer = [0; 65_536];
        while let Ok((bytes, client)) = udp.recv_from(&mut buffer) {
            if !paths.iter().any(|(known, _)| *known == client) {
                let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
                upstream.connect(("127.0.0.1", server)).unwrap();
                let (back, reader) = (udp.try_clone().unwrap(), upstream.try_clone().unwrap());
                std::thread::spawn(move || {
                    let (mut buffer, mut is_first) = ([0; 65_536], true);
                    while let Ok(bytes) = reader.recv(&mut buffer) {
                        if !std::mem::take(&mut is_first) {
                            let _ = back.send_to(&buffer[..bytes], client);
                        }
                    }
                });
                paths.push((client, upstream));
            }
            let Some((_, upstream)) = paths.iter().find(|(known, _)| *known == client) else { continue };
            let _ = upstream.send(&buffer[..bytes]);
        }
    });
    port
}

/// The relay's address: not that of the server, which has all others at this port.
const RELAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

#[test]
fn a_lost_reply_to_a_hello_does_not_matter() {
    let server = start_server(&["-i", "0"]);
    let port = relay_without_first_datagram(server.port);
    for direction in [Direction::Forward, Direction::Reverse] {
        let received = udp_test(&RELAY.to_string(), port, direction);
        assert!(received.as_ref().is_ok_and(|bytes| *bytes > 0), "{direction:?}: {received:?}");
    }
}

/// Replies come from the address that the client uses, not from the one that the route would choose.
#[test]
fn a_server_replies_from_the_address_of_the_request() {
    let server = start_server(&["-i", "0"]);
    let received = udp_test("127.0.0.3", server.port, Direction::Forward);
    assert!(received.as_ref().is_ok_and(|bytes| *bytes > 0), "{received:?}");
}

/// The number of bytes that a client reports does not determine the length of its session, and the next test
/// waits for the data in flight.
#[test]
fn data_in_flight_at_the_end_belongs_to_the_test() {
    let server = start_server(&["-i", "0", "--phase-timeout", "60"]);
    let (mut control, mut stream) = begin_test(&server, 1, &LONG.replace(r#""num":0"#, r#""num":1000"#));
    control.write_all(&[TEST_END]).unwrap();
    assert_eq!(next_state(&mut control), EXCHANGE_RESULTS);
    let results = r#"{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"sender_has_retransmits":0,
        "streams":[{"id":1,"bytes":9000000000000000,"retransmits":0,"jitter":0,"errors":0,"packets":0}]}"#;
    control.write_all(&message(results)).unwrap();
    let mut next = send_parameters(&server, 2, LONG);
    next.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(next.read_exact(&mut [0]).is_err(), "the next test begins while data is in flight");
    // The requested amount, and the remainder of a block.
    stream.write_all(&vec![7; 1000 + 131_072]).unwrap();
    let mut length = [0; 4];
    control.read_exact(&mut length).unwrap();
    let mut theirs = vec![0; u32::from_be_bytes(length) as usize];
    control.read_exact(&mut theirs).unwrap();
    next.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(next_state(&mut next), CREATE_STREAMS);
}

/// A server without free descriptors refuses clients, and serves clients again when descriptors are free.
#[test]
fn a_shortage_of_descriptors_does_not_end_a_server() {
    let port = free_port();
    let command = format!("ulimit -n 40; exec {} serve -i 0 -p {port}", binary());
    let process = Running::start(Command::new("sh").args(["-c", &command]));
    wait_for_listener(port);
    let server = Server { process, port };
    for _ in 0..3 {
        let clients: Vec<TcpStream> = (0..60)
            .map(|n| {
                let mut control = server.connect();
                let _ = control.write_all(&cookie(n));
                control.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                if control.read_exact(&mut [0]).is_ok() {
                    let _ = control.write_all(&message(LONG));
                }
                control
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        drop(clients);
    }
    assert!(eventually(|| server.test(100_000) == Ok(100_000)), "the server serves again");
}

/// Keepalives detect a client that vanishes while the server only sends datagrams.
#[test]
fn control_connections_are_kept_alive() {
    let server = start_server(&["-i", "0"]);
    let _control = send_parameters(&server, 1, LONG);
    let local = format!(":{:04X} ", server.port);
    let is_kept_alive = || {
        let tables =
            ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let lines: Vec<&str> = tables.iter().flat_map(|table| table.lines()).collect();
        // State 01 is established, timer 02 the keepalive.
        lines.iter().any(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_ours = words.get(1).is_some_and(|address| format!("{address} ").ends_with(&local));
            is_ours
                && words.get(3) == Some(&"01")
                && words.get(5).is_some_and(|timer| timer.starts_with("02:"))
        })
    };
    assert!(eventually(is_kept_alive));
}
