//! Two ends of a transport over a path of `net`, in virtual time.

use std::sync::LazyLock;

use net::{
    Destination, LossModel, Network, Node, PipeSpec, QueueLimit, Rate, Topology, test_packet::TestPacket,
};
use units::{BitRate, Bytes, Instant, Time};

/// One end: datagrams and the time go in, datagrams and timers come out.
pub trait End {
    /// Processes a datagram.
    fn handle_datagram(&mut self, now: Instant, bytes: &[u8]);
    /// When `handle_timeout` is due.
    fn next_timeout(&self) -> Instant;
    /// Runs timers, and the application.
    fn handle_timeout(&mut self, now: Instant);
    /// The next datagram to send now.
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;
}

/// A symmetric path.
#[derive(Debug, Clone)]
pub struct Path {
    pub rate: BitRate,
    pub rtt: Time,
    pub loss: f64,
    /// Loss in the reverse direction.
    pub return_loss: f64,
    pub queue: Bytes,
}

impl Path {
    /// 1 Gb/s x 100 ms with a queue of a bandwidth-delay product.
    pub fn long_fat(loss: f64) -> Path {
        Path {
            rate: BitRate(1_000_000_000),
            rtt: Time::from_millis(100),
            loss,
            return_loss: 0.0,
            queue: Bytes(12_500_000),
        }
    }

    fn pipe(&self, loss: f64) -> PipeSpec {
        PipeSpec {
            rate: Rate::Constant(self.rate),
            delay: self.rtt / 2,
            queue: QueueLimit::Bytes(self.queue),
            loss: if loss > 0.0 { LossModel::Independent(loss) } else { LossModel::None },
            ..PipeSpec::default()
        }
    }
}

/// The network and the two ends.
pub struct Simulation<A, B> {
    pub a: A,
    pub b: B,
    pub now: Instant,
    network: Network<TestPacket>,
    /// Datagrams in flight, by number.
    datagrams: Vec<Vec<u8>>,
    free: Vec<u64>,
}

/// IPv4 and UDP headers.
const HEADERS: u32 = 28;

impl<A: End, B: End> Simulation<A, B> {
    pub fn new(path: &Path, a: A, b: B, seed: u64) -> Self {
        let mut topology = Topology::new(2, 0);
        topology.add_link(Node::Host(0), Node::Host(1), path.pipe(path.loss), path.pipe(path.return_loss));
        let network = topology.build(seed).unwrap();
        Simulation { a, b, now: Instant::ZERO, network, datagrams: Vec::new(), free: Vec::new() }
    }

    /// Runs until `done`, or the deadline; returns whether it is done.
    pub fn run(&mut self, deadline: Instant, done: impl Fn(&A, &B) -> bool) -> bool {
        let mut delivered = Vec::new();
        let mut buffer = Vec::new();
        loop {
            self.transmit(&mut buffer, &mut delivered);
            if done(&self.a, &self.b) {
                return true;
            }
            let wake = self
                .network
                .next_event()
                .unwrap_or(Instant::NEVER)
                .min(self.a.next_timeout())
                .min(self.b.next_timeout());
            if wake >= deadline {
                self.now = deadline;
                return false;
            }
            self.now = self.now.max(wake);
            self.network.run_until(self.now, &mut delivered);
            for (station, at, packet) in delivered.drain(..) {
                let bytes = std::mem::take(&mut self.datagrams[packet.first as usize]);
                self.free.push(packet.first);
                assert!(at <= self.now);
                match station {
                    0 => self.a.handle_datagram(self.now, &bytes),
                    _ => self.b.handle_datagram(self.now, &bytes),
                }
            }
            if self.a.next_timeout() <= self.now {
                self.a.handle_timeout(self.now);
            }
            if self.b.next_timeout() <= self.now {
                self.b.handle_timeout(self.now);
            }
        }
    }

    fn transmit(&mut self, buffer: &mut Vec<u8>, delivered: &mut Vec<(u32, Instant, TestPacket)>) {
        for station in 0..2 {
            loop {
                buffer.clear();
                let is_sent = match station {
                    0 => self.a.poll_transmit(self.now, buffer),
                    _ => self.b.poll_transmit(self.now, buffer),
                };
                if !is_sent {
                    break;
                }
                let number = self.free.pop().unwrap_or_else(|| {
                    self.datagrams.push(Vec::new());
                    self.datagrams.len() as u64 - 1
                });
                self.datagrams[number as usize] = buffer.clone();
                let packet = TestPacket::single(number, buffer.len() as u32 + HEADERS);
                self.network.send(station, self.now, Destination::Station(1 - station), packet, delivered);
            }
        }
    }
}

/// Length of the content's pattern: a prime, so that no block of a power of two is repeated early.
const PATTERN: usize = 1_000_003;

/// The bytes of every file from `at` to `end`, at most up to the end of the pattern.
pub fn content(at: u64, end: u64) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        (0..PATTERN as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    });
    let begin = (at % PATTERN as u64) as usize;
    &BYTES[begin..PATTERN.min(begin + (end - at) as usize)]
}
