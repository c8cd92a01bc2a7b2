//! Fairness of flows, and the increase with which they would share evenly.

use schema::{FlowSummary, RunSummary};
use units::Time;

use crate::Aimd;

/// Jain's fairness index: 1 where all are equal, 1/n where one has everything; `None` where all are zero.
///
/// Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984: (sum x)^2 / (n sum x^2).
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|x| x * x).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// The weight of a flow's goodput in Jain's index, so that flows of different segment sizes and round-trip
/// times can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FairnessWeight {
    /// Goodput / MSS: 1 where all flows send packets at the same rate.
    Mtu,
    /// Goodput x smallest round-trip time: 1 where all have the same window in bytes.
    Rtt,
    /// Goodput x smallest round-trip time / MSS: 1 where all have the same window in segments.
    MtuAndRtt,
}

impl FairnessWeight {
    /// Jain's index of a run's flows with a congestion window; `None` where one lacks a figure that is
    /// needed.
    pub fn index(self, run: &RunSummary) -> Option<f64> {
        let flows = run.flows.iter().filter(|flow| flow.is_bulk_transfer());
        jain_index(&flows.map(|flow| self.weighted(flow)).collect::<Option<Vec<f64>>>()?)
    }

    fn weighted(self, flow: &FlowSummary) -> Option<f64> {
        let goodput = flow.goodput_bps?;
        Some(match self {
            FairnessWeight::Mtu => goodput / flow.mss_bytes? as f64,
            FairnessWeight::Rtt => goodput * flow.min_rtt_us?,
            FairnessWeight::MtuAndRtt => goodput * flow.min_rtt_us? / flow.mss_bytes? as f64,
        })
    }
}

/// The additive increase (segments per round trip) with which a flow of `rtt` and `mss` shares evenly
/// with a flow of increase 1 at `reference_rtt` and `reference_mss`, if both lose at the same times.
///
/// An AIMD flow gains A MSS / RTT^2 in a second, so even gains need A proportional to RTT^2 / MSS.
pub fn fair_increase(rtt: Time, mss: u32, reference_rtt: Time, reference_mss: u32) -> f64 {
    let rtts = rtt.as_secs_f64() / reference_rtt.as_secs_f64();
    rtts * rtts * f64::from(reference_mss) / f64::from(mss)
}

/// An AIMD flow among others on a full link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompetingFlow {
    /// Its rule.
    pub rule: Aimd,
    /// Its round-trip time, above 0.
    pub rtt: Time,
    /// Payload bytes of its segments.
    pub mss: u32,
}

/// Each flow's share of their total rate, if all lose at the same times.
///
/// A flow gains A MSS / RTT^2 per second and loses the same amount at each loss, so its mean rate is
/// proportional to A MSS / RTT^2 (1 - d/2) / d for a back-off of d. With independent losses, shares are
/// closer to each other.
pub fn synchronous_shares(flows: &[CompetingFlow]) -> Vec<f64> {
    let weight = |flow: &CompetingFlow| {
        let (rtt, d) = (flow.rtt.as_secs_f64(), flow.rule.decrease);
        flow.rule.increase_segs * f64::from(flow.mss) / (rtt * rtt) * (1.0 - d / 2.0) / d
    };
    let sum: f64 = flows.iter().map(weight).sum();
    flows.iter().map(|flow| weight(flow) / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[7.0, 0.0]), Some(0.5));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
        assert_eq!(jain_index(&[]), None);
        assert!((jain_index(&[202e6, 514e6]).unwrap() - 0.8404).abs() < 1e-4); // G-rttfair
    }

    #[test]
    fn shares_are_proportional_to_increase_times_mss_over_squared_rtt() {
        let flow = |a: f64, rtt_ms, mss| CompetingFlow {
            rule: Aimd { increase_segs: a, ..Aimd::RENO },
            rtt: Time::from_millis(rtt_ms),
            mss,
        };
        let first = |flows: [CompetingFlow; 2]| synchronous_shares(&flows)[0];
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-3, "{a} {b}");
        near(first([flow(1.0, 117, 3_000), flow(1.0, 117, 9_000)]), 0.25);
        // 117^2 / (117^2 + 181^2); with A = 7 and 3 nearly half (G-griddt-rtt).
        near(first([flow(1.0, 181, 9_000), flow(1.0, 117, 9_000)]), 0.2947);
        near(first([flow(7.0, 181, 9_000), flow(3.0, 117, 9_000)]), 0.4937);
        // A sawtooth computed step by step gives the same: of two flows with equal increases, the one with
        // the gentler back-off has three times as much.
        let gentle =
            CompetingFlow { rule: Aimd { increase_segs: 1.0, decrease: 0.2 }, ..flow(1.0, 117, 9_000) };
        near(first([gentle, flow(1.0, 117, 9_000)]), 0.75);
    }
}
