//! Limits of the path itself: its slowest link, and who else uses it.

use schema::Cause;

use super::{Allows, FAIR, Limits, losses::Lost, rate};
use crate::{change::Change, limit::Kind, observed::InTurn};

/// A test that got so much of what other traffic leaves was held down by that traffic.
const OF_WHAT_IS_LEFT: f64 = 0.8;
/// Minimum ratio of a change of rate that is the path's although others share the path.
const SHARED_CHANGE: f64 = 2.0;
/// A round trip that is so many times as long as without load.
const LONGER: f64 = 1.3;

impl Limits<'_> {
    /// Whether other traffic is what held the test down.
    pub(super) fn is_held_by_others(&self) -> bool {
        let seen = self.seen;
        if !seen.is_shared() {
            return false;
        }
        let had_its_share = seen.left_bps().is_some_and(|left| self.got >= OF_WHAT_IS_LEFT * left.value);
        match seen.verdict() {
            Some(Cause::PathRate) => true,
            Some(Cause::Loss) if self.lost() == Some(Lost::ForWantOfRoom) => {
                had_its_share || seen.others_had_bps().is_some()
            }
            // So little is left that chance does not matter.
            Some(Cause::Loss) => had_its_share && !seen.leaves_nothing(),
            // Windows come back later for the others' packets in the queue.
            Some(Cause::ReceiveWindow | Cause::SendBuffer) => self.round_trips() >= LONGER,
            _ => false,
        }
    }

    /// Whether the path may carry more than what was tried.
    pub(super) fn is_least(&self) -> bool {
        self.seen.capacity.as_ref().is_none_or(|capacity| capacity.at_least)
    }

    /// A path that gave more before, or gives more since.
    fn changed(&mut self) {
        let Some(Change { at, before_bps, after_bps }) = self.seen.change else { return };
        // Connections that share a path have now more of it, now less.
        if self.seen.is_shared() && (before_bps / after_bps).max(after_bps / before_bps) < SHARED_CHANGE {
            return;
        }
        let how = if after_bps < before_bps { "fell" } else { "rose" };
        let evidence = vec![format!(
            "at {:.1} s of the test what the path gives {how} from {} to {}, and stayed there",
            at.as_secs_f64(),
            rate(before_bps),
            rate(after_bps)
        )];
        let change = "find what happened then: a route that changed, a radio link, a port that came or went, other traffic that began or \
                      ended; test again";
        self.add(Kind::PathChanged, None, Allows::WhatWasGot, evidence, Some(change.into()));
    }

    pub(super) fn path(&mut self) {
        self.changed();
        self.competing();
        let seen = self.seen;
        let whole = seen.is_whole();
        let Some(carried) = seen.carried_bps().filter(|_| !self.is_least()) else {
            if whole {
                let evidence = seen.flow.iter().flat_map(|flow| flow.evidence.clone()).collect();
                self.add(Kind::PathRate, None, Allows::WhatWasGot, evidence, None);
            }
            return;
        };
        let is_slow = seen.is_slow();
        // On a hop that is too slow, others and short queues leave less than on a faster one.
        let bound =
            whole || (is_slow && (self.is_held_by_others() || self.lost() == Some(Lost::ForWantOfRoom)));
        let allows = if bound { Allows::WhatWasGot } else { Allows::Computed(carried) };
        let mut evidence = Vec::new();
        if let Some(capacity) = &seen.capacity {
            evidence.push(format!("{}: {} of TCP's payload", capacity.how, rate(capacity.goodput_bps)));
        }
        if seen.is_shared() {
            evidence.push(format!("probes find a link of {} of TCP's payload", rate(carried)));
        }
        if whole {
            let share = self.got / carried * 100.0;
            evidence.push(format!("the test got {}, {:.0} % of that", rate(self.got), share.min(100.0)));
        }
        if seen.policed_bps().is_some() {
            let faster = match seen.capacity.as_ref().and_then(|capacity| capacity.later_bps) {
                Some(later) => format!("of the same load for longer came {}: what came before was let pass at once", rate(later)),
                None => "short trains of packets pass faster than that: they fit into what a policer lets pass at once".into(),
            };
            evidence.push(faster);
            let change = "find who polices the path, and at which rate; until then pace below it (test --fq-rate, or fq's maxrate): what is \
                          dropped costs more than what is waited for";
            let allows =
                if bound || seen.verdict() == Some(Cause::Loss) { Allows::WhatWasGot } else { allows };
            self.add(Kind::Policer, None, allows, evidence, Some(change.into()));
            return;
        }
        match &seen.expected {
            Some((expected, who)) if is_slow => {
                evidence.push(format!("{who} makes {} possible", rate(*expected)));
                let change = "find the hop that is slower than it should be: a port that negotiated a lower speed, a shaper, a \
                              policer";
                self.add(Kind::SlowHop, None, allows, evidence, Some(change.into()));
            }
            _ => self.add(Kind::PathRate, None, allows, evidence, None),
        }
    }

    /// Other traffic, where there is some.
    fn competing(&mut self) {
        let seen = self.seen;
        let (true, Some(carried)) = (seen.is_shared(), seen.carried_bps()) else { return };
        let held = self.is_held_by_others() || seen.in_turn().is_some();
        let mut evidence = Vec::new();
        if let Some(InTurn { others, one, connections, together }) = seen.in_turn() {
            evidence.push(format!(
                "{connections} connections got {} together, one {}: the slowest link serves each in turn (fair queueing), and shares what it \
                 carries fairly with about {others:.0} others",
                rate(together),
                rate(one)
            ));
        } else if let Some(left) = seen.left_bps() {
            evidence.push(format!(
                "of {} that the path carries, other traffic leaves {} ({} to {})",
                rate(carried),
                rate(left.value),
                rate(left.low),
                rate(left.high)
            ));
        }
        if let Some(others) = seen.others_had_bps() {
            let share = seen.queued.unwrap_or(0.0).max(seen.behind_others.unwrap_or(0.0));
            evidence.push(format!(
                "a queue stood in the path {:.0} % of the time, longer than the test alone makes it, so the slowest link was busy; it \
                 carries {}, the test had {}: others had up to {}",
                share * 100.0,
                rate(carried),
                rate(self.got),
                rate(others)
            ));
        }
        let shares = seen.leaves_nothing();
        if shares {
            evidence.push("TCP connections take what there is, and share it".into());
        }
        let gives = seen.left_bps().filter(|_| !shares).map_or(FAIR * carried, |left| left.value);
        let allows = if held { Allows::WhatWasGot } else { Allows::Computed(gives) };
        let change = "see who else uses the path, and when; a transfer at another time, or a share of its own (a reserved rate, a \
                      priority), gets the rest";
        self.add(Kind::CompetingTraffic, None, allows, evidence, Some(change.into()));
    }
}
