//! Westwood+ sets the window after a loss to what the measured bandwidth fills at the smallest RTT.

mod support;

use support::{Flow, Path, controller};
use tcp::CaState;

/// 400 packets of bandwidth-delay product, and as much queue.
const PATH: Path = Path { rate_pps: 4_000, rtt_us: 100_000, queue_packets: 400, mark_above: None };

/// Threshold and window at the end of each recovery.
fn after_recoveries(path: Path, seconds: f64) -> Vec<(u32, u32)> {
    let mut flow = Flow::new(controller("westwood", &[]), path);
    let (mut ends, mut before) = (Vec::new(), CaState::Open);
    flow.run_until(seconds, |flow| {
        if before == CaState::Recovery && flow.sk.ca_state() == CaState::Open {
            ends.push((flow.sk.snd_ssthresh, flow.sk.snd_cwnd));
        }
        before = flow.sk.ca_state();
    });
    ends
}

#[test]
fn ssthresh_is_bandwidth_times_smallest_rtt() {
    let ends = after_recoveries(PATH, 400.0);
    assert!(ends.len() >= 3, "{ends:?}");
    // The first is still under the influence of slow start.
    for (ssthresh, cwnd) in &ends[1..] {
        let of_bdp = f64::from(*ssthresh) / PATH.bdp();
        assert!((0.97..=1.01).contains(&of_bdp), "{of_bdp} bandwidth-delay products: {ends:?}");
        assert!(cwnd - ssthresh <= 1, "the window is {cwnd}, the threshold {ssthresh}");
    }
}

#[test]
fn a_shallow_queue_costs_nothing() {
    // Reno loses half of what it has; here the pipe stays full.
    let path = Path { queue_packets: 40, ..PATH };
    let mut flow = Flow::new(controller("westwood", &[]), path);
    flow.run_until(60.0, |_| ());
    let before = flow.sk.delivered;
    flow.run_until(160.0, |_| ());
    let rate = f64::from(flow.sk.delivered - before) / 100.0 / path.rate_pps as f64;
    assert!(rate > 0.97, "{rate} of the path's rate");
}
