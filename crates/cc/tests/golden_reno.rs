//! Reno: slow start, one segment a window, half after a loss.

use crate::ideal;
use cc::Values;
use ideal::Flow;

fn reno() -> Flow {
    Flow::new("reno", &Values::new(), 50_000)
}

#[test]
fn slow_start_doubles_each_round_trip_whatever_an_ack_acknowledges() {
    for per_ack in [1, 2, 10] {
        let mut flow = reno();
        flow.per_ack = per_ack;
        flow.rounds(5);
        assert_eq!(flow.sk.snd_cwnd, 320, "{per_ack} segments an ACK");
    }
}

#[test]
fn what_slow_start_leaves_of_an_ack_counts_for_congestion_avoidance() {
    let mut flow = reno();
    flow.sk.snd_ssthresh = 12;
    flow.ack(5);
    assert_eq!((flow.sk.snd_cwnd, flow.sk.snd_cwnd_cnt), (12, 3));
}

#[test]
fn congestion_avoidance_adds_a_segment_a_window() {
    for per_ack in [1, 2, 44] {
        let mut flow = reno().at_window(1000);
        flow.per_ack = per_ack;
        flow.rounds(100);
        assert!((1099..=1100).contains(&flow.sk.snd_cwnd), "{per_ack} segments an ACK: {}", flow.sk.snd_cwnd);
    }
}

#[test]
fn a_loss_halves_and_an_undo_brings_back() {
    for (window, kept) in [(1000, 500), (7, 3), (3, 2), (1, 2)] {
        let mut flow = reno().at_window(window);
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, kept, "from {window}");
        assert_eq!(tcp::CongestionControl::undo_cwnd(&mut flow.cc, &mut flow.sk), window.max(kept));
    }
}

#[test]
fn the_window_grows_only_while_it_is_what_limits() {
    let mut flow = reno().at_window(100);
    flow.sk.set_is_cwnd_limited(false);
    flow.rounds(10);
    assert_eq!(flow.sk.snd_cwnd, 100);
    // In slow start up to twice what was in flight.
    let mut flow = reno();
    flow.sk.set_is_cwnd_limited(false);
    flow.sk.max_packets_out = 5;
    tcp::CongestionControl::cong_avoid(&mut flow.cc, &mut flow.sk, 0, 2);
    assert_eq!(flow.sk.snd_cwnd, 10);
    flow.sk.max_packets_out = 6;
    tcp::CongestionControl::cong_avoid(&mut flow.cc, &mut flow.sk, 0, 2);
    assert_eq!(flow.sk.snd_cwnd, 12);
}
