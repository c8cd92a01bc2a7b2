//! The limit on the load: what is sent within any second is no more than the highest rate allows.

use std::collections::VecDeque;

use serde::Serialize;
use units::{BitRate, Time};

use crate::Train;

const SECOND: u64 = 1_000_000_000;

/// Keeps account of what was sent.
#[derive(Debug, Clone)]
pub struct Budget {
    most_bytes: u64,
    /// When the trains of the last second ended, and what of each lay within a second.
    recent: VecDeque<(u64, u64)>,
    load: Load,
}

/// What a measurement put on the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
    /// From the first packet to the last, seconds.
    pub duration_s: f64,
    /// The most that was sent within one second, as a rate: bit/s.
    pub highest_second_bps: f64,
}

/// The train is larger than what may be sent in a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// What would have to be allowed.
    pub needs: BitRate,
}

impl Budget {
    /// At most `max_rate`, averaged over any second.
    pub fn new(max_rate: BitRate) -> Self {
        Budget { most_bytes: max_rate.0 / 8, recent: VecDeque::new(), load: Load::default() }
    }

    /// When `train` may begin, not before `now`.
    ///
    /// # Errors
    /// Where it never may.
    pub fn earliest(&mut self, now: Time, train: &Train) -> Result<Time, TooLarge> {
        let own = train.most_in_a_second();
        if own > self.most_bytes {
            return Err(TooLarge { needs: BitRate(own * 8) });
        }
        // What ended a second before the begin lies in no second together with the train.
        let mut begin = now.0;
        loop {
            while self.recent.front().is_some_and(|(end, _)| end + SECOND <= begin) {
                self.recent.pop_front();
            }
            let others: u64 = self.recent.iter().map(|(_, bytes)| bytes).sum();
            match self.recent.front() {
                Some((end, _)) if others + own > self.most_bytes => begin = end + SECOND,
                _ => return Ok(Time(begin)),
            }
        }
    }

    /// `train` was sent, beginning at `begin` and ending at `end`.
    pub fn spend(&mut self, begin: Time, end: Time, train: &Train) {
        self.recent.push_back((end.0, train.most_in_a_second()));
        let within: u64 =
            self.recent.iter().filter(|(at, _)| at + SECOND > begin.0).map(|(_, bytes)| bytes).sum();
        let load = &mut self.load;
        load.packets += train.at_ns.len() as u64;
        load.bytes += train.total_bytes();
        load.highest_second_bps = load.highest_second_bps.max(within as f64 * 8.0);
    }

    /// The load so far, of a measurement that took `duration`.
    pub fn load(&self, duration: Time) -> Load {
        Load { duration_s: duration.as_secs_f64(), ..self.load }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_too_large_says_what_it_needs() {
        let mut budget = Budget::new(BitRate(8_000));
        let needs = budget.earliest(Time(0), &Train::burst(1001, 1)).unwrap_err().needs;
        assert_eq!(needs, BitRate(8_008));
    }

    proptest! {
        /// Whatever is asked for, no second holds more than is allowed.
        #[test]
        fn no_second_exceeds_it(trains in prop::collection::vec((1usize..40, 1u64..100_000_000, 0u64..500_000_000), 1..60)) {
            let mut budget = Budget::new(BitRate(8_000 * 40));
            let mut now = Time(0);
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (count, gap, pause) in trains {
                let train = Train { bytes: 1000, at_ns: (0..count as u64).map(|i| i * gap).collect() };
                let begin = budget.earliest(now, &train).unwrap();
                sent.extend(train.at_ns.iter().map(|at| (begin.0 + at, 1000)));
                let end = Time(begin.0 + train.duration_ns());
                budget.spend(begin, end, &train);
                now = Time(end.0 + pause);
            }
            for (from, _) in &sent {
                let within: u64 =
                    sent.iter().filter(|(at, _)| (*from..from + SECOND).contains(at)).map(|(_, b)| b).sum();
                prop_assert!(within <= 40_000, "{} bytes", within);
                prop_assert!(within as f64 * 8.0 <= budget.load(now).highest_second_bps);
            }
        }
    }
}
