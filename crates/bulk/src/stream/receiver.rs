//! The receiving end: play-out, and requests for missing packets.

use std::collections::VecDeque;

use units::{Instant, Time};

use super::{MAX_RANGES, Parameters, Playout, PlayoutCounts, START};
use crate::ranges::Ranges;

/// Interval at which the play-out advances without arrivals.
const TICK: Time = Time::from_millis(10);
/// Time between two start messages.
const START_INTERVAL: Time = Time::from_millis(250);
/// Initial estimate of the round-trip time.
const INITIAL_RTT: Time = Time::from_millis(100);
/// Maximum number of requests that are kept to measure the round-trip time.
const MAX_REQUESTS: usize = 256;
/// Shortest time after which a packet is requested again.
const MIN_REPEAT: Time = Time::from_millis(10);

/// The receiving end of a stream.
#[derive(Debug)]
pub struct Receiver {
    parameters: Parameters,
    playout: Playout,
    /// The number after the highest that has arrived.
    end: u64,
    /// Requested packets that have not arrived.
    missing: Ranges,
    /// Missing packets that were not requested yet.
    unrequested: Ranges,
    /// The latest requests: first and last number, and the time.
    requests: VecDeque<(u64, u64, Instant)>,
    next_repeat: Instant,
    next_tick: Instant,
    /// When the start message is due again; `None` after the first packet.
    next_start: Option<Instant>,
    rtt: Time,
    min_rtt: Option<Time>,
    received_bytes: u64,
}

impl Receiver {
    /// A receiver that waits for the first packet.
    pub fn new(parameters: Parameters) -> Self {
        Receiver {
            parameters,
            playout: Playout::new(parameters),
            end: 0,
            missing: Ranges::default(),
            unrequested: Ranges::default(),
            requests: VecDeque::new(),
            next_repeat: Instant::NEVER,
            next_tick: Instant::NEVER,
            next_start: Some(Instant::ZERO),
            rtt: INITIAL_RTT,
            min_rtt: None,
            received_bytes: 0,
        }
    }

    /// Counts of the play-out.
    pub fn counts(&self) -> PlayoutCounts {
        self.playout.counts()
    }

    /// Payload bytes that arrived in time, each once.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// The smallest time between a request and the packet's arrival.
    pub fn min_rtt(&self) -> Option<Time> {
        self.min_rtt
    }

    /// Whether the last packet's play-out time has passed.
    pub fn is_over(&self) -> bool {
        self.playout.is_over()
    }

    /// Processes a datagram of the sender.
    pub fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        let Some(number) = self.parameters.read_number(bytes) else { return };
        self.next_tick = self.next_tick.min(now + TICK);
        self.next_start = None;
        if !self.playout.record(now, number) {
            return;
        }
        self.received_bytes += u64::from(self.parameters.payload_bytes);
        if !self.parameters.repairs {
            return;
        }
        if number > self.end {
            self.unrequested.insert(self.end, number - 1);
        } else if self.missing.contains(number) {
            self.missing.remove(number, number);
            self.update_rtt(now, number);
        }
        self.unrequested.remove(number, number);
        self.end = self.end.max(number + 1);
    }

    /// Measures the round-trip time by a retransmission, unless the packet was requested several times
    /// (Karn's algorithm).
    fn update_rtt(&mut self, now: Instant, number: u64) {
        let mut requested =
            self.requests.iter().filter(|(first, last, _)| (*first..=*last).contains(&number));
        let (Some((.., at)), None) = (requested.next(), requested.next()) else { return };
        let sample = now.saturating_since(*at);
        self.rtt = (self.rtt * 7 + sample) / 8;
        self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
    }

    /// When [`Receiver::handle_timeout`] is due.
    pub fn next_timeout(&self) -> Instant {
        if self.is_over() {
            return Instant::NEVER;
        }
        self.next_tick.min(self.next_repeat).min(self.next_start.unwrap_or(Instant::NEVER))
    }

    /// Advances the play-out, and makes requests due again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.playout.advance(now);
        if self.next_start.is_none() {
            self.next_tick = now + TICK;
        }
        if now >= self.next_repeat {
            for (first, last) in std::mem::take(&mut self.missing).iter() {
                self.unrequested.insert(first, last);
            }
            self.next_repeat = Instant::NEVER;
        }
    }

    /// Appends the start or a request to `out`; false if there is nothing to request.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        if self.next_start.is_some_and(|at| at <= now) {
            self.next_start = Some(now + START_INTERVAL);
            out.extend_from_slice(START);
            return true;
        }
        // A packet that is played before its retransmission can arrive is not requested.
        let played = self.playout.counts().due;
        if played > 0 {
            self.unrequested.remove(0, played - 1);
        }
        let begin = out.len();
        for _ in 0..MAX_RANGES {
            let Some(first) = self.unrequested.first() else { break };
            let Some((first, last)) = self.unrequested.range_at_or_after(first) else { break };
            self.unrequested.remove(first, last);
            if self.playout.due(last).is_none_or(|due| due <= now + self.min_rtt.unwrap_or_default()) {
                continue;
            }
            self.missing.insert(first, last);
            self.requests.push_back((first, last, now));
            if self.requests.len() > MAX_REQUESTS {
                self.requests.pop_front();
            }
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&u32::try_from(last - first + 1).unwrap_or(u32::MAX).to_be_bytes());
        }
        if out.len() == begin {
            return false;
        }
        self.next_repeat = now + (self.rtt * 5 / 4).max(MIN_REPEAT);
        true
    }
}
