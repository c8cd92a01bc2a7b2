//! The limit on the load: in any second, the bytes sent stay within the maximum rate.

use std::collections::VecDeque;

use serde::Serialize;
use units::{BitRate, Instant, Time};

use crate::Train;

/// Nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// Delays trains so that the load stays below the limit, and records the load.
#[derive(Debug, Clone)]
pub struct Budget {
    max_bytes_per_second: u64,
    /// End time of the trains of the last second, and the maximum bytes of each within a second.
    recent: VecDeque<(u64, u64)>,
    load: ProbeLoad,
}

/// The load of a measurement on the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ProbeLoad {
    /// Number of packets.
    pub packets: u64,
    /// Size of all packets, bytes, IP headers included.
    pub bytes: u64,
    /// Duration of the measurement, seconds.
    pub duration_s: f64,
    /// Maximum load within any second, bit/s.
    pub highest_second_bps: f64,
}

/// A train is larger than the limit on the bytes sent within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrainTooLarge {
    /// The maximum rate that would allow it.
    pub required_rate: BitRate,
}

impl Budget {
    /// Limits the load to `max_rate`, averaged over any second.
    pub fn new(max_rate: BitRate) -> Self {
        Budget { max_bytes_per_second: max_rate.0 / 8, recent: VecDeque::new(), load: ProbeLoad::default() }
    }

    /// The earliest instant, not before `now`, at which `train` may begin.
    ///
    /// # Errors
    /// If the train alone exceeds the limit.
    pub fn earliest(&mut self, now: Instant, train: &Train) -> Result<Instant, TrainTooLarge> {
        let own = train.max_bytes_per_second();
        if own > self.max_bytes_per_second {
            return Err(TrainTooLarge { required_rate: BitRate(own * 8) });
        }
        // Trains that ended a second before this train's start share no second with it.
        let mut begin = now.as_nanos();
        loop {
            while self.recent.front().is_some_and(|(end, _)| end + SECOND_NS <= begin) {
                self.recent.pop_front();
            }
            let others: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
            match self.recent.front() {
                Some((end, _)) if others + own > self.max_bytes_per_second => begin = end + SECOND_NS,
                _ => return Ok(Instant::from_nanos(begin)),
            }
        }
    }

    /// Records that `train` was sent from `begin` to `end`.
    pub fn record(&mut self, begin: Instant, end: Instant, train: &Train) {
        self.recent.push_back((end.as_nanos(), train.max_bytes_per_second()));
        let within: u64 = self
            .recent
            .iter()
            .filter(|(at, _)| at + SECOND_NS > begin.as_nanos())
            .map(|(_, bytes)| bytes)
            .sum();
        let load = &mut self.load;
        load.packets += train.offsets_ns.len() as u64;
        load.bytes += train.total_bytes();
        load.highest_second_bps = load.highest_second_bps.max(within as f64 * 8.0);
    }

    /// The load so far of a measurement that took `duration`.
    pub fn load(&self, duration: Time) -> ProbeLoad {
        ProbeLoad { duration_s: duration.as_secs_f64(), ..self.load }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_train_that_is_too_large_reports_the_required_rate() {
        let mut budget = Budget::new(BitRate(8_000));
        let required_rate = budget.earliest(Instant::ZERO, &Train::burst(1001, 1)).unwrap_err().required_rate;
        assert_eq!(required_rate, BitRate(8_008));
    }

    proptest! {
        /// No second contains more bytes than the limit allows, for arbitrary trains.
        #[test]
        fn no_second_exceeds_the_limit(trains in prop::collection::vec((1usize..40, 1u64..100_000_000, 0u64..500_000_000), 1..60)) {
            let mut budget = Budget::new(BitRate(8_000 * 40));
            let mut now = Instant::ZERO;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (count, gap, pause) in trains {
                let train = Train { bytes: 1000, offsets_ns: (0..count as u64).map(|i| i * gap).collect() };
                let begin = budget.earliest(now, &train).unwrap();
                sent.extend(train.offsets_ns.iter().map(|at| (begin.as_nanos() + at, 1000)));
                let end = begin.later_by(Time::from_nanos(train.duration_ns()));
                budget.record(begin, end, &train);
                now = end.later_by(Time::from_nanos(pause));
            }
            for (from, _) in &sent {
                let within: u64 =
                    sent.iter().filter(|(at, _)| (*from..from + SECOND_NS).contains(at)).map(|(_, b)| b).sum();
                prop_assert!(within <= 40_000, "{} bytes", within);
                prop_assert!(within as f64 * 8.0 <= budget.load(now.since_origin()).highest_second_bps);
            }
        }
    }
}
