//! Sawteeth over a drop-tail link, with recovery, delayed ACKs and a queue: closed forms of AIMD, and
//! HyStart.

use cc::native::{Controller, Library};
use cc::{ParameterValue, ParameterValues, Source};
use tcp::test_kit::{Path, Round, Rounds};

fn rounds<const N: usize>(name: &str, path: Path, values: [(&str, ParameterValue); N]) -> Rounds<Controller> {
    let values: ParameterValues = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let library =
        Library::open(&Source::built_in(name).expect("built in"), &values).expect("valid parameters");
    Rounds::new(path, library.controller(None).expect("a main algorithm"))
}

/// Indices of the rounds that ended with a smaller window than the previous round.
fn reductions(rows: &[Round]) -> Vec<usize> {
    (1..rows.len()).filter(|i| rows[*i].cwnd < rows[i - 1].cwnd * 19 / 20).collect()
}

/// Mean window over complete sawteeth, and mean round trips per sawtooth, after the losses of slow start.
fn teeth(rows: &[Round]) -> (f64, f64) {
    let at = reductions(rows);
    let at = &at[at.len() / 2..];
    let (first, last) = (at[0], at[at.len() - 1]);
    let windows: f64 = rows[first..last].iter().map(|row| f64::from(row.cwnd)).sum();
    (windows / (last - first) as f64, (last - first) as f64 / (at.len() - 1) as f64)
}

#[track_caller]
fn assert_close(measured: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((measured / expected - 1.0).abs() <= tolerance, "{what}: {measured} instead of {expected}");
}

#[test]
fn the_sawtooth_of_griddt_over_a_queue_agrees_with_the_closed_form() {
    // One BDP of queue: losses at 2 BDP. From b w to w in (1 - b) w / A round trips, (1 + b) w / 2 on
    // average.
    let path = Path { rate_bps: 200_000_000, rtt_us: 50_000, queue_packets: 863, ..Path::default() };
    let full = path.bdp_packets() + 863.0;
    for (a, b) in [(1.0, 0.5), (3.0, 0.5), (7.0, 0.5), (7.0, 0.75), (20.0, 0.875)] {
        let values = [("a", ParameterValue::Decimal(a)), ("backoff", ParameterValue::Decimal(b))];
        let mut flow = rounds("griddt", path.clone(), values);
        let rows = flow.run(8 * ((1.0 - b) * full / a) as u64 + 50);
        let (mean, period) = teeth(&rows);
        // A round trip passes until a loss is detected, and one in recovery.
        let expected = (1.0 - b) * full / a;
        assert!(
            (expected..expected + 3.0).contains(&period),
            "A = {a}, b = {b}: {period} instead of {expected}"
        );
        assert_close(mean, (1.0 + b) * full / 2.0, 0.03, &format!("mean window, A = {a}, b = {b}"));
    }
}

#[test]
fn griddt_with_its_defaults_behaves_as_reno_over_any_path() {
    for path in [
        Path::default(),
        Path { queue_packets: 20, ..Path::default() },
        Path { loss: 0.001, ack_every: 1, ..Path::default() },
        Path { loss: 0.02, ack_every: 10, seed: 5, ..Path::default() },
    ] {
        let run = |name| {
            let mut flow = rounds(name, path.clone(), []);
            let mut rows = flow.run(200);
            flow.timeout();
            rows.extend(flow.run(100));
            flow.lose_next(3);
            flow.undo();
            rows.extend(flow.run(200));
            rows
        };
        assert_eq!(run("griddt"), run("reno"));
    }
}

#[test]
fn initial_ssthresh_and_m_start_a_long_path_without_loss() {
    let path = Path { rate_bps: 1_000_000_000, rtt_us: 117_000, queue_packets: 10_000, ..Path::default() };
    let bdp = path.bdp_packets();
    // Reno's slow start ends in a loss at BDP + queue; Grid DT's at the BDP, with M = 4 in fewer round trips.
    let mut reno = rounds("reno", path.clone(), []);
    assert!(reno.run(14).last().unwrap().lost > 0);
    let values =
        [("initial_ssthresh", ParameterValue::Integer(bdp as i64)), ("m", ParameterValue::Integer(4))];
    let mut griddt = rounds("griddt", path, values);
    let rows = griddt.run(14);
    assert_eq!(rows[13].lost, 0);
    let full = rows.iter().position(|row| f64::from(row.cwnd) >= bdp.floor()).unwrap();
    // 10 x 5^n reaches 10,100 segments in the fifth round trip.
    assert_eq!(full, 4);
}

#[test]
fn hystart_of_cubic_leaves_slow_start_before_the_loss() {
    let path = Path { rate_bps: 100_000_000, rtt_us: 100_000, queue_packets: 863, ..Path::default() };
    let mut flow = rounds("cubic", path.clone(), []);
    let row = flow.run(15).pop().unwrap();
    assert_eq!(row.lost, 0);
    // The ACK train takes half an RTT at half the BDP, or the queueing delay is detected.
    assert!(
        (path.bdp_packets() * 0.4..path.bdp_packets() * 1.5).contains(&f64::from(row.ssthresh)),
        "{}",
        row.ssthresh
    );
    let mut flow = rounds("cubic", path, [("hystart", ParameterValue::Bool(false))]);
    assert!(flow.run(15).pop().unwrap().lost > 0);
}

#[test]
fn the_sawtooth_of_cubic_returns_after_k_seconds() {
    let path = Path { rate_bps: 200_000_000, rtt_us: 100_000, queue_packets: 400, ..Path::default() };
    let full = path.bdp_packets() + 400.0;
    let mut flow = rounds("cubic", path, [("fast_convergence", ParameterValue::Bool(false))]);
    let rows = flow.run_until(120_000_000);
    let at = reductions(&rows);
    let (first, last) = (at[2], at[at.len() - 1]);
    let period_s = (rows[last].time_us - rows[first].time_us) as f64 / 1e6 / (at.len() - 3) as f64;
    // The last maximum is reached after K = cbrt(0.3 w / C). The plateau is flat: 10 segments are cbrt(10 /
    // C) s.
    let c = 410.0 / 1024.0;
    let k = (full * (1.0 - 717.0 / 1024.0) / c).cbrt();
    assert!((period_s - k).abs() <= (10.0 / c).cbrt(), "{period_s} s between losses, K = {k}");
}

#[test]
fn scalable_has_the_same_loss_interval_at_any_window() {
    let period = |rate_bps, queue_packets| {
        let path = Path { rate_bps, rtt_us: 100_000, queue_packets, ..Path::default() };
        teeth(&rounds("scalable", path, []).run(200)).1
    };
    let expected = (1.0_f64 / 0.875).ln() / 1.01_f64.ln();
    for (rate_bps, queue_packets) in [(50_000_000, 100), (500_000_000, 1000), (2_000_000_000, 4000)] {
        let period = period(rate_bps, queue_packets);
        assert!(
            (expected..expected + 3.0).contains(&period),
            "{rate_bps} bit/s: {period} instead of {expected}"
        );
    }
}
