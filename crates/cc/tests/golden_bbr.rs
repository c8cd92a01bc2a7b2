//! BBR (v1) against its description: gains, bandwidth filter, window of two bandwidth-delay products,
//! PROBE_RTT.

use crate::support;
use cc::ParameterValue;
use std::collections::BTreeSet;
use support::{Flow, MSS, controller, path};
use tcp::CongestionControl;
use tcp::test_kit::Path;

/// A bandwidth-delay product of 100 packets, and a queue that never overflows.
const PATH: Path = path(5_000, 20_000, 10_000);
/// Long enough for STARTUP, DRAIN and the first cycle.
const STEADY_S: f64 = 2.0;

/// Pacing rate in percent of the path's rate.
fn gain_percent(flow: &Flow) -> f64 {
    flow.sk().sk_pacing_rate as f64 / f64::from(MSS) / flow.rate_pps() * 100.0
}

#[test]
fn startup_paces_at_2_89_windows_per_round_trip() {
    let flow = Flow::new(controller("bbr", &[]), PATH);
    let expected = 739.0 / 256.0 * 10.0 * 1448.0 / 0.020 * 0.99;
    let rate = flow.sk().sk_pacing_rate as f64;
    assert!((rate / expected - 1.0).abs() < 0.001, "{rate} bytes/s instead of {expected}");
    assert_eq!(flow.sk().sk_pacing_status, 1, "the socket is set to pace");
}

#[test]
fn startup_doubles_each_round_and_ends_after_three_rounds_without_growth() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    let mut full_s = None;
    flow.run_until(1.0, |flow| {
        if flow.sk().snd_ssthresh != tcp::INFINITE_SSTHRESH && full_s.is_none() {
            full_s = Some(flow.seconds());
        }
    });
    // log2(100 / 10) round trips to fill the pipe and three more, each longer because of the growing queue.
    let full_s = full_s.expect("STARTUP ends");
    assert!((0.12..0.40).contains(&full_s), "STARTUP took {full_s} s");
}

#[test]
fn drain_removes_the_queue_of_startup() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    let mut largest: f64 = 0.0;
    flow.run_until(1.0, |flow| largest = largest.max(flow.queued()));
    assert!(largest > 80.0, "STARTUP queued {largest} packets only");
    let queue = flow.mean_until(3.0, Flow::queued);
    assert!(queue < 15.0, "{queue} packets in the queue on average");
}

#[test]
fn the_cycle_has_three_gains_and_paces_one_percent_below() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let mut percent = BTreeSet::new();
    flow.run_until(6.0, |flow| {
        percent.insert(gain_percent(flow).round() as u32);
    });
    for seen in &percent {
        let of = [74.25, 99.0, 123.75].map(|gain: f64| (f64::from(*seen) - gain).abs());
        assert!(of.iter().any(|difference| *difference < 1.5), "paced at {seen} %, expected {percent:?}");
    }
    assert!(percent.len() >= 3, "{percent:?}");
}

#[test]
fn a_cycle_is_one_probe_one_drain_and_six_cruises() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let (mut ups, mut phases) = (Vec::new(), Vec::new());
    flow.run_until(7.0, |flow| {
        let phase = match gain_percent(flow) {
            gain if gain > 110.0 => 'u',
            gain if gain < 85.0 => 'd',
            _ => 'c',
        };
        if phases.last() != Some(&phase) {
            phases.push(phase);
            if phase == 'u' {
                ups.push(flow.seconds());
            }
        }
    });
    let text: String = phases.iter().collect();
    assert!(text.trim_start_matches(['c', 'd']).starts_with("udcudcudc"), "{text}");
    let periods = ups.windows(2).map(|pair| pair[1] - pair[0]);
    let mean = periods.clone().sum::<f64>() / periods.len() as f64;
    // Eight phases of one minimum RTT each, which end with the next ACK; the drain may end early, and the
    // probe waits for its target.
    assert!((0.14..0.20).contains(&mean), "a cycle takes {mean} s");
}

#[test]
fn the_first_phase_is_chosen_at_random_but_never_the_draining_one() {
    let first = |seed: u64| {
        let mut cc = controller("bbr", &[]);
        cc.set_seed(seed);
        let mut flow = Flow::new(cc, PATH);
        let mut gains = Vec::new();
        flow.run_until(1.0, |flow| {
            let gain = gain_percent(flow).round();
            if flow.sk().snd_ssthresh != tcp::INFINITE_SSTHRESH && gain > 40.0 {
                gains.push(gain);
            }
        });
        // The first gain after DRAIN, and for how many consecutive rounds.
        (gains[0], gains.iter().take_while(|gain| (**gain - gains[0]).abs() < 3.0).count())
    };
    let firsts: Vec<(f64, usize)> = (1..20).map(first).collect();
    assert!(firsts.iter().all(|(gain, _)| *gain > 90.0), "{firsts:?}");
    let lengths: BTreeSet<usize> = firsts.iter().map(|(_, length)| length / 90).collect();
    assert!(lengths.len() >= 4, "cruise phases before the first probe: {firsts:?}");
}

#[test]
fn the_window_is_two_bandwidth_delay_products() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    let cwnd = {
        flow.run_until(STEADY_S, |_| ());
        flow.mean_until(6.0, |flow| f64::from(flow.sk().snd_cwnd))
    };
    // Plus three bursts of 5 segments (7 MB/s / 1024 / MSS), even, and two packets in an eighth of the time.
    let expected = 2.0 * PATH.bdp_packets() + 15.0;
    assert!((cwnd - expected).abs() < 5.0, "{cwnd} packets instead of {expected}");
}

#[test]
fn goodput_is_the_path_rate() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let (rate, _) = flow.delivery(7.0);
    assert!(rate > 0.985, "{rate} of the path's rate");
}

#[test]
fn a_bandwidth_sample_counts_for_ten_rounds() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    flow.path_mut().rate_bps /= 2;
    let (mut round_end, mut rounds, mut forgotten) = (flow.sk().delivered + flow.sk().packets_out, 0, None);
    flow.run_until(STEADY_S + 2.0, |flow| {
        if flow.sk().delivered >= round_end {
            round_end = flow.sk().delivered + flow.sk().packets_out;
            rounds += 1;
        }
        // The largest gain at half the rate is 62 % of the old rate.
        if gain_percent(flow) < 2.0 * 70.0 && rounds > 2 && forgotten.is_none() && gain_percent(flow) > 120.0
        {
            forgotten = Some(rounds);
        }
    });
    let forgotten = forgotten.expect("the old bandwidth leaves the filter");
    assert!((10..=13).contains(&forgotten), "the old bandwidth left the filter after {forgotten} rounds");
}

#[test]
fn probe_rtt_recurs_every_ten_seconds_and_lasts_200_ms() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    let (mut spans, mut was_low): (Vec<(f64, f64)>, bool) = (Vec::new(), false);
    flow.run_until(45.0, |flow| {
        let low = flow.sk().snd_cwnd == 4;
        match (was_low, low) {
            (false, true) => spans.push((flow.seconds(), flow.seconds())),
            (true, _) => spans.last_mut().expect("a span").1 = flow.seconds(),
            _ => (),
        }
        was_low = low;
    });
    // Each PROBE_RTT measures the minimum RTT, so the next one follows ten seconds later.
    assert!((3..=4).contains(&spans.len()), "{spans:?}");
    for (begin, end) in &spans {
        assert!((0.2..0.3).contains(&(end - begin)), "{spans:?}");
    }
    for pair in spans.windows(2) {
        let gap = pair[1].0 - pair[0].1;
        assert!((9.9..10.5).contains(&gap), "{spans:?}");
    }
    let prior = flow.sk().snd_cwnd;
    assert!(prior > 150, "the window is restored to {prior}");
}

#[test]
fn a_pause_ends_probe_rtt_however_long_it_is() {
    let mut flow = Flow::new(controller("bbr", &[]), PATH);
    flow.run_until(STEADY_S, |_| ());
    let prior = flow.sk().snd_cwnd;
    while flow.sk().snd_cwnd > 4 {
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
fn a_loss_does_not_halve_the_window() {
    // Queue smaller than the excess of a probe.
    let mut flow = Flow::new(controller("bbr", &[]), Path { queue_packets: 15, ..PATH });
    flow.run_until(STEADY_S, |_| ());
    let (rate, lost) = flow.delivery(7.0);
    assert!(lost > 0.0, "nothing was lost");
    assert!(rate > 0.9, "{rate} of the path's rate");
}

#[test]
fn on_a_slow_link_packets_are_sent_singly() {
    let mut flow = Flow::new(controller("bbr", &[]), path(50, 20_000, 10_000));
    flow.run_until(10.0, |_| ());
    let mut sk = flow.sk().clone();
    let segs = flow.controller().min_tso_segs(&mut sk);
    assert_eq!(segs, 1, "at {} bytes/s", flow.sk().sk_pacing_rate);
    assert_eq!(flow.controller().sndbuf_expand(&mut sk), 3);
}

/// Maximum of consecutive rounds at one pacing rate under a loss of 30 %.
fn steady_rounds(detect: bool) -> u32 {
    let path = Path { loss: 0.3, ..PATH };
    let mut flow = Flow::new(controller("bbr", &[("detect_policer", ParameterValue::Bool(detect))]), path);
    let (mut rate, mut round_end, mut rounds, mut longest) = (0, 0, 0, 0);
    flow.run_until(9.0, |flow| {
        let sk = flow.sk();
        if sk.delivered >= round_end {
            round_end = sk.delivered + sk.packets_in_flight();
            rounds += 1;
        }
        if sk.sk_pacing_rate != rate {
            (rate, rounds) = (sk.sk_pacing_rate, 0);
        }
        longest = longest.max(rounds);
    });
    longest
}

#[test]
fn a_steady_rate_under_heavy_loss_is_attributed_to_a_policer_for_48_rounds() {
    let with = steady_rounds(true);
    // Rounds are counted from the ACK of the packets in flight; with losses among them BBR's rounds are
    // slightly shorter.
    assert!((36..=50).contains(&with), "one rate for {with} rounds");
    // Otherwise no phase is longer than six rounds; under loss a bandwidth may last for a few more phases.
    let without = steady_rounds(false);
    assert!(without < 15, "one rate for {without} rounds");
}
