//! What would be gained without a limit: the least of what all others allow then.

use super::{FAIR, Limits, losses::Lost};
use crate::limit::{Kind, Limit};

impl Limits<'_> {
    /// What one connection gets without this limit, bit/s; `None` where nothing is known of what is beyond.
    pub(super) fn without(&self, limit: &Limit) -> Option<f64> {
        let seen = self.seen;
        if limit.kind == Kind::PathChanged {
            return seen.change.map(|change| change.before_bps.max(change.after_bps));
        }
        // How much less is lost when it no longer comes in bursts is not known.
        if limit.kind == Kind::SendBuffer && limit.measured && self.lost() == Some(Lost::ForWantOfRoom) {
            return None;
        }
        let carried = seen.carried_bps().filter(|_| !self.is_least());
        let expected = seen.expected.as_ref().map(|(expected, _)| *expected);
        // Without a hop that is too slow, the path has what is expected of it.
        let is_slow = matches!(limit.kind, Kind::SlowHop | Kind::Policer);
        let most = if is_slow { expected } else { carried.or(expected) };
        let grows = carried.zip(most).map_or(1.0, |(carried, most)| most / carried);
        let others = self.found.iter().filter(|other| other.kind != limit.kind);
        let allowed = others.filter_map(|other| match other.kind {
            Kind::PathRate | Kind::SlowHop | Kind::Policer => None,
            Kind::CompetingTraffic => Some(match seen.left_bps().filter(|_| !seen.leaves_nothing()) {
                // What others take does not grow with the path.
                Some(left) => left.value + carried.zip(most).map_or(0.0, |(carried, most)| most - carried),
                None if other.measured => self.got * grows,
                None => FAIR * carried.unwrap_or(f64::INFINITY) * grows,
            }),
            // A queue is so many packets of the link behind it.
            Kind::ShortQueue if other.measured => Some(self.got * grows),
            // Windows are sent once a round trip, and that is shorter without others' packets in the queue.
            Kind::ReceiveBuffer | Kind::SendBuffer | Kind::WindowScaling
                if other.measured && limit.kind == Kind::CompetingTraffic =>
            {
                Some(self.got * self.round_trips())
            }
            _ => Some(other.allows_bps),
        });
        allowed.chain(most).reduce(f64::min)
    }

    /// The round-trip time of the test over that without a queue.
    pub(super) fn round_trips(&self) -> f64 {
        let median = self.seen.flow.as_ref().and_then(|flow| flow.median_rtt_us);
        median.map_or(1.0, |median| (median / self.seen.base_rtt_us().max(1.0)).max(1.0))
    }
}
