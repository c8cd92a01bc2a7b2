//! UDT over paths in virtual time.

use bulk::udt::{
    Arrival, CloseReason, Config, Connection, Daimd, FixedRate, Listener, RateControl, SocketType,
};
use proptest::prelude::*;
use units::{BitRate, Bytes, Instant, Time};

use crate::common::{End, Path, Simulation, content};

/// A client that sends a file.
struct Sender {
    connection: Connection,
    bytes: u64,
    written: u64,
}

impl Sender {
    fn new(config: Config, rate: Box<dyn RateControl>, bytes: u64) -> Self {
        Sender { connection: Connection::connect(Instant::ZERO, config, [0; 4], rate), bytes, written: 0 }
    }

    fn write(&mut self) {
        while self.connection.is_established() && self.written < self.bytes {
            let block = content(self.written, self.bytes);
            let taken = self.connection.write(block);
            self.written += taken as u64;
            if taken < block.len() {
                return;
            }
        }
        if self.connection.is_established() {
            self.connection.close();
        }
    }
}

impl End for Sender {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.connection.handle_datagram(now, bytes);
        self.write();
    }
    fn next_timeout(&self) -> Instant {
        self.connection.next_timeout()
    }
    fn handle_timeout(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.connection.poll_transmit(now, out)
    }
}

/// A server that checks the received data.
struct Receiver {
    listener: Listener,
    reply: Option<Vec<u8>>,
    connection: Option<Connection>,
    read: u64,
    finished: Instant,
}

impl Receiver {
    fn new(config: Config) -> Self {
        Receiver {
            listener: Listener::new(config, [3; 32]),
            reply: None,
            connection: None,
            read: 0,
            finished: Instant::NEVER,
        }
    }
}

impl End for Receiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Some(connection) = &mut self.connection else {
            match self.listener.handle_datagram(now, b"peer", bytes) {
                Arrival::Ignored => {}
                Arrival::Reply(reply) => self.reply = Some(reply),
                Arrival::Request(incoming) => {
                    let rate = Box::new(Daimd::new(2));
                    self.connection = Some(self.listener.accept(now, &incoming, 99, [0; 4], rate));
                }
            }
            return;
        };
        connection.handle_datagram(now, bytes);
        let mut buffer = [0; 4096];
        loop {
            let count = connection.read(&mut buffer);
            if count == 0 {
                break;
            }
            let mut rest = &buffer[..count];
            while !rest.is_empty() {
                let expected = content(self.read, self.read + rest.len() as u64);
                assert_eq!(&rest[..expected.len()], expected, "at byte {}", self.read);
                self.read += expected.len() as u64;
                rest = &rest[expected.len()..];
            }
        }
        if connection.close_reason().is_some() && self.finished == Instant::NEVER {
            self.finished = now;
        }
    }
    fn next_timeout(&self) -> Instant {
        self.connection.as_ref().map_or(Instant::NEVER, Connection::next_timeout)
    }
    fn handle_timeout(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now);
        }
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if let Some(reply) = self.reply.take() {
            *out = reply;
            return true;
        }
        self.connection.as_mut().is_some_and(|connection| connection.poll_transmit(now, out))
    }
}

/// Sends a file; returns the goodput in bit/s, from the first request to the last byte.
fn transfer(path: &Path, rate: Box<dyn RateControl>, bytes: u64, seed: u64) -> f64 {
    let config =
        Config { receive_packets: 65_536, send_packets: 65_536, initial: 0x7fff_fff0, ..Config::default() };
    let mut simulation = Simulation::new(path, Sender::new(config, rate, bytes), Receiver::new(config), seed);
    let is_done = simulation.run(Instant::from_secs(3600), |sender, receiver| {
        receiver.read == bytes && sender.connection.close_reason().is_some()
    });
    let statistics = simulation.a.connection.statistics();
    assert!(is_done, "{} of {bytes} bytes, {statistics:?}", simulation.b.read);
    assert_eq!(simulation.a.connection.close_reason(), Some(CloseReason::Local));
    let goodput = bytes as f64 * 8.0 / simulation.now.as_secs_f64();
    println!("{:.1} Mb/s, {:?}, {statistics:?}", goodput / 1e6, simulation.now);
    goodput
}

/// Payload rate of a path for full UDT packets.
fn payload_rate(path: &Path) -> f64 {
    path.rate.0 as f64 * 1456.0 / 1514.0
}

/// Bytes of a transfer over the long fat path.
fn size(in_debug_builds: u64) -> u64 {
    if cfg!(debug_assertions) { in_debug_builds } else { 10_000_000_000 }
}

#[test]
fn a_fixed_rate_fills_a_lossy_long_fat_path() {
    let path = Path::long_fat(0.001);
    let rate = Box::new(FixedRate::new(BitRate(985_000_000), 1500));
    let goodput = transfer(&path, rate, size(1_000_000_000), 1);
    assert!(goodput > 0.9 * payload_rate(&path), "{goodput}");
}

#[test]
fn tolerant_daimd_fills_a_lossy_long_fat_path() {
    let path = Path::long_fat(0.001);
    let goodput = transfer(&path, Box::new(Daimd::tolerant(1, 0.01)), size(3_000_000_000), 1);
    assert!(goodput > 0.9 * payload_rate(&path), "{goodput}");
}

#[test]
fn daimd_on_a_clean_long_fat_path() {
    let path = Path::long_fat(0.0);
    let goodput = transfer(&path, Box::new(Daimd::new(1)), size(1_000_000_000), 1);
    assert!(goodput > 0.7 * payload_rate(&path), "{goodput}");
}

#[test]
fn daimd_treats_random_loss_as_congestion() {
    let path = Path::long_fat(0.001);
    let goodput = transfer(&path, Box::new(Daimd::new(1)), 250_000_000, 1);
    assert!((0.04..0.2).contains(&(goodput / payload_rate(&path))), "{goodput}");
}

#[test]
fn a_file_is_complete_when_a_tenth_of_the_packets_is_lost_in_each_direction() {
    let path = Path {
        rate: BitRate(20_000_000),
        rtt: Time::from_millis(30),
        loss: 0.1,
        return_loss: 0.1,
        queue: Bytes(100_000),
    };
    for seed in 0..8 {
        transfer(&path, Box::new(Daimd::tolerant(seed, 0.5)), 2_000_000, seed);
        transfer(&path, Box::new(Daimd::new(seed)), 300_000, seed);
    }
}

#[test]
fn empty_and_tiny_files_arrive() {
    for bytes in [0, 1, 1456, 1457] {
        transfer(&Path::long_fat(0.0), Box::new(Daimd::new(1)), bytes, 1);
    }
}

/// Two established connections.
fn pair(socket_type: SocketType) -> (Connection, Connection) {
    let config = Config { socket_type, ..Config::default() };
    let listener = Listener::new(config, [5; 32]);
    let mut client = Connection::connect(Instant::ZERO, config, [0; 4], Box::new(Daimd::new(1)));
    for _ in 0..2 {
        client.handle_timeout(Instant::ZERO);
        let mut request = Vec::new();
        assert!(client.poll_transmit(Instant::ZERO, &mut request));
        match listener.handle_datagram(Instant::ZERO, b"a", &request) {
            Arrival::Reply(reply) => client.handle_datagram(Instant::ZERO, &reply),
            Arrival::Request(incoming) => {
                let mut server =
                    listener.accept(Instant::ZERO, &incoming, 9, [0; 4], Box::new(Daimd::new(1)));
                let mut response = Vec::new();
                assert!(server.poll_transmit(Instant::ZERO, &mut response));
                client.handle_datagram(Instant::ZERO, &response);
                assert!(client.is_established());
                return (client, server);
            }
            Arrival::Ignored => panic!("ignored"),
        }
    }
    unreachable!("the second request is valid");
}

#[test]
fn a_cookie_is_valid_for_one_address_and_two_minutes() {
    let listener = Listener::new(Config::default(), [5; 32]);
    let mut client = Connection::connect(Instant::ZERO, Config::default(), [0; 4], Box::new(Daimd::new(1)));
    client.handle_timeout(Instant::ZERO);
    let mut request = Vec::new();
    client.poll_transmit(Instant::ZERO, &mut request);
    let Arrival::Reply(reply) = listener.handle_datagram(Instant::ZERO, b"a", &request) else {
        panic!("no cookie")
    };
    client.handle_datagram(Instant::ZERO, &reply);
    client.handle_timeout(Instant::ZERO);
    let mut second = Vec::new();
    client.poll_transmit(Instant::ZERO, &mut second);
    let arrival = |at: Instant, peer: &[u8]| listener.handle_datagram(at, peer, &second);
    assert!(matches!(arrival(Instant::from_secs(119), b"a"), Arrival::Request(_)));
    assert!(matches!(arrival(Instant::from_secs(120), b"a"), Arrival::Ignored));
    assert!(matches!(arrival(Instant::ZERO, b"b"), Arrival::Ignored));
}

#[test]
fn messages_keep_their_boundaries_and_expire() {
    let (mut client, mut server) = pair(SocketType::Messages);
    let long = vec![7; 5000];
    assert!(client.send_message(Instant::ZERO, &long, true, Time::MAX));
    assert!(client.send_message(Instant::ZERO, b"expires", true, Time::from_millis(1)));
    assert!(client.send_message(Instant::ZERO, b"late", true, Time::MAX));
    let mut now = Instant::ZERO;
    let mut datagrams = Vec::new();
    while now < Instant::from_millis(1) {
        let mut out = Vec::new();
        while client.poll_transmit(now, &mut out) {
            datagrams.push(std::mem::take(&mut out));
        }
        now += Time::from_micros(1);
    }
    // Four packets of the first message, one each of the others; the fifth is lost.
    assert_eq!(datagrams.len(), 6);
    for (i, datagram) in datagrams.iter().enumerate() {
        if i != 4 {
            server.handle_datagram(now, datagram);
        }
    }
    assert_eq!(server.receive_message().as_deref(), Some(&long[..]));
    assert_eq!(server.receive_message(), None);
    now = Instant::from_millis(50);
    for _ in 0..2 {
        for from_server in [true, false] {
            let (sender, receiver) =
                if from_server { (&mut server, &mut client) } else { (&mut client, &mut server) };
            sender.handle_timeout(now);
            let mut out = Vec::new();
            while sender.poll_transmit(now, &mut out) {
                receiver.handle_datagram(now, &out);
                out.clear();
            }
        }
    }
    assert_eq!(server.receive_message().as_deref(), Some(&b"late"[..]));
}

#[test]
fn the_connection_to_a_silent_peer_ends() {
    let (mut client, _) = pair(SocketType::Stream);
    assert_eq!(client.write(b"unheard"), 7);
    let mut now = Instant::ZERO;
    while client.close_reason().is_none() {
        now = client.next_timeout();
        assert!(now < Instant::from_secs(60));
        client.handle_timeout(now);
        while client.poll_transmit(now, &mut Vec::new()) {}
    }
    assert_eq!(client.close_reason(), Some(CloseReason::Timeout));
    assert!(now > Instant::from_secs(40), "{now:?}");
    assert_eq!(client.next_timeout(), Instant::NEVER);
}

#[test]
fn an_acknowledgement_of_unsent_data_ends_the_connection() {
    let (mut client, server) = pair(SocketType::Stream);
    let mut forged = vec![0x80, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9];
    client.handle_datagram(Instant::ZERO, &forged);
    assert_eq!(client.close_reason(), Some(CloseReason::Violation));
    // Another socket's packets are ignored.
    forged[15] = 77;
    let mut other = server;
    other.handle_datagram(Instant::ZERO, &forged);
    assert_eq!(other.close_reason(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any datagrams: no panic, and no more bytes in reply than a small multiple of the received ones.
    #[test]
    fn hostile_datagrams_cause_a_limited_number_of_replies(
        datagrams in proptest::collection::vec((0u8..10, 0u32..40_000, proptest::collection::vec(any::<u8>(), 0..64)), 1..80),
    ) {
        let (_, mut server) = pair(SocketType::Stream);
        server.write(&[1; 10_000]);
        let (mut now, mut sent) = (Instant::ZERO, 0usize);
        for (kind, sequence, tail) in datagrams {
            let mut bytes = Vec::new();
            let first = if kind == 9 { sequence } else { 0x8000_0000 | u32::from(kind) << 16 };
            for word in [first, sequence, 0, 9] {
                bytes.extend_from_slice(&word.to_be_bytes());
            }
            bytes.extend_from_slice(&tail);
            server.handle_datagram(now, &bytes);
            now += Time::from_millis(7);
            server.handle_timeout(now);
            let mut out = Vec::new();
            while server.poll_transmit(now, &mut out) {
                sent += 1;
            }
            server.read(&mut [0; 100]);
        }
        prop_assert!(sent < 1000, "{sent}");
    }
}
