//! The sending end: packets at exact times, and retransmissions on request.

use std::collections::VecDeque;

use units::{Instant, Time};

use super::{Parameters, RANGE_BYTES, be64};

/// Maximum number of waiting requests; the receiver repeats dropped ones.
const MAX_WAITING: usize = 1 << 16;
/// Packets that were due before this are skipped: a burst of them would overflow queues.
const MAX_CATCH_UP: Time = Time::from_millis(10);

/// Counts of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderStatistics {
    /// Packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Of these, retransmissions.
    pub retransmitted_packets: u64,
    /// Packets that were skipped because this end was stalled.
    pub skipped_packets: u64,
    /// Requests received.
    pub requests: u64,
    /// Packets that were requested.
    pub requested_packets: u64,
}

/// The sending end of a stream.
#[derive(Debug)]
pub struct Sender {
    parameters: Parameters,
    /// When packet 0 is due; `None` before the receiver's start.
    start: Option<Instant>,
    /// The next packet.
    next: u64,
    /// Numbers to be retransmitted.
    repairs: VecDeque<u64>,
    next_repair: Instant,
    statistics: SenderStatistics,
}

impl Sender {
    /// A sender that waits for its receiver.
    pub fn new(parameters: Parameters) -> Self {
        let statistics = SenderStatistics::default();
        Sender {
            parameters,
            start: None,
            next: 0,
            repairs: VecDeque::new(),
            next_repair: Instant::ZERO,
            statistics,
        }
    }

    /// Begins without a receiver's start: for receivers that send none, such as VLBI recorders.
    pub fn begin(&mut self, now: Instant) {
        self.start.get_or_insert(now);
    }

    /// Whether the receiver has started the stream.
    pub fn has_started(&self) -> bool {
        self.start.is_some()
    }

    /// When packet `number` is due; `None` before the start.
    fn due(&self, number: u64) -> Option<Instant> {
        Some(self.start? + self.parameters.time_of(number))
    }

    /// Counts so far.
    pub fn statistics(&self) -> SenderStatistics {
        self.statistics
    }

    /// Whether all packets are sent, and it is too late to request any of them again.
    pub fn is_over(&self, now: Instant) -> bool {
        let end = self.parameters.packets.filter(|packets| self.next >= *packets);
        let end = end.and_then(|packets| self.due(packets));
        end.is_some_and(|end| now >= end + self.parameters.deadline)
    }

    fn next_due(&self) -> Option<Instant> {
        let is_end = self.parameters.packets.is_some_and(|packets| self.next >= packets);
        if is_end { None } else { self.due(self.next) }
    }

    /// When [`Sender::poll_transmit`] is due.
    pub fn next_timeout(&self) -> Instant {
        let repair = if self.repairs.is_empty() { Instant::NEVER } else { self.next_repair };
        self.next_due().unwrap_or(Instant::NEVER).min(repair)
    }

    /// The number of the next packet to send now. Retransmissions are sent in addition, at most at the
    /// stream's rate.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<u64> {
        while let Some(due) = self.next_due().filter(|due| *due <= now) {
            let number = self.next;
            self.next += 1;
            if due + MAX_CATCH_UP < now {
                self.statistics.skipped_packets += 1;
                continue;
            }
            self.statistics.sent_packets += 1;
            return Some(number);
        }
        while now >= self.next_repair {
            let number = self.repairs.pop_front()?;
            if self.due(number).is_none_or(|due| due + self.parameters.deadline <= now) {
                continue;
            }
            self.next_repair = now + self.parameters.time_of(1);
            self.statistics.sent_packets += 1;
            self.statistics.retransmitted_packets += 1;
            return Some(number);
        }
        None
    }

    /// Processes a datagram of the receiver: its start, or a request.
    pub fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) {
        self.begin(now);
        if bytes.len() < RANGE_BYTES || !self.parameters.repairs {
            return;
        }
        self.statistics.requests += 1;
        for range in bytes.chunks_exact(RANGE_BYTES) {
            let (Some(first), Ok(count)) = (be64(range), <[u8; 4]>::try_from(&range[8..])) else { return };
            let end = first.saturating_add(u32::from_be_bytes(count).into()).min(self.next);
            for number in first..end {
                if self.repairs.len() >= MAX_WAITING {
                    return;
                }
                self.statistics.requested_packets += 1;
                self.repairs.push_back(number);
            }
        }
    }
}
