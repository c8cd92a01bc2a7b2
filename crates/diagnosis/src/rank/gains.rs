//! The gain of removing a limit: the minimum of what all other limits then allow.

use super::{FAIR_SHARE, Limits, losses::LossCause};
use crate::limit::{Kind, Limit};

impl Limits<'_> {
    /// Goodput of one connection without this limit, bit/s; `None` if the next limit is unknown.
    pub(super) fn without(&self, limit: &Limit) -> Option<f64> {
        let seen = self.seen;
        if limit.kind == Kind::PathChanged {
            return seen.change.map(|change| change.before_bps.max(change.after_bps));
        }
        // The loss rate without the bursts of the small buffer is unknown.
        if limit.kind == Kind::SendBuffer && limit.measured && self.lost() == Some(LossCause::QueueOverflow) {
            return None;
        }
        let carried = seen.capacity_bps().filter(|_| !self.is_capacity_a_minimum());
        let expected = seen.expected.as_ref().map(|(expected, _)| *expected);
        // Without the slow hop, the path has its expected rate.
        let is_slow = matches!(limit.kind, Kind::SlowHop | Kind::Policer);
        let upper_bound = if is_slow { expected } else { carried.or(expected) };
        let grows = carried.zip(upper_bound).map_or(1.0, |(carried, upper_bound)| upper_bound / carried);
        let others = self.found.iter().filter(|other| other.kind != limit.kind);
        let allowed = others.filter_map(|other| match other.kind {
            Kind::PathRate | Kind::SlowHop | Kind::Policer => None,
            Kind::CompetingTraffic => {
                Some(match seen.available_bps().filter(|_| !seen.is_other_traffic_elastic()) {
                    // Other traffic does not grow with the path.
                    Some(left) => {
                        left.value
                            + carried
                                .zip(upper_bound)
                                .map_or(0.0, |(carried, upper_bound)| upper_bound - carried)
                    }
                    None if other.measured => self.test_bps * grows,
                    None => FAIR_SHARE * carried.unwrap_or(f64::INFINITY) * grows,
                })
            }
            // A queue in packets scales with its link.
            Kind::ShortQueue if other.measured => Some(self.test_bps * grows),
            // One window per round trip, and the round trip is shorter without other traffic in the queue.
            Kind::ReceiveBuffer | Kind::SendBuffer | Kind::WindowScaling
                if other.measured && limit.kind == Kind::CompetingTraffic =>
            {
                Some(self.test_bps * self.rtt_ratio())
            }
            _ => Some(other.allows_bps),
        });
        allowed.chain(upper_bound).reduce(f64::min)
    }

    /// Round-trip time of the test over that without a queue.
    pub(super) fn rtt_ratio(&self) -> f64 {
        let median = self.seen.flow.as_ref().and_then(|flow| flow.median_rtt_us);
        median.map_or(1.0, |median| (median / self.seen.base_rtt_us().max(1.0)).max(1.0))
    }
}
