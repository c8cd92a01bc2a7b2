//! Limits of the path: its slowest link, and other traffic.

use schema::Cause;

use super::{Allows, FAIR_SHARE, Limits, losses::LossCause, rate};
use crate::{change::Change, limit::Kind, observed::FairQueueing};

/// Minimum share of the available bandwidth that a test limited by other traffic reaches.
const MIN_SHARE_OF_AVAILABLE: f64 = 0.8;
/// Minimum ratio of the rates before and after a change that counts as a change of the path, if other traffic
/// shares the path.
const MIN_CHANGE_ON_SHARED_PATH: f64 = 2.0;
/// Minimum ratio of the round-trip time to that without load if other traffic fills the queue.
const MIN_QUEUED_RTT_RATIO: f64 = 1.3;

impl Limits<'_> {
    /// Whether other traffic limited the test.
    pub(super) fn is_limited_by_others(&self) -> bool {
        let seen = self.seen;
        if !seen.is_shared() {
            return false;
        }
        let used_available =
            seen.available_bps().is_some_and(|left| self.test_bps >= MIN_SHARE_OF_AVAILABLE * left.value);
        match seen.verdict() {
            Some(Cause::PathRate) => true,
            Some(Cause::Loss) if self.lost() == Some(LossCause::QueueOverflow) => {
                used_available || seen.others_had_bps().is_some()
            }
            // The available bandwidth is so small that random loss does not matter.
            Some(Cause::Loss) => used_available && !seen.is_other_traffic_elastic(),
            // Packets of other flows in the queue delay the acknowledgements of a window.
            Some(Cause::ReceiveWindow | Cause::SendBuffer) => self.rtt_ratio() >= MIN_QUEUED_RTT_RATIO,
            _ => false,
        }
    }

    /// Whether the capacity is only a lower bound: higher rates were not tried.
    pub(super) fn is_capacity_a_minimum(&self) -> bool {
        self.seen.capacity.as_ref().is_none_or(|capacity| capacity.at_least)
    }

    /// Adds a change of the path's rate during the test, if there was one.
    fn changed(&mut self) {
        let Some(Change { at, before_bps, after_bps }) = self.seen.change else { return };
        // The rates of connections that share a path vary.
        if self.seen.is_shared()
            && (before_bps / after_bps).max(after_bps / before_bps) < MIN_CHANGE_ON_SHARED_PATH
        {
            return;
        }
        let how = if after_bps < before_bps { "fell" } else { "rose" };
        let evidence = vec![format!(
            "at {:.1} s of the test the path's rate {how} from {} to {} and stayed there",
            at.as_secs_f64(),
            rate(before_bps),
            rate(after_bps)
        )];
        let change = "find out what happened then: a changed route, a radio link, a port that went up or down, other traffic that started or \
                      ended; test again";
        self.add(Kind::PathChanged, None, Allows::TestGoodput, evidence, Some(change.into()));
    }

    /// Adds the limits of the path: a change of its rate, other traffic, and its slowest link or a policer.
    pub(super) fn path(&mut self) {
        self.changed();
        self.competing();
        let seen = self.seen;
        let reached_full_rate = seen.reached_full_rate();
        let Some(carried) = seen.capacity_bps().filter(|_| !self.is_capacity_a_minimum()) else {
            if reached_full_rate {
                let evidence = match &seen.expected {
                    // The test reached more than was expected; its evidence explains why it reached no more.
                    Some((expected, who))
                        if seen.verdict() != Some(Cause::PathRate) && self.test_bps >= *expected =>
                    {
                        vec![format!(
                            "expected from {who}: {}; the test reached {}",
                            rate(*expected),
                            rate(self.test_bps)
                        )]
                    }
                    _ => seen.flow.iter().flat_map(|flow| flow.evidence.clone()).collect(),
                };
                self.add(Kind::PathRate, None, Allows::TestGoodput, evidence, None);
            }
            return;
        };
        let is_slow = seen.is_slow();
        // On a slow hop, other traffic and short queues matter more than on a faster one.
        let bound = reached_full_rate
            || (is_slow && (self.is_limited_by_others() || self.lost() == Some(LossCause::QueueOverflow)));
        let allows = if bound { Allows::TestGoodput } else { Allows::Computed(carried) };
        let mut evidence = Vec::new();
        if let Some(capacity) = &seen.capacity {
            evidence.push(format!("{}: {} of TCP payload", capacity.how, rate(capacity.goodput_bps)));
        }
        if seen.is_shared() {
            evidence.push(format!("probes measure a bottleneck of {} of TCP payload", rate(carried)));
        }
        if reached_full_rate {
            let share = self.test_bps / carried * 100.0;
            evidence.push(format!(
                "the test reached {}, {:.0} % of it",
                rate(self.test_bps),
                share.min(100.0)
            ));
        }
        if seen.policed_bps().is_some() {
            let faster = match seen.capacity.as_ref().and_then(|capacity| capacity.later_bps) {
                Some(later) => format!(
                    "a longer burst at the same rate arrived at {}: the policer's bucket let more pass at first",
                    rate(later)
                ),
                None => "short trains of packets pass faster: they fit into the policer's bucket".into(),
            };
            evidence.push(faster);
            let change = "find the policer and its rate; until then pace below that rate (test --fq-rate, or fq's maxrate), because drops \
                          cost more than pacing";
            let allows =
                if bound || seen.verdict() == Some(Cause::Loss) { Allows::TestGoodput } else { allows };
            self.add(Kind::Policer, None, allows, evidence, Some(change.into()));
            return;
        }
        match &seen.expected {
            Some((expected, who)) if is_slow => {
                evidence.push(format!("expected from {who}: {}", rate(*expected)));
                let change = "find the hop that is slower than expected: a port that negotiated a lower speed, a shaper, a \
                              policer";
                self.add(Kind::SlowHop, None, allows, evidence, Some(change.into()));
            }
            _ => self.add(Kind::PathRate, None, allows, evidence, None),
        }
    }

    /// Adds other traffic, if there is any.
    fn competing(&mut self) {
        let seen = self.seen;
        let (true, Some(carried)) = (seen.is_shared(), seen.capacity_bps()) else { return };
        let is_limiting = self.is_limited_by_others() || seen.fair_queueing().is_some();
        let mut evidence = Vec::new();
        if let Some(FairQueueing { others, one_bps, connections, total_bps }) = seen.fair_queueing() {
            evidence.push(format!(
                "{connections} connections reached {} in total, one alone {}: the slowest link uses fair queueing and is shared with about \
                 {others:.0} other connections",
                rate(total_bps),
                rate(one_bps)
            ));
        } else if let Some(left) = seen.available_bps() {
            evidence.push(format!(
                "of a capacity of {}, {} is available ({} to {})",
                rate(carried),
                rate(left.value),
                rate(left.low),
                rate(left.high)
            ));
        }
        if let Some(others) = seen.others_had_bps() {
            let share = seen.queued.unwrap_or(0.0).max(seen.behind_others.unwrap_or(0.0));
            evidence.push(format!(
                "the path had a standing queue {:.0} % of the time, longer than the test alone causes, so the slowest link was busy; its \
                 capacity is {}, the test reached {}: other traffic had up to {}",
                share * 100.0,
                rate(carried),
                rate(self.test_bps),
                rate(others)
            ));
        }
        let is_elastic = seen.is_other_traffic_elastic();
        if is_elastic {
            evidence.push("the other traffic behaves like TCP connections, which share the capacity".into());
        }
        let allowed_bps =
            seen.available_bps().filter(|_| !is_elastic).map_or(FAIR_SHARE * carried, |left| left.value);
        let allows = if is_limiting { Allows::TestGoodput } else { Allows::Computed(allowed_bps) };
        let change = "find out who else uses the path, and when; transfer at another time, or with a reserved rate or a \
                      priority";
        self.add(Kind::CompetingTraffic, None, allows, evidence, Some(change.into()));
    }
}
