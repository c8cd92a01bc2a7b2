//! A receiver's estimates from the arrivals of packets: the receive rate and the path's capacity, as
//! `CPktTimeWindow` of libudt 4.11 (draft-gg-udt-03 section 3.3).

use units::Instant;

/// Intervals of the receive rate's window (draft-gg-udt-03 section 3.3: 16).
const RATE_WINDOW: usize = 16;
/// Packet pairs of the capacity's window (libudt; the draft has 16).
const PAIR_WINDOW: usize = 64;
/// Two of this number of packets are a pair: those whose sequence numbers, divided by it, have the remainders
/// 0 and 1.
pub(crate) const PAIR_PERIOD: u32 = 16;

/// The windows of intervals, ns.
#[derive(Debug)]
pub(crate) struct Arrivals {
    intervals: [u64; RATE_WINDOW],
    next_interval: usize,
    pairs: [u64; PAIR_WINDOW],
    next_pair: usize,
    last: Instant,
    /// When the first packet of a pair arrived, and its number.
    pair: Option<(Instant, u32)>,
}

impl Arrivals {
    /// The initial values are libudt's: one packet/s, and 1000 packets/s.
    pub(crate) fn new(now: Instant) -> Self {
        Arrivals {
            intervals: [1_000_000_000; RATE_WINDOW],
            next_interval: 0,
            pairs: [1_000_000; PAIR_WINDOW],
            next_pair: 0,
            last: now,
            pair: None,
        }
    }

    /// Records the arrival of a packet.
    pub(crate) fn record(&mut self, now: Instant, sequence: u32) {
        self.intervals[self.next_interval] = now.saturating_since(self.last).as_nanos();
        self.next_interval = (self.next_interval + 1) % RATE_WINDOW;
        self.last = now;
        match sequence % PAIR_PERIOD {
            0 => self.pair = Some((now, sequence)),
            1 => {
                let first = self.pair.take().filter(|(_, number)| *number == sequence - 1);
                if let Some((first, _)) = first {
                    self.pairs[self.next_pair] = now.saturating_since(first).as_nanos();
                    self.next_pair = (self.next_pair + 1) % PAIR_WINDOW;
                }
            }
            _ => {}
        }
    }

    /// Packets/s; 0 if fewer than half of the intervals are near the median.
    pub(crate) fn receive_rate(&self) -> u32 {
        let (sum, count) = near_median(&self.intervals);
        if count > RATE_WINDOW / 2 { per_second(sum, count) } else { 0 }
    }

    /// Packets/s.
    pub(crate) fn capacity(&self) -> u32 {
        let (sum, count) = near_median(&self.pairs);
        per_second(sum, count)
    }
}

/// Sum and number of the intervals between an eighth of the median and eight times the median.
fn near_median(intervals: &[u64]) -> (u64, usize) {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let near =
        sorted.iter().filter(|interval| **interval > median / 8 && **interval < median.saturating_mul(8));
    near.fold((0, 0), |(sum, count), interval| (sum + interval, count + 1))
}

fn per_second(sum_ns: u64, count: usize) -> u32 {
    (count as u64 * 1_000_000_000).div_ceil(sum_ns.max(1)).min(u64::from(i32::MAX as u32)) as u32
}

#[cfg(test)]
mod tests {
    use units::Time;

    use super::*;

    #[test]
    fn rate_and_capacity_of_a_paced_stream_with_pairs() {
        let mut arrivals = Arrivals::new(Instant::ZERO);
        assert_eq!(arrivals.capacity(), 1000);
        // 10,000 packets/s on average; pairs are 12 us apart.
        let mut now = Instant::ZERO;
        for sequence in 0..PAIR_PERIOD * 100 {
            now = match sequence % PAIR_PERIOD {
                1 => now + Time::from_micros(12),
                2 => now + Time::from_micros(188),
                _ => now + Time::from_micros(100),
            };
            arrivals.record(now, sequence);
        }
        assert_eq!(arrivals.capacity(), 83_334);
        assert!((9_000..=11_000).contains(&arrivals.receive_rate()), "{}", arrivals.receive_rate());
    }

    #[test]
    fn no_rate_without_regular_arrivals() {
        let mut arrivals = Arrivals::new(Instant::ZERO);
        for (sequence, at) in [1u64, 1_000, 1_010, 500_000, 500_001, 90_000_000].into_iter().enumerate() {
            arrivals.record(Instant::from_micros(at), sequence as u32 + 2);
        }
        assert!(arrivals.receive_rate() <= 2, "{}", arrivals.receive_rate());
    }
}
