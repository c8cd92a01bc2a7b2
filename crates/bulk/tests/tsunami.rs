//! Tsunami over paths in virtual time.

use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use bulk::tsunami::{
    Client, Server, SessionError,
    wire::{HEADER_BYTES, Parameters, Request},
};
use units::{BitRate, Bytes, Instant, Time};

use crate::common::{End, Path, Simulation, content};

/// One direction of a control connection without loss.
#[derive(Clone)]
struct Pipe {
    delay: Time,
    bytes: Rc<RefCell<InFlight>>,
}

/// Pieces by their time of arrival.
type InFlight = VecDeque<(Instant, Vec<u8>)>;

impl Pipe {
    fn new(path: &Path) -> Pipe {
        Pipe { delay: path.rtt / 2, bytes: Rc::default() }
    }

    fn push(&self, now: Instant, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.bytes.borrow_mut().push_back((now + self.delay, bytes));
        }
    }

    fn due(&self) -> Instant {
        self.bytes.borrow().front().map_or(Instant::NEVER, |(at, _)| *at)
    }

    fn pop(&self, now: Instant) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.borrow_mut();
        bytes.pop_front_if(|(at, _)| *at <= now).map(|(_, bytes)| bytes)
    }
}

struct Sender {
    server: Server,
    file_bytes: u64,
    incoming: Pipe,
    outgoing: Pipe,
}

impl End for Sender {
    fn handle_datagram(&mut self, _now: Instant, _bytes: &[u8]) {}
    fn next_timeout(&self) -> Instant {
        self.server.next_timeout().min(self.incoming.due())
    }
    fn handle_timeout(&mut self, now: Instant) {
        while let Some(bytes) = self.incoming.pop(now) {
            self.server.handle_control(now, &bytes);
        }
        if self.server.requested().is_some() {
            self.server.offer(now, self.file_bytes, 1);
        }
    }
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.outgoing.push(now, self.server.take_control());
        let Some(block) = self.server.poll_transmit(now) else { return false };
        out.extend_from_slice(&block.header.encode());
        let end = (block.offset + block.bytes as u64).min(self.file_bytes);
        let mut at = block.offset;
        while at < end {
            let piece = content(at, end);
            out.extend_from_slice(piece);
            at += piece.len() as u64;
        }
        out.resize(HEADER_BYTES + block.bytes, 0);
        true
    }
}

struct Receiver {
    client: Client,
    incoming: Pipe,
    outgoing: Pipe,
    received: u64,
}

impl End for Receiver {
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        if let Some(block) = self.client.handle_datagram(now, bytes) {
            let (mut at, mut rest) = (block.offset, block.bytes);
            self.received += rest.len() as u64;
            while !rest.is_empty() {
                let expected = content(at, at + rest.len() as u64);
                assert_eq!(&rest[..expected.len()], expected);
                at += expected.len() as u64;
                rest = &rest[expected.len()..];
            }
        }
    }
    fn next_timeout(&self) -> Instant {
        self.incoming.due()
    }
    fn handle_timeout(&mut self, now: Instant) {
        while let Some(bytes) = self.incoming.pop(now) {
            self.client.handle_control(now, &bytes);
        }
    }
    fn poll_transmit(&mut self, now: Instant, _out: &mut Vec<u8>) -> bool {
        self.outgoing.push(now, self.client.take_control());
        false
    }
}

fn simulation(
    path: &Path,
    parameters: Parameters,
    bytes: u64,
    resume: u64,
    seed: u64,
) -> Simulation<Sender, Receiver> {
    let (to_server, to_client) = (Pipe::new(path), Pipe::new(path));
    let sender = Sender {
        server: Server::new(b"secret", [9; 64]),
        file_bytes: bytes,
        incoming: to_server.clone(),
        outgoing: to_client.clone(),
    };
    let client = Client::new(b"secret", "file", parameters, 1, resume);
    let receiver = Receiver { client, incoming: to_client, outgoing: to_server, received: 0 };
    Simulation::new(path, sender, receiver, seed)
}

/// Sends a file; returns the goodput in bit/s, from the beginning of the dialogue to the last block.
fn transfer(path: &Path, parameters: Parameters, bytes: u64, resume: u64, seed: u64) -> f64 {
    let mut simulation = simulation(path, parameters, bytes, resume, seed);
    let is_done = simulation.run(Instant::from_secs(3600), |_, receiver| receiver.client.is_complete());
    let (sent, received) = (simulation.a.server.statistics(), simulation.b.client.statistics());
    assert!(is_done, "{} of {bytes} bytes, {sent:?}, {received:?}", simulation.b.received);
    let had = resume - resume % u64::from(parameters.block_bytes);
    assert_eq!(simulation.b.received, if resume == bytes { 0 } else { bytes - had });
    let goodput = simulation.b.received as f64 * 8.0 / simulation.now.as_secs_f64();
    println!("{:.1} Mb/s, {:?}, {sent:?}, {received:?}", goodput / 1e6, simulation.now);
    let is_stopped =
        simulation.run(simulation.now + Time::from_secs(1), |sender, _| sender.server.completed() == 1);
    assert!(is_stopped);
    goodput
}

/// Blocks of full frames, at slightly less than the path's rate of 1 Gb/s.
fn gigabit() -> Parameters {
    Parameters { block_bytes: 1466, target_bps: 955_000_000, ..Parameters::default() }
}

/// Payload rate of a path for full frames.
fn payload_rate(path: &Path) -> f64 {
    path.rate.0 as f64 * 1466.0 / 1514.0
}

#[test]
fn a_lossy_long_fat_path_is_filled() {
    let path = Path::long_fat(0.001);
    let bytes = if cfg!(debug_assertions) { 2_500_000_000 } else { 10_000_000_000 };
    let goodput = transfer(&path, gigabit(), bytes, 0, 1);
    assert!(goodput > 0.9 * payload_rate(&path), "{goodput}");
}

#[test]
fn at_a_target_above_the_path_rate_the_server_slows_down_and_the_file_is_complete() {
    let path = Path {
        rate: BitRate(50_000_000),
        rtt: Time::from_millis(50),
        loss: 0.0,
        return_loss: 0.0,
        queue: Bytes(300_000),
    };
    let parameters = Parameters { block_bytes: 1466, target_bps: 80_000_000, ..Parameters::default() };
    let goodput = transfer(&path, parameters, 100_000_000, 0, 1);
    assert!(goodput > 0.5 * payload_rate(&path), "{goodput}");
}

#[test]
fn a_file_is_complete_when_a_tenth_of_the_packets_is_lost() {
    let path = Path {
        rate: BitRate(50_000_000),
        rtt: Time::from_millis(50),
        loss: 0.1,
        return_loss: 0.0,
        queue: Bytes(300_000),
    };
    let parameters = Parameters { target_bps: 40_000_000, ..Parameters::default() };
    for seed in 0..5 {
        transfer(&path, parameters, 5_000_000, 0, seed);
    }
}

#[test]
fn empty_and_tiny_files_arrive() {
    for bytes in [0, 1, 1024, 1025] {
        transfer(&Path::long_fat(0.0), Parameters::default(), bytes, 0, 1);
    }
}

#[test]
fn a_transfer_continues_after_the_bytes_that_the_client_has() {
    for resume in [1, 1023, 1024, 700_000, 999_423, 1_000_000] {
        transfer(&Path::long_fat(0.01), Parameters::default(), 1_000_000, resume, 1);
    }
}

#[test]
fn a_wrong_secret_is_refused() {
    let path = Path::long_fat(0.0);
    let mut simulation = simulation(&path, Parameters::default(), 1000, 0, 1);
    simulation.a.server = Server::new(b"another", [9; 64]);
    simulation.run(Instant::from_secs(9), |_, receiver| receiver.client.error().is_some());
    assert_eq!(simulation.a.server.error(), Some(SessionError::Secret));
    assert_eq!(simulation.b.client.error(), Some(SessionError::Secret));
    assert_eq!(simulation.a.server.next_timeout(), Instant::NEVER);
}

#[test]
fn a_server_without_feedback_slows_down_and_ends() {
    let mut server = Server::new(b"", [0; 64]);
    let mut client = Client::new(b"", "file", gigabit(), 7, 0);
    let now = Instant::ZERO;
    for _ in 0..5 {
        client.handle_control(now, &server.take_control());
        server.handle_control(now, &client.take_control());
        server.offer(now, 1 << 40, 0);
    }
    assert_eq!(server.udp_port(), Some(7));
    // Feedback below the threshold raises the rate to the target.
    for _ in 0..9 {
        server.handle_control(now, &Request::ErrorRate(0).encode());
    }
    assert_eq!(server.rate_bps().round(), 955_000_000.0);
    let mut at = now;
    while server.error().is_none() {
        at = server.next_timeout();
        server.poll_transmit(at);
    }
    assert_eq!(server.error(), Some(SessionError::NoFeedback));
    assert_eq!(at.as_millis(), 15_000);
    assert!(server.rate_bps() < 400_000_000.0, "{}", server.rate_bps());
}

/// A full block takes 0.2 s, so that 50 of them take longer than a server waits for a report.
#[test]
fn a_slow_server_gets_reports_that_blocks_arrive() {
    let parameters = Parameters { block_bytes: 1466, target_bps: 50_000, ..Parameters::default() };
    transfer(&Path::long_fat(0.0), parameters, 200_000, 0, 1);
}

#[test]
fn a_client_that_receives_blocks_accepts_no_more_dialogue() {
    let mut server = Server::new(b"", [0; 64]);
    let mut client = Client::new(b"", "file", gigabit(), 7, 0);
    for _ in 0..5 {
        client.handle_control(Instant::ZERO, &server.take_control());
        server.handle_control(Instant::ZERO, &client.take_control());
        server.offer(Instant::ZERO, 1 << 40, 0);
    }
    assert_eq!((client.file_bytes(), client.error()), (Some(1 << 40), None));
    client.handle_control(Instant::ZERO, &[0]);
    assert_eq!(client.error(), Some(SessionError::Invalid("message")));
}
