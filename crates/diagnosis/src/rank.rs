//! From what was observed to the list of limits: a method for each family of causes, and the order at the end.

use schema::Cause;
use tune::HostFacts;
use units::{BitRate, Time, three_digits};

use crate::{
    limit::{Kind, Limit, Ranking},
    observed::Observed,
};

mod gains;
mod hosts;
mod losses;
mod path;

/// What another connection has where TCP connections share a path, of what that carries, about.
const FAIR: f64 = 0.4;
/// A limit that the test disproved is above what it reached by so much.
const ABOVE: f64 = 1.02;

/// Ranks what limits.
pub fn rank(seen: &Observed) -> Ranking {
    let mut limits = Limits { seen, got: seen.got(), found: Vec::new() };
    limits.mtu();
    limits.busy();
    limits.windows();
    limits.losses();
    limits.reductions();
    limits.losses_to_come();
    limits.sack();
    limits.path();
    limits.rest();
    limits.ranked()
}

struct Limits<'a> {
    seen: &'a Observed,
    got: f64,
    found: Vec<Limit>,
}

impl<'a> Limits<'a> {
    fn add(
        &mut self,
        kind: Kind,
        host: Option<&str>,
        allows: Allows,
        evidence: Vec<String>,
        change: Option<String>,
    ) {
        let (allows_bps, measured) = match allows {
            Allows::WhatWasGot => (self.got, true),
            Allows::Computed(bps) if bps < self.got => (self.got * ABOVE, false),
            Allows::Computed(bps) => (bps, false),
        };
        let host = host.map(Into::into);
        self.found.push(Limit {
            kind,
            host,
            allows_bps,
            measured,
            evidence,
            change,
            gain_bps: None,
            gain_is_most: false,
            doubt: None,
        });
    }

    /// The host that has a setting of connections at 0: one end is enough to switch it off for both.
    fn switched_off(&self, sysctl: &str) -> Option<&'a str> {
        let seen = self.seen;
        let is_off =
            |facts: &Option<HostFacts>| facts.as_ref().is_some_and(|facts| facts.number(sysctl) == Some(0));
        match (is_off(&seen.receiver), is_off(&seen.sender)) {
            (true, _) => Some(&seen.to),
            (false, true) => Some(&seen.from),
            _ => None,
        }
    }

    /// What the test's verdict names and nothing else explained.
    fn rest(&mut self) {
        let seen = self.seen;
        if self.found.iter().any(|limit| limit.measured) || seen.is_whole() {
            return;
        }
        let Some(flow) = &seen.flow else { return };
        let (kind, change) = match flow.verdict {
            Some(Cause::Application) => (
                Kind::Application,
                Some("look at the program: it read or wrote more slowly than the path carries".into()),
            ),
            Some(Cause::SlowStart) => {
                (Kind::SlowStart, Some("test for longer (--time): the connection was still growing".into()))
            }
            Some(Cause::Pacing) => (Kind::Pacing, Some("raise the pacing rate".into())),
            Some(Cause::HostCpu) => {
                (Kind::SenderCpu, Some(format!("give the sender on {} more of a processor", seen.from)))
            }
            _ => return,
        };
        self.add(kind, None, Allows::WhatWasGot, flow.evidence.clone(), change);
    }

    fn ranked(mut self) -> Ranking {
        let gains: Vec<Option<f64>> = self
            .found
            .iter()
            .map(|limit| self.without(limit).map(|without| (without - self.got).max(0.0)))
            .collect();
        for (limit, gain) in self.found.iter_mut().zip(gains) {
            // What bounds nothing gains nothing; the path's rate is nobody's to change.
            let is_bound = limit.measured && limit.kind != Kind::PathRate;
            limit.gain_bps = if is_bound { gain } else { gain.map(|_| 0.0) };
        }
        // Stable: of two that are alike, the one that was looked at first.
        let gain = |limit: &Limit| limit.gain_bps.unwrap_or(0.0);
        self.found.sort_by(|a, b| {
            // A path that changed explains what the rest of the test looks like.
            let changed = (b.kind == Kind::PathChanged).cmp(&(a.kind == Kind::PathChanged));
            let bound = b.measured.cmp(&a.measured);
            changed.then(bound).then(gain(b).total_cmp(&gain(a))).then(a.allows_bps.total_cmp(&b.allows_bps))
        });
        let healthy = self.found.first().is_some_and(|limit| limit.kind == Kind::PathRate && limit.measured);
        Ranking { limits: self.found, healthy, together: None, scenario: None }
    }
}

/// Where a limit's figure comes from.
enum Allows {
    WhatWasGot,
    Computed(f64),
}

fn rate(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}

/// As the command line takes it.
fn plain(bps: f64) -> String {
    format!("{}mbit", (bps / 1e6).ceil().max(1.0))
}

fn plain_time(time: Time) -> String {
    format!("{}us", (time.as_micros_f64()).ceil())
}
