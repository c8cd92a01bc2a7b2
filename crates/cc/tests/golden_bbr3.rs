//! BBR, version 3: gains, the times of its probes, PROBE_RTT, and the bounds learned from losses.

use crate::support;
use cc::ParameterValue;
use std::collections::BTreeSet;
use support::{Flow, MSS, controller, path};
use tcp::test_kit::Path;

/// A bandwidth-delay product of 100 packets, and a queue that never overflows.
const PATH: Path = path(5_000, 20_000, 10_000);
/// A queue that version 1 overflows repeatedly.
const SHALLOW: Path = Path { queue_packets: 30, ..PATH };
/// Long enough for STARTUP and DRAIN.
const STEADY_S: f64 = 2.0;

/// Pacing rate in percent of the path's rate.
fn gain_percent(flow: &Flow) -> f64 {
    flow.sk().sk_pacing_rate as f64 / f64::from(MSS) / flow.rate_pps() * 100.0
}

#[test]
fn startup_paces_at_2_77_windows_per_round_trip() {
    let flow = Flow::new(controller("bbr3", &[]), PATH);
    let expected = 710.0 / 256.0 * 10.0 * 1448.0 / 0.020 * 0.99;
    let rate = flow.sk().sk_pacing_rate as f64;
    assert!((rate / expected - 1.0).abs() < 0.001, "{rate} bytes/s instead of {expected}");
}

#[test]
fn the_phases_have_three_gains() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let mut percent = BTreeSet::new();
    flow.run_until(20.0, |flow| {
        percent.insert(gain_percent(flow).round() as u32);
    });
    for seen in &percent {
        let differences = [0.90625, 1.0, 1.25].map(|gain: f64| (f64::from(*seen) - gain * 99.0).abs());
        assert!(differences.iter().any(|difference| *difference < 1.5), "paced at {seen} %: {percent:?}");
    }
    assert!(percent.len() >= 3, "{percent:?}");
}

#[test]
fn probes_for_bandwidth_are_two_to_three_seconds_apart() {
    // With 100 packets in flight and 100 ms, Reno would take longer, so the clock decides.
    let path = path(1_000, 100_000, 10_000);
    // PROBE_RTT restarts the wait.
    let mut flow = Flow::new(controller("bbr3", &[("probe_rtt_ms", ParameterValue::Integer(0))]), path);
    let (mut probes, mut probing) = (Vec::new(), true);
    flow.run_until(60.0, |flow| {
        let now = gain_percent(flow) > 115.0;
        if now && !probing {
            probes.push(flow.seconds());
        }
        probing = now;
    });
    let gaps: Vec<f64> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 12, "{probes:?}");
    // A cycle is the wait (from the start of DOWN), one round trip of REFILL, and UP with three rounds
    // without growth.
    assert!(gaps.iter().all(|gap| (2.3..4.2).contains(gap)), "{gaps:?}");
    let distinct: BTreeSet<u32> = gaps.iter().map(|gap| (gap * 20.0) as u32).collect();
    assert!(distinct.len() > 3, "nothing random in {gaps:?}");
}

#[test]
fn at_short_rtts_the_next_probe_follows_within_63_rounds() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    let (mut probes, mut probing) = (Vec::new(), true);
    flow.run_until(20.0, |flow| {
        let now = gain_percent(flow) > 115.0;
        if now && !probing {
            probes.push(flow.seconds());
        }
        probing = now;
    });
    let gaps: Vec<f64> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rounds = gaps.iter().map(|gap| gap / 0.020).fold(f64::MAX, f64::min);
    assert!((60.0..80.0).contains(&rounds), "{rounds} rounds at least between probes: {gaps:?}");
}

#[test]
fn probe_rtt_recurs_every_five_seconds_with_half_the_pipe_in_flight() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    let (mut spans, mut was_low): (Vec<(f64, f64)>, bool) = (Vec::new(), false);
    flow.run_until(STEADY_S, |_| ());
    flow.run_until(32.0, |flow| {
        let low = flow.sk().snd_cwnd < 60;
        match (was_low, low) {
            (false, true) => {
                spans.push((flow.seconds(), flow.seconds()));
                assert!((48..=53).contains(&flow.sk().snd_cwnd), "a window of {}", flow.sk().snd_cwnd);
            }
            (true, _) => spans.last_mut().expect("a span").1 = flow.seconds(),
            _ => (),
        }
        was_low = low;
    });
    assert!((4..=6).contains(&spans.len()), "{spans:?}");
    for pair in spans.windows(2) {
        let gap = pair[1].0 - pair[0].1;
        assert!((4.9..5.5).contains(&gap), "{spans:?}");
        assert!((0.2..0.3).contains(&(pair[0].1 - pair[0].0)), "{spans:?}");
    }
}

#[test]
fn a_pause_ends_probe_rtt_however_long_it_is() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let prior = flow.sk().snd_cwnd;
    while flow.sk().snd_cwnd >= 60 {
        flow.run_until(flow.seconds() + 0.001, |_| ());
    }
    let low = flow.sk().snd_cwnd;
    flow.run_until(flow.seconds() + 0.1, |_| ());
    assert_eq!(flow.window_after_pause(0), low, "PROBE_RTT lasts 200 ms");
    // A 32-bit clock of microseconds wraps after 72 minutes.
    for minutes in [1, 35, 37, 70, 73] {
        let window = flow.window_after_pause(minutes);
        assert!(window >= prior / 2 && window > low, "{window} packets after a pause of {minutes} min");
    }
}

#[test]
fn a_deep_queue_remains_empty() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let queue = flow.mean_until(12.0, Flow::queued);
    let (rate, lost) = flow.delivery(10.0);
    assert!(queue < 20.0, "{queue} packets in the queue on average");
    assert!(rate > 0.95, "{rate} of the path's rate");
    assert_eq!(lost, 0.0);
}

#[test]
fn a_shallow_queue_costs_less_loss_than_version_1() {
    let run = |name| {
        let mut flow = Flow::new(controller(name, &[]), SHALLOW);
        flow.run_until(STEADY_S, |_| ());
        flow.delivery(30.0)
    };
    let ((rate, lost), (_, lost_by_first)) = (run("bbr3"), run("bbr"));
    assert!(rate > 0.9, "{rate} of the path's rate");
    assert!(lost < 0.01, "{lost} of all packets lost");
    assert!(lost <= lost_by_first, "{lost} lost; version 1 loses {lost_by_first}");
}

#[test]
fn losses_bound_the_inflight_data_in_cruise() {
    let path = Path { queue_packets: 15, ..PATH };
    let mut flow = Flow::new(controller("bbr3", &[]), path);
    flow.run_until(STEADY_S, |_| ());
    assert!(flow.sk().lost > 0, "STARTUP lost nothing");
    // inflight_hi is about the size of pipe and queue, and CRUISE stays 15 % below it.
    let cwnd = flow.mean_until(12.0, |flow| f64::from(flow.sk().snd_cwnd));
    let fits = PATH.bdp_packets() + 15.0;
    assert!(cwnd < 1.15 * fits, "{cwnd} packets of window where {fits} fit");
    let (rate, _) = flow.delivery(20.0);
    assert!(rate > 0.85, "{rate} of the path's rate");
}

#[test]
fn more_bandwidth_is_found_within_two_probes() {
    let mut flow = Flow::new(controller("bbr3", &[]), PATH);
    flow.run_until(6.0, |_| ());
    flow.path_mut().rate_bps *= 4;
    flow.run_until(12.0, |_| ());
    let (rate, _) = flow.delivery(3.0);
    assert!(rate > 0.9, "{rate} of four times the rate");
}
