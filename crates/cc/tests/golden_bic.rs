//! BIC's growth with `per_round_trip` between two losses against its closed form.

use crate::ideal;
use cc::{ParameterValue, ParameterValues};
use ideal::{Flow, assert_close, values};

fn paper() -> ParameterValues {
    values([("per_round_trip", ParameterValue::Bool(true))])
}

/// Round trips from one window to another.
fn rounds_until(flow: &mut Flow, window: u32) -> f64 {
    let mut rounds = 0.0;
    while flow.sk.snd_cwnd < window {
        let before = flow.cwnd();
        flow.round();
        let share = (f64::from(window) - before) / (flow.cwnd() - before);
        rounds += share.min(1.0);
    }
    rounds
}

/// A flow right after a loss at this window.
fn after_loss(w_max: u32) -> Flow {
    let mut flow = Flow::new("bic", &paper(), 100_000).at_window(w_max);
    flow.lose();
    flow
}

#[test]
fn growth_between_two_losses_agrees_with_the_closed_form() {
    let w_max = 10_000_u32;
    let mut flow = after_loss(w_max);
    assert_eq!(flow.sk.snd_cwnd, w_max * 819 / 1024);

    // Linear growth of 16 segments per round trip until the gap is 4 x 16; increments are whole numbers of
    // ACKs, 1 in 600.
    let line = f64::from(w_max - 64) - flow.cwnd();
    assert_close(rounds_until(&mut flow, w_max - 64), line / 16.0, 0.02, "line");
    // A quarter of the gap per round trip, gap = 64 exp(-n / 4), until it is 8.
    assert_close(rounds_until(&mut flow, w_max - 8), 4.0 * (64.0_f64 / 8.0).ln(), 0.05, "search");
    // At a gap of 8 still two segments per round trip, then a fifth of one until 4 above.
    assert_close(rounds_until(&mut flow, w_max + 4), 0.5 + 11.0 * 5.0, 0.02, "plateau");
    // A third of the distance: exp(n / 3) from 4 to 48.
    let probing = rounds_until(&mut flow, w_max + 48);
    assert_close(probing, 3.0 * (48.0_f64 / 4.0).ln(), 0.05, "probing");
    assert_close(rounds_until(&mut flow, w_max + 48 + 1600), 100.0, 0.02, "line above");
}

#[test]
fn each_segment_of_the_search_takes_a_window_per_increment() {
    // The same curve step by step: the time at each window is the sum of window / increment.
    let w_max = 2_000_u32;
    let mut flow = after_loss(w_max);
    let mut rounds = 0.0;
    let mut window = flow.sk.snd_cwnd;
    while window < w_max - 8 {
        let step = ((w_max - window) / 4).min(16);
        rounds += 1.0 / f64::from(step);
        window += 1;
    }
    assert_close(rounds_until(&mut flow, w_max - 8), rounds, 0.02, "line and search");
}

#[test]
fn a_loss_below_the_last_maximum_reduces_it_further() {
    // Fast convergence: the maximum becomes 800 x (1 + 0.8) / 2 = 720, which is reached on a plateau.
    let mut flow = after_loss(1000);
    flow.sk.snd_cwnd = 800;
    flow.lose();
    assert_eq!(flow.sk.snd_cwnd, 800 * 819 / 1024);
    flow.sk.snd_cwnd = 716;
    assert_close(flow.growth_per_round(50), 0.2, 0.02, "near 719");
    let mut slow_convergence = paper();
    slow_convergence.insert("fast_convergence".into(), ParameterValue::Bool(false));
    let mut flow = Flow::new("bic", &slow_convergence, 100_000).at_window(1000);
    flow.lose();
    flow.sk.snd_cwnd = 800;
    flow.lose();
    flow.sk.snd_cwnd = 796;
    assert_close(flow.growth_per_round(50), 0.2, 0.02, "near 800");
}

#[test]
fn small_windows_grow_as_in_reno_and_those_of_an_unknown_path_by_5_percent() {
    let mut flow = Flow::new("bic", &paper(), 100_000).at_window(10);
    assert_close(flow.growth_per_round(100), 1.0, 0.001, "10 segments");
    flow.lose();
    assert_eq!(flow.sk.snd_cwnd, 5);
    let mut flow = Flow::new("bic", &paper(), 100_000).at_window(200);
    assert_close(
        flow.growth_per_round(100),
        200.0 / 12.0,
        0.01,
        "16 a round trip, by whole numbers of ACKs: 1 in 12",
    );
    let mut flow = Flow::new("bic", &paper(), 100_000).at_window(2000);
    assert_close(flow.growth_per_round(100), 100.0, 0.001, "5 %");
    flow.lose();
    flow.time_out();
    flow = flow.at_window(2000);
    assert_close(flow.growth_per_round(100), 100.0, 0.001, "after a timeout");
}
