//! Westwood+ sets the window after a loss to the product of measured bandwidth and minimum RTT.

use crate::support;
use support::{Flow, controller, path};
use tcp::test_kit::Path;
use tcp::{CaEvent, CaState, CongestionControl, TcpSock};

/// A bandwidth-delay product of 400 packets, and a queue of the same size.
const PATH: Path = path(4_000, 100_000, 400);

/// Slow-start threshold and window in packets at the end of each recovery. The first 60 s are left out: the
/// low rates of slow start still lower the bandwidth estimate.
fn after_recoveries(path: Path) -> Vec<(u32, u32)> {
    let mut flow = Flow::new(controller("westwood", &[]), path);
    let (mut ends, mut before) = (Vec::new(), CaState::Open);
    flow.run_until(60.0, |_| ());
    flow.run_until(600.0, |flow| {
        if before == CaState::Recovery && flow.sk().ca_state() == CaState::Open {
            ends.push((flow.sk().snd_ssthresh, flow.sk().snd_cwnd));
        }
        before = flow.sk().ca_state();
    });
    ends
}

#[test]
fn without_a_measurement_a_loss_halves_the_window() {
    let mut cc = controller("westwood", &[]);
    let mut sk = TcpSock { snd_cwnd: 100, ..TcpSock::default() };
    cc.init(&mut sk);
    cc.cwnd_event(&mut sk, CaEvent::Loss);
    assert_eq!(sk.snd_ssthresh, 50);
}

#[test]
fn ssthresh_is_bandwidth_times_minimum_rtt() {
    let ends = after_recoveries(PATH);
    assert!(ends.len() >= 3, "{ends:?}");
    for (ssthresh, cwnd) in &ends {
        let bdp_share = f64::from(*ssthresh) / PATH.bdp_packets();
        assert!((0.97..=1.01).contains(&bdp_share), "{bdp_share} bandwidth-delay products: {ends:?}");
        assert!(cwnd - ssthresh <= 1, "the window is {cwnd}, the threshold {ssthresh}");
    }
}
