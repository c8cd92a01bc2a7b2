//! FAST's equilibrium: alpha packets in the queue; and the approach to it, by the share `gain` of the
//! distance per round trip.

use crate::support;
use cc::ParameterValue;
use support::{Flow, controller, path};
use tcp::test_kit::Path;

/// A bandwidth-delay product of 200 packets, and a queue that never overflows.
const PATH: Path = path(10_000, 20_000, 10_000);

#[test]
fn alpha_packets_are_queued() {
    for alpha in [10, 30, 100, 400] {
        for gain in [0.25, 0.5, 0.9] {
            let values = [("alpha", ParameterValue::Integer(alpha)), ("gain", ParameterValue::Decimal(gain))];
            let mut flow = Flow::new(controller("fast", &values), PATH);
            flow.run_until(4.0, |_| ());
            let queue = flow.mean_until(6.0, Flow::queued);
            let extra = f64::from(flow.sk().snd_cwnd) - PATH.bdp_packets();
            let difference = (extra - alpha as f64).abs();
            assert!(difference <= 2.0, "alpha {alpha}, gain {gain}: {extra} packets above the BDP");
            assert!(
                (queue - alpha as f64).abs() <= 2.0,
                "alpha {alpha}, gain {gain}: {queue} packets queued"
            );
        }
    }
}

#[test]
fn alpha_packets_are_queued_after_a_change_of_the_rate() {
    let mut flow = Flow::new(controller("fast", &[]), PATH);
    flow.run_until(3.0, |_| ());
    for rate_pps in [5_000, 20_000] {
        flow.path_mut().rate_bps = path(rate_pps, 0, 0).rate_bps;
        let begin = flow.seconds();
        flow.run_until(begin + 5.0, |_| ());
        let queue = flow.mean_until(begin + 6.0, Flow::queued);
        assert!((queue - 100.0).abs() < 3.0, "{queue} packets queued at {rate_pps} packets/s");
    }
}

#[test]
fn the_window_at_most_doubles_in_a_round_trip() {
    // In equilibrium with a small window, then at a hundred times the rate.
    let values = [("alpha", ParameterValue::Integer(5))];
    let mut flow = Flow::new(controller("fast", &values), path(100, 20_000, 10_000));
    flow.run_until(20.0, |_| ());
    flow.path_mut().rate_bps = path(100_000, 0, 0).rate_bps;
    let mut history = vec![(flow.seconds(), flow.sk().snd_cwnd)];
    flow.run_until(22.0, |flow| history.push((flow.seconds(), flow.sk().snd_cwnd)));
    for (seconds, cwnd) in &history {
        let before = history.iter().rev().find(|(s, _)| *s <= seconds - 0.020);
        if let Some((_, before)) = before {
            assert!(
                *cwnd <= 2 * before + 1,
                "from {before} to {cwnd} packets in a round trip, at {seconds} s"
            );
        }
    }
}
