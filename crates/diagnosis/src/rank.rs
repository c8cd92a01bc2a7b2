//! From what was observed to the list of limits: a method for each family of causes, and the order at the end.

use schema::Cause;
use units::{BitRate, Time, three_digits};

use crate::observed::{Kind, Limit, Observed, Ranking};

mod hosts;
mod losses;
mod path;

/// A limit that the test disproved is above what it reached by so much.
const ABOVE: f64 = 1.02;

/// Ranks what limits.
pub fn rank(seen: &Observed) -> Ranking {
    let mut limits = Limits { seen, got: seen.got(), found: Vec::new() };
    limits.mtu();
    limits.busy();
    limits.windows();
    limits.losses();
    limits.path();
    limits.rest();
    limits.ranked()
}

struct Limits<'a> {
    seen: &'a Observed,
    got: f64,
    found: Vec<Limit>,
}

impl Limits<'_> {
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
        self.found.push(Limit { kind, host, allows_bps, measured, evidence, change, gain_bps: None });
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
        // What nobody can do without: nothing is beyond it.
        let path = self
            .found
            .iter()
            .find(|l| matches!(l.kind, Kind::PathRate | Kind::SlowHop))
            .map(|l| l.allows_bps);
        let expected = self.seen.expected.as_ref().map(|(expected, _)| *expected);
        // Stable: of two that allow the same, the one that was looked at first.
        self.found.sort_by(|a, b| a.allows_bps.total_cmp(&b.allows_bps).then(b.measured.cmp(&a.measured)));
        let allowed: Vec<f64> = self.found.iter().map(|limit| limit.allows_bps).collect();
        for (index, limit) in self.found.iter_mut().enumerate() {
            // Without a hop that is too slow, the path has what is expected of it.
            let most = if limit.kind == Kind::SlowHop { expected } else { path.or(expected) };
            let next = allowed[index + 1..].iter().copied().chain(most).reduce(f64::min);
            limit.gain_bps = next.map(|next| (next - limit.allows_bps).max(0.0));
        }
        let healthy = self.found.first().is_some_and(|limit| limit.kind == Kind::PathRate);
        Ranking { limits: self.found, healthy }
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
