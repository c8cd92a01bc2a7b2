//! The play-out buffer: which packets arrived in time, and how long the gaps are.

use std::collections::VecDeque;

use units::{Instant, Time};

use super::Parameters;

/// Gaps are counted by length: of 1 packet, of up to 10, of up to 100, and longer.
pub const GAP_LENGTHS: [u64; 3] = [1, 10, 100];

/// Counts of a play-out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlayoutCounts {
    /// Packets whose play-out time has passed.
    pub due: u64,
    /// Of these, packets that had arrived.
    pub in_time: u64,
    /// Packets that arrived too late.
    pub late: u64,
    /// Packets that arrived again.
    pub duplicates: u64,
    /// Gaps by length, see [`GAP_LENGTHS`]. The current gap counts when it ends.
    pub gaps: [u64; 4],
    /// Length of the longest gap, packets.
    pub longest_gap: u64,
    /// Packets in the buffer.
    pub buffered: u64,
}

/// The packets that wait for their play-out.
#[derive(Debug)]
pub struct Playout {
    parameters: Parameters,
    /// When packet 0 is played.
    first_due: Option<Instant>,
    /// Whether the packets from number `counts.due` on have arrived.
    arrived: VecDeque<bool>,
    gap: u64,
    counts: PlayoutCounts,
}

impl Playout {
    /// An empty buffer.
    pub fn new(parameters: Parameters) -> Self {
        Playout {
            parameters,
            first_due: None,
            arrived: VecDeque::new(),
            gap: 0,
            counts: PlayoutCounts::default(),
        }
    }

    /// Counts as of the last call.
    pub fn counts(&self) -> PlayoutCounts {
        self.counts
    }

    /// When packet `number` is played; `None` before any packet has arrived.
    pub fn due(&self, number: u64) -> Option<Instant> {
        Some(self.first_due? + self.parameters.time_of(number))
    }

    /// Whether the last packet's play-out time has passed.
    pub fn is_over(&self) -> bool {
        self.parameters.packets.is_some_and(|packets| self.counts.due >= packets)
    }

    /// Records the arrival of a packet. Returns false if it is a duplicate, late or not of this stream.
    pub fn record(&mut self, now: Instant, number: u64) -> bool {
        let is_possible = self.parameters.packets.is_none_or(|packets| number < packets);
        let first_due = (now + self.parameters.deadline).saturating_sub(self.parameters.time_of(number));
        self.first_due.get_or_insert(first_due);
        self.advance(now);
        let Some(index) = number.checked_sub(self.counts.due) else {
            self.counts.late += u64::from(is_possible);
            return false;
        };
        // No packet is sent before its time, so a packet further ahead does not belong to this stream.
        if !is_possible || self.due(number).is_none_or(|due| due > now + self.parameters.deadline + MAX_AHEAD)
        {
            return false;
        }
        while self.arrived.len() as u64 <= index {
            self.arrived.push_back(false);
        }
        if std::mem::replace(&mut self.arrived[index as usize], true) {
            self.counts.duplicates += 1;
            return false;
        }
        self.counts.buffered += 1;
        true
    }

    /// Plays the packets that are due.
    pub fn advance(&mut self, now: Instant) {
        while !self.is_over() && self.due(self.counts.due).is_some_and(|due| due <= now) {
            self.counts.due += 1;
            if self.arrived.pop_front().unwrap_or(false) {
                self.counts.in_time += 1;
                self.counts.buffered -= 1;
                self.end_gap();
            } else {
                self.gap += 1;
                self.counts.longest_gap = self.counts.longest_gap.max(self.gap);
            }
        }
        if self.is_over() {
            self.end_gap();
        }
    }

    fn end_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if gap > 0 {
            let class = GAP_LENGTHS.iter().position(|length| gap <= *length).unwrap_or(GAP_LENGTHS.len());
            self.counts.gaps[class] += 1;
        }
    }
}

/// Maximum jitter: how much shorter than the first packet's delay that of another packet may be.
const MAX_AHEAD: Time = Time::from_secs(2);

#[cfg(test)]
mod tests {
    use units::{BitRate, Time};

    use super::*;

    /// A packet of 1000 B every millisecond, played 50 ms after the first arrival.
    fn playout(packets: Option<u64>) -> Playout {
        Playout::new(Parameters {
            rate: BitRate(8_000_000),
            payload_bytes: 1000,
            deadline: Time::from_millis(50),
            repairs: false,
            packets,
            vdif: None,
        })
    }

    #[test]
    fn packets_within_the_deadline_are_in_time_and_gaps_count_by_length() {
        let mut playout = playout(Some(40));
        // 3 and 10 to 14 are lost, 20 to 39 follow; 5 is 49 ms late and 6 is 51 ms late.
        let mut arrivals: Vec<(u64, u64)> =
            (0..40).filter(|n| ![3, 5, 6, 10, 11, 12, 13, 14].contains(n)).map(|n| (n, n)).collect();
        arrivals.extend([(5 + 49, 5), (6 + 51, 6)]);
        arrivals.sort_unstable();
        for (ms, number) in arrivals {
            playout.record(Instant::from_millis(ms), number);
        }
        playout.advance(Instant::from_millis(200));
        let counts = playout.counts();
        assert_eq!((counts.due, counts.in_time, counts.late, counts.buffered), (40, 33, 1, 0));
        // 3 alone, 6 alone, and 10 to 14.
        assert_eq!((counts.gaps, counts.longest_gap), ([2, 1, 0, 0], 5));
        assert!(playout.is_over());
    }

    #[test]
    fn duplicates_and_foreign_numbers_do_not_count() {
        let mut playout = playout(None);
        assert!(playout.record(Instant::ZERO, 7));
        assert!(!playout.record(Instant::ZERO, 7));
        assert!(!playout.record(Instant::ZERO, u64::MAX));
        assert!(!playout.record(Instant::ZERO, 1 << 40));
        assert_eq!((playout.counts().duplicates, playout.counts().buffered), (1, 1));
        // The packets before the first arrival are missing.
        playout.advance(Instant::from_millis(50));
        assert_eq!((playout.counts().due, playout.counts().in_time), (8, 1));
        assert_eq!(playout.counts().gaps, [0, 1, 0, 0]);
    }
}
