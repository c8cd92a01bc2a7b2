//! Warnings about the reliability of an estimate by streams.

use super::{AvailableBandwidth, STREAMS, TARGET_ERROR};
use crate::{
    capacity::CapacityResult,
    cross_traffic::{CrossTrafficEstimate, first_loss},
    result::Interval,
    statistics::quantile,
};

/// Maximum width of a reliable interval, as a fraction of its value.
const MAX_RELATIVE_WIDTH: f64 = 0.45;
/// Minimum size of a policer's bucket for which missing tokens determine the cross traffic, packets.
const MIN_POLICER_BUCKET_PACKETS: f64 = 30.0;

impl AvailableBandwidth {
    /// Whether the link is policed: a token bucket drops packets and does not delay them.
    pub(super) fn is_policed(&self) -> bool {
        let lossy = self.busy_streams.iter().filter(|observation| observation.lost() > 0).count();
        self.bucket_bytes().is_some()
            && self.cross_bps.len() * 2 < self.busy_streams.len()
            && lossy * 2 > self.busy_streams.len()
    }

    /// Whether the policer always drops after the same number of packets, as it does without cross traffic.
    pub(super) fn is_regular(&self) -> bool {
        let first: Vec<f64> =
            self.busy_streams.iter().map(|observation| first_loss(observation) as f64).collect();
        quantile(&first, 0.9).zip(quantile(&first, 0.1)).is_some_and(|(max, min)| max - min <= 2.0)
    }

    /// The reasons why the result may be unreliable; empty if it is reliable.
    pub(super) fn warnings(&self, capacity: &CapacityResult, range: Option<Interval>) -> Vec<String> {
        let mut warnings = Vec::new();
        if !capacity.validity.valid {
            warnings.extend(capacity.validity.reasons.iter().map(|reason| format!("capacity: {reason}")));
        }
        match (range, self.search) {
            (None, _) => warnings.push("no stream arrived".into()),
            (Some(_), Some(search)) => {
                warnings.push(
                    "streams near the estimate did not confirm it: another link may have less \
                    available bandwidth, or cross traffic changes too fast"
                        .into(),
                );
                if search.is_exhausted() {
                    warnings.push("the search did not converge".into());
                }
            }
            (Some(range), None) if range.high - range.low > MAX_RELATIVE_WIDTH * range.value => {
                warnings
                    .push("cross traffic differs too much between streams: more streams are needed".into());
            }
            _ => {}
        }
        if self.is_policed() {
            // Bursts of cross traffic take an unknown part of a bucket of few packets before a stream begins.
            let is_large = |bucket: f64| bucket > MIN_POLICER_BUCKET_PACKETS * f64::from(self.bytes);
            let is_good = |estimate: &CrossTrafficEstimate| {
                estimate.error < 3.0 * TARGET_ERROR * (self.capacity_bps() - estimate.value)
                    && self.bucket_bytes().is_some_and(is_large)
            };
            if !self.is_regular() && !self.cross_estimate.as_ref().is_some_and(is_good) {
                warnings.push(
                    "packets were dropped and not delayed: behind a policer only missing tokens \
                    show cross traffic"
                        .into(),
                );
            }
        } else if self.cross_bps.len() < STREAMS {
            warnings.push(format!(
                "only {} of {} streams are usable: this host was delayed while sending, or a queue overflows \
                early",
                self.cross_bps.len(),
                self.busy_streams.len()
            ));
        }
        if self.inconclusive_fleets > 0 {
            warnings.push("in some fleets half of the streams were inconclusive".into());
        }
        if self.are_streams_too_short {
            warnings.push(
                "streams were too short for the resolution of the timestamps: allow a higher rate".into(),
            );
        }
        if self.has_host_drops {
            warnings.push("a host dropped packets, so the host was measured and not the path".into());
        }
        warnings
    }
}
