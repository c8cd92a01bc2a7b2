//! Whether to believe what streams say.

use super::{Available, ERROR, STREAMS};
use crate::{
    answer::Interval,
    capacity::CapacityAnswer,
    cross::{Estimate, first_loss},
    statistics::quantile,
};

/// An interval is in doubt that is wider than this share of its value.
const WIDE: f64 = 0.45;
/// What a policer's bucket holds at least, in packets, for others to be told by the tokens that are missing.
const POLICED_PACKETS: f64 = 30.0;

impl Available {
    /// A token bucket drops packets and delays none.
    pub(super) fn is_policed(&self) -> bool {
        let lossy = self.busy.iter().filter(|seen| seen.lost() > 0).count();
        self.bucket_bytes().is_some() && self.cross.len() * 2 < self.busy.len() && lossy * 2 > self.busy.len()
    }

    /// The policer always drops after the same number of packets, as it does where there are no others.
    pub(super) fn is_regular(&self) -> bool {
        let first: Vec<f64> = self.busy.iter().map(|seen| first_loss(seen) as f64).collect();
        quantile(&first, 0.9).zip(quantile(&first, 0.1)).is_some_and(|(most, least)| most - least <= 2.0)
    }

    /// Why not to believe the answer; nothing where it can be.
    pub(super) fn doubts(&self, known: &CapacityAnswer, range: Option<Interval>) -> Vec<String> {
        let mut doubts = Vec::new();
        if !known.validity.valid {
            doubts.extend(known.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        match (range, self.search) {
            (None, _) => doubts.push("no stream arrived".into()),
            (Some(_), Some(search)) => {
                doubts.push("streams near the estimate did not do what it says: another link may have the least to give, or other traffic changes too fast".into());
                if search.is_exhausted() {
                    doubts.push("the search did not come to an end".into());
                }
            }
            (Some(range), None) if range.high - range.low > WIDE * range.value => {
                doubts.push("what other traffic takes differs from stream to stream: more streams are needed than were sent".into());
            }
            _ => {}
        }
        if self.is_policed() {
            // Of a bucket of a few packets bursts of others take an unknown part before a stream begins.
            let enough = |bucket: f64| bucket > POLICED_PACKETS * f64::from(self.bytes);
            let good = |found: &Estimate| {
                found.error < 3.0 * ERROR * (self.capacity_bps() - found.value)
                    && self.bucket_bytes().is_some_and(enough)
            };
            if !self.is_regular() && !self.found.as_ref().is_some_and(good) {
                doubts.push("packets were dropped and none were delayed: a policer, where others are seen by the tokens that are missing alone".into());
            }
        } else if self.cross.len() < STREAMS {
            doubts.push(format!(
                "only {} of {} streams can be used: this host was held up while it sent them, or a queue soon overflows",
                self.cross.len(),
                self.busy.len()
            ));
        }
        if self.unusable > 0 {
            doubts.push("half of a fleet's streams showed neither".into());
        }
        if self.cut {
            doubts.push("streams were too short for the time stamps: allow a higher rate".into());
        }
        if self.host {
            doubts.push("a host dropped packets: it is what was measured".into());
        }
        doubts
    }
}
