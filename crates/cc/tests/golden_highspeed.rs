//! HighSpeed TCP with `rfc3649` against the table of RFC 3649, Appendix B, and its formulae.

use crate::ideal;
use cc::ParameterValue;
use ideal::{Flow, values};

/// The table: window w, a(w), b(w), as printed.
#[rustfmt::skip]
const TABLE: [(u32, u32, f64); 73] = [
    (38, 1, 0.50), (118, 2, 0.44), (221, 3, 0.41), (347, 4, 0.38), (495, 5, 0.37), (663, 6, 0.35), (851, 7, 0.34),
    (1058, 8, 0.33), (1284, 9, 0.32), (1529, 10, 0.31), (1793, 11, 0.30), (2076, 12, 0.29), (2378, 13, 0.28),
    (2699, 14, 0.28), (3039, 15, 0.27), (3399, 16, 0.27), (3778, 17, 0.26), (4177, 18, 0.26), (4596, 19, 0.25),
    (5036, 20, 0.25), (5497, 21, 0.24), (5979, 22, 0.24), (6483, 23, 0.23), (7009, 24, 0.23), (7558, 25, 0.22),
    (8130, 26, 0.22), (8726, 27, 0.22), (9346, 28, 0.21), (9991, 29, 0.21), (10661, 30, 0.21), (11358, 31, 0.20),
    (12082, 32, 0.20), (12834, 33, 0.20), (13614, 34, 0.19), (14424, 35, 0.19), (15265, 36, 0.19), (16137, 37, 0.19),
    (17042, 38, 0.18), (17981, 39, 0.18), (18955, 40, 0.18), (19965, 41, 0.17), (21013, 42, 0.17), (22101, 43, 0.17),
    (23230, 44, 0.17), (24402, 45, 0.16), (25618, 46, 0.16), (26881, 47, 0.16), (28193, 48, 0.16), (29557, 49, 0.15),
    (30975, 50, 0.15), (32450, 51, 0.15), (33986, 52, 0.15), (35586, 53, 0.14), (37253, 54, 0.14), (38992, 55, 0.14),
    (40808, 56, 0.14), (42707, 57, 0.13), (44694, 58, 0.13), (46776, 59, 0.13), (48961, 60, 0.13), (51258, 61, 0.13),
    (53677, 62, 0.12), (56230, 63, 0.12), (58932, 64, 0.12), (61799, 65, 0.12), (64851, 66, 0.11), (68113, 67, 0.11),
    (71617, 68, 0.11), (75401, 69, 0.10), (79517, 70, 0.10), (84035, 71, 0.10), (89053, 72, 0.10), (94717, 73, 0.09),
];

/// b(w) of section 5: from 0.5 at 38 segments to 0.1 at 83000, linear in ln w.
fn b(w: f64) -> f64 {
    0.5 + (0.1 - 0.5) * (w.ln() - 38_f64.ln()) / (83_000_f64.ln() - 38_f64.ln())
}

/// a(w) of section 5, with p(w) = 1 / (12.8 w^1.2) as in the program of Appendix B (0.078 in the text).
fn a(w: f64) -> f64 {
    w * w * 2.0 * b(w) / ((2.0 - b(w)) * w.powf(1.2) * 12.8)
}

fn highspeed(window: u32) -> Flow {
    Flow::new("highspeed", &values([("rfc3649", ParameterValue::Bool(true))]), 100_000).at_window(window)
}

/// Growth at this window, in segments per acknowledged window.
fn measured_a(window: u32) -> f64 {
    let mut flow = highspeed(window);
    flow.per_ack = window.div_ceil(1000);
    let acks = window / flow.per_ack;
    // If the window is not a whole number of ACKs, the acknowledged segments count.
    flow.growth_at_once(100) * f64::from(window) / f64::from(acks * flow.per_ack)
}

/// The share of the window that a loss costs, and its rounding error because the window is a whole number.
fn measured_b(window: u32) -> (f64, f64) {
    let mut flow = highspeed(window);
    flow.lose();
    (1.0 - flow.cwnd() / f64::from(window), 1.0 / f64::from(window))
}

#[test]
fn the_formulae_give_the_printed_table() {
    // The program prints a row whenever a(w) has grown by 1 since the previous row.
    let mut rows = vec![(38, 1, 0.50)];
    let mut last = 1.0;
    for w in 38..100_000 {
        let (a, b) = (a(f64::from(w)), b(f64::from(w)));
        if a > last + 1.0 {
            rows.push((w, a as u32, (b * 100.0).round() / 100.0));
            last = a;
        }
    }
    assert_eq!(rows, TABLE);
}

#[test]
fn the_algorithm_has_the_a_of_the_table() {
    for (w, a, _) in TABLE {
        let measured = measured_a(w);
        assert!(
            (measured - f64::from(a)).abs() <= 0.01 + f64::from(a) / 1e4,
            "a({w}) = {measured} instead of {a}"
        );
    }
}

#[test]
fn the_algorithm_has_the_b_of_the_table() {
    for (w, _, b) in TABLE {
        let (measured, whole) = measured_b(w);
        assert!((measured - b).abs() <= 0.005 + whole, "b({w}) = {measured} instead of {b}");
        // More precise than the table, from the formula.
        assert!((measured - self::b(f64::from(w))).abs() <= 0.0001 + whole, "b({w}) = {measured}");
    }
}

#[test]
fn between_the_rows_it_follows_the_formulae() {
    for w in [60, 150, 300, 1000, 5000, 20_000, 50_000, 83_000, 92_000] {
        let (measured, formula) = (measured_a(w), a(f64::from(w)));
        // a in the rows is truncated to whole segments: up to 0.07 less than the formula.
        assert!((measured - formula).abs() <= 0.1, "a({w}) = {measured} instead of {formula}");
        let (measured, whole) = measured_b(w);
        let formula = b(f64::from(w));
        assert!((measured - formula).abs() <= 0.003 + whole, "b({w}) = {measured} instead of {formula}");
    }
}

#[test]
fn below_38_segments_it_behaves_as_reno_and_above_the_table_as_in_the_last_row() {
    for w in [2, 10, 37, 38] {
        assert_eq!(measured_a(w), 1.0, "a({w})");
        let mut flow = highspeed(w);
        flow.lose();
        assert_eq!(flow.sk.snd_cwnd, (w - w / 2).max(2), "from {w}");
    }
    for w in [94_717, 200_000, 1_000_000] {
        assert!((measured_a(w) - 73.0).abs() < 0.1);
    }
}

#[test]
fn delayed_acks_do_not_slow_the_growth() {
    let mut flow = highspeed(10_661);
    flow.per_ack = 44;
    let measured = flow.growth_per_round(100);
    assert!((measured - 30.0).abs() < 0.2, "{measured}");
}
