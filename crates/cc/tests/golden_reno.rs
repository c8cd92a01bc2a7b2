//! Reno: slow start, growth by one segment per window, half the window after a loss.

use crate::ideal;
use cc::ParameterValues;
use ideal::Flow;

fn reno() -> Flow {
    Flow::new("reno", &ParameterValues::new(), 50_000)
}

#[test]
fn slow_start_doubles_per_round_trip_however_many_segments_an_ack_covers() {
    for per_ack in [1, 2, 10] {
        let mut flow = reno();
        flow.per_ack = per_ack;
        flow.rounds(5);
        assert_eq!(flow.sk.snd_cwnd, 320, "{per_ack} segments an ACK");
    }
}

#[test]
fn the_remainder_of_an_ack_after_slow_start_counts_for_congestion_avoidance() {
    let mut flow = reno();
    flow.sk.snd_ssthresh = 12;
    flow.ack(5);
    assert_eq!((flow.sk.snd_cwnd, flow.sk.snd_cwnd_cnt), (12, 3));
}

#[test]
fn congestion_avoidance_adds_one_segment_per_window() {
    for per_ack in [1, 2, 44] {
        let mut flow = reno().at_window(1000);
        flow.per_ack = per_ack;
        flow.rounds(100);
        assert!((1099..=1100).contains(&flow.sk.snd_cwnd), "{per_ack} segments an ACK: {}", flow.sk.snd_cwnd);
    }
}

#[test]
fn a_loss_halves_the_window_and_an_undo_restores_it() {
    for (window, kept) in [(1000, 500), (7, 3), (3, 2), (1, 2)] {
        let mut flow = reno().at_window(window);
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, kept, "from {window}");
        assert_eq!(tcp::CongestionControl::undo_cwnd(&mut flow.cc, &mut flow.sk), window.max(kept));
    }
}

#[test]
fn the_window_grows_only_while_it_limits_the_sender() {
    let mut flow = reno().at_window(100);
    flow.sk.set_is_cwnd_limited(false);
    flow.rounds(10);
    assert_eq!(flow.sk.snd_cwnd, 100);
    // In slow start up to twice the packets in flight.
    let mut flow = reno();
    flow.sk.set_is_cwnd_limited(false);
    flow.sk.max_packets_out = 5;
    tcp::CongestionControl::cong_avoid(&mut flow.cc, &mut flow.sk, 0, 2);
    assert_eq!(flow.sk.snd_cwnd, 10);
    flow.sk.max_packets_out = 6;
    tcp::CongestionControl::cong_avoid(&mut flow.cc, &mut flow.sk, 0, 2);
    assert_eq!(flow.sk.snd_cwnd, 12);
}
