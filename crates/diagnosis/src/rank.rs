//! Derives the ranked list of limits from observations: one method per family of causes, then the order.

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
mod segments;

/// Approximate share of the capacity that one more TCP connection gets on a shared path.
const FAIR_SHARE: f64 = 0.4;
/// A computed limit that the test exceeded is set to this multiple of the test's goodput.
const DISPROVED_FACTOR: f64 = 1.02;

/// Ranks the limits of a path.
pub fn rank(seen: &Observed) -> Ranking {
    let mut limits = Limits { seen, test_bps: seen.test_goodput_bps(), found: Vec::new() };
    limits.mtu();
    limits.busy();
    limits.windows();
    limits.losses();
    limits.reductions();
    limits.latent_losses();
    limits.sack();
    limits.segments();
    limits.cached_ssthresh();
    limits.path();
    limits.add_verdict();
    limits.ranked()
}

struct Limits<'a> {
    seen: &'a Observed,
    test_bps: f64,
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
            Allows::TestGoodput => (self.test_bps, true),
            Allows::Computed(bps) if bps < self.test_bps => (self.test_bps * DISPROVED_FACTOR, false),
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
            gain_is_upper_bound: false,
            doubt: None,
        });
    }

    /// The host on which a setting is 0: one end is enough to disable it for the connection.
    fn host_with_disabled(&self, sysctl: &str) -> Option<&'a str> {
        let seen = self.seen;
        let is_off =
            |facts: &Option<HostFacts>| facts.as_ref().is_some_and(|facts| facts.number(sysctl) == Some(0));
        match (is_off(&seen.receiver), is_off(&seen.sender)) {
            (true, _) => Some(&seen.to),
            (false, true) => Some(&seen.from),
            _ => None,
        }
    }

    /// The test's verdict, if no other limit explains the test.
    fn add_verdict(&mut self) {
        let seen = self.seen;
        if self.found.iter().any(|limit| limit.measured) || seen.reached_full_rate() {
            return;
        }
        let Some(flow) = &seen.flow else { return };
        let (kind, change) = match flow.verdict {
            Some(Cause::Application) => (
                Kind::Application,
                Some("check the application: it read or wrote more slowly than the path carries".into()),
            ),
            Some(Cause::SlowStart) => (
                Kind::SlowStart,
                Some("test for longer (--time): the connection was still in slow start".into()),
            ),
            Some(Cause::Pacing) => (Kind::Pacing, Some("raise the pacing rate".into())),
            Some(Cause::HostCpu) => {
                (Kind::SenderCpu, Some(format!("give the sender on {} more CPU time", seen.from)))
            }
            _ => return,
        };
        self.add(kind, None, Allows::TestGoodput, flow.evidence.clone(), change);
    }

    fn ranked(mut self) -> Ranking {
        let gains: Vec<Option<f64>> = self
            .found
            .iter()
            .map(|limit| self.without(limit).map(|without| (without - self.test_bps).max(0.0)))
            .collect();
        for (limit, gain) in self.found.iter_mut().zip(gains) {
            // A limit that does not bind gains nothing; the path's rate cannot be changed.
            let is_bound = limit.measured && limit.kind != Kind::PathRate;
            limit.gain_bps = if is_bound { gain } else { gain.map(|_| 0.0) };
        }
        // Stable sort: equal limits keep the order in which they were found.
        let gain = |limit: &Limit| limit.gain_bps.unwrap_or(0.0);
        self.found.sort_by(|a, b| {
            // A change of the path explains the remainder of the test.
            let changed = (b.kind == Kind::PathChanged).cmp(&(a.kind == Kind::PathChanged));
            let bound = b.measured.cmp(&a.measured);
            changed.then(bound).then(gain(b).total_cmp(&gain(a))).then(a.allows_bps.total_cmp(&b.allows_bps))
        });
        // Without a measured capacity a faster path may be possible.
        let healthy = self.seen.capacity.is_some()
            && self.found.first().is_some_and(|limit| limit.kind == Kind::PathRate && limit.measured);
        Ranking { limits: self.found, healthy, together: None, scenario: None }
    }
}

/// The source of a limit's figure.
enum Allows {
    TestGoodput,
    Computed(f64),
}

fn rate(bps: f64) -> BitRate {
    BitRate(three_digits(bps))
}

/// Formats a rate in the notation of the command line.
fn plain(bps: f64) -> String {
    format!("{}mbit", (bps / 1e6).ceil().max(1.0))
}

/// Rounded up to 0.1 ms, or to 1 us below 1 ms.
fn plain_time(time: Time) -> String {
    let micros = time.as_micros_f64();
    if micros < 1000.0 {
        format!("{}us", micros.ceil())
    } else {
        format!("{}ms", (micros / 100.0).ceil() / 10.0)
    }
}
