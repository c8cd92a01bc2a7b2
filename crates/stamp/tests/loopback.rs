//! Clients and servers of TWAMP and OWAMP over the loopback interface, and hostile clients.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use socket2::{Domain, Socket, Type};
use stamp::{
    ControlProtocol, ControlServer, Protocol, Reflector, SenderOptions, Spacing,
    control::{Accept, ClientControl, Reply, SessionRequest, Slot, StoppedSender},
    measure, measure_packets,
    wire::{ErrorEstimate, Reply as Reflected, Request},
};
use units::Time;

const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Runs `test` with a server, and returns what the server noted.
fn served(protocol: ControlProtocol, address: IpAddr, test: impl FnOnce(SocketAddr)) -> Vec<String> {
    let server = ControlServer::bind(protocol, address, 0).unwrap();
    let at = SocketAddr::new(address, server.port().unwrap());
    let stop = AtomicBool::new(false);
    let notes = Mutex::new(Vec::new());
    let note = |text: &str| notes.lock().unwrap().push(text.to_string());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop, &note));
        let tested = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(at)));
        stop.store(true, Ordering::Release);
        running.join().expect("no panic").unwrap();
        tested.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    notes.into_inner().unwrap()
}

fn options(protocol: Protocol, to: SocketAddr) -> SenderOptions {
    SenderOptions {
        protocol,
        to,
        count: 40,
        interval: Time::from_millis(2),
        spacing: Spacing::Exponential,
        payload: 100,
        key: None,
        session: 0,
        timeout: Duration::from_millis(300),
    }
}

#[test]
fn twamp_measures_round_trips() {
    for address in [LOCAL, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let notes = served(ControlProtocol::Twamp, address, |to| {
            let measured =
                measure_packets(&options(Protocol::Twamp, to), &AtomicBool::new(false), &mut |_| {}).unwrap();
            assert_eq!((measured.result.sent, measured.result.lost, measured.trips.len()), (40, 0, 40));
            assert!(measured.result.rtt_ms.unwrap()[0] > 0.0, "{:?}", measured.result);
            assert_eq!(measured.result.each_direction.unwrap().map(|way| (way.sent, way.lost)), [(40, 0); 2]);
        });
        assert_eq!(notes, [""; 0]);
    }
}

#[test]
fn owamp_measures_each_direction() {
    for address in [LOCAL, IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let notes = served(ControlProtocol::Owamp, address, |to| {
            let mut arrived = 0;
            let measured =
                measure_packets(&options(Protocol::Owamp, to), &AtomicBool::new(false), &mut |n| arrived = n)
                    .unwrap();
            assert_eq!((measured.trips.len(), measured.lost.len()), (40, 0));
            let rtt_ns = measured
                .trips
                .iter()
                .map(|trip| trip.returned_ns - trip.sent_ns - (trip.reflected_ns - trip.received_ns));
            assert!(rtt_ns.min().is_some_and(|min| (0..100_000_000).contains(&min)), "{:?}", measured.trips);
            let result = measured.result;
            let counts = result.each_direction.unwrap();
            assert_eq!(counts.map(|count| (count.sent, count.lost)), [(40, 0); 2]);
            assert_eq!((arrived, result.sent), (40, 80));
            let (there, back) = (result.forward.unwrap(), result.backward.unwrap());
            // The clocks are the same, so the sum of the minimum delays is a round-trip time.
            assert!(there.delay_ms.high >= 0.0 && there.delay_ms == back.delay_ms, "{there:?} {back:?}");
            assert!(there.delay_ms.high < 100.0, "{there:?}");
        });
        assert_eq!(notes, [""; 0]);
    }
}

/// No packet of a peer ends a reflector: neither one from a port to which no reply can be sent, nor a reply
/// of another reflector, which would be reflected forever.
#[test]
fn packets_from_port_0_and_of_other_reflectors_do_not_end_a_reflector() {
    let [reflector, other] = [(); 2].map(|()| Reflector::bind(LOCAL, 0, None).unwrap());
    let (port, other_port) = (reflector.port().unwrap(), other.port().unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads = [&reflector, &other].map(|reflector| scope.spawn(|| reflector.run(&stop)));
        let request = Request { sequence: 7, stamp: 1, error: ErrorEstimate(1), session: 0 }.to_bytes(None);
        if os::is_root() {
            send_from_port(0, port, &request);
            send_from_port(other_port, port, &request);
        }
        let sender = UdpSocket::bind((LOCAL, 0)).unwrap();
        sender.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        sender.send_to(&request, (LOCAL, port)).unwrap();
        let mut reply = [0; 256];
        let (bytes, _) = sender.recv_from(&mut reply).unwrap();
        sender.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        sender.send_to(&reply[..bytes], (LOCAL, port)).unwrap();
        assert!(sender.recv_from(&mut reply).is_err(), "a reply to a reply");
        stop.store(true, Ordering::Release);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
}

/// Sends a UDP packet with this source port over loopback.
fn send_from_port(from: u16, to: u16, payload: &[u8]) {
    let mut packet = Vec::new();
    for field in [from, to, payload.len() as u16 + 8, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(socket2::Protocol::UDP)).unwrap();
    socket.send_to(&packet, &SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
}

/// Replies come from the address to which the packets were sent: the sender's socket is connected to it.
#[test]
fn a_reflector_replies_from_the_address_of_the_request() {
    for any in [IpAddr::from([0, 0, 0, 0]), Ipv6Addr::UNSPECIFIED.into()] {
        let Ok(reflector) = Reflector::bind(any, 0, None) else { continue };
        let to = SocketAddr::new(IpAddr::from([127, 0, 0, 2]), reflector.port().unwrap());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let running = scope.spawn(|| reflector.run(&stop));
            let result = measure(&options(Protocol::Stamp, to), &AtomicBool::new(false), &mut |_| {});
            stop.store(true, Ordering::Release);
            running.join().unwrap().unwrap();
            let result = result.unwrap();
            assert!(result.lost < result.sent, "{any}: {result:?}");
        });
    }
}

/// After a stop, the sender waits for the replies to packets in flight.
#[test]
fn packets_in_flight_at_a_stop_are_not_lost() {
    const DELAY: Duration = Duration::from_millis(200);
    let reflector = UdpSocket::bind((LOCAL, 0)).unwrap();
    reflector.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let (stop, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut requests = VecDeque::new();
            let mut buffer = [0; 2000];
            while !has_ended.load(Ordering::Acquire) {
                if let Ok((_, from)) = reflector.recv_from(&mut buffer) {
                    requests.push_back((
                        Instant::now() + DELAY,
                        Request::from_bytes(&buffer, None).unwrap(),
                        from,
                    ));
                }
                while let Some((_, request, from)) = requests.pop_front_if(|(due, ..)| *due <= Instant::now())
                {
                    let Request { sequence, stamp, error, session } = request;
                    let request = (sequence, stamp, error);
                    let reply =
                        Reflected { sequence, stamp, error, session, received: stamp, request, ttl: 255 };
                    reflector.send_to(&reply.to_bytes(None), from).unwrap();
                }
            }
        });
        let options =
            SenderOptions { count: 100_000, ..options(Protocol::Stamp, reflector.local_addr().unwrap()) };
        let mut stop_after = |replies| stop.store(replies >= 10, Ordering::Release);
        let measured = measure_packets(&options, &stop, &mut stop_after);
        has_ended.store(true, Ordering::Release);
        measured.unwrap()
    });
    assert!(measured.lost.is_empty(), "{:?}", measured.lost);
    assert!(measured.trips.len() > 10, "{}", measured.trips.len());
}

/// TWAMP Light in both roles: our reflector and a sender whose packets have TWAMP's padding; our sender and a
/// reflector that replies with the 41 bytes of TWAMP.
#[test]
fn twamp_light_needs_no_control_connection() {
    let reflector = Reflector::bind(LOCAL, 0, None).unwrap();
    let to = SocketAddr::new(LOCAL, reflector.port().unwrap());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| reflector.run(&stop));
        let sender = UdpSocket::bind((LOCAL, 0)).unwrap();
        sender.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let request = Request { sequence: 3, stamp: 77, error: ErrorEstimate(0x0155), session: 0 };
        let mut buffer = [0; 2000];
        // Shorter packets get no reply: it would be longer than the packet.
        for length in [13, 14, 40] {
            sender.send_to(&request.to_bytes(None)[..length], to).unwrap();
        }
        for length in [41, 42, 43, 44, 500] {
            let mut bytes = request.to_bytes(None);
            bytes.resize(length, 0);
            sender.send_to(&bytes, to).unwrap();
            let received = sender.recv(&mut buffer).unwrap();
            assert_eq!(received, length, "a reply is as long as its request");
            let reply = Reflected::from_bytes(&buffer[..received], None).unwrap();
            assert_eq!(reply.request, (3, 77, ErrorEstimate(0x0155)));
            assert!(reply.ttl > 0 && reply.received <= reply.stamp, "{reply:?}");
            assert!(reply.error.ns().unwrap() >= 50_000.0, "{reply:?}");
        }
        stop.store(true, Ordering::Release);
        running.join().unwrap().unwrap();
    });

    let reflector = UdpSocket::bind((LOCAL, 0)).unwrap();
    let to = reflector.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 2000];
            for sequence in 0..40 {
                let (length, from) = reflector.recv_from(&mut buffer).unwrap();
                let request = Request::from_bytes(&buffer[..length], None).unwrap();
                // Its own numbers, the shortest packet, and an error estimate of 2^-8 s.
                let reply = Reflected {
                    sequence: sequence + 1000,
                    stamp: request.stamp,
                    error: ErrorEstimate(0x8000 | 17 << 8 | 128),
                    session: 0,
                    received: request.stamp,
                    request: (request.sequence, request.stamp, request.error),
                    ttl: 64,
                };
                reflector.send_to(&reply.to_bytes(None)[..41], from).unwrap();
            }
        });
        let result = measure(&options(Protocol::Stamp, to), &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!((result.sent, result.lost), (40, 0));
        // Both ends' errors: 2^-8 s and 50 us.
        assert!((result.stamp_error_ms - 1000.0 / 256.0 - 0.05).abs() < 1e-6, "{result:?}");
    });
}

/// A client that can violate the protocol at each step.
struct Client {
    stream: TcpStream,
    control: ClientControl,
}

impl Client {
    fn open(protocol: ControlProtocol, to: SocketAddr) -> Self {
        Self::try_open(protocol, to).unwrap()
    }

    fn try_open(protocol: ControlProtocol, to: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut client = Client { stream, control: ClientControl::new(protocol) };
        client.try_reply()?;
        let message = client.control.set_up();
        client.send(&message);
        client.try_reply()?;
        Ok(client)
    }

    fn send(&mut self, message: &[u8]) {
        self.stream.write_all(message).unwrap();
    }

    fn reply(&mut self) -> Reply {
        self.try_reply().unwrap()
    }

    fn try_reply(&mut self) -> Result<Reply, String> {
        loop {
            if let Some(reply) = self.control.next_reply().map_err(|error| error.to_string())? {
                return Ok(reply);
            }
            let mut buffer = [0; 1000];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err("closed".into()),
                Ok(length) => self.control.receive(&buffer[..length]),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn request(&mut self, request: SessionRequest, slots: &[Slot]) -> Result<u16, String> {
        let message = self.control.request(request, slots);
        self.send(&message);
        match self.try_reply()? {
            Reply::Accepted(accepted) => Ok(accepted.port),
            other => Err(format!("{other:?}")),
        }
    }
}

fn two_way() -> SessionRequest {
    let own = SocketAddr::new(LOCAL, 40_000);
    SessionRequest {
        two_way: true,
        server_sends: false,
        server_receives: false,
        slots: 0,
        packets: 0,
        sender: own,
        receiver: SocketAddr::new(LOCAL, 0),
        sid: [0; 16],
        padding_bytes: 27,
        start: 0,
        timeout: 1 << 32,
        type_p: 0,
    }
}

#[test]
fn requests_for_other_hosts_or_above_the_limits_are_refused() {
    served(ControlProtocol::Twamp, LOCAL, |to| {
        let mut client = Client::open(ControlProtocol::Twamp, to);
        let other = SocketAddr::from(([192, 0, 2, 1], 40_000));
        for (request, accept) in [
            (SessionRequest { sender: other, ..two_way() }, Accept::UNSUPPORTED),
            (SessionRequest { padding_bytes: 26, ..two_way() }, Accept::UNSUPPORTED),
            (SessionRequest { server_sends: true, ..two_way() }, Accept::UNSUPPORTED),
            (SessionRequest { type_p: 1 << 31, ..two_way() }, Accept::UNSUPPORTED),
            (SessionRequest { padding_bytes: u32::MAX, ..two_way() }, Accept::PERMANENT_LIMIT),
        ] {
            let refused = client.request(request, &[]).unwrap_err();
            assert!(refused.contains(&format!("(Accept {})", accept.0)), "{request:?}: {refused}");
        }
        for _ in 0..16 {
            client.request(SessionRequest { type_p: 46 << 24, ..two_way() }, &[]).unwrap();
        }
        assert!(client.request(two_way(), &[]).unwrap_err().contains("(Accept 5)"));
    });
    served(ControlProtocol::Owamp, LOCAL, |to| {
        let mut client = Client::open(ControlProtocol::Owamp, to);
        let one_way = SessionRequest { two_way: false, slots: 1, packets: 10, ..two_way() };
        let to_us = SessionRequest { server_sends: true, receiver: one_way.sender, ..one_way };
        let from_us = SessionRequest { server_receives: true, ..one_way };
        let other = SocketAddr::from(([192, 0, 2, 1], 40_000));
        let slow = Slot::Fixed(1 << 32);
        for (request, slot, accept) in [
            (SessionRequest { receiver: other, ..to_us }, slow, Accept::UNSUPPORTED),
            (SessionRequest { sender: other, ..from_us }, slow, Accept::UNSUPPORTED),
            (SessionRequest { server_receives: true, ..to_us }, slow, Accept::UNSUPPORTED),
            (SessionRequest { packets: 0, ..from_us }, slow, Accept::UNSUPPORTED),
            // 2000 packets a second, and 72 Mb/s.
            (to_us, Slot::Fixed(1 << 21), Accept::PERMANENT_LIMIT),
            (
                SessionRequest { padding_bytes: 9000, ..to_us },
                Slot::Exponential(1 << 22),
                Accept::PERMANENT_LIMIT,
            ),
            (SessionRequest { packets: 50_001, ..from_us }, slow, Accept::PERMANENT_LIMIT),
            (from_us, Slot::Fixed(1000 << 32), Accept::PERMANENT_LIMIT),
        ] {
            let refused = client.request(request, &[slot]).unwrap_err();
            assert!(refused.contains(&format!("(Accept {})", accept.0)), "{request:?}: {refused}");
        }
        client.request(from_us, &[slow]).unwrap();
        let message = client.control.fetch(*b"unknown session!");
        client.send(&message);
        assert!(client.try_reply().unwrap_err().contains("refused the session's records"));
    });
}

#[test]
fn packets_are_reflected_only_to_the_client_and_only_during_the_test() {
    served(ControlProtocol::Twamp, LOCAL, |to| {
        let mut client = Client::open(ControlProtocol::Twamp, to);
        let port = client.request(two_way(), &[]).unwrap();
        let socket = UdpSocket::bind((LOCAL, 0)).unwrap();
        // Another address of this host.
        let other = UdpSocket::bind("127.0.0.9:0").unwrap();
        let bytes = Request { sequence: 0, stamp: 1, error: ErrorEstimate(1), session: 0 }.to_bytes(None);
        let reflector = SocketAddr::new(LOCAL, port);
        let is_reflected = |socket: &UdpSocket, timeout_ms: u64| {
            socket.set_read_timeout(Some(Duration::from_millis(timeout_ms))).unwrap();
            socket.send_to(&bytes, reflector).unwrap();
            let mut buffer = [0; 100];
            let length = socket.recv(&mut buffer).ok()?;
            Reflected::from_bytes(&buffer[..length], None)
        };
        assert_eq!(is_reflected(&socket, 300), None, "before the start");
        let message = client.control.start();
        client.send(&message);
        assert_eq!(client.reply(), Reply::TestsStarted);
        // The packet that arrived before the start gets no later reply.
        let first = is_reflected(&socket, 10_000).unwrap();
        let second = is_reflected(&socket, 10_000).unwrap();
        assert_eq!((first.sequence, second.sequence), (0, 1));
        assert_eq!(is_reflected(&other, 300), None, "of another address");
        let message = client.control.stop_two_way(1);
        client.send(&message);
        // The session's timeout is a second.
        std::thread::sleep(Duration::from_millis(2500));
        assert_eq!(is_reflected(&socket, 300), None, "after the end");
    });
}

#[test]
fn a_protocol_violation_closes_only_its_own_connection() {
    let notes = served(ControlProtocol::Twamp, LOCAL, |to| {
        let mut wrong = Client::open(ControlProtocol::Twamp, to);
        wrong.send(&[9; 200]);
        assert_eq!(wrong.try_reply(), Err("closed".into()));
        let mut mode = TcpStream::connect(to).unwrap();
        mode.write_all(&[[0, 0, 0, 4].as_slice(), &[0; 160]].concat()).unwrap();
        let mut replies = Vec::new();
        let _ = mode.read_to_end(&mut replies);
        assert_eq!((replies.len(), replies[64 + 15]), (64 + 48, 3));
        // As many silent connections as one address may have; the first two may still be counted.
        let mut clients = Vec::new();
        while let Ok(client) = Client::try_open(ControlProtocol::Twamp, to) {
            clients.push(client);
            assert!(clients.len() <= 8);
        }
        assert!(clients.len() >= 6, "{}", clients.len());
        let error = measure(&options(Protocol::Twamp, to), &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("busy"), "{error}");
        drop(clients);
        let mut tries = 0;
        while let Err(error) = measure(&options(Protocol::Twamp, to), &AtomicBool::new(false), &mut |_| {}) {
            tries += 1;
            assert!(tries < 100, "{error}");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let is_noted = |text: &str| notes.iter().any(|note| note.contains(text));
    assert!(is_noted("command 9") && is_noted("mode 4") && is_noted("too many"), "{notes:?}");
}

#[test]
fn a_silent_client_loses_its_connection() {
    let notes = served(ControlProtocol::Owamp, LOCAL, |to| {
        let mut silent = TcpStream::connect(to).unwrap();
        silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = Vec::new();
        silent.read_to_end(&mut greeting).unwrap();
        assert_eq!(greeting.len(), 64);
    });
    assert!(notes.iter().any(|note| note.contains("no command in time")), "{notes:?}");
}

#[test]
fn a_stop_ends_a_test_early_with_the_results_so_far() {
    served(ControlProtocol::Owamp, LOCAL, |to| {
        let stop = AtomicBool::new(false);
        let long = SenderOptions { count: 5000, spacing: Spacing::Fixed, ..options(Protocol::Owamp, to) };
        let result = measure(&long, &stop, &mut |n| {
            if n == 10 {
                stop.store(true, Ordering::Release);
            }
        });
        let counts = result.unwrap().each_direction.unwrap();
        assert!(counts.iter().all(|count| count.sent < 5000 && count.sent > 0), "{counts:?}");
    });
}

/// The memory of a connection is limited, although each session needs only one packet.
#[test]
fn a_server_keeps_only_the_last_finished_sessions() {
    served(ControlProtocol::Owamp, LOCAL, |to| {
        let mut client = Client::open(ControlProtocol::Owamp, to);
        let request = SessionRequest {
            two_way: false,
            server_receives: true,
            slots: 1,
            packets: 1,
            sender: SocketAddr::new(LOCAL, 4567),
            receiver: SocketAddr::new(LOCAL, 0),
            start: 0,
            ..two_way()
        };
        let mut sids = Vec::new();
        for _ in 0..17 {
            let message = client.control.request(request, &[Slot::Fixed(1 << 20)]);
            client.send(&message);
            let Reply::Accepted(accepted) = client.reply() else { panic!("no session") };
            let message = client.control.start();
            client.send(&message);
            assert_eq!(client.reply(), Reply::TestsStarted);
            let stopped = StoppedSender { sid: accepted.sid, next_sequence: 0, skipped: Vec::new() };
            let message = client.control.stop_one_way(&[stopped]);
            client.send(&message);
            assert!(matches!(client.reply(), Reply::Stopped(_)));
            sids.push(accepted.sid);
        }
        for sid in &sids[1..] {
            let message = client.control.fetch(*sid);
            client.send(&message);
            assert!(matches!(client.reply(), Reply::Fetched(_)));
        }
        let message = client.control.fetch(sids[0]);
        client.send(&message);
        assert!(client.try_reply().is_err(), "it was forgotten");
    });
}

#[test]
fn a_server_sends_at_its_minimum_interval() {
    served(ControlProtocol::Owamp, LOCAL, |to| {
        let options = SenderOptions {
            interval: Time::from_millis(1),
            spacing: Spacing::Fixed,
            ..options(Protocol::Owamp, to)
        };
        let measured = measure(&options, &AtomicBool::new(false), &mut |_| {}).unwrap();
        assert_eq!(measured.sent, 80, "in both directions");
        let faster = SenderOptions { interval: Time::from_micros(999), ..options };
        assert!(measure(&faster, &AtomicBool::new(false), &mut |_| {}).is_err());
    });
}
