//! The path of the test kit: a drop-tail link, a receiver with delayed and selective ACKs, and the return
//! path.
//!
//! Everything is a FIFO, so the arrival of a packet is known when it is sent, and no event queue is needed.

use rand_core::{Rng, SeedableRng};
use std::collections::{BTreeSet, VecDeque};

/// The path between sender and receiver.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Rate of the link, bit/s, of payload (no headers).
    pub rate_bps: u64,
    /// Round-trip time with an empty queue, including the transmission of a packet, us.
    pub rtt_us: u64,
    /// Size of the queue, packets, including the one being sent.
    pub queue_packets: u64,
    /// Payload of a packet, bytes.
    pub mss_bytes: u32,
    /// The receiver acknowledges every n-th packet in order, or after 40 ms.
    pub ack_every: u32,
    /// ECN marking threshold of the queue, packets.
    pub mark_from_packets: Option<u64>,
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Probability that a packet is marked (with ECN).
    pub mark: f64,
    /// Whether the two ends use ECN.
    pub ecn: bool,
    /// Seed of random losses and marks.
    pub seed: u64,
}

impl Default for Path {
    /// 100 Mb/s x 20 ms, one BDP of queue (173 packets of 1448 bytes), every second packet acknowledged, no
    /// loss.
    fn default() -> Path {
        Path {
            rate_bps: 100_000_000,
            rtt_us: 20_000,
            queue_packets: 173,
            mss_bytes: 1448,
            ack_every: 2,
            mark_from_packets: None,
            loss: 0.0,
            mark: 0.0,
            ecn: false,
            seed: 1,
        }
    }
}

impl Path {
    /// The bandwidth-delay product, packets.
    pub fn bdp_packets(&self) -> f64 {
        self.rate_bps as f64 * self.rtt_us as f64 / 8e6 / f64::from(self.mss_bytes)
    }
}

/// Maximum delay of an ACK (`TCP_DELACK_MIN`), ns.
const DELAYED_ACK_NS: u64 = 40_000_000;

/// An ACK on the return path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ack {
    pub(super) at_ns: u64,
    /// All packets below this number have arrived.
    pub(super) next: u64,
    /// Packets that arrived since the last ACK; selectively acknowledged if above `next`.
    pub(super) arrivals: Vec<u64>,
    /// One of these was marked.
    pub(super) marked: bool,
}

/// A path with the packets and ACKs in flight.
#[derive(Debug)]
pub(super) struct PathState {
    pub(super) path: Path,
    random: rand_pcg::Pcg64Mcg,
    free_ns: u64,
    /// Data in flight: arrival, packet, mark.
    data: VecDeque<(u64, u64, bool)>,
    acks: VecDeque<Ack>,
    receiver: Receiver,
    lose: BTreeSet<u64>,
    pub(super) lose_next: u64,
    pub(super) mark_next: u64,
    pub(super) lost: u64,
    pub(super) marked: u64,
}

#[derive(Debug, Default)]
struct Receiver {
    next: u64,
    above: BTreeSet<u64>,
    arrivals: Vec<u64>,
    in_order: u32,
    marked: bool,
    /// When a delayed ACK must be sent.
    deadline_ns: Option<u64>,
}

impl PathState {
    pub(super) fn new(path: Path) -> PathState {
        let random = rand_pcg::Pcg64Mcg::seed_from_u64(path.seed);
        PathState {
            path,
            random,
            free_ns: 0,
            data: VecDeque::new(),
            acks: VecDeque::new(),
            receiver: Receiver::default(),
            lose: BTreeSet::new(),
            lose_next: 0,
            mark_next: 0,
            lost: 0,
            marked: 0,
        }
    }

    /// Loses the first transmission of this packet.
    pub(super) fn lose_packet(&mut self, packet: u64) {
        self.lose.insert(packet);
    }

    /// Transmission time of a packet, ns.
    fn transmission_ns(&self) -> u64 {
        (u128::from(self.path.mss_bytes) * 8_000_000_000 / u128::from(self.path.rate_bps.max(1))) as u64
    }

    /// Packets in the queue, with the unsent fraction of the packet being sent.
    pub(super) fn queued(&self, now_ns: u64) -> f64 {
        self.free_ns.saturating_sub(now_ns) as f64 / self.transmission_ns().max(1) as f64
    }

    /// Packets in the queue.
    pub(super) fn queue_packets(&self, now_ns: u64) -> u64 {
        self.free_ns.saturating_sub(now_ns).div_ceil(self.transmission_ns().max(1))
    }

    /// Sends a packet. A retransmission is never lost: the tests are about the window, and `timeout`
    /// simulates a timeout.
    pub(super) fn send(&mut self, now_ns: u64, packet: u64, is_retransmission: bool) {
        let queue = self.queue_packets(now_ns);
        let (loss, mark) = (self.draw(), self.draw());
        let requested = self.lose.remove(&packet) || self.lose_next_if(!is_retransmission) > 0;
        if !is_retransmission && (requested || queue >= self.path.queue_packets || loss < self.path.loss) {
            self.lost += 1;
            return;
        }
        let by_count = self.mark_next > 0;
        self.mark_next = self.mark_next.saturating_sub(1);
        let full = self.path.mark_from_packets.is_some_and(|from| queue >= from);
        let marked = self.path.ecn && (by_count || full || mark < self.path.mark);
        self.marked += u64::from(marked);
        let transmission = self.transmission_ns();
        self.free_ns = self.free_ns.max(now_ns) + transmission;
        let propagation = (self.path.rtt_us * 500).saturating_sub(transmission);
        let earliest = self.data.back().map_or(0, |(at, ..)| *at);
        self.data.push_back(((self.free_ns + propagation).max(earliest), packet, marked));
    }

    /// Takes one of the requested losses if this packet may be lost.
    fn lose_next_if(&mut self, may_be_lost: bool) -> u64 {
        let take = u64::from(may_be_lost && self.lose_next > 0);
        self.lose_next -= take;
        take
    }

    fn draw(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// When the next ACK arrives at the sender, if any is in flight.
    pub(super) fn next_ack_ns(&mut self) -> Option<u64> {
        while self.acks.is_empty() {
            let data = self.data.front().map(|(at, ..)| *at);
            match (data, self.receiver.deadline_ns) {
                (Some(at), deadline) if deadline.is_none_or(|d| at <= d) => self.receive(),
                (_, Some(deadline)) => self.acknowledge(deadline),
                _ => return None,
            }
        }
        self.acks.front().map(|ack| ack.at_ns)
    }

    pub(super) fn take_ack(&mut self) -> Option<Ack> {
        self.acks.pop_front()
    }

    /// Drops everything in flight, as an interruption of the path.
    pub(super) fn cut(&mut self) {
        self.data.clear();
        self.acks.clear();
        self.receiver.deadline_ns = None;
        self.receiver.arrivals.clear();
    }

    /// Whether the receiver has the packet.
    pub(super) fn has_arrived(&self, packet: u64) -> bool {
        packet < self.receiver.next || self.receiver.above.contains(&packet)
    }

    /// The receiver processes the next packet.
    fn receive(&mut self) {
        let Some((at, packet, marked)) = self.data.pop_front() else { return };
        // As for DCTCP: a change of the mark is acknowledged at once.
        if marked != self.receiver.marked && !self.receiver.arrivals.is_empty() {
            self.acknowledge(at);
        }
        let receiver = &mut self.receiver;
        receiver.marked = marked;
        receiver.arrivals.push(packet);
        let in_order = packet == receiver.next && receiver.above.is_empty();
        if packet == receiver.next {
            receiver.next += 1;
            while receiver.above.remove(&receiver.next) {
                receiver.next += 1;
            }
        } else if packet > receiver.next {
            receiver.above.insert(packet);
        }
        receiver.in_order += 1;
        if !in_order || receiver.in_order >= self.path.ack_every {
            self.acknowledge(at);
        } else if receiver.deadline_ns.is_none() {
            receiver.deadline_ns = Some(at + DELAYED_ACK_NS);
        }
    }

    fn acknowledge(&mut self, at: u64) {
        let receiver = &mut self.receiver;
        receiver.in_order = 0;
        receiver.deadline_ns = None;
        let arrivals = std::mem::take(&mut receiver.arrivals);
        let earliest = self.acks.back().map_or(0, |ack| ack.at_ns);
        let at_ns = (at + self.path.rtt_us * 500).max(earliest);
        self.acks.push_back(Ack { at_ns, next: receiver.next, arrivals, marked: receiver.marked });
    }
}
