//! Vegas keeps between alpha and beta packets in the queue.

use crate::support;
use cc::ParameterValue;
use support::{Flow, controller, path};
use tcp::test_kit::Path;

/// A bandwidth-delay product of 100 packets, and a queue that never overflows.
const PATH: Path = path(5_000, 20_000, 10_000);

fn settled(values: &[(&str, ParameterValue)]) -> (f64, f64) {
    let mut flow = Flow::new(controller("vegas", values), PATH);
    flow.run_until(10.0, |_| ());
    let queue = flow.mean_until(12.0, Flow::queued);
    (queue, f64::from(flow.sk().snd_cwnd))
}

#[test]
fn between_alpha_and_beta_packets_are_queued() {
    for (alpha, beta) in [(2, 4), (10, 12), (30, 40)] {
        let values = [("alpha", ParameterValue::Integer(alpha)), ("beta", ParameterValue::Integer(beta))];
        let (queue, cwnd) = settled(&values);
        let extra = cwnd - PATH.bdp_packets();
        // One packet for that in service, one for the rounding to whole packets.
        let range = alpha as f64 - 1.0..=beta as f64 + 1.0;
        assert!(range.contains(&extra), "alpha {alpha}: {extra} packets above the bandwidth-delay product");
        assert!((alpha as f64 - 1.0..=beta as f64 + 2.0).contains(&queue), "alpha {alpha}: {queue} queued");
    }
}

#[test]
fn slow_start_ends_within_two_rounds_of_a_full_pipe() {
    // Reno would continue until a loss; here there are none.
    let mut flow = Flow::new(controller("vegas", &[]), PATH);
    let mut largest = 0;
    flow.run_until(1.0, |flow| largest = largest.max(flow.sk().snd_cwnd));
    assert!(flow.sk().snd_ssthresh < tcp::INFINITE_SSTHRESH);
    assert!(f64::from(largest) < 4.0 * PATH.bdp_packets(), "the window was {largest}");
}

#[test]
fn the_window_changes_by_one_packet_per_round_trip() {
    let mut flow = Flow::new(controller("vegas", &[]), PATH);
    flow.run_until(20.0, |_| ());
    // Twice the rate: the queue empties, and the window grows.
    flow.path_mut().rate_bps *= 2;
    flow.run_until(20.5, |_| ());
    let before = flow.sk().snd_cwnd;
    flow.run_until(21.5, |_| ());
    let grown = flow.sk().snd_cwnd - before;
    assert!((48..=51).contains(&grown), "{grown} packets in 50 round trips");
}
