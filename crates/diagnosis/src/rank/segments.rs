//! Small segments, and a slow-start threshold that no loss has set.

use schema::Cause;

use super::{Allows, Limits};
use crate::{limit::Kind, observed::ClampedMss};

/// Minimum ratio of goodput with large segments to that with small ones that makes these a limit of the test.
const MIN_SEGMENT_GAIN: f64 = 1.15;

impl Limits<'_> {
    /// A clamped MSS: after a loss the window grows by a smaller segment, and headers take a larger share of
    /// the path's rate.
    pub(super) fn segments(&mut self) {
        let seen = self.seen;
        let Some(ClampedMss { mss, possible }) = seen.clamped_mss() else { return };
        let is_full = seen.reached_full_rate();
        let gain = match seen.verdict() {
            Some(Cause::Loss | Cause::EcnMarks | Cause::LocalQueue) if !is_full => possible / mss,
            _ if is_full => 1.0 / seen.segment_share(),
            _ => 1.0,
        };
        let allows = match seen.capacity_bps() {
            _ if gain >= MIN_SEGMENT_GAIN => Allows::TestGoodput,
            Some(carried) => Allows::Computed(carried * seen.segment_share()),
            None => return,
        };
        let evidence = vec![format!(
            "segments carried at most {mss:.0} bytes, but packets of {} bytes pass",
            seen.mtu.passes.unwrap_or_default()
        )];
        let change = "find what clamps the MSS: advmss or mtu in `ip route` of both hosts, the MTU of the other host's device, TCPMSS rules \
                      of firewalls and tunnels";
        self.add(Kind::SmallMss, None, allows, evidence, Some(change.into()));
    }

    /// A slow-start threshold from a cache or a route: the window grows slowly from the beginning.
    pub(super) fn cached_ssthresh(&mut self) {
        let seen = self.seen;
        let Some(flow) = seen.flow.as_ref().filter(|_| seen.start.ssthresh_segs.is_some()) else { return };
        if seen.verdict() != Some(Cause::SlowStart) || seen.reached_full_rate() {
            return;
        }
        let (evidence, remedy) = (flow.evidence.clone(), flow.remedy.clone());
        self.add(Kind::CachedSsthresh, Some(&seen.from), Allows::TestGoodput, evidence, remedy);
    }
}
