//! Scalable TCP: the time between two losses does not depend on the window.

use crate::ideal;
use cc::{ParameterValue, ParameterValues};
use ideal::{Flow, assert_close, values};

/// Round trips from a loss at this window until it is reached again, with the last one's fraction.
fn recovery_rounds(values: &ParameterValues, window: u32) -> f64 {
    let mut flow = Flow::new("scalable", values, 100_000).at_window(window);
    flow.lose();
    let start_s = flow.now_s();
    loop {
        let (before, before_s) = (flow.cwnd(), flow.now_s());
        flow.round();
        if flow.cwnd() >= f64::from(window) {
            let share = (f64::from(window) - before) / (flow.cwnd() - before);
            return (before_s - start_s) / 0.1 + share;
        }
    }
}

#[test]
fn recovery_takes_the_same_time_at_any_window() {
    let expected = (1.0_f64 / 0.875).ln() / 1.01_f64.ln();
    for window in [1_000, 10_000, 100_000, 1_000_000] {
        assert_close(
            recovery_rounds(&ParameterValues::new(), window),
            expected,
            0.01,
            &format!("window {window}"),
        );
    }
    let faster = values([
        ("segments_per_increment", ParameterValue::Integer(50)),
        ("backoff", ParameterValue::Decimal(0.75)),
    ]);
    let expected = (1.0_f64 / 0.75).ln() / 1.02_f64.ln();
    assert_close(recovery_rounds(&faster, 10_000), expected, 0.01, "2 % and 0.75");
}

#[test]
fn below_100_segments_growth_is_that_of_reno() {
    let mut flow = Flow::new("scalable", &ParameterValues::new(), 100_000).at_window(50);
    flow.rounds(20);
    assert!((69..=70).contains(&flow.sk.snd_cwnd), "{}", flow.sk.snd_cwnd);
    let mut flow = Flow::new("scalable", &ParameterValues::new(), 100_000).at_window(10_000);
    assert_close(flow.growth_per_round(10), 100.0, 0.0001, "1 % at 10000");
}

#[test]
fn a_loss_costs_an_eighth_rounded_down() {
    for (window, kept) in [(1000, 875), (15, 14), (8, 7), (7, 7), (1, 2)] {
        let mut flow = Flow::new("scalable", &ParameterValues::new(), 100_000).at_window(window);
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, kept, "from {window}");
    }
}
