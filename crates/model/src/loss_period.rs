//! Goodput at a random loss rate, with retransmissions and timeouts: the period from one loss event to the
//! next.
//!
//! Source: Padhye et al., as in [`crate::pftk_bps`]. Differences from it, which make it agree with Linux:
//!
//! 1. It holds for any AIMD rule, and for CUBIC, which grows as an AIMD rule with Reno's mean window (RFC
//!    9438, section 4.3) or faster. Segments per ACK are part of the rule's increase.
//! 2. If too few segments follow a lost one for three duplicate ACKs, Reno waits for a timeout. Linux sends a
//!    tail loss probe after two round trips (RFC 8985, section 7). It waits for a timeout only if two of the
//!    next four segments are lost too; kernels without this probe, if one of them is.
//! 3. The last round trip of a period counts for (1 + d) / 2 at a back-off of d: during recovery Linux sends
//!    new data (proportional rate reduction, RFC 6937).
//! 4. The result is goodput: lost segments do not count.
//!
//! The numbers of segments in 2 and the share in 3 are fitted to the simulator; the tests compare them.
//!
//! Not considered: CUBIC's clock. The kernel adapts CUBIC's growth at most every 28 ms (HZ / 32 ticks). If
//! losses are more frequent, the window hardly grows: at 1 ms and 3 to 10 % of loss, goodput is a third to a
//! half of the result.

use units::{KernelVersion, Time};

use crate::{Aimd, loss};

/// Smallest retransmission timeout of Linux (`TCP_RTO_MIN`, include/net/tcp.h), which is added to the
/// smoothed round-trip time.
pub(crate) const MIN_RTO: Time = Time::from_millis(200);
/// The first kernel with tail loss probes (`tcp_send_loss_probe`, net/ipv4/tcp_output.c).
const TAIL_LOSS_PROBE_SINCE: KernelVersion = KernelVersion::new(3, 10);
/// Timeout of a tail loss probe, round trips (RFC 8985, section 7.2).
const PROBE_ROUND_TRIPS: f64 = 2.0;
/// Segments after a loss without three duplicate ACKs, of which one or two further losses lead to a timeout.
const SEGMENTS_OF_REPAIR: i32 = 4;
/// The smallest window after a loss, segments (`tcp_reno_ssthresh`, net/ipv4/tcp_cong.c).
const MIN_WINDOW_SEGS: f64 = 2.0;

/// A path that loses segments at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossyPath {
    /// Probability that a segment is lost, above 0 and below 1.
    pub loss: f64,
    /// Payload of a segment, bytes.
    pub mss: u32,
    /// Round-trip time, above 0.
    pub rtt: Time,
    /// The sender's kernel.
    pub kernel: KernelVersion,
}

/// The result of random losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LossyGoodput {
    /// Goodput, bit/s.
    pub bps: f64,
    /// Segments per round trip between timeouts.
    pub window_segs: f64,
    /// Share of the time that the sender waits for timeouts.
    pub timeout_share: f64,
}

impl LossyPath {
    /// The goodput of an AIMD rule.
    pub fn aimd(&self, rule: Aimd) -> LossyGoodput {
        self.goodput(rule, 0.0)
    }

    /// The goodput of CUBIC.
    pub fn cubic(&self) -> LossyGoodput {
        self.goodput(Aimd::CUBIC_LIKE_RENO, loss::cubic_only_window_segs(self.loss, self.rtt))
    }

    /// The goodput of a rule whose mean window has at least `min_mean_segs` segments.
    ///
    /// A period has N = (1 - p) / p + W segments: those before the loss, and the window W behind it. The
    /// window grows from (1 - d) W by A per round trip, which gives the quadratic equation d (2 - d) / 2A
    /// W^2 - (d / A + 1) / 2 W - (1 - p) / p = 0 (the paper's equation for E[W] with A = 1 / b and d = 1/2).
    fn goodput(&self, rule: Aimd, min_mean_segs: f64) -> LossyGoodput {
        let (p, q, rtt) = (self.loss, 1.0 - self.loss, self.rtt.as_secs_f64());
        let (a, d) = (rule.increase_segs, rule.decrease);
        let square = d * (2.0 - d) / (2.0 * a);
        let linear = f64::midpoint(d / a, 1.0);
        let root = (linear * linear + 4.0 * square * q / p).sqrt();
        let window = ((linear + root) / (2.0 * square)).max(MIN_WINDOW_SEGS);
        let segments = q / p + window;
        let growing = d * window / a + f64::midpoint(1.0, d);
        let round_trips = growing.min(segments / min_mean_segs.max(MIN_WINDOW_SEGS));

        let without_duplicate_acks = loss::timeout_share(p, window);
        let timeouts = without_duplicate_acks * self.repair_fails();
        let rto = rtt + MIN_RTO.as_secs_f64();
        let waiting = timeouts * rto * loss::timeout_backoff(p) / q;
        let sending = (round_trips + PROBE_ROUND_TRIPS * without_duplicate_acks) * rtt;
        let delivered = (segments + timeouts / q) * q;
        LossyGoodput {
            bps: delivered * f64::from(self.mss) * 8.0 / (sending + waiting),
            window_segs: segments / round_trips,
            timeout_share: waiting / (sending + waiting),
        }
    }

    /// Probability that a loss without three duplicate ACKs leads to a timeout.
    fn repair_fails(&self) -> f64 {
        let (p, q) = (self.loss, 1.0 - self.loss);
        let none_lost = q.powi(SEGMENTS_OF_REPAIR);
        if self.kernel < TAIL_LOSS_PROBE_SINCE {
            return 1.0 - none_lost;
        }
        let one_lost = f64::from(SEGMENTS_OF_REPAIR) * p * q.powi(SEGMENTS_OF_REPAIR - 1);
        // The difference of nearly equal numbers can be below 0.
        (1.0 - none_lost - one_lost).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::{cubic_window_segs, window_throughput_bps};

    const NEW: KernelVersion = KernelVersion::new(6, 18);

    fn path(loss: f64, rtt_ms: u64, kernel: KernelVersion) -> LossyPath {
        LossyPath { loss, mss: 1448, rtt: Time::from_millis(rtt_ms), kernel }
    }

    const LOSSES: [f64; 5] = [0.01, 0.03, 0.05, 0.1, 0.2];

    /// Checks that the law's goodputs, divided by the simulated ones, are in `ratios`. `simulated`:
    /// round-trip times in ms, and Mb/s at [`LOSSES`].
    fn check_ratios(
        simulated: &[(u64, [f64; 5])],
        kernel: KernelVersion,
        ratios: Range<f64>,
        law: impl Fn(LossyPath) -> LossyGoodput,
    ) {
        for (rtt_ms, simulated) in simulated {
            for (loss, mbps) in LOSSES.into_iter().zip(simulated) {
                let ratio = law(path(loss, *rtt_ms, kernel)).bps / (mbps * 1e6);
                assert!(ratios.contains(&ratio), "{rtt_ms} ms and {loss}: {ratio}");
            }
        }
    }

    /// Goodputs of the simulator (Linux 6.18, one flow without another limit): means of eight runs of 60 s,
    /// and at 1 ms and below 0.1 % of four runs of 10 s. At 100 ms, losses below 1 % are so rare that slow
    /// start and single losses determine a run.
    ///
    /// | RTT    | loss   | Reno: Mb/s | law   | ratio | CUBIC: Mb/s | law   | ratio |
    /// |--------|--------|------------|-------|-------|-------------|-------|-------|
    /// | 1 ms   | 0.01 % | 1440       | 1419  | 0.99  | 1815        | 1419  | 0.78  |
    /// |        | 0.1 %  | 452.5      | 447.7 | 0.99  | 603.3       | 447.1 | 0.74  |
    /// |        | 1 %    | 132.7      | 135.6 | 1.02  | 91.36       | 134.4 | 1.47  |
    /// |        | 3 %    | 67.02      | 67.46 | 1.01  | 33.60       | 65.71 | 1.96  |
    /// |        | 5 %    | 40.89      | 40.41 | 0.99  | 14.06       | 38.50 | 2.74  |
    /// |        | 10 %   | 10.35      | 11.01 | 1.06  | 3.494       | 10.05 | 2.88  |
    /// |        | 20 %   | 1.277      | 1.368 | 1.07  | 0.736       | 1.226 | 1.67  |
    /// | 10 ms  | 0.01 % | 154.6      | 141.9 | 0.92  | 157.1       | 141.9 | 0.90  |
    /// |        | 0.1 %  | 46.57      | 44.77 | 0.96  | 44.31       | 44.71 | 1.01  |
    /// |        | 1 %    | 13.49      | 13.59 | 1.01  | 12.15       | 13.47 | 1.11  |
    /// |        | 3 %    | 7.097      | 7.126 | 1.00  | 5.885       | 6.980 | 1.19  |
    /// |        | 5 %    | 5.006      | 4.983 | 1.00  | 3.928       | 4.830 | 1.23  |
    /// |        | 10 %   | 2.682      | 2.576 | 0.96  | 1.956       | 2.439 | 1.25  |
    /// |        | 20 %   | 0.8174     | 0.773 | 0.95  | 0.5955      | 0.708 | 1.19  |
    /// | 100 ms | 0.01 % | 25.64      | 14.19 | 0.55  | 41.39       | 21.69 | 0.52  |
    /// |        | 0.1 %  | 5.809      | 4.477 | 0.77  | 6.849       | 4.471 | 0.65  |
    /// |        | 1 %    | 1.399      | 1.359 | 0.97  | 1.410       | 1.348 | 0.96  |
    /// |        | 3 %    | 0.7293     | 0.717 | 0.98  | 0.6755      | 0.702 | 1.04  |
    /// |        | 5 %    | 0.5246     | 0.510 | 0.97  | 0.4733      | 0.496 | 1.05  |
    /// |        | 10 %   | 0.3343     | 0.298 | 0.89  | 0.2933      | 0.284 | 0.97  |
    /// |        | 20 %   | 0.1833     | 0.144 | 0.79  | 0.1626      | 0.135 | 0.83  |
    ///
    /// The square-root law is 4.3 to 25 times the simulated goodput of Reno at 1 ms and 10 to 20 %.
    #[test]
    fn agrees_with_simulated_connections() {
        let reno = [
            (1, [132.7, 67.02, 40.89, 10.35, 1.277]),
            (10, [13.49, 7.097, 5.006, 2.682, 0.8174]),
            (100, [1.399, 0.7293, 0.5246, 0.3343, 0.1833]),
        ];
        let cubic =
            [(10, [12.15, 5.885, 3.928, 1.956, 0.5955]), (100, [1.410, 0.6755, 0.4733, 0.2933, 0.1626])];
        check_ratios(&reno, NEW, 0.78..1.08, |path| path.aimd(Aimd::RENO));
        check_ratios(&cubic, NEW, 0.8..1.26, |path| path.cubic());
        let square_root = window_throughput_bps(Aimd::RENO.window_segs(0.2), 1448, Time::from_millis(1));
        assert!(square_root > 20.0 * 1.277e6, "{square_root}");
    }

    /// Goodputs of the simulator with Linux 2.4, which counts ACKs and has no tail loss probes: means of four
    /// runs of 60 s.
    #[test]
    fn kernels_without_tail_loss_probes_have_more_timeouts() {
        let simulated = [
            (1, [82.65, 18.08, 6.502, 1.652, 0.4017]),
            (10, [8.88, 4.043, 2.469, 1.025, 0.3246]),
            (100, [0.9242, 0.5003, 0.3615, 0.2313, 0.1255]),
        ];
        let old = KernelVersion::new(2, 4);
        check_ratios(&simulated, old, 0.67..1.27, |path| path.aimd(Aimd::RENO_DELAYED_ACK));
        let probed = path(0.05, 10, NEW).aimd(Aimd::RENO);
        let unprobed = path(0.05, 10, old).aimd(Aimd::RENO);
        assert!(unprobed.timeout_share > 2.0 * probed.timeout_share, "{probed:?} {unprobed:?}");
    }

    #[test]
    fn tends_to_the_square_root_law_and_to_the_law_of_cubic_at_low_loss() {
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 0.01, "{a} {b}");
        for loss in [1e-7, 1e-6, 1e-5, 1e-4, 1e-3] {
            for rtt_ms in [1, 10, 100] {
                let (path, rtt) = (path(loss, rtt_ms, NEW), Time::from_millis(rtt_ms));
                let law = |segs| window_throughput_bps(segs, 1448, rtt);
                near(path.cubic().bps, law(cubic_window_segs(loss, rtt)));
                for rule in [Aimd::RENO, Aimd::RENO_DELAYED_ACK] {
                    near(path.aimd(rule).bps, law(rule.window_segs(loss)));
                }
            }
        }
    }

    #[test]
    fn goodput_decreases_with_loss_to_zero() {
        let mut last = f64::INFINITY;
        for loss in [1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999_999] {
            let now = path(loss, 10, NEW).cubic();
            assert!(now.bps > 0.0 && now.bps < last, "{loss}: {now:?}");
            assert!((0.0..=1.0).contains(&now.timeout_share), "{loss}: {now:?}");
            last = now.bps;
        }
        assert!(last < 100.0, "{last}");
    }
}
